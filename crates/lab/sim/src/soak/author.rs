//! The author of ordinary transactions: looks at the state and asks for what should work.

use super::{
    View,
    cast::{Cast, KeySet, Party},
    draft::Draft,
    trade::Trade,
    world::{self, OPERATORS},
};
use crate::dice::Dice;
use opengpu_ledger::{
    BlockContext, Executed, Invalid, epoch_of,
    tables::{
        Accounts, CandidateLists, ConsensusKeys, Delegations, Params, Seats, SpendingLimits,
        Unbondings, Validators,
    },
};
use opengpu_types::{
    Account, Address, Amount, ConsensusKey, Digest, DutyKind, Epoch, Event, Evidence, Height,
    Millis, Operation, Permille, PublicKey, Purpose, SignedTransaction, Text, UnbondingId,
    ValidatorKeys, ValidatorStatus, View as Turn, VoteKind, mul_div,
};
use std::collections::VecDeque;

/// Most spending limits at a time.
const LIMITS: usize = 40;
/// Fewest validators below which nobody retires.
const VALIDATORS: usize = 14;

/// Who writes all transactions of a run, and what it remembers of the blocks so far.
#[derive(Debug)]
pub(crate) struct Author {
    pub(crate) cast: Cast,
    pub(crate) dice: Dice,
    /// Account and spender.
    pub(crate) limits: Vec<(Address, Address)>,
    /// Accounts that have another key than their first, and that key.
    pub(crate) changed: Vec<(Address, Address)>,
    /// Every validator that exists, retired ones too.
    pub(crate) validators: Vec<Address>,
    /// Stake on its way out, oldest first.
    unbonding: VecDeque<(UnbondingId, Address)>,
    /// Seats to be confirmed.
    duties: Vec<(Address, Epoch)>,
    /// A piece of evidence that was accepted, to be reported again.
    pub(crate) punished: Option<Evidence>,
    /// What it knows of the market.
    pub(crate) trade: Trade,
}

impl Author {
    pub(crate) fn new(cast: Cast, dice: Dice) -> Self {
        Self {
            cast,
            dice,
            limits: Vec::new(),
            changed: Vec::new(),
            validators: Vec::new(),
            unbonding: VecDeque::new(),
            duties: Vec::new(),
            punished: None,
            trade: Trade::new(),
        }
    }

    /// The next transaction of a block.
    pub(crate) fn next(&mut self, state: &View<'_>, context: &BlockContext) -> SignedTransaction {
        if let Some((account, epoch)) = self.duties.pop() {
            return self.confirm(context, account, epoch).sign(state);
        }
        let mut draft = match self.dice.below(100) {
            0..20 => self.hostile(state, context),
            20..65 => self.trade(state, context),
            _ => self.ordinary(state, context),
        };
        if self.dice.one_in(4) && draft.max_fee == Amount::ONE {
            draft.tip = Amount(self.dice.below_wide(1 << 40));
        }
        if self.dice.one_in(16) {
            draft.memo = Text::new("for the work of last week").expect("a short memo fits");
        }
        draft.sign(state)
    }

    /// Remembers what a refusal means for later.
    pub(crate) fn learn(&mut self, signed: &SignedTransaction, refusal: &Invalid) {
        let [Operation::ConfirmSeat { epoch }] = &*signed.transaction.operations else { return };
        // The rest of the seats is confirmed in the next block.
        if *refusal == Invalid::FreeSpaceFull {
            self.duties.insert(0, (signed.transaction.sender, *epoch));
        }
    }

    /// Remembers what a block did.
    pub(crate) fn observe(&mut self, block: &Executed, height: Height) {
        for event in block.receipts.iter().flat_map(|receipt| &receipt.events) {
            self.trade.observe(event);
            match *event {
                Event::LimitOpened { account, spender, .. } => self.limits.push((account, spender)),
                Event::LimitClosed { account, spender, .. } => {
                    if let Some(place) = self.limits.iter().position(|at| *at == (account, spender))
                    {
                        self.limits.swap_remove(place);
                    }
                }
                Event::KeyChanged { account, key } => {
                    self.changed.retain(|(known, _)| *known != account);
                    if key != account {
                        self.changed.push((account, key));
                    }
                }
                Event::ValidatorOpened { validator, .. } => self.validators.push(validator),
                // Genesis announces its validators by their stake alone.
                Event::Delegated { delegator, validator, .. }
                    if height == Height(1) && delegator == validator =>
                {
                    self.validators.push(validator);
                }
                Event::ValidatorClosed { validator, .. } => {
                    self.validators.retain(|known| *known != validator);
                }
                Event::UnbondingOpened { id, delegator, .. } => {
                    self.unbonding.push_back((id, delegator));
                }
                Event::UnbondingClosed { id, .. } => {
                    self.unbonding.retain(|(open, _)| *open != id);
                }
                Event::DutyOpened { account, duty: DutyKind::ConfirmSeat { epoch } }
                    if !self.dice.one_in(8) =>
                {
                    self.duties.push((account, epoch));
                }
                _ => {}
            }
        }
    }

