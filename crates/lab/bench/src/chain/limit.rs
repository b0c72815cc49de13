//! The signature limit of this machine: how many transfers a second four validators could have
//! checked on its cores if checking signatures were all there is.

use super::accounts::NODES;
use commonware_parallel::Rayon;
use opengpu_crypto::{
    Ed25519Claim, Keypair, PublicKey, SigningMessage, hash, verify_ed25519_batch,
};
use rand::{SeedableRng as _, rngs::StdRng};
use std::{
    num::NonZeroUsize,
    thread,
    time::{Duration, Instant},
};

/// Batch sizes that are tried; the best one counts.
const SIZES: [usize; 7] = [64, 128, 256, 512, 1_024, 2_048, 4_096];
const LARGEST: u32 = 4_096;
/// How long each size is tried.
const SPAN: Duration = Duration::from_millis(300);

/// Signatures of different keys to check again and again, and all cores to do it.
#[derive(Debug)]
pub(super) struct Limit {
    claims: Vec<Ed25519Claim>,
    workers: Rayon,
}

impl Limit {
    pub(super) fn new() -> Self {
        let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        Self {
            claims: (0..LARGEST).filter_map(claim).collect(),
            workers: Rayon::new(cores).expect("as many threads as there are cores"),
        }
    }

    /// Transfers per second: the best rate over the batch sizes, over the number of validators.
    pub(super) fn per_second(&self) -> f64 {
        let best = SIZES.iter().map(|size| self.rate(*size)).fold(0.0, f64::max);
        best / f64::from(NODES)
    }

    /// Signatures per second in batches of one size.
    fn rate(&self, size: usize) -> f64 {
        let batch = self.claims.get(..size).unwrap_or(&self.claims);
        let mut rng = StdRng::seed_from_u64(1);
        let (start, mut batches) = (Instant::now(), 0u32);
        while start.elapsed() < SPAN {
            let holds = verify_ed25519_batch(&mut rng, batch, &self.workers);
            assert!(holds, "honest signatures hold");
            batches = batches.saturating_add(1);
        }
        let size = u32::try_from(batch.len()).unwrap_or(u32::MAX);
        f64::from(batches) * f64::from(size) / start.elapsed().as_secs_f64()
    }
}

fn claim(number: u32) -> Option<Ed25519Claim> {
    let keypair = Keypair::ed25519(hash("opengpu/bench-limit/v1", &[&number.to_be_bytes()]).0);
    let body = hash("opengpu/bench-limit-body/v1", &[&number.to_be_bytes()]);
    let message = SigningMessage { body, text: String::new(), chain_id: 0 };
    match keypair.public_key() {
        PublicKey::Ed25519(key) => {
            Some(Ed25519Claim { key, body, signature: *keypair.sign_bytes(&message).as_bytes() })
        }
        PublicKey::Secp256k1(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use commonware_parallel::Sequential;

    #[test]
    fn the_claims_are_of_different_keys_and_hold() {
        let claims: Vec<_> = (0..8).filter_map(claim).collect();
        let keys: std::collections::BTreeSet<_> = claims.iter().map(|claim| claim.key).collect();
        assert_eq!(keys.len(), 8);
        assert!(verify_ed25519_batch(&mut StdRng::seed_from_u64(1), &claims, &Sequential));
    }
}
