//! What a reader may ask and fetch, so that leases and their clients do not wait for it.
//!
//! ```text
//!   request ──► one at a time for each account ──► so many in a time ──► packed
//!   run of groups ──► some at once for each account ──► so many bytes in a time ──┬─► the only one of its account
//!                                                                                └─► one of several
//! ```
//!
//! Who asks too often is refused; who fetches too fast waits, and is refused if that takes too long. A reader
//! is an account: another key of its session changes nothing.

use opengpu_link::session::Refusal;
use opengpu_link::transfer::Turn;
use opengpu_types::Address;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};

/// Requests of one account: so many at first, and so many more in a second.
const REQUESTS: Rate = Rate { most: 32, second: 1 };
/// Bytes of one account.
const BYTES: Rate = Rate { most: 512 << 20, second: 16 << 20 };
/// Runs of groups that are sent at once to one account.
const RUNS: usize = 4;
/// Runs that are sent at once to all: of accounts that have no other, and beside those. So a few that
/// take long leave room for everybody else.
const ONLY_RUNS: usize = 8;
const MORE_RUNS: usize = 4;
/// How long somebody waits at most; whoever fetches gives up after 20 seconds.
const PATIENCE: Duration = Duration::from_secs(15);
/// Accounts that are remembered; those who asked long ago are forgotten first.
const MOST_ACCOUNTS: usize = 1_024;

/// How much there is at first, and how much more comes in a second.
#[derive(Clone, Copy, Debug)]
struct Rate {
    most: u64,
    second: u64,
}

/// What is left to somebody. Pure: time comes in.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: Rate,
    left: u64,
    at: Instant,
}

impl Bucket {
    const fn full(rate: Rate, now: Instant) -> Self {
        Self { rate, left: rate.most, at: now }
    }

    /// Takes so much, or says how long that takes yet.
    fn take(&mut self, wanted: u64, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.at).as_millis();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX);
        let new = self.rate.second.saturating_mul(passed) / 1_000;
        if new > 0 {
            self.left = self.left.saturating_add(new).min(self.rate.most);
            self.at = now;
        }
        // More than there ever is can be had when there is all.
        let wanted = wanted.min(self.rate.most);
        match self.left.checked_sub(wanted) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let missing = wanted.saturating_sub(self.left).saturating_mul(1_000);
                let wait = missing.checked_div(self.rate.second).unwrap_or(u64::MAX);
                Err(Duration::from_millis(wait.saturating_add(1)))
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Account {
    requests: Bucket,
    bytes: Bucket,
    asking: Arc<Semaphore>,
    runs: Arc<Semaphore>,
    /// Its only run, or the first of several.
    first: Arc<Semaphore>,
    last: Instant,
}

impl Account {
    fn new(now: Instant) -> Self {
        Self {
            requests: Bucket::full(REQUESTS, now),
            bytes: Bucket::full(BYTES, now),
            asking: Arc::new(Semaphore::new(1)),
            runs: Arc::new(Semaphore::new(RUNS)),
            first: Arc::new(Semaphore::new(1)),
            last: now,
        }
    }
}

/// What is left to each reader.
#[derive(Clone, Debug)]
pub(crate) struct Allowance {
    accounts: Arc<Mutex<BTreeMap<Address, Account>>>,
    only_runs: Arc<Semaphore>,
    more_runs: Arc<Semaphore>,
    packing: Arc<Semaphore>,
}

impl Default for Allowance {
    fn default() -> Self {
        let [only_runs, more_runs, packing] =
            [ONLY_RUNS, MORE_RUNS, 1].map(|places| Arc::new(Semaphore::new(places)));
        Self { accounts: Arc::default(), only_runs, more_runs, packing }
    }
}

/// What is kept while a request is answered, or a run is sent.
type Place = (OwnedSemaphorePermit, OwnedSemaphorePermit);

impl Allowance {
    /// The turn of a reader that wants something to be packed: one of them at a time, and one after the other.
    pub(crate) async fn ask(&self, account: Address) -> Result<Place, Refusal> {
        let asking = self.with(account, |it, now| {
            let asking = Arc::clone(&it.asking).try_acquire_owned().map_err(|_| Refusal::Busy)?;
            it.requests.take(1, now).map_err(|_| Refusal::Busy)?;
            Ok(asking)
        })?;
        Ok((asking, place(&self.packing).await?))
    }

    /// The turn of a reader that fetches so many bytes.
    pub(crate) fn fetch(&self, account: Address, bytes: u64) -> Turn {
        let own = self.clone();
        Box::pin(async move {
            let waiting = async {
                let (runs, first) =
                    own.with(account, |it, _| (Arc::clone(&it.runs), Arc::clone(&it.first)));
                let run = place(&runs).await?;
                while let Err(wait) = own.with(account, |it, now| it.bytes.take(bytes, now)) {
                    if wait > PATIENCE {
                        return Err(Refusal::Busy);
                    }
                    sleep(wait).await;
                }
                Ok(Box::new((run, own.among_all(&first).await?)) as Box<dyn Send>)
            };
            timeout(PATIENCE, waiting).await.unwrap_or(Err(Refusal::Busy))
        })
    }

