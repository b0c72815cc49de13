//! What a verifier needs to repeat a segment: asked of the provider whose lease it is, or read from the
//! chain where that provider has posted it.
//!
//! Several cases may ask at once, each with a limit of its own: a provider that drips keeps nobody from
//! the segments of others.

use super::cases::Cases;
use super::matter::Matter;
use super::{Letter, Tray};
use crate::audit::Input;
use crate::chain::{Chain, ChainError};
use crate::delivery::{Depot, Undelivered};
use crate::reach::{self, Unreached};
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_link::lease::{SERVE, Served, Standing};
use opengpu_link::session::SessionError;
use opengpu_link::transfer::{self, GetError};
use opengpu_link::{Endpoint, Session};
use opengpu_types::{
    ArtifactId, AuditLeaf, Digest, Height, MarketOperation, Operation, Segment, SegmentIndex,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{debug, info};

/// Something is not served within this time, whatever the audit still has.
const LONGEST: Duration = Duration::from_secs(60);

/// Why something could not be had.
#[derive(Debug, thiserror::Error)]
enum Unserved {
    #[error("its provider is not reached: {0}")]
    Unreached(#[from] Unreached),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error("it is not fetched: {0}")]
    Fetch(#[from] GetError),
    #[error(transparent)]
    Undelivered(#[from] Undelivered),
    #[error(transparent)]
    Chain(#[from] ChainError),
    #[error("the block does not have what was posted")]
    Unposted,
    #[error("it was interrupted")]
    Interrupted,
}

/// Whoever fetches.
#[derive(Clone)]
pub(crate) struct Fetcher {
    pub(crate) chain: Arc<dyn Chain>,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) depot: Depot,
    pub(crate) cases: Cases,
    pub(crate) runtime: Handle,
    pub(crate) tray: Tray,
}

impl Fetcher {
    /// Begins to fetch what a segment needs; the clerk is told how that ended.
    pub(crate) fn begin(
        &self,
        matter: Matter,
        index: SegmentIndex,
        posted: Option<Height>,
        patience: Duration,
    ) {
        let own = self.clone();
        self.runtime.spawn(async move {
            let (lease, tray) = (matter.id, own.tray.clone());
            let fetching = own.fetch(Arc::new(matter), index, posted);
            let found = timeout(patience.min(LONGEST), fetching).await;
            let input = match found.unwrap_or(Err(Unserved::Interrupted)) {
                Ok(before) => Input::Served { lease, index, before },
                Err(error) => {
                    info!(%lease, segment = %index, %error, "not served");
                    Input::Unserved { lease, index }
                }
            };
            tray.tell(Letter::Core(input));
        });
    }

    async fn fetch(
        self,
        matter: Arc<Matter>,
        index: SegmentIndex,
        posted: Option<Height>,
    ) -> Result<Option<Segment>, Unserved> {
        let Some(height) = posted else {
            let served = self.ask(&matter, index).await?;
            let taken = blocking(move || {
                self.cases.take_basics(&self.depot, &matter, &served)?;
                self.cases.take_before(&self.depot, &matter, index, &served)
            });
            return Ok(taken.await??);
        };
        let posted = self.posted(&matter, index, height).await?;
        let (cases, known) = (self.cases.clone(), Arc::clone(&matter));
        if !blocking(move || cases.has_basics(&known)).await? {
            let served = self.ask(&matter, index).await?;
            let (own, known) = (self.clone(), Arc::clone(&matter));
            blocking(move || own.cases.take_basics(&own.depot, &known, &served)).await??;
        }
        let taken = blocking(move || {
            // Anybody may have said such a thing in that block, and been refused.
            let mut taken = posted.into_iter().map(|(tree, leaf, state)| {
                self.cases.take_posted(&matter, index, (tree, leaf), &state)
            });
            taken.find_map(Result::ok).ok_or(Unserved::Unposted)
        });
        Ok(Some(taken.await??))
    }

    /// Asks the provider, and fetches what it names.
    async fn ask(&self, matter: &Matter, index: SegmentIndex) -> Result<Served, Unserved> {
        let session = reach::dial(&self.endpoint, &self.chain, matter.lease.provider).await?;
        let wanted = Standing { lease: matter.id, segment: index };
        let answer = session.call(SERVE, &wanted.encode()).await?;
        let invalid = |_| SessionError::Broken("what it served is no answer");
        let served = Served::decode(answer).map_err(invalid)?;
        let state = served.before.iter().map(|before| &before.state);
        for parcel in [&served.program, &served.input].into_iter().chain(state) {
            self.get(&session, [parcel.grant.artifact], parcel.size).await?;
        }
        let (depot, grant) = (self.depot.clone(), served.program.grant.clone());
        let files = blocking(move || depot.files_of(&grant)).await??;
        self.get(&session, files, u64::MAX).await?;
        session.close();
        debug!(lease = %matter.id, segment = %index, "served");
        Ok(served)
    }

    async fn get(
        &self,
        session: &Session,
        artifacts: impl IntoIterator<Item = ArtifactId>,
        largest: u64,
    ) -> Result<(), Unserved> {
        let store = self.depot.store.clone().up_to(largest);
        transfer::get_all(&store, artifacts, std::slice::from_ref(session), |_| {}).await?;
        Ok(())
    }

    /// What was posted in the block of a height.
    async fn posted(
        &self,
        matter: &Matter,
        index: SegmentIndex,
        height: Height,
    ) -> Result<Vec<(Digest, AuditLeaf, Vec<u8>)>, Unserved> {
        let chain = Arc::clone(&self.chain);
        let transactions = blocking(move || chain.transactions(height)).await??;
        let operations = transactions.into_iter().flat_map(|it| it.operations.into_vec());
        let found = operations.filter_map(|operation| match operation {
            Operation::Market(MarketOperation::PostState { lease, tree, before, state })
                if lease == matter.id && before.segment.index.0.checked_add(1) == Some(index.0) =>
            {
                Some((tree, before, state.to_vec()))
            }
            _ => None,
        });
        Ok(found.collect())
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unserved> {
    spawn_blocking(work).await.map_err(|_| Unserved::Interrupted)
}
