//! The node's RPC over HTTP: the contract of `opengpu_client::api`, served.
//!
//! | module | routes |
//! |---|---|
//! | [`transactions`] | submit, progress, receipts |
//! | [`accounts`] | accounts, delegations |
//! | [`chain`] | status, blocks, epochs, validators, parameters, supply |
//! | [`entries`] | entries of the state, with proofs |
//! | [`stream`] | final blocks as they come |
//! | [`health`] | liveness, readiness, metrics |
//!
//! Everything has a limit: connections and their silence ([`opengpu_http`]), bodies at once and the
//! time each may take to arrive, requests at once, time per request, bytes per body, readers of the
//! stream and what waits for each of them. A request over a limit is turned away with a problem.
//!
//! ```text
//! connection ─► head ─► room for a body ─► body ─► room for a request ─► handler ─► answer
//!               20 s                       5 s                           15 s       20 s per stall
//! ```
//!
//! Room for a request is taken when all of it is there, so whoever sends slowly holds nothing that
//! somebody else needs in order to read.
//!
//! Answers speak about the last final block that is applied ([`view::View`]); nothing here changes
//! the chain, and nothing here is trusted by it.

mod accounts;
mod chain;
mod entries;
mod health;
mod problem;
mod stream;
mod transactions;
mod view;

use crate::{
    feed::Feed,
    mempool::{Intake, Mempool},
};
use axum::{
    Router,
    body::{Body, Bytes, HttpBody as _},
    extract::{DefaultBodyLimit, FromRequest as _, Request, State},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use commonware_parallel::Rayon;
use commonware_runtime::tokio::Context;
use opengpu_client::api::{MAX_BODY, paths};
use opengpu_http::Limits;
use opengpu_types::{ConsensusKey, Digest, Genesis};
use problem::{Answer, Refused};
use std::{future::pending, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, SemaphorePermit, watch},
};

/// What a connection may do.
/// Requests with a body at once, from its first byte to the answer: they bound the memory for
/// bodies.
const MAX_BODIES: usize = 64;
/// How long a body may take to arrive.
const BODY_PATIENCE: Duration = Duration::from_secs(5);
/// Requests at once.
const MAX_REQUESTS: usize = 128;
/// Readers of the stream at once.
const MAX_SUBSCRIBERS: usize = 64;
/// Requests that wait for a block at once; they count as requests as well.
const MAX_WAITING: usize = 64;
/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// Everything the handlers need; cheap to clone.
#[derive(Clone)]
pub(crate) struct Api(Arc<Inner>);

struct Inner {
    context: Context,
    genesis: Arc<Genesis>,
    genesis_digest: Digest,
    node: ConsensusKey,
    intake: Intake<Context, Rayon>,
    mempool: Mempool,
    feed: Feed,
    metrics_public: bool,
    bodies: Semaphore,
    requests: Semaphore,
    subscribers: Arc<Semaphore>,
    waiting: Semaphore,
    /// Resolves when the RPC ends.
    ending: watch::Receiver<()>,
}

impl Api {
    #[expect(clippy::too_many_arguments, reason = "the parts of a node, named once")]
    pub(crate) fn new(
        context: Context,
        genesis: Arc<Genesis>,
        node: ConsensusKey,
        intake: Intake<Context, Rayon>,
        mempool: Mempool,
        feed: Feed,
        metrics_public: bool,
        ending: watch::Receiver<()>,
    ) -> Self {
        let genesis_digest = genesis.digest();
        Self(Arc::new(Inner {
            context,
            genesis,
            genesis_digest,
            node,
            intake,
            mempool,
            feed,
            metrics_public,
            bodies: Semaphore::new(MAX_BODIES),
            requests: Semaphore::new(MAX_REQUESTS),
            subscribers: Arc::new(Semaphore::new(MAX_SUBSCRIBERS)),
            waiting: Semaphore::new(MAX_WAITING),
            ending,
        }))
    }
}

/// Waits for a node that looks for the chain's present, and answers meanwhile: it lives, and can
/// say nothing else yet.
pub(crate) async fn joining<T>(listener: &TcpListener, node: impl Future<Output = T>) -> T {
    let router = Router::new()
        .route(paths::HEALTH, get(health::alive))
        .fallback(|| async { Refused::syncing() });
    tokio::pin!(node);
    tokio::select! {
        there = &mut node => there,
        _ = opengpu_http::serve(listener, router, Limits::default(), pending(), || ()) => node.await,
    }
}

