//! Runs programs: one shape for every kind, each lease in its own child process.

#[cfg(feature = "llm")]
pub mod llm;
#[cfg(feature = "llm")]
pub mod train;
