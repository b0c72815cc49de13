//! A task from its submission to its end: looks at the chain, has every lease accompanied, and puts the
//! output together.

use crate::beside::{Tell, tell_beside};
use crate::client::{Client, ClientError};
use crate::companion::{Companion, Listener, Memory};
use crate::output;
use crate::records::{Delivery, Record};
use crate::rescue::{Rescue, Way};
use opengpu_client::market;
use opengpu_link::{Address, Endpoint, EndpointId, RelayUrl, Store};
use opengpu_market::{holders, overtime};
use opengpu_types::{
    Address as Account, Amount, Checkpoint, Class, CloseReason, Entry, Height, Key, Lease, LeaseId,
    LeasePhase, Millis, SegmentIndex, Task, TaskId, TaskPhase,
};
use opengpu_verify::trace::Trace;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// The chain is looked at after every block, and at least so often.
const LOOK: Duration = Duration::from_millis(100);
/// How often is looked for an output that is on its way.
const SOON: Duration = Duration::from_millis(5);
/// Before a provider that was not reached is tried again for the first time: it may have been started
/// just now.
const AGAIN: Duration = Duration::from_millis(40);
/// Before a node that does not answer is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(300);
/// How long a node is away before a task is left to another process that wants it.
const HANDED_OVER: Duration = Duration::from_secs(5);
/// Before a provider that gave all it had is asked again, if the chain does not say that this is all.
const GIVEN: Duration = Duration::from_secs(3);
/// How long the output of a task that has ended is tried for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the last words of a task that has failed are waited for.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Leases of one task at most.
const MOST_LEASES: u32 = 16;
/// How long a node is waited for when its task must be over.
const A_DAY: Duration = Duration::from_secs(24 * 3_600);
/// What may happen before companions wait for whoever listens.
const UNTOLD: usize = 1024;

/// What happens to a task, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Happening {
    /// The task is somewhere else now.
    Phase(TaskPhase),
    /// A provider has it.
    Leased {
        /// Who.
        provider: Account,
        /// What a second costs.
        rate: Amount,
    },
    /// Program, input or state are on their way to the provider.
    Sending {
        /// Bytes that are there.
        done: u64,
        /// Bytes in all.
        size: u64,
    },
    /// A state or an output is on its way here.
    Receiving {
        /// Bytes that are here.
        done: u64,
        /// Bytes in all.
        size: u64,
    },
    /// The provider has all that it needs.
    Briefed,
    /// The run has begun and has so many segments.
    Begun {
        /// So many.
        segments: u32,
    },
    /// A segment is over.
    Reached {
        /// Which.
        segment: SegmentIndex,
    },
    /// What the program says beside its output.
    Logged {
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The run failed, or did not begin.
    Failed {
        /// Why, as its provider says.
        why: String,
    },
    /// The state after a segment is kept here.
    Kept {
        /// Which.
        segment: SegmentIndex,
    },
    /// All that the lease added is here.
    Fetched,
    /// What the lease added is here from whoever held it: its provider did not give it.
    Rescued {
        /// Until which segment.
        segment: SegmentIndex,
    },
    /// The lease has ended, and has not completed the task.
    Lost {
        /// As the chain has it.
        reason: CloseReason,
        /// The longest time of a lease, if that was over.
        over: Option<Millis>,
    },
    /// The node was away so long that nobody waits for it any more.
    GivenUp {
        /// So long.
        away: Duration,
    },
    /// Something did not work and is tried again.
    Trouble {
        /// What.
        what: String,
    },
}

/// How attending ended.
#[derive(Clone, Debug)]
pub enum Attended {
    /// The task has ended; with its output if it has one.
    Ended {
        /// As it stood at the end.
        task: Box<Task>,
        /// Its output, or why it has none.
        output: Result<Vec<u8>, output::Unfit>,
    },
    /// It goes on without us.
    Left,
}

/// A lease that is accompanied.
struct Accompanied {
    reached: watch::Sender<Option<Checkpoint>>,
    task: JoinHandle<Result<(), ClientError>>,
}

/// How often a lease was tried in vain.
struct Tried {
    last: Instant,
    count: u32,
    /// Whether the last time gave all there was.
    given: bool,
    told: String,
}

impl Tried {
    fn new() -> Self {
        Self { last: Instant::now(), count: 0, given: false, told: String::new() }
    }