    pub(crate) fn anyone(&mut self) -> Party {
        let party = *self.dice.pick(&self.cast.parties).expect("the cast is not empty");
        // Wallet keys act less often than others: their addresses are costly to find.
        let wallet = matches!(party.key, PublicKey::Secp256k1(_));
        if wallet && !self.dice.one_in(4) { self.anyone() } else { party }
    }

    pub(crate) fn account(state: &View<'_>, party: Party) -> Option<Account> {
        state.find::<Accounts>(party.address).ok().flatten()
    }

    /// A party that can pay for something, most likely, and its balance.
    pub(crate) fn payer(&mut self, state: &View<'_>) -> (Party, Amount) {
        let mut found = (self.anyone(), Amount::ZERO);
        for _ in 0..8 {
            if let Some(account) = Self::account(state, found.0) {
                found.1 = account.balance;
                if account.balance > Amount::whole(10) {
                    break;
                }
            }
            found = (self.anyone(), Amount::ZERO);
        }
        found
    }

    /// A small part of a balance, more than any reserve.
    pub(crate) fn part(&mut self, balance: Amount) -> Amount {
        let most = balance.0 / 64;
        Amount(self.dice.below_wide(most.max(1)).saturating_add(Amount::ONE.0 / 8))
    }

    pub(crate) fn validator(&mut self) -> Address {
        let known = self.dice.pick(&self.validators).copied();
        known.unwrap_or_else(|| self.anyone().address)
    }

    pub(crate) fn operator(&mut self) -> Party {
        let address = self.validator();
        self.cast.party(&address).unwrap_or_else(|| self.anyone())
    }

    fn ordinary(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        match self.dice.below(10_000) {
            0..4300 => self.transfer(state, context),
            4300..4600 => self.batch(state, context),
            4600..4850 => self.burn(state, context),
            4850..4900 => self.change_key(state, context),
            4900..5300 => self.authorize(state, context),
            5300..5500 => self.revoke(context),
            5500..6500 => self.spend(state, context),
            6500..6700 => self.release(context),
            6700..6780 => self.delegate(state, context),
            6780..6860 => self.undelegate(state, context),
            6860..6875 => self.redelegate(state, context),
            6875..7000 => self.withdraw(state, context),
            7000..8500 => self.transfer(state, context),
            8500..9000 => self.claim(context),
            9000..9200 => self.edit(context),
            9200..9350 => self.unjail(state, context),
            9350..9600 => self.close(state, context),
            9600..9970 => self.sponsored(state, context),
            9970..9980 => self.evidence(state, context),
            9980..9986 if self.dice.one_in(3) => self.register(state, context),
            9986..9988 => self.rotate(state, context),
            9988..9990 => self.retire(state, context),
            _ => self.transfer(state, context),
        }
    }

    fn transfer(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let (from, balance) = self.payer(state);
        let (mut to, amount) = (self.anyone(), self.part(balance));
        // Who has no account mostly stays without one for a while.
        if (to == from || Self::account(state, to).is_none()) && !self.dice.one_in(16) {
            to = self.operator();
        }
        Draft::of(from, context, Operation::Transfer { to: to.address, amount })
    }

    fn batch(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let (from, balance) = self.payer(state);
        let count = self.dice.below(15).saturating_add(2);
        let transfers = (0..count).map(|_| Operation::Transfer {
            to: self.operator().address,
            amount: Amount(self.part(balance).0 / 8),
        });
        let mut operations: Vec<_> = transfers.collect();
        let own = |operation: &Operation| matches!(operation, Operation::Transfer { to, .. } if *to == from.address);
        operations.retain(|operation| !own(operation));
        operations.push(Operation::Burn { amount: Amount(1) });
        operations.truncate(16);
        Draft::batch(from, context, operations)
    }

