//! What a lease has made, from those who hold it beside its provider.
//!
//! ```text
//!   holders, provider ── where is it? ──► parcels ── the same address: from all of them at once ──► checked
//! ```
//!
//! A state has one address at its provider and at its holders, and so has a piece of the output. The output
//! as a whole has another one, which only its provider has. Holders are asked when the provider is gone, and
//! beside it for long outputs of leases that are over. They are believed as little as it is: a state counts if it
//! has the address on chain, and a part of the output as far as the chain commits to it.

use crate::attend::Happening;
use crate::client::{Client, ClientError};
use crate::companion::{LARGEST_OUTPUT, Listener, open_parcel};
use crate::output::Sent;
use crate::records::Delivery;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_crypto::SealPublicKey;
use opengpu_link::lease::{HELD, Holding, Parcel, Piece, STATE, Standing, Wanted};
use opengpu_link::session::SessionError;
use opengpu_link::{Address, Endpoint, Session, Store};
use opengpu_types::{ArtifactId, Checkpoint, Lease, LeaseId, SegmentIndex};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

/// How long one of them may take to be reached.
const DIAL: Duration = Duration::from_secs(4);
/// How long holders are looked for while the provider is there.
const BESIDE: Duration = Duration::from_secs(1);
/// How long others are waited for when one has answered.
const SOON: Duration = Duration::from_millis(300);

/// How a provider is reached.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) address: Address,
    /// To whom it has things sealed.
    pub(crate) reader: SealPublicKey,
    pub(crate) endpoint: Arc<Endpoint>,
}

impl Way {
    pub(crate) async fn dial(&self) -> Result<Session, ClientError> {
        Ok(self.endpoint.dial(&self.address).await?)
    }
}

/// A lease whose provider may be gone, and who else has something of it.
pub(crate) struct Rescue {
    pub(crate) client: Client,
    pub(crate) delivery: Delivery,
    pub(crate) store: Store,
    pub(crate) id: LeaseId,
    /// As it is on chain.
    pub(crate) lease: Lease,
    /// The provider itself, if it may still answer.
    pub(crate) provider: Option<Way>,
    /// Holders, in their rank.
    pub(crate) holders: Vec<Way>,
    pub(crate) listener: Listener,
}

/// Somebody who has something of a lease, and where it says that this is.
struct Party {
    session: Session,
    /// The last segment of it.
    segment: SegmentIndex,
    parcels: Vec<Parcel>,
}

impl Party {
    fn has(&self, parcel: &Parcel) -> bool {
        self.parcels.iter().any(|own| own.grant.artifact == parcel.grant.artifact)
    }
}

/// What is wanted of a lease.
#[derive(Clone, Copy)]
enum What {
    /// All pieces of the output.
    Pieces,
    /// The state after a segment.
    State(SegmentIndex),
}

/// All who are asked at once.
struct Search {
    asked: JoinSet<Result<Party, ClientError>>,
    /// Whoever has not answered by then is not waited for.
    limit: Option<Instant>,
    known: Vec<Arc<Party>>,
    tried: usize,
    why: Option<ClientError>,
}

impl Search {
    /// The next one who answered; those who answer soon after it are known then as well.
    async fn next(&mut self) -> Option<Arc<Party>> {
        if self.tried == self.known.len() {
            self.hear().await;
        }
        let next = Arc::clone(self.known.get(self.tried)?);
        self.tried = self.tried.saturating_add(1);
        Some(next)
    }

    async fn hear(&mut self) {
        let mut limit = self.limit;
        loop {
            let joined = self.asked.join_next();
            let joined = match limit {
                Some(limit) => timeout_at(limit, joined).await.unwrap_or(None),
                None => joined.await,
            };
            match joined {
                Some(Ok(Ok(party))) => {
                    self.known.push(Arc::new(party));
                    let now = Instant::now();
                    let soon = now.checked_add(SOON).unwrap_or(now);
                    limit = Some(limit.map_or(soon, |limit| limit.min(soon)));
                }
                Some(Ok(Err(error))) => self.why = Some(error),
                Some(Err(_)) => {}
                None => return,
            }
        }
    }

    fn failed(self) -> ClientError {
        self.why.unwrap_or_else(nobody)
    }
}

impl Rescue {
    /// Keeps all that the lease committed to of the output, each piece from all who have it. The provider
    /// has them as well, as long as it has room for them; then there is a session with it.
    pub(crate) async fn part(&self, provider: Option<&Session>) -> Result<(), ClientError> {
        let mut search = self.search(What::Pieces, provider.map(|_| BESIDE));
        while let Some(party) = search.next().await {
            match self.part_of(&party, &search, provider).await {
                Ok(()) => return Ok(()),
                Err(error) => search.why = Some(error),
            }
        }
        Err(search.failed())
    }

