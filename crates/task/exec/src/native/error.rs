//! Why a sandbox did not start: the type tells whether the task, the machine or we are at fault.
//!
//! How a guest *ended* is no error and lives in [`Ended`](super::Ended).

use std::io;
use std::path::PathBuf;

/// Why no guest was started.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// The fault of whoever wrote the task.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The program of the task is not there, or is no program.
    #[error("the command `{name}` cannot be started: {reason}")]
    Command {
        /// As the task names it.
        name: String,
        /// What the kernel says.
        reason: String,
    },
    /// This machine cannot isolate; nothing is run without the walls.
    #[error("this machine cannot isolate a guest: {why}")]
    Unavailable {
        /// What is missing, and what helps.
        why: String,
    },
    /// The walls did not come up.
    #[error("the sandbox could not be built ({stage}): {said}")]
    Setup {
        /// Where it stopped.
        stage: &'static str,
        /// What the tool or the kernel says.
        said: String,
    },
    /// The operating system refused something that is ours.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The refusal.
        #[source]
        error: io::Error,
    },
}

impl SandboxError {
    /// For `map_err`: names what was tried.
    pub(super) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::System { what, error: error.into() }
    }
}

/// What a task may not ask for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not one of the names that a task may set.
    #[error("the variable `{name}` may not be set; use a name that starts with TASK_")]
    Variable {
        /// Its name.
        name: String,
    },
    /// Its text is too long or holds a zero byte.
    #[error("the value of `{name}` is too long or holds a zero byte")]
    Value {
        /// Of which variable, argument or command.
        name: String,
    },
    /// Files appear below `/inputs` and `/opt` only, under plain names.
    #[error("`{}` is no place for an input", place.display())]
    Place {
        /// The place.
        place: PathBuf,
    },
    /// A secret is one file with a plain name.
    #[error("`{name}` is no name for a secret")]
    SecretName {
        /// The name.
        name: String,
    },
    /// Over a limit of this sandbox.
    #[error("{count} {what}, at most {limit} are allowed")]
    TooMany {
        /// What is counted.
        what: &'static str,
        /// How many there are.
        count: u64,
        /// The most.
        limit: u64,
    },
    /// Nothing that could be typed to.
    #[error("neither bash nor sh is in the image; name a command that it has")]
    Shell,
    /// Not a device that work is done on.
    #[error("`{name}` is no device that can be lent")]
    Device {
        /// The name.
        name: String,
    },
}
