//! What a lease has made, from those who hold it beside its provider.
//!
//! Holders are asked when the provider is gone. They are believed as little as it is: a state counts if it
//! has the address on chain, and a part of the output as far as the chain commits to it.

use crate::attend::Happening;
use crate::client::{Client, ClientError};
use crate::companion::{Listener, open_parcel};
use crate::output::Sent;
use crate::records::Delivery;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_crypto::SealPublicKey;
use opengpu_link::lease::{HELD, Holding, Parcel, Piece, STATE, Standing, Wanted};
use opengpu_link::session::SessionError;
use opengpu_link::{Address, Endpoint, Session, Store};
use opengpu_types::{ArtifactId, Checkpoint, Lease, LeaseId};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// How long one of them may take to be reached.
const DIAL: Duration = Duration::from_secs(4);

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

impl Rescue {
    /// Keeps all that the lease committed to of the output.
    pub(crate) async fn part(&self) -> Result<(), ClientError> {
        let mut why = None;
        for way in &self.holders {
            match self.part_from(way).await {
                Ok(()) => return Ok(()),
                Err(error) => why = Some(error),
            }
        }
        Err(why.unwrap_or_else(nobody))
    }

    async fn part_from(&self, way: &Way) -> Result<(), ClientError> {
        let session = dial(way).await?;
        let holding = self.holding(&session).await?;
        let mut sent = Sent::default();
        for parcel in &holding.pieces {
            let plain = self.open(&session, parcel.clone()).await?;
            let piece = Piece::read(&plain).ok_or(SessionError::Broken("not a piece"))?;
            sent.cuts.extend(piece.cuts.iter().map(|cut| (cut.segment, cut.end)));
            sent.bytes.extend(piece.bytes);
        }
        session.close();
        if !sent.serves(&self.lease) {
            return Err(ClientError::Transfer("a holder has another part of the output".into()));
        }
        // Told first: whoever sees the part may need nothing more, and leave.
        self.listener.tell(Happening::Rescued { segment: holding.segment }).await;
        Ok(self.client.record(self.id.task).keep_part(self.id.number, &sent)?)
    }

    /// Keeps the state of a checkpoint, from whoever has it.
    pub(crate) async fn state(&self, wanted: &Checkpoint) -> Result<(), ClientError> {
        let (mut why, own) = (None, self.provider.iter());
        for (way, is_own) in
            self.holders.iter().map(|it| (it, false)).chain(own.map(|it| (it, true)))
        {
            match self.state_from(way, is_own, wanted).await {
                Ok(()) => return Ok(()),
                Err(error) => why = Some(error),
            }
        }
        Err(why.unwrap_or_else(nobody))
    }

    async fn state_from(
        &self,
        way: &Way,
        is_own: bool,
        wanted: &Checkpoint,
    ) -> Result<(), ClientError> {
        let session = dial(way).await?;
        let parcel = if is_own {
            let standing = Standing { lease: self.id, segment: wanted.index };
            let answer = session.call(STATE, &standing.encode()).await?;
            Parcel::decode(answer).map_err(|_| SessionError::Broken("no parcel"))?
        } else {
            let mut states = self.holding(&session).await?.states.into_vec().into_iter();
            let found = states.find(|held| held.segment == wanted.index);
            let missing = || ClientError::Transfer("a holder has another state".to_owned());
            found.ok_or_else(missing)?.parcel
        };
        let state = self.open(&session, parcel).await?;
        session.close();
        if ArtifactId::of(&state) != wanted.state {
            return Err(ClientError::Transfer("a holder has another state".to_owned()));
        }
        self.client.record(self.id.task).keep_state(&state)?;
        self.listener.tell(Happening::Kept { segment: wanted.index }).await;
        Ok(())
    }

    async fn holding(&self, session: &Session) -> Result<Holding, ClientError> {
        let answer = session.call(HELD, &Wanted { lease: self.id }.encode()).await?;
        Ok(Holding::decode(answer).map_err(|_| SessionError::Broken("not what is held"))?)
    }

    async fn open(&self, session: &Session, parcel: Parcel) -> Result<Vec<u8>, ClientError> {
        let Self { client, delivery, store, listener, .. } = self;
        open_parcel(client, (delivery, store), session, parcel, listener).await
    }
}

async fn dial(way: &Way) -> Result<Session, ClientError> {
    let silent = || opengpu_link::DialError::Silent(way.address.id);
    timeout(DIAL, way.dial()).await.unwrap_or_else(|_| Err(silent().into()))
}

fn nobody() -> ClientError {
    ClientError::Transfer("its provider is gone, and nobody holds what it made".to_owned())
}
