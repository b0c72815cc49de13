//! Trials of devices: how much work shows a rating, what is opened of it, and whom it finds.
//!
//! ```text
//!   beacon ──► seed ──► device: lane 0 .. lane n ── rounds of mixing ──► values ── blocks ──► root
//!                                                                                              │
//!   all devices at once, in time:                               root of the roots ◄────────────┘
//!   a later beacon ──► drawn lanes ──► their blocks are opened ──► every validator computes them again
//! ```
//!
//! - How much a device has to do follows from what it is rated at, and how long it may take is the same for
//!   all: so whoever has fewer devices than it says is late with all of them together.
//! - What a device computes follows from its provider and its number: nothing of it can be copied from
//!   another device or from somebody else.
//! - The lanes are drawn by a beacon that nobody knew when the root was fixed, so whoever skipped some
//!   cannot try roots until one is drawn well.
//! - What is shown is the figure for integers of a rating. The others stay the word of the provider; a
//!   lease that takes longer than they say tells of that.
//!
//! Invariant: the mixing is the one of `kernels/integer.wgsl` and `kernels/trial.wgsl` in `opengpu-exec`,
//! bit for bit.

use std::collections::BTreeMap;

use opengpu_crypto::{
    Digest, Draw, Seed, hash,
    merkle::{self, MerkleProof},
};
use opengpu_types::{Address, ChainId, List, Millis, Trial, TrialBlock, TrialParameters, Tried};

use crate::bounds::Chance;

/// What is drawn of a trial is drawn by the beacon of so many heights after its commitment.
pub const LATER: u64 = 2;
/// Lanes that fill a large device. Slow devices have fewer rounds, fast ones more lanes.
pub const LANES: u32 = 1 << 18;
/// The most lanes of a device.
pub const LANES_MAX: u32 = 1 << 26;
/// The most rounds. Some drivers end the loops of a kernel after 65,535 rounds, whatever it says.
pub const ROUNDS_MAX: u32 = 60_000;
/// Lanes of one block.
pub const BLOCK: u32 = 64;
/// The same as a length.
const LANES_OF_BLOCK: usize = BLOCK as usize;
/// Operations of one round of a lane.
pub const OPERATIONS: u32 = 32;
/// Lanes that are computed beside each other, which a processor does almost as fast as one.
const ABREAST: usize = 8;

/// Domains.
const SEED: &str = "opengpu/trial/seed/v1";
const DEVICE: &str = "opengpu/trial/device/v1";
const DRAW: &str = "opengpu/trial/draw/v1";
const LANE: &str = "opengpu/trial/lanes/v1";
const WORDS: &str = "opengpu/bench/words";
const LEAF: &str = "opengpu/bench/block";

/// What a lane ends with.
pub fn lane(words: [u32; 2], lane: u32, rounds: u32) -> u32 {
    (0..rounds).fold(begin(words, lane), turn)
}

/// What a lane begins with.
const fn begin([low, high]: [u32; 2], lane: u32) -> u32 {
    mix(low ^ lane, high)
}

/// One round of a lane.
#[inline]
const fn turn(x: u32, round: u32) -> u32 {
    mix(mix(mix(mix(x, round), round), round), round)
}

#[inline]
const fn mix(mut x: u32, round: u32) -> u32 {
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    x.wrapping_mul(0x9e37_79b1).wrapping_add(round)
}

/// The two words of a seed that the lanes get.
pub fn words(seed: &Seed) -> [u32; 2] {
    let digest = hash(WORDS, &[&seed.0]).0;
    let (words, _) = digest.as_chunks::<4>();
    let word = |index: usize| words.get(index).map_or(0, |word| u32::from_le_bytes(*word));
    [word(0), word(1)]
}

/// The leaf of a block.
pub fn leaf(values: &[u8; Trial::BLOCK_BYTES]) -> Digest {
    hash(LEAF, &[values])
}

/// The seed of a provider's trial, by a beacon that nobody knew when its offers were fixed.
pub fn seed(chain: ChainId, beacon: &Seed, provider: &Address) -> Seed {
    Seed(hash(SEED, &[&chain.0.to_be_bytes(), &beacon.0, provider.as_bytes()]).0)
}

/// What draws the lanes that are opened, by a beacon that nobody knew when the root was fixed.
pub fn draw(seed: &Seed, beacon: &Seed, root: &Digest) -> Seed {
    Seed(hash(DRAW, &[&seed.0, &beacon.0, root.as_ref()]).0)
}

/// What one device has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Work {
    /// Lanes, in whole blocks.
    pub lanes: u32,
    /// Rounds of every lane.
    pub rounds: u32,
}

