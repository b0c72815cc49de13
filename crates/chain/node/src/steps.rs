//! The steps from epoch to epoch: the last header of each epoch, its certificate, and the seats that
//! it hands over to.
//!
//! Whoever trusts the genesis can follow them to the running epoch without a single block between:
//! joining nodes do ([`crate::join`]), and so does everyone who checks a receipt offline. They stay
//! for ever, also where blocks are pruned: a kilobyte for four seats, thirty for 128.
//!
//! The step of epoch e is the item e of a log, so there are no gaps: a node that joined later got
//! the earlier ones from its peers.

use crate::archive::{REPLAY_BUFFER, SECTION, WRITE_BUFFER};
use bytes::BufMut;
use commonware_codec::{Buf, EncodeSize, Error, RangeCfg, Read, ReadExt as _, Write};
use commonware_runtime::{Clock, Metrics, Spawner, Storage, buffer::paged::CacheRef};
use commonware_storage::journal::{
    Error as JournalError,
    contiguous::{
        Contiguous as _,
        variable::{Config, Journal},
    },
};
use commonware_utils::sync::AsyncMutex;
use opengpu_ledger::{epoch_of, is_last_of_epoch};
use opengpu_light::{EpochStep, FinalizedHeader};
use opengpu_types::{Epoch, Header, Parameters, SeatSet};
use std::sync::Arc;

/// Most bytes of a certificate: every seat's signature, and what it signs.
pub const MAX_CERTIFICATE: usize = 80 * SeatSet::MAX;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The last header of the epoch.
    pub header: Header,
    /// The certificate of that very header, encoded.
    pub certificate: Vec<u8>,
    /// The seats of the next epoch.
    pub seats: SeatSet,
}

impl Step {
    /// Whether this is the step of `epoch`: every header of an epoch announces the next seats, but
    /// only the last one is where the next epoch begins.
    pub fn ends(&self, epoch: Epoch, parameters: &Parameters) -> bool {
        self.header.epoch == epoch
            && epoch_of(self.header.height, parameters) == epoch
            && is_last_of_epoch(self.header.height, parameters)
    }
}

impl From<Step> for EpochStep {
    fn from(step: Step) -> Self {
        let Step { header, certificate, seats } = step;
        // The last block of an epoch always has a certificate of its own.
        Self { finalized: FinalizedHeader { header, descendants: Vec::new(), certificate }, seats }
    }
}

impl Write for Step {
    fn write(&self, buffer: &mut impl BufMut) {
        self.header.write(buffer);
        self.certificate.write(buffer);
        self.seats.write(buffer);
    }
}

impl EncodeSize for Step {
    fn encode_size(&self) -> usize {
        self.header
            .encode_size()
            .saturating_add(self.certificate.encode_size())
            .saturating_add(self.seats.encode_size())
    }
}

impl Read for Step {
    type Cfg = ();

    fn read_cfg(buffer: &mut impl Buf, (): &()) -> Result<Self, Error> {
        Ok(Self {
            header: Header::read(buffer)?,
            certificate: read_certificate(buffer)?,
            seats: SeatSet::read(buffer)?,
        })
    }
}

/// Reads the bytes of a certificate, within their limit.
pub(crate) fn read_certificate(buffer: &mut impl Buf) -> Result<Vec<u8>, Error> {
    Vec::<u8>::read_cfg(buffer, &(RangeCfg::from(0..=MAX_CERTIFICATE), ()))
}

/// Why steps cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum StepsError {
    /// The disk failed.
    #[error("the steps of epochs cannot be read or written: {0}")]
    Journal(#[from] JournalError),
    /// A write failed before; only a restart tells what is on disk.
    #[error("the steps of epochs are closed after a failed write")]
    Closed,
}

/// The steps that a node holds; cheap to clone.
pub struct Steps<E: Clock + Metrics + Spawner + Storage>(Arc<AsyncMutex<Option<Journal<E, Step>>>>);

