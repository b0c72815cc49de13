//! Serving: what a holder answers.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_types::{ArtifactId, Millis};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};
use tracing::debug;

use super::blocking;
use super::get::{Fetched, GetError, get};
use super::wire::{GROUPS, HAVE, KEEP, Keep, LONGEST_RUN, Named, News, OUTLINE, Run, Size};
use crate::EndpointId;
use crate::artifact::GROUP;
use crate::session::{Exchange, Refusal, Router, SessionError};
use crate::store::{Pinned, Store, StoreError};

/// How often whoever asked to keep something hears of it.
const NEWS: Duration = Duration::from_millis(250);
/// How long a group may take whose reader keeps others waiting.
const STALL: Duration = Duration::from_secs(5);
/// Groups that are read from disk at a time.
const READ: u32 = 4;

/// What others may have of a store, and what they may leave there.
pub trait Policy: Send + Sync + 'static {
    /// Whether this endpoint may fetch the ciphertext of an artifact.
    fn may_read(&self, remote: EndpointId, artifact: ArtifactId) -> bool;
    /// Whether this endpoint may have us fetch and keep an artifact.
    fn may_keep(&self, remote: EndpointId, wish: &Keep) -> bool;
    /// When so many bytes of an artifact may be sent to this endpoint, if it is to wait for that.
    fn turn(&self, _remote: EndpointId, _artifact: ArtifactId, _bytes: u64) -> Option<Turn> {
        None
    }
}

/// Everything may be fetched by whom a session was opened with, and nothing is left here.
struct Readable;

impl Policy for Readable {
    fn may_read(&self, _: EndpointId, _: ArtifactId) -> bool {
        true
    }

    fn may_keep(&self, _: EndpointId, _: &Keep) -> bool {
        false
    }
}

/// A turn that is waited for. What it gives is kept until all is sent, or until the reader takes nothing
/// for some seconds: then it is cut off.
pub type Turn = Pin<Box<dyn Future<Output = Result<Box<dyn Send>, Refusal>> + Send>>;

/// A store that others may use.
#[derive(Clone)]
pub struct Holder {
    store: Store,
    /// Others may read from this one, too.
    second: Option<Store>,
    policy: Arc<dyn Policy>,
}

impl std::fmt::Debug for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Holder").field(&self.store).finish()
    }
}

impl Holder {
    /// Lets others use this store as the policy says.
    pub fn new(store: Store, policy: impl Policy) -> Self {
        Self { store, second: None, policy: Arc::new(policy) }
    }

    /// Lets everybody fetch everything: only the reader of a grant opens it.
    pub fn readable(store: Store) -> Self {
        Self::new(store, Readable)
    }

    /// Lets others read from a second store; what they leave goes to the first one.
    #[must_use]
    pub fn beside(mut self, store: Store) -> Self {
        self.second = Some(store);
        self
    }

    /// Adds what a holder answers.
    #[must_use]
    pub fn answer_on(self, router: Router) -> Router {
        let (a, b, c, d) = (self.clone(), self.clone(), self.clone(), self);
        router
            .on(OUTLINE, move |exchange| a.clone().outline(exchange))
            .on(HAVE, move |exchange| b.clone().have(exchange))
            .on(GROUPS, move |exchange| c.clone().groups(exchange))
            .on(KEEP, move |exchange| d.clone().keep(exchange))
    }

    async fn outline(self, exchange: Exchange) -> Result<(), SessionError> {
        let Ok(Named { artifact }) = Named::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        let content = match self.find(&exchange, artifact).await {
            Ok(content) => content,
            Err(refusal) => return exchange.refuse(refusal).await,
        };
        let outline = content.outline().clone();
        let row = u64::try_from(outline.row().as_flattened().len()).unwrap_or(u64::MAX);
        let _place = match self.turn(&exchange, artifact, row.saturating_add(GROUP as u64)).await {
            Ok(place) => place,
            Err(refusal) => return exchange.refuse(refusal).await,
        };
        let Ok(last) = blocking(move || content.read(content.outline().last())).await else {
            return exchange.refuse(Refusal::Failed).await;
        };
        let size = Size { size: outline.size() };
        let mut stream = exchange.accept(&size.encode()).await?;
        stream.send_bytes(Bytes::from(outline.row().as_flattened().to_vec())).await?;
        stream.send_bytes(last).await?;
        stream.finish();
        Ok(())
    }

    async fn have(self, exchange: Exchange) -> Result<(), SessionError> {
        let Ok(Named { artifact }) = Named::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        match self.find(&exchange, artifact).await {
            Ok(content) => exchange.answer(&content.have().encode()).await,
            Err(refusal) => exchange.refuse(refusal).await,
        }
    }

