//! Problems: errors of the RPC in the shape of RFC 9457.

use serde::{Deserialize, Serialize};

/// Media type of a problem.
pub const PROBLEM_TYPE: &str = "application/problem+json";

/// Stable names of problems, for programs.
pub mod codes {
    /// The request cannot be understood.
    pub const BAD_REQUEST: &str = "bad-request";
    /// There is no such thing, or this node does not keep it.
    pub const NOT_FOUND: &str = "not-found";
    /// The body is over the limit.
    pub const TOO_LARGE: &str = "too-large";
    /// The body did not arrive in time.
    pub const TOO_SLOW: &str = "too-slow";
    /// Too many requests from this client.
    pub const TOO_MANY: &str = "too-many-requests";
    /// The node has no room now; try again later.
    pub const BUSY: &str = "busy";
    /// The node has not caught up with the chain.
    pub const SYNCING: &str = "syncing";
    /// A fault of the node.
    pub const INTERNAL: &str = "internal";
}

/// An error answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// A URI that names the kind of problem.
    #[serde(rename = "type")]
    pub kind: String,
    /// The kind in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// This case in words.
    pub detail: String,
    /// The kind for programs.
    pub code: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// A problem with a stable code.
    pub fn new(status: u16, code: &str, title: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: format!("urn:opengpu:problem:{code}"),
            title: title.to_owned(),
            status,
            detail: detail.into(),
            code: code.to_owned(),
            hint: None,
        }
    }

    /// Adds what to do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_the_shape_of_rfc_9457() {
        let problem = Problem::new(404, codes::NOT_FOUND, "Not found", "no block 9");
        let json = serde_json::to_string(&problem).unwrap();
        let wanted = concat!(
            r#"{"type":"urn:opengpu:problem:not-found","title":"Not found","status":404,"#,
            r#""detail":"no block 9","code":"not-found"}"#
        );
        assert_eq!(json, wanted);
        let hinted = serde_json::to_value(problem.with_hint("ask an archive node")).unwrap();
        assert_eq!(hinted["hint"], "ask an archive node");
    }
}
