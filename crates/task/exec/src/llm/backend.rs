//! Models as programs: each line of the input is one request and one step.
//!
//! Steps do not depend on each other, so the state is empty, and any request can be repeated alone.

use super::{
    EmbedError, Embedder, Flow, GenerateError, Generation, Likelihood, Message, Model, Options,
    Prompt, Reason, Replayed, Role, Sampling,
};
use crate::backend::{Backend, Begun, Missing, Prepared, Span, Weighed, Work};
use crate::fault::{Fault, Refusal};
use crate::lines::{About, Answer, Chosen, Likely, Line, Piece, REQUESTS, Request, Turn, Wishes};
use crate::program::Program;
use serde::Deserialize;
use std::sync::Arc;

/// Opens models.
#[derive(Clone, Copy, Debug, Default)]
pub struct Models;

/// `[llm]` of a manifest.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Tokens of prompt and answer together.
    context: Option<usize>,
    /// Whether it is a model for embeddings: a folder of files, one of which is the code.
    embeddings: bool,
}

impl Backend for Models {
    fn probe(&self) -> Result<String, Missing> {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let folder = crate::program::models().unwrap_or_default();
        Ok(format!(
            "models of the llama family in GGUF files, on {threads} threads; none is built in: \
             download one (huggingface.co has many), or fetch a small one with `cargo xtask models`, \
             then `opengpu chat FILE`; those in {} are known by their names",
            folder.display()
        ))
    }

    fn prepare(&mut self, program: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        let settings: Settings = program.settings()?;
        let Some(code) = &program.manifest.code else {
            return Err(Refusal::program("the manifest names no `code`: the model's file"));
        };
        let path = program.path(code)?;
        if settings.embeddings {
            let folder = path.parent().unwrap_or(program.folder());
            let embedder = Embedder::open(folder).map_err(Refusal::program)?;
            return Ok(Box::new(Embeds(embedder)));
        }
        let mut options = Options::default();
        options.context = settings.context.unwrap_or(options.context);
        let model = Model::open(&path, options).map_err(Refusal::program)?;
        Ok(Box::new(Speaks::new(model)))
    }
}

/// The requests of an input.
fn requests(input: &[u8]) -> Result<Vec<Request>, Fault> {
    let text = std::str::from_utf8(input)
        .map_err(|_| Fault::Input { reason: "it is not UTF-8".to_owned() })?;
    let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let read = |(number, line): (u32, &str)| {
        serde_json::from_str(line)
            .map_err(|error| Fault::Input { reason: format!("line {number}: {error}") })
    };
    let requests =
        lines.take(REQUESTS.saturating_add(1)).map(read).collect::<Result<Vec<_>, _>>()?;
    if requests.len() > REQUESTS {
        return Err(Fault::Input { reason: format!("more than {REQUESTS} requests") });
    }
    Ok(requests)
}

/// The beginning of every run of a model.
fn begin(input: &[u8]) -> Result<Begun, Fault> {
    let steps = u64::try_from(requests(input)?.len()).unwrap_or(u64::MAX);
    Ok(Begun { state: Vec::new(), steps })
}

/// The requests of some steps.
fn of_span(input: &[u8], span: &Span) -> Result<Vec<Request>, Fault> {
    let before = usize::try_from(span.steps.start().saturating_sub(1)).unwrap_or(usize::MAX);
    let last = usize::try_from(*span.steps.end()).unwrap_or(usize::MAX);
    let all = requests(input)?;
    Ok(all.into_iter().take(last).skip(before).collect())
}

fn emit(line: &Line, work: &mut Work<'_>) -> Result<(), Fault> {
    let mut text = serde_json::to_vec(line).map_err(Fault::program)?;
    text.push(b'\n');
    work.emit(&text)
}

/// A model that continues texts.
struct Speaks {
    model: Model,
    /// The bytes of every token, which are told while the model is busy.
    spelling: Vec<Vec<u8>>,
}

