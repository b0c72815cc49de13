//! Whoever may run a segment of our leases again, and what it gets for that.
//!
//! ```text
//!   reader ──AGAIN lease, segment──► known by its key on chain? ──► may it see the task? ──► packed for it
//! ```
//!
//! A verifier of an audit asks by `SERVE`, and is given a segment that it was drawn for, with no leaf but the
//! one before ([`Asked::share`]).
//!
//! Invariants: a reader is a registered provider, known by the session key that the chain has of it; the
//! set of eyes of the task decides ([`may_see`]); everything is sealed to the sealing key that the chain
//! has of it; nothing is given that the lease has not committed to; nobody asks or fetches more than its
//! [`Allowance`].

use crate::allowance::Allowance;
use crate::audit::{Asked, Share};
use crate::auditing::matter::{Matter, leaf};
use crate::board::{Board, Posted};
use crate::chain::Chain;
use crate::delivery::Depot;
use crate::neighbours::Neighbours;
use crate::record::Records;
use bytes::Bytes;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_crypto::SealPublicKey;
use opengpu_link::EndpointId;
use opengpu_link::artifact::Grant;
use opengpu_link::folder;
use opengpu_link::lease::{AGAIN, Again, Before, Parcel, Piece, SERVE, Served, Standing};
use opengpu_link::session::{Exchange, Refusal, Router, SessionError};
use opengpu_link::transfer::Turn;
use opengpu_market::eyes::may_see;
use opengpu_types::{
    Address, ArtifactId, CloseReason, Entry, Key, LeaseId, LeasePhase, ProgramId, SegmentIndex,
};
use std::collections::VecDeque;
use std::io::{self, Cursor};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::task::spawn_blocking;
use tracing::{debug, info};

/// Artifacts that readers may fetch; older ones are asked for again.
const MOST_SHOWN: usize = 4_096;

/// What readers may fetch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    all: Arc<Mutex<VecDeque<(EndpointId, ArtifactId, Address)>>>,
    allowance: Allowance,
}

impl Shown {
    pub(crate) fn may_read(&self, remote: EndpointId, artifact: ArtifactId) -> bool {
        self.reader(remote, artifact).is_some()
    }

    /// When so many bytes of it may be sent to a reader; none if this endpoint is none.
    pub(crate) fn turn(
        &self,
        remote: EndpointId,
        artifact: ArtifactId,
        bytes: u64,
    ) -> Option<Turn> {
        let reader = self.reader(remote, artifact)?;
        Some(self.allowance.fetch(reader, bytes))
    }

    fn reader(&self, remote: EndpointId, artifact: ArtifactId) -> Option<Address> {
        let shown = self.lock();
        let mut found = shown.iter().filter(|it| (it.0, it.1) == (remote, artifact));
        found.next().map(|(_, _, account)| *account)
    }

    fn show(
        &self,
        (remote, account): (EndpointId, Address),
        artifacts: impl Iterator<Item = ArtifactId>,
    ) {
        let mut shown = self.lock();
        for artifact in artifacts {
            if !shown.contains(&(remote, artifact, account)) {
                shown.push_back((remote, artifact, account));
            }
        }
        let over = shown.len().saturating_sub(MOST_SHOWN);
        shown.drain(..over);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(EndpointId, ArtifactId, Address)>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How something is packed for a reader: for whom, and what of a run.
type Packing = fn(&Readers, &Standing, (EndpointId, Address)) -> Result<Bytes, Refusal>;

/// Answers readers.
#[derive(Clone)]
pub(crate) struct Readers {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) neighbours: Neighbours,
    pub(crate) board: Board,
    pub(crate) depot: Depot,
    pub(crate) records: Records,
    pub(crate) shown: Shown,
}

impl Readers {
    pub(crate) fn answer_on(self, router: Router) -> Router {
        let other = self.clone();
        router
            .on(AGAIN, move |exchange| {
                self.clone().answer(exchange, |own, wanted, reader| {
                    own.pack(wanted, reader).map(|again| again.encode())
                })
            })
            .on(SERVE, move |exchange| {
                other.clone().answer(exchange, |own, wanted, reader| {
                    own.serve(wanted, reader).map(|served| served.encode())
                })
            })
    }

    async fn answer(self, exchange: Exchange, pack: Packing) -> Result<(), SessionError> {
        let Ok(wanted) = Standing::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        let (remote, own) = (exchange.session.remote(), self.clone());
        let Some(account) = self.neighbours.account(remote) else {
            return exchange.refuse(Refusal::Denied).await;
        };
        // Packing takes disk and time.
        let turn = match self.shown.allowance.ask(account).await {
            Ok(turn) => turn,
            Err(refusal) => return exchange.refuse(refusal).await,
        };
        let packed = spawn_blocking(move || {
            // Until it is packed, also when the reader has gone.
            let _turn = turn;
            pack(&own, &wanted, (remote, account))
        });
        match packed.await.unwrap_or(Err(Refusal::Failed)) {
            Ok(packed) => {
                info!(lease = %wanted.lease, segment = %wanted.segment, "given to be run again");
                exchange.answer(&packed).await
            }
            Err(refusal) => exchange.refuse(refusal).await,
        }
    }

