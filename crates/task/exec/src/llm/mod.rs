//! Language models on this machine: GGUF files of Llama-like networks, and sentence embeddings.
//!
//! ```text
//!   file ─► gguf (header) ─► vocabulary, chat, load ─► network
//!   messages ─► chat ─► text ─► vocabulary ─► tokens ─► network ─► sample ─► release ─► pieces
//! ```
//!
//! Given the same file, prompt and [`Sampling`], the answer is the same: on any number of threads,
//! and whatever was asked before. What it is not: a server. One model answers one request at a time;
//! who shares it queues, and whoever may speak to it is decided elsewhere.

mod backend;
mod bert;
mod chat;
mod embed;
mod error;
mod gguf;
mod load;
mod network;
mod release;
mod replay;
mod sample;
mod vocabulary;

pub use backend::Models;
pub use chat::{ChatError, MESSAGES, Message, Role};
pub use embed::{EmbedError, Embedder, Embedding};
pub use error::{GenerateError, ModelError, NetworkError};
pub use gguf::{HeaderError, TensorFault};
pub use replay::{Claim, Replayed};
pub use sample::{Likelihood, Sampling, SamplingError};
pub use vocabulary::{TextError, VocabularyError};

use candle_core::Device;
use chat::Chat;
use gguf::Header;
use load::Loader;
use network::{Network, Sizes};
use release::Release;
use sample::Sampler;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use vocabulary::Vocabulary;

/// The variable of the environment that says how many threads compute.
///
/// The engine reads it once in the life of a process, so whoever starts the process sets it.
pub const THREADS: &str = "RAYON_NUM_THREADS";

/// How a model is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Tokens of prompt and answer together, at most; the model's own limit counts too.
    pub context: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { context: 4_096 }
    }
}

/// What a model says about itself. Its file is a stranger's, so names are claims.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// `general.name`, or nothing.
    pub name: String,
    /// The kind of network.
    pub architecture: String,
    /// Numbers in all tensors.
    pub parameters: u64,
    /// Tokens of prompt and answer together that fit, with the options.
    pub context: usize,
    /// Tokens that the model knows.
    pub vocabulary: usize,
    /// The kind of number that most of the file consists of.
    pub quantisation: String,
    /// Whether it knows conversations.
    pub chat: bool,
}

/// What is to be continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prompt {
    /// A conversation, through the model's own template.
    Messages(Vec<Message>),
    /// A plain text; control tokens in it are just letters.
    Text(String),
    /// Tokens as they are.
    Tokens(Vec<u32>),
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    Continue,
    /// End here.
    Cancel,
}

/// What one more token brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Piece<'a> {
    /// The token; nothing while the prompt is read, and for text that was held back until the end.
    pub token: Option<u32>,
    /// What may be shown now: whole characters, and nothing that may belong to a stop text.
    pub text: &'a str,
    /// When it was asked for.
    pub likelihood: Option<&'a Likelihood>,
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The model ended it, or a stop text was met.
    Stop,
    /// As many tokens as were asked for, or as fit.
    Length,
    /// Whoever listens did not want more.
    Cancelled,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    /// Tokens of the answer, the one that ends it included.
    pub completion_tokens: usize,
}

/// A whole answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Generation {
    /// Every token that was chosen, the one that ends it included.
    pub tokens: Vec<u32>,
    /// The sum of all pieces.
    pub text: String,
    /// Why it ends.
    pub reason: Reason,
    /// What was counted.
    pub usage: Usage,
    /// One for each token, when it was asked for.
    pub likelihoods: Vec<Likelihood>,
}

/// An open model.
#[derive(Debug)]
pub struct Model {
    card: Card,
    vocabulary: Vocabulary,
    chat: Result<Chat, ChatError>,
    network: Network,
}