/// Serves until the API's end.
pub(crate) async fn serve(listener: &TcpListener, api: Api) {
    let mut ending = api.0.ending.clone();
    let end = async move { drop(ending.changed().await) };
    opengpu_http::serve(listener, router(api), Limits::default(), end, || ()).await.finish().await;
}

fn router(api: Api) -> Router {
    Router::new()
        .route(paths::TRANSACTIONS, post(transactions::submit))
        .route(paths::TRANSACTION, get(transactions::progress))
        .route(paths::RECEIPT, get(transactions::receipt))
        .route(paths::ACCOUNT, get(accounts::account))
        .route(paths::DELEGATION, get(accounts::delegation))
        .route(paths::BLOCK, get(chain::block))
        .route(paths::BLOCK_RECEIPT, get(transactions::block_receipt))
        .route(paths::RECEIPTS, get(transactions::receipts))
        .route(paths::BLOCK_TRANSACTIONS, get(chain::block_transactions))
        .route(paths::VALIDATORS, get(chain::validators))
        .route(paths::EPOCH, get(chain::epoch))
        .route(paths::PARAMETERS, get(chain::parameters))
        .route(paths::SUPPLY, get(chain::supply))
        .route(paths::STATUS, get(chain::status))
        .route(paths::STATE, get(entries::entry))
        .route(paths::STATE_BUNDLE, get(entries::bundle))
        .route(paths::STEPS, get(transactions::steps))
        .route(paths::STREAM, get(stream::stream))
        .route(paths::READY, get(health::ready))
        .route(paths::METRICS, get(health::metrics))
        .fallback(|| async { Refused::not_found("there is no such route") })
        .method_not_allowed_fallback(|| async { Refused::bad_request("not with this method") })
        .layer(middleware::from_fn_with_state(api.clone(), limit))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        // Whether the process lives can be asked when it has no room for anything else.
        .route(paths::HEALTH, get(health::alive))
        .with_state(api)
}

/// Turns a request away when there are too many, and ends one that takes too long.
async fn limit(State(api): State<Api>, request: Request, next: Next) -> Response {
    let metrics = api.0.feed.metrics();
    let (request, _body_room) = match received(&api.0.bodies, request).await {
        Ok(received) => received,
        Err(refused) => {
            metrics.turned_away.inc();
            return refused.into_response();
        }
    };
    let Ok(_room) = api.0.requests.try_acquire() else {
        metrics.turned_away.inc();
        return Refused::busy("the node answers as many requests as it can").into_response();
    };
    metrics.requests.inc();
    match tokio::time::timeout(PATIENCE, next.run(request)).await {
        Ok(response) => response,
        Err(_) => Refused::busy("the request took too long").into_response(),
    }
}

/// A request whose body is here, with the room that the body takes.
async fn received(
    bodies: &Semaphore,
    request: Request,
) -> Answer<(Request, Option<SemaphorePermit<'_>>)> {
    if request.body().is_end_stream() {
        return Ok((request, None));
    }
    let Ok(Ok(room)) = tokio::time::timeout(PATIENCE, bodies.acquire()).await else {
        return Err(Refused::busy("the node takes as many bodies as it can"));
    };
    let (head, body) = request.into_parts();
    let reading = Bytes::from_request(Request::from_parts(head.clone(), body), &());
    let Ok(read) = tokio::time::timeout(BODY_PATIENCE, reading).await else {
        return Err(Refused::too_slow("the body did not arrive in time"));
    };
    let bytes = read.map_err(|error| transactions::unread(&error))?;
    Ok((Request::from_parts(head, Body::from(bytes)), Some(room)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    async fn ask(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nconnection: close\r\nhost: x\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_node_that_joins_says_that_it_lives_and_is_not_there_yet() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let joined = async {
            assert!(ask(address, paths::HEALTH).await.starts_with("HTTP/1.1 200"));
            for path in [paths::STATUS, paths::READY, "/nowhere"] {
                let answer = ask(address, path).await;
                assert!(answer.starts_with("HTTP/1.1 503"), "{path}: {answer}");
                assert!(answer.contains("syncing"), "{path}: {answer}");
            }
        };
        joining(&listener, joined).await;
    }
}
