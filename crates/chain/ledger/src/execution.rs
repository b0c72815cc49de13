//! One block from its first check to its last: [`Execution`].
//!
//! Every step is atomic. A step that ends in an error leaves nothing behind, so after
//! [`Halt::Unloaded`] the caller loads the entries into [`Execution::base_mut`] and calls again.

use crate::{
    admission::{self, Admitted},
    bank, beacon, duty, epoch,
    error::{BlockError, Corruption, Halt, Invalid, Rejection, Stop},
    fee::next_base_fee,
    genesis, invariant,
    limit::{self, Terms},
    market::{self, Market},
    stake::{delegation, election, rewards, schedule, slash, unbonding, validator},
    state::{Changes, Overlay, State},
    table::tables::{Accounts, Chain, Params, Seats, Supplies},
    token,
    weight::refereed_of,
};
use opengpu_crypto::{BeaconSignature, merkle};
use opengpu_types::{
    Amount, ChainId, ConsensusKey, Digest, DutyKind, Event, Failure, Genesis, Header, Height, List,
    Millis, Operation, Outcome, Receipt, SignedTransaction, TaskId, View, Weight,
};

/// A block may be at most this much later than its parent. After a longer outage chain time
/// catches up over several blocks.
pub const MAX_TIME_STEP: Millis = Millis(10_000);

/// What a block says about itself before its transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockContext {
    /// The network.
    pub chain: ChainId,
    /// Block number.
    pub height: Height,
    /// View in which it was proposed.
    pub view: View,
    /// View of its parent in the same epoch; zero for the first block of an epoch.
    pub parent_view: View,
    /// Who proposed it.
    pub leader: ConsensusKey,
    /// Block time.
    pub time: Millis,
    /// The leader's beacon.
    pub beacon: BeaconSignature,
}

impl From<&Header> for BlockContext {
    fn from(header: &Header) -> Self {
        Self {
            chain: header.chain,
            height: header.height,
            view: header.view,
            parent_view: header.parent_view,
            leader: header.leader,
            time: header.time,
            beacon: header.beacon,
        }
    }
}

/// A block that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Entries that changed.
    pub changes: Changes,
    /// The block's own receipt, then one for each transaction.
    pub receipts: Vec<Receipt>,
    /// Digest of the seat set of the next epoch, for the header.
    pub next_seats: Digest,
    /// Weight of all transactions.
    pub weight: Weight,
}

impl Executed {
    /// The commitment to the receipts that belongs into the header.
    pub fn receipts_root(&self) -> Digest {
        let leaves: Vec<_> = self.receipts.iter().map(Receipt::digest).collect();
        merkle::root(&leaves)
    }
}

/// A block being executed.
#[derive(Debug)]
pub struct Execution<S> {
    state: Overlay<S>,
    context: BlockContext,
    events: Vec<Event>,
    receipts: Vec<Receipt>,
}

impl<S: State> Execution<S> {
    /// Prepares a block on top of its parent's state.
    pub fn new(state: S, context: BlockContext) -> Self {
        Self { state: Overlay::new(state), context, events: Vec::new(), receipts: Vec::new() }
    }

    /// The state below, to load entries into it.
    pub const fn base_mut(&mut self) -> &mut S {
        self.state.base_mut()
    }

    /// The state as this block has made it so far.
    pub const fn state(&self) -> &Overlay<S> {
        &self.state
    }

    /// Begins the block: genesis if it is the first, then clock, beacon and leader turns.
    pub fn begin(&mut self, genesis: &Genesis) -> Result<(), BlockError> {
        let checkpoint = self.state.checkpoint();
        let mut events = Vec::new();
        let result = begin(&mut self.state, &self.context, genesis, &mut events);
        match result {
            Ok(()) => {
                self.state.seal();
                self.events = events;
                Ok(())
            }
            Err(error) => {
                self.state.rollback(checkpoint);
                Err(error)
            }
        }
    }

    /// Executes the next transaction. Its signatures must have been checked.
    pub fn apply(&mut self, signed: &SignedTransaction) -> Result<&Receipt, Rejection> {
        let checkpoint = self.state.checkpoint();
        match apply(&mut self.state, &self.context, signed) {
            Ok((outcome, admitted, events)) => {
                self.state.seal();
                let count = &mut self.state.flows.transactions;
                *count = count.saturating_add(1);
                self.state.flows.weight.0 =
                    self.state.flows.weight.0.saturating_add(admitted.weight.0);
                let refereed = &mut self.state.flows.refereed;
                refereed.0 = refereed.0.saturating_add(refereed_of(signed));
                if signed.transaction.is_fee_free() {
                    self.state.flows.free_weight.0 =
                        self.state.flows.free_weight.0.saturating_add(admitted.weight.0);
                }
                let index = self.receipts.len().saturating_add(1);
                self.receipts.push(Receipt {
                    height: self.context.height,
                    index: u32::try_from(index).unwrap_or(u32::MAX),
                    transaction: Some(signed.transaction.id(self.context.chain)),
                    outcome,
                    fee: admitted.fee,
                    weight: admitted.weight,
                    events: List::new(events).expect("an operation has a handful of events"),
                });
                Ok(self.receipts.last().expect("a receipt was just pushed"))
            }
            Err(rejection) => {
                self.state.rollback(checkpoint);
                Err(rejection)
            }
        }
    }