impl Work {
    /// What takes a device so long that does so many millions of integer operations a second.
    pub fn of(integers: u64, time: Millis) -> Self {
        // A million operations a second are a thousand in each millisecond.
        let operations =
            u128::from(integers).saturating_mul(u128::from(time.0)).saturating_mul(1000);
        let turns = operations.checked_div(u128::from(OPERATIONS)).unwrap_or(0);
        let rounds = turns.checked_div(u128::from(LANES)).unwrap_or(0);
        let rounds = rounds.clamp(1, u128::from(ROUNDS_MAX));
        let blocks = turns.div_ceil(rounds).div_ceil(u128::from(BLOCK));
        let lanes = blocks.saturating_mul(u128::from(BLOCK));
        let lanes = lanes.clamp(u128::from(BLOCK), u128::from(LANES_MAX));
        Self {
            lanes: u32::try_from(lanes).unwrap_or(LANES_MAX),
            rounds: u32::try_from(rounds).unwrap_or(ROUNDS_MAX),
        }
    }

    /// Blocks of lanes.
    pub const fn blocks(&self) -> u32 {
        self.lanes.div_ceil(BLOCK)
    }

    /// Rounds of all lanes.
    fn turns(&self) -> u64 {
        u64::from(self.lanes).saturating_mul(u64::from(self.rounds))
    }
}

/// A device in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// Of which offer.
    pub offer: u8,
    /// Which one of those of the offer that are tried.
    pub number: u8,
    /// What its lanes begin with.
    pub words: [u32; 2],
    /// What it has to do.
    pub work: Work,
}

/// All devices of a trial, in the sequence of their roots.
pub fn devices(seed: &Seed, tried: &[Tried], time: Millis) -> Vec<Device> {
    let of = |tried: &Tried| {
        let Tried { offer, devices, integers } = *tried;
        (0..devices).map(move |number| {
            let own = Seed(hash(DEVICE, &[&seed.0, &[offer, number]]).0);
            Device { offer, number, words: words(&own), work: Work::of(integers, time) }
        })
    };
    tried.iter().flat_map(of).collect()
}

/// The most rounds of any of them.
pub fn most_rounds(devices: &[Device]) -> u32 {
    devices.iter().map(|device| device.work.rounds).max().unwrap_or(0)
}

/// A lane that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Drawn {
    /// Of which device, in their sequence.
    pub device: u32,
    /// Which one.
    pub lane: u32,
}

impl Drawn {
    /// The block that holds it.
    pub const fn block(&self) -> u32 {
        match self.lane.checked_div(BLOCK) {
            Some(block) => block,
            None => 0,
        }
    }
}

/// The lanes that are opened: each has the chance of its part of all work.
pub fn drawn(draw: &Seed, devices: &[Device]) -> Vec<Drawn> {
    let all = devices.iter().fold(0u64, |sum, it| sum.saturating_add(it.work.turns()));
    let mut draw = Draw::new(draw, LANE, b"");
    let find = |mut place: u64| {
        for (index, device) in (0u32..).zip(devices) {
            if let Some(left) = place.checked_sub(device.work.turns()) {
                place = left;
                continue;
            }
            let lane = place.checked_div(u64::from(device.work.rounds)).unwrap_or(0);
            return Drawn { device: index, lane: u32::try_from(lane).unwrap_or(0) };
        }
        Drawn { device: 0, lane: 0 }
    };
    (0..Trial::SAMPLES).map(|_| find(draw.below(all))).collect()
}

/// The root over the roots of all devices.
pub fn root(roots: &[Digest]) -> Digest {
    merkle::root(roots)
}

