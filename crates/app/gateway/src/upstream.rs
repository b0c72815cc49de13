//! An engine that is a server the owner already runs. All care for that server is in
//! [`opengpu_exec::proxy`]; this file only turns its words into the engine's.

use crate::engine::{
    ChatRequest, CompletionRequest, EmbeddingRequest, Embeddings, Engine, Failed, Finished,
    ModelCard, Sink,
};
use futures::future::BoxFuture;
use opengpu_exec::proxy::{Answer, Event, ProxyError, Upstream};
use std::sync::Arc;

/// Who owns a model if its server does not say.
const OWNER: &str = "upstream";

impl Engine for Upstream {
    fn models(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<ModelCard>, Failed>> {
        Box::pin(async move {
            let models = Self::models(&self).await.map_err(|error| failed(error, ""))?;
            let cards = models.into_iter().map(|model| ModelCard {
                id: model.id,
                created: model.created.unwrap_or_default(),
                owner: model.owner.unwrap_or_else(|| OWNER.into()),
            });
            Ok(cards.collect())
        })
    }

    fn chat(
        self: Arc<Self>,
        request: ChatRequest,
        sink: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>> {
        Box::pin(async move {
            let answer = Self::chat(&self, &request).await;
            pass(answer, sink).await.map_err(|error| failed(error, &request.model))
        })
    }

    fn complete(
        self: Arc<Self>,
        request: CompletionRequest,
        sink: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>> {
        Box::pin(async move {
            let answer = Self::complete(&self, &request).await;
            pass(answer, sink).await.map_err(|error| failed(error, &request.model))
        })
    }

    fn embed(
        self: Arc<Self>,
        request: EmbeddingRequest,
    ) -> BoxFuture<'static, Result<Embeddings, Failed>> {
        Box::pin(async move {
            let embeddings = Self::embed(&self, &request).await;
            embeddings.map_err(|error| failed(error, &request.model))
        })
    }
}

/// Hands on what comes until the end.
async fn pass(answer: Result<Answer, ProxyError>, sink: Sink) -> Result<Finished, ProxyError> {
    let mut answer = answer?;
    loop {
        match answer.next().await? {
            Some(Event::Piece(piece)) => {
                // Whoever drops the sink's reader drops this future too, and so the answer.
                let _ = sink.send(piece).await;
            }
            Some(Event::Finished(finished)) => return Ok(finished),
            None => return Err(opengpu_exec::proxy::Breach::Cut.into()),
        }
    }
}

fn failed(error: ProxyError, model: &str) -> Failed {
    match error {
        ProxyError::NoModel { .. } => Failed::NoModel { model: model.to_owned() },
        ProxyError::Refused { status: 422 | 501, message } => Failed::Unsupported { message },
        ProxyError::Refused { message, .. } => Failed::Refused { message },
        ProxyError::Busy { retry_after } => Failed::Busy { retry_after },
        ProxyError::Slow { .. } => Failed::Slow,
        ProxyError::Unreachable { .. } | ProxyError::Unauthorized { .. } => {
            Failed::Unavailable { reason: error.to_string() }
        }
        ProxyError::Broken(_) => Failed::Broken { reason: error.to_string() },
    }
}
