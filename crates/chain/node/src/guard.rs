//! The sign guard: a validator that may have forgotten votes does not vote again in their views.
//!
//! A vote leaves a node only after it is on its disk. But a disk can be lost, and an older copy of
//! it put back; then the node would vote a second time where it has voted before, and be slashed for
//! it. So a node that starts does not vote at once. It asks the other seats where they stand:
//!
//! ```text
//! start ─► watch ─► enough answers ─► our journal is not behind ────────────────► vote
//!                                  └► it is ─► a block above all of them is final ┘
//! ```
//!
//! Why this is enough: a node votes in view v only after it saw the certificate of view v - 1, which
//! a quorum signed. Among any [`needed`] other seats, at least one honest one signed it, stands in
//! view v - 1 or later, and says so. So the highest answer, plus one, is the last view in which we
//! can have voted; one view above it, nothing can be forgotten. (The node itself counts as one of the
//! faulty seats that the chain tolerates, so one less than these may lie.) Answers beyond the needed
//! number let the guard leave out as many of the highest ones, so one liar cannot silence a node.
//!
//! Two exceptions keep the network alive, at a small price:
//!
//! - A journal that ends one view below the highest answer counts as complete, if it holds every
//!   vote that the others received from this node. After a power cut of the whole network somebody
//!   always is that much ahead.
//! - If the chain stands still for [`PATIENCE`], the nodes that wait may be the ones that it waits for.
//!   Then those received votes alone count.
//!
//! So a node may repeat a vote only if that vote reached none of the needed seats, or only such that
//! restarted since and hold no certificate with it.

use crate::turn::Standing;
use commonware_consensus::types::View as EngineView;
use opengpu_types::{Epoch, View};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

/// How long a node waits for the answers that it does not need: one of them may know of a vote that
/// reached nobody else.
pub const GRACE: Duration = Duration::from_secs(2);
/// How long the chain must stand still before a node that waits asks whether it is waited for.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Notices when the chain stands still.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stall(Option<(SystemTime, Place)>);

/// An epoch and its newest final view.
type Place = (Epoch, Option<EngineView>);

impl Stall {
    /// Whether `newest` has been the newest final view of `epoch` for long.
    pub fn lasts(&mut self, now: SystemTime, epoch: Epoch, newest: Option<EngineView>) -> bool {
        match self.0 {
            Some((since, known)) if known == (epoch, newest) => {
                now.duration_since(since).is_ok_and(|stood| stood >= PATIENCE)
            }
            _ => {
                self.0 = Some((now, (epoch, newest)));
                false
            }
        }
    }
}

/// What a seat's node may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Too few seats have said where they stand.
    Wait,
    /// Vote only above a final block of at least this view.
    Watch(View),
    /// Nothing was forgotten.
    Vote,
}

/// Answers of other seats that are needed before a node votes.
pub fn needed(voters: usize) -> usize {
    let others = voters.saturating_sub(1);
    faults(voters).saturating_mul(2).max(1).min(others)
}

/// Faulty seats that the chain bears.
fn faults(voters: usize) -> usize {
    voters.saturating_sub(1).div_euclid(3)
}