    fn burn(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let (from, _) = self.payer(state);
        let amount = Amount(self.dice.below_wide(Amount::ONE.0 / 100).saturating_add(1));
        Draft::of(from, context, Operation::Burn { amount })
    }

    fn authorize(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        if self.limits.len() > LIMITS {
            return self.revoke(context);
        }
        let (account, balance) = self.payer(state);
        let amount = match self.dice.below(8) {
            0 => Amount(1),
            _ => self.part(balance),
        };
        let span = match self.dice.below(4) {
            0 => Millis(self.dice.below(20_000).saturating_add(1)),
            _ => Millis(self.dice.below(3_600_000).saturating_add(1)),
        };
        let purposes = [Purpose::Anything, Purpose::Transfers, Purpose::Stake, Purpose::Tasks];
        let purpose = *self.dice.pick(&purposes).expect("there are four");
        let (spender, until) = (self.anyone().address, context.time.plus(span));
        let name = Text::default();
        let terms = Operation::Authorize { name, spender, amount, purpose, until };
        Draft::of(account, context, terms)
    }

    pub(crate) fn revoke(&mut self, context: &BlockContext) -> Draft {
        let anyone = self.anyone();
        let known = self.dice.pick(&self.limits).copied();
        let (account, spender) = known.unwrap_or((anyone.address, anyone.address));
        let account = self.cast.party(&account).unwrap_or(anyone);
        Draft::of(account, context, Operation::Revoke { spender })
    }

    /// A spender uses its limit, mostly within it.
    fn spend(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let known = self.dice.pick(&self.limits).copied();
        let Some((account, spender)) = known else { return self.transfer(state, context) };
        let parties = (self.cast.party(&account), self.cast.party(&spender));
        let limit = state.find::<SpendingLimits>((account, spender)).ok().flatten();
        let ((Some(owner), Some(spender)), Some(limit)) = (parties, limit) else {
            return self.transfer(state, context);
        };
        let amount = match self.dice.below(24) {
            0 => Amount(limit.remaining.0.saturating_add(1)),
            _ => Amount(self.dice.below_wide(limit.remaining.0 / 8).saturating_add(1)),
        };
        let to = self.validators.first().copied().filter(|to| *to != account);
        let transfer = Operation::Transfer { to: to.unwrap_or(spender.address), amount };
        let operation = match (limit.purpose, self.dice.below(16)) {
            (_, 0) => Operation::Unjail,
            (Purpose::Anything, 1..8) => Operation::Burn { amount },
            (Purpose::Anything | Purpose::Transfers, _) => transfer,
            (Purpose::Stake, _) => {
                // To a few validators only, or there would be a delegation of everyone to everyone.
                let few = self.validators.get(..2).unwrap_or_default();
                let validator = self.dice.pick(few).copied().unwrap_or(spender.address);
                Operation::Delegate { validator, amount }
            }
            (Purpose::Tasks, _) => {
                let mut draft = self.submit(state, context);
                (draft.sender, draft.sponsor) = (owner.address, None);
                return draft.by(spender);
            }
        };
        Draft::of(owner, context, operation).by(spender)
    }

    fn release(&mut self, context: &BlockContext) -> Draft {
        let place = OPERATORS.saturating_add(usize::try_from(self.dice.below(6)).unwrap_or(0));
        let party = self.cast.parties.get(place).copied();
        let party = party.unwrap_or_else(|| self.anyone());
        Draft::of(party, context, Operation::ReleaseVested)
    }

    fn delegate(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let validator = self.validator();
        // Operators care for their own stake, or no seat would be filled for long.
        if self.dice.one_in(3)
            && let Some(operator) = self.cast.party(&validator)
        {
            let amount = Amount(self.dice.below_wide(Amount::whole(30).0).saturating_add(1 << 30));
            return Draft::of(operator, context, Operation::Delegate { validator, amount });
        }
        let (delegator, balance) = self.payer(state);
        let amount = Amount(self.part(balance).0 / 16);
        Draft::of(delegator, context, Operation::Delegate { validator, amount })
    }

    /// A delegation that exists, if a few guesses find one, and what it is worth.
    fn delegation(&mut self, state: &View<'_>) -> Option<(Party, Address, Amount)> {
        for _ in 0..8 {
            let (party, validator) = (self.anyone(), self.validator());
            if let Some(found) = Self::worth(state, party, validator) {
                return Some(found);
            }
        }
        None
    }

