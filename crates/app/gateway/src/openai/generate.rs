//! Chats and completions: the same road, two shapes of JSON.
//!
//! ```text
//!   first step ──► problem: a status of its own
//!       │      ──► pieces or end: 200, then events, or one body at the end
//!       └── nothing for a while: 200 and a comment, so that nobody in between gives up
//! ```

use super::{
    Api,
    problem::Problem,
    render::{Kind, Render},
    request::{Delivery, GenerateBody, read},
    running::{Numbers, Running, Step},
};
use crate::engine::{Engine, Failed, Finished, Piece, Sampling, Sink};
use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderValue, header},
    response::Response,
};
use bytes::Bytes;
use futures::{future::BoxFuture, stream};
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout};

/// What is sent when there is nothing to send.
const COMMENT: &[u8] = b": keep-alive\n\n";

pub(super) async fn chat(State(api): State<Api>, request: Request) -> Result<Response, Problem> {
    let body = api.body(request).await?;
    let (request, delivery) = read::<GenerateBody>(&body)?.chat(api.limits().tokens)?;
    drop(body);
    let render = render(Kind::Chat, &request.model, delivery, &request.sampling);
    answer(&api, render, |engine, sink| engine.chat(request, sink)).await
}

pub(super) async fn complete(
    State(api): State<Api>,
    request: Request,
) -> Result<Response, Problem> {
    let body = api.body(request).await?;
    let (request, delivery) = read::<GenerateBody>(&body)?.complete(api.limits().tokens)?;
    drop(body);
    let render = render(Kind::Completion, &request.model, delivery, &request.sampling);
    answer(&api, render, |engine, sink| engine.complete(request, sink)).await
}

fn render(kind: Kind, model: &str, delivery: Delivery, sampling: &Sampling) -> Render {
    let prefix = match kind {
        Kind::Chat => "chatcmpl",
        Kind::Completion => "cmpl",
    };
    Render {
        kind,
        id: format!("{prefix}-{:032x}", rand::random::<u128>()),
        model: model.to_owned(),
        created: super::now(),
        delivery,
        logprobs: sampling.top_logprobs.is_some(),
        written: 0,
    }
}

async fn answer(
    api: &Api,
    render: Render,
    start: impl FnOnce(Arc<dyn Engine>, Sink) -> BoxFuture<'static, Result<Finished, Failed>>,
) -> Result<Response, Problem> {
    let began = Instant::now();
    let deadline = began.checked_add(api.limits().total).unwrap_or(began);
    let numbers = Numbers::new(api.metrics(), render.model.clone());
    let ticket = match api.enter().await {
        Ok(ticket) => ticket,
        Err(problem) => {
            numbers.failed();
            return Err(problem);
        }
    };
    let (sink, pieces) = Sink::new();
    let work = start(api.engine(), sink);
    let running = Running::new(work, pieces, (began, deadline), api.ending(), numbers, ticket);
    if render.delivery.stream {
        streamed(running, render, api.limits().keep_alive).await
    } else {
        whole(running, render, api.limits().text).await
    }
}

async fn whole(mut running: Running, render: Render, most: usize) -> Result<Response, Problem> {
    let (mut text, mut tokens, mut buffer) = (String::new(), Vec::new(), Vec::new());
    loop {
        match running.next(&mut buffer).await {
            Step::Pieces => {
                for piece in buffer.drain(..) {
                    text.push_str(&piece.text);
                    tokens.extend(piece.logprobs);
                }
                if text.len() > most {
                    let reason = format!("it wrote more than {most} bytes");
                    return Err(Problem::engine(Failed::Broken { reason }));
                }
            }
            Step::Finished(finished) => {
                return Ok(super::json(render.whole(&text, &tokens, finished)));
            }
            Step::Failed(problem) => return Err(problem),
        }
    }
}

/// A stream that has begun.
struct Events {
    /// Dropped with the last event and not after it: whoever has read that finds room again.
    running: Option<Running>,
    render: Render,
    keep_alive: Duration,
    buffer: Vec<Piece>,
    /// A step that came before the head was sent.
    early: Option<Step>,
}

async fn streamed(
    mut running: Running,
    render: Render,
    keep_alive: Duration,
) -> Result<Response, Problem> {
    let mut buffer = Vec::new();
    let early = match timeout(keep_alive, running.next(&mut buffer)).await {
        Ok(Step::Failed(problem)) => return Err(problem),
        Ok(step) => Some(step),
        Err(_) => None,
    };
    let mut first = if early.is_some() { Vec::new() } else { COMMENT.to_vec() };
    render.begin(&mut first);
    let events = Events { running: Some(running), render, keep_alive, buffer, early };
    let rest = stream::unfold(events, |mut events| async move {
        let bytes = events.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(bytes)), events))
    });
    let first = (!first.is_empty()).then(|| Ok(Bytes::from(first)));
    let body = futures::StreamExt::chain(stream::iter(first), rest);
    let mut response = Response::new(Body::from_stream(body));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // A proxy that collects the stream before it passes it on would make it useless.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

impl Events {
    /// The next bytes of the stream; `None` ends it.
    async fn next(&mut self) -> Option<Vec<u8>> {
        let running = self.running.as_mut()?;
        let step = match self.early.take() {
            Some(step) => step,
            None => match timeout(self.keep_alive, running.next(&mut self.buffer)).await {
                Ok(step) => step,
                Err(_) => return Some(COMMENT.to_vec()),
            },
        };
        let mut out = Vec::with_capacity(256);
        match step {
            Step::Pieces => {
                for piece in &self.buffer {
                    self.render.piece(&mut out, piece);
                }
            }
            Step::Finished(finished) => {
                self.running = None;
                self.render.end(&mut out, finished);
            }
            Step::Failed(problem) => {
                self.running = None;
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(&problem.json());
                out.extend_from_slice(b"\n\n");
            }
        }
        Some(out)
    }
}