impl Prepared for Speaks {
    fn init(&mut self, input: &[u8], _: &mut Work<'_>) -> Result<Begun, Fault> {
        begin(input)
    }

    fn advance(
        &mut self,
        input: &[u8],
        state: Vec<u8>,
        span: Span,
        work: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault> {
        for request in of_span(input, &span)? {
            self.answer(request, None, work)?;
        }
        Ok(state)
    }

    fn weigh(
        &mut self,
        input: &[u8],
        claimed: &[u8],
        span: Span,
        work: &mut Work<'_>,
    ) -> Result<Weighed, Fault> {
        let mut lines = Claimed::new(claimed);
        let mut offs = Vec::new();
        for request in of_span(input, &span)? {
            let Some((theirs, tokens)) = lines.next_answer() else {
                return Ok(wrong("an answer is missing, or no answer"));
            };
            let mut ours = Vec::new();
            let mut sink = |bytes: &[u8]| ours.extend_from_slice(bytes);
            let stop = Arc::clone(&work.stop);
            let limits = work.limits;
            let mut inner = Work::new(limits, stop, limits.output, &mut sink);
            let found = self.answer(request, Some(&tokens), &mut inner)?;
            let (metered, ..) = inner.end();
            work.count_tokens(metered.tokens_in, metered.tokens_out);
            let Some(found) = found else {
                return Ok(wrong("an answer goes on after its end, or ends before it"));
            };
            let Some((ours, _)) = Claimed::new(&ours).next_answer() else {
                return Ok(wrong("an answer is none"));
            };
            if !same(&ours, &theirs) {
                return Ok(wrong("an answer is not the text of its tokens"));
            }
            offs.push(found);
        }
        if !lines.is_over() {
            return Ok(wrong("there are more answers than requests"));
        }
        Ok(Weighed::of(&offs))
    }
}

fn wrong(what: &str) -> Weighed {
    Weighed::Wrong { what: what.to_owned() }
}

/// Lines of an output that somebody claims.
struct Claimed<'a>(std::str::SplitTerminator<'a, char>);

impl<'a> Claimed<'a> {
    /// What is no text has no lines, nor has what does not end with its last one.
    fn new(output: &'a [u8]) -> Self {
        let text = std::str::from_utf8(output).unwrap_or("?");
        let whole = text.is_empty() || text.ends_with('\n');
        Self(if whole { text } else { "?" }.split_terminator('\n'))
    }

