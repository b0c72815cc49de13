//! An engine that is an executor on this machine: the same process, program and trace that the network
//! would use, without any chain.

use crate::engine::{
    ChatRequest, CompletionRequest, EmbeddingRequest, Embeddings, Engine, Failed, FinishReason,
    Finished, Likelihood, ModelCard, Piece, Prompt, Role, Sampling, Sink, TokenLogprob, Usage,
};
use futures::future::BoxFuture;
use opengpu_exec::lines::{About, Answer, Likely, Line, Request, Turn, Wishes};
use opengpu_exec::{Data, Errand, Fault, News, Program, StartError, Supervisor};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A model of this machine.
#[derive(Debug)]
pub struct Local {
    supervisor: Supervisor,
    program: Program,
    name: String,
}

impl Local {
    /// A model that is known to clients under this name.
    pub const fn new(supervisor: Supervisor, program: Program, name: String) -> Self {
        Self { supervisor, program, name }
    }

    /// Loads the model, so that the first request does not wait for it.
    pub fn warm(&self) -> Result<(), StartError> {
        self.supervisor.prepare(&self.program)
    }

    fn knows(&self, model: &str) -> Result<(), Failed> {
        if model == self.name {
            return Ok(());
        }
        Err(Failed::NoModel { model: model.to_owned() })
    }

    /// Runs one request and shows its lines. Ends early, and cancels the run, when `see` says so.
    fn run(
        &self,
        request: &Request,
        wish: &Wish,
        see: &mut dyn FnMut(Line) -> Result<(), Failed>,
    ) -> Result<(), Failed> {
        let line = serde_json::to_vec(request).map_err(broken)?;
        let ticket = self
            .supervisor
            .run(&self.program, Errand::new(Data::Inline(line)))
            .map_err(|error| Failed::Unavailable { reason: error.to_string() })?;
        wish.arm(ticket.canceller());
        let mut rest = Vec::new();
        for news in ticket {
            match news {
                News::Emitted(bytes) => {
                    rest.extend_from_slice(&bytes);
                    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                        let line: Vec<u8> = rest.drain(..=end).collect();
                        see(serde_json::from_slice(&line).map_err(broken)?)?;
                    }
                }
                News::Failed { fault, .. } => return Err(failed(&fault)),
                News::Begun { .. }
                | News::Logged(_)
                | News::Segment(_)
                | News::Finished { .. }
                | News::Repeated { .. }
                | News::Weighed { .. }
                | News::Stands { .. }
                | News::Looked { .. } => {}
            }
        }
        Ok(())
    }

    /// Runs a request whose answer comes in pieces.
    fn speak(
        &self,
        about: About,
        sampling: Sampling,
        sink: &Sink,
        wish: &Wish,
    ) -> Result<Finished, Failed> {
        let request = Request { about, stream: true, sampling: wishes(sampling) };
        let mut finished = None;
        self.run(&request, wish, &mut |line| {
            match line {
                Line::Piece(piece) => {
                    let logprobs = piece.likelihood.into_iter().map(|chosen| TokenLogprob {
                        chosen: likelihood(chosen.token),
                        top: chosen.others.into_iter().map(likelihood).collect(),
                    });
                    let piece = Piece { text: piece.text, logprobs: logprobs.collect() };
                    // Nobody listens any more: the ticket is dropped, which cancels the run.
                    return sink.send_blocking(piece).map_err(|_| Failed::Slow);
                }
                Line::Answer(answer) => finished = Some(end(&answer)),
                Line::Refused { reason, too_long: true } => {
                    return Err(Failed::TooLong { message: reason });
                }
                Line::Refused { reason, .. } => return Err(Failed::Refused { message: reason }),
                Line::Points { .. } => return Err(broken("points instead of an answer")),
            }
            Ok(())
        })?;
        finished.ok_or_else(|| broken("the answer has no end"))
    }

    fn embed_all(&self, texts: Vec<String>, wish: &Wish) -> Result<Embeddings, Failed> {
        let request =
            Request { about: About::Embed(texts), stream: false, sampling: Wishes::default() };
        let mut found = None;
        self.run(&request, wish, &mut |line| match line {
            Line::Points { vectors, tokens_in } => {
                found = Some(Embeddings { vectors, prompt_tokens: tokens_in });
                Ok(())
            }
            Line::Refused { reason, .. } => Err(Failed::Refused { message: reason }),
            Line::Piece(_) | Line::Answer(_) => Err(broken("an answer instead of points")),
        })?;
        found.ok_or_else(|| broken("there are no points"))
    }
}

