//! Whole networks of real nodes: engine, ledger, storage and node logic are the product's; clock,
//! links and disk are simulated.
//!
//! ```text
//!  seed ─► Plan ─► acts of trouble ──────────────► all is well again ─► the end
//!                  loss, partition, delay, kills,   every honest node   stores equal the shadow
//!                  lies, impostors, load, power cut must make progress
//!                       └────────── after every second: agreement, invariants ──────────┘
//! ```
//!
//! A run is judged by what final blocks say: every honest node has the same ones, executing them
//! again in memory breaks no invariant at any height, nobody honest is slashed or cut off, and who
//! voted twice is slashed. One seed is one run, to the last message.

mod agent;
mod canary;
mod cast;
mod client;
mod impostor;
mod lab;
mod liar;
mod plan;
mod sequence;
mod shadow;
mod summary;
mod traders;
mod weather;
mod witness;

pub use agent::Mishaps;
pub use canary::{Canary, run_canary};
pub use client::Absences;
pub use impostor::Part;
pub use shadow::Breach;
pub use summary::Summary;
pub use witness::Witnessed;

use crate::dice::Dice;
use cast::{CHAIN, Cast, transfer};
use commonware_runtime::{
    Clock as _, Supervisor as _,
    deterministic::{
        Config as RuntimeConfig, Context, FaultConfig, PartialWriteMode, ResizeConfig, Runner,
        WriteConfig,
    },
};
use commonware_utils::probability;
use impostor::Impostor;
use lab::{Disk, GOOD, Lab, SLOW};
use liar::Liar;
use opengpu_crypto::Keypair;
use opengpu_types::{Address, Amount, CloseReason, Digest, Entry, Key, Nonce, SignedTransaction};
use plan::{Act, Imposture, Plan};
use shadow::Shadow;
use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};
use traders::Traders;
use weather::Weather;

/// Simulated seconds in which a healed network must get going.
const PATIENCE: u64 = 240;
/// Simulated seconds for which a market goes on after that trouble, with that of its providers and clients alone.
const MARKET: u64 = 25;
/// A run that takes longer in simulated time is broken.
const LIMIT: Duration = Duration::from_secs(3_600);

/// Faults that hit something alive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Messages lost or kept from the other side of a partition.
    pub messages: u64,
    /// Nodes killed while they ran.
    pub kills: u64,
    /// Disks lost, or replaced by an old copy.
    pub disks: u64,
    /// Second votes that left a liar.
    pub lies: u64,
    /// Votes of an impostor that reached a node.
    pub votes: u64,
    /// What happened to providers.
    pub mishaps: u64,
    /// What happened to clients.
    pub absences: u64,
}

impl Faults {
    /// All of them.
    pub const fn total(&self) -> u64 {
        let words = self.messages.saturating_add(self.lies).saturating_add(self.votes);
        let nodes = words.saturating_add(self.kills).saturating_add(self.disks);
        nodes.saturating_add(self.mishaps).saturating_add(self.absences)
    }
}

/// How a run went that went well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What was done to it.
    pub faults: Faults,
    /// Final blocks.
    pub height: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Validators slashed for conflicting votes.
    pub convicted: usize,
    /// How an impostor played a seat at first.
    pub impostor: Option<Part>,
    /// Tasks that were opened.
    pub tasks: u64,
    /// Tasks that ended, by their reasons.
    pub ended: BTreeMap<CloseReason, u64>,
    /// What happened to the providers that the product runs.
    pub mishaps: Mishaps,
    /// Leases that they completed.
    pub served: u64,
    /// What happened to clients.
    pub absences: Absences,
    /// What the blocks showed of leases.
    pub witnessed: Witnessed,
    /// The last block.
    pub tip: Option<Digest>,
    /// Everything that any task, message and disk did, in order.
    pub audit: String,
}

/// What accounts do on a simulated network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scenario {
    /// They pay each other.
    #[default]
    Transfers,
    /// They trade: everyone is a client and a provider.
    Market,
}

/// Runs the network of a seed.
pub fn run(scenario: Scenario, seed: u64) -> Result<Report, Breach> {
    // A node that panics ends its process; here it must not take the simulator with it.
    catch_unwind(AssertUnwindSafe(|| stage(scenario, Plan::draw(seed)))).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<String>().cloned();
        let text = text.or_else(|| payload.downcast_ref::<&str>().map(|text| (*text).into()));
        Err(Breach::Stopped(text.unwrap_or_else(|| "a panic".into())))
    })
}

