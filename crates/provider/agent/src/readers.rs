//! Whoever may run a segment of our leases again, and what it gets for that.
//!
//! ```text
//!   reader ──AGAIN lease, segment──► known by its key on chain? ──► may it see the task? ──► packed for it
//! ```
//!
//! Invariants: a reader is a registered provider, known by the session key that the chain has of it; the
//! set of eyes of the task decides ([`may_see`]); everything is sealed to the sealing key that the chain
//! has of it; nothing is given that the lease has not committed to; nobody asks or fetches more than its
//! [`Allowance`].

use crate::allowance::Allowance;
use crate::board::Board;
use crate::chain::Chain;
use crate::delivery::Depot;
use crate::neighbours::Neighbours;
use crate::record::{Record, Records};
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_crypto::SealPublicKey;
use opengpu_link::EndpointId;
use opengpu_link::artifact::Grant;
use opengpu_link::folder;
use opengpu_link::lease::{AGAIN, Again, Parcel, Piece, Standing};
use opengpu_link::session::{Exchange, Refusal, Router, SessionError};
use opengpu_link::transfer::Turn;
use opengpu_market::eyes::may_see;
use opengpu_types::{Address, ArtifactId, Checkpoint, Entry, Key, ProgramId, SegmentIndex};
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
        router.on(AGAIN, move |exchange| self.clone().again(exchange))
    }

    async fn again(self, exchange: Exchange) -> Result<(), SessionError> {
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
            own.pack(&wanted, (remote, account))
        });
        match packed.await.unwrap_or(Err(Refusal::Failed)) {
            Ok(again) => {
                info!(lease = %wanted.lease, segment = %wanted.segment, "given to be run again");
                exchange.answer(&again.encode()).await
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
        // Another key may stand there by now.
        let entry = self.chain.entry(&Key::Provider(account)).map_err(|_| Refusal::Failed)?;
        let Some(Entry::Provider(reader)) = entry else { return Err(Refusal::Denied) };
        let posted = self.board.find(id).ok_or(Refusal::Denied)?;
        if EndpointId(reader.contact.session.0) != remote || !may_see(&posted.task, &account) {
            return Err(Refusal::Denied);
        }
        let lease = posted.task.leases.get(usize::from(id.number)).ok_or(Refusal::Denied)?;
        let commitment = lease.commitment.ok_or(Refusal::Missing)?;
        // What the lease was given is nothing that it did.
        let first = lease.from.map_or(0, |from| from.index.0.saturating_add(1));
        if !(first..=commitment.reached.index.0).contains(&segment.0) {
            return Err(Refusal::Missing);
        }
        let record = self.records.lease(id);
        let sealing = reader.contact.sealing;
        let failed = |error: io::Error| {
            debug!(lease = %id, %error, "not given to be run again");
            match error.kind() {
                io::ErrorKind::NotFound => Refusal::Missing,
                _ => Refusal::Failed,
            }
        };
        let parcels = &self.depot.parcels;
        let part = record.part(None, commitment.reached.index).map_err(failed)?;
        let head = Piece::head(&part.ok_or(Refusal::Missing)?.cuts);
        let state = before(&record, lease.from.as_ref(), segment).map_err(failed)?;
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

/// Where the state before a segment is; none if the run begins with it.
fn before(
    record: &Record,
    from: Option<&Checkpoint>,
    segment: SegmentIndex,
) -> io::Result<Option<PathBuf>> {
    let Some(before) = segment.0.checked_sub(1).map(SegmentIndex) else { return Ok(None) };
    if from.is_some_and(|from| from.index == before) {
        return Ok(Some(record.state()));
    }
    let state = record.state_after(before)?.ok_or(io::ErrorKind::NotFound)?;
    Ok(Some(record.state_file(state)))
}