    /// The lines up to the end of the next answer, and its tokens. A line that says the same in other
    /// letters is none: they would be paid for.
    fn next_answer(&mut self) -> Option<(Vec<Line>, Vec<u32>)> {
        let mut lines = Vec::new();
        loop {
            let text = self.0.next()?;
            let line: Line = serde_json::from_str(text).ok()?;
            serde_json::to_string(&line).ok().filter(|again| again == text)?;
            let tokens = match &line {
                Line::Piece(_) => None,
                Line::Answer(answer) => Some(answer.tokens.clone()),
                Line::Refused { .. } => Some(Vec::new()),
                Line::Points { .. } => return None,
            };
            lines.push(line);
            if let Some(tokens) = tokens {
                return Some((lines, tokens));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.0.clone().next().is_none()
    }
}

/// Whether two answers are the same but for what rounding does to likelihoods.
fn same(ours: &[Line], theirs: &[Line]) -> bool {
    let mut pairs = ours.iter().zip(theirs);
    ours.len() == theirs.len()
        && pairs.all(|(ours, theirs)| match (ours, theirs) {
            (Line::Piece(ours), Line::Piece(theirs)) => {
                let alike = |ours: &Likely, theirs: &Likely| near(ours.logprob, theirs.logprob);
                ours.text == theirs.text
                    && match (&ours.likelihood, &theirs.likelihood) {
                        (None, None) => true,
                        (Some(ours), Some(theirs)) => {
                            let mut others = ours.others.iter().zip(&theirs.others);
                            ours.token.bytes == theirs.token.bytes
                                && alike(&ours.token, &theirs.token)
                                && ours.others.len() == theirs.others.len()
                                && others.all(|(ours, theirs)| alike(ours, theirs))
                        }
                        _ => false,
                    }
            }
            (Line::Answer(ours), Line::Answer(theirs)) => {
                let plain = |answer: &Answer| Answer { logprobs: Vec::new(), ..answer.clone() };
                let mut told = ours.logprobs.iter().zip(&theirs.logprobs);
                plain(ours) == plain(theirs)
                    && ours.logprobs.len() == theirs.logprobs.len()
                    && told.all(|(ours, theirs)| near(*ours, *theirs))
            }
            (ours, theirs) => ours == theirs,
        })
}

/// Two log-probabilities of one token by engines that round in their own ways.
#[expect(clippy::float_arithmetic, reason = "log-probabilities are floats")]
fn near(ours: f32, theirs: f32) -> bool {
    (ours - theirs).abs() <= LOGPROB
}

/// How far two log-probabilities of one token may be apart.
const LOGPROB: f32 = 1.0;

impl Speaks {
    fn new(model: Model) -> Self {
        let count = u32::try_from(model.card().vocabulary).unwrap_or(u32::MAX);
        let spelling = (0..count).map(|token| model.spell(token).to_vec()).collect();
        Self { model, spelling }
    }

    /// Answers a request, or tells the answer that has the claimed tokens and how far each of them is
    /// from being the choice; none if there is no such answer.
    fn answer(
        &mut self,
        request: Request,
        claimed: Option<&[u32]>,
        work: &mut Work<'_>,
    ) -> Result<Option<Vec<f64>>, Fault> {
        let sampling = sampling(&request.sampling);
        let prompt = match prompt(request.about) {
            Ok(prompt) => prompt,
            Err(reason) => return refuse(reason, false, work).map(|()| Some(Vec::new())),
        };
        let stop = Arc::clone(&work.stop);
        let (spelling, mut broken) = (&self.spelling, None);
        let mut on = |piece: super::Piece<'_>| {
            if request.stream && !(piece.text.is_empty() && piece.likelihood.is_none()) {
                let chosen = piece.token.zip(piece.likelihood);
                let likelihood = chosen.map(|(token, found)| name(spelling, token, found));
                let piece = Piece { text: piece.text.to_owned(), likelihood };
                broken = emit(&Line::Piece(piece), work).err();
            }
            if broken.is_some() || stop.fault().is_some() { Flow::Cancel } else { Flow::Continue }
        };
        let made = match claimed {
            None => self
                .model
                .generate(&prompt, &sampling, &mut on)
                .map(|made| Some(Replayed { generation: made, offs: Vec::new() })),
            Some(tokens) => {
                let mut pause = || stop.fault().is_some();
                self.model.replay(&prompt, &sampling, tokens, &mut pause, &mut on)
            }
        };
        if let Some(fault) = broken {
            return Err(fault);
        }
        work.stop.check()?;
        match made {
            Ok(None) => return Ok(None),
            Ok(Some(made)) => {
                end(made.generation, request.stream, work)?;
                return Ok(Some(made.offs));
            }
            Err(error @ GenerateError::TooLong { .. }) => refuse(error.to_string(), true, work)?,
            Err(error @ GenerateError::Network(_)) => return Err(Fault::program(error)),
            Err(error) => refuse(error.to_string(), false, work)?,
        }
        Ok(Some(Vec::new()))
    }
}

/// A wrong request is answered like any other: the requests after it are not lost.
fn refuse(reason: String, too_long: bool, work: &mut Work<'_>) -> Result<(), Fault> {
    emit(&Line::Refused { reason, too_long }, work)
}

fn end(made: Generation, streamed: bool, work: &mut Work<'_>) -> Result<(), Fault> {
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let tokens_in = count(made.usage.prompt_tokens);
    work.count_tokens(tokens_in, count(made.usage.completion_tokens));
    let reason = match made.reason {
        Reason::Stop => "stop",
        Reason::Length | Reason::Cancelled => "length",
    };
    let answer = Answer {
        text: if streamed { String::new() } else { made.text },
        reason: reason.to_owned(),
        tokens: made.tokens,
        tokens_in,
        logprobs: made.likelihoods.iter().map(|found| found.logprob).collect(),
    };
    emit(&Line::Answer(answer), work)
}

fn name(spelling: &[Vec<u8>], token: u32, found: &Likelihood) -> Chosen {
    let likely = |token: u32, logprob: f32| {
        let bytes = usize::try_from(token).ok().and_then(|token| spelling.get(token));
        Likely { bytes: bytes.cloned().unwrap_or_default(), logprob }
    };
    let others = found.alternatives.iter().map(|(token, logprob)| likely(*token, *logprob));
    Chosen { token: likely(token, found.logprob), others: others.collect() }
}

fn prompt(about: About) -> Result<Prompt, String> {
    let message = |turn: Turn| {
        let role = match turn.role.as_str() {
            "system" => Role::System,
            "user" => Role::User,
            "assistant" => Role::Assistant,
            other => return Err(format!("nobody has the role `{other}`")),
        };
        Ok(Message { role, content: turn.content })
    };
    match about {
        About::Messages(turns) => {
            turns.into_iter().map(message).collect::<Result<_, _>>().map(Prompt::Messages)
        }
        About::Prompt(text) => Ok(Prompt::Text(text)),
        About::Tokens(tokens) => Ok(Prompt::Tokens(tokens)),
        About::Embed(_) => Err("this model continues texts and has no embeddings".to_owned()),
    }
}

fn sampling(wishes: &Wishes) -> Sampling {
    let base = Sampling::default();
    Sampling {
        temperature: wishes.temperature.unwrap_or(base.temperature),
        top_p: wishes.top_p.unwrap_or(base.top_p),
        seed: wishes.seed.unwrap_or(base.seed),
        max_tokens: wishes.max_tokens.unwrap_or(base.max_tokens),
        stop: wishes.stop.clone(),
        logprobs: wishes.logprobs,
        frequency: wishes.frequency.unwrap_or(base.frequency),
        presence: wishes.presence.unwrap_or(base.presence),
        ..base
    }
}

/// A model for embeddings.
struct Embeds(Embedder);

impl Prepared for Embeds {
    fn init(&mut self, input: &[u8], _: &mut Work<'_>) -> Result<Begun, Fault> {
        begin(input)
    }

