//! Errors in the shape that OpenAI's clients read: `{"error": {message, type, param, code}}`.
//!
//! | status | type | when |
//! |---|---|---|
//! | 400 | `invalid_request_error` | the request breaks the rules of the API |
//! | 401 | `authentication_error` | no key, or one that does not open |
//! | 403 | `permission_error` | a web page that is not ours |
//! | 404, 405 | `invalid_request_error` | no such model, route or method |
//! | 408, 413, 415 | `invalid_request_error` | the body is late, too large, not JSON |
//! | 422 | `invalid_request_error` | a right request that this model cannot do |
//! | 429 | `rate_limit_error` | the queue is full; with `retry-after` |
//! | 500, 503, 504 | `server_error` | the engine failed, is not there, took too long |
//!
//! A client learns what it did wrong; what is wrong here is told to the owner's log.

use crate::{engine::Failed, queue::Full};
use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    param: Option<String>,
    message: String,
    retry_after: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Wire<'a> {
    error: Fields<'a>,
}

#[derive(Debug, Serialize)]
struct Fields<'a> {
    message: &'a str,
    r#type: &'static str,
    param: Option<&'a str>,
    code: Option<&'static str>,
}

const INVALID: &str = "invalid_request_error";
const SERVER: &str = "server_error";

impl Problem {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self { status, kind, code: None, param: None, message: message.into(), retry_after: None }
    }

    const fn coded(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// A field of the request is wrong.
    pub(super) fn invalid(param: impl Into<String>, message: impl Into<String>) -> Self {
        let mut problem = Self::new(StatusCode::BAD_REQUEST, INVALID, message);
        problem.param = Some(param.into());
        problem
    }

    /// A field wants what is not offered here.
    pub(super) fn unsupported(param: &'static str, message: impl Into<String>) -> Self {
        Self::invalid(param, message).coded("unsupported_parameter")
    }

    /// The body is not JSON.
    pub(super) fn unreadable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, INVALID, message)
    }

    /// No key, or a wrong one.
    pub(super) fn unauthorized() -> Self {
        let message =
            "no API key, or one that is not known: send yours as `Authorization: Bearer KEY`";
        Self::new(StatusCode::UNAUTHORIZED, "authentication_error", message)
            .coded("invalid_api_key")
    }

    /// A page of another site talks to this machine through somebody's browser.
    pub(super) fn foreign() -> Self {
        let message =
            "without an API key this server answers to the names of its own machine alone";
        Self::new(StatusCode::FORBIDDEN, "permission_error", message).coded("foreign_host")
    }

    /// No such route.
    pub(super) fn no_route() -> Self {
        Self::new(StatusCode::NOT_FOUND, INVALID, "there is no such route").coded("unknown_url")
    }

    /// The route has other methods.
    pub(super) fn no_method() -> Self {
        let message = "the route does not have this method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, INVALID, message)
    }

    /// No such model.
    pub(super) fn no_model(model: &str) -> Self {
        let message = format!("there is no model `{model}`; GET /v1/models lists those that are");
        let mut problem =
            Self::new(StatusCode::NOT_FOUND, INVALID, message).coded("model_not_found");
        problem.param = Some("model".into());
        problem
    }

    /// The body is too large.
    pub(super) fn too_large(limit: usize) -> Self {
        let message = format!("the body has more than {limit} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, INVALID, message)
    }

    /// The body did not arrive.
    pub(super) fn body_late() -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, INVALID, "the body did not arrive in time")
    }

    /// The body is something else.
    pub(super) fn not_json() -> Self {
        let message = "send the body as `Content-Type: application/json`";
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, INVALID, message)
    }

    /// There is no room.
    pub(super) fn full(full: Full, retry_after: u64) -> Self {
        let message = match full {
            Full::Queue => "as many requests wait as may; come back later",
            Full::Waited => "the request waited as long as it may; come back later",
        };
        let mut problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "rate_limit_error", message)
            .coded("rate_limit_exceeded");
        problem.retry_after = Some(retry_after);
        problem
    }

    /// The server ends.
    pub(super) fn ending() -> Self {
        let message = "the server is being shut down";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, message).coded("shutting_down")
    }

    /// It took longer than it may.
    pub(super) fn late() -> Self {
        let message = "the answer took longer than it may";
        Self::new(StatusCode::GATEWAY_TIMEOUT, SERVER, message).coded("deadline_exceeded")
    }

    /// What an engine says, as far as a client may know it.
    pub(super) fn engine(failed: Failed) -> Self {
        match failed {
            Failed::NoModel { model } => Self::no_model(&model),
            Failed::Refused { message } => Self::new(StatusCode::BAD_REQUEST, INVALID, message),
            Failed::TooLong { message } => {
                let mut problem = Self::new(StatusCode::BAD_REQUEST, INVALID, message)
                    .coded("context_length_exceeded");
                problem.param = Some("messages".into());
                problem
            }
            Failed::Unsupported { message } => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, INVALID, message).coded("unsupported")
            }
            Failed::Busy { retry_after } => {
                let mut problem =
                    Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, "the engine is busy")
                        .coded("no_capacity");
                problem.retry_after = Some(retry_after.unwrap_or(1));
                problem
            }
            Failed::Unavailable { reason } => {
                tracing::warn!(reason, "the engine is not available");
                let message = "the engine is not available";
                Self::new(StatusCode::SERVICE_UNAVAILABLE, SERVER, message).coded("no_capacity")
            }
            Failed::Slow => Self::late(),
            Failed::Broken { reason } => {
                tracing::error!(reason, "the engine failed");
                Self::new(StatusCode::INTERNAL_SERVER_ERROR, SERVER, "the engine failed")
                    .coded("engine_failed")
            }
        }
    }

    /// The JSON of it, which also stands in the middle of a stream.
    pub(super) fn json(&self) -> Vec<u8> {
        let wire = Wire {
            error: Fields {
                message: &self.message,
                r#type: self.kind,
                param: self.param.as_deref(),
                code: self.code,
            },
        };
        serde_json::to_vec(&wire).expect("strings are always JSON")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.json()));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
