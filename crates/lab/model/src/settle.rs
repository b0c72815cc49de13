//! Money: pledges of objections, and the one settlement.
//!
//! | verdict | pay | provider's lock | fees of verifiers |
//! |---|---|---|---|
//! | upheld | the provider, less fees | back | out of the pay |
//! | refuted by a step | the client | a quarter to the client, a quarter to the finder, the rest burned | out of what is burned |
//! | refuted by silence | the client | half to the client, the rest burned | out of what is burned |
//! | inconclusive | the client, less fees | back | out of the pay |
//! | none: silence | the client | half to the client, the rest burned | none |
//! | none: given back, cancelled | the client | back | none |
//!
//! A fee is earned by a segment that was sealed and revealed and is what the leaf says, unless it was posted. An objection earns the
//! finder's share or nothing: one that was not heard, because another was right, gets its pledge back, for
//! nobody knows whether it was right, too. Who agreed with what is refuted keeps the fee: a provider can lose a
//! dispute about what is true. But who agreed to a beginning that the referee finds false loses a pledge: that
//! is shown without a word of the provider's.

use crate::bugs::Bug;
use crate::set::Set;
use crate::state::{Chain, Challenger, Fault, Phase, SEGMENTS, VERIFIERS, Verdict};

/// What a verifier has at first.
pub const SAVINGS: i16 = 8;
/// What the provider claims for the work; fees of verifiers are paid out of it.
pub const PAY: i16 = 8;
/// The client's trust lock.
pub const CLIENT_LOCK: i16 = 2;
/// What the provider has at stake: ten times the claim.
pub const PROVIDER_LOCK: i16 = 80;
/// What an objection of a verifier holds until it is heard.
pub const PLEDGE: i16 = 2;
/// What a checked segment earns.
pub const FEE: i16 = 1;

/// Who has what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Purse {
    /// The client's.
    pub client: i16,
    /// The provider's.
    pub provider: i16,
    /// The verifiers'.
    pub verifiers: [i16; VERIFIERS as usize],
    /// Nobody's.
    pub burned: i16,
    /// What the chain holds for the lease: escrow, locks and pledges.
    pub held: i16,
    /// Of the provider's: pay.
    pub paid: i16,
    /// What was taken of the provider's lock.
    pub slashed: i16,
}

impl Default for Purse {
    fn default() -> Self {
        let held = PAY.saturating_add(CLIENT_LOCK).saturating_add(PROVIDER_LOCK);
        let verifiers = [SAVINGS; VERIFIERS as usize];
        Self { client: 0, provider: 0, verifiers, burned: 0, held, paid: 0, slashed: 0 }
    }
}

impl Purse {
    /// All of it.
    pub fn total(&self) -> i16 {
        let parties = [self.client, self.provider, self.burned, self.held];
        parties.into_iter().chain(self.verifiers).fold(0, i16::saturating_add)
    }

    /// What a verifier has.
    pub fn verifier(&self, verifier: u8) -> i16 {
        self.verifiers.get(usize::from(verifier)).copied().unwrap_or_default()
    }

    fn take(&mut self, amount: i16) -> i16 {
        self.held = self.held.saturating_sub(amount);
        amount
    }

    fn give_verifier(&mut self, verifier: u8, amount: i16) {
        if let Some(purse) = self.verifiers.get_mut(usize::from(verifier)) {
            *purse = purse.saturating_add(amount);
            self.take(amount);
        }
    }

    fn give_client(&mut self, amount: i16) {
        self.client = self.client.saturating_add(self.take(amount));
    }

    fn give_provider(&mut self, amount: i16) {
        self.provider = self.provider.saturating_add(self.take(amount));
    }

    fn burn(&mut self, amount: i16) {
        self.burned = self.burned.saturating_add(self.take(amount));
    }

    fn pay(&mut self, amount: i16) {
        self.paid = self.paid.saturating_add(amount);
        self.give_provider(amount);
    }
}

/// An objection holds a pledge of its verifier.
pub(crate) fn pledge(chain: &mut Chain, verifier: u8) {
    chain.purse.give_verifier(verifier, PLEDGE.saturating_neg());
}

/// An objection was heard: its pledge goes back, or half to the provider and half to nobody. The client's
/// trust lock stands for a pledge, and is settled with the lease.
pub(crate) fn take_pledge(chain: &mut Chain, by: Challenger, won: bool) {
    match (by, won) {
        (Challenger::Verifier(verifier), true) => chain.purse.give_verifier(verifier, PLEDGE),
        (Challenger::Verifier(_), false) => {
            chain.purse.give_provider(PLEDGE / 2);
            chain.purse.burn(PLEDGE / 2);
        }
        (Challenger::Client, _) => {}
    }
}

/// There is no commitment: no verdict and no pay, and who was silent is slashed.
pub(crate) fn settle_without_commitment(chain: &mut Chain, silent: bool) {
    let purse = &mut chain.purse;
    if silent {
        purse.slashed = PROVIDER_LOCK;
        purse.give_client(PROVIDER_LOCK / 2);
        purse.burn(PROVIDER_LOCK / 2);
    } else {
        purse.give_provider(PROVIDER_LOCK);
    }
    purse.give_client(PAY.saturating_add(CLIENT_LOCK));
    close(chain);
}

