//! Byzantine validators: seats played by the engine's own byzantine participants.
//!
//! An impostor holds a validator's key and nothing else: no blocks, no state, no later epoch. It
//! plays the seat in the first epoch, in the way of its [`Part`]; afterwards the validator's own
//! node takes over and must catch up.
//!
//! ```text
//!  epoch 0: impostor ──► epoch 0 is over ──► the validator's node, from an empty disk
//! ```
//!
//! What it did is told by what nodes heard, not by what it sent: a vote that was lost or that came
//! from somebody cut off did no harm and proves nothing. A node that heard it contradict itself must
//! see to it that it is slashed, unless that node forgot it in a crash.
//!
//! Not here: real nodes that vote twice ([`super::liar`]).

use super::cast::{CHAIN, Member};
use commonware_codec::DecodeExt as _;
use commonware_consensus::{
    Epochable as _, Viewable as _,
    simplex::{
        mocks::{
            conflicter::{self, Conflicter},
            equivocator::{self, Equivocator},
            impersonator::{self, Impersonator},
            nuller::{self, Nuller},
            nullify_only::{self, NullifyOnly},
            outdated::{self, Outdated},
            reconfigurer::{self, Reconfigurer},
            relay::Relay,
        },
        types::{Attributable as _, Proposal, Vote},
    },
    types::{Epoch, ViewDelta},
};
use commonware_cryptography::{Sha256, ed25519::PublicKey};
use commonware_p2p::{
    Receiver, Sender,
    utils::mux::{Muxer, SubReceiver, SubSender, parse},
};
use commonware_runtime::{Handle, IoBuf, Spawner as _, Supervisor as _, deterministic::Context};
use commonware_utils::sync::Mutex;
use opengpu_ledger::genesis_seats;
use opengpu_node::{
    committee::{Committee, Scheme},
    elector::SeatElector,
};
use opengpu_types::{Address, Digest, Genesis};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

/// The only epoch that an impostor knows.
const EPOCH: Epoch = Epoch::zero();
/// Views by which an [`Part::Outdated`] is late: an epoch has only a dozen.
const LATE: ViewDelta = ViewDelta::new(3);

/// How an impostor plays a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Votes for the block that others vote for, and for one that does not exist.
    Conflicter,
    /// Says that a view had no block, and finalizes its block.
    Nuller,
    /// Says that every view had no block.
    NullifyOnly,
    /// Proposes one block to one voter and another one to the rest, and has neither.
    Equivocator,
    /// Votes for what was voted on some views ago.
    Outdated,
    /// Votes in the name of another seat.
    Impersonator,
    /// Votes as if it were the next epoch.
    Reconfigurer,
}

impl Part {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Conflicter,
        Self::Nuller,
        Self::NullifyOnly,
        Self::Equivocator,
        Self::Outdated,
        Self::Impersonator,
        Self::Reconfigurer,
    ];
}

impl fmt::Display for Part {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Conflicter => "conflicter",
            Self::Nuller => "nuller",
            Self::NullifyOnly => "nullify-only",
            Self::Equivocator => "equivocator",
            Self::Outdated => "outdated",
            Self::Impersonator => "impersonator",
            Self::Reconfigurer => "reconfigurer",
        })
    }
}

/// The impostor of a run.
#[derive(Debug)]
pub(crate) struct Impostor {
    part: Part,
    key: PublicKey,
    operator: Address,
    seat: usize,
    committee: Committee,
    scheme: Scheme,
    record: Mutex<Record>,
}

/// What nodes heard of it.
#[derive(Debug, Default)]
struct Record {
    /// Votes that reached somebody, each once.
    votes: BTreeSet<Vec<u8>>,
    /// Ballots that each node heard since it started, by view.
    heard: BTreeMap<PublicKey, BTreeMap<u64, Ballot>>,
    /// Some node heard a contradiction, now or in an earlier life.
    guilty: bool,
}

/// Its votes of one view that one node heard.
#[derive(Debug, Default)]
struct Ballot {
    notarized: BTreeSet<(u64, Digest)>,
    finalized: BTreeSet<(u64, Digest)>,
    nullified: bool,
}

impl Ballot {
    fn add(&mut self, vote: &Vote<Scheme, Digest>) {
        let subject = |proposal: &Proposal<Digest>| (proposal.parent.get(), proposal.payload);
        match vote {
            Vote::Notarize(vote) => _ = self.notarized.insert(subject(&vote.proposal)),
            Vote::Finalize(vote) => _ = self.finalized.insert(subject(&vote.proposal)),
            Vote::Nullify(_) => self.nullified = true,
        }
    }

