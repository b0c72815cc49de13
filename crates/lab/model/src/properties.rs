//! What must hold whoever takes part, and what must be possible.
//!
//! `always` is checked in every state. That everything ends is checked where nothing can happen any more; all
//! that happens takes the lease further, so no way leads in circles and every way comes to such a state.
//!
//! Assumed: honest parties are heard on chain before their deadlines, and the referee is right. Nothing is
//! assumed of how many verifiers are honest, but where a property says so: one of three fresh ones.

use crate::Rules;
use crate::parties::{Kind, World};
use crate::rules::FIRST_DRAW;
use crate::set::Set;
use crate::settle::{CLIENT_LOCK, FEE, PAY, PROVIDER_LOCK, Purse, SAVINGS};
use crate::state::{
    AGAIN, BEGINNING, Chain, Challenger, Fault, Phase, SEGMENTS, VERIFIERS, Verdict,
};
use stateright::Property;

/// What a client has at least where work is refuted: pay, lock, and a quarter of the slash.
const REFUNDED: i16 = PAY.saturating_add(CLIENT_LOCK).saturating_add(PROVIDER_LOCK / 4);

/// All of them.
pub fn all() -> Vec<Property<Rules>> {
    [about_money(), about_parties(), about_ends(), possible()].concat()
}

fn about_money() -> Vec<Property<Rules>> {
    vec![
        Property::always("no payment without a verdict", |_, world: &World| {
            world.chain.purse.paid == 0 || world.chain.verdict.is_some()
        }),
        Property::always("settlement happens exactly once", |_, world: &World| {
            world.chain.settlements == u8::from(world.chain.phase == Phase::Closed)
        }),
        Property::always("money is conserved", |_, world: &World| conserved(&world.chain)),
        Property::always("false work that is found is never paid", |_, world: &World| {
            world.chain.purse.paid == 0 || !refuted(&world.chain)
        }),
        Property::always("false work that is found costs ten times its pay", |_, world: &World| {
            let settled = world.chain.settlements > 0 && refuted(&world.chain);
            !settled || world.chain.purse.slashed >= PAY.saturating_mul(10)
        }),
        Property::always("a slash burns more than the pay", |_, world: &World| {
            // So nothing is won by it, be client, finder and provider the same party.
            let settled = world.chain.settlements > 0 && refuted(&world.chain);
            !settled || world.chain.purse.burned > PAY
        }),
        Property::always("a client gets its money back for what is refuted", |_, world: &World| {
            let settled = world.chain.settlements > 0 && refuted(&world.chain);
            !settled || world.chain.purse.client >= REFUNDED
        }),
        Property::always("only the finder shares in a slash", |_, world: &World| {
            (0..VERIFIERS).all(|it| {
                let most = SAVINGS.saturating_add(FEE);
                world.chain.purse.verifier(it) <= most || found(&world.chain, it)
            })
        }),
    ]
}

fn about_parties() -> Vec<Property<Rules>> {
    vec![
        Property::always("an honest provider is never slashed", |_, world: &World| {
            !world.cast.provider || world.chain.purse.slashed == 0
        }),
        Property::always("honest work is paid", |_, world: &World| {
            let due = world.cast.provider && world.cast.unreliable() < 3;
            let closed = world.chain.phase == Phase::Closed;
            !due || !closed || world.chain.purse.paid > 0
        }),
        Property::always("an honest verifier never loses, and is paid", |_, world: &World| {
            (0..VERIFIERS).all(|it| world.cast.kind(it) != Kind::Honest || kept(&world.chain, it))
        }),
        Property::always("an honest challenger never loses", |_, world: &World| {
            let lost = world.chain.objected && world.chain.verdict == Some(Verdict::Upheld);
            !world.cast.client || !lost
        }),
        Property::always("a verifier that runs nothing gains nothing", |_, world: &World| {
            (0..VERIFIERS).all(|it| {
                let lazy = world.cast.kind(it) == Kind::Lazy;
                let given = left(&world.chain) && found(&world.chain, it);
                !lazy || given || world.chain.purse.verifier(it) <= SAVINGS
            })
        }),
        Property::always(
            "what is false and run by somebody honest is refuted",
            |_, world: &World| {
                let decided = world.chain.verdict.is_some();
                !decided || !run_honestly(world) || refuted(&world.chain)
            },
        ),
        Property::always(
            "what is false and drawn for somebody honest is not upheld",
            |_, world: &World| {
                let upheld = world.chain.verdict == Some(Verdict::Upheld);
                !upheld || world.cast.unreliable() == 3 || !drawn_honestly(world)
            },
        ),
        Property::always("what nobody answered is not upheld", |_, world: &World| {
            let upheld = world.chain.verdict == Some(Verdict::Upheld);
            !upheld || answered(&world.chain)
        }),
    ]
}