impl Model {
    /// Opens a GGUF file. Whatever the file claims is checked before memory is taken for it.
    pub fn open(path: &Path, options: Options) -> Result<Self, ModelError> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        let header = Header::read(BufReader::new(&file), length)?;
        let architecture = header.text("general.architecture").unwrap_or_default();
        if architecture != "llama" {
            return Err(ModelError::Architecture { found: architecture.to_owned() });
        }
        let vocabulary = Vocabulary::read(&header)?;
        let mut sizes = Sizes::read(&header, vocabulary.len())?;
        sizes.context = sizes.context.min(options.context.max(1));
        let chat = match header.text("tokenizer.chat_template") {
            Some(template) => Chat::new(template),
            None => Err(ChatError::Missing),
        };
        let card = card(&header, sizes.context, vocabulary.len(), chat.is_ok());
        let mut loader = Loader::new(file, &header, Device::Cpu);
        let network = Network::load(&mut loader, sizes)?;
        Ok(Self { card, vocabulary, chat, network })
    }

    /// What the model is.
    pub const fn card(&self) -> &Card {
        &self.card
    }

    /// The tokens of a text. Control tokens, such as the end of a turn, are found in it only if
    /// `special` says that it may hold them.
    pub fn encode(&self, text: &str, special: bool) -> Result<Vec<u32>, TextError> {
        self.vocabulary.encode(text, special)
    }

    /// The text of tokens; control tokens have none.
    pub fn decode(&self, tokens: &[u32]) -> String {
        let bytes: Vec<u8> =
            tokens.iter().flat_map(|token| self.vocabulary.bytes(*token)).copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The bytes of a token; a control token has none.
    pub fn spell(&self, token: u32) -> &[u8] {
        self.vocabulary.bytes(token)
    }

    /// A conversation as one text, up to where the model is to speak. Control tokens in it are the
    /// template's: those that somebody said are letters.
    pub fn render(&self, messages: &[Message]) -> Result<String, ChatError> {
        let chat = self.chat.as_ref().map_err(Clone::clone)?;
        let shield = |message: &Message| Message {
            role: message.role,
            content: self.vocabulary.shield(&message.content),
        };
        let messages: Vec<Message> = messages.iter().map(shield).collect();
        chat.render(&messages, self.vocabulary.names())
    }

    /// The tokens of a prompt, with the one that the model wants at the start.
    pub fn tokens(&self, prompt: &Prompt) -> Result<Vec<u32>, GenerateError> {
        let (text, special) = match prompt {
            Prompt::Tokens(tokens) => return Ok(tokens.clone()),
            Prompt::Messages(messages) => (&self.render(messages)?, true),
            Prompt::Text(text) => (text, false),
        };
        let mut tokens = self.vocabulary.encode(text, special)?;
        if let Some(begin) = self.vocabulary.begin()
            && tokens.first() != Some(&begin)
        {
            tokens.insert(0, begin);
        }
        Ok(tokens)
    }

    /// Answers. `on` is told each token as it comes, and may end the answer; it is also asked before
    /// each block of the prompt.
    pub fn generate(
        &mut self,
        prompt: &Prompt,
        sampling: &Sampling,
        on: &mut dyn FnMut(Piece<'_>) -> Flow,
    ) -> Result<Generation, GenerateError> {
        sampling.check()?;
        let prompt = self.tokens(prompt)?;
        self.check(&prompt, 1)?;
        let Self { vocabulary, network, card, .. } = self;
        let mut answer = Answer::new(&prompt, sampling);
        let mut pause = || on(Piece { token: None, text: "", likelihood: None }) == Flow::Cancel;
        let Some(mut logits) = network.read(&prompt, &mut pause)? else {
            return Ok(answer.end(Reason::Cancelled, on));
        };
        loop {
            if answer.is_full(card.context) {
                return Ok(answer.end(Reason::Length, on));
            }
            let (token, flow) = answer.step(&mut logits, None, vocabulary, on)?;
            if let Some(reason) = flow {
                return Ok(answer.end(reason, on));
            }
            let position = answer.position();
            if !answer.is_full(card.context) {
                logits = network.next(token, position)?;
            }
        }
    }

    fn check(&self, tokens: &[u32], more: usize) -> Result<(), GenerateError> {
        if tokens.is_empty() {
            return Err(GenerateError::Empty);
        }
        let limit = self.card.context;
        if tokens.len().saturating_add(more) > limit {
            return Err(GenerateError::TooLong { found: tokens.len(), limit });
        }
        let exists =
            |token: &u32| usize::try_from(*token).is_ok_and(|token| token < self.vocabulary.len());
        match tokens.iter().find(|token| !exists(token)) {
            Some(token) => Err(GenerateError::Token { token: *token }),
            None => Ok(()),
        }
    }
}

/// An answer on its way.
struct Answer<'a> {
    prompt: usize,
    sampling: &'a Sampling,
    sampler: Sampler<'a>,
    release: Release<'a>,
    tokens: Vec<u32>,
    text: String,
    likelihoods: Vec<Likelihood>,
    /// How far each token that was claimed is from being the choice.
    offs: Vec<f64>,
}

