//! Who keeps what a lease has made, beside its provider.
//!
//! Both sides compute it from the chain: the provider of the lease, to have something kept, and its
//! client, to find it when that provider is gone. Each standing provider has a rank of its own for each
//! task, so whoever comes or goes moves nobody else.

use opengpu_crypto::hash;
use opengpu_types::{Address, Entry, Key, Task, TaskId};
use std::collections::BTreeSet;

/// Domain of a rank.
const RANK: &str = "opengpu/holder";

/// Holders that a provider tries.
pub const TRIED: usize = 3;
/// Holders that a client asks: some may have come since.
pub const ASKED: usize = 6;

/// All providers with an offer on a shelf, as the entries of a state tell.
pub fn standing<E>(
    mut read: impl FnMut(&Key) -> Result<Option<Entry>, E>,
) -> Result<BTreeSet<Address>, E> {
    let count = match read(&Key::Shelves)? {
        Some(Entry::Shelves(count)) => count,
        _ => 0,
    };
    let mut found = BTreeSet::new();
    for number in 0..count {
        if let Some(Entry::Shelf(shelf)) = read(&Key::Shelf(number))? {
            found.extend(shelf.offers.iter().map(|shelved| shelved.provider));
        }
    }
    Ok(found)
}

/// Those who may hold what a lease of this provider makes, the first one first. Whom the client denies
/// gets nothing, not even what it cannot read.
pub fn ranked(
    id: &TaskId,
    task: &Task,
    lessee: &Address,
    standing: impl IntoIterator<Item = Address>,
) -> Vec<Address> {
    let denied = &task.spec.requirements.denied;
    let may = |provider: &Address| provider != lessee && !denied.contains(provider);
    let mut found: Vec<_> = standing.into_iter().filter(may).collect();
    found.sort_by_cached_key(|provider| hash(RANK, &[id.0.as_ref(), provider.as_bytes()]));
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{
        glance::{shelved, tests::offered},
        holders,
    };
    use opengpu_crypto::{Digest, SealPublicKey};
    use opengpu_types::{
        Allocating, Amount, ArtifactId, Class, Contact, Eyes, List, Measure, Millis, Money,
        Permille, ProgramId, ProgramKind, Requirements, SessionKey, Set, Shelf, Spec, TaskPhase,
        Text, Trust, Weights, Work,
    };

    pub(crate) fn task(denied: &[Address]) -> Task {
        let spec = Spec {
            program: ProgramId(Digest([1; 32])),
            input: ArtifactId(Digest([2; 32])),
            segments: 8,
            work: Work { amount: 1, measure: Measure::Integers },
            requirements: Requirements {
                kind: ProgramKind::Wasm,
                devices: 1,
                memory: 1,
                classes: List::empty(),
                precisions: Set::NONE,
                runtimes: Set::NONE,
                regions: List::empty(),
                reliability: Permille::ZERO,
                trust: Trust::Checked,
                longest: Millis(1),
                cap: Money::tokens(Amount::whole(1)),
                allowed: List::empty(),
                denied: List::new(denied.to_vec()).unwrap(),
            },
            class: Class::Exact,
            eyes: Eyes::Anyone,
            allocating: Allocating::Spot,
            weights: Weights {
                time: Permille::ZERO,
                reliability: Permille::ZERO,
                proximity: Permille::ZERO,
            },
            region: Text::default(),
            patience: Millis(1),
        };
        let contact = Contact {
            session: SessionKey([1; 32]),
            sealing: SealPublicKey([2; 32]),
            relay: Text::default(),
        };
        Task {
            client: Address::new([8; 20]),
            contact,
            spec,
            budget: Money::tokens(Amount::whole(1)),
            deposited: Amount::whole(1),
            paid: Amount::ZERO,
            refunded: Amount::ZERO,
            lock: Amount::ZERO,
            submitted: Millis(0),
            phase: TaskPhase::Running,
            leases: List::empty(),
            checkpoint: None,
            ending: None,
            seeking: Millis(0),
            alarm: Millis(0),
            reserve: Amount::ZERO,
        }
    }

    fn everyone() -> Vec<Address> {
        (1..=20).map(|byte| Address::new([byte; 20])).collect()
    }

    fn rank(number: u8, task: &Task, standing: Vec<Address>) -> Vec<Address> {
        holders::ranked(&TaskId(Digest([number; 32])), task, &Address::new([3; 20]), standing)
    }

    #[test]
    fn everybody_has_a_rank_but_the_lessee_and_whom_the_client_denies() {
        let denied = Address::new([4; 20]);
        let ranked = rank(1, &task(&[denied]), everyone());
        assert_eq!(ranked.len(), 18);
        assert!(!ranked.contains(&denied) && !ranked.contains(&Address::new([3; 20])));
        let mut turned = everyone();
        turned.reverse();
        assert_eq!(rank(1, &task(&[denied]), turned), ranked, "both sides find the same");
    }

    #[test]
    fn whoever_goes_moves_nobody_else() {
        let ranked = rank(1, &task(&[]), everyone());
        for gone in &ranked {
            let rest = everyone().into_iter().filter(|it| it != gone).collect();
            let expected: Vec<_> = ranked.iter().filter(|it| *it != gone).copied().collect();
            assert_eq!(rank(1, &task(&[]), rest), expected);
        }
    }

    #[test]
    fn tasks_are_spread() {
        let first = (0..200).map(|number| rank(number, &task(&[]), everyone())[0]);
        let found: BTreeSet<_> = first.collect();
        assert!(found.len() >= 15, "{} of 19 hold anything", found.len());
    }

    #[test]
    fn all_shelves_are_read() {
        let shelf = |byte: u8| Shelf {
            offers: List::new(vec![shelved(Address::new([byte; 20]), 0, &offered())]).unwrap(),
        };
        let found = holders::standing(|key| {
            Ok::<_, ()>(match key {
                Key::Shelves => Some(Entry::Shelves(3)),
                // One in the middle may be empty.
                Key::Shelf(1) => None,
                Key::Shelf(number) => Some(Entry::Shelf(shelf(u8::try_from(*number).unwrap()))),
                _ => None,
            })
        });
        let expected = [0, 2].map(|byte| Address::new([byte; 20]));
        assert_eq!(found, Ok(expected.into_iter().collect()));
    }
}
