//! The integer part of a benchmark, which any processor can check.
//!
//! ```text
//!   seed ──► lane 0 .. lane n ── rounds of mixing ──► values ── blocks ──► Merkle root
//!   seed, root ──► drawn lanes ──► their blocks are opened ──► recomputed by whoever checks
//! ```
//!
//! A device that skips a share `s` of the lanes passes one attempt with a chance of
//! `(1 - s)^SAMPLES`. The lanes are drawn from the root, so somebody who cheats may try many roots:
//! with 64 samples that does not help him to fake half of the work, but it does for a few percent.
//!
//! What it is not: it says that the work was done, not how fast. The time is what the device's
//! owner measured, unless whoever sent the seed looks at its own clock.
//!
//! The lanes are those of a trial (`opengpu_verify::trial`), which asks the same of devices on chain, and of
//! which nobody can try roots.

use opengpu_crypto::{
    Digest, Draw, Seed,
    merkle::{self, MerkleProof},
};
use opengpu_types::Trial;
use opengpu_verify::trial::{BLOCK, lane, leaf, words};
pub use opengpu_verify::trial::{LANES, ROUNDS_MAX};
use serde::{Deserialize, Serialize};

/// Lanes that are opened.
pub const SAMPLES: usize = 64;
/// Bytes of a block.
const BLOCK_BYTES: usize = Trial::BLOCK_BYTES;

/// That the integer work was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Rounds of every lane.
    pub rounds: u32,
    /// Merkle root over the blocks of values, in hexadecimal.
    pub root: String,
    /// The blocks that hold the drawn lanes, in the order of the draw.
    pub opened: Vec<Opened>,
}

/// An opened block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opened {
    /// Values of its lanes.
    pub values: Vec<u32>,
    /// The nodes beside its path to the root, in hexadecimal.
    pub siblings: Vec<String>,
}

impl Evidence {
    /// Commits to the values of all lanes, given as bytes, and opens the drawn ones. None if there
    /// are not as many as lanes.
    pub(super) fn new(seed: &Seed, rounds: u32, values: &[u8]) -> Option<Self> {
        if u64::try_from(values.len()).ok()? != u64::from(LANES).checked_mul(4)? {
            return None;
        }
        let (blocks, _) = values.as_chunks::<BLOCK_BYTES>();
        let leaves: Vec<Digest> = blocks.iter().map(leaf).collect();
        let root = merkle::root(&leaves);
        let open = |lane: u32| {
            let block = lane.checked_div(BLOCK)?;
            let proof = merkle::prove(&leaves, block)?;
            let (values, _) = blocks.get(usize::try_from(block).ok()?)?.as_chunks::<4>();
            Some(Opened {
                values: values.iter().map(|value| u32::from_le_bytes(*value)).collect(),
                siblings: proof.siblings.iter().map(|node| hex::encode(node.0)).collect(),
            })
        };
        let opened = drawn(seed, rounds, &root).map(open).collect::<Option<_>>()?;
        Some(Self { rounds, root: hex::encode(root.0), opened })
    }

    /// Whether the drawn lanes are those of the root, and were computed from the seed.
    fn holds(&self, seed: &Seed) -> Option<bool> {
        if self.opened.len() != SAMPLES || self.rounds == 0 || self.rounds > ROUNDS_MAX {
            return Some(false);
        }
        let root = digest(&self.root)?;
        for (drawn, opened) in drawn(seed, self.rounds, &root).zip(&self.opened) {
            let index = drawn.checked_div(BLOCK)?;
            let siblings = opened.siblings.iter().map(|node| digest(node));
            let siblings = siblings.take(33).collect::<Option<_>>()?;
            let count = LANES.checked_div(BLOCK)?;
            let proof = MerkleProof { index, count, siblings };
            let bytes: Vec<u8> = opened.values.iter().copied().flat_map(u32::to_le_bytes).collect();
            let block: &[u8; BLOCK_BYTES] = bytes.as_slice().try_into().ok()?;
            let value = opened.values.get(usize::try_from(drawn.checked_rem(BLOCK)?).ok()?)?;
            let computed = lane(words(seed), drawn, self.rounds);
            if !proof.verify(&root, &leaf(block)) || *value != computed {
                return Some(false);
            }
        }
        Some(true)
    }
}

/// Whether the integer part of a rating was computed from this seed. Costs a processor less than
/// a second, whatever the device.
pub fn check(seed: &Seed, rating: &super::Rating) -> bool {
    rating.evidence.holds(seed).unwrap_or(false)
}

fn digest(text: &str) -> Option<Digest> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(Digest(bytes))
}

/// The lanes that are opened.
fn drawn(seed: &Seed, rounds: u32, root: &Digest) -> impl Iterator<Item = u32> {
    let context = [rounds.to_le_bytes().as_slice(), &root.0].concat();
    let mut draw = Draw::new(seed, "opengpu/bench/lanes", &context);
    (0..SAMPLES).map(move |_| u32::try_from(draw.below(u64::from(LANES))).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed([7; 32]);
    const ROUNDS: u32 = 3;

    fn values(seed: &Seed) -> Vec<u8> {
        let words = words(seed);
        (0..LANES).flat_map(|index| lane(words, index, ROUNDS).to_le_bytes()).collect()
    }

    #[test]
    fn work_that_was_done_holds_and_only_for_its_seed() {
        let evidence = Evidence::new(&SEED, ROUNDS, &values(&SEED)).unwrap();
        assert_eq!(evidence.holds(&SEED), Some(true));
        assert_eq!(evidence.holds(&Seed([8; 32])), Some(false));
        let more = Evidence { rounds: ROUNDS + 1, ..evidence.clone() };
        assert_eq!(more.holds(&SEED), Some(false), "fewer rounds were computed than claimed");
        let none = Evidence { rounds: 0, ..evidence };
        assert_eq!(none.holds(&SEED), Some(false));
    }

    #[test]
    fn lanes_that_were_skipped_are_found() {
        let mut values = values(&SEED);
        // Half of the lanes: the chance to get through is 2^-64.
        values[..4 * LANES as usize / 2].fill(0);
        let evidence = Evidence::new(&SEED, ROUNDS, &values).unwrap();
        assert_eq!(evidence.holds(&SEED), Some(false));
    }

    #[test]
    fn values_that_are_not_under_the_root_are_found() {
        let honest = Evidence::new(&SEED, ROUNDS, &values(&SEED)).unwrap();
        // True values under the root of others.
        let mut patched = Evidence::new(&SEED, ROUNDS, &vec![0; 4 * LANES as usize]).unwrap();
        let root = digest(&patched.root).unwrap();
        let drawn: Vec<u32> = drawn(&SEED, ROUNDS, &root).collect();
        for (opened, at) in patched.opened.iter_mut().zip(drawn) {
            opened.values[(at % BLOCK) as usize] = lane(words(&SEED), at, ROUNDS);
        }
        assert_eq!(patched.holds(&SEED), Some(false));
        let mut short = honest.clone();
        short.opened.pop();
        assert_eq!(short.holds(&SEED), Some(false));
        let mut odd = honest.clone();
        odd.opened[0].values.pop();
        assert_ne!(odd.holds(&SEED), Some(true));
        let noise = Evidence { root: "no digest".to_owned(), ..honest };
        assert_ne!(noise.holds(&SEED), Some(true));
    }

    #[test]
    fn evidence_needs_the_values_of_all_lanes() {
        assert_eq!(Evidence::new(&SEED, ROUNDS, &[]), None);
        assert_eq!(Evidence::new(&SEED, ROUNDS, &vec![0; 4 * LANES as usize - 4]), None);
    }
}
