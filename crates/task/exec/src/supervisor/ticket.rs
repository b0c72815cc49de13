//! One run as its owner sees it: news until the last one.

use super::mailbox::Receiver;
use super::process::Shared;
use super::told::{Asked, Told};
use crate::backend::Weighed;
use crate::fault::Fault;
use crate::look::{Heard, Looked};
use crate::protocol::News;
use crate::run::Repeated;
use crate::usage::Usage;
use opengpu_types::{Checkpoint, Segment};
use opengpu_verify::trace::{self, Part};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A run that was begun. Dropping it cancels the run.
#[derive(Debug)]
pub struct Ticket {
    number: u64,
    news: Receiver,
    shared: Arc<Shared>,
    asked: Asked,
    /// Whether it was wished that it ends at the next checkpoint.
    paused: Arc<AtomicBool>,
    over: bool,
}

/// What a finished run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What its segments added to the output.
    pub output: Vec<u8>,
    /// Which part of the whole run it was.
    pub part: Part,
    /// Where it went on; none if it began.
    pub from: Option<Checkpoint>,
    /// The segments; the first one is the beginning, or where it went on.
    pub segments: Vec<Segment>,
    /// What it used.
    pub usage: Usage,
}

impl Outcome {
    /// Where the run stands now; none if its segments are not those of a run.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        trace::checkpoint(self.from.as_ref(), &self.segments)
    }
}

impl Ticket {
    pub(super) fn new(number: u64, news: Receiver, shared: Arc<Shared>, asked: Asked) -> Self {
        Self { number, news, shared, asked, paused: Arc::default(), over: false }
    }

    /// Wishes that the run ends at the next checkpoint, as a part that can go on elsewhere. It takes one
    /// segment at most; who has not so much time cancels.
    pub fn pause(&self) {
        self.pauser()();
    }

    /// Pauses from elsewhere.
    pub fn pauser(&self) -> impl Fn() + Send + Sync + 'static {
        let (shared, number, paused) =
            (Arc::clone(&self.shared), self.number, Arc::clone(&self.paused));
        move || {
            paused.store(true, Ordering::SeqCst);
            shared.pause(number);
        }
    }

    /// Wishes that the run ends. Its last news still comes.
    pub fn cancel(&self) {
        self.shared.cancel(self.number);
    }

    /// Cancels from elsewhere: from a signal handler's thread, say.
    pub fn canceller(&self) -> impl Fn() + Send + Sync + 'static {
        let (shared, number) = (Arc::clone(&self.shared), self.number);
        move || shared.cancel(number)
    }

    /// Waits until the run has ended, and shows the news on the way. An executor is not trusted: what
    /// it says must be what was asked for, and fit together; what is not so is not shown.
    pub fn wait(self, mut see: impl FnMut(&News)) -> Result<Outcome, (Fault, Usage)> {
        self.wait_in_bursts(|burst| burst.iter().for_each(&mut see))
    }

    /// The same, with all news at once that came meanwhile: whoever keeps them on disk does it once.
    pub fn wait_in_bursts(
        mut self,
        mut see: impl FnMut(&[News]),
    ) -> Result<Outcome, (Fault, Usage)> {
        let mut told = Told::new(self.asked);
        loop {
            let mut burst = self.next_burst();
            let heard = burst.iter().try_fold(0usize, |count, news| match told.hear(news) {
                Ok(()) => Ok(count.saturating_add(1)),
                Err(how) => Err((count, how)),
            });
            see(burst.get(..heard.unwrap_or_else(|(count, _)| count)).unwrap_or(&[]));
            heard.map_err(|(_, how)| (broken(how), Usage::default()))?;
            match burst.pop() {
                Some(
                    News::Begun { .. }
                    | News::Emitted(_)
                    | News::Logged(_)
                    | News::Segment(_)
                    | News::Stands { .. },
                ) => {}
                Some(News::Finished { usage }) => {
                    let ended = told.finished(usage, self.paused.load(Ordering::SeqCst));
                    return ended.map_err(|how| (broken(how), usage));
                }
                Some(News::Failed { fault, usage }) => return Err((fault, usage)),
                Some(
                    News::Repeated { usage, .. }
                    | News::Weighed { usage, .. }
                    | News::Looked { usage, .. },
                ) => {
                    return Err((broken("a segment was checked that nobody asked for"), usage));
                }
                None => return Err((broken("it said nothing"), Usage::default())),
            }
        }
    }

    /// Waits for what happens next, and takes all of it up to the last news; none after that.
    fn next_burst(&mut self) -> Vec<News> {
        if self.over {
            return Vec::new();
        }
        let mut burst: Vec<_> = self.news.receive_all().into();
        if let Some(last) = burst.iter().position(News::is_last) {
            burst.truncate(last.saturating_add(1));
            self.over = true;
        }
        if burst.is_empty() {
            self.over = true;
            burst.push(gone());
        }
        burst
    }

    /// Waits for a repeated segment and the state after it.
    pub fn wait_repeated(mut self) -> Result<(Repeated, Usage), (Fault, Usage)> {
        let mut emitted = Vec::new();
        loop {
            match self.next() {
                Some(News::Emitted(bytes)) => emitted.extend_from_slice(&bytes),
                Some(News::Repeated { segment, steps, state, usage }) => {
                    return Ok((Repeated { segment, steps, state, emitted }, usage));
                }
                Some(News::Failed { fault, usage }) => return Err((fault, usage)),
                _ => return Err((broken("it said something else"), Usage::default())),
            }
        }
    }

    /// Waits for the end of a look.
    pub(super) fn wait_looked(
        mut self,
        heard: &mut Heard,
    ) -> Result<(Looked, Usage), (Fault, Usage)> {
        loop {
            let told = match self.next() {
                Some(News::Emitted(bytes)) => heard.emitted(&bytes),
                Some(News::Stands { units, state }) => heard.stands(units, state),
                Some(News::Looked { looked, usage }) => return Ok((looked, usage)),
                Some(News::Failed { fault, usage }) => return Err((fault, usage)),
                _ => Err("it said something else"),
            };
            told.map_err(|how| (broken(how), Usage::default()))?;
        }
    }

    /// Waits for what an output weighs.
    pub(super) fn wait_weighed(mut self) -> Result<(Weighed, Usage), (Fault, Usage)> {
        match self.next() {
            Some(News::Weighed { weighed, usage }) => Ok((weighed, usage)),
            Some(News::Failed { fault, usage }) => Err((fault, usage)),
            _ => Err((broken("it said something else"), Usage::default())),
        }
    }
}

/// Waits for what happens next; none after the last news.
impl Iterator for Ticket {
    type Item = News;

    fn next(&mut self) -> Option<News> {
        if self.over {
            return None;
        }
        let news = self.news.receive().unwrap_or_else(gone);
        self.over = news.is_last();
        Some(news)
    }
}

/// What is heard of an executor that says nothing more.
fn gone() -> News {
    News::Failed { fault: broken("it is gone"), usage: Usage::default() }
}

pub(super) fn broken(how: &str) -> Fault {
    Fault::Crashed { how: how.to_owned() }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.over {
            self.shared.cancel(self.number);
        }
    }
}
