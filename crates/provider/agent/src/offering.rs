//! What a provider offers, in the sequence of its offers on chain. Pure.
//!
//! A lease names its offer by the place on chain, so whoever lists the same devices in another sequence
//! must not run it on others: each offer goes to the place where the chain has the one most like it.

use crate::policy::Device;
use opengpu_types::{Offer, Offered};

/// Devices that are alike, and what executors call each of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What the market hears of them.
    pub device: Device,
    /// The id of each of them, in the sequence of their numbers. One without an id is what the launch of
    /// executors names.
    pub ids: Vec<Option<String>>,
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
pub(crate) fn sequence(own: &[Offer], on_chain: &[Offered]) -> Vec<usize> {
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
        assert_eq!(sequence(&[a.clone(), b.clone()], &[]), [0, 1], "a new provider");
        // One that is gone leaves its place to one that is new.
        assert_eq!(sequence(&[offer("d", 1), c, b], &known), [0, 2, 1]);
    }

    #[test]
    fn of_one_class_the_most_alike_have_each_others_place() {
        let [slow, quick] = [offer("a", 1), offer("a", 9)];
        let known = on_chain(&[quick.clone(), slow.clone()]);
        assert_eq!(sequence(&[slow.clone(), quick.clone()], &known), [1, 0]);
        let measured_again = offer("a", 2);
        assert_eq!(sequence(&[measured_again, quick], &known), [1, 0], "the other one is slower");
    }
}