    /// Everything for one reader, if it may have it.
    fn pack(
        &self,
        wanted: &Standing,
        (remote, account): (EndpointId, Address),
    ) -> Result<Again, Refusal> {
        let Standing { lease: id, segment } = *wanted;
        let (posted, sealing) = self.check(wanted, (remote, account), Share::All)?;
        let lease = posted.task.leases.get(usize::from(id.number)).ok_or(Refusal::Denied)?;
        let commitment = lease.commitment.ok_or(Refusal::Missing)?;
        // What the lease was given is nothing that it did.
        let first = lease.from.map_or(0, |from| from.index.0.saturating_add(1));
        if !(first..=commitment.reached.index.0).contains(&segment.0) {
            return Err(Refusal::Missing);
        }
        let record = self.records.lease(id);
        let failed = |error| refusal(id, &error);
        let parcels = &self.depot.parcels;
        let part = record.part(None, commitment.reached.index).map_err(failed)?;
        let head = Piece::head(&part.ok_or(Refusal::Missing)?.cuts);
        let state = record.state_before(lease.from.as_ref(), segment).map_err(failed)?;
        let pack = |path: PathBuf| parcels.pack(&path, sealing).map_err(failed);
        let (program, files) = self.program(posted.task.spec.program, sealing).map_err(failed)?;
        let again = Again {
            program,
            input: pack(record.input())?,
            state: state.map(pack).transpose()?,
            segments: parcels.pack_from(&mut Cursor::new(head), sealing).map_err(failed)?,
        };
        let own = [&again.program, &again.input, &again.segments].into_iter().chain(&again.state);
        self.shown.show((remote, account), own.map(|parcel| parcel.grant.artifact).chain(files));
        Ok(again)
    }

    /// Everything for one verifier, if it was drawn for that segment.
    fn serve(&self, wanted: &Standing, reader: (EndpointId, Address)) -> Result<Served, Refusal> {
        let Standing { lease: id, segment } = *wanted;
        let (posted, sealing) = self.check(wanted, reader, Share::Segment)?;
        let matter = Matter::of(id, &posted.task).ok_or(Refusal::Missing)?;
        let (record, failed) = (self.records.lease(id), |error| refusal(id, &error));
        let parcels = &self.depot.parcels;
        let pack = |path: PathBuf| parcels.pack(&path, sealing).map_err(failed);
        let state = record.state_before(matter.lease.from.as_ref(), segment).map_err(failed)?;
        let state = state.map(pack).transpose()?;
        let trace = matter.trace(&record).map_err(failed)?.ok_or(Refusal::Missing)?;
        let leaf = segment.0.checked_sub(1).and_then(|before| leaf(&trace, SegmentIndex(before)));
        let before = state.zip(leaf).map(|(state, (tree, leaf))| Before { state, tree, leaf });
        if before.is_none() && segment.0 > 0 {
            return Err(Refusal::Missing);
        }
        let (program, files) = self.program(posted.task.spec.program, sealing).map_err(failed)?;
        let served = Served { program, input: pack(record.input())?, before };
        let state = served.before.iter().map(|before| &before.state);
        let own = [&served.program, &served.input].into_iter().chain(state);
        self.shown.show(reader, own.map(|parcel| parcel.grant.artifact).chain(files));
        Ok(served)
    }

    /// Whether a reader may have so much of a lease, and to which key it is sealed.
    fn check(
        &self,
        wanted: &Standing,
        (remote, account): (EndpointId, Address),
        least: Share,
    ) -> Result<(Posted, SealPublicKey), Refusal> {
        let Standing { lease: id, segment } = *wanted;
        let entry = |key| self.chain.entry(&key).map_err(|_| Refusal::Failed);
        // Another key may stand there by now.
        let Some(Entry::Provider(reader)) = entry(Key::Provider(account))? else {
            return Err(Refusal::Denied);
        };
        let posted = self.board.find(id).ok_or(Refusal::Denied)?;
        if EndpointId(reader.contact.session.0) != remote || !may_see(&posted.task, &account) {
            return Err(Refusal::Denied);
        }
        let market = self.chain.parameters().map_err(|_| Refusal::Failed)?;
        let audit = match entry(Key::Audit(id))? {
            Some(Entry::Audit(audit)) => Some(audit.into_inner()),
            _ => None,
        };
        // A task that is gone has closed all its leases.
        let phase = match entry(Key::Task(id.task))? {
            Some(Entry::Task(task)) => {
                let lease = task.leases.get(usize::from(id.number)).map(|lease| lease.phase);
                lease.ok_or(Refusal::Denied)?
            }
            _ => LeasePhase::Closed { reason: CloseReason::Completed },
        };
        let (audits, spec) = (market.audits.are_on(), &posted.task.spec);
        let share = Asked { audits, spec, phase, audit: audit.as_ref() }.share(account, segment);
        if share == Some(Share::All) || share == Some(least) {
            return Ok((posted, reader.contact.sealing));
        }
        Err(Refusal::Denied)
    }

    /// A program as it is unpacked here, and the artifacts of its files.
    fn program(
        &self,
        id: ProgramId,
        reader: SealPublicKey,
    ) -> io::Result<(Parcel, Vec<ArtifactId>)> {
        let Depot { store, parcels, limits, chain, .. } = &self.depot;
        if self.depot.unpacked(id).is_none() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let packed = folder::pack(store, &self.depot.place(id), &parcels.owner, limits);
        let packed = packed.map_err(io::Error::other)?;
        let whole = store.whole(&packed.manifest).map_err(io::Error::other)?;
        let size = whole.outline().size();
        let grant = Grant::issue(&mut rand::rng(), *chain, packed.manifest, &packed.key, reader);
        let grant = grant.map_err(io::Error::other)?;
        Ok((Parcel { size, grant }, packed.files))
    }
}

/// What a reader is told of an error of the disk.
fn refusal(lease: LeaseId, error: &io::Error) -> Refusal {
    debug!(%lease, %error, "not given to be run again");
    match error.kind() {
        io::ErrorKind::NotFound => Refusal::Missing,
        _ => Refusal::Failed,
    }
}