    /// A place among the runs of all: as the only one of its account, or beside it.
    async fn among_all(&self, first: &Arc<Semaphore>) -> Result<Box<dyn Send>, Refusal> {
        let only =
            async { Ok::<Place, Refusal>((place(first).await?, place(&self.only_runs).await?)) };
        tokio::select! {
            biased;
            only = only => Ok(Box::new(only?)),
            more = place(&self.more_runs) => Ok(Box::new(more?)),
        }
    }

    fn with<T>(&self, account: Address, change: impl FnOnce(&mut Account, Instant) -> T) -> T {
        let now = Instant::now();
        let mut accounts = self.lock();
        if accounts.len() >= MOST_ACCOUNTS && !accounts.contains_key(&account) {
            let oldest = accounts.iter().min_by_key(|(_, it)| it.last).map(|(account, _)| *account);
            oldest.map(|oldest| accounts.remove(&oldest));
        }
        let own = accounts.entry(account).or_insert_with(|| Account::new(now));
        own.last = now;
        change(own, now)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Address, Account>> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a place, but not for ever.
async fn place(places: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Refusal> {
    match timeout(PATIENCE, Arc::clone(places).acquire_owned()).await {
        Ok(Ok(place)) => Ok(place),
        _ => Err(Refusal::Busy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Address = Address::new([1; 20]);
    const OTHER: Address = Address::new([2; 20]);

    #[test]
    fn what_is_used_up_comes_back_with_time_and_never_grows_over_the_most() {
        let now = Instant::now();
        let later = |millis| now.checked_add(Duration::from_millis(millis)).unwrap();
        let mut bucket = Bucket::full(Rate { most: 10, second: 4 }, now);
        assert_eq!(bucket.take(8, now), Ok(()));
        assert_eq!(bucket.take(4, now), Err(Duration::from_millis(501)));
        assert_eq!(bucket.take(4, later(500)), Ok(()));
        assert!(bucket.take(10, later(60_000)).is_ok());
        assert!(bucket.take(1, later(60_000)).is_err(), "an hour of rest is not an hour of work");
        assert!(bucket.take(1_000, later(120_000)).is_ok(), "what is too large is had alone");
    }

    #[tokio::test]
    async fn a_reader_that_asks_again_and_again_is_refused_and_others_are_not() {
        let allowance = Allowance::default();
        let first = allowance.ask(ONE).await.unwrap();
        assert_eq!(allowance.ask(ONE).await.err(), Some(Refusal::Busy), "one at a time");
        // Another one waits for its turn instead.
        let waiting = tokio::spawn({
            let allowance = allowance.clone();
            async move { allowance.ask(OTHER).await.is_ok() }
        });
        sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        drop(first);
        assert!(waiting.await.unwrap());
        let mut asked = 1;
        while allowance.ask(ONE).await.is_ok() {
            asked = u64::saturating_add(asked, 1);
        }
        assert!((REQUESTS.most..REQUESTS.most.saturating_add(3)).contains(&asked), "{asked}");
        assert!(allowance.ask(OTHER).await.is_ok(), "each has its own");
    }

    #[tokio::test]
    async fn a_reader_fetches_some_runs_at_once_and_leaves_room_for_others() {
        let allowance = Allowance::default();
        let mut places = Vec::new();
        for _ in 0..RUNS {
            places.push(allowance.fetch(ONE, 1).await.unwrap());
        }
        let waiting = tokio::spawn(allowance.fetch(ONE, 1));
        sleep(Duration::from_millis(50)).await;
        assert!(!waiting.is_finished());
        places.push(allowance.fetch(OTHER, 1).await.unwrap());
        drop(places);
        assert!(waiting.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn readers_that_take_long_leave_room_for_one_run_of_each_other() {
        let allowance = Allowance::default();
        let fetch = |account| tokio::spawn(allowance.fetch(account, 1));
        let greedy: Vec<_> =
            [ONE, OTHER].into_iter().flat_map(|it| [it; RUNS]).map(fetch).collect();
        sleep(Duration::from_millis(50)).await;
        let mut places = Vec::new();
        for third in 3..=9 {
            let fetched = allowance.fetch(Address::new([third; 20]), 1);
            let fetched = timeout(Duration::from_millis(200), fetched).await;
            assert_eq!(fetched.is_ok(), third < 9, "there are {ONLY_RUNS}: {third}");
            places.extend(fetched);
        }
        greedy.into_iter().for_each(|it| it.abort());
    }

    #[tokio::test]
    async fn a_reader_that_has_had_its_bytes_waits_or_is_refused() {
        let allowance = Allowance::default();
        assert!(allowance.fetch(ONE, BYTES.most).await.is_ok());
        let long = BYTES.second.saturating_mul(PATIENCE.as_secs().saturating_add(2));
        assert_eq!(allowance.fetch(ONE, long).await.err(), Some(Refusal::Busy));
        let (began, short) = (Instant::now(), BYTES.second / 4);
        assert!(allowance.fetch(ONE, short).await.is_ok());
        assert!(began.elapsed() >= Duration::from_millis(150), "{:?}", began.elapsed());
        assert!(allowance.fetch(OTHER, BYTES.most).await.is_ok());
    }
}
