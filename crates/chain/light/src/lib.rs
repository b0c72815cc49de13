//! The light client: checks what the chain is said to contain, with no network, clock or disk.
//!
//! It begins with something trusted, the seats of one epoch ([`Trust`], from the genesis document
//! or a checkpoint), and follows links that each can fail on their own:
//!
//! ```text
//!   Trust (seats of epoch e)
//!     │ certificate: a quorum of those seats finalized a header of epoch e
//!     │ header:      it is of this chain and announces the seats of epoch e + 1
//!     ▼
//!   seats of e + 1 ─► ... ─► the header in question
//!                              ├─ receipt: a leaf under its receipts root
//!                              └─ state:   a key's current value, or its absence, under its state root
//! ```
//!
//! [`Evidence`] is all that was said in one audit, each thing by such links: it is not believed but replayed.
//!
//! An error names the link that broke ([`Link`]). What is safe to conclude from a success: unless
//! a third or more of the seats of some epoch on the way conspired, the statement is final.

mod bundle;
mod certificate;
mod error;
mod evidence;
mod frame;
mod state;

pub use bundle::{EpochStep, FinalizedHeader, ReceiptBundle, StateBundle, Trust};
pub use certificate::{Finalization, Scheme, verifier, voters};
pub use error::{Link, VerifyError};
pub use evidence::{
    At, Closing, Evidence, EvidenceError, Facts, Happening, Moment, Replay, Report, Slash,
    Statement, Told, Waited, What,
};
pub use state::{CHUNK, Family, Presence, StateProof};
