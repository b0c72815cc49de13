//! The rules: one audited lease on chain, `apply(chain, input)`.
//!
//! ```text
//!   Running ─committed─► Answering ─► Opening ─opened─► Revealing ─► objection? ─yes─► Disputing ─┐
//!      │ silence,          ▲   ▲ │      │ silence                       │ no   ▲         │       │ won
//!      │ given back        │   │ ▼      ▼                               ▼      └───lost──┘       ▼
//!      ▼                   │ Posting  refuted            all that was drawn is checked?       refuted
//!   Closed                 │   │ silence                      │ no     │ yes
//!                          │   ▼                              │        ▼
//!                          │ refuted                          │    Again ─► Objecting ─► upheld, or Disputing
//!                          └── first draw: three fresh ◄──────┴─ second draw ─► inconclusive
//!
//!   Again ─chosen─► Answering by one who was not drawn yet, and so on ─► refuted, or Objecting
//!
//!   upheld, refuted, inconclusive = Decided ─► Closed (settled once)
//! ```
//!
//! Pure. An input that does not fit is refused (`None`) and changes nothing: that makes a message that is
//! late or comes twice harmless. A deadline is an input (`Ticked`), and silence is an answer.
//! The lottery is over when the model begins: what it does not choose is not audited. Whether an audit is
//! audited again is open until then.

use crate::bugs::Bug;
use crate::dispute::{dispute, disputed, voted};
use crate::set::Set;
use crate::settle::{pledge, settle, settle_without_commitment, take_pledge};
use crate::state::{
    AGAIN, Answer, BEGINNING, Chain, Challenger, FRESH, Fault, Phase, Place, SEGMENTS, VERIFIERS,
    Verdict,
};

/// The beginning and two of three segments.
pub(crate) const FIRST_DRAW: Set = Set(0b0111);

/// What reaches the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// The root, with the item that is false in the trace under it.
    Committed(Option<u8>),
    /// The provider gave the lease back.
    Released,
    /// The client cancelled.
    Cancelled,
    /// A verifier sealed what it found, or says that it was not served.
    Answered(u8, Answer),
    /// The provider posted what fresh verifiers were not served.
    Posted,
    /// The provider opened the leaves of what was sealed.
    Opened,
    /// A verifier opened its seals.
    Revealed(u8),
    /// The provider stated points for a round.
    Stated(u8, Place),
    /// The challenger named an interval in a round.
    Named(u8, Place),
    /// The challenger showed the unit that is left.
    Shown,
    /// A beacon says whether it is audited again.
    Lottery(bool),
    /// The client objected to an item.
    Objected(u8),
    /// Somebody asked for settlement.
    Asked,
    /// The deadline of the phase is over.
    Ticked,
}

