//! Whether the node lives, whether it answers for the chain, and its numbers.

use super::{
    Api,
    problem::{Answer, Refused},
};
use axum::{
    extract::{ConnectInfo, State},
    http::header,
    response::IntoResponse,
};
use commonware_runtime::Metrics as _;
use std::net::{IpAddr, SocketAddr};

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
pub(super) async fn metrics(
    State(api): State<Api>,
    ConnectInfo(reader): ConnectInfo<SocketAddr>,
) -> Answer<impl IntoResponse> {
    may_read_metrics(reader.ip(), api.0.metrics_public)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], api.0.context.encode()))
}

/// Numbers tell an attacker who is linked to whom and what hurts; they are for the node's owner.
fn may_read_metrics(reader: IpAddr, public: bool) -> Answer<()> {
    if public || reader.to_canonical().is_loopback() {
        return Ok(());
    }
    Err(Refused::not_found("metrics are told to the node's own machine alone"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_for_the_own_machine_unless_the_owner_says_otherwise() {
        let answers = |reader: &str, public| {
            may_read_metrics(reader.parse().unwrap(), public).map_err(|no| no.code().to_owned())
        };
        for here in ["127.0.0.1", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(answers(here, false), Ok(()), "{here}");
        }
        for there in ["10.0.0.7", "2001:db8::1", "::ffff:10.0.0.7"] {
            assert_eq!(answers(there, false), Err("not-found".to_owned()), "{there}");
            assert_eq!(answers(there, true), Ok(()), "{there}");
        }
    }
}
