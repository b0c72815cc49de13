//! Looks at the chain, and tells the desk.
//!
//! Each new block is followed by a look at everything that is open; blocks that come faster than that
//! share one look, unless one says something of this provider. Only auctions are learnt from events;
//! whoever begins looks back, so that one is not missed because everybody was away when it began.

use crate::agent::Earned;
use crate::auditing::Watch;
use crate::chain::{Chain, ChainError, Final};
use crate::core::Input;
use crate::desk::Inbox;
use crate::trial;
use opengpu_types::{Entry, Event, Height, Key, Millis, Task, TaskId, TaskPhase};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tracing::debug;

/// How long it waits for a block before it looks whether it is stopped.
const PATIENCE: Duration = Duration::from_millis(250);
/// Blocks that it looks back when it begins.
const BACK: u64 = 128;
/// Least time between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// The chain's time, carried on by our own clock between blocks.
#[derive(Clone, Debug)]
pub(crate) struct Clock(Arc<Mutex<(Millis, Instant)>>);

impl Clock {
    pub(crate) fn new(time: Millis) -> Self {
        Self(Arc::new(Mutex::new((time, Instant::now()))))
    }

    pub(crate) fn now(&self) -> Millis {
        let (time, since) = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        time.plus(Millis(u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)))
    }

    /// A block has this time; it never goes back.
    pub(crate) fn set(&self, time: Millis) {
        let time = time.max(self.now());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = (time, Instant::now());
    }
}

pub(crate) struct Lookout {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) clock: Clock,
    /// Tasks that are to be looked at.
    pub(crate) interest: Arc<Mutex<BTreeSet<TaskId>>>,
    pub(crate) inbox: Inbox,
    pub(crate) earned: Arc<Mutex<Earned>>,
    pub(crate) stop: Arc<AtomicBool>,
    /// The newest block when it began.
    pub(crate) began: Height,
    /// What is looked at for audits, where the network audits.
    pub(crate) audits: Option<Watch>,
    /// What is looked at for trials, where the network tries devices.
    pub(crate) trials: Option<trial::Watch>,
}

