//! The server for applications. Today it is OpenAI's API over an engine of this machine, without
//! any chain; the network's gateway grows around it.
//!
//! ```text
//!   socket ─► key ─► body ─► request ─► queue ─► Engine ─► pieces ─► answer or events
//! ```
//!
//! | module | what |
//! |---|---|
//! | [`engine`] | what runs a model, as a trait |
//! | [`local`] | an engine that is an executor of this machine |
//! | [`upstream`] | an engine that is a server the owner already runs |
//! | `openai` | routes, wire types and errors of the API |
//! | [`serve`] | sockets, keys, limits, the end |
//!
//! - A client that goes away ends its work: an answer is driven by the socket it is written to, and
//!   there is no task that could outlive it.
//! - Everything has a limit, and whoever meets one is told which.
//! - Loopback unless told otherwise; beyond it never without a key, never in the clear.
//! - Texts and keys are in no log and no metric.

pub mod engine;
mod keys;
pub mod local;
mod metrics;
mod openai;
mod queue;
mod settings;
mod sockets;
pub mod upstream;

pub use keys::{KeyError, Keys};
pub use settings::{Limits, ServeError, Settings};
pub use sockets::serve;
