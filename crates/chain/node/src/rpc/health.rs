//! Whether the node lives, whether it answers for the chain, and its numbers.

use super::{
    Api,
    problem::{Answer, Refused},
};
use axum::{extract::State, http::header, response::IntoResponse};
use commonware_runtime::Metrics as _;

/// The process lives.
pub(super) async fn alive() -> &'static str {
    "ok\n"
}

/// The node has caught up.
pub(super) async fn ready(State(api): State<Api>) -> Answer<&'static str> {
    let time = api.view().await?.chain().time;
    if api.is_stale(time) { Err(Refused::syncing()) } else { Ok("ok\n") }
}

/// The engine's metrics and ours, as Prometheus reads them.
pub(super) async fn metrics(State(api): State<Api>) -> impl IntoResponse {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], api.0.context.encode())
}