impl<E: Clock + Metrics + Spawner + Storage> Clone for Steps<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Clock + Metrics + Spawner + Storage> Steps<E> {
    /// Opens the log, or begins it.
    pub async fn open(context: E, prefix: &str, page_cache: CacheRef) -> Result<Self, StepsError> {
        let config = Config {
            partition: format!("{prefix}-steps"),
            items_per_section: SECTION,
            compression: None,
            codec_config: (),
            page_cache,
            write_buffer: WRITE_BUFFER,
            replay_buffer: REPLAY_BUFFER,
        };
        let journal = Journal::init(context, config).await?;
        Ok(Self(Arc::new(AsyncMutex::new(Some(journal)))))
    }

    /// The first epoch whose step is not held.
    pub async fn next(&self) -> Result<Epoch, StepsError> {
        let journal = self.0.lock().await;
        Ok(Epoch(journal.as_ref().ok_or(StepsError::Closed)?.size()))
    }

    /// Makes a step durable if it is the next one; says whether it was.
    pub async fn append(&self, step: &Step) -> Result<bool, StepsError> {
        let mut slot = self.0.lock().await;
        let journal = slot.take().ok_or(StepsError::Closed)?;
        if journal.size() != step.header.epoch.0 {
            *slot = Some(journal);
            return Ok(false);
        }
        let (journal, _) = journal.append(step).await?;
        *slot = Some(journal.sync().await?);
        Ok(true)
    }

    /// The step of `epoch`, if it is held.
    pub async fn get(&self, epoch: Epoch) -> Result<Option<Step>, StepsError> {
        Ok(self.range(epoch, epoch.plus(1)).await?.pop())
    }

    /// The steps of the epochs from `first` to before `end`, as far as they are held.
    pub async fn range(&self, first: Epoch, end: Epoch) -> Result<Vec<Step>, StepsError> {
        let slot = self.0.lock().await;
        let journal = slot.as_ref().ok_or(StepsError::Closed)?;
        let positions: Vec<_> = (first.0..end.0.min(journal.size())).collect();
        if positions.is_empty() {
            Ok(Vec::new())
        } else {
            Ok(journal.read_many(&positions).await?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::page_cache;
    use commonware_runtime::{Runner as _, Supervisor as _, deterministic};
    use opengpu_types::{
        BeaconSignature, ChainId, ConsensusKey, Digest, Height, List, Millis, RuleVersion, Seed,
        StateCommitment, View,
    };

    fn step(epoch: u64) -> Step {
        let digest = Digest([1; 32]);
        let header = Header {
            chain: ChainId(1),
            rules: RuleVersion(1),
            upgrade: None,
            height: Height(epoch),
            epoch: Epoch(epoch),
            view: View(4),
            parent_view: View(3),
            leader: ConsensusKey([1; 32]),
            parent: digest,
            time: Millis(1),
            beacon: BeaconSignature([1; 48]),
            state: StateCommitment { root: digest, log_root: digest, log_start: 0, log_end: 1 },
            transactions: digest,
            receipts: digest,
            next_seats: digest,
        };
        let seats =
            SeatSet { epoch: Epoch(epoch).plus(1), seed: Seed([2; 32]), seats: List::empty() };
        Step { header, certificate: vec![7; 9], seats }
    }

    #[test]
    fn steps_are_kept_in_order_without_gaps_and_survive_a_restart() {
        deterministic::Runner::default().start(|context| async move {
            let open =
                |name: &'static str| Steps::open(context.child(name), "test", page_cache(1 << 18));
            let steps = open("first").await.unwrap();
            assert!(!steps.append(&step(1)).await.unwrap(), "the first one is missing");
            for epoch in 0..3 {
                assert!(steps.append(&step(epoch)).await.unwrap());
            }
            assert!(!steps.append(&step(1)).await.unwrap(), "it is there already");
            drop(steps);

            let steps = open("second").await.unwrap();
            assert_eq!(steps.next().await.unwrap(), Epoch(3));
            assert_eq!(steps.range(Epoch(1), Epoch(9)).await.unwrap(), [step(1), step(2)]);
            assert_eq!(steps.range(Epoch(3), Epoch(9)).await.unwrap(), []);
            assert_eq!(steps.get(Epoch(2)).await.unwrap(), Some(step(2)));
            assert_eq!(steps.get(Epoch(3)).await.unwrap(), None);
        });
    }
}
