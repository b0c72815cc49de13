//! The soak: blocks of random and hostile transactions on the real ledger, every invariant after
//! every block.
//!
//! ```text
//!   seed ──► Author ──transactions──► Execution ──► check_block ──► Memory ──► check_state
//!              ▲                                                      │
//!              └──────────────── looks at the state ──────────────────┘
//! ```
//!
//! Signatures of transactions are not part of it (the ledger does not check them); keys, proofs of
//! possession and the votes of evidence are real.

mod adversary;
mod author;
pub(crate) mod cast;
mod crowd;
pub(crate) mod draft;
mod hearing;
mod keys;
mod record;
mod tally;
mod told;
mod trade;
mod trying;
mod world;

pub use tally::Tally;
pub(crate) use world::host;

use crate::dice::Dice;
use author::Author;
use cast::Cast;
use opengpu_ledger::{
    BlockContext, BlockError, Execution, GenesisError, Halt, MAX_TIME_STEP, Memory, Overlay,
    Rejection, State as _, check_genesis, epoch_of, genesis_seats,
    invariant::{self, Breach},
    leader,
};
use opengpu_types::{
    BeaconSignature, ChainId, ConsensusKey, Entry, Genesis, Height, Key, Millis, SeatSet,
    View as Turn,
};
use record::Records;

/// The state as a block being executed sees it.
type View<'a> = Overlay<&'a Memory>;

/// A crowded block is tried once in so many blocks.
const CROWD_EVERY: u64 = 2_000;
/// Transactions in a block: so many at least, and as many again at random.
const LEAST_TRANSACTIONS: u64 = 13;
/// Key sets for validators, more than there can be validators.
const KEY_SETS: usize = 64;

/// How to soak.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What the run follows from.
    pub seed: u64,
    /// Parties that act; at least [`Settings::LEAST_ACCOUNTS`].
    pub accounts: usize,
}

