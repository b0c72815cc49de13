//! Ways to behave: what each strategy makes its parties do, and what the specification expects of it.

use super::work::SEGMENTS;
use crate::dice::Dice;
use opengpu_types::{AuditParameters, MarketParameters, Permille};
use opengpu_verify::bounds::Chance;
use std::collections::BTreeSet;

/// One segment of a run, as a share of it.
const ONE_SEGMENT: Option<Chance> = match Chance::ALWAYS.get().checked_div(SEGMENTS as u64) {
    Some(share) => Chance::new(share),
    None => None,
};

/// What a lease locks where bribing all of twelve verifiers costs more than its pay: above four twelfths, for a
/// quarter of it is what each of them would win by an objection.
const DEAR: Permille = Permille::constant(350);

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
    /// Six verifiers that repeat, and dispute one segment each that they found right, to the last unit.
    Accuser,
    /// A client that disputes a segment of every commitment that is right.
    Disputer,
    /// A tenth of the segments is not run, and the leader withholds a beacon by which that would be found,
    /// once for each commitment.
    Grinder,
    /// Nothing is run, and all verifiers of the first audit are paid what they forgo, if it is upheld.
    Bribed,
    /// The same where nothing is audited again.
    BribedUnseen,
    /// The same where everything is audited again.
    BribedSeen,
    /// The same where a lease locks so much that bribes cost more than its pay.
    BribedDear,
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
    /// It repeats, and says what it found of all but one segment, which it disputes.
    Accuses,
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
    pub const ALL: [Self; 21] = [
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
        Self::Accuser,
        Self::Disputer,
        Self::Grinder,
        Self::Bribed,
        Self::BribedUnseen,
        Self::BribedSeen,
        Self::BribedDear,
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
            Self::Accuser => "false challengers",
            Self::Disputer => "spam disputer",
            Self::Grinder => "grinding leader",
            Self::Bribed => "bribed committee",
            Self::BribedUnseen => "bribed, never again",
            Self::BribedSeen => "bribed, always again",
            Self::BribedDear => "bribed, a larger lock",
        }
    }

    /// Whether those who follow it do what they should.
    pub const fn is_honest(self) -> bool {
        matches!(self, Self::Honest | Self::HonestNewcomer | Self::HonestVerifier)
    }

    /// Whether the specification says that it is not stopped: by no sampling, or not with so small a lock.
    pub const fn is_out_of_scope(self) -> bool {
        matches!(self, Self::One | Self::Bribed | Self::BribedUnseen)
    }

    /// Whether it pays verifiers of the first audit.
    pub(super) const fn bribes(self) -> bool {
        matches!(self, Self::Bribed | Self::BribedUnseen | Self::BribedSeen | Self::BribedDear)
    }

    /// The rules of the market in which it is followed.
    pub(super) const fn market(self, segments: u8) -> MarketParameters {
        let local = MarketParameters::LOCAL;
        let again = match self {
            Self::BribedUnseen => Permille::ZERO,
            Self::BribedSeen => Permille::ALL,
            _ => local.audits.again,
        };
        let audits = AuditParameters { segments, again, ..local.audits };
        let provider_lock = match self {
            Self::BribedDear => DEAR,
            _ => local.provider_lock,
        };
        MarketParameters { audits, provider_lock, ..local }
    }

    /// Whether it wins more than honest work where nothing is audited.
    pub(super) const fn gains_without_audits(self) -> bool {
        self.faked().is_some()
    }

    /// Whether it is about what verifiers do.
    pub(super) const fn is_of_verifiers(self) -> bool {
        matches!(self, Self::HonestVerifier | Self::Guesser | Self::SilentVerifier | Self::Accuser)
    }

    /// Whether its verifiers repeat what they are drawn for.
    pub(super) const fn repeats(self) -> bool {
        matches!(self, Self::HonestVerifier | Self::Accuser)
    }

    /// How often it has a draw replaced.
    pub(super) const fn rerolls(self) -> u32 {
        match self {
            Self::Grinder => 1,
            _ => 0,
        }
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
            Self::HonestVerifier | Self::Guesser | Self::SilentVerifier | Self::Accuser => 6,
            _ => 0,
        }
    }

    /// How they behave.
    pub(super) const fn manner(self) -> Manner {
        match self {
            Self::RingOfAFifth | Self::RingOfAThird => Manner::Friend,
            Self::Guesser => Manner::Guesses,
            Self::SilentVerifier => Manner::FallsSilent,
            Self::Accuser => Manner::Accuses,
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
            | Self::LongCon
            | Self::Bribed
            | Self::BribedUnseen
            | Self::BribedSeen
            | Self::BribedDear => Some(Chance::ALWAYS),
            Self::Tenth | Self::Grinder => Some(Chance::thousandths(Permille::constant(100))),
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
            it if it.bribes() => all,
            Self::Tenth | Self::Grinder => some(26),
            Self::One => some(1),
            _ => BTreeSet::new(),
        };
        Conduct { faked, withholds: self == Self::Withholder, copies: self == Self::Copycat }
    }
}
