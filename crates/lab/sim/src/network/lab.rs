//! Real nodes on simulated links and a simulated disk: they start, die and start again.

use super::{
    cast::{Cast, Member},
    impostor::Impostor,
    liar::{Liar, Mouth},
    shadow::{Breach, Shadow},
    weather::{Ear, Weather},
};
use commonware_consensus::{marshal::Identifier, types::Height as EngineHeight};
use commonware_cryptography::ed25519::PublicKey;
use commonware_p2p::{
    Address as PeerAddress,
    simulated::{self, Link, Network, Oracle},
};
use commonware_parallel::Sequential;
use commonware_runtime::{Clock as _, Handle, Quota, Supervisor as _, deterministic::Context};
use commonware_utils::{NZUsize, ordered::Map, probability};
use opengpu_ledger::State as _;
use opengpu_node::{
    Config, History, Node, channels,
    epochs::Timeouts,
    max_message,
    mempool::{Limits, Mempool},
    start, store,
};
use opengpu_types::{Block, Entry, Genesis, Key};
use std::{sync::Arc, time::Duration};

/// A link of a healthy network.
pub(crate) const GOOD: Link = Link {
    latency: Duration::from_millis(10),
    jitter: Duration::from_millis(3),
    success_rate: probability!(1.0),
};
/// A link over half the world, on a bad day.
pub(crate) const SLOW: Link = Link {
    latency: Duration::from_millis(250),
    jitter: Duration::from_millis(150),
    success_rate: probability!(1.0),
};

/// Time in which everything that is under way arrives, also over slow links.
const ARRIVAL: Duration = Duration::from_secs(2);

/// What a node finds when it starts again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Disk {
    /// Its own disk, as it left it.
    #[default]
    Kept,
    /// An empty one.
    Lost,
    /// The one that it lost before, or an empty one if it lost none.
    Restored,
}

/// The ends of a simulated channel.
type Outlet = simulated::Sender<PublicKey, Context>;
type Inlet = simulated::Receiver<PublicKey>;

/// A node of the lab.
struct Place {
    member: Member,
    liar: Option<Arc<Liar>>,
    running: Option<Node<Context, Sequential>>,
    /// An impostor that plays instead of the node.
    impostor: Option<Handle<()>>,
    /// Height up to which its blocks were compared.
    seen: u64,
    /// The disk in use, and how many there are.
    disk: u32,
    disks: u32,
}

/// A network of nodes.
pub(crate) struct Lab {
    context: Context,
    /// First part of the names of its disks.
    name: &'static str,
    genesis: Arc<Genesis>,
    oracle: Oracle<PublicKey, Context>,
    weather: Weather,
    places: Vec<Place>,
    guests: Map<PublicKey, PeerAddress>,
    /// Whose votes are noted.
    impostor: Option<Arc<Impostor>>,
}

impl Lab {
    /// Links everyone with everyone; no node runs yet.
    pub(crate) async fn new(
        context: Context,
        name: &'static str,
        cast: &Cast,
        genesis: Genesis,
        weather: Weather,
        liars: &[Option<Arc<Liar>>],
        impostor: Option<Arc<Impostor>>,
    ) -> Self {
        let (network, oracle) = Network::new(
            context.child("network"),
            simulated::Config {
                max_size: max_message(),
                max_peers_per_set: NZUsize!(32),
                disconnect_on_block: true,
                tracked_peer_sets: NZUsize!(4),
            },
        );
        network.start();
        // A validator that lost its seat goes on as a follower.
        let guests = cast
            .members
            .iter()
            .map(|member| (member.public_key(), PeerAddress::Symmetric(member.host().0)));
        let guests = Map::from_iter_dedup(guests);
        let places = cast.members.iter().zip(liars.iter().cloned());
        let places = places.map(|(member, liar)| Place {
            member: member.clone(),
            liar,
            running: None,
            impostor: None,
            seen: 0,
            disk: 0,
            disks: 1,
        });
        let places = places.collect();
        let genesis = Arc::new(genesis);
        let lab = Self { context, name, genesis, oracle, weather, places, guests, impostor };
        for from in 0..lab.places.len() {
            for to in 0..lab.places.len() {
                lab.link(from, to, GOOD).await;
            }
        }
        lab
    }

    fn place(&self, index: usize) -> &Place {
        self.places.get(index).expect("plans name only nodes that exist")
    }

    pub(crate) fn key(&self, index: usize) -> PublicKey {
        self.place(index).member.public_key()
    }

    pub(crate) fn is_running(&self, index: usize) -> bool {
        self.place(index).running.is_some()
    }

    /// Nodes that run and do not lie.
    pub(crate) fn honest(&self) -> Vec<usize> {
        let honest = |place: &Place| place.running.is_some() && place.liar.is_none();
        (0..self.places.len()).filter(|index| honest(self.place(*index))).collect()
    }

