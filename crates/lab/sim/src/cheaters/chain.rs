//! A ledger in memory on which parties act, block by block.
//!
//! Signatures are not part of it, as in the soak; the leader is the only validator and never absent.

use crate::dice::Dice;
use crate::soak::cast::{Cast, Party};
use crate::soak::draft::Draft;
use opengpu_ledger::{
    BlockContext, BlockError, Execution, GenesisError, Halt, Invalid, Memory, Rejection,
    check_genesis, genesis_seats, invariant,
};
use opengpu_types::{
    Allocation, Amount, BeaconSignature, ChainId, ConsensusKey, Emission, Event, Failure, Genesis,
    GenesisValidator, Height, List, MarketOperation, MarketParameters, Millis, Operation, Outcome,
    Parameters, Permille, RuleVersion, Text, TreasuryStream, View as Turn, Weight,
};

pub(super) const CHAIN: ChainId = ChainId(11);
const START: Millis = Millis(1_800_000_000_000);
/// All invariants of the state are looked at once in so many blocks.
const CHECK_EVERY: u64 = 500;

/// Why a run stopped.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// A block that should be fine is not.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// The ledger stopped.
    #[error(transparent)]
    Halt(#[from] Halt),
    /// The network cannot begin.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// An invariant does not hold.
    #[error(transparent)]
    Breach(#[from] invariant::Breach),
    /// Something that must work was refused.
    #[error("{what}: {why}")]
    Refused {
        /// What somebody did.
        what: &'static str,
        /// Why it was refused.
        why: String,
    },
    /// What should be there is not.
    #[error("there is no {0}")]
    Missing(&'static str),
}

/// Something that a party does.
#[derive(Clone, Debug)]
pub(super) struct Act {
    pub(super) by: Party,
    pub(super) operation: MarketOperation,
    /// Whether it is a duty, which is free of fees.
    pub(super) free: bool,
}

/// The chain.
#[derive(Debug)]
pub(super) struct Chain {
    pub(super) cast: Cast,
    genesis: Genesis,
    pub(super) state: Memory,
    height: Height,
    pub(super) time: Millis,
    leader: ConsensusKey,
    dice: Dice,
}

fn genesis(cast: &Cast, market: MarketParameters) -> Result<Genesis, Fault> {
    let permille = Permille::constant;
    let parameters = Parameters {
        epoch_blocks: 1 << 24,
        seats: 1,
        minimum_stake: Amount::whole(100),
        unbonding: Millis(60_000),
        evidence_epochs: 4,
        block_weight: Weight(1 << 30),
        minimum_base_fee: Amount(1_000),
        burned_fee: permille(500),
        account_reserve: Amount(10_000_000_000_000_000),
        entry_reserve: Amount(20_000_000_000_000_000),
        conflict_slash: permille(10),
        missed_slash: permille(10),
        missed_limit: permille(500),
        jail: Millis(20_000),
        reporter_share: permille(50),
        emission: Emission { first_year: Amount::ZERO, kept: permille(850) },
        market,
    };
    let account = cast.parties.first().ok_or(Fault::Missing("operator"))?.address;
    let keys = cast.key_sets.first().ok_or(Fault::Missing("key set"))?;
    let allocation = |party: &Party| Allocation {
        account: party.address,
        amount: Amount::whole(10_000),
        vesting: None,
    };
    let limit = |_| Fault::Missing("room in the genesis");
    Ok(Genesis {
        chain: CHAIN,
        name: Text::new("cheaters").map_err(|_| Fault::Missing("name"))?,
        time: START,
        rules: RuleVersion(1),
        parameters,
        allocations: List::new(cast.parties.iter().map(allocation).collect()).map_err(limit)?,
        treasury: TreasuryStream {
            account,
            amount: Amount::ZERO,
            start: START,
            end: START.plus(Millis(1_000)),
        },
        validators: List::new(vec![GenesisValidator {
            operator: account,
            keys: keys.of(CHAIN, &account),
            host: crate::soak::host(4_000),
            commission: permille(100),
            stake: Amount::whole(1_000),
        }])
        .map_err(limit)?,
    })
}

impl Chain {
    /// Before its first block, with so many parties beside the operator.
    pub(super) fn new(parties: usize, market: MarketParameters, seed: u64) -> Result<Self, Fault> {
        let cast = Cast::new(CHAIN, parties.saturating_add(1), 1);
        let genesis = genesis(&cast, market)?;
        check_genesis(&genesis)?;
        let [seats, _] = genesis_seats(&genesis)?;
        let leader = seats.seats.first().ok_or(Fault::Missing("seat"))?.consensus;
        let (state, dice) = (Memory::default(), Dice::new(seed));
        Ok(Self { cast, genesis, state, height: Height(0), time: START, leader, dice })
    }

    /// A party, counted from zero.
    pub(super) fn party(&self, number: usize) -> Result<Party, Fault> {
        let place = number.saturating_add(1);
        self.cast.parties.get(place).copied().ok_or(Fault::Missing("party"))
    }

    /// The next block, so long after the one before. All that is done in it must take effect, but for duties
    /// for which it has no room.
    pub(super) fn block(&mut self, step: Millis, acts: Vec<Act>) -> Result<Vec<Event>, Fault> {
        let beacon = self.beacon();
        self.block_with(beacon, step, acts)
    }

    /// What the next leader would say.
    pub(super) fn beacon(&mut self) -> BeaconSignature {
        BeaconSignature(self.dice.bytes())
    }

    /// The height of the next block.
    pub(super) const fn next(&self) -> Height {
        self.height.next()
    }

    /// As [`Self::block`], with this beacon.
    pub(super) fn block_with(
        &mut self,
        beacon: BeaconSignature,
        step: Millis,
        acts: Vec<Act>,
    ) -> Result<Vec<Event>, Fault> {
        let view = Turn(self.height.0);
        (self.height, self.time) = (self.height.next(), self.time.plus(step));
        let context = BlockContext {
            chain: CHAIN,
            height: self.height,
            view: Turn(self.height.0),
            parent_view: view,
            leader: self.leader,
            time: self.time,
            beacon,
        };
        let mut execution = Execution::new(&self.state, context);
        execution.begin(&self.genesis)?;
        for Act { by, operation, free } in acts {
            let what = operation.name();
            let mut draft = Draft::of(by, &context, Operation::Market(operation));
            if free {
                draft.max_fee = Amount::ZERO;
            }
            let signed = draft.sign(execution.state());
            let refused = |why| Fault::Refused { what, why };
            match execution.apply(&signed) {
                Ok(receipt) => match failed(receipt.outcome) {
                    None => {}
                    Some(failure) => return Err(refused(failure.to_string())),
                },
                // There is room in the next block, and it is said again.
                Err(Rejection::Invalid(Invalid::BlockFull { .. } | Invalid::FreeSpaceFull))
                    if free => {}
                Err(Rejection::Invalid(invalid)) => return Err(refused(invalid.to_string())),
                Err(Rejection::Halt(halt)) => return Err(halt.into()),
            }
        }
        let block = execution.finish().map_err(|(_, halt)| halt)?;
        let events = block.receipts.iter().flat_map(|it| it.events.iter().cloned()).collect();
        self.state.commit(block.changes);
        if self.height.0.is_multiple_of(CHECK_EVERY) {
            invariant::check_state(&self.state)?;
        }
        Ok(events)
    }

    pub(super) const fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }
}

/// Why an operation had no effect.
const fn failed(outcome: Outcome) -> Option<Failure> {
    match outcome {
        Outcome::Applied => None,
        Outcome::Failed { failure, .. } => Some(failure),
    }
}
