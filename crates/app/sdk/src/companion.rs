//! One lease, from its award to its output: its provider is reached, briefed, followed and asked.

use crate::attend::Happening;
use crate::client::{Client, ClientError};
use crate::records::{Delivery, Hearing, Record};
use crate::rescue::{Rescue, Way};
use crate::said::Said;
use bytes::Bytes;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_link::artifact::{ArtifactKey, Grant};
use opengpu_link::lease::{
    BRIEF, Brief, Burst, FOLLOW, Follow, News, OUTPUT, Parcel, STATE, Standing, Telling, Wanted,
};
use opengpu_link::session::{Kind, Refusal, SessionError, Stream};
use opengpu_link::transfer::{self, Keep, Progress};
use opengpu_link::{Session, Store};
use opengpu_types::{ArtifactId, Checkpoint, LeaseId, Millis, SegmentIndex};
use std::io::{Cursor, Read as _};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

/// Between two words of a provider more may lie than between two words of a person.
const SILENCE: Duration = Duration::from_secs(24 * 3_600);
/// Bytes of the largest output or state that is taken.
pub(crate) const LARGEST_OUTPUT: u64 = 4 << 30;
/// Bytes of an output for which it is worth to look for others who have it.
const SHARED: u64 = 4 << 20;
/// How long that may take: whoever holds it may be slow on purpose, and its provider has it.
const SHARING: Duration = Duration::from_secs(20);
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
    fn hear(&mut self, burst: &[News], now: Instant) {
        self.heard = self.heard.max(last_segment(burst));
        self.since = self.is_behind().then_some(now);
    }

    /// A new session begins.
    fn go_on(&mut self, now: Instant) {
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

/// What was heard of a lease, for whoever follows it again after its session was cut.
pub(crate) struct Heard {
    /// Who told it.
    teller: Option<u64>,
    /// So many news.
    count: u64,
    hearing: Hearing,
    said: Said,
    patience: Patience,
    pace: Pace,
    /// Whether all news that count are kept.
    whole: bool,
}

impl Heard {
    fn nothing(record: &Record, lease: u8, teller: Option<u64>) -> Result<Self, ClientError> {
        Ok(Self {
            teller,
            count: 0,
            hearing: record.hear(lease)?,
            said: record.listen(lease, teller)?,
            patience: Patience::default(),
            pace: Pace::default(),
            whole: true,
        })
    }
}

/// The place where it is kept between two sessions.
pub(crate) type Memory = Arc<Mutex<Option<Heard>>>;

/// Whoever attends one lease.
pub(crate) struct Companion {
    pub(crate) client: Client,
    pub(crate) lease: LeaseId,
    pub(crate) delivery: Delivery,
    pub(crate) store: Store,
    /// Its provider, if it is there.
    pub(crate) way: Option<Way>,
    /// From where the lease goes on.
    pub(crate) from: Option<Checkpoint>,
    /// What judges the output, if anything does.
    pub(crate) check: Option<ArtifactId>,
    /// Whether it still works; otherwise only its output is wanted.
    pub(crate) working: bool,
    /// The newest checkpoint on chain.
    pub(crate) reached: watch::Receiver<Option<Checkpoint>>,
    /// This lease, from those who hold it; none as long as it works.
    pub(crate) rescue: Option<Rescue>,
    /// The lease before, if its state is not here.
    pub(crate) before: Option<Rescue>,
    /// What was heard in earlier sessions.
    pub(crate) memory: Memory,
    pub(crate) listener: Listener,
}

/// Whoever hears of one lease. What is not heard yet keeps those who speak waiting.
#[derive(Clone)]
pub(crate) struct Listener {
    pub(crate) lease: u8,
    pub(crate) happened: mpsc::Sender<(u8, Happening)>,
}

impl Listener {
    pub(crate) async fn tell(&self, happening: Happening) {
        // Whoever listened may have left.
        let _ = self.happened.send((self.lease, happening)).await;
    }

    /// Tells what is soon told again: nobody waits for it.
    pub(crate) fn mention(&self, happening: Happening) {
        let _ = self.happened.try_send((self.lease, happening));
    }
}

impl Companion {
    /// Attends the lease until its output is here. When its provider does not give it, others may.
    pub(crate) async fn accompany(self) -> Result<(), ClientError> {
        let error = match &self.way {
            Some(way) => match self.attend(way).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            },
            None => ClientError::Gone,
        };
        match &self.rescue {
            // Why the provider does not give it says more than why others do not.
            Some(rescue) => rescue.part(None).await.map_err(|_| error),
            None => Err(error),
        }
    }

    async fn attend(&self, way: &Way) -> Result<(), ClientError> {
        let session = way.dial().await?;
        let record = self.client.record(self.lease.task);
        if self.working {
            self.brief(&session, &record, way).await?;
            self.listener.tell(Happening::Briefed).await;
            self.follow(&session, &record).await?;
        }
        let wanted = Wanted { lease: self.lease }.encode();
        let parcel = self.parcel(&session, OUTPUT, &wanted).await?;
        // A long one comes from its holders as well, if it is over and they have it.
        if parcel.size >= SHARED
            && let Some(rescue) = &self.rescue
            && matches!(timeout(SHARING, rescue.part(Some(&session))).await, Ok(Ok(())))
        {
            session.close();
            return Ok(());
        }
        let output = self.open(&session, parcel).await?;
        record.keep_sent(self.lease.number, &output)?;
        self.listener.tell(Happening::Fetched).await;
        session.close();
        Ok(())
    }

    /// Sends input and state, and says with which keys they are opened. A provider that has run the
    /// program before needs nothing more; to others the program is sent as well.
    async fn brief(
        &self,
        session: &Session,
        record: &Record,
        way: &Way,
    ) -> Result<(), ClientError> {
        let Delivery { program, program_key, files, input, input_key, .. } = &self.delivery;
        let state = match self.from {
            None => None,
            Some(from) => {
                let bytes = self.state(record, &from).await?;
                // The same state is the same artifact: what was cut goes on where it was.
                let owner = self.client.identity.artifacts();
                let (id, key, _) = self.store.import_owned(&owner, &mut Cursor::new(bytes))?;
                Some((id, key))
            }
        };
        let state_id = state.as_ref().map(|(id, _)| id);
        self.put(session, [input].into_iter().chain(state_id).chain(&self.check)).await?;
        let grant = |artifact: ArtifactId, key: &ArtifactKey| {
            Grant::issue(&mut rand::rng(), self.client.chain, artifact, key, way.reader)
                .map_err(|error| ClientError::Transfer(error.to_string()))
        };
        let brief = Brief {
            lease: self.lease,
            program: grant(*program, &ArtifactKey::from_bytes(*program_key))?,
            input: grant(*input, &ArtifactKey::from_bytes(*input_key))?,
            state: state.as_ref().map(|(id, key)| grant(*id, key)).transpose()?,
        };
        let brief = brief.encode();
        match session.call(BRIEF, &brief).await {
            Err(SessionError::Refused(Refusal::Missing)) => {
                self.put(session, files.iter().chain([program])).await?;
                session.call(BRIEF, &brief).await?;
            }
            answer => drop(answer?),
        }
        Ok(())
    }

    /// Sends artifacts, one after the other.
    async fn put(
        &self,
        session: &Session,
        artifacts: impl Iterator<Item = &ArtifactId>,
    ) -> Result<(), ClientError> {
        let mut wishes = Vec::new();
        for artifact in artifacts {
            let size = self.store.whole(artifact)?.outline().size();
            wishes.push(Keep { artifact: *artifact, size, until: Millis(0) });
        }
        let size = wishes.iter().fold(0u64, |sum, wish| sum.saturating_add(wish.size));
        let mut before = 0u64;
        for wish in wishes {
            let own = wish.size;
            let progress = |progress: Progress| {
                let done = before.saturating_add(progress.done);
                self.listener.mention(Happening::Sending { done, size });
            };
            let put = transfer::put(session, wish, progress).await;
            put.map_err(|error| ClientError::Transfer(error.to_string()))?;
            before = before.saturating_add(own);
        }
        Ok(())
    }

    /// The state from which the lease goes on; if it was not fetched in time, from those who hold it.
    async fn state(&self, record: &Record, from: &Checkpoint) -> Result<Vec<u8>, ClientError> {
        if let (None, Some(before)) = (record.state(from.state)?, &self.before) {
            before.state(from).await?;
        }
        let missing = || ClientError::Transfer("the state is not here".to_owned());
        record.state(from.state)?.ok_or_else(missing)
    }

    /// Hears everything until the end, and keeps the state of each checkpoint on chain. A provider that
    /// was killed and is back says nothing in the old session; the chain tells first that it goes on.
    async fn follow(&self, session: &Session, record: &Record) -> Result<(), ClientError> {
        let mut memory = self.memory.lock().await;
        let from = memory.as_ref().map_or(0, |known| known.count);
        let (mut teller, mut stream) = self.ask_for_news(session, from).await?;
        // What was heard is known until somebody answers.
        let known = memory.take().filter(|known| teller.is_some() && known.teller == teller);
        let mut heard = match known {
            Some(known) => known,
            None => {
                if from > 0 {
                    (teller, stream) = self.ask_for_news(session, 0).await?;
                }
                Heard::nothing(record, self.lease.number, teller)?
            }
        };
        let ended = self.listen(session, record, stream, &mut heard).await;
        *memory = Some(heard).filter(|heard| heard.whole);
        ended
    }

    /// Who tells, and what it tells from a number on.
    async fn ask_for_news(
        &self,
        session: &Session,
        from: u64,
    ) -> Result<(Option<u64>, Stream), ClientError> {
        let wish = Follow { lease: self.lease, from };
        let (answer, stream) = session.ask(FOLLOW, &wish.encode()).await?;
        // One that does not say who it is tells everything anew each time.
        Ok((Telling::decode(answer).ok().map(|telling| telling.teller), stream))
    }

    async fn listen(
        &self,
        session: &Session,
        record: &Record,
        stream: Stream,
        heard: &mut Heard,
    ) -> Result<(), ClientError> {
        let (mut reading, mut news) = read(stream.patient(SILENCE));
        let mut reached = self.reached.clone();
        heard.pace.go_on(Instant::now());
        // Beside everything else: in a dead session it takes long to fail.
        let mut keeping = None;
        loop {
            let overdue = heard.pace.overdue().unwrap_or_else(Instant::now);
            tokio::select! {
                frame = news.recv() => {
                    let Some(frame) = frame else { break };
                    let burst = Burst::decode(frame?);
                    let burst = burst.map_err(|_| SessionError::Broken("not news"))?.into_vec();
                    heard.pace.hear(&burst, Instant::now());
                    heard.patience.bear(&burst)?;
                    self.hear(record, heard, burst).await?;
                }
                changed = reached.changed() => {
                    let Ok(()) = changed else { break };
                    if let Some(checkpoint) = *reached.borrow_and_update() {
                        heard.pace.see(checkpoint, Instant::now());
                    }
                }
                () = sleep_until(overdue.into()), if heard.pace.overdue().is_some() => {
                    return Err(ClientError::Behind);
                }
                kept = once(&mut keeping), if keeping.is_some() => {
                    keeping = None;
                    kept?;
                }
            }
            if keeping.is_none() {
                let agreed = heard.pace.agreed();
                keeping = agreed.map(|it| Box::pin(self.keep_state(session, record, it)));
            }
        }
        reading.abort_all();
        match keeping {
            Some(keeping) => keeping.await,
            None => Ok(()),
        }
    }

    /// Keeps what came together, and tells how far it came. What it tells is kept for people, so news of
    /// which a run has few are counted ([`Patience`]).
    async fn hear(
        &self,
        record: &Record,
        heard: &mut Heard,
        burst: Vec<News>,
    ) -> Result<(), ClientError> {
        let (reached, count) = (last_segment(&burst), burst.len());
        heard.whole = false;
        let Heard { hearing, said, .. } = heard;
        for news in burst {
            match news {
                News::Begun { segments } => {
                    self.listener.tell(Happening::Begun { segments }).await;
                }
                News::Reached { segment } => hearing.cut(segment)?,
                News::Emitted { bytes } => {
                    if hearing.length() > LARGEST_OUTPUT {
                        return Err(SessionError::Broken("an output without an end").into());
                    }
                    hearing.push(&bytes)?;
                }
                News::Logged { bytes } => {
                    if said.hear(&bytes)? {
                        self.listener.tell(Happening::Logged { bytes: bytes.into_vec() }).await;
                    }
                }
                News::Failed { why } => self.fail(record, why.as_str()).await?,
                News::Ended { .. } => {}
            }
        }
        hearing.keep()?;
        heard.count = heard.count.saturating_add(u64::try_from(count).unwrap_or(u64::MAX));
        heard.whole = true;
        if let Some(segment) = reached {
            self.listener.tell(Happening::Reached { segment }).await;
        }
        Ok(())
    }

    /// Keeps why there will be no output, and tells it once.
    async fn fail(&self, record: &Record, why: &str) -> Result<(), ClientError> {
        if record.why(self.lease.number)?.as_deref() != Some(why) {
            record.keep_why(self.lease.number, why)?;
            self.listener.tell(Happening::Failed { why: why.to_owned() }).await;
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
        let parcel = self.parcel(session, STATE, &wanted.encode()).await;
        let fetched = match parcel {
            Ok(parcel) => self.open(session, parcel).await,
            Err(error) => Err(error),
        };
        // What was cut goes on from a holder if this provider is lost: there it has the same address.
        if let Ok(state) = fetched
            && ArtifactId::of(&state) == checkpoint.state
        {
            record.keep_state(&state)?;
            self.listener.tell(Happening::Kept { segment: checkpoint.index }).await;
        }
        Ok(())
    }

    /// Asks where something is.
    async fn parcel(
        &self,
        session: &Session,
        kind: Kind,
        request: &[u8],
    ) -> Result<Parcel, ClientError> {
        let answer = session.call(kind, request).await?;
        Ok(Parcel::decode(answer).map_err(|_| SessionError::Broken("no parcel"))?)
    }

    /// Fetches what a parcel names from whoever gave it, and opens it.
    async fn open(&self, session: &Session, parcel: Parcel) -> Result<Vec<u8>, ClientError> {
        let Self { client, delivery, store, listener, .. } = self;
        let sessions = std::slice::from_ref(session);
        open_parcel(client, (delivery, store), sessions, parcel, listener).await
    }
}

/// Fetches what a parcel names from all of these at once, and opens it. Whoever stalls, dies or lies is
/// dropped; what came stays, and the others give the rest.
pub(crate) async fn open_parcel(
    client: &Client,
    (delivery, store): (&Delivery, &Store),
    sessions: &[Session],
    Parcel { grant, size }: Parcel,
    listener: &Listener,
) -> Result<Vec<u8>, ClientError> {
    let Delivery { program, files, input, .. } = delivery;
    // What we sent is not what we want, and must not go with it.
    let own = files.iter().chain([program, input]).any(|own| *own == grant.artifact);
    if own || size > LARGEST_OUTPUT {
        return Err(SessionError::Broken("a parcel that cannot be meant").into());
    }
    let listener = listener.clone();
    let progress = move |Progress { done, size, .. }: Progress| {
        listener.mention(Happening::Receiving { done, size });
    };
    let got = transfer::get(store, grant.artifact, sessions, progress).await;
    got.map_err(|error| ClientError::Transfer(error.to_string()))?;
    let key = grant.open(client.chain, &client.identity.sealing());
    let key = key.map_err(|error| ClientError::Transfer(error.to_string()))?;
    let mut bytes = Vec::new();
    let plain = store.decrypt(&grant.artifact, &key)?;
    plain.take(LARGEST_OUTPUT).read_to_end(&mut bytes)?;
    store.remove(&grant.artifact)?;
    Ok(bytes)
}

/// The last segment that news tell of.
fn last_segment(burst: &[News]) -> Option<SegmentIndex> {
    burst.iter().rev().find_map(|news| match news {
        News::Reached { segment } => Some(segment.index),
        _ => None,
    })
}

/// What is under way, if anything is.
async fn once<F: Future + Unpin>(work: &mut Option<F>) -> F::Output {
    match work {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
}

/// News that a run has a few of: a provider that repeats them for ever would fill its client's disk.
#[derive(Debug, Default)]
struct Patience(u8);

impl Patience {
    /// Most beginnings and failures of one run.
    const MOST: u8 = 8;

    fn bear(&mut self, burst: &[News]) -> Result<(), SessionError> {
        let rare = |news: &&News| matches!(news, News::Begun { .. } | News::Failed { .. });
        let count = u8::try_from(burst.iter().filter(rare).count()).unwrap_or(u8::MAX);
        self.0 = self.0.saturating_add(count);
        match self.0 {
            ..=Self::MOST => Ok(()),
            _ => Err(SessionError::Broken("a run that begins and fails without an end")),
        }
    }
}

#[cfg(test)]
mod cut;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_that_begins_for_ever_is_left() {
        let (mut patience, begun) = (Patience::default(), || News::Begun { segments: 1 });
        assert!((0..8).all(|_| patience.bear(&[begun()]).is_ok()));
        assert!(patience.bear(&[begun()]).is_err());
        assert!(Patience::default().bear(&vec![begun(); 300]).is_err());
    }
    use opengpu_crypto::Digest;

    const MOMENT: Duration = Duration::from_secs(1);

    fn checkpoint(index: u32) -> Checkpoint {
        let (state, emitted) = (ArtifactId(Digest([0; 32])), Digest([0; 32]));
        Checkpoint { index: SegmentIndex(index), state, emitted, bytes_out: 0 }
    }

    fn reached(index: u32) -> [News; 1] {
        [News::Reached { segment: checkpoint(index).segment() }]
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
