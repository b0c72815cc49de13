//! Runs programs: one shape for every kind, each lease in its own child process.

#[cfg(feature = "proxy")]
pub mod proxy;
