//! One lease, from its award to its output: its provider is reached, briefed, followed and asked.

use crate::attend::Happening;
use crate::client::{Client, ClientError};
use crate::records::{Delivery, Hearing, Record};
use bytes::Bytes;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_crypto::SealPublicKey;
use opengpu_link::artifact::{ArtifactKey, Grant};
use opengpu_link::lease::{
    BRIEF, Brief, FOLLOW, Follow, News, OUTPUT, Parcel, STATE, Standing, Wanted,
};
use opengpu_link::session::{Kind, SessionError, Stream};
use opengpu_link::transfer::{self, Keep};
use opengpu_link::{Address, Endpoint, Session, Store};
use opengpu_types::{ArtifactId, Checkpoint, LeaseId, Millis, SegmentIndex};
use std::io::Read as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

/// Between two words of a provider more may lie than between two words of a person.
const SILENCE: Duration = Duration::from_secs(24 * 3_600);
/// Bytes of the largest output or state that is taken.
const LARGEST_OUTPUT: u64 = 4 << 30;
/// Frames of news between whoever reads them and whoever hears them.
const UNHEARD: usize = 64;

/// How far a session may be behind the chain.
const BEHIND: Duration = Duration::from_secs(3);

/// How far a session is, beside the chain. Pure.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    heard: Option<SegmentIndex>,
    /// The newest checkpoint on chain, until its state was asked for.
    seen: Option<Checkpoint>,
    /// The last word of either, while the chain is ahead.
    since: Option<Instant>,
}

impl Pace {
    /// The provider says something.
    fn hear(&mut self, news: &News, now: Instant) {
        if let News::Reached { segment } = news {
            self.heard = self.heard.max(Some(*segment));
        }
        self.since = self.is_behind().then_some(now);
    }

    /// The chain says that a checkpoint was reached.
    fn see(&mut self, checkpoint: Checkpoint, now: Instant) {
        self.seen = Some(checkpoint);
        self.since = self.is_behind().then(|| self.since.unwrap_or(now));
    }

    fn is_behind(&self) -> bool {
        self.seen.is_some_and(|seen| self.heard < Some(seen.index))
    }

    /// The checkpoint of which both have spoken, once.
    fn agreed(&mut self) -> Option<Checkpoint> {
        if self.is_behind() { None } else { self.seen.take() }
    }

    /// When the session is of no use any more, if it says nothing until then.
    fn overdue(&self) -> Option<Instant> {
        self.since?.checked_add(BEHIND)
    }
}

/// Reads a stream in a task of its own: a frame that has begun is read to its end, whatever else happens
/// meanwhile.
fn read(mut stream: Stream) -> (JoinSet<()>, mpsc::Receiver<Result<Bytes, SessionError>>) {
    let (sender, frames) = mpsc::channel(UNHEARD);
    let mut reading = JoinSet::new();
    reading.spawn(async move {
        while let Some(frame) = stream.next().await.transpose() {
            let broken = frame.is_err();
            if sender.send(frame).await.is_err() || broken {
                return;
            }
        }
    });
    (reading, frames)
}

/// Whoever attends one lease.
pub(crate) struct Companion {
    pub(crate) client: Client,
    pub(crate) lease: LeaseId,
    pub(crate) delivery: Delivery,
    pub(crate) store: Store,
    pub(crate) address: Address,
    pub(crate) reader: SealPublicKey,
    /// From where the lease goes on.
    pub(crate) from: Option<Checkpoint>,
    /// Whether it still works; otherwise only its output is wanted.
    pub(crate) working: bool,
    /// The newest checkpoint on chain.
    pub(crate) reached: watch::Receiver<Option<Checkpoint>>,
    pub(crate) happened: mpsc::UnboundedSender<(u8, Happening)>,
}

impl Companion {
    /// Attends the lease until its output is here.
    pub(crate) async fn accompany(self, endpoint: Arc<Endpoint>) -> Result<(), ClientError> {
        let session = endpoint.dial(&self.address).await?;
        let record = self.client.record(self.lease.task);
        if self.working {
            self.brief(&session, &record).await?;
            self.tell(Happening::Briefed);
            self.follow(&session, &record).await?;
        }
        let output = self.fetch(&session, OUTPUT, &Wanted { lease: self.lease }.encode()).await?;
        record.keep_sent(self.lease.number, &output)?;
        self.tell(Happening::Fetched);
        session.close();
        Ok(())
    }