    /// Sets the link from one node to another.
    pub(crate) async fn link(&self, from: usize, to: usize, link: Link) {
        if from != to {
            let (from, to) = (self.key(from), self.key(to));
            // There is none yet, or it is replaced.
            let _ = self.oracle.remove_link(from.clone(), to.clone()).await;
            self.oracle.add_link(from, to, link).await.expect("the network runs");
        }
    }

    /// Changes the disk of a node that does not run.
    pub(crate) fn change_disk(&mut self, index: usize, disk: Disk) {
        let Some(place) = self.places.get_mut(index) else { return };
        match disk {
            Disk::Kept => return,
            Disk::Restored if place.disks > 1 => place.disk = 0,
            Disk::Lost | Disk::Restored => {
                place.disk = place.disks;
                place.disks = place.disks.saturating_add(1);
            }
        }
        place.seen = 0;
    }

    /// The disk of each node, for a lab that goes on after this one.
    pub(crate) fn disks(&self) -> Vec<(u32, u32)> {
        self.places.iter().map(|place| (place.disk, place.disks)).collect()
    }

    /// Puts the disks of an earlier lab in.
    pub(crate) fn with_disks(mut self, disks: &[(u32, u32)]) -> Self {
        for (place, (disk, disks)) in self.places.iter_mut().zip(disks) {
            (place.disk, place.disks) = (*disk, *disks);
        }
        self
    }

    pub(crate) fn has_lost_disk(&self, index: usize) -> bool {
        self.place(index).disk > 0
    }

    /// A node that lost its disk keeps recent blocks only, so it fetches the state; the others keep
    /// and execute all blocks.
    fn history(&self, index: usize) -> History {
        let blocks = self.genesis.parameters.epoch_blocks;
        if self.has_lost_disk(index) { History::Recent(blocks) } else { History::All }
    }

    /// Starts a node on its disk.
    pub(crate) async fn start(&mut self, index: usize) -> Result<(), Breach> {
        if self.is_running(index) {
            return Ok(());
        }
        self.unmask(index).await;
        let control = self.oracle.control(self.key(index));
        let mut opened = Vec::new();
        for (channel, quota) in channels() {
            // Votes are the first channel; a liar is honest on all others.
            let liar = self.place(index).liar.clone().filter(|_| channel == 0);
            opened.push(self.open(index, channel, quota, liar).await);
        }
        let Ok(channels) = opened.try_into() else {
            return Err(Breach::Stopped("a node has other channels".into()));
        };
        let config = Config {
            genesis: self.genesis.clone(),
            keys: self.place(index).member.keys.clone(),
            manager: self.oracle.socket_manager(),
            blocker: control,
            strategy: Sequential,
            mempool: Mempool::new(Limits::default()),
            partition_prefix: format!("{}-{index}-{}", self.name, self.place(index).disk),
            guests: self.guests.clone(),
            timeouts: Timeouts::default(),
            history: self.history(index),
            cache_bytes: 1 << 20,
            records: None,
        };
        let context = self.context.child("node").with_attribute("place", index);
        let node = Box::pin(start(context, config, channels)).await;
        let node = node.map_err(|error| Breach::Stopped(error.to_string()))?;
        if let Some(place) = self.places.get_mut(index) {
            place.running = Some(node);
        }
        Ok(())
    }

    /// A node's end of a channel.
    async fn open(
        &self,
        index: usize,
        channel: u64,
        quota: Quota,
        liar: Option<Arc<Liar>>,
    ) -> (Mouth<Outlet>, Ear<Inlet>) {
        let me = self.key(index);
        let control = self.oracle.control(me.clone());
        let (sender, receiver) = control.register(channel, quota).await.expect("the network runs");
        let weather = self.weather.clone();
        let impostor = self.impostor.clone().filter(|_| channel == 0);
        (Mouth { inner: sender, liar }, Ear { inner: receiver, me, weather, impostor })
    }

    /// Lets the impostor play a seat whose node does not run.
    pub(crate) async fn play(&mut self, index: usize) {
        let Some(impostor) = self.impostor.clone() else { return };
        if self.is_running(index) || self.place(index).impostor.is_some() {
            return;
        }
        let [(votes, quota), (certificates, same), ..] = channels();
        let votes = self.open(index, votes, quota, None).await;
        let certificates = self.open(index, certificates, same, None).await;
        let context = self.context.child("impostor");
        let handle = impostor.play(context, votes, certificates);
        if let Some(place) = self.places.get_mut(index) {
            place.impostor = Some(handle);
        }
    }

    /// Ends an impostor's play. Peers cut it off for an hour, which then has passed.
    async fn unmask(&mut self, index: usize) {
        let playing = self.places.get_mut(index).and_then(|place| place.impostor.take());
        let Some(handle) = playing else { return };
        handle.abort();
        let _ = handle.await;
        self.context.sleep(ARRIVAL).await;
        let me = self.key(index);
        for (from, to) in self.oracle.blocked().await.expect("the network runs") {
            if to == me {
                self.oracle.unblock(from, to).await.expect("it was blocked");
            }
        }
    }

