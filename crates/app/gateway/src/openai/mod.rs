//! OpenAI's API: routes, and what stands before them.
//!
//! | route | what |
//! |---|---|
//! | `POST /v1/chat/completions` | the next turn of a chat |
//! | `POST /v1/completions` | the continuation of a text |
//! | `POST /v1/embeddings` | vectors of texts |
//! | `GET /v1/models`, `GET /v1/models/{id}` | the models that are there |
//! | `GET /healthz`, `GET /readyz` | whether the process lives, whether it can work; need no key |
//! | `GET /metrics` | numbers for Prometheus |
//!
//! Before a route comes the key. Without keys the server is for programs of this machine: a request
//! must name the machine as `localhost` or by its address, so that no web page can send one through
//! a name of its own, and a body must be JSON, which no page may send without being allowed.

mod fields;
mod generate;
mod plain;
mod problem;
mod render;
mod request;
mod running;

use crate::{
    engine::{Engine, ModelCard},
    metrics::Metrics,
    queue::{Queue, Ticket},
    settings::{Limits, Settings},
};
use axum::{
    Router,
    body::{Body, HttpBody as _},
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use bytes::Bytes;
use http_body_util::BodyExt as _;
use problem::Problem;
use std::{
    net::IpAddr,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    sync::{Mutex, Semaphore, watch},
    time::{Instant, timeout},
};

/// How long what an engine says about its models holds for those who ask whether it is ready.
const READY_FOR: Duration = Duration::from_secs(2);
/// How long an engine may take to list its models.
const MODELS_TIME: Duration = Duration::from_secs(10);

/// Whether the process lives; needs no key.
const ALIVE: &str = "/healthz";
/// Whether it can work; needs no key.
const READY: &str = "/readyz";
/// The header that names an answer.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// How near the server's end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It serves.
    NotYet,
    /// Nothing new is taken; what runs may finish.
    Soon,
    /// What runs is told that it is over.
    Now,
}

/// Everything the handlers need; cheap to clone.
#[derive(Clone)]
struct Api(Arc<Inner>);

struct Inner {
    engine: Arc<dyn Engine>,
    settings: Settings,
    metrics: Arc<Metrics>,
    queue: Queue,
    bodies: Semaphore,
    ending: watch::Receiver<Ending>,
    /// When the engine was last asked, and whether it could work.
    readiness: Mutex<Option<(Instant, bool)>>,
}

/// The routes, with everything that stands before them.
pub(crate) fn router(
    engine: Arc<dyn Engine>,
    settings: Settings,
    metrics: Arc<Metrics>,
    ending: watch::Receiver<Ending>,
) -> Router {
    let limits = settings.limits;
    let queue = Queue::new(limits.running, limits.waiting, limits.wait, metrics.clone());
    let api = Api(Arc::new(Inner {
        engine,
        settings,
        metrics,
        queue,
        bodies: Semaphore::new(limits.bodies),
        ending,
        readiness: Mutex::new(None),
    }));
    Router::new()
        .route("/v1/models", get(plain::models))
        .route("/v1/models/{*id}", get(plain::model))
        .route("/v1/chat/completions", post(generate::chat))
        .route("/v1/completions", post(generate::complete))
        .route("/v1/embeddings", post(plain::embed))
        .route("/metrics", get(plain::metrics))
        .route(ALIVE, get(plain::alive))
        .route(READY, get(plain::ready))
        .fallback(|| async { Problem::no_route() })
        .method_not_allowed_fallback(|| async { Problem::no_method() })
        .layer(middleware::from_fn_with_state(api.clone(), receive))
        .with_state(api)
}

/// Lets a request in or not, counts its answer, and gives it a number that client and log can name
/// it by. One layer and not three: each costs as much as all that is done in it.
async fn receive(State(api): State<Api>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or("other", MatchedPath::as_str);
    let mut response = match api.admit(route, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    api.0.metrics.answered(route, response.status().as_u16());
    let id = format!("req-{:032x}", rand::random::<u128>());
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Whether the header `host` says `localhost` or an address of loopback.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    // Programs that speak an old version send none; browsers always do.
    let Some(host) = host else { return true };
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

impl Api {
    fn limits(&self) -> &Limits {
        &self.0.settings.limits
    }

    fn metrics(&self) -> Arc<Metrics> {
        self.0.metrics.clone()
    }

    fn engine(&self) -> Arc<dyn Engine> {
        self.0.engine.clone()
    }

    fn ending(&self) -> watch::Receiver<Ending> {
        self.0.ending.clone()
    }

    /// Lets those in who show a key, or everybody of this machine if there is none.
    fn admit(&self, route: &str, headers: &HeaderMap) -> Result<(), Problem> {
        if [ALIVE, READY].contains(&route) {
            return Ok(());
        }
        let keys = &self.0.settings.keys;
        if keys.is_empty() {
            return if names_this_machine(headers) { Ok(()) } else { Err(Problem::foreign()) };
        }
        let shown = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        if keys.open(shown) { Ok(()) } else { Err(Problem::unauthorized()) }
    }

    /// Room for a request.
    async fn enter(&self) -> Result<Ticket, Problem> {
        let entered = self.0.queue.enter().await;
        entered.map_err(|full| Problem::full(full, self.limits().retry_after))
    }

    /// The whole body, if it is JSON, not too large and not too slow.
    async fn body(&self, request: Request) -> Result<Bytes, Problem> {
        let limits = self.limits();
        if !is_json(request.headers()) {
            return Err(Problem::not_json());
        }
        let body = request.into_body();
        let said = body.size_hint().lower();
        if usize::try_from(said).map_or(true, |said| said > limits.body) {
            return Err(Problem::too_large(limits.body));
        }
        let read = timeout(limits.body_time, async {
            let _room = self.0.bodies.acquire().await.expect("the semaphore is never closed");
            collect(body, limits.body).await
        });
        read.await.map_err(|_| Problem::body_late())?
    }

    async fn models(&self) -> Result<Vec<ModelCard>, Problem> {
        let models = timeout(MODELS_TIME, self.engine().models()).await;
        models.map_err(|_| Problem::late())?.map_err(Problem::engine)
    }

    /// Whether there is a model. Anybody may ask, so the engine is asked only now and then.
    async fn is_ready(&self) -> bool {
        let mut readiness = self.0.readiness.lock().await;
        if let Some((asked, ready)) = *readiness
            && asked.elapsed() < READY_FOR
        {
            return ready;
        }
        let ready = self.models().await.is_ok_and(|models| !models.is_empty());
        *readiness = Some((Instant::now(), ready));
        ready
    }
}

async fn collect(mut body: Body, limit: usize) -> Result<Bytes, Problem> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::unreadable("the body was cut off"))?;
        // Trailers say nothing that matters here.
        let Ok(bytes) = frame.into_data() else { continue };
        if whole.len().saturating_add(bytes.len()) > limit {
            return Err(Problem::too_large(limit));
        }
        whole.extend_from_slice(&bytes);
    }
    Ok(whole.into())
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

fn json(bytes: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_pass_without_a_key() {
        let names = |host: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
            names_this_machine(&headers)
        };
        for own in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.0.0.9", "[::1]:80", "[::1]"]
        {
            assert!(names(own), "{own}");
        }
        for foreign in ["evil.example", "localhost.evil.example:80", "10.0.0.1", "[::2]:80", ""] {
            assert!(!names(foreign), "{foreign}");
        }
        assert!(names_this_machine(&HeaderMap::new()));
    }
}