impl Lookout {
    /// Looks until it is stopped.
    pub(crate) fn watch(mut self) {
        let (mut height, mut looked) = (None, None::<Instant>);
        while !self.stop.load(Ordering::SeqCst) {
            let turned = self.turn(&mut height).and_then(|ours| {
                if ours || looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
                    self.look()?;
                    looked = Some(Instant::now());
                }
                Ok(())
            });
            if let Err(error) = turned {
                debug!(%error, "cannot look");
                std::thread::sleep(PATIENCE);
            }
        }
    }

    /// Takes the next block, if there is one; whether it says something of this provider.
    fn turn(&mut self, height: &mut Option<Height>) -> Result<bool, ChainError> {
        let after = match *height {
            Some(height) => height,
            None => {
                let tip = self.chain.tip()?.height;
                self.began = tip;
                Height(tip.0.saturating_sub(BACK))
            }
        };
        *height = Some(after);
        let Some(block) = self.chain.next(after, PATIENCE)? else { return Ok(false) };
        // A node that dies in between is asked for the same block again.
        let auctions = self.auctions(&block)?;
        *height = Some(block.height);
        self.clock.set(block.time);
        for (id, task) in auctions {
            let (task, salt) = (Box::new(task), rand::random());
            self.inbox.tell(Input::Bidding { id, task, salt });
        }
        let (account, is_new) = (self.chain.account(), block.height > self.began);
        let mut ours = false;
        for event in &block.events {
            if let Some(audits) = &self.audits {
                ours |= audits.hear(block.height, event, account) && is_new;
            }
            ours |= trial::Watch::hear(event, account) && is_new;
            match event {
                Event::LeaseOpened { provider, .. } if *provider == account => ours |= is_new,
                Event::LeaseClosed { provider, paid, .. } if is_new && *provider == account => {
                    ours = true;
                    let mut earned = self.earned.lock().unwrap_or_else(PoisonError::into_inner);
                    earned.leases = earned.leases.saturating_add(1);
                    earned.paid = earned.paid.plus(*paid).unwrap_or(earned.paid);
                }
                _ => {}
            }
        }
        Ok(ours)
    }

    /// Auctions that a block opened and that still take bids.
    fn auctions(&self, block: &Final) -> Result<Vec<(TaskId, Task)>, ChainError> {
        let mut auctions = Vec::new();
        for event in &block.events {
            let Event::BiddingOpened { task: id } = event else { continue };
            let bidding = |task: &Task| matches!(task.phase, TaskPhase::Bidding { .. });
            auctions.extend(self.task(*id)?.filter(bidding).map(|task| (*id, task)));
        }
        Ok(auctions)
    }

    /// Tells everything that is open.
    fn look(&self) -> Result<(), ChainError> {
        let mut wanted = self.interest.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let provider = match self.chain.entry(&Key::Provider(self.chain.account()))? {
            Some(Entry::Provider(provider)) => Some(Box::new(provider.into_inner())),
            _ => None,
        };
        let leases = provider.iter().flat_map(|provider| &provider.leases);
        wanted.extend(leases.map(|lease| lease.task));
        let mut tasks = BTreeMap::new();
        for id in wanted {
            tasks.insert(id, self.task(id)?);
        }
        if let Some(audits) = &self.audits {
            audits.look(&*self.chain, provider.as_deref(), &tasks)?;
        }
        self.inbox.tell(Input::Seen { provider, tasks });
        match &self.trials {
            Some(trials) => trials.look(&*self.chain),
            None => Ok(()),
        }
    }

    fn task(&self, id: TaskId) -> Result<Option<Task>, ChainError> {
        Ok(match self.chain.entry(&Key::Task(id))? {
            Some(Entry::Task(task)) => Some(task.into_inner()),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use opengpu_types::{
        Address, ChainId, Digest, MarketOperation, MarketParameters, Outcome, Transaction,
    };
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc;

    const TASK: TaskId = TaskId(Digest([3; 32]));

    /// A chain whose only block opens an auction. Its node dies when it is first asked for the task.
    struct Dying(AtomicU32);

    impl Chain for Dying {
        fn id(&self) -> ChainId {
            ChainId(1)
        }

        fn account(&self) -> Address {
            fixture::ACCOUNT
        }

        fn parameters(&self) -> Result<MarketParameters, ChainError> {
            Ok(MarketParameters::LOCAL)
        }

        fn entry(&self, key: &Key) -> Result<Option<Entry>, ChainError> {
            if *key != Key::Task(TASK) {
                return Ok(None);
            }
            if self.0.fetch_add(1, Ordering::SeqCst) == 0 {
                return Err(ChainError("it is dead".to_owned()));
            }
            let phase = TaskPhase::Bidding { until: Millis(9_000) };
            Ok(Some(Entry::Task(Task { phase, ..fixture::task() }.into())))
        }

        fn submit(&self, _: MarketOperation) -> Result<Outcome, ChainError> {
            Ok(Outcome::Applied)
        }

        fn tip(&self) -> Result<Final, ChainError> {
            Ok(Final { height: Height(0), time: Millis(1), events: Vec::new() })
        }

        fn transactions(&self, _: Height) -> Result<Vec<Transaction>, ChainError> {
            Ok(Vec::new())
        }

        fn next(&self, after: Height, _: Duration) -> Result<Option<Final>, ChainError> {
            let events = vec![Event::BiddingOpened { task: TASK }];
            let block = Final { height: Height(1), time: Millis(2), events };
            Ok((after < Height(1)).then_some(block))
        }
    }

    #[test]
    fn an_auction_is_not_missed_because_a_node_dies() {
        let (sender, receiver) = mpsc::channel();
        let mut lookout = Lookout {
            chain: Arc::new(Dying(AtomicU32::new(0))),
            clock: Clock::new(Millis(1)),
            interest: Arc::default(),
            inbox: Inbox(sender),
            earned: Arc::default(),
            stop: Arc::default(),
            began: Height(0),
            audits: None,
            trials: None,
        };
        let mut height = None;
        assert!(lookout.turn(&mut height).is_err());
        assert!(receiver.try_recv().is_err());
        lookout.turn(&mut height).unwrap();
        assert!(matches!(receiver.try_recv(), Ok(Input::Bidding { id: TASK, .. })));
        lookout.turn(&mut height).unwrap();
        assert!(receiver.try_recv().is_err(), "once");
    }
}