/// The chain after an input; nothing if it is refused.
pub fn apply(chain: &Chain, input: Input, bug: Option<Bug>) -> Option<Chain> {
    let mut next = *chain;
    match (chain.phase, input) {
        // One commitment for each lease; the seed is that of a later height, so the draw comes after it.
        (Phase::Running | Phase::Stopping, Input::Committed(faked)) => {
            next.faked = faked;
            let skipped = bug == Some(Bug::BeginningSkipped);
            draw(&mut next, if skipped { FIRST_DRAW.and(SEGMENTS) } else { FIRST_DRAW });
        }
        (Phase::Answering, Input::Committed(faked)) if bug == Some(Bug::CommittedAgain) => {
            next.faked = faked;
        }
        (Phase::Running, Input::Cancelled) => next.phase = Phase::Stopping,
        (Phase::Running, Input::Ticked) => settle_without_commitment(&mut next, true),
        (Phase::Running, Input::Released) | (Phase::Stopping, Input::Ticked) => {
            settle_without_commitment(&mut next, false);
        }
        (Phase::Answering, Input::Answered(by, answer)) => answered(&mut next, by, answer, bug)?,
        (Phase::Answering, Input::Opened) if bug == Some(Bug::OpenedBeforeSeals) => {
            next.open = next.open.or(next.drawn);
        }
        (Phase::Answering, Input::Ticked) => close_answers(&mut next, bug),
        (Phase::Posting, Input::Posted) => posted(&mut next),
        (Phase::Posting, Input::Ticked) => next.decide(Verdict::Refuted(Fault::Unposted)),
        (Phase::Opening, Input::Opened) => {
            let late = bug == Some(Bug::AbstainedLate);
            next.open = next.open.or(if late { next.drawn } else { next.sealed() });
            next.phase = Phase::Revealing;
        }
        (Phase::Opening, Input::Ticked) => next.decide(Verdict::Refuted(Fault::Unopened)),
        (Phase::Revealing, Input::Revealed(by)) => revealed(&mut next, by, bug)?,
        (Phase::Revealing, Input::Ticked) => {
            if bug == Some(Bug::Voted) {
                voted(&mut next);
            }
            if next.verdict.is_none() {
                go_on(&mut next, bug);
            }
        }
        (Phase::Disputing(running), input) => disputed(&mut next, running, input, bug)?,
        (Phase::Again, Input::Lottery(true)) => {
            // What is open can be copied; the beginning has no other.
            let opened = bug == Some(Bug::OpenedAuditedAgain);
            let hidden = if opened { SEGMENTS.and(next.open) } else { SEGMENTS.without(next.open) };
            (next.draws, next.drawn) = (AGAIN, hidden.or(BEGINNING));
            next.phase = Phase::Answering;
        }
        (Phase::Again, Input::Lottery(false)) => next.phase = Phase::Objecting,
        (Phase::Objecting, Input::Objected(item)) if !chain.objected => {
            next.objected = true;
            dispute(&mut next, Challenger::Client, item);
        }
        (Phase::Objecting, Input::Ticked) => next.decide(Verdict::Upheld),
        _ => return settled(next, input, bug),
    }
    Some(next)
}

/// Settlement is asked for by anybody, and comes by itself at a deadline.
fn settled(mut chain: Chain, input: Input, bug: Option<Bug>) -> Option<Chain> {
    let upheld = chain.verdict == Some(Verdict::Upheld);
    let allowed = match (chain.phase, input) {
        (Phase::Decided, Input::Asked) => true,
        (Phase::Decided, Input::Ticked) => bug != Some(Bug::UndisputedUnpaid) || !upheld,
        (Phase::Objecting, Input::Asked) => bug == Some(Bug::PaidWithoutVerdict),
        (Phase::Closed, Input::Asked) => {
            bug == Some(Bug::SettledTwice) && chain.verdict.is_some() && chain.settlements < 2
        }
        _ => false,
    };
    allowed.then(|| {
        settle(&mut chain, bug);
        chain
    })
}

fn draw(chain: &mut Chain, items: Set) {
    chain.draws = chain.draws.saturating_add(1);
    chain.drawn = items;
    chain.phase = Phase::Answering;
}

fn answered(chain: &mut Chain, by: u8, answer: Answer, bug: Option<Bug>) -> Option<()> {
    let asked = chain.asked(by);
    // Once, and only about what it is asked for; nobody serves the beginning or what is posted, so nobody
    // lacks it.
    let had = if bug == Some(Bug::DeniedAgain) { BEGINNING } else { BEGINNING.or(chain.posted) };
    let said = answer.sealed.or(answer.abstained);
    let fits = said == asked && answer.abstained.and(had).is_empty();
    if asked.is_empty() || !fits {
        return None;
    }
    let before = chain.seat(by).answer.unwrap_or_default();
    let answer = Answer {
        abstained: answer.abstained,
        sealed: before.sealed.or(answer.sealed),
        wrong: before.wrong.or(answer.wrong),
    };
    chain.change(by, |seat| {
        seat.answer = Some(answer);
        seat.unpaid = seat.unpaid.or(seat.again);
        seat.again = Set::NONE;
    });
    Some(())
}