    /// Ends the block: fees, the end of the epoch if it is one, totals and their check.
    pub fn finish(mut self) -> Result<Executed, (Box<Self>, Halt)> {
        let checkpoint = self.state.checkpoint();
        let mut events = Vec::new();
        if let Err(halt) = finish(&mut self.state, &self.context, &mut events) {
            self.state.rollback(checkpoint);
            return Err((Box::new(self), halt));
        }
        let next_seats = match self.state.must::<Chain>(()) {
            Ok(chain) => chain.next_seats,
            Err(halt) => return Err((Box::new(self), halt)),
        };
        self.events.append(&mut events);
        let Ok(events) = List::new(std::mem::take(&mut self.events)) else {
            let halt = Corruption::OutOfRange("the events of a block").into();
            return Err((Box::new(self), halt));
        };
        let own = Receipt {
            height: self.context.height,
            index: 0,
            transaction: None,
            outcome: Outcome::Applied,
            fee: Amount::ZERO,
            weight: self.state.flows.weight,
            events,
        };
        let weight = self.state.flows.weight;
        let mut receipts = Vec::with_capacity(self.receipts.len().saturating_add(1));
        receipts.push(own);
        receipts.append(&mut self.receipts);
        Ok(Executed { changes: self.state.into_changes(), receipts, next_seats, weight })
    }
}

fn begin<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    genesis: &Genesis,
    events: &mut Vec<Event>,
) -> Result<(), BlockError> {
    if context.height == Height(1) {
        genesis::load(state, genesis, events)?;
    }
    let mut chain = state.must::<Chain>(())?;
    if context.height != chain.height.next() {
        return Err(BlockError::Height { got: context.height, last: chain.height });
    }
    let step = context.time.since(chain.time);
    if step == Millis(0) || step > MAX_TIME_STEP {
        return Err(BlockError::Time { got: context.time, last: chain.time });
    }
    let since = chain.time;
    chain.height = context.height;
    chain.time = context.time;
    chain.beacon = context.beacon;
    if let Some(upgrade) = chain.upgrade
        && upgrade.height <= context.height
    {
        chain.rules = upgrade.rules;
        chain.upgrade = None;
    }
    state.set::<Chain>((), chain);
    beacon::record(state, context);

    let parameters = state.must::<Params>(())?;
    let seats = state.must::<Seats>(epoch::epoch_of(context.height, &parameters))?;
    schedule::count_turns(state, context, &seats)?;
    Market::new(state, context, events)?.ring(since)?;
    Ok(())
}

type Applied = (Outcome, Admitted, Vec<Event>);

fn apply<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    signed: &SignedTransaction,
) -> Result<Applied, Rejection> {
    let admitted = admission::check(state, context, signed)?;
    let mut events = Vec::new();
    charge(state, signed, &admitted, &mut events).map_err(|stop| match stop {
        Stop::Halt(halt) => Rejection::Halt(halt),
        // Admission looked at the same balances.
        Stop::Fail(_) => Invalid::CannotPay { balance: Amount::ZERO, fee: admitted.fee }.into(),
    })?;

    let checkpoint = state.checkpoint();
    let kept = events.len();
    for (index, operation) in signed.transaction.operations.iter().enumerate() {
        let last = index.saturating_add(1) == signed.transaction.operations.len();
        let step = |state: &mut Overlay<S>, events: &mut Vec<Event>| {
            still_open(state, &admitted, index)?;
            operate(state, context, (signed, &admitted, index), operation, events)?;
            match last && admitted.limit.is_some() {
                true => limit::charge(state, admitted.lane.sender, admitted.lane.signer),
                false => Ok(()),
            }
        };
        match step(state, &mut events) {
            Ok(()) => {}
            Err(Stop::Halt(halt)) => return Err(halt.into()),
            Err(Stop::Fail(failure)) => {
                if signed.transaction.is_fee_free() {
                    return Err(Invalid::NoOpenDuty.into());
                }
                state.rollback(checkpoint);
                events.truncate(kept);
                let operation = u8::try_from(index).unwrap_or(u8::MAX);
                return Ok((Outcome::Failed { operation, failure }, admitted, events));
            }
        }
    }
    Ok((Outcome::Applied, admitted, events))
}