    async fn groups(self, exchange: Exchange) -> Result<(), SessionError> {
        let Ok(wish) = Run::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        let (1..=LONGEST_RUN, Some(end)) = (wish.count, wish.first.checked_add(wish.count)) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        let content = match self.find(&exchange, wish.artifact).await {
            Ok(content) => content,
            Err(refusal) => return exchange.refuse(refusal).await,
        };
        if !(wish.first..end).all(|index| content.has(index)) {
            return exchange.refuse(Refusal::Missing).await;
        }
        let bytes = u64::from(wish.count).saturating_mul(GROUP as u64);
        let place = match self.turn(&exchange, wish.artifact, bytes).await {
            Ok(place) => place,
            Err(refusal) => return exchange.refuse(refusal).await,
        };
        let mut stream = exchange.accept(&[]).await?;
        if place.is_some() {
            stream = stream.patient(STALL);
        }
        // The next ones are read while these are sent.
        let mut reading = read(&content, wish.first, end);
        let mut next = wish.first;
        while next < end {
            next = next.saturating_add(READ).min(end);
            let groups = reading.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
            let groups = groups.map_err(SessionError::Lost)?;
            reading = read(&content, next, end);
            for group in groups {
                stream.send_bytes(group).await?;
            }
        }
        stream.finish();
        drop(place);
        Ok(())
    }

    /// Waits until it may be sent.
    async fn turn(
        &self,
        exchange: &Exchange,
        artifact: ArtifactId,
        bytes: u64,
    ) -> Result<Option<Box<dyn Send>>, Refusal> {
        match self.policy.turn(exchange.session.remote(), artifact, bytes) {
            Some(turn) => turn.await.map(Some),
            None => Ok(None),
        }
    }

    /// What is there. Who may not read it does not learn that it is there.
    async fn find(&self, exchange: &Exchange, artifact: ArtifactId) -> Result<Pinned, Refusal> {
        if !self.policy.may_read(exchange.session.remote(), artifact) {
            return Err(Refusal::Missing);
        }
        let (store, second) = (self.store.clone(), self.second.clone());
        let find = move || match (store.content(&artifact), second) {
            (Err(StoreError::Missing(_)), Some(second)) => second.content(&artifact),
            (found, _) => found,
        };
        blocking(find).await.map_err(|error| match error {
            StoreError::Missing(_) => Refusal::Missing,
            _ => Refusal::Failed,
        })
    }

    async fn keep(self, exchange: Exchange) -> Result<(), SessionError> {
        let Ok(wish) = Keep::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        if !self.policy.may_keep(exchange.session.remote(), &wish) {
            return exchange.refuse(Refusal::Denied).await;
        }
        if self.store.check_size(wish.size).is_err() {
            return exchange.refuse(Refusal::Busy).await;
        }
        let session = exchange.session.clone();
        let mut stream = exchange.accept(&[]).await?;
        let (told, heard) = watch::channel(0);
        let fetching = fetch(&self.store, &wish, &session, told);
        let mut fetching = std::pin::pin!(fetching);
        let mut ticks = interval(NEWS);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let news = loop {
            tokio::select! {
                fetched = &mut fetching => break match fetched {
                    Ok(fetched) => News::Kept { sent: fetched.bytes },
                    Err(error) => {
                        debug!(artifact = %wish.artifact, %error, "not kept");
                        News::Failed
                    }
                },
                _ = ticks.tick() => {
                    let done = *heard.borrow();
                    stream.send(&News::Fetched { done }.encode()).await?;
                }
            }
        };
        stream.send(&news.encode()).await?;
        stream.finish();
        Ok(())
    }
}

/// Fetches what shall be kept from whoever asked for it, and holds it.
async fn fetch(
    store: &Store,
    wish: &Keep,
    session: &crate::Session,
    told: watch::Sender<u64>,
) -> Result<Fetched, GetError> {
    let told = move |progress: super::Progress| {
        told.send_replace(progress.done);
    };
    let limited = store.clone().up_to(wish.size);
    let fetched = get(&limited, wish.artifact, std::slice::from_ref(session), told).await?;
    if wish.until > Millis(0) {
        let (store, wish) = (store.clone(), *wish);
        blocking(move || store.hold(&wish.artifact, wish.until)).await?;
    }
    Ok(fetched)
}

type Reading = tokio::task::JoinHandle<std::io::Result<Vec<Bytes>>>;

/// Reads the next few groups of a run.
fn read(content: &Pinned, first: u32, end: u32) -> Reading {
    let content = content.clone();
    let until = first.saturating_add(READ).min(end);
    tokio::task::spawn_blocking(move || (first..until).map(|index| content.read(index)).collect())
}
