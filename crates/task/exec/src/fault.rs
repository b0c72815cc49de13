//! Why a program was refused, and why a run ended without an output.
//!
//! Both are data: they cross the pipe between an executor and its supervisor, and later the network.
//! The type says whose fault it was; the words are for people.

use serde::{Deserialize, Serialize};

/// Why a program cannot be run here. Nothing was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The program is wrong: it would be refused everywhere.
    #[error("the program is not valid: {reason}")]
    Program {
        /// What is wrong.
        reason: String,
    },
    /// The program may be right, but not for this machine or this build.
    #[error("this machine cannot run it: {reason}")]
    Machine {
        /// What is missing.
        reason: String,
    },
    /// A file of the program is not what its address says, or cannot be read.
    #[error("{file}: {reason}")]
    File {
        /// Which one.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Why a run gave no output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Fault {
    /// The program stopped itself, or broke its interface. Whoever repeats the run finds the same.
    #[error("the program failed: {reason}")]
    Program {
        /// How.
        reason: String,
    },
    /// The input is not one for this program.
    #[error("the input does not fit: {reason}")]
    Input {
        /// Why.
        reason: String,
    },
    /// Nothing can go on from the checkpoint that was given.
    #[error("the checkpoint does not fit: {reason}")]
    Checkpoint {
        /// Why.
        reason: String,
    },
    /// More fuel was wanted than a segment may burn.
    #[error("a segment burned all of its {limit} units of fuel")]
    Fuel {
        /// The most.
        limit: u64,
    },
    /// More memory was wanted than is allowed.
    #[error("more than {limit} bytes of memory were wanted")]
    Memory {
        /// The most.
        limit: u64,
    },
    /// A state, or the output, grew over its limit.
    #[error("the {what} is over its limit of {limit} bytes")]
    TooLarge {
        /// State or output.
        what: Grown,
        /// The most.
        limit: u64,
    },
    /// The time was over.
    #[error("the run took more than its {milliseconds} ms")]
    Deadline {
        /// What it had.
        milliseconds: u64,
    },
    /// Somebody stopped it.
    #[error("the run was cancelled")]
    Cancelled,
    /// The device or its driver failed; another machine may succeed.
    #[error("the device failed: {reason}")]
    Device {
        /// What it said.
        reason: String,
    },
    /// The executor's process died under the run.
    #[error("the executor died: {how}")]
    Crashed {
        /// Signal or exit code, and the last words.
        how: String,
    },
    /// The device has less memory free than was wanted, and nothing is wrong with it.
    #[error("the device has too little memory for it")]
    DeviceMemory,
}

/// What grew too large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Grown {
    /// The state between two steps.
    State,
    /// What is given to the client.
    Output,
}

impl std::fmt::Display for Grown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::State => "state",
            Self::Output => "output",
        })
    }
}

impl Fault {
    /// The checkpoint does not fit for this reason.
    pub(crate) fn checkpoint(reason: impl std::fmt::Display) -> Self {
        Self::Checkpoint { reason: reason.to_string() }
    }

    /// The program failed for this reason.
    pub fn program(reason: impl std::fmt::Display) -> Self {
        Self::Program { reason: reason.to_string() }
    }

    /// Whether whoever repeats it fails like that; otherwise the machine may be at fault.
    pub const fn is_found_by_all(&self) -> bool {
        match self {
            Self::Program { .. } | Self::Fuel { .. } | Self::TooLarge { .. } => true,
            Self::Input { .. }
            | Self::Checkpoint { .. }
            | Self::Memory { .. }
            | Self::DeviceMemory
            | Self::Deadline { .. }
            | Self::Cancelled
            | Self::Device { .. }
            | Self::Crashed { .. } => false,
        }
    }
}

impl Refusal {
    /// The program is wrong for this reason.
    pub fn program(reason: impl std::fmt::Display) -> Self {
        Self::Program { reason: reason.to_string() }
    }
}