    /// What a party's delegation is worth, if there is one.
    fn worth(
        state: &View<'_>,
        party: Party,
        validator: Address,
    ) -> Option<(Party, Address, Amount)> {
        let found = state.view::<Delegations>((party.address, validator)).ok().flatten()?;
        let owner = state.view::<Validators>(validator).ok().flatten()?;
        let worth = match found.shares == owner.shares {
            true => owner.stake.0,
            false => mul_div(found.shares.0, owner.stake.0, owner.shares.0)?,
        };
        Some((party, validator, Amount(worth)))
    }

    /// A delegation to a validator that has retired and waits for its last delegators.
    fn leftover(&self, state: &View<'_>) -> Option<(Party, Address, Amount)> {
        let retired = |address: &&Address| {
            let found = state.view::<Validators>(**address).ok().flatten();
            found.is_some_and(|found| found.status == ValidatorStatus::Retired)
        };
        let validator = *self.validators.iter().find(retired)?;
        self.cast.parties.iter().find_map(|party| Self::worth(state, *party, validator))
    }

    fn undelegate(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let leftover = if self.dice.one_in(2) { self.leftover(state) } else { None };
        let found = leftover.or_else(|| self.delegation(state));
        let Some((party, validator, worth)) = found else {
            return self.delegate(state, context);
        };
        let amount = match party.address == validator || self.dice.one_in(3) {
            true => Amount(worth.0 / 50),
            false => worth,
        };
        Draft::of(party, context, Operation::Undelegate { validator, amount })
    }

    fn redelegate(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let Some((party, from, worth)) = self.delegation(state) else {
            return self.delegate(state, context);
        };
        let (to, amount) = (self.validator(), Amount(worth.0 / 2));
        Draft::of(party, context, Operation::Redelegate { from, to, amount })
    }

    /// Some of the stake that has waited longest, if it is mature; not always the first, whose owner
    /// may have nothing left to pay with.
    fn withdraw(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let place = self.dice.below(16);
        let found = usize::try_from(place).ok().and_then(|place| self.unbonding.get(place));
        let Some((id, owner)) = found.copied() else {
            return self.undelegate(state, context);
        };
        let parameters = state.must::<Params>(()).expect("blocks begin with parameters");
        let now = epoch_of(context.height, &parameters);
        let entry = state.view::<Unbondings>(id).ok().flatten();
        let mature =
            entry.is_some_and(|entry| entry.matures <= context.time && entry.epoch.plus(2) < now);
        match (mature, self.cast.party(&owner)) {
            (true, Some(party)) => Draft::of(party, context, Operation::Withdraw { id }),
            _ => self.transfer(state, context),
        }
    }

    /// The stake that was the last to begin.
    pub(crate) fn withdraw_early(&mut self, context: &BlockContext) -> Draft {
        let (id, owner) = self.unbonding.back().copied().unwrap_or((UnbondingId(0), Address::ZERO));
        let party = self.cast.party(&owner).unwrap_or_else(|| self.anyone());
        Draft::of(party, context, Operation::Withdraw { id })
    }

    fn claim(&mut self, context: &BlockContext) -> Draft {
        let (party, validator) = (self.operator(), self.validator());
        let validator = if self.dice.one_in(4) { validator } else { party.address };
        Draft::of(party, context, Operation::ClaimRewards { validator })
    }

    fn edit(&mut self, context: &BlockContext) -> Draft {
        let commission = Permille::new(u16::try_from(self.dice.below(300)).unwrap_or(0));
        let commission = commission.unwrap_or(Permille::ZERO);
        let host = world::host(u16::try_from(self.dice.below(60_000)).unwrap_or(0));
        Draft::of(self.operator(), context, Operation::EditValidator { host, commission })
    }

    fn unjail(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let mut operator = self.operator();
        for address in &self.validators {
            let found = state.view::<Validators>(*address).ok().flatten();
            let ready = found.is_some_and(|found| match found.status {
                ValidatorStatus::Jailed(jail) => jail.until <= context.time,
                ValidatorStatus::Active | ValidatorStatus::Retired => false,
            });
            if ready && let Some(party) = self.cast.party(address) {
                operator = party;
                break;
            }
        }
        Draft::of(operator, context, Operation::Unjail)
    }

    fn close(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        for _ in 0..8 {
            let (party, to) = (self.anyone(), self.operator().address);
            let account = Self::account(state, party);
            if account.is_some_and(|account| account.entries == 0) && to != party.address {
                return Draft::of(party, context, Operation::CloseAccount { to });
            }
        }
        self.transfer(state, context)
    }