    fn again(&mut self) {
        (self.last, self.count) = (Instant::now(), self.count.saturating_add(1));
        self.given = false;
    }

    fn succeed(&mut self) {
        (self.last, self.count, self.given) = (Instant::now(), 0, true);
    }

    /// Each time it rests longer, up to some seconds. What was given is on chain a moment later; only a
    /// provider that died before it committed is needed again.
    fn rests(&self) -> bool {
        if self.given {
            return self.last.elapsed() < GIVEN;
        }
        let factor = 1u32 << self.count.saturating_sub(1).min(8);
        self.last.elapsed() < AGAIN.saturating_mul(factor)
    }
}

struct Attending<'a> {
    client: &'a Client,
    id: TaskId,
    record: Record,
    delivery: Delivery,
    store: Store,
    endpoints: BTreeMap<String, Arc<Endpoint>>,
    companions: BTreeMap<u8, Accompanied>,
    tried: BTreeMap<u8, Tried>,
    /// What was heard of each lease in this process.
    memories: BTreeMap<u8, Memory>,
    /// Leases whose end was told, here or by whoever attended before.
    closed: BTreeSet<u8>,
    /// Closed leases of which nothing more is wanted.
    served: BTreeSet<u8>,
    happened: mpsc::Sender<(u8, Happening)>,
    /// How each provider was reached last.
    ways: BTreeMap<Account, Way>,
}

impl Client {
    /// Attends a task until it has ended or `left` says so. Whoever attended it before may be dead: all
    /// that is needed is on disk and on chain.
    pub fn attend(
        &self,
        id: TaskId,
        left: &AtomicBool,
        tell: Tell<'_>,
    ) -> Result<Attended, ClientError> {
        let record = self.record(id);
        let delivery = record.delivery()?.ok_or(ClientError::Elsewhere)?;
        let store = self.patient_store(&delivery.salt)?;
        let salt = delivery.salt;
        let (happened, heard) = mpsc::channel(UNTOLD);
        let closed = record.seen()?.map_or_else(BTreeSet::new, |task| ended(&task).collect());
        let mut attending = Attending {
            client: self,
            id,
            record,
            delivery,
            store,
            endpoints: BTreeMap::new(),
            companions: BTreeMap::new(),
            tried: BTreeMap::new(),
            memories: BTreeMap::new(),
            closed,
            served: BTreeSet::new(),
            happened,
            ways: BTreeMap::new(),
        };
        let ended = tell_beside(&self.runtime, heard, tell, move || {
            let ended = attending.attend(left);
            attending.leave();
            ended
        });
        if matches!(ended, Ok(Attended::Ended { .. })) {
            self.clear(&salt)?;
        }
        ended
    }

    /// The traces that the leases of a task committed to, as far as what they told is here and is that:
    /// the receipt's root covers every segment in them.
    pub fn traces(&self, id: TaskId, task: &Task) -> Result<BTreeMap<u8, Trace>, ClientError> {
        let mut traces = BTreeMap::new();
        for (number, lease) in (0u8..).zip(&task.leases) {
            let sent = self.record(id).sent(number)?;
            traces.extend(sent.and_then(|sent| Some((number, sent.trace(id, lease)?))));
        }
        Ok(traces)
    }

    /// The task on chain, or as it was seen here at its end. One that is on chain no more and whose end
    /// nobody saw is gone.
    pub fn task(&self, id: TaskId) -> Result<Option<Task>, ClientError> {
        match market::task(&self.rpc, id)? {
            Some(task) => Ok(Some(task)),
            None => Ok(self.record(id).seen()?.filter(Task::is_closed)),
        }
    }
}

