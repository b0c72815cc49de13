//! One request over one link: bounded in time and size, never redirected.
//!
//! Each request has a link of its own. When the answer is dropped its link is closed, and that is
//! how a server learns that nobody wants the rest.

use super::{
    Limits,
    error::{Breach, Phase, ProxyError},
    origin::{Key, Origin},
    wire,
};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    client::conn::http1,
    header::{ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, RETRY_AFTER},
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};

/// Bytes of an answer's head.
const MAX_HEAD: usize = 64 * 1024;
/// Headers of an answer.
const MAX_HEADERS: usize = 64;
/// Bytes of a refusal that are read.
const MAX_REFUSAL: usize = 16 * 1024;
/// Seconds after which anybody may come back, whatever the server says.
const MAX_RETRY_AFTER: u64 = 3_600;

/// Drives a link; closes it when dropped. The library closes a link that nobody reads as well; this
/// does not depend on when it notices.
#[derive(Debug)]
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The body of an answer, as it comes.
#[derive(Debug)]
pub(super) struct Bytestream {
    body: Incoming,
    limits: Limits,
    deadline: Instant,
    _driver: Driver,
}

impl Bytestream {
    /// The next bytes; `None` at the end. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ProxyError> {
        loop {
            let silence = Instant::now().checked_add(self.limits.silence).unwrap_or(self.deadline);
            let frame = timeout_at(silence.min(self.deadline), self.body.frame()).await;
            return match frame {
                Err(_) if silence < self.deadline => Err(self.slow(Phase::Silence)),
                Err(_) => Err(self.slow(Phase::Total)),
                Ok(None) => Ok(None),
                Ok(Some(Err(_))) => Err(Breach::Cut.into()),
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(bytes) => Ok(Some(bytes)),
                    // Trailers say nothing that matters here.
                    Err(_) => continue,
                },
            };
        }
    }

    /// How long it may say nothing.
    pub(super) const fn silence(&self) -> std::time::Duration {
        self.limits.silence
    }

    /// All of it.
    pub(super) async fn whole(mut self, limit: usize) -> Result<Vec<u8>, ProxyError> {
        let mut whole = Vec::new();
        while let Some(bytes) = self.next().await? {
            if whole.len().saturating_add(bytes.len()) > limit {
                return Err(Breach::TooLong { what: "an answer", limit }.into());
            }
            whole.extend_from_slice(&bytes);
        }
        Ok(whole)
    }

    /// The beginning of it, however it ends.
    async fn beginning(mut self) -> Vec<u8> {
        let mut beginning = Vec::new();
        while beginning.len() < MAX_REFUSAL {
            let Ok(Some(bytes)) = self.next().await else { break };
            beginning.extend_from_slice(&bytes);
        }
        beginning.truncate(MAX_REFUSAL);
        beginning
    }

    const fn slow(&self, phase: Phase) -> ProxyError {
        let limit = match phase {
            Phase::Silence => self.limits.silence,
            _ => self.limits.total,
        };
        ProxyError::Slow { phase, limit }
    }
}

/// Sends a request, and gives the body of its answer if that is a success.
pub(super) async fn exchange(
    origin: &Origin,
    key: Option<&Key>,
    limits: Limits,
    route: &str,
    body: Option<Vec<u8>>,
) -> Result<Bytestream, ProxyError> {
    let began = Instant::now();
    let deadline = began.checked_add(limits.total).unwrap_or(began);
    let stream = connect(origin, limits).await?;
    let (mut sender, link) = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(unreachable)?;
    let driver = Driver(tokio::spawn(async move {
        // What goes wrong on the link is seen by whoever reads the answer.
        let _ = link.await;
    }));
    let request = request(origin, key, route, body);
    let head = limits.head.min(limits.total);
    let response = timeout(head, sender.send_request(request))
        .await
        .map_err(|_| ProxyError::Slow { phase: Phase::Head, limit: head })?
        .map_err(|error| if error.is_parse() { unreadable_head() } else { Breach::Cut.into() })?;
    let (head, body) = response.into_parts();
    let stream = Bytestream { body, limits, deadline, _driver: driver };
    let head = Response::from_parts(head, ());
    if head.status() == StatusCode::OK { Ok(stream) } else { Err(refused(&head, stream).await) }
}

fn unreadable_head() -> ProxyError {
    Breach::Unreadable { what: "the head of an answer" }.into()
}

fn unreachable(error: impl std::fmt::Display) -> ProxyError {
    ProxyError::Unreachable { reason: error.to_string() }
}

async fn connect(origin: &Origin, limits: Limits) -> Result<TcpStream, ProxyError> {
    let slow = |_| ProxyError::Slow { phase: Phase::Connect, limit: limits.connect };
    let connected = timeout(limits.connect, async {
        let addresses = origin.addresses().await?;
        TcpStream::connect(addresses.as_slice()).await.map_err(unreachable)
    });
    let stream = connected.await.map_err(slow)??;
    // Requests are small and waited for.
    let _ = stream.set_nodelay(true);
    Ok(stream)
}

fn request(
    origin: &Origin,
    key: Option<&Key>,
    route: &str,
    body: Option<Vec<u8>>,
) -> Request<Full<Bytes>> {
    let method = if body.is_some() { Method::POST } else { Method::GET };
    let mut request = Request::builder()
        .method(method)
        .uri(origin.path(route))
        .header(HOST, origin.name())
        .header(ACCEPT, "application/json, text/event-stream")
        .header(CONNECTION, "close");
    if body.is_some() {
        request = request.header(CONTENT_TYPE, "application/json");
    }
    if let Some(key) = key {
        request = request.header(AUTHORIZATION, key.header());
    }
    let body = Full::new(Bytes::from(body.unwrap_or_default()));
    request.body(body).expect("the parts of an origin were read from a URL")
}

/// What it means that the answer is no success.
async fn refused(head: &Response<()>, body: Bytestream) -> ProxyError {
    let status = head.status();
    let number = status.as_u16();
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            ProxyError::Unauthorized { status: number }
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let retry_after = head.headers().get(RETRY_AFTER);
            let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
            ProxyError::Busy { retry_after: retry_after.map(|s: u64| s.min(MAX_RETRY_AFTER)) }
        }
        _ if status.is_redirection() => Breach::Redirect.into(),
        StatusCode::NOT_FOUND => {
            ProxyError::NoModel { message: wire::refusal(&body.beginning().await) }
        }
        _ if status.is_client_error() => {
            let message = wire::refusal(&body.beginning().await);
            ProxyError::Refused { status: number, message }
        }
        _ => {
            // What it says may repeat a prompt; its own log has it.
            tracing::warn!(status = number, "the server failed");
            Breach::Status { status: number }.into()
        }
    }
}