impl Settings {
    /// Operators, vesting accounts and a few more.
    pub const LEAST_ACCOUNTS: usize = 40;
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// An invariant does not hold.
    #[error(transparent)]
    Breach(#[from] Breach),
    /// A block that should be fine is not.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The ledger stopped.
    #[error(transparent)]
    Halt(#[from] Halt),
    /// The record of an account is not what its events say.
    #[error("reputation: {0}")]
    Record(String),
    /// The network cannot begin.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
}

/// A ledger in memory and who acts on it.
#[derive(Debug)]
pub struct Soak {
    genesis: Genesis,
    state: Memory,
    author: Author,
    clock: Clock,
    tally: Tally,
    records: Records,
}

/// Where the chain is, and who sleeps.
#[derive(Debug)]
struct Clock {
    height: Height,
    time: Millis,
    view: Turn,
    absent: Vec<usize>,
}

impl Soak {
    /// A network before its first block.
    pub fn new(settings: Settings) -> Result<Self, Fault> {
        let accounts = settings.accounts.max(Settings::LEAST_ACCOUNTS);
        let cast = Cast::new(ChainId(7), accounts, KEY_SETS);
        let genesis = world::genesis(&cast);
        check_genesis(&genesis)?;
        let clock =
            Clock { height: Height(0), time: genesis.time, view: Turn(0), absent: Vec::new() };
        let author = Author::new(cast, Dice::new(settings.seed));
        let (state, tally) = (Memory::default(), Tally::default());
        let records = Records::new(genesis.parameters.market.half_life);
        Ok(Self { genesis, state, author, clock, tally, records })
    }

    /// What happened so far.
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The state after the last block.
    pub const fn state(&self) -> &Memory {
        &self.state
    }

    /// Height of the last block.
    pub const fn height(&self) -> Height {
        self.clock.height
    }

    /// Executes the next block and checks everything.
    pub fn block(&mut self) -> Result<(), Fault> {
        let context = self.next_context()?;
        if context.height.0.checked_rem(CROWD_EVERY) == Some(2) {
            self.crowded(context)?;
        }
        let mut execution = Execution::new(&self.state, context);
        execution.begin(&self.genesis)?;
        let more = self.author.dice.below(LEAST_TRANSACTIONS.saturating_add(2));
        for _ in 0..LEAST_TRANSACTIONS.saturating_add(more) {
            let signed = self.author.next(execution.state(), &context);
            match execution.apply(&signed) {
                Ok(receipt) => self.tally.included(&signed, receipt),
                Err(Rejection::Invalid(invalid)) => {
                    self.author.learn(&signed, &invalid);
                    self.tally.refused(&invalid);
                }
                Err(Rejection::Halt(halt)) => return Err(halt.into()),
            }
        }
        let block = execution.finish().map_err(|(_, halt)| halt)?;
        invariant::check_block(&self.state, &block)?;
        self.author.observe(&block, context.height);
        self.tally.heard(&block);
        self.records.read(&block, context.time);
        self.state.commit(block.changes);
        invariant::check_state(&self.state)?;
        self.records.compare(&self.state, context.time).map_err(Fault::Record)?;
        self.tally.blocks = self.tally.blocks.saturating_add(1);
        Ok(())
    }

    /// A block on a copy of the state in which there is no room for another validator.
    fn crowded(&mut self, context: BlockContext) -> Result<(), Fault> {
        let Some((before, signed)) = crowd::prepare(&self.state, &mut self.author, &context) else {
            return Ok(());
        };
        invariant::check_state(&before)?;
        let mut execution = Execution::new(&before, context);
        execution.begin(&self.genesis)?;
        match execution.apply(&signed) {
            Ok(receipt) => self.tally.included(&signed, receipt),
            Err(Rejection::Invalid(invalid)) => self.tally.refused(&invalid),
            Err(Rejection::Halt(halt)) => return Err(halt.into()),
        }
        let block = execution.finish().map_err(|(_, halt)| halt)?;
        let mut after = before.clone();
        after.commit(block.changes.clone());
        Ok(invariant::check_all(&before, &block, &after)?)
    }

    /// The next block's place in time, and who leads it.
    fn next_context(&mut self) -> Result<BlockContext, Fault> {
        let height = self.clock.height.next();
        let parameters = &self.genesis.parameters;
        let epoch = epoch_of(height, parameters);
        let first = height == Height(1) || epoch != epoch_of(self.clock.height, parameters);
        let dice = &mut self.author.dice;
        let step = match dice.below(64) {
            0 => MAX_TIME_STEP.0,
            1 => 1,
            _ => dice.below(4_000).saturating_add(1),
        };
        let begin;
        let seats = match self.state.get(&Key::Seats(epoch)) {
            Ok(Some(Entry::Seats(seats))) => seats,
            _ => {
                [begin, _] = genesis_seats(&self.genesis)?;
                &begin
            }
        };
        if first {
            self.clock.absent = absentees(dice, seats);
        }
        let parent_view = if first { Turn(0) } else { self.clock.view };
        let (view, leader) = turn(seats, parent_view, &self.clock.absent)
            .ok_or(BlockError::NoSeat { leader: ConsensusKey([0; 32]), epoch })?;
        let time = self.clock.time.plus(Millis(step));
        (self.clock.height, self.clock.time, self.clock.view) = (height, time, view);
        let beacon = BeaconSignature(self.author.dice.bytes());
        let chain = self.genesis.chain;
        Ok(BlockContext { chain, height, view, parent_view, leader, time, beacon })
    }
}

/// Seats that miss all their turns in an epoch: mostly nobody, sometimes one, seldom half.
fn absentees(dice: &mut Dice, seats: &SeatSet) -> Vec<usize> {
    let count = seats.seats.len() as u64;
    let absent = match dice.below(16) {
        0 => count / 2,
        1..6 => 1,
        6..8 => 3,
        _ => 0,
    };
    (0..absent).map(|_| usize::try_from(dice.below(count)).unwrap_or(0)).collect()
}

/// The first view after the parent's whose leader is there, and that leader.
fn turn(seats: &SeatSet, parent: Turn, absent: &[usize]) -> Option<(Turn, ConsensusKey)> {
    (parent.0.saturating_add(1)..parent.0.saturating_add(512)).find_map(|view| {
        let place = leader(seats, Turn(view))?;
        let seat = seats.seats.get(place)?;
        (!absent.contains(&place)).then_some((Turn(view), seat.consensus))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_seat_is_skipped_and_a_present_one_is_not() {
        let soak = Soak::new(Settings { seed: 1, accounts: 0 }).unwrap();
        let [seats, _] = genesis_seats(&soak.genesis).unwrap();
        let first = leader(&seats, Turn(1)).unwrap();
        assert_eq!(turn(&seats, Turn(0), &[]).unwrap().0, Turn(1));
        assert!(turn(&seats, Turn(0), &[first]).unwrap().0 > Turn(1));
    }
}
