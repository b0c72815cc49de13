//! Why a server could not be used, and why it gave nothing. Each variant tells whose fault it is.

use std::{path::PathBuf, time::Duration};

/// Why a server cannot be set up as it was configured. The owner's to mend.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Not a URL that can be used.
    #[error("`{url}` is no address of a server: {reason}")]
    Url {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Another machine, and nobody said that this is meant.
    #[error("`{host}` is not this machine; say explicitly that requests may go there")]
    NotLoopback {
        /// Where it leads.
        host: String,
    },
    /// The key would cross a network for everybody to read.
    #[error(
        "a key for `{host}` would be sent in the clear; use a tunnel that ends on this machine"
    )]
    KeyInTheClear {
        /// Where it leads.
        host: String,
    },
    /// The file of the key cannot be read.
    #[error("the key in {path} cannot be read: {source}")]
    KeyFile {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is there, and what is in it is no key.
    #[error("the file {path} does not hold a key: {reason}")]
    Key {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Why a request gave nothing, or not everything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    /// Nobody answers: the server is not running.
    #[error("the server cannot be reached: {reason}")]
    Unreachable {
        /// What the system says.
        reason: String,
    },
    /// It took too long.
    #[error("the server took longer than {limit:?} {phase}")]
    Slow {
        /// For what.
        phase: Phase,
        /// How long was waited.
        limit: Duration,
    },
    /// The server has too much to do.
    #[error("the server is busy")]
    Busy {
        /// When to come back, in seconds, if it says.
        retry_after: Option<u64>,
    },
    /// The server wants another key: the owner's fault and not the client's.
    #[error("the server does not accept the configured key (status {status})")]
    Unauthorized {
        /// With which status.
        status: u16,
    },
    /// The server has no such model.
    #[error("the server does not have the model: {message}")]
    NoModel {
        /// What it says, shortened.
        message: String,
    },
    /// The server refuses this request: the client's fault.
    #[error("the server refuses the request (status {status}): {message}")]
    Refused {
        /// With which status.
        status: u16,
        /// What it says, shortened.
        message: String,
    },
    /// The server does not do what such servers do.
    #[error("the server broke the rules: {0}")]
    Broken(Breach),
}

/// What was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// A link to the server.
    Connect,
    /// The head of its answer.
    Head,
    /// The next bytes.
    Silence,
    /// All of it.
    Total,
}

impl std::fmt::Display for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Connect => "to accept a link",
            Self::Head => "to begin its answer",
            Self::Silence => "to go on",
            Self::Total => "in all",
        })
    }
}

/// How a server broke the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// It failed by its own account.
    #[error("it failed with status {status}")]
    Status {
        /// Which.
        status: u16,
    },
    /// It points elsewhere, and nobody follows.
    #[error("it redirects, which is not followed")]
    Redirect,
    /// The answer ended before its end.
    #[error("the answer was cut off")]
    Cut,
    /// A body, a line or a text over its limit.
    #[error("{what} is longer than {limit} bytes")]
    TooLong {
        /// What it is.
        what: &'static str,
        /// The most.
        limit: usize,
    },
    /// Not what was asked for.
    #[error("{what} cannot be read")]
    Unreadable {
        /// What it is.
        what: &'static str,
    },
    /// It gave up in the middle of an answer.
    #[error("it gave up in the middle of an answer")]
    GaveUp {
        /// What it says, shortened. It may repeat a prompt, so it is not in the words of the error,
        /// which go to logs.
        message: String,
    },
}

impl From<Breach> for ProxyError {
    fn from(breach: Breach) -> Self {
        Self::Broken(breach)
    }
}