    fn tell(&self, happening: Happening) {
        // Whoever listened may have left.
        let _ = self.happened.send((self.lease.number, happening));
    }

    /// Sends program, input and state, and says with which keys they are opened.
    async fn brief(&self, session: &Session, record: &Record) -> Result<(), ClientError> {
        let Delivery { program, program_key, files, input, input_key, .. } = &self.delivery;
        let state = match self.from {
            None => None,
            Some(from) => {
                let missing = || ClientError::Transfer("the state is not here".to_owned());
                let bytes = record.state(from.state)?.ok_or_else(missing)?;
                let key = ArtifactKey::generate(&mut rand::rng());
                Some((self.store.import_encrypted(&key, &bytes[..])?, key))
            }
        };
        let sent = files.iter().chain([program, input]).chain(state.as_ref().map(|(id, _)| id));
        for artifact in sent {
            let size = self.store.whole(artifact)?.outline().size();
            let wish = Keep { artifact: *artifact, size, until: Millis(0) };
            let put = transfer::put(session, wish, |_| {}).await;
            put.map_err(|error| ClientError::Transfer(error.to_string()))?;
        }
        let grant = |artifact: ArtifactId, key: &ArtifactKey| {
            Grant::issue(&mut rand::rng(), self.client.chain, artifact, key, self.reader)
                .map_err(|error| ClientError::Transfer(error.to_string()))
        };
        let brief = Brief {
            lease: self.lease,
            program: grant(*program, &ArtifactKey::from_bytes(*program_key))?,
            input: grant(*input, &ArtifactKey::from_bytes(*input_key))?,
            state: state.as_ref().map(|(id, key)| grant(*id, key)).transpose()?,
        };
        session.call(BRIEF, &brief.encode()).await?;
        Ok(())
    }

    /// Hears everything until the end, and keeps the state of each checkpoint on chain. A provider that
    /// was killed and is back says nothing in the old session; the chain tells first that it goes on.
    async fn follow(&self, session: &Session, record: &Record) -> Result<(), ClientError> {
        let wish = Follow { lease: self.lease, from: 0 };
        let (_, stream) = session.ask(FOLLOW, &wish.encode()).await?;
        let (mut reading, mut news) = read(stream.patient(SILENCE));
        let mut hearing = record.hear(self.lease.number)?;
        let (mut reached, mut pace) = (self.reached.clone(), Pace::default());
        // Beside everything else: in a dead session it takes long to fail.
        let mut keeping = None;
        loop {
            let overdue = pace.overdue().unwrap_or_else(Instant::now);
            tokio::select! {
                frame = news.recv() => {
                    let Some(frame) = frame else { break };
                    let news = News::decode(frame?).map_err(|_| SessionError::Broken("not news"))?;
                    pace.hear(&news, Instant::now());
                    self.hear(&mut hearing, news)?;
                }
                changed = reached.changed() => {
                    let Ok(()) = changed else { break };
                    if let Some(checkpoint) = *reached.borrow_and_update() {
                        pace.see(checkpoint, Instant::now());
                    }
                }
                () = sleep_until(overdue.into()), if pace.overdue().is_some() => {
                    return Err(ClientError::Behind);
                }
                kept = once(&mut keeping), if keeping.is_some() => {
                    keeping = None;
                    kept?;
                }
            }
            if keeping.is_none() {
                let agreed = pace.agreed();
                keeping = agreed.map(|it| Box::pin(self.keep_state(session, record, it)));
            }
        }
        reading.abort_all();
        match keeping {
            Some(keeping) => keeping.await,
            None => Ok(()),
        }
    }

    fn hear(&self, hearing: &mut Hearing, news: News) -> Result<(), ClientError> {
        match news {
            News::Begun { segments } => self.tell(Happening::Begun { segments }),
            News::Reached { segment } => {
                hearing.cut(segment)?;
                self.tell(Happening::Reached { segment });
            }
            News::Emitted { bytes } => {
                if hearing.length() > LARGEST_OUTPUT {
                    return Err(SessionError::Broken("an output without an end").into());
                }
                hearing.push(&bytes)?;
            }
            News::Logged { bytes } => self.tell(Happening::Logged { bytes: bytes.into_vec() }),
            News::Ended { .. } => {}
        }
        Ok(())
    }

