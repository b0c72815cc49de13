//! The state over the network: fetches operations of the log from peers, and serves them.
//!
//! Every node serves. A node that asks needs a finalized header to aim at, which [`crate::join`]
//! finds. With one it asks for ranges of the log at the size that
//! the header names. Whatever a peer answers carries a proof; the engine checks it against the
//! header's `log_root` and tells us its verdict, and a peer whose proof is wrong is cut off. So
//! nobody is trusted here.
//!
//! The engine brings such a service for values of fixed size only; ours are not, hence this one.

use crate::store::{Database, Databases, LogOperation, SYNC_BATCH};
use bytes::Bytes;
use commonware_codec::{Decode as _, Encode as _};
use commonware_cryptography::ed25519::PublicKey;
use commonware_glue::stateful::db::AttachableResolver;
use commonware_p2p::{Blocker, Provider, Receiver, Sender};
use commonware_parallel::Strategy;
use commonware_resolver::{
    Consumer, Delivery, Fetch, Resolver as _,
    p2p::{self, Producer},
};
use commonware_runtime::{Clock, Metrics, Spawner, Storage};
use commonware_storage::{
    mmr,
    qmdb::sync::{Feedback, Request as SyncRequest, Response as SyncResponse, Source, source},
};
use commonware_utils::{
    NonZeroDuration,
    channel::{mpsc, oneshot},
    sync::Mutex,
};
use opengpu_types::Digest;
use rand_core::CryptoRng;
use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

type Request = SyncRequest<mmr::Family>;
type Response = SyncResponse<mmr::Family, LogOperation, Digest>;
/// An answer, and where to say whether its proof holds.
type Answer = (Response, oneshot::Sender<bool>);

/// Who waits for the answer to a request.
#[derive(Clone, Debug)]
pub struct Asker {
    number: u64,
    answers: mpsc::Sender<Answer>,
}

impl PartialEq for Asker {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Asker {}

impl PartialOrd for Asker {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Asker {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.number.cmp(&other.number)
    }
}

/// The service ended before a peer answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request was abandoned: the node is stopping")]
pub struct Abandoned;

/// How peers are asked.
pub struct Config<M, B> {
    /// Knows the peers.
    pub provider: M,
    /// Cuts off peers that misbehave.
    pub blocker: B,
    /// This node.
    pub me: PublicKey,
    /// For an answer of one peer.
    pub timeout: NonZeroDuration,
    /// Pause before a request that no peer answered is sent again.
    pub retry_delay: Duration,
    /// Requests that may wait inside.
    pub mailbox_size: NonZeroUsize,
}

/// Fetches from peers, and holds what is served to them.
pub struct StateSync<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    resolver: p2p::Mailbox<Request, PublicKey, Asker>,
    shelf: Shelf<E, T>,
    requests: Arc<AtomicU64>,
}

impl<E, T> Clone for StateSync<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    fn clone(&self) -> Self {
        Self {
            resolver: self.resolver.clone(),
            shelf: self.shelf.clone(),
            requests: self.requests.clone(),
        }
    }
}

impl<E, T> StateSync<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    /// Starts serving and fetching over `channel`.
    pub fn start<M, B>(
        context: E,
        config: Config<M, B>,
        channel: (impl Sender<PublicKey = PublicKey>, impl Receiver<PublicKey = PublicKey>),
    ) -> Self
    where
        M: Provider<PublicKey = PublicKey>,
        B: Blocker<PublicKey = PublicKey>,
    {
        let shelf = Shelf {
            context: Arc::new(context.child("serve")),
            database: Arc::new(Mutex::new(None)),
        };
        let (engine, resolver) = p2p::Engine::new(
            context,
            p2p::Config {
                peer_provider: config.provider,
                blocker: config.blocker,
                consumer: Inbox,
                producer: shelf.clone(),
                mailbox_size: config.mailbox_size,
                me: Some(config.me),
                fetch_timeout: config.timeout,
                fetch_retry_delay: config.retry_delay,
                priority_requests: false,
                priority_responses: false,
            },
        );
        engine.start(channel);
        Self { resolver, shelf, requests: Arc::new(AtomicU64::new(0)) }
    }
}

impl<E, T> Source for StateSync<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    type Family = mmr::Family;
    type Digest = Digest;
    type Op = LogOperation;
    type Error = Abandoned;

    async fn serve(&self, request: Request) -> source::Result<Self> {
        let (answers, mut received) = mpsc::channel(1);
        let asker = Asker { number: self.requests.fetch_add(1, Ordering::Relaxed), answers };
        let mut resolver = self.resolver.clone();
        // Requests that nobody waits for any more end here.
        resolver.retain(|_, asker: &Asker| !asker.answers.is_closed());
        resolver.fetch(Fetch { key: request, subscriber: asker, span: tracing::Span::none() });
        let (response, verdict) = received.recv().await.ok_or(Abandoned)?;
        Ok((response, Some(Feedback::new(verdict, received))))
    }
}

impl<E, T> AttachableResolver<Database<E, T>> for StateSync<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    async fn attach_database(&self, database: Databases<E, T>) {
        *self.shelf.database.lock() = Some(database);
    }
}

/// Takes answers of peers to those who asked.
#[derive(Clone, Debug)]
struct Inbox;

impl Consumer for Inbox {
    type Key = Request;
    type Value = Bytes;
    type Subscriber = Asker;
    type Outcome = bool;

    fn deliver(
        &mut self,
        delivery: Delivery<Request, Asker>,
        value: Bytes,
    ) -> oneshot::Receiver<bool> {
        let (verdict, receiver) = oneshot::channel();
        let Some(response) = decode(&delivery.key, value) else {
            let _ = verdict.send(false);
            return receiver;
        };
        // Requests are numbered by the one synchronization that a node runs, so one waits. A
        // verdict that is dropped unsent ends the request without blaming the peer.
        let waiting = delivery.subscribers.iter().find(|(asker, _)| !asker.answers.is_closed());
        if let Some((asker, _)) = waiting {
            let _ = asker.answers.try_send((response, verdict));
        }
        receiver
    }
}

/// The answer to `request`, if the bytes are one.
fn decode(request: &Request, value: Bytes) -> Option<Response> {
    let most = usize::try_from(request.max_ops().get()).ok()?;
    let response = Response::decode_cfg(value, &(most, ((), ()))).ok()?;
    let fits = matches!(
        (request, &response),
        (SyncRequest::Operations { .. }, SyncResponse::Operations { .. })
            | (SyncRequest::Boundary { .. }, SyncResponse::Boundary { .. })
    );
    fits.then_some(response)
}

/// What peers may ask for.
struct Shelf<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    context: Arc<E>,
    database: Arc<Mutex<Option<Databases<E, T>>>>,
}

impl<E, T> Clone for Shelf<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    fn clone(&self) -> Self {
        Self { context: self.context.clone(), database: self.database.clone() }
    }
}

impl<E, T> Producer for Shelf<E, T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    type Key = Request;

    fn produce(&mut self, request: Request) -> oneshot::Receiver<Bytes> {
        let (sender, receiver) = oneshot::channel();
        let Some(database) = self.database.lock().clone() else { return receiver };
        if request.max_ops() > SYNC_BATCH {
            return receiver;
        }
        self.context.child("answer").spawn(move |_| async move {
            if let Ok((response, _)) = database.serve(request).await {
                let _ = sender.send(response.encode());
            }
        });
        receiver
    }
}
