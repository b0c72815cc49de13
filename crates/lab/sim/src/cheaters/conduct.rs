//! Ways to behave: what each strategy makes its parties do, and what the specification expects of it.

use super::work::SEGMENTS;
use crate::dice::Dice;
use opengpu_types::Permille;
use opengpu_verify::bounds::Chance;
use std::collections::BTreeSet;

/// One segment of a run, as a share of it.
const ONE_SEGMENT: Option<Chance> = match Chance::ALWAYS.get().checked_div(SEGMENTS as u64) {
    Some(share) => Chance::new(share),
    None => None,
};

/// A way to behave. What is said of it is about those who follow it; all others are honest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strategy {
    /// A provider with stake that runs everything.
    Honest,
    /// A provider without stake that runs everything.
    HonestNewcomer,
    /// Six of the verifiers of an honest provider that repeat what they are drawn for.
    HonestVerifier,
    /// Nothing is run.
    Full,
    /// A tenth of the segments is not run.
    Tenth,
    /// One segment is not run.
    One,
    /// The root of somebody else: no leaf of it can be opened.
    Copycat,
    /// Nothing is run, and nothing is served or posted.
    Withholder,
    /// Nothing is run, and a fifth of the verifiers are friends.
    RingOfAFifth,
    /// Nothing is run, and a third of the verifiers are friends.
    RingOfAThird,
    /// Nothing is run, by one account without stake after the other.
    Sybil,
    /// Everything is run until audits are rare, and then nothing.
    LongCon,
    /// Six verifiers that repeat nothing and answer anything.
    Guesser,
    /// Six verifiers that repeat nothing, and fall silent after the seal.
    SilentVerifier,
    /// A client that disputes a segment of every commitment that is right.
    Disputer,
}

/// How a verifier behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// It repeats, and says what it found.
    Honest,
    /// It says what the provider claims.
    Friend,
    /// It says anything, and disputes whatever it is held against.
    Guesses,
    /// It seals anything, and says no more.
    FallsSilent,
}

/// How the provider of the tasks behaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Conduct {
    /// What it does not run.
    pub(super) faked: BTreeSet<u32>,
    /// Whether it serves, posts and opens nothing.
    pub(super) withholds: bool,
    /// Whether the root that it commits to is somebody else's.
    pub(super) copies: bool,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::Honest,
        Self::HonestNewcomer,
        Self::HonestVerifier,
        Self::Full,
        Self::Tenth,
        Self::One,
        Self::Copycat,
        Self::Withholder,
        Self::RingOfAFifth,
        Self::RingOfAThird,
        Self::Sybil,
        Self::LongCon,
        Self::Guesser,
        Self::SilentVerifier,
        Self::Disputer,
    ];

    /// Its name in the table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Honest => "honest",
            Self::HonestNewcomer => "honest, no stake",
            Self::HonestVerifier => "honest verifiers",
            Self::Full => "nothing is run",
            Self::Tenth => "a tenth is faked",
            Self::One => "one segment is faked",
            Self::Copycat => "copied root",
            Self::Withholder => "withholder",
            Self::RingOfAFifth => "ring, a fifth",
            Self::RingOfAThird => "ring, a third",
            Self::Sybil => "sybil",
            Self::LongCon => "long con",
            Self::Guesser => "lazy verifiers, guess",
            Self::SilentVerifier => "lazy verifiers, silent",
            Self::Disputer => "spam disputer",
        }
    }

    /// Whether those who follow it do what they should.
    pub const fn is_honest(self) -> bool {
        matches!(self, Self::Honest | Self::HonestNewcomer | Self::HonestVerifier)
    }

    /// Whether the specification says that sampling cannot stop it.
    pub const fn is_out_of_scope(self) -> bool {
        matches!(self, Self::One)
    }

    /// Whether it wins more than honest work where nothing is audited.
    pub(super) const fn gains_without_audits(self) -> bool {
        self.faked().is_some()
    }

    /// Whether it is about what verifiers do.
    pub(super) const fn is_of_verifiers(self) -> bool {
        matches!(self, Self::HonestVerifier | Self::Guesser | Self::SilentVerifier)
    }

    /// Whether its providers have no stake.
    pub(super) const fn is_of_newcomers(self) -> bool {
        matches!(self, Self::HonestNewcomer | Self::Sybil)
    }

    /// Commitments that are kept before it begins.
    pub(super) const fn patience(self) -> u32 {
        match self {
            Self::LongCon => 200,
            _ => 0,
        }
    }

    /// How many verifiers follow it, beside so many others.
    pub(super) const fn verifiers(self, others: usize) -> usize {
        match self {
            Self::RingOfAFifth => others / 4,
            Self::RingOfAThird => others / 2,
            Self::HonestVerifier | Self::Guesser | Self::SilentVerifier => 6,
            _ => 0,
        }
    }

    /// How they behave.
    pub(super) const fn manner(self) -> Manner {
        match self {
            Self::RingOfAFifth | Self::RingOfAThird => Manner::Friend,
            Self::Guesser => Manner::Guesses,
            Self::SilentVerifier => Manner::FallsSilent,
            _ => Manner::Honest,
        }
    }

    /// Share of the verifiers that covers it.
    pub(super) const fn covered(self) -> Permille {
        match self {
            Self::RingOfAFifth => Permille::constant(200),
            Self::RingOfAThird => Permille::constant(334),
            _ => Permille::ZERO,
        }
    }

    /// Share of a commitment that is false; none if nothing of it is.
    pub(super) const fn faked(self) -> Option<Chance> {
        match self {
            Self::Full
            | Self::Copycat
            | Self::Withholder
            | Self::RingOfAFifth
            | Self::RingOfAThird
            | Self::Sybil
            | Self::LongCon => Some(Chance::ALWAYS),
            Self::Tenth => Some(Chance::thousandths(Permille::constant(100))),
            Self::One => ONE_SEGMENT,
            _ => None,
        }
    }

    /// What the provider of a task does.
    pub(super) fn conduct(self, dice: &mut Dice) -> Conduct {
        let all: BTreeSet<u32> = (1..=SEGMENTS).collect();
        let mut some = |count: usize| {
            let mut faked = BTreeSet::new();
            while faked.len() < count {
                let index = dice.below(SEGMENTS.into()).saturating_add(1);
                faked.extend(u32::try_from(index));
            }
            faked
        };
        let faked = match self {
            Self::Full | Self::RingOfAFifth | Self::RingOfAThird | Self::Sybil | Self::LongCon => {
                all
            }
            Self::Withholder => all,
            Self::Tenth => some(26),
            Self::One => some(1),
            _ => BTreeSet::new(),
        };
        Conduct { faked, withholds: self == Self::Withholder, copies: self == Self::Copycat }
    }
}
