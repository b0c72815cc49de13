//! The shadow: the same chain executed once more, in memory, with every invariant at every height.
//!
//! Each node's final blocks are compared with the first one seen at that height; a new height is
//! executed here by the ledger alone, without the engine, and must give what its header says.

use super::{
    sequence::{self, Money},
    witness::{Witness, Witnessed},
};
use opengpu_ledger::{
    BlockContext, Executed, Execution, Memory,
    invariant::{self, check_all},
};
use opengpu_types::{
    Address, Block, CloseReason, Digest, Event, Genesis, Height, Key, Millis, Outcome,
    SignedTransaction, SlashReason, TaskId, TransactionId,
};
use std::collections::{BTreeMap, BTreeSet};

/// What must not happen.
#[derive(Debug, thiserror::Error)]
pub enum Breach {
    /// Two nodes hold different final blocks.
    #[error("fork at height {height}")]
    Fork {
        /// Where.
        height: u64,
    },
    /// A final block does not follow the one before.
    #[error("block {height} does not follow block {}", height.saturating_sub(1))]
    Sequence {
        /// Where.
        height: u64,
    },
    /// A final block cannot be executed.
    #[error("block {height} cannot be executed: {reason}")]
    Execution {
        /// Where.
        height: u64,
        /// Why.
        reason: String,
    },
    /// A final header says something else than execution.
    #[error("the header of block {height} does not say what it does")]
    Header {
        /// Where.
        height: u64,
    },
    /// An invariant of the ledger does not hold.
    #[error("block {height}: {breach}")]
    Invariant {
        /// Where.
        height: u64,
        /// Which.
        breach: invariant::Breach,
    },
    /// A node's store holds something else than the blocks lead to.
    #[error("node {node} holds another state at height {height}")]
    State {
        /// Whose.
        node: usize,
        /// Where.
        height: u64,
    },
    /// Somebody honest was punished for conflicting votes.
    #[error("{validator} was slashed for conflicting votes and is honest")]
    HonestSlashed {
        /// Who.
        validator: Address,
    },
    /// A node cut off a peer that is honest.
    #[error("an honest node cut off an honest node")]
    HonestBlocked,
    /// A liar got away.
    #[error("{validator} voted twice and was not slashed")]
    LiarUnpunished {
        /// Who.
        validator: Address,
    },
    /// Nothing goes on although nothing is wrong any more.
    #[error("node {node} stands at height {height}, {wanted} was wanted")]
    Stalled {
        /// Who.
        node: usize,
        /// Where it stands.
        height: u64,
        /// Where it should be.
        wanted: u64,
    },
    /// A node stopped by itself.
    #[error("a node stopped: {0}")]
    Stopped(String),
    /// Tasks did not end by themselves, or nobody told the reason.
    #[error("{open} of {tasks} tasks did not end with a reason, {first} is one")]
    Endless {
        /// Those that did not.
        open: usize,
        /// All that were submitted.
        tasks: usize,
        /// The first of them.
        first: TaskId,
    },
    /// A task was told to have ended that was not open.
    #[error("block {height}: {task} ended and was not open")]
    EndedTwice {
        /// Where.
        height: u64,
        /// Which.
        task: TaskId,
    },
    /// A lease goes on from where nobody has come to.
    #[error("block {height}: a lease of {task} goes on from a checkpoint of nobody")]
    Nowhere {
        /// Where.
        height: u64,
        /// Of which task.
        task: TaskId,
    },
    /// Honest providers have come to another end than one alone would have.
    #[error("block {height}: {task} came to another end than without any disturbance")]
    Elsewhere {
        /// Where.
        height: u64,
        /// Which.
        task: TaskId,
    },
    /// It matters in which sequence leases are settled.
    #[error("block {height}: somebody gets something else when settlements change places")]
    Unequal {
        /// Where.
        height: u64,
    },
    /// A provider sent what it had to keep first.
    #[error("{provider} sent what was not on its disk")]
    Unkept {
        /// Who.
        provider: Address,
    },
    /// A client sent what it had to keep first.
    #[error("{client} has an open task that is not on its disk")]
    Forgotten {
        /// Who.
        client: Address,
    },
    /// A market on which nothing was asked for shows nothing.
    #[error("nobody submitted a task")]
    Idle,
    /// The same seed gave another run.
    #[error("the seed gave two different runs")]
    NotDeterministic,
}

