//! The answering side: which handler gets which kind of request.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use tokio::task::JoinSet;
use tracing::debug;

use super::{Kind, Limits, Refusal, Session, SessionError, Stream};

/// An answer that is being given.
pub type Answering = Pin<Box<dyn Future<Output = Result<(), SessionError>> + Send>>;

/// Answers requests of one kind.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, exchange: Exchange) -> Answering;
}

impl<F, A> Handler for F
where
    F: Fn(Exchange) -> A + Send + Sync + 'static,
    A: Future<Output = Result<(), SessionError>> + Send + 'static,
{
    fn handle(&self, exchange: Exchange) -> Answering {
        Box::pin(self(exchange))
    }
}

/// One request that waits for its answer.
#[derive(Debug)]
pub struct Exchange {
    /// Who asks, and the way to ask back.
    pub session: Session,
    /// What is asked.
    pub body: Bytes,
    stream: Stream,
}

impl Exchange {
    /// Begins the answer; more may be sent on the stream.
    pub async fn accept(mut self, body: &[u8]) -> Result<Stream, SessionError> {
        self.stream.write(&[&[0], body]).await?;
        Ok(self.stream)
    }

    /// Gives the whole answer.
    pub async fn answer(self, body: &[u8]) -> Result<(), SessionError> {
        self.accept(body).await?.finish();
        Ok(())
    }

    /// Does not do it.
    pub async fn refuse(mut self, why: Refusal) -> Result<(), SessionError> {
        self.stream.write(&[&[why.byte()]]).await?;
        self.stream.finish();
        Ok(())
    }
}

/// The kinds of requests that an endpoint answers.
#[derive(Clone, Default)]
pub struct Router(BTreeMap<Kind, Arc<dyn Handler>>);

impl Router {
    /// Answers requests of this kind by that handler.
    #[must_use]
    pub fn on(mut self, kind: Kind, handler: impl Handler) -> Self {
        self.0.insert(kind, Arc::new(handler));
        self
    }
}

impl fmt::Debug for Router {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}

/// Answers what the other end asks, until the session ends. The transport limits how many requests
/// are open at once.
pub(crate) async fn serve(session: Session, router: Arc<Router>, limits: Limits) {
    let mut open = JoinSet::new();
    loop {
        tokio::select! {
            accepted = session.connection.accept_bi() => {
                let Ok((send, receive)) = accepted else { break };
                let stream = Stream { send, receive, idle: limits.idle };
                open.spawn(answer(session.clone(), stream, Arc::clone(&router)));
            }
            Some(_) = open.join_next() => {}
        }
    }
}

async fn answer(session: Session, stream: Stream, router: Arc<Router>) {
    let remote = session.remote();
    if let Err(error) = route(session, stream, &router).await {
        debug!(%remote, %error, "a request was not answered");
    }
}

async fn route(session: Session, mut stream: Stream, router: &Router) -> Result<(), SessionError> {
    let mut body = stream.next().await?.ok_or(SessionError::Broken("no request"))?;
    let kind = body.try_get_u16().ok().map(Kind);
    let exchange = Exchange { session, body, stream };
    match kind.map(|kind| router.0.get(&kind)) {
        None => exchange.refuse(Refusal::Invalid).await,
        Some(None) => exchange.refuse(Refusal::Unknown).await,
        Some(Some(handler)) => handler.handle(exchange).await,
    }
}