/// Fee and nonce: what remains even if every operation fails.
fn charge<S: State>(
    state: &mut Overlay<S>,
    signed: &SignedTransaction,
    admitted: &Admitted,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let (sender, payer) = (admitted.lane.sender, admitted.payer);
    if admitted.account.is_none() {
        bank::open_sponsored(state, (sender, signed.transaction.nonce), payer, events)?;
    }
    let mut account = state.must::<Accounts>(sender)?;
    let mut own_fee = Amount::ZERO;
    if !admitted.fee.is_zero() {
        token::collect_fee(state, admitted.fee, signed.transaction.tip)?;
        match payer == sender {
            true => own_fee = admitted.fee,
            false => bank::debit(state, payer, admitted.fee)?,
        }
    }
    account.balance = account.balance.minus(own_fee).ok_or(Failure::InsufficientBalance)?;
    state.flows.spent = Amount::ZERO;
    match &admitted.limit {
        Some(limit) => {
            limit::begin(state, sender, admitted.lane.signer, limit.clone(), own_fee)?;
        }
        None => account.nonce.0 = account.nonce.0.saturating_add(1),
    }
    state.set::<Accounts>(sender, account);
    Ok(())
}

/// An earlier operation of the batch may have closed the account.
fn still_open<S: State>(state: &Overlay<S>, admitted: &Admitted, index: usize) -> Result<(), Stop> {
    if index > 0 && state.view::<Accounts>(admitted.lane.sender)?.is_none() {
        return Err(Failure::InsufficientBalance.into());
    }
    Ok(())
}

fn operate<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    (signed, admitted, index): (&SignedTransaction, &Admitted, usize),
    operation: &Operation,
    events: &mut Vec<Event>,
) -> Result<(), Stop> {
    let sender = admitted.lane.sender;
    if let Some(limit) = &admitted.limit
        && !limit::allows(limit.purpose, operation)
    {
        return Err(Failure::OutsidePurpose.into());
    }
    match operation {
        Operation::Transfer { to, amount } => {
            bank::transfer(state, context, sender, *to, *amount, events)
        }
        Operation::Burn { amount } => bank::burn(state, sender, *amount, events),
        Operation::CloseAccount { to } => bank::close(state, context, sender, *to, events),
        Operation::ChangeKey { to } => bank::change_key(state, context, sender, to, events),
        Operation::Authorize { name, spender, amount, purpose, until } => {
            let (spender, amount, purpose, until) = (*spender, *amount, *purpose, *until);
            let terms = Terms { name, spender, amount, purpose, until };
            limit::authorize(state, context, sender, &terms, events)
        }
        Operation::Revoke { spender } => limit::revoke(state, context, sender, *spender, events),
        Operation::ReleaseVested => token::release_vested(state, context, sender, events),
        Operation::RegisterValidator { keys, host, commission, stake } => {
            let (host, commission, stake) = (*host, *commission, *stake);
            let terms = validator::Terms { keys: keys.clone(), host, commission };
            validator::register(state, context, sender, terms, stake, events)
        }
        Operation::EditValidator { host, commission } => {
            validator::edit(state, sender, *host, *commission, events)
        }
        Operation::RotateKeys { keys } => validator::rotate(state, context, sender, keys, events),
        Operation::Unjail => validator::unjail(state, context, sender, events),
        Operation::Retire => validator::retire(state, context, sender, events),
        Operation::Delegate { validator, amount } => {
            delegation::delegate(state, sender, *validator, *amount, events)
        }
        Operation::Undelegate { validator, amount } => {
            unbonding::undelegate(state, context, sender, *validator, *amount, None, events)
        }
        Operation::Redelegate { from, to, amount } => {
            unbonding::redelegate(state, context, sender, (*from, *to), *amount, events)
        }
        Operation::Withdraw { id } => unbonding::withdraw(state, context, sender, *id, events),
        Operation::ClaimRewards { validator } => rewards::claim(state, sender, *validator, events),
        Operation::ReportEvidence { evidence } => {
            slash::report(state, context, sender, evidence, events)
        }
        Operation::ConfirmSeat { epoch } => {
            duty::discharge(state, sender, DutyKind::ConfirmSeat { epoch: *epoch }, events)
        }
        Operation::Market(operation) => {
            let number = u8::try_from(index).unwrap_or(u8::MAX);
            let task = TaskId::of(&signed.transaction.id(context.chain), number);
            let actor = market::Actor { sender, payer: admitted.payer, task };
            Market::new(state, context, events)?.operate(&actor, operation)
        }
    }
}

fn finish<S: State>(
    state: &mut Overlay<S>,
    context: &BlockContext,
    events: &mut Vec<Event>,
) -> Result<(), Halt> {
    let parameters = state.must::<Params>(())?;
    rewards::pay_tips(state, context)?;
    if epoch::is_last_of_epoch(context.height, &parameters) {
        epoch::close(state, context, events)?;
    }
    let mut chain = state.must::<Chain>(())?;
    chain.base_fee = next_base_fee(chain.base_fee, state.flows.weight, &parameters);
    if epoch::is_first_of_epoch(context.height, &parameters) {
        let next = epoch::epoch_of(context.height, &parameters).plus(1);
        chain.next_seats = election::announce(state, context, next)?;
    }
    state.set::<Chain>((), chain);
    let supply = invariant::settle_supply(state)?;
    state.set::<Supplies>((), supply);
    Ok(())
}