/// The chain as the blocks alone tell it.
#[derive(Debug)]
pub(crate) struct Shadow {
    genesis: Genesis,
    state: Memory,
    digests: Vec<Digest>,
    transactions: u64,
    convicted: BTreeSet<Address>,
    /// Every task that was opened, and why it ended.
    tasks: BTreeMap<TaskId, Option<CloseReason>>,
    /// How transactions ended.
    outcomes: BTreeMap<TransactionId, Outcome>,
    /// Tasks for which bids were taken, each time that it began.
    auctions: Vec<TaskId>,
    /// Leases that were completed, by provider.
    served: BTreeMap<Address, u64>,
    /// Time of the last block.
    time: Millis,
    /// What the blocks showed of leases.
    witness: Witness,
    /// A canary: what the blocks wrote of alarms is forgotten.
    forgets_alarms: bool,
}

impl Shadow {
    pub(crate) fn new(genesis: Genesis) -> Self {
        Self {
            genesis,
            state: Memory::default(),
            digests: Vec::new(),
            transactions: 0,
            convicted: BTreeSet::new(),
            tasks: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            auctions: Vec::new(),
            served: BTreeMap::new(),
            time: Millis(0),
            witness: Witness::default(),
            forgets_alarms: false,
        }
    }

    /// From now on nothing is woken; an invariant of the market must notice.
    pub(crate) const fn forget_alarms(&mut self) {
        self.forgets_alarms = true;
    }

    /// These providers run what they say.
    pub(crate) fn trust(&mut self, honest: BTreeSet<Address>) {
        self.witness.trust(honest);
    }

    /// What the blocks showed of leases.
    pub(crate) const fn witnessed(&self) -> Witnessed {
        self.witness.seen()
    }

    /// Height of the last block.
    pub(crate) fn height(&self) -> u64 {
        u64::try_from(self.digests.len()).unwrap_or(u64::MAX)
    }

    /// The state after it.
    pub(crate) const fn state(&self) -> &Memory {
        &self.state
    }

    /// Time of the last block.
    pub(crate) const fn time(&self) -> Millis {
        self.time
    }

    /// How a transaction ended, if it did.
    pub(crate) fn outcome(&self, id: &TransactionId) -> Option<Outcome> {
        self.outcomes.get(id).copied()
    }

    /// Tasks for which bids were taken, each time that it began.
    pub(crate) fn auctions(&self) -> &[TaskId] {
        &self.auctions
    }

    /// Leases that a provider completed.
    pub(crate) fn served(&self, provider: &Address) -> u64 {
        self.served.get(provider).copied().unwrap_or(0)
    }

    /// Transactions in all blocks.
    pub(crate) const fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Validators slashed for conflicting votes.
    pub(crate) const fn convicted(&self) -> &BTreeSet<Address> {
        &self.convicted
    }

    /// How many tasks were opened.
    pub(crate) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Tasks of which no block told why they ended.
    pub(crate) fn open_tasks(&self) -> Vec<TaskId> {
        let open = self.tasks.iter().filter(|(_, reason)| reason.is_none());
        open.map(|(task, _)| *task).collect()
    }

    /// Why a task ended, if it did.
    pub(crate) fn reason(&self, task: &TaskId) -> Option<CloseReason> {
        self.tasks.get(task).copied().flatten()
    }

    /// Tasks that ended, by their reasons.
    pub(crate) fn ended(&self) -> BTreeMap<CloseReason, u64> {
        let mut ended = BTreeMap::new();
        for reason in self.tasks.values().flatten() {
            let count: &mut u64 = ended.entry(*reason).or_default();
            *count = count.saturating_add(1);
        }
        ended
    }

    /// The last block's digest.
    pub(crate) fn tip(&self) -> Option<&Digest> {
        self.digests.last()
    }