/// Whether anybody still wants an answer, told to the executor the moment nobody does.
#[derive(Default)]
struct Wish {
    gone: AtomicBool,
    cancel: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Wish {
    fn arm(&self, cancel: impl Fn() + Send + Sync + 'static) {
        let _ = self.cancel.set(Box::new(cancel));
        if self.gone.load(Ordering::SeqCst) {
            self.end();
        }
    }

    fn end(&self) {
        self.gone.store(true, Ordering::SeqCst);
        if let Some(cancel) = self.cancel.get() {
            cancel();
        }
    }
}

/// Ends a wish with the future that holds it.
struct Held(Arc<Wish>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// The work is done on a thread of its own, because an executor is waited for.
async fn on_a_thread<T: Send + 'static>(
    work: impl FnOnce(&Wish) -> Result<T, Failed> + Send + 'static,
) -> Result<T, Failed> {
    let held = Held(Arc::new(Wish::default()));
    let wish = Arc::clone(&held.0);
    let done = tokio::task::spawn_blocking(move || work(&wish)).await;
    done.unwrap_or_else(|error| Err(broken(error)))
}

impl Engine for Local {
    fn models(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<ModelCard>, Failed>> {
        let card = ModelCard { id: self.name.clone(), created: 0, owner: "opengpu".to_owned() };
        Box::pin(async move { Ok(vec![card]) })
    }

    fn chat(
        self: Arc<Self>,
        request: ChatRequest,
        sink: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>> {
        Box::pin(on_a_thread(move |wish| {
            self.knows(&request.model)?;
            let turns = request
                .messages
                .into_iter()
                .map(|message| Turn { role: role(message.role).to_owned(), content: message.text });
            self.speak(About::Messages(turns.collect()), request.sampling, &sink, wish)
        }))
    }

    fn complete(
        self: Arc<Self>,
        request: CompletionRequest,
        sink: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>> {
        Box::pin(on_a_thread(move |wish| {
            self.knows(&request.model)?;
            let about = match request.prompt {
                Prompt::Text(text) => About::Prompt(text),
                Prompt::Tokens(tokens) => About::Tokens(tokens),
            };
            self.speak(about, request.sampling, &sink, wish)
        }))
    }

    fn embed(
        self: Arc<Self>,
        request: EmbeddingRequest,
    ) -> BoxFuture<'static, Result<Embeddings, Failed>> {
        Box::pin(on_a_thread(move |wish| {
            self.knows(&request.model)?;
            let text = |prompt| match prompt {
                Prompt::Text(text) => Ok(text),
                Prompt::Tokens(_) => {
                    let message = "this model takes texts, not tokens".to_owned();
                    Err(Failed::Unsupported { message })
                }
            };
            let texts = request.inputs.into_iter().map(text).collect::<Result<_, _>>()?;
            self.embed_all(texts, wish)
        }))
    }
}

const fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
    }
}

fn wishes(sampling: Sampling) -> Wishes {
    Wishes {
        temperature: sampling.temperature,
        top_p: sampling.top_p,
        // Whoever gives no seed wants another answer every time.
        seed: Some(sampling.seed.map_or_else(rand::random, i64::cast_unsigned)),
        max_tokens: sampling.max_tokens,
        stop: sampling.stop,
        logprobs: sampling.top_logprobs,
        frequency: sampling.frequency_weight,
        presence: sampling.presence_weight,
    }
}

fn likelihood(likely: Likely) -> Likelihood {
    let token = String::from_utf8_lossy(&likely.bytes).into_owned();
    Likelihood { token, logprob: likely.logprob, bytes: Some(likely.bytes) }
}

fn end(answer: &Answer) -> Finished {
    let reason = if answer.reason == "stop" { FinishReason::Stop } else { FinishReason::Length };
    let completion_tokens = u64::try_from(answer.tokens.len()).unwrap_or(u64::MAX);
    Finished { reason, usage: Usage { prompt_tokens: answer.tokens_in, completion_tokens } }
}

fn broken(reason: impl ToString) -> Failed {
    Failed::Broken { reason: reason.to_string() }
}

fn failed(fault: &Fault) -> Failed {
    match fault {
        Fault::Deadline { .. } => Failed::Slow,
        Fault::Input { reason } => Failed::Refused { message: reason.clone() },
        Fault::Cancelled
        | Fault::Crashed { .. }
        | Fault::Device { .. }
        | Fault::DeviceMemory
        | Fault::Memory { .. } => Failed::Unavailable { reason: fault.to_string() },
        Fault::Program { .. }
        | Fault::Checkpoint { .. }
        | Fault::Fuel { .. }
        | Fault::TooLarge { .. } => broken(fault),
    }
}