    /// With the state somebody else can go on if this provider is lost. A provider that cannot give it
    /// now is asked again at the next checkpoint.
    async fn keep_state(
        &self,
        session: &Session,
        record: &Record,
        checkpoint: Checkpoint,
    ) -> Result<(), ClientError> {
        let wanted = Standing { lease: self.lease, segment: checkpoint.index };
        let fetched = self.fetch(session, STATE, &wanted.encode()).await;
        if let Ok(state) = fetched
            && ArtifactId::of(&state) == checkpoint.state
        {
            record.keep_state(&state)?;
            self.tell(Happening::Kept { segment: checkpoint.index });
        }
        Ok(())
    }

    /// Fetches what a parcel names, and opens it.
    async fn fetch(
        &self,
        session: &Session,
        kind: Kind,
        request: &[u8],
    ) -> Result<Vec<u8>, ClientError> {
        let answer = session.call(kind, request).await?;
        let broken = |_| SessionError::Broken("no parcel");
        let Parcel { grant, size } = Parcel::decode(answer).map_err(broken)?;
        let Delivery { program, files, input, .. } = &self.delivery;
        // What we sent is not what we want, and must not go with it.
        let own = files.iter().chain([program, input]).any(|own| *own == grant.artifact);
        if own || size > LARGEST_OUTPUT {
            return Err(SessionError::Broken("a parcel that cannot be meant").into());
        }
        let (store, sessions) = (&self.store, std::slice::from_ref(session));
        let got = transfer::get(store, grant.artifact, sessions, |_| {}).await;
        got.map_err(|error| ClientError::Transfer(error.to_string()))?;
        let key = grant.open(self.client.chain, &self.client.identity.sealing());
        let key = key.map_err(|error| ClientError::Transfer(error.to_string()))?;
        let mut bytes = Vec::new();
        let plain = store.decrypt(&grant.artifact, &key)?;
        plain.take(LARGEST_OUTPUT).read_to_end(&mut bytes)?;
        store.remove(&grant.artifact)?;
        Ok(bytes)
    }
}

/// What is under way, if anything is.
async fn once<F: Future + Unpin>(work: &mut Option<F>) -> F::Output {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::Digest;

    const MOMENT: Duration = Duration::from_secs(1);

    fn checkpoint(index: u32) -> Checkpoint {
        let (state, emitted) = (ArtifactId(Digest([0; 32])), Digest([0; 32]));
        Checkpoint { index: SegmentIndex(index), state, emitted, bytes_out: 0 }
    }

    fn reached(index: u32) -> News {
        News::Reached { segment: SegmentIndex(index) }
    }

    #[test]
    fn a_session_that_keeps_up_with_the_chain_is_never_overdue() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.hear(&reached(4), now);
        pace.see(checkpoint(4), now);
        assert_eq!((pace.overdue(), pace.agreed()), (None, Some(checkpoint(4))));
        assert_eq!(pace.agreed(), None, "its state is asked for once");
        pace.hear(&reached(5), now + MOMENT);
        assert_eq!(pace.overdue(), None);
    }

    #[test]
    fn one_that_is_silent_while_the_chain_goes_on_is_overdue() {
        let (mut pace, now) = (Pace::default(), Instant::now());
        pace.hear(&reached(4), now);
        pace.see(checkpoint(6), now);
        assert_eq!((pace.overdue(), pace.agreed()), (Some(now + BEHIND), None));
        pace.see(checkpoint(7), now + MOMENT);
        assert_eq!(pace.overdue(), Some(now + BEHIND), "the chain's word is not its own");
        // What it says again from the beginning takes as long as it takes.
        pace.hear(&reached(5), now + MOMENT);
        assert_eq!(pace.overdue(), Some(now + MOMENT + BEHIND));
        pace.hear(&reached(7), now + MOMENT);
        assert_eq!((pace.overdue(), pace.agreed()), (None, Some(checkpoint(7))));
    }
}