/// Judges a node with a seat among `voters` in the running `epoch`, whose journal ends with the view
/// `own`, by what other seats told.
pub fn judge<K: Ord>(
    epoch: Epoch,
    voters: usize,
    own: View,
    told: &BTreeMap<K, Standing>,
    stalled: bool,
) -> Verdict {
    // Who is in a later epoch cannot tell about this one. The chain will take us there.
    let told: Vec<_> = told.values().filter(|standing| standing.epoch <= epoch).collect();
    let Some(spare) = told.len().checked_sub(needed(voters)) else { return Verdict::Wait };
    let highest = |view: fn(&Standing) -> View, without: usize| {
        let views = told.iter().map(|it| if it.epoch == epoch { view(it) } else { View(0) });
        let mut views: Vec<_> = views.collect();
        views.sort_unstable();
        views.iter().rev().nth(without).copied().unwrap_or(View(0))
    };
    let floor = highest(|standing| standing.view, spare);
    // A vote that others have and we do not is forgotten for certain. Liars may make us wait for a
    // block, but not for ever.
    let liars = if stalled { faults(voters) } else { 0 };
    let nothing_forgotten = highest(|standing| standing.heard, liars) <= own;
    if nothing_forgotten && (stalled || floor.0 <= own.0.saturating_add(1)) {
        Verdict::Vote
    } else {
        Verdict::Watch(View(floor.0.saturating_add(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPOCH: Epoch = Epoch(5);

    const fn standing(epoch: u64, view: u64, heard: u64) -> Standing {
        Standing { epoch: Epoch(epoch), view: View(view), heard: View(heard) }
    }

    fn told(views: &[u64]) -> BTreeMap<usize, Standing> {
        views.iter().map(|view| standing(5, *view, 0)).enumerate().collect()
    }

    fn four(own: u64, views: &[u64]) -> Verdict {
        judge(EPOCH, 4, View(own), &told(views), false)
    }

    #[test]
    fn a_network_that_begins_votes_at_once() {
        assert_eq!(four(0, &[1, 1]), Verdict::Vote);
        assert_eq!(judge(EPOCH, 1, View(0), &told(&[]), false), Verdict::Vote);
    }

    #[test]
    fn a_seat_asks_until_enough_others_answered() {
        assert_eq!(four(9, &[]), Verdict::Wait);
        assert_eq!(four(9, &[9]), Verdict::Wait);
        assert_eq!(four(9, &[9, 9]), Verdict::Vote);
    }

    #[test]
    fn a_wiped_or_old_journal_waits_for_a_final_block_above_every_forgotten_vote() {
        assert_eq!(four(0, &[40, 41]), Verdict::Watch(View(42)));
        assert_eq!(four(30, &[41, 40]), Verdict::Watch(View(42)));
    }

    #[test]
    fn a_journal_as_new_as_the_network_votes_after_a_power_cut() {
        assert_eq!(four(40, &[41, 40]), Verdict::Vote);
        assert_eq!(four(39, &[41, 40]), Verdict::Watch(View(42)));
    }

    #[test]
    fn one_liar_among_three_answers_cannot_silence_a_node() {
        assert_eq!(four(40, &[u64::MAX, 40, 41]), Verdict::Vote);
        assert_eq!(four(40, &[u64::MAX, 40]), Verdict::Watch(View(u64::MAX)));
    }

    #[test]
    fn answers_of_other_epochs_tell_nothing_or_that_nothing_happened_yet() {
        let mut told = told(&[1]);
        told.insert(7, standing(6, 1, 1));
        assert_eq!(judge(EPOCH, 4, View(0), &told, false), Verdict::Wait);
        told.insert(8, standing(4, 900, 900));
        assert_eq!(judge(EPOCH, 4, View(0), &told, false), Verdict::Vote);
    }

    #[test]
    fn when_the_chain_waits_a_slow_node_goes_on_and_one_that_forgot_votes_does_not() {
        let told = |heard| {
            let told = [standing(5, 40, heard), standing(5, 41, heard)];
            BTreeMap::from_iter(told.into_iter().enumerate())
        };
        assert_eq!(judge(EPOCH, 4, View(30), &told(30), false), Verdict::Watch(View(42)));
        assert_eq!(judge(EPOCH, 4, View(30), &told(30), true), Verdict::Vote);
        assert_eq!(judge(EPOCH, 4, View(30), &told(39), true), Verdict::Watch(View(42)));
    }

    #[test]
    fn a_vote_that_others_received_and_we_lost_is_never_repeated() {
        // A disk was lost in the first view of an epoch; a copy is one view old.
        for (own, view) in [(0, 1), (39, 40)] {
            let told = [standing(5, view, view), standing(5, view, view)];
            let told = told.into_iter().enumerate().collect();
            for stalled in [false, true] {
                let verdict = judge(EPOCH, 4, View(own), &told, stalled);
                assert_eq!(verdict, Verdict::Watch(View(view + 1)));
            }
        }
        // It reached only one of them.
        let told = [standing(5, 1, 0), standing(5, 1, 0), standing(5, 1, 1)];
        let told = told.into_iter().enumerate().collect();
        assert_eq!(judge(EPOCH, 4, View(0), &told, false), Verdict::Watch(View(2)));
        // Of many answers, no more are left out than there can be liars.
        let told = [0, 1, 0, 1, 0].map(|heard| standing(5, 1, heard));
        let told = told.into_iter().enumerate().collect();
        assert_eq!(judge(EPOCH, 6, View(0), &told, true), Verdict::Watch(View(2)));
    }

    #[test]
    fn the_chain_stands_still_when_no_block_became_final_for_long() {
        let (mut stall, start) = (Stall::default(), SystemTime::UNIX_EPOCH);
        let view = |view| Some(EngineView::new(view));
        assert!(!stall.lasts(start, EPOCH, view(3)));
        assert!(!stall.lasts(start + PATIENCE / 2, EPOCH, view(3)));
        assert!(!stall.lasts(start + PATIENCE, EPOCH, view(4)), "it moved");
        assert!(!stall.lasts(start + PATIENCE + PATIENCE / 2, EPOCH, view(4)));
        assert!(stall.lasts(start + PATIENCE * 2, EPOCH, view(4)));
        let next = EPOCH.plus(1);
        assert!(!stall.lasts(start + PATIENCE * 3, next, view(4)), "another epoch has just begun");
        assert!(stall.lasts(start + PATIENCE * 4, next, view(4)));
    }

    /// Every honest seat of a network, every choice of who answers, every lie of those who may.
    #[test]
    fn a_forgotten_vote_is_never_repeated_whoever_answers() {
        for faults in 1..=3usize {
            let voters = 3 * faults + 1;
            let forgotten = 100;
            // The other signers of the view before the forgotten vote; the liars are among them.
            let signers = 2 * faults;
            let honest_views = |seat: usize| if seat < signers { forgotten - 1 } else { 1 };
            for answers in needed(voters)..voters {
                for skipped in 0..(voters - answers) {
                    let seats = skipped..skipped + answers;
                    let told = seats.map(|seat| {
                        let lies = seat < faults - 1;
                        let view = if lies { 0 } else { honest_views(seat) };
                        (seat, standing(5, view, 0))
                    });
                    let verdict = judge(EPOCH, voters, View(0), &told.collect(), false);
                    let Verdict::Watch(until) = verdict else { panic!("{verdict:?}") };
                    assert!(until.0 >= forgotten, "{voters} voters, {answers} answers");
                }
            }
        }
    }
}