fn about_ends() -> Vec<Property<Rules>> {
    vec![
        Property::always("all that happens takes the lease further", |_, world: &World| {
            !world.strayed
        }),
        Property::always("every dispute ends", |rules: &Rules, world: &World| {
            !matches!(world.chain.phase, Phase::Disputing(_)) || !rules.is_stuck(world)
        }),
        Property::eventually("every lease ends", |_, world: &World| {
            world.chain.phase == Phase::Closed
        }),
    ]
}

fn possible() -> Vec<Property<Rules>> {
    vec![
        Property::sometimes("honest work is upheld", |_, world: &World| {
            world.cast.provider && world.chain.verdict == Some(Verdict::Upheld)
        }),
        Property::sometimes("honest work is upheld by fresh verifiers", |_, world: &World| {
            let Chain { draws, verdict, .. } = world.chain;
            world.cast.provider && draws == 2 && verdict == Some(Verdict::Upheld)
        }),
        Property::sometimes("a false beginning is refuted", |_, world: &World| {
            matches!(
                world.chain.verdict,
                Some(Verdict::Refuted(Fault::Step { item: 0, shown: true, .. }))
            )
        }),
        Property::sometimes(
            "a false segment is refuted by a fresh verifier",
            |_, world: &World| {
                let Some(Verdict::Refuted(fault)) = world.chain.verdict else { return false };
                matches!(fault, Fault::Step { finder: Challenger::Verifier(2..), shown: true, .. })
            },
        ),
        Property::sometimes(
            "what all verifiers missed is found by the client",
            |_, world: &World| found_by_client(&world.chain),
        ),
        Property::sometimes("withholding is refuted", |_, world: &World| {
            world.chain.verdict == Some(Verdict::Refuted(Fault::Unposted))
        }),
        Property::sometimes("what was posted is upheld", |_, world: &World| {
            !world.chain.posted.is_empty() && world.chain.verdict == Some(Verdict::Upheld)
        }),
        Property::sometimes("not checked is inconclusive", |_, world: &World| {
            world.chain.verdict == Some(Verdict::Inconclusive)
        }),
        Property::sometimes("another segment is drawn for an opened one", |_, world: &World| {
            world.chain.draws == 2 && world.chain.drawn.has(3)
        }),
        Property::sometimes(
            "what the first verifiers missed is found again",
            |_, world: &World| world.chain.draws == AGAIN && found(&world.chain, 2),
        ),
        Property::sometimes(
            "a false beginning that was agreed to is found again and costs a pledge",
            |_, world: &World| {
                let Chain { draws, faked, purse, .. } = world.chain;
                let first = purse.verifier(0) < SAVINGS;
                draws == AGAIN && faked == Some(0) && found(&world.chain, 2) && first
            },
        ),
        Property::sometimes("honest work is audited again and upheld", |_, world: &World| {
            let Chain { draws, verdict, .. } = world.chain;
            world.cast.provider && draws == AGAIN && verdict == Some(Verdict::Upheld)
        }),
        // Limits, written down as what can happen where more is false than is assumed.
        Property::sometimes(
            "limit: three false of three cover what is withheld",
            |_, world: &World| {
                world.chain.verdict == Some(Verdict::Upheld) && drawn_honestly(world)
            },
        ),
        Property::sometimes("limit: who was bought covers what is false", |_, world: &World| {
            // Without a second audit, or with one whose verifier was bought, too.
            let Chain { faked, verdict, checked, .. } = world.chain;
            verdict == Some(Verdict::Upheld) && faked.is_some_and(|item| checked.has(item))
        }),
        Property::sometimes("limit: three false of three take the pay", |_, world: &World| {
            let closed = world.chain.phase == Phase::Closed;
            world.cast.provider && closed && world.chain.purse.paid == 0
        }),
    ]
}

