//! What runs a model, seen from the API.
//!
//! An engine is asked for one thing at a time and gives a future. **Dropping the future cancels the
//! work**: that is how a client that went away, a deadline and the server's end all look. An engine
//! that works on a thread of its own notices because [`Sink::send_blocking`] fails from then on.
//!
//! Pieces go into a [`Sink`] as they come. It holds a few; an engine whose reader is slow waits.

use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::mpsc;

pub use opengpu_exec::proxy::{
    ChatRequest, CompletionRequest, EmbeddingRequest, Embeddings, FinishReason, Finished,
    Likelihood, Message, Piece, Prompt, Role, Sampling, TokenLogprob, Usage,
};

/// Pieces that wait for a slow reader.
const WAITING_PIECES: usize = 64;

/// Runs models.
pub trait Engine: Send + Sync + 'static {
    /// The models that it can run now.
    fn models(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<ModelCard>, Failed>>;

    /// The next turn of a chat.
    fn chat(
        self: Arc<Self>,
        request: ChatRequest,
        sink: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>>;

    /// The continuation of a text.
    fn complete(
        self: Arc<Self>,
        request: CompletionRequest,
        sink: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>>;

    /// The vectors of some texts: one for each input, all of one length.
    fn embed(
        self: Arc<Self>,
        request: EmbeddingRequest,
    ) -> BoxFuture<'static, Result<Embeddings, Failed>>;
}

/// A model, as the list of models shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelCard {
    /// Its name in requests.
    pub id: String,
    /// When it was made, in seconds since 1970; zero if nobody knows.
    pub created: u64,
    /// Whose it is.
    pub owner: String,
}

/// Why an engine gave nothing, or not everything.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// It does not have the model.
    #[error("there is no model `{model}`")]
    NoModel {
        /// The name in the request.
        model: String,
    },
    /// The request is wrong. The client reads the message.
    #[error("{message}")]
    Refused {
        /// What is wrong, and how to mend it.
        message: String,
    },
    /// The prompt does not fit into the model.
    #[error("{message}")]
    TooLong {
        /// How long it is, and how long it may be.
        message: String,
    },
    /// The request is right, and this model cannot do it. The client reads the message.
    #[error("{message}")]
    Unsupported {
        /// What it cannot do.
        message: String,
    },
    /// There is too much to do.
    #[error("the engine is busy")]
    Busy {
        /// Seconds after which to come back, if it is known.
        retry_after: Option<u64>,
    },
    /// The engine is not there. The message is for the owner's log.
    #[error("the engine is not available: {reason}")]
    Unavailable {
        /// Why.
        reason: String,
    },
    /// It took too long.
    #[error("the engine took too long")]
    Slow,
    /// A fault of the engine. The message is for the owner's log.
    #[error("the engine failed: {reason}")]
    Broken {
        /// How.
        reason: String,
    },
}

/// Nobody reads any more: the work can stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads the answer any more")]
pub struct Gone;

/// Takes the pieces of one answer.
#[derive(Clone, Debug)]
pub struct Sink(mpsc::Sender<Piece>);

impl Sink {
    /// A sink and what reads from it.
    pub(crate) fn new() -> (Self, mpsc::Receiver<Piece>) {
        let (sender, receiver) = mpsc::channel(WAITING_PIECES);
        (Self(sender), receiver)
    }

    /// Hands on a piece; waits while the reader is slow.
    pub async fn send(&self, piece: Piece) -> Result<(), Gone> {
        self.0.send(piece).await.map_err(|_| Gone)
    }

    /// The same for an engine on a thread of its own. Must not be used within a runtime's task.
    pub fn send_blocking(&self, piece: Piece) -> Result<(), Gone> {
        self.0.blocking_send(piece).map_err(|_| Gone)
    }

    /// Whether the work can stop, for an engine that computes for long between two pieces.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Waits until the work can stop.
    pub async fn closed(&self) {
        self.0.closed().await;
    }
}