impl Attending<'_> {
    fn attend(&mut self, left: &AtomicBool) -> Result<Attended, ClientError> {
        let (mut phase, mut ended, mut away) = (None, None::<Instant>, None::<Instant>);
        let (mut height, mut last) = (Height(0), None::<Task>);
        loop {
            if left.load(Ordering::SeqCst) {
                return Ok(Attended::Left);
            }
            let task = match self.client.task(self.id) {
                // The task goes on without its client's node, and needs its client all the same.
                Err(ClientError::Rpc(error)) if error.passes() => {
                    let since = away.get_or_insert_with(|| {
                        self.tell(0, Happening::Trouble { what: error.to_string() });
                        Instant::now()
                    });
                    // Another process may have a node that answers; a restart of ours takes seconds.
                    let away = since.elapsed();
                    if away > HANDED_OVER && self.record.is_wanted()? {
                        return Ok(Attended::Left);
                    }
                    if is_over_by_now(away, last.as_ref()) {
                        self.tell(0, Happening::GivenUp { away });
                        return Err(ClientError::Away(away));
                    }
                    if let Some(task) = &last {
                        self.accompany_all(task)?;
                    }
                    std::thread::sleep(ASK_AGAIN);
                    continue;
                }
                found => found?.ok_or(ClientError::NoTask(self.id))?,
            };
            away = None;
            if phase != Some(task.phase) {
                phase = Some(task.phase);
                self.record.see(&task)?;
                self.tell(0, Happening::Phase(task.phase));
            }
            self.tell_ends(&task)?;
            if task.is_closed() {
                let output = self.join(&task)?;
                let since = ended.get_or_insert_with(Instant::now);
                let missing =
                    matches!(output, Err(output::Unfit::Missing(_) | output::Unfit::Other(_)));
                let waits = match &output {
                    Err(_) if missing => since.elapsed() <= PATIENCE,
                    // Whoever still listens learns why.
                    Err(_) => since.elapsed() <= LAST_WORDS && self.is_told(),
                    Ok(_) => false,
                };
                if !waits {
                    if let Ok(output) = &output {
                        self.record.keep_output(output)?;
                    }
                    return Ok(Attended::Ended { task: Box::new(task), output });
                }
            }
            self.accompany_all(&task)?;
            if task.is_closed() {
                std::thread::sleep(SOON);
            } else if let Ok(status) = self.client.rpc.wait_for_block(height, LOOK) {
                height = status.height;
            }
            last = Some(task);
        }
    }

    /// Whether somebody still hears of a lease.
    fn is_told(&self) -> bool {
        self.companions.values().any(|companion| !companion.task.is_finished())
    }

    /// Tells of something.
    fn tell(&self, lease: u8, happening: Happening) {
        // Whoever listened may have left.
        let _ = self.happened.blocking_send((lease, happening));
    }

    /// Tells of leases that have ended, each once.
    fn tell_ends(&mut self, task: &Task) -> Result<(), ClientError> {
        let new: Vec<_> = ended(task).filter(|number| !self.closed.contains(number)).collect();
        if new.is_empty() {
            return Ok(());
        }
        self.record.see(task)?;
        let over = overtime::ran_out(task).map(|(number, _)| number);
        for number in new {
            self.closed.insert(number);
            let phase = task.leases.get(usize::from(number)).map(|lease| lease.phase);
            if let Some(LeasePhase::Closed { reason }) = phase
                && reason != CloseReason::Completed
            {
                let is_over = over == Some(number) || reason == CloseReason::Late;
                let over = is_over.then_some(task.spec.requirements.longest);
                self.tell(number, Happening::Lost { reason, over });
            }
        }
        Ok(())
    }

    fn join(&self, task: &Task) -> Result<Result<Vec<u8>, output::Unfit>, ClientError> {
        let mut failed = None;
        let joined = output::join(task, |lease| match self.record.sent(lease) {
            Ok(sent) => sent,
            Err(error) => {
                failed = Some(error);
                None
            }
        });
        failed.map_or(Ok(joined), |error| Err(error.into()))
    }

    /// Whether nothing more is wanted of a lease.
    fn is_served(&mut self, lease: &Lease, number: u8) -> Result<bool, ClientError> {
        if self.served.contains(&number) {
            return Ok(true);
        }
        if !lease.is_closed() && lease.commitment.is_none_or(|it| it.reached.index.0 < it.segments)
        {
            return Ok(false);
        }
        let served = lease.commitment.is_none()
            || self.record.sent(number)?.is_some_and(|sent| sent.serves(lease));
        if served && lease.is_closed() {
            self.served.insert(number);
        }
        Ok(served)
    }

    fn accompany_all(&mut self, task: &Task) -> Result<(), ClientError> {
        for (number, lease) in (0u8..).zip(&task.leases) {
            if let Some(companion) = self.companions.get(&number) {
                let reached = lease.commitment.map(|commitment| commitment.reached);
                let news = |old: &mut Option<Checkpoint>| {
                    let new = *old != reached;
                    *old = reached;
                    new
                };
                companion.reached.send_if_modified(news);
                if !companion.task.is_finished() {
                    continue;
                }
                self.finish(number);
            }
            let rests = self.tried.get(&number).is_some_and(Tried::rests);
            if rests || self.is_served(lease, number)? {
                continue;
            }
            let first = !self.tried.contains_key(&number);
            self.tried.entry(number).or_insert_with(Tried::new).again();
            if first && lease.is_working() {
                let (provider, rate) = (lease.provider, lease.rate);
                self.tell(number, Happening::Leased { provider, rate });
            }
            if let Err(error) = self.accompany(task, number, lease) {
                self.trouble(number, error.to_string());
            }
        }
        Ok(())
    }

    /// Takes the end of a companion.
    fn finish(&mut self, number: u8) {
        let Some(companion) = self.companions.remove(&number) else { return };
        let ended = self.client.runtime.block_on(companion.task);
        match ended {
            Ok(Err(error)) => self.trouble(number, error.to_string()),
            _ => drop(self.tried.get_mut(&number).map(Tried::succeed)),
        }
    }

    /// Tells of trouble, once as long as it stays the same. A provider that has just won a lease may not
    /// know it yet, so the first time says nothing.
    fn trouble(&mut self, number: u8, what: String) {
        let Some(tried) = self.tried.get_mut(&number) else { return };
        if tried.count > 1 && tried.told != what {
            tried.told.clone_from(&what);
            self.tell(number, Happening::Trouble { what });
        }
    }

    /// Begins to accompany a lease.
    fn accompany(&mut self, task: &Task, number: u8, lease: &Lease) -> Result<(), ClientError> {
        let working = lease.is_working() && !task.is_closed();
        let way = match self.way(lease.provider) {
            // Whoever is gone is not needed for what others hold.
            Err(_) if !working => None,
            way => Some(way?),
        };
        let rescue = match working {
            true => {
                self.remember(task, lease)?;
                None
            }
            false => Some(self.rescue(task, number, lease)?),
        };
        let before = match lease.from {
            Some(from) if working && self.record.state(from.state)?.is_none() => {
                self.rescue_of(task, &from)?
            }
            _ => None,
        };
        let (reached, watched) = watch::channel(None);
        let companion = Companion {
            client: self.client.clone(),
            lease: LeaseId { task: self.id, number },
            delivery: self.delivery.clone(),
            store: self.store.clone(),
            way,
            from: lease.from,
            check: match task.spec.class {
                Class::Predicate(check) => Some(check),
                _ => None,
            },
            working,
            reached: watched,
            rescue,
            before,
            memory: Arc::clone(self.memories.entry(number).or_default()),
            listener: self.listener(number),
        };
        let task = self.client.runtime.spawn(companion.accompany());
        self.companions.insert(number, Accompanied { reached, task });
        Ok(())
    }

    fn listener(&self, lease: u8) -> Listener {
        Listener { lease, happened: self.happened.clone() }
    }

    /// How a provider is reached; as it was before, while the node is away.
    fn way(&mut self, account: Account) -> Result<Way, ClientError> {
        match self.new_way(account) {
            Ok(way) => {
                self.ways.insert(account, way.clone());
                Ok(way)
            }
            Err(ClientError::Rpc(error)) if error.passes() => {
                self.ways.get(&account).cloned().ok_or(ClientError::Rpc(error))
            }
            Err(error) => Err(error),
        }
    }

    fn new_way(&mut self, account: Account) -> Result<Way, ClientError> {
        let entry = self.client.rpc.entry(&Key::Provider(account))?;
        let Some(Entry::Provider(provider)) = entry else { return Err(ClientError::Gone) };
        let contact = &provider.contact;
        let relay = contact.relay.as_str();
        let url: RelayUrl = relay.parse().map_err(|_| {
            ClientError::Transfer(format!("the provider names no relay but `{relay}`"))
        })?;
        let address = Address::on_relay(EndpointId(contact.session.0), url.clone());
        let endpoint = match self.endpoints.get(relay) {
            Some(endpoint) => Arc::clone(endpoint),
            None => {
                let bound = self.client.endpoint(&self.delivery, &self.store, url);
                let endpoint = Arc::new(self.client.runtime.block_on(bound)?);
                self.endpoints.insert(relay.to_owned(), Arc::clone(&endpoint));
                endpoint
            }
        };
        Ok(Way { address, reader: contact.sealing, endpoint })
    }

    /// The lease that came to a checkpoint, with those who may have its state.
    fn rescue_of(&mut self, task: &Task, at: &Checkpoint) -> Result<Option<Rescue>, ClientError> {
        let reached = |lease: &Lease| lease.commitment.is_some_and(|it| it.reached == *at);
        let found = (0u8..).zip(&task.leases).find(|(_, lease)| reached(lease));
        found.map(|(number, lease)| self.rescue(task, number, lease)).transpose()
    }

    /// Those who may hold what a lease makes, by their rank: who stands on the market, and who did.
    fn ranked(&self, task: &Task, lease: &Lease) -> Result<Vec<Account>, ClientError> {
        let mut found = holders::standing(|key| self.client.rpc.entry(key))?;
        found.extend(self.record.holders()?);
        let mut ranked = holders::ranked(&self.id, task, &lease.provider, found);
        ranked.truncate(holders::ASKED);
        Ok(ranked)
    }

    /// Remembers who may hold what a lease makes from now on.
    fn remember(&self, task: &Task, lease: &Lease) -> Result<(), ClientError> {
        match self.ranked(task, lease) {
            Ok(ranked) => Ok(self.record.keep_holders(ranked)?),
            // A node that is away is no reason not to follow the lease.
            Err(ClientError::Rpc(error)) if error.passes() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A lease, with its provider and those who may hold what it made.
    fn rescue(&mut self, task: &Task, number: u8, lease: &Lease) -> Result<Rescue, ClientError> {
        let ranked = self.ranked(task, lease)?.into_iter();
        // One that cannot be reached is no reason not to reach the others.
        let holders = ranked.filter_map(|account| self.way(account).ok()).collect();
        Ok(Rescue {
            client: self.client.clone(),
            delivery: self.delivery.clone(),
            store: self.store.clone(),
            id: LeaseId { task: self.id, number },
            lease: lease.clone(),
            provider: self.way(lease.provider).ok(),
            holders,
            listener: self.listener(number),
        })
    }

    fn leave(&mut self) {
        for (_, companion) in std::mem::take(&mut self.companions) {
            companion.task.abort();
            // Whoever attends it next needs what this one holds.
            let _ = self.client.runtime.block_on(companion.task);
        }
        for endpoint in self.endpoints.values() {
            self.client.runtime.block_on(endpoint.close());
        }
    }
}

/// Whether a task can be open no more after its node was away for so long: every lease took as long as it
/// may, and somebody was looked for before each. One of which nothing was seen has a day.
fn is_over_by_now(away: Duration, task: Option<&Task>) -> bool {
    let one =
        task.map_or(Millis(0), |task| task.spec.requirements.longest.plus(task.spec.patience));
    let longest = Duration::from_millis(one.0).saturating_mul(MOST_LEASES);
    away > longest.saturating_add(A_DAY)
}

/// The leases of a task that have ended.
fn ended(task: &Task) -> impl Iterator<Item = u8> {
    let closed = (0u8..).zip(&task.leases).filter(|(_, lease)| lease.is_closed());
    closed.map(|(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_never_comes_back_is_waited_for_as_long_as_the_task_can_be_open() {
        let hours = |hours: u64| Duration::from_secs(hours.saturating_mul(3_600));
        assert!(!is_over_by_now(hours(24), None) && is_over_by_now(hours(25), None));
        let mut task = output::tests::task(Vec::new());
        task.spec.requirements.longest = Millis(3_600_000);
        task.spec.patience = Millis(1_800_000);
        assert!(!is_over_by_now(hours(48), Some(&task)), "sixteen leases, and a day");
        assert!(is_over_by_now(hours(49), Some(&task)));
    }

    #[test]
    fn whoever_gave_all_it_had_is_asked_again_only_if_the_chain_does_not_hear_of_it() {
        let mut tried = Tried::new();
        tried.again();
        tried.succeed();
        let earlier = |span| Instant::now().checked_sub(span).unwrap();
        tried.last = earlier(AGAIN.saturating_mul(2));
        assert!(tried.rests(), "it commits now");
        tried.last = earlier(GIVEN);
        assert!(!tried.rests(), "it may have died before it did");
        tried.again();
        tried.last = earlier(AGAIN);
        assert!(!tried.rests());
    }
}