fn refuted(chain: &Chain) -> bool {
    matches!(chain.verdict, Some(Verdict::Refuted(_)))
}

fn conserved(chain: &Chain) -> bool {
    let held = chain.purse.held;
    let empty = chain.phase != Phase::Closed || held == 0;
    let whole = chain.purse.slashed <= PROVIDER_LOCK && chain.purse.paid <= PAY;
    held >= 0 && empty && whole && chain.purse.total() == Purse::default().total()
}

fn found(chain: &Chain, verifier: u8) -> bool {
    let Some(Verdict::Refuted(Fault::Step { finder, .. })) = chain.verdict else { return false };
    finder == Challenger::Verifier(verifier)
}

fn found_by_client(chain: &Chain) -> bool {
    let Some(Verdict::Refuted(Fault::Step { finder, item, shown })) = chain.verdict else {
        return false;
    };
    finder == Challenger::Client && shown && chain.checked.has(item)
}

/// Whether the provider left a dispute: it gives up ten times its pay, and whom it gives it to is its choice.
fn left(chain: &Chain) -> bool {
    matches!(chain.verdict, Some(Verdict::Refuted(Fault::Step { shown: false, .. })))
}

/// Nothing is taken from it, and a segment that it has run and found right is paid for, or its finding.
fn kept(chain: &Chain, verifier: u8) -> bool {
    let seat = chain.seat(verifier);
    let ran = seat.answer.filter(|_| seat.revealed).unwrap_or_default();
    let right = ran.sealed.without(ran.wrong).without(seat.unpaid);
    let right = !right.and(SEGMENTS).is_empty();
    let due = if right || found(chain, verifier) { FEE } else { 0 };
    let least = SAVINGS.saturating_add(due);
    !seat.lost && (chain.phase != Phase::Closed || chain.purse.verifier(verifier) >= least)
}

/// Whether what is false was drawn for an honest verifier that answered, in any draw so far.
fn drawn_honestly(world: &World) -> bool {
    let Some(item) = world.chain.faked else { return false };
    (0..VERIFIERS).filter(|it| world.cast.kind(*it) == Kind::Honest).any(|it| {
        let answer = world.chain.seat(it).answer.unwrap_or_default();
        let seat = world.chain.seat(it);
        answer.sealed.or(answer.abstained).or(seat.again).has(item)
    })
}

/// Whether an honest verifier has run what is false and sealed what it found, in any draw so far.
fn run_honestly(world: &World) -> bool {
    let Some(item) = world.chain.faked else { return false };
    (0..VERIFIERS).filter(|it| world.cast.kind(*it) == Kind::Honest).any(|it| {
        let answer = world.chain.seat(it).answer.unwrap_or_default();
        answer.sealed.has(item)
    })
}

/// Whether somebody revealed the same as the leaf for all that is drawn and for the beginning.
fn answered(chain: &Chain) -> bool {
    let revealed = chain.seats.iter().filter(|seat| seat.revealed);
    let agreed = revealed.filter_map(|seat| seat.answer).map(|it| it.sealed.without(it.wrong));
    let agreed = agreed.fold(Set::NONE, Set::or);
    // A second audit takes nothing away from what the first one found.
    let drawn = if chain.draws == AGAIN { FIRST_DRAW } else { chain.drawn };
    drawn.or(BEGINNING).without(agreed).is_empty()
}
