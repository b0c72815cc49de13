//! The least that a rental can be given: with less it would not start, or do nothing.

use crate::values;
use opengpu_exec::program::ByteSize;
use opengpu_types::Millis;

/// Below it the kernel ends the sandbox while it is built.
const MEMORY_MIB: u32 = 16;
/// A shell, and what it starts.
const PROCESSES: u64 = 2;
/// The sandbox itself takes a part of it.
const TIME: Millis = Millis(1_000);

/// `1 GiB`, but not too little of it.
pub(super) fn memory(text: &str) -> Result<ByteSize, String> {
    let size: ByteSize = text.parse().map_err(|error| format!("{error}"))?;
    if size < ByteSize::mebibytes(MEMORY_MIB) {
        return Err(format!("the least is {MEMORY_MIB} MiB"));
    }
    Ok(size)
}

/// `1h`, but not too little of it.
pub(super) fn time(text: &str) -> Result<Millis, String> {
    let span = values::span(text)?;
    if span < TIME { Err("the least is 1s".to_owned()) } else { Ok(span) }
}

/// `256`, but not too few.
pub(super) fn processes(text: &str) -> Result<u64, String> {
    let count = text.parse().map_err(|_| "it is not a number".to_owned())?;
    if count < PROCESSES { Err(format!("the least is {PROCESSES}")) } else { Ok(count) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_is_told_with_the_least() {
        assert_eq!(memory("100"), Err("the least is 16 MiB".to_owned()));
        assert_eq!(memory("16 MiB").unwrap().bytes(), 16 << 20);
        assert_eq!(time("0s"), Err("the least is 1s".to_owned()));
        assert_eq!(time("1s"), Ok(Millis(1_000)));
        assert_eq!(processes("1"), Err("the least is 2".to_owned()));
        assert_eq!(processes("2"), Ok(2));
    }

    #[test]
    fn what_is_no_value_at_all_is_told_as_such() {
        assert!(memory("much").unwrap_err().contains("64 MiB"));
        assert!(time("long").unwrap_err().contains("12h"));
        assert!(processes("-1").is_err());
    }
}