    fn sponsored(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let (sponsor, _) = self.payer(state);
        let sender = if self.dice.one_in(8) { self.anyone() } else { self.operator() };
        let balance = Self::account(state, sender).map_or(Amount::ZERO, |account| account.balance);
        let (to, amount) = (self.validator(), Amount((balance.0 / 64).max(1)));
        let mut draft = Draft::of(sender, context, Operation::Transfer { to, amount });
        draft.sponsor = (sponsor != sender).then_some(sponsor);
        let valid = self.dice.below(30);
        draft.valid_until = Height(context.height.0.saturating_add(valid));
        draft
    }

    fn confirm(&self, context: &BlockContext, account: Address, epoch: Epoch) -> Draft {
        let party = self.cast.party(&account).expect("operators are of the cast");
        let mut draft = Draft::of(party, context, Operation::ConfirmSeat { epoch });
        draft.max_fee = Amount::ZERO;
        draft
    }

    /// Two conflicting votes of somebody with a seat, really signed.
    fn evidence(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let parameters = state.must::<Params>(()).expect("blocks begin with parameters");
        let now = epoch_of(context.height, &parameters);
        let epoch = Epoch(now.0.saturating_sub(self.dice.below(3)));
        let voter = self.voter(state, epoch);
        let [one, other] = [1, 2].map(|byte: u8| Digest([byte; 32]));
        let parent = Turn(1);
        let kinds = match self.dice.below(3) {
            0 => [one, other].map(|block| VoteKind::Notarize { parent, block }),
            1 => [one, other].map(|block| VoteKind::Finalize { parent, block }),
            _ => [VoteKind::Nullify, VoteKind::Finalize { parent, block: one }],
        };
        let view = Turn(self.dice.below(90).saturating_add(2));
        let votes = voter.and_then(|voter| self.cast.votes(voter, (epoch, view), kinds));
        let Some(evidence) = votes else { return self.transfer(state, context) };
        self.punished = Some(evidence);
        let (reporter, _) = self.payer(state);
        let report = Operation::ReportEvidence { evidence: evidence.into() };
        Draft::of(reporter, context, report)
    }

    pub(crate) fn voter(&mut self, state: &View<'_>, epoch: Epoch) -> Option<ConsensusKey> {
        let seats = state.view::<Seats>(epoch).ok().flatten()?;
        self.dice.pick(&seats.seats).map(|seat| seat.consensus)
    }

    /// Keys that are nobody's, with an operator's proofs.
    pub(crate) fn free_keys(&mut self, state: &View<'_>, operator: &Address) -> ValidatorKeys {
        loop {
            let keys = self.dice.pick(&self.cast.key_sets).expect("there are keys");
            if matches!(state.find::<ConsensusKeys>(keys.consensus()), Ok(None)) {
                return keys.of(self.cast.chain, operator);
            }
        }
    }

    fn register(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let operators = self.cast.parties.get(..OPERATORS).unwrap_or_default();
        let mut idle = operators.iter().filter(|party| !self.validators.contains(&party.address));
        let Some(party) = idle.next().copied() else {
            return self.retire(state, context);
        };
        let keys = self.free_keys(state, &party.address);
        let (host, commission) = (world::host(9), Permille::ZERO);
        let stake = Amount::whole(self.dice.below(200).saturating_add(100));
        Draft::of(party, context, Operation::RegisterValidator { keys, host, commission, stake })
    }

    fn rotate(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let operator = self.operator();
        let keys = self.free_keys(state, &operator.address);
        Draft::of(operator, context, Operation::RotateKeys { keys })
    }

    /// A validator asks for the keys that another one votes with.
    pub(crate) fn rotate_to_taken(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let operator = self.operator();
        let is_taken = |keys: &&KeySet| matches!(state.view::<ConsensusKeys>(keys.consensus()), Ok(Some(holder)) if holder.operator != operator.address);
        let keys = self.cast.key_sets.iter().find(is_taken).or(self.cast.key_sets.first());
        let keys = keys.expect("there are keys").of(self.cast.chain, &operator.address);
        Draft::of(operator, context, Operation::RotateKeys { keys })
    }

    fn retire(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let operator = self.operator();
        let candidates = state.must_view::<CandidateLists>(()).expect("blocks begin with them");
        let operation = match candidates.validators.len() > VALIDATORS {
            true => Operation::Retire,
            false => Operation::Unjail,
        };
        Draft::of(operator, context, operation)
    }
}
