//! Problems of RFC 9457 as answers. A client learns what it did wrong; what the node suffers from
//! stands in the node's log.

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use opengpu_client::api::{PROBLEM_TYPE, Problem, codes};

/// An answer that is a problem.
#[derive(Debug)]
pub(crate) struct Refused(Box<Problem>);

/// What handlers answer.
pub(crate) type Answer<T> = Result<T, Refused>;

impl Refused {
    fn new(status: StatusCode, code: &str, title: &str, detail: impl Into<String>) -> Self {
        Self(Box::new(Problem::new(status.as_u16(), code, title, detail)))
    }

    /// The request cannot be understood.
    pub(crate) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, codes::BAD_REQUEST, "Bad request", detail)
    }

    /// There is no such thing, or this node does not keep it.
    pub(crate) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, codes::NOT_FOUND, "Not found", detail)
    }

    /// It was here, but this node keeps only the recent past.
    pub(crate) fn not_kept(detail: impl Into<String>) -> Self {
        let Self(problem) = Self::not_found(detail);
        Self(Box::new(problem.with_hint("ask a node that keeps all blocks")))
    }

    /// The body is over the limit.
    pub(crate) fn too_large(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, codes::TOO_LARGE, "Too large", detail)
    }

    /// The body did not arrive in time.
    pub(crate) fn too_slow(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, codes::TOO_SLOW, "Too slow", detail)
    }

    /// No room now.
    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, codes::BUSY, "Busy", detail);
        Self(Box::new(problem.0.with_hint("try again in a moment")))
    }

    /// The node has not caught up.
    pub(crate) fn syncing() -> Self {
        let detail = "this node has not caught up with the chain";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, codes::SYNCING, "Syncing", detail)
    }

    /// A fault of the node, told to its owner in the log and to nobody else.
    pub(crate) fn internal(error: impl std::fmt::Display) -> Self {
        tracing::error!(%error, "a request failed");
        let detail = "the node failed; its log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, codes::INTERNAL, "Internal fault", detail)
    }

    #[cfg(test)]
    pub(crate) fn code(&self) -> &str {
        &self.0.code
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self.0).unwrap_or_default();
        (status, [(header::CONTENT_TYPE, PROBLEM_TYPE)], body).into_response()
    }
}

impl From<crate::history::HistoryError> for Refused {
    fn from(error: crate::history::HistoryError) -> Self {
        Self::internal(error)
    }
}

impl From<crate::steps::StepsError> for Refused {
    fn from(error: crate::steps::StepsError) -> Self {
        Self::internal(error)
    }
}

impl From<crate::store::StoreError> for Refused {
    fn from(error: crate::store::StoreError) -> Self {
        Self::internal(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_has_its_media_type_and_status() {
        let response = Refused::busy("no room").into_response();
        assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM_TYPE);
    }

    #[test]
    fn a_fault_of_the_node_is_not_told_to_clients() {
        let refused = Refused::internal("secret path");
        assert_eq!(refused.code(), codes::INTERNAL);
        assert!(!refused.0.detail.contains("secret"));
    }
}
