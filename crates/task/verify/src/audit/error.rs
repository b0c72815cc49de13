//! Why an audit takes no notice of something.

use crate::dissection::MoveError;

/// Why an input is refused. It has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not now.
    #[error("the audit is in another phase")]
    Phase,
    /// The deadline is not over yet, or is over already.
    #[error("not before the deadline, and nothing else after it")]
    Time,
    /// Not drawn, or heard already.
    #[error("this verifier was not drawn, or has answered")]
    Verifier,
    /// Not about exactly what is to be told.
    #[error("it is not about what is asked for")]
    Subject,
    /// The seal is not of this answer.
    #[error("the seal is not of this answer")]
    Seal,
    /// A move that a dissection does not allow.
    #[error(transparent)]
    Move(#[from] MoveError),
}