    async fn part_of(
        &self,
        party: &Party,
        search: &Search,
        provider: Option<&Session>,
    ) -> Result<(), ClientError> {
        let mut sent = Sent::default();
        for parcel in &party.parcels {
            let plain = self.open(parcel, search, provider).await?;
            let piece = Piece::read(&plain).ok_or(SessionError::Broken("not a piece"))?;
            sent.cuts.extend(piece.cuts.iter().map(|cut| (cut.segment, cut.end)));
            sent.bytes.extend(piece.bytes);
            if u64::try_from(sent.bytes.len()).is_ok_and(|length| length > LARGEST_OUTPUT) {
                return Err(other_part());
            }
        }
        if !sent.serves(&self.lease) {
            return Err(other_part());
        }
        // Told first: whoever sees the part may need nothing more, and leave.
        let told = match provider {
            Some(_) => Happening::Fetched,
            None => Happening::Rescued { segment: party.segment },
        };
        self.listener.tell(told).await;
        Ok(self.client.record(self.id.task).keep_part(self.id.number, &sent)?)
    }

    /// Keeps the state of a checkpoint, from all who have it.
    pub(crate) async fn state(&self, wanted: &Checkpoint) -> Result<(), ClientError> {
        let mut search = self.search(What::State(wanted.index), None);
        while let Some(party) = search.next().await {
            match self.state_of(&party, &search, wanted).await {
                Ok(()) => return Ok(()),
                Err(error) => search.why = Some(error),
            }
        }
        Err(search.failed())
    }

    async fn state_of(
        &self,
        party: &Party,
        search: &Search,
        wanted: &Checkpoint,
    ) -> Result<(), ClientError> {
        let parcel = party.parcels.first().ok_or_else(other_state)?;
        let state = self.open(parcel, search, None).await?;
        if ArtifactId::of(&state) != wanted.state {
            return Err(other_state());
        }
        self.client.record(self.id.task).keep_state(&state)?;
        self.listener.tell(Happening::Kept { segment: wanted.index }).await;
        Ok(())
    }

    /// Asks everybody who may have it; with a limit, if it can be had without them.
    fn search(&self, what: What, limit: Option<Duration>) -> Search {
        let mut asked = JoinSet::new();
        for way in &self.holders {
            asked.spawn(find_held(way.clone(), self.id, what));
        }
        if let (Some(way), What::State(segment)) = (&self.provider, what) {
            asked.spawn(find_state(way.clone(), self.id, segment));
        }
        let limit = limit.and_then(|limit| Instant::now().checked_add(limit));
        Search { asked, limit, known: Vec::new(), tried: 0, why: None }
    }

    /// Fetches a parcel from all who have the same one, and opens it.
    async fn open(
        &self,
        parcel: &Parcel,
        search: &Search,
        provider: Option<&Session>,
    ) -> Result<Vec<u8>, ClientError> {
        let known = search.known.iter().filter(|party| party.has(parcel));
        let sessions = known.map(|party| &party.session).chain(provider).cloned();
        let sessions: Vec<_> = sessions.collect();
        let Self { client, delivery, store, listener, .. } = self;
        open_parcel(client, (delivery, store), &sessions, parcel.clone(), listener).await
    }
}

/// What a holder has of it.
async fn find_held(way: Way, lease: LeaseId, what: What) -> Result<Party, ClientError> {
    let session = dial(&way).await?;
    let answer = session.call(HELD, &Wanted { lease }.encode()).await?;
    let held = Holding::decode(answer).map_err(|_| SessionError::Broken("not what is held"))?;
    let Holding { segment, states, pieces } = held;
    let (segment, parcels) = match what {
        What::Pieces => (segment, pieces.into_vec()),
        What::State(wanted) => {
            let found = states.into_vec().into_iter().find(|held| held.segment == wanted);
            (wanted, vec![found.ok_or_else(other_state)?.parcel])
        }
    };
    Ok(Party { session, segment, parcels })
}

/// The state that the provider itself has.
async fn find_state(way: Way, lease: LeaseId, segment: SegmentIndex) -> Result<Party, ClientError> {
    let session = dial(&way).await?;
    let answer = session.call(STATE, &Standing { lease, segment }.encode()).await?;
    let parcel = Parcel::decode(answer).map_err(|_| SessionError::Broken("no parcel"))?;
    Ok(Party { session, segment, parcels: vec![parcel] })
}

async fn dial(way: &Way) -> Result<Session, ClientError> {
    let silent = || opengpu_link::DialError::Silent(way.address.id);
    timeout(DIAL, way.dial()).await.unwrap_or_else(|_| Err(silent().into()))
}

fn other_part() -> ClientError {
    ClientError::Transfer("a holder has another part of the output".to_owned())
}

fn other_state() -> ClientError {
    ClientError::Transfer("a holder has another state".to_owned())
}

fn nobody() -> ClientError {
    ClientError::Transfer("its provider is gone, and nobody holds what it made".to_owned())
}

#[cfg(test)]
pub(crate) mod tests;
