//! What parties of a lease sign or seal.

use opengpu_crypto::{Digest, hash};
use opengpu_types::{Address, ArtifactId, ChainId, LeaseId, Millis};

/// Domain under which a session key signs for usage.
pub const USAGE: &[u8] = b"opengpu/usage/v1";
/// Domain of the seal of an output.
const OUTPUT: &str = "opengpu/output-seal/v1";

/// What a client's session key signs for the usage of a lease: so much time of every leased device.
pub fn usage(chain: ChainId, lease: &LeaseId, time: Millis) -> Digest {
    let (chain, time) = (chain.0.to_be_bytes(), time.0.to_be_bytes());
    hash("opengpu/usage-statement/v1", &[&chain, lease.task.0.as_ref(), &[lease.number], &time])
}

/// What a copy commits to instead of its output, so that no other copy can repeat it.
pub fn seal_output(
    chain: ChainId,
    lease: &LeaseId,
    provider: &Address,
    output: &ArtifactId,
    salt: &[u8; 32],
) -> ArtifactId {
    let (chain, number) = (chain.0.to_be_bytes(), [lease.number]);
    let parts: [&[u8]; 6] =
        [&chain, lease.task.0.as_ref(), &number, provider.as_bytes(), output.0.as_ref(), salt];
    ArtifactId(hash(OUTPUT, &parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::TaskId;

    fn lease(task: u8, number: u8) -> LeaseId {
        LeaseId { task: TaskId(Digest([task; 32])), number }
    }

    #[test]
    fn a_statement_binds_everything_in_it() {
        let said = usage(ChainId(1), &lease(1, 1), Millis(1));
        let others = [
            usage(ChainId(2), &lease(1, 1), Millis(1)),
            usage(ChainId(1), &lease(2, 1), Millis(1)),
            usage(ChainId(1), &lease(1, 2), Millis(1)),
            usage(ChainId(1), &lease(1, 1), Millis(2)),
        ];
        assert!(!others.contains(&said));
    }

    #[test]
    fn a_seal_of_an_output_binds_everything_in_it() {
        let seal = |chain, lease: LeaseId, provider: u8, output: u8, salt: u8| {
            let (provider, output) =
                (Address::new([provider; 20]), ArtifactId(Digest([output; 32])));
            seal_output(ChainId(chain), &lease, &provider, &output, &[salt; 32])
        };
        let mine = seal(1, lease(1, 1), 1, 1, 1);
        let others = [
            seal(2, lease(1, 1), 1, 1, 1),
            seal(1, lease(2, 1), 1, 1, 1),
            seal(1, lease(1, 2), 1, 1, 1),
            seal(1, lease(1, 1), 2, 1, 1),
            seal(1, lease(1, 1), 1, 2, 1),
            seal(1, lease(1, 1), 1, 1, 2),
        ];
        assert!(!others.contains(&mine));
    }
}