    fn contradicts_itself(&self) -> bool {
        let twice = self.notarized.len() > 1 || self.finalized.len() > 1;
        twice || self.nullified && !self.finalized.is_empty()
    }
}

impl Impostor {
    /// Somebody who has the key of `member`.
    pub(crate) fn new(part: Part, member: &Member, genesis: &Genesis) -> Self {
        let [seats, _] = genesis_seats(genesis).expect("the cast makes a network");
        let committee = Committee::new(Arc::new(seats)).expect("the cast makes a network");
        let key = member.public_key();
        let seat = committee.voters().position(&key).expect("every member has a seat at first");
        let scheme = committee.voting_scheme(CHAIN, &member.keys.consensus);
        let operator = member.operator.address();
        Self { part, key, operator, seat, committee, scheme, record: Mutex::default() }
    }

    pub(crate) const fn part(&self) -> Part {
        self.part
    }

    /// Whose seat it plays.
    pub(crate) const fn operator(&self) -> Address {
        self.operator
    }

    /// Plays the seat; the play ends with the handle's task.
    pub(crate) fn play<S, R>(
        self: Arc<Self>,
        context: Context,
        votes: (S, R),
        certificates: (S, R),
    ) -> Handle<()>
    where
        S: Sender<PublicKey = PublicKey>,
        R: Receiver<PublicKey = PublicKey>,
    {
        context.spawn(move |context| async move {
            let (mux, mut votes) = Muxer::new(context.child("votes"), votes.0, votes.1);
            mux.start();
            let (mux, mut certificates) =
                Muxer::new(context.child("certificates"), certificates.0, certificates.1);
            mux.start();
            let votes = votes.register(EPOCH.get()).await.expect("nobody else listens");
            let certificates =
                certificates.register(EPOCH.get()).await.expect("nobody else listens");
            // It ends only when it is aborted.
            let _ = self.start(context, votes, certificates).await;
        })
    }

    fn start<S: Sender<PublicKey = PublicKey>>(
        &self,
        context: Context,
        votes: (SubSender<S>, SubReceiver<PublicKey>),
        certificates: (SubSender<S>, SubReceiver<PublicKey>),
    ) -> Handle<()> {
        let (context, scheme) = (context.child("part"), self.scheme.clone());
        match self.part {
            Part::Conflicter => {
                let config = conflicter::Config { scheme };
                Conflicter::<_, _, Sha256>::new(context, config).start(votes)
            }
            Part::Nuller => {
                Nuller::<_, _, Sha256>::new(context, nuller::Config { scheme }).start(votes)
            }
            Part::NullifyOnly => {
                let config = nullify_only::Config { scheme };
                NullifyOnly::<_, _, Sha256>::new(context, config).start(votes)
            }
            Part::Equivocator => {
                let config = equivocator::Config {
                    scheme,
                    elector: SeatElector::new(self.committee.seats().clone()),
                    epoch: EPOCH,
                    // Its blocks reach nobody: real nodes take blocks from each other only.
                    relay: Arc::new(Relay::new()),
                };
                Equivocator::<_, _, _, Sha256>::new(context, config).start(votes, certificates)
            }
            Part::Outdated => {
                let config = outdated::Config { scheme, view_delta: LATE };
                Outdated::<_, _, Sha256>::new(context, config).start(votes)
            }
            Part::Impersonator => {
                let config = impersonator::Config { scheme };
                Impersonator::<_, _, Sha256>::new(context, config).start(votes)
            }
            Part::Reconfigurer => {
                let config = reconfigurer::Config { scheme };
                Reconfigurer::<_, _, Sha256>::new(context, config).start(votes)
            }
        }
    }

    /// Notes a message of the votes channel that reached `listener`.
    pub(crate) fn hear(&self, listener: &PublicKey, from: &PublicKey, message: &IoBuf) {
        if *from != self.key {
            return;
        }
        let Ok((epoch, payload)) = parse(message.clone()) else { return };
        // In later epochs it is the validator's own node that speaks.
        if epoch != EPOCH.get() {
            return;
        }
        let mut record = self.record.lock();
        record.votes.insert(payload.as_ref().to_vec());
        let Ok(vote) = Vote::<Scheme, Digest>::decode(payload) else { return };
        let signer = match &vote {
            Vote::Notarize(vote) => vote.signer(),
            Vote::Nullify(vote) => vote.signer(),
            Vote::Finalize(vote) => vote.signer(),
        };
        if vote.epoch() != EPOCH || usize::from(signer) != self.seat {
            return;
        }
        let ballots = record.heard.entry(listener.clone()).or_default();
        let ballot = ballots.entry(vote.view().get()).or_default();
        ballot.add(&vote);
        record.guilty |= ballot.contradicts_itself();
    }