    /// A final block of some node, at any height up to the next one.
    pub(crate) fn observe(&mut self, block: &Block) -> Result<(), Breach> {
        let (height, digest) = (block.header.height.0, block.header.digest());
        let place = usize::try_from(height.saturating_sub(1)).unwrap_or(usize::MAX);
        match self.digests.get(place) {
            Some(known) if *known == digest => Ok(()),
            Some(_) => Err(Breach::Fork { height }),
            None => self.execute(block, digest),
        }
    }

    fn execute(&mut self, block: &Block, digest: Digest) -> Result<(), Breach> {
        let header = &block.header;
        let height = header.height.0;
        let follows = self.digests.last().is_none_or(|parent| *parent == header.parent);
        if header.height != Height(self.height()).next() || !follows {
            return Err(Breach::Sequence { height });
        }
        let mut executed = self.carry_out(block, &block.transactions)?;
        if executed.receipts_root() != header.receipts || executed.next_seats != header.next_seats {
            return Err(Breach::Header { height });
        }
        if self.forgets_alarms {
            executed.changes.retain(|key, _| !matches!(key, Key::AgendaPage { .. }));
        }
        let mut after = self.state.clone();
        after.commit(executed.changes.clone());
        check_all(&self.state, &executed, &after)
            .map_err(|breach| Breach::Invariant { height, breach })?;
        self.settle_otherwise(block, &executed, &after)?;
        for event in executed.receipts.iter().flat_map(|receipt| receipt.events.iter()) {
            if let Event::Slashed { validator, reason: SlashReason::ConflictingVotes, .. } = event {
                self.convicted.insert(*validator);
            }
            self.note(height, event)?;
            self.witness.note(height, event, &after)?;
        }
        for receipt in &executed.receipts {
            let id = receipt.transaction;
            self.outcomes.extend(id.map(|id| (id, receipt.outcome)));
        }
        (self.state, self.time) = (after, header.time);
        self.digests.push(digest);
        let count = u64::try_from(block.transactions.len()).unwrap_or(u64::MAX);
        self.transactions = self.transactions.saturating_add(count);
        Ok(())
    }

    /// Executes these transactions as a block that says the same as this one.
    fn carry_out(
        &self,
        block: &Block,
        transactions: &[SignedTransaction],
    ) -> Result<Executed, Breach> {
        let height = block.header.height.0;
        let reason = |reason: String| Breach::Execution { height, reason };
        let mut execution = Execution::new(&self.state, BlockContext::from(&block.header));
        execution.begin(&self.genesis).map_err(|error| reason(error.to_string()))?;
        for signed in transactions {
            execution.apply(signed).map_err(|rejection| reason(rejection.to_string()))?;
        }
        execution.finish().map_err(|(_, halt)| reason(halt.to_string()))
    }

    /// Two settlements of a block change places: everybody is paid and owns the same afterwards.
    fn settle_otherwise(
        &mut self,
        block: &Block,
        executed: &Executed,
        after: &Memory,
    ) -> Result<(), Breach> {
        let Some(transactions) = sequence::another(&block.transactions, executed) else {
            return Ok(());
        };
        let other = self.carry_out(block, &transactions)?;
        let mut otherwise = self.state.clone();
        otherwise.commit(other.changes.clone());
        if Money::of(&other, &otherwise) != Money::of(executed, after) {
            return Err(Breach::Unequal { height: block.header.height.0 });
        }
        self.witness.swapped();
        Ok(())
    }

