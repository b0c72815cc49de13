//! One run as its owner sees it: news until the last one.

use super::mailbox::Receiver;
use super::process::Shared;
use crate::backend::Weighed;
use crate::fault::Fault;
use crate::protocol::News;
use crate::run::Repeated;
use crate::usage::Usage;
use opengpu_types::Segment;
use opengpu_verify::trace::{self, Extent};
use std::sync::Arc;

/// A run that was begun. Dropping it cancels the run.
#[derive(Debug)]
pub struct Ticket {
    number: u64,
    news: Receiver,
    shared: Arc<Shared>,
    over: bool,
}

/// What a finished run left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The output.
    pub output: Vec<u8>,
    /// The segments, the beginning first.
    pub segments: Vec<Segment>,
    /// Steps that the run took.
    pub steps: u64,
    /// What it used.
    pub usage: Usage,
}

impl Ticket {
    pub(super) const fn new(number: u64, news: Receiver, shared: Arc<Shared>) -> Self {
        Self { number, news, shared, over: false }
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
    /// it says must be what a run looks like, and fit together.
    pub fn wait(self, mut see: impl FnMut(&News)) -> Result<Outcome, (Fault, Usage)> {
        let mut extent = Extent { steps: 0, segments: 0 };
        let (mut segments, mut output) = (Vec::new(), Vec::new());
        for news in self {
            see(&news);
            match news {
                News::Begun { steps, segments } => extent = Extent { steps, segments },
                News::Emitted(bytes) => output.extend_from_slice(&bytes),
                News::Segment(segment) => segments.push(segment),
                News::Finished { usage } => {
                    let count = u32::try_from(segments.len()).ok();
                    if !extent.is_possible() || count != extent.segments.checked_add(1) {
                        return Err((broken("it told of other segments than it has"), usage));
                    }
                    if !usage.fits(&segments) {
                        return Err((broken("its usage is not that of its segments"), usage));
                    }
                    if trace::parts(&segments, &output).is_none() {
                        return Err((broken("the output does not match its segments"), usage));
                    }
                    return Ok(Outcome { output, segments, steps: extent.steps, usage });
                }
                News::Failed { fault, usage } => return Err((fault, usage)),
                News::Repeated { usage, .. } | News::Weighed { usage, .. } => {
                    return Err((broken("a segment was checked that nobody asked for"), usage));
                }
            }
        }
        Err((broken("it said nothing"), Usage::default()))
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
        let news = self.news.receive().unwrap_or_else(|| News::Failed {
            fault: Fault::Crashed { how: "it is gone".to_owned() },
            usage: Usage::default(),
        });
        self.over = news.is_last();
        Some(news)
    }
}

fn broken(how: &str) -> Fault {
    Fault::Crashed { how: how.to_owned() }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.over {
            self.shared.cancel(self.number);
        }
    }
}
