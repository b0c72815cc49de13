//! Runs programs: one shape for every kind, each lease in its own child process.

#[cfg(target_os = "linux")]
pub mod native;