/// What goes on across a power cut.
struct Production {
    plan: Plan,
    cast: Cast,
    liars: Vec<Option<Arc<Liar>>>,
    impostor: Option<Arc<Impostor>>,
    weather: Weather,
    shadow: Shadow,
    kills: u64,
    disk_faults: u64,
    /// Which disks are in use across a power cut.
    disks: Vec<(u32, u32)>,
    traders: Option<Traders>,
}

fn stage(scenario: Scenario, plan: Plan) -> Result<Report, Breach> {
    let mut config = RuntimeConfig::default().with_seed(plan.seed).with_timeout(Some(LIMIT));
    if plan.power_cut.is_some() {
        config = config.with_storage_fault_config(torn_writes());
    }
    let power_cut = plan.power_cut;
    let mut production = Production::new(scenario, plan);
    let mut runner = Runner::new(config);
    if let Some(cut) = power_cut {
        let (result, checkpoint) =
            runner.start_and_recover(|context| production.until_the_cut(context, cut));
        result?;
        runner = Runner::from(checkpoint);
    }
    let first = power_cut.unwrap_or(0);
    let (result, checkpoint) =
        runner.start_and_recover(|context| production.until_the_end(context, first));
    result?;
    Ok(production.report(checkpoint.auditor().state()))
}

/// At a power cut, any part of what was written and not yet made durable may survive.
fn torn_writes() -> FaultConfig {
    FaultConfig::default()
        .write(WriteConfig {
            failure_rate: probability!(0.0),
            retention_rate: probability!(0.5),
            mode: PartialWriteMode::Subset,
        })
        .resize(ResizeConfig { failure_rate: probability!(0.0), partial_rate: probability!(0.0) })
}

impl Production {
    fn new(scenario: Scenario, plan: Plan) -> Self {
        let cast = Cast::new(plan.validators, plan.accounts);
        let traders = match scenario {
            Scenario::Transfers => None,
            Scenario::Market => {
                let agents = cast.accounts.iter().skip(1).step_by(2).map(Keypair::address);
                Some(Traders::new(Dice::new(plan.seed.rotate_left(32)), agents))
            }
        };
        let mut liars: Vec<_> = cast.members.iter().map(|_| None).collect();
        for deceit in &plan.deceits {
            if let (Some(place), Some(member)) =
                (liars.get_mut(deceit.who), cast.members.get(deceit.who))
            {
                let key = member.keys.consensus.clone();
                *place = Some(Arc::new(Liar::new(CHAIN, key, deceit.lie, deceit.from_epoch)));
            }
        }
        let genesis = cast.genesis(plan.epoch_blocks, plan.missed_limit());
        let impostor = plan.imposture.and_then(|imposture| {
            let member = cast.members.get(imposture.who)?;
            Some(Arc::new(Impostor::new(imposture.part, member, &genesis)))
        });
        let mut shadow = Shadow::new(genesis);
        shadow.trust(traders.as_ref().map(Traders::agents).unwrap_or_default());
        let weather = Weather::new(Dice::new(!plan.seed));
        let (kills, disk_faults, disks) = (0, 0, Vec::new());
        Self { plan, cast, liars, impostor, weather, shadow, kills, disk_faults, disks, traders }
    }

    async fn until_the_cut(&mut self, context: Context, cut: usize) -> Result<(), Breach> {
        let mut lab = self.open(&context, "lab", 0).await?;
        self.play(&context, &mut lab, 0, cut).await?;
        self.disks = lab.disks();
        // Whoever runs now dies in the middle of what it writes.
        let running = (0..self.liars.len()).filter(|index| lab.is_running(*index));
        self.kills = self.kills.saturating_add(u64::try_from(running.count()).unwrap_or(0));
        if let Some(impostor) = &self.impostor {
            impostor.forgotten_by_all();
        }
        Ok(())
    }

    async fn until_the_end(&mut self, context: Context, first: usize) -> Result<(), Breach> {
        let mut lab = self.open(&context, "lab", first).await?;
        self.play(&context, &mut lab, first, usize::MAX).await?;
        self.finale(&context, &mut lab).await
    }

    /// Starts everyone who has begun by act `from`.
    async fn open(
        &self,
        context: &Context,
        name: &'static str,
        from: usize,
    ) -> Result<Lab, Breach> {
        let genesis = self.cast.genesis(self.plan.epoch_blocks, self.plan.missed_limit());
        let weather = self.weather.clone();
        weather.set(0, BTreeSet::new());
        let context = context.child(name);
        let impostor = self.impostor.clone();
        let lab = Lab::new(context, name, &self.cast, genesis, weather, &self.liars, impostor);
        let mut lab = lab.await.with_disks(&self.disks);
        self.begin(&mut lab, from).await?;
        Ok(lab)
    }

