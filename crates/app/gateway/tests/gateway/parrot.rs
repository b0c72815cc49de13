//! An engine for tests: it repeats what it was told, word by word, and always the same way.
//!
//! Some words make it do something else:
//!
//! | word | what |
//! |---|---|
//! | `hang` | one piece, then nothing until it is cancelled |
//! | `mute` | nothing at all until it is cancelled |
//! | `break` | one piece, then a fault |
//! | `busy`, `broken`, `long`, `unable` | that failure at once |
//! | `forever` | pieces without an end |

use futures::future::BoxFuture;
use opengpu_gateway::{
    Settings,
    engine::{
        ChatRequest, CompletionRequest, EmbeddingRequest, Embeddings, Engine, Failed, FinishReason,
        Finished, Likelihood, ModelCard, Piece, Prompt, Role, Sampling, Sink, TokenLogprob, Usage,
    },
    serve,
};
use std::{net::SocketAddr, sync::Arc};
use tokio::{
    net::TcpListener,
    sync::{mpsc, oneshot},
};

pub(crate) const MODEL: &str = "house/parrot";

/// Tells what happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Began,
    Cancelled,
    Ended,
}

pub(crate) struct Parrot {
    seen: mpsc::UnboundedSender<Seen>,
}

impl Parrot {
    pub(crate) fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Seen>) {
        let (seen, events) = mpsc::unbounded_channel();
        (Arc::new(Self { seen }), events)
    }

    fn watch(&self) -> Watch {
        let _ = self.seen.send(Seen::Began);
        Watch { seen: self.seen.clone(), ended: false }
    }
}

/// Tells whether the work came to its end.
struct Watch {
    seen: mpsc::UnboundedSender<Seen>,
    ended: bool,
}

impl Watch {
    const fn end(&mut self) {
        self.ended = true;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.seen.send(if self.ended { Seen::Ended } else { Seen::Cancelled });
    }
}

impl Engine for Parrot {
    fn models(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<ModelCard>, Failed>> {
        let card = ModelCard { id: MODEL.into(), created: 1_700_000_000, owner: "tests".into() };
        Box::pin(async { Ok(vec![card]) })
    }

    fn chat(
        self: Arc<Self>,
        request: ChatRequest,
        sink: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>> {
        let mut text = String::new();
        for message in &request.messages {
            match message.role {
                Role::System => text = format!("[{}] {text}", message.text),
                Role::User => text.push_str(&message.text),
                Role::Assistant => text.clear(),
            }
        }
        let words = request.messages.iter().map(|message| message.text.split(' ').count());
        let prompt_tokens = words.sum::<usize>() as u64;
        let watch = self.watch();
        Box::pin(speak(watch, request.model, text, prompt_tokens, request.sampling, sink))
    }

    fn complete(
        self: Arc<Self>,
        request: CompletionRequest,
        sink: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>> {
        let (text, prompt_tokens) = match request.prompt {
            Prompt::Text(text) => (text.clone(), text.split(' ').count() as u64),
            Prompt::Tokens(tokens) => (format!("{tokens:?}"), tokens.len() as u64),
        };
        let watch = self.watch();
        Box::pin(speak(watch, request.model, text, prompt_tokens, request.sampling, sink))
    }

    fn embed(
        self: Arc<Self>,
        request: EmbeddingRequest,
    ) -> BoxFuture<'static, Result<Embeddings, Failed>> {
        let mut watch = self.watch();
        Box::pin(async move {
            known(&request.model)?;
            let lengths = request.inputs.iter().map(|input| match input {
                Prompt::Text(text) => text.len(),
                Prompt::Tokens(tokens) => tokens.len(),
            });
            let lengths: Vec<usize> = lengths.collect();
            let vectors = lengths.iter().map(|length| vec![*length as f32, 0.5, -1.25]).collect();
            watch.end();
            Ok(Embeddings { vectors, prompt_tokens: lengths.iter().sum::<usize>() as u64 })
        })
    }
}

fn known(model: &str) -> Result<(), Failed> {
    if model == MODEL { Ok(()) } else { Err(Failed::NoModel { model: model.into() }) }
}

async fn speak(
    mut watch: Watch,
    model: String,
    text: String,
    prompt_tokens: u64,
    sampling: Sampling,
    sink: Sink,
) -> Result<Finished, Failed> {
    let text = match sampling.seed {
        Some(seed) => format!("{text} {seed}"),
        None => text,
    };
    let cut = sampling.stop.iter().filter_map(|stop| text.find(stop.as_str())).min();
    let text = &text[..cut.unwrap_or(text.len())];
    let outcome = async {
        known(&model)?;
        match text {
            "busy" => return Err(Failed::Busy { retry_after: Some(9) }),
            "broken" => return Err(Failed::Broken { reason: "secret detail".into() }),
            "long" => return Err(Failed::TooLong { message: "9 tokens, at most 8".into() }),
            "unable" => return Err(Failed::Unsupported { message: "no such skill".into() }),
            _ => {}
        }
        if text == "mute" {
            std::future::pending::<()>().await;
        }
        let mut written = 0;
        for word in text.split_inclusive(' ') {
            if sampling.max_tokens == Some(written) {
                return Ok((FinishReason::Length, written));
            }
            let _ = sink.send(piece(word, &sampling)).await;
            written += 1;
        }
        if text == "forever" {
            loop {
                let _ = sink.send(piece("more ", &sampling)).await;
            }
        }
        match text {
            "hang" => std::future::pending().await,
            "break" => Err(Failed::Broken { reason: "secret detail".into() }),
            _ => Ok((FinishReason::Stop, written)),
        }
    };
    let outcome = outcome.await;
    watch.end();
    let (reason, written) = outcome?;
    let usage = Usage { prompt_tokens, completion_tokens: u64::from(written) };
    Ok(Finished { reason, usage })
}

fn piece(word: &str, sampling: &Sampling) -> Piece {
    let likelihood =
        |token: &str, logprob| Likelihood { token: token.into(), logprob, bytes: None };
    let logprobs = sampling.top_logprobs.map(|top| TokenLogprob {
        chosen: likelihood(word, -0.5),
        top: (0..top).map(|at| likelihood(&format!("other{at}"), -1.5)).collect(),
    });
    Piece { text: word.into(), logprobs: logprobs.into_iter().collect() }
}

/// A server of an engine, until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) end: Option<oneshot::Sender<()>>,
    pub(crate) task: tokio::task::JoinHandle<Result<(), opengpu_gateway::ServeError>>,
}

impl Server {
    pub(crate) async fn start(engine: Arc<dyn Engine>, settings: Settings) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let ended = async {
            let _ = ended.await;
        };
        let task = tokio::spawn(serve(listener, engine, settings, ended));
        Self { address, end: Some(end), task }
    }

    /// Calls the end.
    pub(crate) fn finish(&mut self) {
        self.end.take().unwrap().send(()).unwrap();
    }
}