/// The time to answer is over: what fresh verifiers were not served is posted before any leaf is open, so that
/// they have nothing to copy, and so is what the one was not served who audits again; what was sealed is opened,
/// be it the beginning alone.
fn close_answers(chain: &mut Chain, bug: Option<Bug>) {
    if bug == Some(Bug::SilenceRefutes) && chain.draws == 2 && !chain.unserved(2).is_empty() {
        return chain.decide(Verdict::Refuted(Fault::Unposted));
    }
    let late = matches!(bug, Some(Bug::NotPosted | Bug::SilenceRefutes));
    let after = chain.draws == 2 || chain.draws == AGAIN && bug != Some(Bug::AgainNotPosted);
    if after && !late && !chain.unserved(1).is_empty() {
        chain.phase = Phase::Posting;
        return;
    }
    let sealed = chain.sealed();
    let no_segment = sealed.and(SEGMENTS).is_empty();
    if bug == Some(Bug::BeginningDropped) && no_segment {
        chain.checked = chain.checked.or(sealed);
        return go_on(chain, bug);
    }
    if sealed.is_empty() { go_on(chain, bug) } else { chain.phase = Phase::Opening }
}

/// Whoever was not served answers once more.
fn posted(chain: &mut Chain) {
    chain.posted = chain.posted.or(chain.unserved(1));
    for verifier in FRESH.each() {
        chain.change(verifier, |seat| {
            if let Some(answer) = &mut seat.answer {
                seat.again = std::mem::take(&mut answer.abstained);
            }
        });
    }
    chain.phase = Phase::Answering;
}

fn revealed(chain: &mut Chain, by: u8, bug: Option<Bug>) -> Option<()> {
    let seat = chain.seat(by);
    let answer = seat.answer.filter(|_| !seat.revealed && !chain.duty(by).is_empty())?;
    if answer.sealed.is_empty() {
        return None;
    }
    chain.checked = chain.checked.or(answer.sealed.without(answer.wrong));
    for _ in answer.wrong.each() {
        pledge(chain, by);
    }
    chain.change(by, |seat| {
        seat.revealed = true;
        seat.objections = answer.wrong;
    });
    if let (Some(Bug::SlashedWithoutReferee), Some(item)) = (bug, answer.wrong.first()) {
        let finder = Challenger::Verifier(by);
        chain.change(by, |seat| seat.objections = seat.objections.without(Set::one(item)));
        take_pledge(chain, finder, true);
        chain.decide(Verdict::Refuted(Fault::Step { finder, item, shown: true }));
    }
    Some(())
}

/// What comes after seals are open, or a dispute is lost: the next objection, another draw, or the end. A
/// second audit can refute, and nothing else.
pub(crate) fn go_on(chain: &mut Chain, bug: Option<Bug>) {
    let objection = (0..VERIFIERS).find_map(|it| Some((it, chain.seat(it).objections.first()?)));
    if let Some((verifier, item)) = objection {
        return dispute(chain, Challenger::Verifier(verifier), item);
    }
    let missing = match bug {
        Some(Bug::UnservedUpheld) if !chain.checked.is_empty() => {
            chain.drawn.without(chain.checked).without(chain.unserved(1))
        }
        Some(Bug::UncheckedUpheld) => chain.drawn.without(chain.checked).and(chain.unserved(1)),
        _ => chain.drawn.without(chain.checked),
    };
    if chain.draws == AGAIN && bug != Some(Bug::AgainDecides) {
        chain.phase = Phase::Objecting;
    } else if missing.is_empty() {
        // Where others were drawn, nobody is left who was not.
        chain.phase = if chain.draws == 1 { Phase::Again } else { Phase::Objecting };
    } else if chain.draws == 1 && bug != Some(Bug::DrawnOnce) {
        let items = again(chain, missing, bug);
        draw(chain, items);
    } else {
        chain.decide(Verdict::Inconclusive);
    }
}

/// What the fresh verifiers are drawn for.
///
/// A leaf that is open is never drawn again, because it can be copied: another segment takes its place. The
/// beginning has no other; it is run again beside a segment, and earns nothing by itself.
fn again(chain: &Chain, missing: Set, bug: Option<Bug>) -> Set {
    if bug == Some(Bug::OpenedDrawnAgain) {
        return missing;
    }
    let segments = missing.and(SEGMENTS);
    let hidden = segments.without(chain.open);
    let replaced = hidden != segments || hidden.is_empty();
    let unseen = SEGMENTS.without(chain.drawn).without(chain.open);
    missing.and(BEGINNING).or(hidden).or(if replaced { unseen } else { Set::NONE })
}