    /// Keeps the book of tasks: each is opened, and ends once.
    fn note(&mut self, height: u64, event: &Event) -> Result<(), Breach> {
        match event {
            Event::TaskOpened { task, .. } => {
                self.tasks.insert(*task, None);
            }
            Event::BiddingOpened { task } => self.auctions.push(*task),
            Event::LeaseClosed { provider, reason: CloseReason::Completed, .. } => {
                let served = self.served.entry(*provider).or_default();
                *served = served.saturating_add(1);
            }
            Event::TaskClosed { task, reason, .. } => match self.tasks.get_mut(task) {
                Some(known @ None) => *known = Some(*reason),
                _ => return Err(Breach::EndedTwice { height, task: *task }),
            },
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::cast::Cast;
    use opengpu_ledger::{Changes, State as _};
    use opengpu_types::{Amount, Entry};

    #[test]
    fn a_token_from_nowhere_is_a_breach() {
        let cast = Cast::new(4, 1);
        let mut shadow = Shadow::new(cast.genesis(32, 900));
        let account = Key::Account(cast.accounts[0].address());
        let before = Memory::default();
        let executed = {
            let block = first_block(&shadow);
            shadow.observe(&block).unwrap();
            opengpu_ledger::Executed {
                changes: Changes::new(),
                receipts: Vec::new(),
                next_seats: Digest::from([0; 32]),
                weight: opengpu_types::Weight(0),
            }
        };
        let Ok(Some(Entry::Account(rich))) = shadow.state.get(&account) else {
            panic!("no account")
        };
        let mut rich = *rich;
        rich.balance = rich.balance.plus(Amount(1)).unwrap();
        shadow.state.commit([(account, Some(Entry::Account(rich)))]);
        assert!(check_all(&before, &executed, &shadow.state).is_err());
    }

    /// The first block of the network, as its first leader would make it.
    fn first_block(shadow: &Shadow) -> Block {
        use opengpu_types::{BeaconSignature, Epoch, Header, List, Millis, StateCommitment, View};
        let genesis = &shadow.genesis;
        let seats = opengpu_ledger::genesis_seats(genesis).unwrap();
        let leader = opengpu_ledger::leader(&seats[0], View(1)).unwrap();
        let zero = Digest::from([0; 32]);
        let mut header = Header {
            chain: genesis.chain,
            rules: genesis.rules,
            upgrade: None,
            height: Height(1),
            epoch: Epoch(0),
            view: View(1),
            parent_view: View(0),
            leader: seats[0].seats[leader].consensus,
            parent: zero,
            time: Millis(1),
            beacon: BeaconSignature([0; 48]),
            state: StateCommitment { root: zero, log_root: zero, log_start: 0, log_end: 1 },
            transactions: zero,
            receipts: zero,
            next_seats: zero,
        };
        let context = BlockContext::from(&header);
        let mut execution = Execution::new(&shadow.state, context);
        execution.begin(genesis).unwrap();
        let executed = execution.finish().unwrap();
        header.receipts = executed.receipts_root();
        header.next_seats = executed.next_seats;
        Block { header, transactions: List::empty() }
    }

    #[test]
    fn another_block_at_a_known_height_is_a_fork() {
        let mut shadow = Shadow::new(Cast::new(4, 1).genesis(32, 900));
        let mut block = first_block(&shadow);
        shadow.observe(&block).unwrap();
        shadow.observe(&block).unwrap();
        block.header.time.0 += 1;
        assert!(matches!(shadow.observe(&block), Err(Breach::Fork { height: 1 })));
    }

    #[test]
    fn a_task_is_open_until_its_reason_is_told_and_ends_once() {
        let mut shadow = Shadow::new(Cast::new(4, 1).genesis(32, 900));
        let (task, client) = (TaskId(Digest::from([3; 32])), Address::new([1; 20]));
        let (escrow, lock) = (Amount(1), Amount(0));
        let reason = CloseReason::Cancelled;
        let closed = Event::TaskClosed { task, client, reason, paid: lock, refunded: escrow };
        let unknown = shadow.note(1, &closed);
        assert!(matches!(unknown, Err(Breach::EndedTwice { height: 1, .. })));
        shadow.note(1, &Event::TaskOpened { task, client, escrow, lock }).unwrap();
        assert_eq!((shadow.tasks(), shadow.open_tasks()), (1, vec![task]));
        shadow.note(2, &closed).unwrap();
        assert_eq!((shadow.tasks(), shadow.open_tasks()), (1, vec![]));
        assert_eq!(shadow.ended(), BTreeMap::from([(reason, 1)]));
        assert!(shadow.note(3, &closed).is_err());
    }

    #[test]
    fn a_header_that_lies_about_its_receipts_is_found() {
        let mut shadow = Shadow::new(Cast::new(4, 1).genesis(32, 900));
        let mut block = first_block(&shadow);
        block.header.receipts = Digest::from([1; 32]);
        assert!(matches!(shadow.observe(&block), Err(Breach::Header { height: 1 })));
    }
}
