//! A client's own check of an output: a program of the referee's kind that says yes or no.
//!
//! It gets the length of the input (four bytes, little end first), the input and the output, and says yes
//! by a first state that is the one byte 1. Its other functions are never called.
//! The ledger judges by it, and client and provider before it, so all three say the same.

use crate::wasm::{Ineligible, Limits, Program};

/// Fuel of one predicate: half a millisecond or so.
pub const FUEL: u64 = 200_000;

/// A predicate that keeps to the rules.
#[derive(Debug)]
pub struct Predicate(Program);

impl Predicate {
    /// Checks that a module is a program of the referee's kind.
    pub fn check(module: &[u8]) -> Result<Self, Ineligible> {
        Program::check(module, Limits { fuel: FUEL, ..Limits::REFEREE }).map(Self)
    }

    /// Whether it accepts an output. One that traps, or runs out of fuel, does not.
    pub fn accepts(&self, input: &[u8], output: &[u8]) -> bool {
        let Ok(length) = u32::try_from(input.len()) else { return false };
        let given = [&length.to_le_bytes(), input, output].concat();
        self.0.init(&given).is_ok_and(|said| said.bytes == [1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: &[u8] = b"opengpu:\n65536\n";
    const OUTPUT: &str = "bits 15\ntext opengpu:0000000000007d36\nsha-256 \
        0001f659e6a6ee8f32f2ff351274ae4dea690f1452b062254e2674f149e437fb\n";

    #[test]
    fn the_predicate_of_the_search_knows_true_outputs_from_others() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/sha256-search");
        let module = std::fs::read(format!("{path}/predicate.wasm")).unwrap();
        assert!(module.len() <= 3 * 1024, "it travels in a transaction");
        let predicate = Predicate::check(&module).unwrap();
        let judge = |input: &[u8], output: &str| predicate.accepts(input, output.as_bytes());
        assert!(judge(INPUT, OUTPUT));
        for (from, to) in [("15", "16"), ("7d36", "7d37"), ("0001f6", "0001f7"), ("fb\n", "fb")] {
            assert!(!judge(INPUT, &OUTPUT.replace(from, to)), "{from}");
        }
        assert!(!judge(INPUT, &format!("{OUTPUT}x")));
        // Another prefix, a number that was not to be tried, and a search that finds more.
        let text = "text opengpu:";
        assert!(!judge(b"other:\n65536\n", &OUTPUT.replace(text, "text other:")));
        assert!(!judge(b"opengpu:\n32000\n", OUTPUT));
        assert!(judge(b"opengpu:\n1000000\n", OUTPUT));
        assert!(!judge(b"opengpu:\n2000000\n", OUTPUT));
        assert!(!judge(b"", ""));
    }

    #[test]
    fn what_is_no_module_is_no_predicate() {
        assert!(Predicate::check(b"yes").is_err());
    }
}