    /// Kills a node and everything below it; says whether it lived.
    pub(crate) async fn kill(&mut self, index: usize) -> bool {
        let running = self.places.get_mut(index).and_then(|place| place.running.take());
        let Some(node) = running else { return false };
        node.handle.abort();
        let _ = node.handle.await;
        // The runtime drops what was aborted in its next round.
        self.context.sleep(Duration::from_millis(1)).await;
        // A process keeps in memory whom it cut off, and what it has not yet reported.
        let me = self.key(index);
        if let Some(impostor) = &self.impostor {
            impostor.forgotten_by(&me);
        }
        for (from, to) in self.oracle.blocked().await.expect("the network runs") {
            if from == me {
                self.oracle.unblock(from, to).await.expect("it was blocked");
            }
        }
        true
    }

    fn node(&self, index: usize) -> Option<&Node<Context, Sequential>> {
        self.place(index).running.as_ref()
    }

    /// Height of a node's last final block; zero if it does not run.
    pub(crate) async fn height(&self, index: usize) -> u64 {
        let Some(node) = self.node(index) else { return 0 };
        node.marshal.get_processed().await.map_or(0, |processed| processed.height().get())
    }

    async fn block(&self, index: usize, height: u64) -> Option<Block> {
        let identifier = Identifier::Height(EngineHeight::new(height));
        let block = self.node(index)?.marshal.get_block(identifier).await?;
        Some(block.inner().wire().clone())
    }

    /// A node's state, unless it is still fetched.
    async fn databases(&self, index: usize) -> Option<store::Databases<Context, Sequential>> {
        let state = self.node(index)?.state.clone();
        let ready = async move { state.subscribe_databases().await };
        self.context.timeout(Duration::from_secs(1), ready).await.ok()
    }

    /// A value of a node's final state.
    pub(crate) async fn entry(&self, index: usize, key: Key) -> Option<Entry> {
        let databases = self.databases(index).await?;
        let entry = store::get(&*databases.read().await, &key).await;
        entry.expect("the simulated disk can be read")
    }

    /// Gives a node transactions, as a client would.
    pub(crate) async fn submit(
        &self,
        index: usize,
        transactions: Vec<opengpu_types::SignedTransaction>,
    ) {
        if let Some(node) = self.node(index) {
            let mut runtime = self.context.child("client");
            // A refusal is an answer: the account may have moved on.
            let _ = node.intake.submit(&mut runtime, transactions).await;
        }
    }

    /// Shows every new final block of the honest nodes to the shadow.
    pub(crate) async fn compare(&mut self, shadow: &mut Shadow) -> Result<(), Breach> {
        for index in self.honest() {
            let height = self.height(index).await;
            for next in self.place(index).seen.saturating_add(1)..=height {
                let whole = self.history(index) == History::All;
                match self.block(index, next).await {
                    Some(block) if whole || next <= shadow.height().saturating_add(1) => {
                        shadow.observe(&block)?;
                    }
                    // It fetched the state of a later block.
                    None if !whole => {}
                    _ => break,
                }
                if let Some(place) = self.places.get_mut(index) {
                    place.seen = next;
                }
            }
        }
        for validator in shadow.convicted() {
            let lied = self.places.iter().any(|place| {
                place.member.operator.address() == *validator
                    && place.liar.as_ref().is_some_and(|liar| liar.told() > 0)
            });
            let played = self
                .impostor
                .as_ref()
                .is_some_and(|impostor| impostor.operator() == *validator && impostor.is_guilty());
            if !lied && !played {
                return Err(Breach::HonestSlashed { validator: *validator });
            }
        }
        let is_honest = |key: &PublicKey| {
            let place = self.places.iter().find(|place| place.member.public_key() == *key);
            place.is_some_and(|place| place.liar.is_none() && place.impostor.is_none())
        };
        let blocked = self.oracle.blocked().await.expect("the network runs");
        if blocked.iter().any(|(from, to)| is_honest(from) && is_honest(to)) {
            return Err(Breach::HonestBlocked);
        }
        Ok(())
    }

    /// Compares a node's store with the shadow's state, entry by entry; `None` if the two are not
    /// at the same height right now.
    pub(crate) async fn holds(&self, index: usize, shadow: &Shadow) -> Option<bool> {
        let databases = self.databases(index).await?;
        // While this is held, no block is added.
        let store = databases.read().await;
        let chain = store::get(&store, &Key::Chain).await.expect("the simulated disk can be read");
        if shadow.state().get(&Key::Chain) != Ok(chain.as_ref()) {
            return None;
        }
        for (key, entry) in shadow.state().iter() {
            let stored = store::get(&store, key).await.expect("the simulated disk can be read");
            if stored.as_ref() != Some(entry) {
                return Some(false);
            }
        }
        Some(true)
    }
}
