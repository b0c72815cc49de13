//! Disputes: the dissection of one item down to one unit, which the referee executes.
//!
//! ```text
//!             ┌──────────────── another round ────────────────┐
//!             ▼                                               │
//!   provider states points ──► challenger names an interval ──┤ one unit left
//!        │ silence: won            │ silence: lost            ▼
//!        │                         │               challenger shows it ──► the referee: won or lost
//!        ▼                         ▼                          │ silence: lost
//! ```
//!
//! Objections are heard one after the other. The beginning is one unit, so there is nothing to dissect.
//! In the first round the closing is an interval of its own. A move says which round it is for.

use crate::bugs::Bug;
use crate::rules::{Input, go_on};
use crate::set::Set;
use crate::settle::take_pledge;
use crate::state::{
    Chain, Challenger, Dispute, FRESH, Fault, Phase, Place, Turn, VERIFIERS, Verdict,
};

/// Rounds of a dissection before one step is left.
const ROUNDS: u8 = 2;

/// An objection is heard.
pub(crate) fn dispute(chain: &mut Chain, by: Challenger, item: u8) {
    let wrong = if chain.faked == Some(item) { Place::Steps } else { Place::Nowhere };
    let turn = if item == 0 { Turn::Step } else { Turn::Provider };
    chain.phase = Phase::Disputing(Dispute { by, item, round: 0, turn, wrong });
}

/// A move, or the end of a clock.
pub(crate) fn disputed(
    chain: &mut Chain,
    dispute: Dispute,
    input: Input,
    bug: Option<Bug>,
) -> Option<()> {
    let Dispute { round, turn, wrong, .. } = dispute;
    let mut next = dispute;
    match (turn, input) {
        (Turn::Provider, Input::Stated(of, place)) if of == round && may_state(dispute, place) => {
            next.wrong = place;
            next.turn = Turn::Challenger;
        }
        (Turn::Challenger, Input::Named(of, place))
            if (of == round || bug == Some(Bug::MovesWithoutRound)) && may_name(dispute, place) =>
        {
            next.wrong = if place == wrong { place } else { Place::Nowhere };
            next.round = round.saturating_add(1);
            let unit = place == Place::Closing || next.round == ROUNDS;
            next.turn = if unit { Turn::Step } else { Turn::Provider };
        }
        (Turn::Step, Input::Shown) => {
            let stands = bug == Some(Bug::ChecksOverrule) && chain.checked.has(dispute.item);
            end(chain, dispute, referee(wrong, bug) && !stands, bug);
            return Some(());
        }
        (_, Input::Ticked) if bug != Some(Bug::EndlessDispute) => {
            let unshown = turn == Turn::Step && bug == Some(Bug::StepNotShown);
            end(chain, dispute, turn == Turn::Provider || unshown, bug);
            return Some(());
        }
        _ => return None,
    }
    chain.phase = Phase::Disputing(next);
    Some(())
}

/// Where the end of what is left is wrong, one interval is, whatever the provider states. The closing is
/// stated in the first round alone.
fn may_state(dispute: Dispute, place: Place) -> bool {
    let consistent = dispute.wrong == Place::Nowhere || place != Place::Nowhere;
    consistent && (place != Place::Closing || dispute.round == 0)
}

/// Nobody hits a wrong interval of steps where there is none.
fn may_name(dispute: Dispute, place: Place) -> bool {
    match place {
        Place::Nowhere => true,
        Place::Steps => dispute.wrong == Place::Steps,
        Place::Closing => dispute.round == 0,
    }
}

/// Whether the unit that is shown is wrong.
fn referee(wrong: Place, bug: Option<Bug>) -> bool {
    match bug {
        // The provider's points have another engine's count in them.
        Some(Bug::FuelInAnswers) => true,
        Some(Bug::ClosingUndecided) => wrong == Place::Steps,
        _ => wrong != Place::Nowhere,
    }
}

fn end(chain: &mut Chain, dispute: Dispute, won: bool, bug: Option<Bug>) {
    let Dispute { by, item, turn, .. } = dispute;
    if won || bug != Some(Bug::HeardAgain) {
        heard(chain, by, item, won);
    }
    if won {
        let shown = turn == Turn::Step;
        return chain.decide(Verdict::Refuted(Fault::Step { finder: by, item, shown }));
    }
    // A lost objection shows that one unit is right, and nothing about the rest.
    if bug == Some(Bug::LostDisputeChecks) {
        chain.checked = chain.checked.or(Set::one(item));
    }
    if bug == Some(Bug::FirstObjectorOnly) {
        for verifier in
            (0..VERIFIERS).filter(|it| chain.seat(*it).objections.has(item)).collect::<Set>().each()
        {
            take_pledge(chain, Challenger::Verifier(verifier), true);
            chain
                .change(verifier, |seat| seat.objections = seat.objections.without(Set::one(item)));
        }
    }
    if by == Challenger::Client { chain.decide(Verdict::Upheld) } else { go_on(chain, bug) }
}

/// An objection is over.
fn heard(chain: &mut Chain, by: Challenger, item: u8, won: bool) {
    take_pledge(chain, by, won);
    if let Challenger::Verifier(verifier) = by {
        chain.change(verifier, |seat| {
            seat.objections = seat.objections.without(Set::one(item));
            seat.lost |= !won;
        });
    }
}

/// The planted vote: the answer of most fresh verifiers is taken for the truth.
pub(crate) fn voted(chain: &mut Chain) {
    for item in chain.drawn.each() {
        let revealed = FRESH.each().filter(|it| chain.seat(*it).revealed);
        let (against, agreed): (Vec<u8>, Vec<u8>) =
            revealed.partition(|it| chain.seat(*it).objections.has(item));
        let won = against.len() >= 2;
        if !won && agreed.len() < 2 {
            continue;
        }
        for verifier in against.iter().copied() {
            heard(chain, Challenger::Verifier(verifier), item, won);
        }
        if let (true, Some(first)) = (won, against.first().copied()) {
            let finder = Challenger::Verifier(first);
            return chain.decide(Verdict::Refuted(Fault::Step { finder, item, shown: true }));
        }
    }
}
