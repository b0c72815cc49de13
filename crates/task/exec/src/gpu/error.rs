//! Why something did not happen on a GPU.
//!
//! Invariant: messages of drivers and compilers are cut to [`MESSAGE_MAX`] bytes, because a kernel
//! decides how long they become.

use std::time::Duration;

use super::AdapterId;

/// The longest message that is kept.
pub const MESSAGE_MAX: usize = 4096;

/// Why something did not happen on a GPU.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GpuError {
    /// The machine has no such adapter.
    #[error("there is no GPU `{id}` on this machine{}", listed(.others))]
    NoAdapter {
        /// The one that was wanted.
        id: AdapterId,
        /// Those that there are.
        others: Vec<AdapterId>,
    },
    /// The driver did not open the adapter.
    #[error("{name} could not be opened: {reason}")]
    Open {
        /// The adapter's name.
        name: String,
        /// What the driver says.
        reason: String,
    },
    /// The kernel is wrong.
    #[error("the kernel is not valid{}: {reason}", place(*.line))]
    Kernel {
        /// Where, if the compiler knows.
        line: Option<u32>,
        /// What the compiler says.
        reason: String,
    },
    /// More than the adapter can do, or than was allowed.
    #[error("{wanted} {what} were wanted, at most {limit} are possible")]
    Limit {
        /// Of what.
        what: &'static str,
        /// So much was wanted.
        wanted: u64,
        /// The most.
        limit: u64,
    },
    /// Buffers, places in them and pipelines do not fit each other.
    #[error("this does not fit together: {reason}")]
    Misfit {
        /// What does not.
        reason: String,
    },
    /// The device has no memory left.
    #[error("the device is out of memory")]
    OutOfMemory,
    /// The work is not done in time; it still runs.
    #[error("the device was not done after {} ms", after.as_millis())]
    Timeout {
        /// So long was waited.
        after: Duration,
    },
    /// The device is gone: removed, reset, or closed.
    #[error("the device is lost: {reason}")]
    Lost {
        /// What the driver says.
        reason: String,
    },
    /// The driver, or the layer above it, failed in a way that nobody expected.
    #[error("the driver failed: {reason}")]
    Driver {
        /// What it says.
        reason: String,
    },
}

impl GpuError {
    /// Whether the program is at fault, so that another device like this one would say the same.
    pub const fn is_of_program(&self) -> bool {
        matches!(self, Self::Kernel { .. } | Self::Limit { .. } | Self::Misfit { .. })
    }

    /// What the device says against something that was done with it.
    pub(super) fn of(error: &wgpu::Error) -> Self {
        match error {
            wgpu::Error::OutOfMemory { .. } => Self::OutOfMemory,
            wgpu::Error::Validation { .. } => Self::Misfit { reason: cut(error.to_string()) },
            wgpu::Error::Internal { .. } => Self::Driver { reason: cut(error.to_string()) },
        }
    }
}

/// The line of a kernel, in words.
fn place(line: Option<u32>) -> String {
    line.map_or_else(String::new, |line| format!(" in line {line}"))
}

/// The ids that exist, in words.
fn listed(ids: &[AdapterId]) -> String {
    let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
    if ids.is_empty() { String::new() } else { format!(", which has {}", ids.join(", ")) }
}

/// At most [`MESSAGE_MAX`] bytes of a message, cut between two characters.
pub(super) fn cut(mut message: String) -> String {
    let end = message.floor_char_boundary(MESSAGE_MAX);
    message.truncate(end);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_is_cut_between_two_characters() {
        assert_eq!(cut("short".to_owned()), "short");
        let long = cut("é".repeat(MESSAGE_MAX).replacen('é', "e", 1));
        assert_eq!(long.len(), MESSAGE_MAX - 1);
        assert!(long.ends_with('é'));
    }

    #[test]
    fn an_error_says_whose_fault_it_is() {
        let limit = GpuError::Limit { what: "bytes", wanted: 2, limit: 1 };
        assert!(limit.is_of_program());
        assert_eq!(limit.to_string(), "2 bytes were wanted, at most 1 are possible");
        assert!(!GpuError::OutOfMemory.is_of_program());
        let kernel = GpuError::Kernel { line: Some(3), reason: "no such name".to_owned() };
        assert_eq!(kernel.to_string(), "the kernel is not valid in line 3: no such name");
    }
}