/// Moves everything that is held, by verdict.
pub(crate) fn settle(chain: &mut Chain, bug: Option<Bug>) {
    let fees = pay_fees(chain, bug);
    // Objections that were not heard, because another one was right.
    for verifier in 0..VERIFIERS {
        for _ in chain.seat(verifier).objections.each() {
            chain.purse.give_verifier(verifier, PLEDGE);
        }
    }
    forfeit_agreements(chain, bug);
    let purse = &mut chain.purse;
    match chain.verdict {
        Some(Verdict::Refuted(fault)) => {
            match bug {
                Some(Bug::RefutedPaid) => purse.pay(PAY),
                Some(Bug::EscrowBurned) => purse.burn(PAY),
                _ => purse.give_client(PAY),
            }
            slash(chain, fault, fees, bug);
        }
        Some(Verdict::Inconclusive) => {
            purse.give_client(PAY.saturating_sub(fees));
            purse.give_provider(PROVIDER_LOCK);
        }
        // Without a verdict only where a bug settles too early.
        Some(Verdict::Upheld) | None => {
            purse.pay(PAY.saturating_sub(fees));
            purse.give_provider(PROVIDER_LOCK);
        }
    }
    // A client whose objection was refuted pays for the dispute.
    if chain.objected && chain.verdict == Some(Verdict::Upheld) {
        chain.purse.give_provider(CLIENT_LOCK / 2);
        chain.purse.burn(CLIENT_LOCK / 2);
    } else {
        chain.purse.give_client(CLIENT_LOCK);
    }
    close(chain);
}

/// Burns a pledge of whoever agreed to a beginning that is false.
fn forfeit_agreements(chain: &mut Chain, bug: Option<Bug>) {
    let Some(Verdict::Refuted(Fault::Step { item, shown: true, .. })) = chain.verdict else {
        return;
    };
    if item > 0 && bug != Some(Bug::AgreementsForfeited) {
        return;
    }
    for verifier in 0..VERIFIERS {
        let seat = chain.seat(verifier);
        let agreed = seat.answer.filter(|_| seat.revealed).map(|it| it.sealed.without(it.wrong));
        if agreed.is_some_and(|agreed| agreed.has(item)) {
            pledge(chain, verifier);
            chain.purse.burn(PLEDGE);
        }
    }
}

fn close(chain: &mut Chain) {
    chain.settlements = chain.settlements.saturating_add(1);
    chain.phase = Phase::Closed;
}

/// Divides the provider's lock.
fn slash(chain: &mut Chain, fault: Fault, fees: i16, bug: Option<Bug>) {
    let at_stake = if bug == Some(Bug::SmallStake) { PAY } else { PROVIDER_LOCK };
    let quarter = at_stake / 4;
    let purse = &mut chain.purse;
    purse.slashed = at_stake;
    purse.give_provider(PROVIDER_LOCK.saturating_sub(at_stake));
    purse.give_client(quarter);
    let mut rest = at_stake.saturating_sub(quarter).saturating_sub(fees);
    if bug == Some(Bug::EveryVerifierShares) {
        let share = quarter.checked_div(VERIFIERS.into()).unwrap_or(0);
        for verifier in 0..VERIFIERS {
            chain.purse.give_verifier(verifier, share);
            rest = rest.saturating_sub(share);
        }
    } else {
        match fault {
            Fault::Step { finder: Challenger::Verifier(finder), .. } => {
                purse.give_verifier(finder, quarter);
            }
            // Who is refused something is not paid for saying so.
            Fault::Step { finder: Challenger::Client, .. } | Fault::Unposted | Fault::Unopened => {
                purse.give_client(quarter);
            }
        }
        rest = rest.saturating_sub(quarter);
    }
    if bug == Some(Bug::NothingBurned) {
        return chain.purse.give_client(rest);
    }
    chain.purse.burn(rest);
}

/// Pays whoever earned a fee, and says how much that was.
fn pay_fees(chain: &mut Chain, bug: Option<Bug>) -> i16 {
    let mut fees = 0i16;
    for verifier in 0..VERIFIERS {
        if earns(chain, verifier, bug) {
            chain.purse.give_verifier(verifier, FEE);
            fees = fees.saturating_add(FEE);
        }
    }
    if bug == Some(Bug::FeesMinted) {
        chain.purse.held = chain.purse.held.saturating_add(fees);
        return 0;
    }
    fees
}

fn earns(chain: &Chain, verifier: u8, bug: Option<Bug>) -> bool {
    let seat = chain.seat(verifier);
    let Some(answer) = seat.answer.filter(|_| seat.revealed && !seat.lost) else { return false };
    let mut good = answer.sealed.without(answer.wrong).without(seat.unpaid);
    if let (Some(Bug::EveryObjectorPaid), Some(Verdict::Refuted(Fault::Step { item, .. }))) =
        (bug, chain.verdict)
    {
        good = good.or(answer.wrong.and(Set::one(item)));
    }
    !good.and(SEGMENTS).is_empty()
}
