//! Runs programs: one shape for every kind, each lease in its own child process.

#[cfg(feature = "gpu")]
pub mod device;
#[cfg(feature = "gpu")]
pub mod gpu;
