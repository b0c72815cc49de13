//! What a provider offers, in the sequence of its offers on chain, which is looked at once.
//!
//! A lease names its offer by the place on chain, so whoever lists the same devices in another sequence
//! must not run it on others: each offer goes to the place where the chain has the one most like it.

use crate::agent::StartError;
use crate::chain::Chain;
use crate::policy::{Device, Policy};
use opengpu_types::{Entry, Key, List, Offer, Offered, Provider};

/// Devices that are alike, and what executors call each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What the market hears of them.
    pub device: Device,
    /// The id of each of them, in the sequence of their numbers. One without an id is what the launch of
    /// executors names.
    pub ids: Vec<Option<String>>,
}

/// Offers of one provider.
pub(crate) type Offers = List<Offer, { Provider::MAX_OFFERS }>;

/// What an agent offers, in the sequence of the chain.
pub(crate) struct Range {
    pub(crate) groups: Vec<Group>,
    pub(crate) offers: Offers,
    /// For each of them, which group it was.
    pub(crate) sequence: Vec<usize>,
}

impl Range {
    /// What the policy offers of these devices, beside what the chain has.
    pub(crate) fn of(
        policy: &Policy,
        listed: &[Group],
        chain: &dyn Chain,
    ) -> Result<Self, StartError> {
        let of = |groups: &[Group]| {
            let devices: Vec<_> = groups.iter().map(|group| group.device.clone()).collect();
            policy.offers(&devices)
        };
        let known = match chain.entry(&Key::Provider(chain.account()))? {
            Some(Entry::Provider(provider)) => provider.into_inner().offers.into_vec(),
            _ => Vec::new(),
        };
        let sequence = sequence(&of(listed)?, &known);
        let groups = sequence.iter().filter_map(|place| listed.get(*place).cloned());
        let groups: Vec<_> = groups.collect();
        Ok(Self { offers: of(&groups)?, groups, sequence })
    }
}

/// How alike two offers are; the most alike first.
const LIKENESS: [fn(&Offer, &Offer) -> bool; 4] = [
    |own, known| own == known,
    // What a leased offer keeps.
    |own, known| own.class == known.class && own.rating == known.rating,
    |own, known| own.class == known.class && own.memory == known.memory,
    |own, known| own.class == known.class,
];

/// For each place on chain, which of our own offers stands there.
fn sequence(own: &[Offer], on_chain: &[Offered]) -> Vec<usize> {
    let mut places: Vec<Option<usize>> = vec![None; own.len()];
    let mut left: Vec<(usize, &Offer)> = own.iter().enumerate().collect();
    for is_like in LIKENESS {
        for (place, known) in places.iter_mut().zip(on_chain) {
            let like = |(_, own): &(usize, &Offer)| is_like(own, &known.offer);
            if place.is_none()
                && let Some(found) = left.iter().position(like)
            {
                *place = Some(left.remove(found).0);
            }
        }
    }
    let mut rest = left.into_iter().map(|(own, _)| own);
    places.into_iter().filter_map(|place| place.or_else(|| rest.next())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use opengpu_types::{Rating, Text};

    fn offer(class: &str, speed: u64) -> Offer {
        let rating = Rating { integers: speed, ..fixture::device().rating };
        let class = Text::new(class).unwrap();
        let device = Device { class, rating, ..fixture::device() };
        fixture::policy().offers(&[device]).unwrap().into_vec().remove(0)
    }

    fn on_chain(offers: &[Offer]) -> Vec<Offered> {
        let list =
            |offer: &Offer| Offered { offer: offer.clone(), leased: 0, pace: 1000, shelf: 0 };
        offers.iter().map(list).collect()
    }

    #[test]
    fn what_is_listed_in_another_sequence_has_its_place_on_chain() {
        let [a, b, c] = [offer("a", 1), offer("b", 1), offer("c", 1)];
        let known = on_chain(&[a.clone(), b.clone(), c.clone()]);
        assert_eq!(sequence(&[c.clone(), a.clone(), b.clone()], &known), [1, 2, 0]);
        assert_eq!(sequence(&[a, b.clone()], &[]), [0, 1], "a new provider");
        // One that is gone leaves its place to one that is new.
        assert_eq!(sequence(&[offer("d", 1), c, b], &known), [0, 2, 1]);
    }

    #[test]
    fn groups_have_the_sequence_of_the_chain_whatever_a_file_lists_first() {
        let group = |class: &str, id: &str| Group {
            device: Device { class: Text::new(class).unwrap(), ..fixture::device() },
            ids: vec![Some(id.to_owned())],
        };
        let (a, b) = (group("a", "one"), group("b", "two"));
        let (chain, policy) = (fixture::Paper::default(), fixture::policy());
        let first = Range::of(&policy, &[a.clone(), b.clone()], &chain).unwrap();
        assert_eq!(first.sequence, [0, 1]);
        let offers = List::new(on_chain(&first.offers)).unwrap();
        chain.provide(fixture::ACCOUNT, Provider { offers, ..fixture::provider() });
        let second = Range::of(&policy, &[b, a], &chain).unwrap();
        assert_eq!((second.groups, second.offers), (first.groups, first.offers));
        assert_eq!(second.sequence, [1, 0]);
    }

    #[test]
    fn of_one_class_the_most_alike_have_each_others_place() {
        let [slow, quick] = [offer("a", 1), offer("a", 9)];
        let known = on_chain(&[quick.clone(), slow.clone()]);
        assert_eq!(sequence(&[slow, quick.clone()], &known), [1, 0]);
        let measured_again = offer("a", 2);
        assert_eq!(sequence(&[measured_again, quick], &known), [1, 0], "the other one is slower");
    }
}
