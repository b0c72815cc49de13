//! The engine of one epoch: its channels, its journals, its start.

use super::{EpochError, Epochs, Timeouts, greeting::Greeting};
use crate::{
    committee::{Committee, Scheme, consensus_key},
    elector::SeatElector,
    engine::Automaton,
    evidence::Informer,
    guard,
};
use commonware_consensus::{
    simplex::{self, Floor, ForwardPolicy, SkipBudget, SkipPolicy},
    types::{Epoch as EngineEpoch, ViewDelta},
};
use commonware_cryptography::{Signer as _, ed25519::PublicKey};
use commonware_p2p::{
    AddressableManager, Blocker, Channel, Message, Receiver, Sender,
    utils::mux::{Builder as _, Error as MuxError, MuxHandle, Muxer, SubReceiver, SubSender},
};
use commonware_parallel::Strategy;
use commonware_runtime::{
    Clock, Error as RuntimeError, Handle, Metrics, Spawner, Storage,
    telemetry::metrics::GaugeExt as _,
};
use commonware_utils::{NZDuration, NZUsize, channel::mpsc};
use opengpu_types::{Digest, View};
use rand_core::CryptoRng;
use std::{
    num::NonZeroUsize,
    time::{Duration, SystemTime},
};

const MAILBOX: NonZeroUsize = NZUsize!(1_024);
const REPLAY_BUFFER: NonZeroUsize = NZUsize!(1024 * 1024);
const WRITE_BUFFER: NonZeroUsize = NZUsize!(256 * 1024);
/// Views behind the last final one for which votes are kept, as evidence and for slow peers.
const VIEW_RETENTION: ViewDelta = ViewDelta::new(256);
/// Pause until a channel that was closed can be opened again.
const REOPEN: Duration = Duration::from_millis(10);

/// The three channels of consensus, split by epoch.
pub(super) struct Channels<S: Sender> {
    pub(super) votes: MuxHandle<S>,
    pub(super) later_votes: mpsc::Receiver<(Channel, Message<S::PublicKey>)>,
    pub(super) certificates: MuxHandle<S>,
    pub(super) later_certificates: mpsc::Receiver<(Channel, Message<S::PublicKey>)>,
    pub(super) requests: MuxHandle<S>,
}

/// A pair of channels of one epoch.
pub(super) type Link<S> = (SubSender<S>, SubReceiver<PublicKey>);

/// The engine of the running epoch; dropping it stops it.
pub(super) struct Running {
    pub(super) epoch: EngineEpoch,
    pub(super) committee: Committee,
    pub(super) anchor: Digest,
    /// Where the engine's own votes of an earlier life end, unless it votes.
    pub(super) watching: Option<View>,
    pub(super) handle: Handle<()>,
    /// When it started.
    pub(super) since: SystemTime,
}