    /// A node crashed: what it heard it may not have told.
    pub(crate) fn forgotten_by(&self, listener: &PublicKey) {
        self.record.lock().heard.remove(listener);
    }

    /// Everybody crashed.
    pub(crate) fn forgotten_by_all(&self) {
        self.record.lock().heard.clear();
    }

    /// Votes that reached somebody.
    pub(crate) fn votes(&self) -> u64 {
        u64::try_from(self.record.lock().votes.len()).unwrap_or(u64::MAX)
    }

    /// Whether a slash would be just.
    pub(crate) fn is_guilty(&self) -> bool {
        self.record.lock().guilty
    }

    /// Whether a slash is due: somebody knows of a contradiction.
    pub(crate) fn must_be_slashed(&self) -> bool {
        let record = self.record.lock();
        let mut ballots = record.heard.values().flat_map(BTreeMap::values);
        ballots.any(Ballot::contradicts_itself)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::{Scenario, cast::Cast, plan::Plan, stage};
    use commonware_codec::Encode as _;
    use commonware_consensus::{
        simplex::types::{Finalize, Nullify},
        types::{Round, View},
    };

    #[test]
    fn only_who_heard_both_votes_must_report_them_and_only_until_it_forgets() {
        let cast = Cast::new(4, 1);
        let impostor = Impostor::new(Part::Nuller, &cast.members[0], &cast.genesis(8, 900));
        let [me, first, second, _] = [0, 1, 2, 3].map(|index| cast.members[index].public_key());
        let round = Round::new(EPOCH, View::new(2));
        let block = Proposal::new(round, View::new(1), Digest::from([1; 32]));
        let nullify = Nullify::sign::<Digest>(&impostor.scheme, round).unwrap();
        let finalize = Finalize::sign(&impostor.scheme, block).unwrap();
        let say = |listener: &PublicKey, vote: Vote<Scheme, Digest>| {
            // The first byte names the epoch.
            let message = [&[0], vote.encode().as_ref()].concat();
            impostor.hear(listener, &me, &IoBuf::from(message));
        };
        say(&first, Vote::Nullify(nullify.clone()));
        say(&second, Vote::Finalize(finalize.clone()));
        assert!(!impostor.is_guilty() && !impostor.must_be_slashed());
        say(&first, Vote::Finalize(finalize));
        assert!(impostor.is_guilty() && impostor.must_be_slashed());
        assert_eq!(impostor.votes(), 2, "each vote counts once, however many heard it");
        impostor.forgotten_by(&first);
        assert!(impostor.is_guilty() && !impostor.must_be_slashed());
        say(&first, Vote::Nullify(nullify));
        assert!(!impostor.must_be_slashed());
    }

    #[track_caller]
    fn check(part: Part, slashed: usize) {
        let report = stage(Scenario::Transfers, Plan::quiet_with(part)).unwrap();
        assert!(report.faults.votes > 0, "it was never heard");
        assert_eq!(report.convicted, slashed);
    }

    #[test]
    fn who_votes_for_two_blocks_is_slashed() {
        check(Part::Conflicter, 1);
    }

    #[test]
    fn who_skips_a_view_and_finalizes_its_block_is_slashed() {
        check(Part::Nuller, 1);
    }

    #[test]
    fn two_proposals_to_different_voters_stop_nobody() {
        // No voter sees both, so nobody can prove it.
        check(Part::Equivocator, 0);
    }

    #[test]
    fn votes_to_skip_every_view_stop_nobody() {
        check(Part::NullifyOnly, 0);
    }

    #[test]
    fn late_votes_are_no_offence_and_stop_nobody() {
        check(Part::Outdated, 0);
    }

    #[test]
    fn votes_in_another_name_slash_nobody() {
        check(Part::Impersonator, 0);
    }

    #[test]
    fn votes_for_another_epoch_slash_nobody() {
        check(Part::Reconfigurer, 0);
    }
}