    fn advance(
        &mut self,
        input: &[u8],
        state: Vec<u8>,
        span: Span,
        work: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault> {
        for request in of_span(input, &span)? {
            work.stop.check()?;
            let About::Embed(texts) = request.about else {
                refuse("this model has embeddings and continues no texts".to_owned(), false, work)?;
                continue;
            };
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            match self.0.embed(&texts) {
                Ok(points) => {
                    let tokens_in = points.iter().map(|point| point.tokens).sum::<usize>();
                    let tokens_in = u64::try_from(tokens_in).unwrap_or(u64::MAX);
                    work.count_tokens(tokens_in, 0);
                    let vectors = points.into_iter().map(|point| point.point).collect();
                    emit(&Line::Points { vectors, tokens_in }, work)?;
                }
                Err(EmbedError::Engine(error)) => return Err(Fault::program(error)),
                Err(error) => refuse(error.to_string(), false, work)?,
            }
        }
        Ok(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_with_its_line() {
        let line = Line::Refused { reason: "no".to_owned(), too_long: false };
        let text = serde_json::to_string(&line).unwrap();
        assert!(Claimed::new(format!("{text}\n").as_bytes()).next_answer().is_some());
        // Two segments of which the first lacks its end would be one line for the client.
        assert!(Claimed::new(text.as_bytes()).next_answer().is_none());
        assert!(Claimed::new(b"\xff\n").next_answer().is_none());
    }
}