    /// Starts everyone who has begun by `act` and does not run. Who lost its disk asks the others
    /// before it is ready, so it comes last.
    async fn begin(&self, lab: &mut Lab, act: usize) -> Result<(), Breach> {
        let (asking, ready): (Vec<_>, Vec<_>) =
            (0..self.cast.members.len()).partition(|index| lab.has_lost_disk(*index));
        for index in ready.into_iter().chain(asking) {
            if self.is_played(index, act) {
                lab.play(index).await;
            } else if self.has_begun(index, act) {
                lab.start(index).await?;
            }
        }
        Ok(())
    }

    fn has_begun(&self, index: usize, act: usize) -> bool {
        self.plan.late.is_none_or(|(late, begins)| late != index || act >= begins)
    }

    /// Whether an impostor still plays the seat. An epoch in which it voted is not its validator's
    /// any more: the two would contradict each other.
    fn is_played(&self, index: usize, act: usize) -> bool {
        let first_epoch = self.shadow.height() < self.plan.epoch_blocks;
        let played = |it: &Imposture| it.who == index && (act < it.acts || first_epoch);
        self.plan.imposture.as_ref().is_some_and(played)
    }

    async fn play(
        &mut self,
        context: &Context,
        lab: &mut Lab,
        from: usize,
        to: usize,
    ) -> Result<(), Breach> {
        let acts = self.plan.acts.clone();
        for (number, act) in acts.iter().enumerate().skip(from).take(to.saturating_sub(from)) {
            self.act(context, lab, act).await?;
            self.begin(lab, number.saturating_add(1)).await?;
        }
        Ok(())
    }

    async fn act(&mut self, context: &Context, lab: &mut Lab, act: &Act) -> Result<(), Breach> {
        self.weather.set(act.loss, act.side.iter().map(|index| lab.key(*index)).collect());
        self.slow_down(lab, &act.slow, true).await;
        for second in 0..act.seconds {
            self.load(lab, act.transfers, second).await;
            context.sleep(Duration::from_secs(1)).await;
            // One after the other, so that they die in different states.
            if let Some(index) = act.killed.get(usize::try_from(second).unwrap_or(usize::MAX)) {
                let hit = lab.kill(*index).await;
                self.kills = self.kills.saturating_add(u64::from(hit));
                if hit && second == 0 && act.disk != Disk::Kept {
                    lab.change_disk(*index, act.disk);
                    self.disk_faults = self.disk_faults.saturating_add(1);
                }
            }
            lab.compare(&mut self.shadow).await?;
        }
        self.weather.set(0, BTreeSet::new());
        self.slow_down(lab, &act.slow, false).await;
        Ok(())
    }

    async fn slow_down(&self, lab: &Lab, nodes: &[usize], slow: bool) {
        let link = if slow { SLOW } else { GOOD };
        for node in nodes {
            for other in 0..self.cast.members.len() {
                lab.link(*node, other, link.clone()).await;
                lab.link(other, *node, link.clone()).await;
            }
        }
    }

    /// Every account pays somebody or trades, through a node that changes every second.
    async fn load(&mut self, lab: &Lab, transfers: u64, second: u64) {
        let running: Vec<_> =
            (0..self.cast.members.len()).filter(|index| lab.is_running(*index)).collect();
        for (place, account) in self.cast.accounts.iter().enumerate() {
            let turn = place.wrapping_add(usize::try_from(second).unwrap_or(0));
            let Some(node) = turn.checked_rem(running.len()).and_then(|it| running.get(it)) else {
                return;
            };
            let Some(Entry::Account(state)) =
                lab.entry(*node, Key::Account(account.address())).await
            else {
                continue;
            };
            let sent = match &mut self.traders {
                Some(traders) => traders.act(&self.shadow, account, state.nonce),
                None => payments(account, state.nonce, place, transfers),
            };
            lab.submit(*node, sent).await;
        }
    }