impl<'a> Answer<'a> {
    fn new(prompt: &[u32], sampling: &'a Sampling) -> Self {
        Self {
            prompt: prompt.len(),
            sampling,
            sampler: Sampler::new(sampling, prompt),
            release: Release::new(&sampling.stop),
            tokens: Vec::new(),
            text: String::new(),
            likelihoods: Vec::new(),
            offs: Vec::new(),
        }
    }

    /// Where the last token stands.
    const fn position(&self) -> usize {
        self.prompt.saturating_add(self.tokens.len()).saturating_sub(1)
    }

    fn is_full(&self, context: usize) -> bool {
        let most = usize::try_from(self.sampling.max_tokens).unwrap_or(usize::MAX);
        self.tokens.len() >= most || self.prompt.saturating_add(self.tokens.len()) >= context
    }

    /// Chooses one more token, or takes the one that is claimed, and tells it; gives a reason if it
    /// is the last.
    fn step(
        &mut self,
        logits: &mut [f32],
        claimed: Option<u32>,
        vocabulary: &Vocabulary,
        on: &mut dyn FnMut(Piece<'_>) -> Flow,
    ) -> Result<(u32, Option<Reason>), NetworkError> {
        if logits.iter().any(|logit| logit.is_nan()) {
            return Err(NetworkError::NotFinite);
        }
        let before = self.sampling.logprobs.map(|count| (count, logits.to_vec()));
        let token = match claimed {
            None => self.sampler.choose(logits),
            Some(token) => {
                self.offs.push(self.sampler.off(logits, token, vocabulary.ends(token)));
                token
            }
        };
        self.tokens.push(token);
        if let Some((count, logits)) = before {
            self.likelihoods.push(Likelihood::of(&logits, token, count));
        }
        let ends = vocabulary.ends(token);
        let released = self.release.push(if ends { &[] } else { vocabulary.bytes(token) });
        self.text.push_str(&released.text);
        let likelihood = self.sampling.logprobs.and(self.likelihoods.last());
        let flow = on(Piece { token: Some(token), text: &released.text, likelihood });
        if released.stopped {
            // What follows the stop text is not part of the answer.
            self.release = Release::new(&[]);
        }
        let reason = match flow {
            _ if ends || released.stopped => Some(Reason::Stop),
            Flow::Cancel => Some(Reason::Cancelled),
            Flow::Continue => None,
        };
        Ok((token, reason))
    }

    /// Tells what was held back, and counts.
    fn end(mut self, reason: Reason, on: &mut dyn FnMut(Piece<'_>) -> Flow) -> Generation {
        let rest = self.release.finish();
        if !rest.is_empty() && reason != Reason::Cancelled {
            on(Piece { token: None, text: &rest, likelihood: None });
            self.text.push_str(&rest);
        }
        let usage = Usage { prompt_tokens: self.prompt, completion_tokens: self.tokens.len() };
        let Self { tokens, text, likelihoods, .. } = self;
        Generation { tokens, text, reason, usage, likelihoods }
    }
}

fn card(header: &Header, context: usize, vocabulary: usize, chat: bool) -> Card {
    let count = |shape: &[usize]| {
        let product = shape.iter().fold(1usize, |product, side| product.saturating_mul(*side));
        u64::try_from(product).unwrap_or(u64::MAX)
    };
    let parameters =
        header.tensors().fold(0u64, |sum, tensor| sum.saturating_add(count(&tensor.shape)));
    let mut kinds: Vec<(u64, String)> = Vec::new();
    for tensor in header.tensors() {
        let name = format!("{:?}", tensor.kind);
        match kinds.iter_mut().find(|(_, kind)| *kind == name) {
            Some((size, _)) => *size = size.saturating_add(tensor.size),
            None => kinds.push((tensor.size, name)),
        }
    }
    let most = kinds.into_iter().max();
    Card {
        name: header.text("general.name").unwrap_or_default().to_owned(),
        architecture: header.text("general.architecture").unwrap_or_default().to_owned(),
        parameters,
        context,
        vocabulary,
        quantisation: most.map(|(_, name)| name).unwrap_or_default(),
        chat,
    }
}
