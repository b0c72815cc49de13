//! What a replayed audit tells: facts, what happened, what was found, and the money.

use opengpu_types::{
    Address, Amount, ArtifactId, Audit, Challenger, Checkpoint, CloseReason, Commitment, Digest,
    Event, Finding, Height, LeaseId, Millis, Permille, Receipt, SegmentIndex, Spec, Verdict,
};
use std::collections::BTreeMap;

/// What an audit is about, as the chain has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Which lease.
    pub lease: LeaseId,
    /// Whose task.
    pub client: Address,
    /// What was to be run.
    pub spec: Spec,
    /// What the client locked as its pledge.
    pub lock: Amount,
    /// Who ran it.
    pub provider: Address,
    /// From where; none if the lease began.
    pub from: Option<Checkpoint>,
    /// What the provider committed to.
    pub commitment: Commitment,
    /// In which block.
    pub committed: Height,
    /// Whether the lease ended with that, and its audit began then.
    pub ended: bool,
}

/// A place on the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct At {
    /// The block.
    pub height: Height,
    /// Its time.
    pub time: Millis,
}

/// What was waited for when a deadline passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// Answers of verifiers.
    Answers,
    /// States that others were not served.
    States,
    /// Leaves of what was sealed.
    Leaves,
    /// Seals of verifiers to be opened.
    Reveals,
    /// A move of the provider in a dispute.
    Provider,
    /// A move of the challenger in a dispute, or the unit.
    Challenger,
    /// An objection of the client.
    Client,
}

/// Something that happened in an audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Nothing was drawn: the lottery did not choose it, or there was nobody.
    Undrawn {
        /// Whether the lottery chose it; none if that cannot be told.
        chosen: Option<bool>,
    },
    /// It is not audited again: the lottery did not choose it, or there was nobody.
    Left {
        /// Whether the lottery chose it; none if that cannot be told.
        chosen: Option<bool>,
    },
    /// These were drawn for these segments; zero is the beginning.
    Drawn {
        /// In which draw.
        draw: u8,
        /// Whether to audit again what was found right.
        again: bool,
        /// Who, for what.
        seats: Vec<(Address, Vec<SegmentIndex>)>,
    },
    /// A verifier answered.
    Answered {
        /// Who.
        by: Address,
        /// What it sealed.
        sealed: Vec<SegmentIndex>,
        /// What it was not served.
        unserved: Vec<SegmentIndex>,
    },
    /// The provider posted the state before a segment.
    Posted {
        /// The segment.
        segment: SegmentIndex,
    },
    /// The provider opened leaves.
    Opened {
        /// Of these segments.
        segments: Vec<SegmentIndex>,
    },
    /// A verifier opened its seals.
    Revealed {
        /// Who.
        by: Address,
        /// Where it found what the provider had committed to.
        agreed: Vec<SegmentIndex>,
        /// Where it found something else.
        objected: Vec<SegmentIndex>,
    },
    /// A dispute began.
    Disputed {
        /// Whose objection is heard.
        by: Challenger,
        /// About which segment.
        index: SegmentIndex,
    },
    /// The provider stated points of its run.
    Stated {
        /// How many.
        points: usize,
    },
    /// The challenger named the first interval that is wrong.
    Named {
        /// Units of the run before the interval that is left, and before its end.
        left: (u64, u64),
    },
    /// The challenger showed a unit, and the referee executed it.
    Shown {
        /// Units of the run before it; none for the beginning.
        number: Option<u64>,
        /// Whether the referee came to what the provider claimed.
        holds: bool,
    },
    /// The client showed that the commitment contradicts its last leaf.
    Contradicted {
        /// The segment.
        index: SegmentIndex,
    },
    /// A deadline passed.
    Passed {
        /// What was waited for.
        waited: Waited,
    },
}

/// Something that happened, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happening {
    /// Where.
    pub at: At,
    /// What.
    pub what: What,
}

/// What was taken of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slash {
    /// All of it.
    pub amount: Amount,
    /// Lost to all.
    pub burned: Amount,
    /// For the client.
    pub client: Amount,
    /// For who found it.
    pub finder: Amount,
}

/// How the chain closed an audit and its lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closing {
    /// The audit as it was then: the certificate.
    pub certificate: Audit,
    /// What verifiers were paid.
    pub fees: Amount,
    /// What verifiers and the client lost by objections that were wrong.
    pub forfeited: Amount,
    /// Whose lease it was.
    pub provider: Address,
    /// How the lease ended.
    pub reason: CloseReason,
    /// The verdict about it.
    pub verdict: Option<Verdict>,
    /// The root that it was committed to.
    pub root: Option<Digest>,
    /// What it added to the output.
    pub output: Option<ArtifactId>,
    /// What was paid for it, fees included.
    pub paid: Amount,
    /// What was taken of the provider.
    pub slash: Option<Slash>,
}

impl Closing {
    /// The closing of the audit of this lease, if the receipt tells of it.
    pub fn of(receipt: &Receipt, id: LeaseId) -> Option<Self> {
        let mut slash = None;
        let mut lease_closed = None;
        let mut closed = None;
        for event in &receipt.events {
            match event {
                Event::ProviderSlashed { lease, amount, burned, client, finder, .. }
                    if *lease == id =>
                {
                    let (amount, burned, client, finder) = (*amount, *burned, *client, *finder);
                    slash = Some(Slash { amount, burned, client, finder });
                }
                Event::LeaseClosed {
                    lease, provider, reason, verdict, root, output, paid, ..
                } if *lease == id => {
                    lease_closed = Some((*provider, *reason, *verdict, *root, *output, *paid));
                }
                Event::AuditClosed { lease, audit, fees, forfeited } if *lease == id => {
                    closed = Some(((**audit).clone(), *fees, *forfeited));
                }
                _ => {}
            }
        }
        let (certificate, fees, forfeited) = closed?;
        let (provider, reason, verdict, root, output, paid) = lease_closed?;
        Some(Self {
            certificate,
            fees,
            forfeited,
            provider,
            reason,
            verdict,
            root,
            output,
            paid,
            slash,
        })
    }
}

/// An audit whose every link held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// What it was about.
    pub facts: Facts,
    /// How often commitments like this one were audited.
    pub rate: Permille,
    /// What happened, in the order in which it did.
    pub course: Vec<Happening>,
    /// What was found.
    pub finding: Finding,
    /// Where it ended.
    pub closed: At,
    /// What each verifier was paid.
    pub fees: BTreeMap<Address, Amount>,
    /// How the chain closed it.
    pub closing: Closing,
}