    /// All is well again: everyone must get on, liars must be slashed, stores must be right.
    async fn finale(&mut self, context: &Context, lab: &mut Lab) -> Result<(), Breach> {
        let wanted = self.shadow.height().saturating_add(self.plan.epoch_blocks).saturating_add(4);
        let trading = if self.traders.is_some() { MARKET } else { 0 };
        for second in 0..PATIENCE.saturating_add(trading) {
            if let Some(traders) = self.traders.as_mut().filter(|_| second == trading) {
                traders.close();
            }
            self.begin(lab, usize::MAX).await?;
            if self.traders.is_some() {
                self.load(lab, 0, second).await;
            }
            context.sleep(Duration::from_secs(1)).await;
            lab.compare(&mut self.shadow).await?;
            let standing = self.standing(lab, wanted).await;
            if let Some(careless) = self.traders.as_ref().and_then(Traders::fault) {
                return Err(careless);
            }
            if second < trading {
                continue;
            }
            let fault = standing.or_else(|| self.unpunished()).or_else(|| self.endless());
            match fault {
                None => return self.compare_stores(context, lab).await,
                Some(breach) if second.saturating_add(1) == PATIENCE.saturating_add(trading) => {
                    return Err(breach);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// An honest node that has not reached `wanted`.
    async fn standing(&self, lab: &Lab, wanted: u64) -> Option<Breach> {
        for node in lab.honest() {
            let height = lab.height(node).await;
            if height < wanted {
                return Some(Breach::Stalled { node, height, wanted });
            }
        }
        None
    }

    /// A liar that lied, or an impostor that contradicted itself, and was not slashed.
    fn unpunished(&self) -> Option<Breach> {
        let told = self.liars.iter().zip(&self.cast.members).filter_map(|(liar, member)| {
            liar.as_ref().filter(|liar| liar.told() > 0).map(|_| member.operator.address())
        });
        let played = self.impostor.iter().filter(|impostor| impostor.must_be_slashed());
        let told = told.chain(played.map(|impostor| impostor.operator()));
        let mut free = told.filter(|validator| !self.shadow.convicted().contains(validator));
        free.next().map(|validator| Breach::LiarUnpunished { validator })
    }

    /// Tasks that are still open although everything is well, or a market without any.
    fn endless(&self) -> Option<Breach> {
        let tasks = self.shadow.tasks();
        let mut open = self.shadow.open_tasks();
        // Nothing may be open in the state either, whatever blocks told.
        open.extend(Traders::open_tasks(self.shadow.state()));
        open.sort_unstable();
        open.dedup();
        match open.first() {
            Some(first) => Some(Breach::Endless { open: open.len(), tasks, first: *first }),
            None => (self.traders.is_some() && tasks == 0).then_some(Breach::Idle),
        }
    }

    async fn compare_stores(&mut self, context: &Context, lab: &mut Lab) -> Result<(), Breach> {
        for node in lab.honest() {
            for _ in 0..PATIENCE {
                lab.compare(&mut self.shadow).await?;
                match lab.holds(node, &self.shadow).await {
                    Some(true) => break,
                    Some(false) => {
                        return Err(Breach::State { node, height: self.shadow.height() });
                    }
                    None => context.sleep(Duration::from_millis(100)).await,
                }
            }
        }
        Ok(())
    }

    fn report(&self, audit: String) -> Report {
        let lies = self.liars.iter().flatten().map(|liar| liar.told());
        let traders = self.traders.as_ref();
        let mishaps = traders.map(Traders::mishaps).unwrap_or_default();
        let absences = traders.map(|it| it.absences(&self.shadow)).unwrap_or_default();
        Report {
            faults: Faults {
                messages: self.weather.dropped(),
                kills: self.kills,
                disks: self.disk_faults,
                lies: lies.fold(0, u64::saturating_add),
                votes: self.impostor.as_ref().map_or(0, |impostor| impostor.votes()),
                mishaps: mishaps.total(),
                absences: absences.total(),
            },
            height: self.shadow.height(),
            transactions: self.shadow.transactions(),
            convicted: self.shadow.convicted().len(),
            impostor: self.impostor.as_ref().map(|impostor| impostor.part()),
            tasks: u64::try_from(self.shadow.tasks()).unwrap_or(u64::MAX),
            ended: self.shadow.ended(),
            mishaps,
            served: traders.map_or(0, |traders| traders.served(&self.shadow)),
            absences,
            witnessed: self.shadow.witnessed(),
            tip: self.shadow.tip().copied(),
            audit,
        }
    }
}

/// So many small payments of one account.
fn payments(account: &Keypair, nonce: Nonce, place: usize, count: u64) -> Vec<SignedTransaction> {
    let to = Address::new([u8::try_from(place).unwrap_or(0); 20]);
    let nonces = (0..count).map(|step| Nonce(nonce.0.saturating_add(step)));
    nonces.map(|nonce| transfer(account, nonce, to, Amount(1_000_000))).collect()
}
