//! The client's own check of an output, run by the referee.
//!
//! The predicate is a program of the referee's kind. It gets the length of the input (four bytes, little
//! end first), the input and the output, and says yes by a first state that is the one byte 1.

use opengpu_referee::wasm::{Limits, Program};
use opengpu_types::{ArtifactId, Failure, Witness};

/// Fuel of one predicate: half a millisecond or so.
const FUEL: u64 = 200_000;

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
    let length = u32::try_from(witness.input.len()).map_err(|_| Failure::BadWitness)?;
    let given = [&length.to_le_bytes(), &*witness.input, &*witness.output].concat();
    let limits = Limits { fuel: FUEL, ..Limits::REFEREE };
    let program = Program::check(&witness.predicate, limits).map_err(|_| Failure::BadWitness)?;
    match program.init(&given) {
        Ok(said) if said.bytes == [1] => Ok(()),
        _ => Err(Failure::Rejected),
    }
}
