//! The client's own check of an output, run by the referee.

use opengpu_referee::predicate::Predicate;
use opengpu_types::{ArtifactId, Failure, Witness};

/// Whether the predicate of a task accepts an output.
pub(super) fn check(
    witness: &Witness,
    program: ArtifactId,
    input: ArtifactId,
    output: Option<ArtifactId>,
) -> Result<(), Failure> {
    let same = ArtifactId::of(&witness.predicate) == program
        && ArtifactId::of(&witness.input) == input
        && Some(ArtifactId::of(&witness.output)) == output;
    if !same {
        return Err(Failure::BadWitness);
    }
    let predicate = Predicate::check(&witness.predicate).map_err(|_| Failure::BadWitness)?;
    match predicate.accepts(&witness.input, &witness.output) {
        true => Ok(()),
        false => Err(Failure::Rejected),
    }
}