/// What the lanes of a block end with.
pub fn block(device: &Device, block: u32) -> [u8; Trial::BLOCK_BYTES] {
    let mut lanes = [0; LANES_OF_BLOCK];
    ends(device.words, block.saturating_mul(BLOCK), &mut lanes, device.work.rounds);
    let mut bytes = [0; Trial::BLOCK_BYTES];
    for (place, value) in bytes.chunks_exact_mut(4).zip(lanes) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

/// What lanes from this one on end with.
pub fn ends(words: [u32; 2], first: u32, lanes: &mut [u32], rounds: u32) {
    for (lane, number) in lanes.iter_mut().zip(first..) {
        *lane = begin(words, number);
    }
    abreast(lanes, rounds);
}

/// Takes lanes from their beginnings to their ends.
fn abreast(lanes: &mut [u32], rounds: u32) {
    for some in lanes.chunks_mut(ABREAST) {
        // Of a fixed length, so that it stays in registers.
        let mut abreast = [0; ABREAST];
        abreast.iter_mut().zip(&*some).for_each(|(to, from)| *to = *from);
        for round in 0..rounds {
            abreast.iter_mut().for_each(|lane| *lane = turn(*lane, round));
        }
        some.iter_mut().zip(abreast).for_each(|(to, from)| *to = from);
    }
}

/// Opens the block of a drawn lane. None if these are not the leaves of its device, or the roots are not
/// those of all.
pub fn open(
    device: &Device,
    drawn: Drawn,
    leaves: &[Digest],
    roots: &[Digest],
) -> Option<TrialBlock> {
    let within = merkle::prove(leaves, drawn.block())?;
    let among = merkle::prove(roots, drawn.device)?;
    let root = *roots.get(usize::try_from(drawn.device).ok()?)?;
    Some(TrialBlock {
        values: block(device, drawn.block()),
        device: root,
        within: List::new(within.siblings).ok()?,
        among: List::new(among.siblings).ok()?,
    })
}

/// What was opened of a trial cannot be what was drawn: it is not under the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what is opened is not what was drawn, or not under the root")]
pub struct NotOpened;

/// Whether the drawn lanes were computed. Whoever opens what was drawn is told so or so, and no other way
/// to open it says something else; what cannot be that costs a few hashes.
pub fn check(
    devices: &[Device],
    drawn: &[Drawn],
    root: &Digest,
    opened: &[TrialBlock],
) -> Result<bool, NotOpened> {
    if opened.len() != drawn.len() {
        return Err(NotOpened);
    }
    // Lanes that take the same rounds are computed together.
    let mut wanted: BTreeMap<u32, Vec<(u32, u32)>> = BTreeMap::new();
    for (drawn, opened) in drawn.iter().zip(opened) {
        let place = usize::try_from(drawn.device).map_err(|_| NotOpened)?;
        let device = devices.get(place).ok_or(NotOpened)?;
        if !is_under(devices.len(), device, *drawn, root, opened) {
            return Err(NotOpened);
        }
        let (values, _) = opened.values.as_chunks::<4>();
        let at = drawn.lane.checked_rem(BLOCK).and_then(|at| usize::try_from(at).ok());
        let told = at.and_then(|at| values.get(at)).ok_or(NotOpened)?;
        let lane = (begin(device.words, drawn.lane), u32::from_le_bytes(*told));
        wanted.entry(device.work.rounds).or_default().push(lane);
    }
    Ok(wanted.into_iter().all(|(rounds, lanes)| {
        let mut found: Vec<u32> = lanes.iter().map(|(begun, _)| *begun).collect();
        abreast(&mut found, rounds);
        found.into_iter().eq(lanes.into_iter().map(|(_, told)| told))
    }))
}

/// Whether an opened block stands where the drawn lane is.
fn is_under(
    count: usize,
    device: &Device,
    drawn: Drawn,
    root: &Digest,
    opened: &TrialBlock,
) -> bool {
    let Ok(count) = u32::try_from(count) else { return false };
    let proof = |index, count, siblings: &[Digest]| MerkleProof {
        index,
        count,
        siblings: siblings.to_vec(),
    };
    let within = proof(drawn.block(), device.work.blocks(), &opened.within);
    let among = proof(drawn.device, count, &opened.among);
    within.verify(&opened.device, &leaf(&opened.values)) && among.verify(root, &opened.device)
}

/// How long the devices of a trial may take, all at once: `work * slack + allowance`.
pub fn limit(parameters: &TrialParameters) -> Millis {
    let slack = u128::from(parameters.work.0).saturating_mul(u128::from(parameters.slack));
    let slack = u64::try_from(slack.div_ceil(1000)).unwrap_or(u64::MAX);
    Millis(slack).plus(parameters.allowance)
}

/// The part of what it is rated at, in thousandths, that a device needs to be in time if blocks and
/// transport take nothing; whoever is slower is late, whatever they take.
pub fn least_speed(parameters: &TrialParameters) -> u64 {
    let work = u128::from(parameters.work.0).saturating_mul(1000);
    let least = work.div_ceil(u128::from(limit(parameters).0).max(1));
    u64::try_from(least).unwrap_or(u64::MAX)
}

/// Whether whoever says that it has so many devices and has fewer, all as fast as it says, is late if it
/// does all of the work: `listed * work > real * (work * slack + allowance)`.
pub fn is_late(parameters: &TrialParameters, listed: u32, real: u32) -> bool {
    let needed = u128::from(parameters.work.0).saturating_mul(u128::from(listed));
    needed > u128::from(limit(parameters).0).saturating_mul(u128::from(real))
}

/// The most that whoever says that it has so many devices and has fewer can do of the work in time.
pub fn done(parameters: &TrialParameters, listed: u32, real: u32) -> Chance {
    let time = u128::from(limit(parameters).0).saturating_mul(u128::from(real));
    let needed = u128::from(parameters.work.0).saturating_mul(u128::from(listed)).max(1);
    let one = u128::from(Chance::ALWAYS.get());
    let share = time.saturating_mul(one).div_ceil(needed).min(one);
    u64::try_from(share).ok().and_then(Chance::new).unwrap_or(Chance::ALWAYS)
}

/// At most so often does whoever did this part of the work, and skipped the rest, pass one trial:
/// `done^SAMPLES`, rounded up.
pub fn accepted(done: Chance) -> Chance {
    done.often(u32::try_from(Trial::SAMPLES).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
