//! Runs programs: one shape for every kind, each lease in its own child process.
//!
//! ```text
//!   Supervisor ──frames──► executor (child) ──► Registry ──► back end ──► program
//!        ▲                      │
//!        └── news, usage, segments, output, or a typed Fault
//! ```
//!
//! - [`Program`]: a folder with a manifest, addressed by its content.
//! - [`backend`]: what every kind of program is to the rest: a state, advanced in steps.
//! - [`run`]: a run or a part of it segment by segment, and one segment again.
//! - [`look`]: what is inside of a segment, for audits and disputes.
//! - [`Supervisor`]: keeps the process; whatever happens in it becomes a [`Fault`].
//! - [`child`]: the process itself, behind walls of its own.
//! - [`trial`]: devices that show that they are there;
//! - [`archive`]: a folder as one byte string, for inputs that are folders.
//!
//! It knows neither keys nor money, and never reaches the node.

pub mod archive;
pub mod artifact;
pub mod backend;
pub mod child;
pub mod compare;
#[cfg(feature = "gpu")]
pub mod device;
mod fault;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod lines;
#[cfg(feature = "llm")]
pub mod llm;
pub mod look;
#[cfg(target_os = "linux")]
pub mod native;
#[cfg(all(feature = "onnx", target_os = "linux"))]
pub mod onnx;
pub mod program;
mod protocol;
#[cfg(feature = "proxy")]
pub mod proxy;
pub mod record;
mod registry;
pub mod run;
pub mod scratch;
mod stop;
mod supervisor;
#[cfg(feature = "llm")]
pub mod train;
pub mod trial;
mod usage;
mod walls;
#[cfg(feature = "wasm")]
pub mod wasm;

pub use fault::{Fault, Grown, Refusal};
pub use program::Program;
pub use protocol::{Data, MOST_LOGGED, News, Standing};
pub use registry::Registry;
pub use stop::Stop;
pub use supervisor::{
    Check, Errand, GRACE, Launch, Looking, Outcome, StartError, Supervisor, Ticket,
};
pub use usage::Usage;
