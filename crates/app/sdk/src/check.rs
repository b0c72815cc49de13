//! A client's own check of an output: the chain runs it, and only an output that it accepts is paid. Pure.

use opengpu_referee::predicate::Predicate;
use opengpu_referee::wasm::Ineligible;
use opengpu_types::{ArtifactId, Witness};

/// Why something cannot be judged on chain.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The module does not fit into a transaction.
    #[error("a predicate has at most {} bytes, this one has {size}", Witness::MAX)]
    TooLarge {
        /// Its bytes.
        size: usize,
    },
    /// The module is no program of the referee's kind.
    #[error("it is no predicate: {0}")]
    Module(#[from] Ineligible),
    /// The input does not fit into a transaction.
    #[error("a predicate judges what is made of at most {} bytes, not of {size}", Witness::MAX)]
    Input {
        /// Its bytes.
        size: usize,
    },
}

/// A check that the chain can run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    module: Vec<u8>,
}

impl Check {
    /// Checks that a module is a predicate, and small enough to be shown to the chain.
    pub fn new(module: Vec<u8>) -> Result<Self, CheckError> {
        if module.len() > Witness::MAX {
            return Err(CheckError::TooLarge { size: module.len() });
        }
        Predicate::check(&module)?;
        Ok(Self { module })
    }

    /// Checks that what is made of an input can be shown to the chain.
    pub const fn takes(&self, input: &[u8]) -> Result<(), CheckError> {
        let size = input.len();
        if size > Witness::MAX { Err(CheckError::Input { size }) } else { Ok(()) }
    }

    /// Its address, which a task names.
    pub fn id(&self) -> ArtifactId {
        ArtifactId::of(&self.module)
    }

    /// Its bytes.
    pub fn module(&self) -> &[u8] {
        &self.module
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_chain_can_run_and_take_is_a_check() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/sha256-search/");
        let read = |name: &str| std::fs::read(format!("{path}{name}")).unwrap();
        let check = Check::new(read("predicate.wasm")).unwrap();
        assert_eq!(check.id(), ArtifactId::of(check.module()));
        assert!(check.takes(&[0; Witness::MAX]).is_ok());
        assert!(matches!(check.takes(&[0; Witness::MAX + 1]), Err(CheckError::Input { .. })));
        assert!(matches!(
            Check::new(read("program.wasm")),
            Err(CheckError::TooLarge { size: 4_507 })
        ));
        assert!(matches!(Check::new(b"text".to_vec()), Err(CheckError::Module(_))));
    }
}