impl Running {
    /// Whether the other seats had time to answer.
    pub(super) fn waited(&self, now: SystemTime) -> bool {
        now.duration_since(self.since).is_ok_and(|waited| waited >= guard::GRACE)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl<E, T, M, B> Epochs<E, T, M, B>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
    M: AddressableManager<PublicKey = PublicKey>,
    B: Blocker<PublicKey = PublicKey>,
{
    /// Starts the engine of an epoch; `watching` tells where its own votes end if it may not vote.
    pub(super) async fn launch<S>(
        &mut self,
        committee: Committee,
        anchor: Digest,
        floor: Floor<Scheme, Digest>,
        watching: Option<View>,
        channels: &mut Channels<S>,
    ) -> Result<Running, EpochError>
    where
        S: Sender<PublicKey = PublicKey>,
    {
        let epoch = EngineEpoch::new(committee.seats().epoch.0);
        let me = self.config.key.public_key();
        let seated = committee.contains(&me);
        let watching = watching.filter(|_| seated);
        let votes = seated && watching.is_none();
        let (scheme, partition) = if votes {
            (committee.voting_scheme(self.config.chain, &self.config.key), self.journal(epoch))
        } else {
            (committee.watching_scheme(self.config.chain, &me), self.watch_journal(epoch))
        };
        let links = (
            self.link(&mut channels.votes, epoch).await?,
            self.link(&mut channels.certificates, epoch).await?,
            self.link(&mut channels.requests, epoch).await?,
        );
        let context = self.context.child("consensus").with_attribute("epoch", epoch);
        let context = context.with_attribute("votes", votes);
        let elector = SeatElector::new(committee.seats().clone());
        let config = self.engine_config(epoch, scheme, elector, floor, partition);
        let (votes_out, votes_in) = links.0;
        let heard = |voter: &&PublicKey| !self.config.turn.was_silent(&consensus_key(voter));
        let greeting = committee.voters().iter().filter(heard).cloned().collect();
        let votes_in = Greeting::new(votes_in, epoch, greeting);
        let handle =
            simplex::Engine::new(context, config).start((votes_out, votes_in), links.1, links.2);
        let _ = self.votes.try_set(u64::from(votes));
        let seats = committee.voters().len();
        tracing::info!(epoch = epoch.get(), seats, seated, votes, "epoch opened");
        let since = self.context.current();
        Ok(Running { epoch, committee, anchor, watching, handle, since })
    }

    /// Opens a channel of an epoch; an engine that was just stopped may still hold it.
    async fn link<S>(
        &mut self,
        channel: &mut MuxHandle<S>,
        epoch: EngineEpoch,
    ) -> Result<Link<S>, EpochError>
    where
        S: Sender<PublicKey = PublicKey>,
    {
        loop {
            match channel.register(epoch.get()).await {
                Ok(link) => return Ok(link),
                Err(MuxError::AlreadyRegistered(_)) => self.context.sleep(REOPEN).await,
                Err(_) => return Err(EpochError::ChannelClosed),
            }
        }
    }

    /// Votes are on disk here before they are sent.
    fn journal(&self, epoch: EngineEpoch) -> String {
        format!("{}-votes-{epoch}", self.config.partition_prefix)
    }

    /// What a watching engine saw. Kept apart: it says nothing about this node's own votes.
    fn watch_journal(&self, epoch: EngineEpoch) -> String {
        format!("{}-watch-{epoch}", self.config.partition_prefix)
    }

    /// The highest view in which this node's journal holds anything.
    pub(super) async fn journal_end(&mut self, epoch: EngineEpoch) -> Result<View, EpochError> {
        let names = match self.context.scan(&self.journal(epoch)).await {
            Ok(names) => names,
            Err(RuntimeError::PartitionMissing(_)) => return Ok(View(0)),
            Err(error) => return Err(EpochError::Store(error.to_string())),
        };
        // The journal has a file for each view, named by its number.
        let views = names.into_iter().filter_map(|name| name.try_into().ok());
        Ok(View(views.map(u64::from_be_bytes).max().unwrap_or(0)))
    }

    /// Removes the journals of epochs that cannot open again.
    pub(super) async fn forget_journals(&mut self, epoch: EngineEpoch) {
        let Some(old) = epoch.previous().and_then(EngineEpoch::previous) else { return };
        for partition in [self.journal(old), self.watch_journal(old)] {
            // Mostly one of the two does not exist.
            let _ = self.context.remove(&partition, None).await;
        }
    }

    fn engine_config(
        &self,
        epoch: EngineEpoch,
        scheme: Scheme,
        elector: SeatElector,
        floor: Floor<Scheme, Digest>,
        partition: String,
    ) -> EngineConfig<E, T, B> {
        let Timeouts { leader, certification, retry, skip, fetch } = self.config.timeouts;
        simplex::Config {
            scheme,
            blocker: self.config.blocker.clone(),
            automaton: self.config.automaton.clone(),
            relay: self.config.automaton.clone(),
            reporter: Informer::new(
                self.config.automaton.clone(),
                self.config.chain,
                elector.seats().clone(),
                self.config.turn.clone(),
                self.config.evidence.clone(),
            ),
            elector,
            strategy: self.config.strategy.clone(),
            partition,
            mailbox_size: MAILBOX,
            epoch,
            floor,
            replay_buffer: REPLAY_BUFFER,
            write_buffer: WRITE_BUFFER,
            page_cache: self.config.page_cache.clone(),
            leader_timeout: leader,
            certification_timeout: certification,
            timeout_retry: retry,
            view_retention: VIEW_RETENTION,
            skip: SkipPolicy::Enabled { timeout: skip, budget: SkipBudget::Participants },
            fetch_timeout: NZDuration!(fetch),
            fetch_retry_delay: Duration::from_millis(100),
            forward: ForwardPolicy::SilentLeader,
            // Late conflicts must still be evidence.
            track_historical_votes: true,
        }
    }
}

type EngineConfig<E, T, B> = simplex::Config<
    Scheme,
    SeatElector,
    B,
    Digest,
    Automaton<E, T>,
    Automaton<E, T>,
    Informer<Automaton<E, T>>,
    T,
>;

/// Splits the channels by epoch.
pub(super) fn split<E, S, V, R>(
    context: &E,
    votes: (S, V),
    certificates: (S, R),
    requests: (S, R),
) -> Channels<S>
where
    E: Spawner,
    S: Sender<PublicKey = PublicKey>,
    V: Receiver<PublicKey = PublicKey>,
    R: Receiver<PublicKey = PublicKey>,
{
    let (mux, votes, later_votes) =
        Muxer::builder(context.child("votes"), votes.0, votes.1).with_backup().build();
    mux.start();
    let (mux, certificates, later_certificates) =
        Muxer::builder(context.child("certificates"), certificates.0, certificates.1)
            .with_backup()
            .build();
    mux.start();
    let (mux, requests) = Muxer::new(context.child("requests"), requests.0, requests.1);
    mux.start();
    Channels { votes, later_votes, certificates, later_certificates, requests }
}
