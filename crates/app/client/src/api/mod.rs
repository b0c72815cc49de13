//! The contract of a node's RPC: paths, answers, problems and stream events as JSON.
//!
//! The client crate owns it and the node implements it, so a change breaks the build of both sides
//! instead of their conversation. Domain types have no JSON of their own; [`form`] gives it.
//!
//! | value | JSON |
//! |---|---|
//! | money | decimal text in oGPU, `"1.5"` |
//! | hashes, keys, exact bytes | `0x` and hexadecimal digits |
//! | addresses | checksummed text (EIP-55) |
//! | heights, epochs, nonces, weights, thousandths | numbers |
//! | times | milliseconds since the Unix epoch, numbers |
//!
//! Errors are problems of RFC 9457 with a stable `code` ([`Problem`]). A field that is not there
//! is left out, never `null`.

mod account;
mod chain;
mod event;
pub mod form;
pub mod paths;
mod problem;
mod transaction;

pub use account::{AccountInfo, DelegationInfo, StateInfo};
pub use chain::{
    BlockEvent, BlockInfo, EpochInfo, ParametersInfo, Role, Status, SupplyInfo, ValidatorInfo,
    ValidatorList, ValidatorState,
};
pub use event::EventInfo;
pub use form::{HexError, digest_from_text, hex_from_text, hex_text};
pub use problem::{PROBLEM_TYPE, Problem, codes};
pub use transaction::{
    Batch, MAX_BATCH, MAX_BODY, OutcomeName, Progress, ReceiptPage, Submission, SubmissionStatus,
    TransactionInfo, TransactionPage,
};
