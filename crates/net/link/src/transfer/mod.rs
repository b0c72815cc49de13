//! Artifacts between endpoints: verified while they arrive, resumed, from several holders at once.
//!
//! ```text
//!   get ──► who has what? ──► outline, proven ──► plan ──► lane ─► group ─► checked ─► part on disk
//!                                                     └──► lane ...              all there ─► whole
//! ```
//!
//! Whoever wants an artifact fetches it: [`get()`] from those who hold it. Whoever has one and wants it
//! elsewhere asks the other end to fetch it over the same session ([`put()`]); so there is one direction
//! of transfer and one place that checks. A second holder is one that is asked to keep it for a time.
//!
//! Invariants:
//! - No byte counts before its group was hashed against the address.
//! - A holder that sends something else, says something else, or does nothing is dropped; what it had
//!   is fetched from the others. It can cost time and one group, never truth.
//! - What is there, whole or in part, is not fetched again.

mod get;
mod holder;
mod plan;
mod put;
mod wire;

use tokio::task::JoinError;

pub use get::{Dropped, Fault, Fetched, GetError, Progress, get, get_all};
pub use holder::{Holder, Policy, Turn};
pub use put::{PutError, put};
pub use wire::{GROUPS, HAVE, KEEP, Keep, LONGEST_RUN, Named, News, OUTLINE, Run, Size};

/// Runs work on the disk where it may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    joined(tokio::task::spawn_blocking(work).await)
}

/// What a task ended with. Nobody cancels them, so the only failure is a panic, which goes on here.
fn joined<T>(ended: Result<T, JoinError>) -> T {
    ended.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}
