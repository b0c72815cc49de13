//! One request that an engine works on.
//!
//! It is driven by whoever reads it. Dropped early, the work is cancelled, its room is free and it
//! is counted as cancelled; nothing else has to be remembered for that.

use super::{Ending, problem::Problem};
use crate::{
    engine::{Failed, Finished, Piece},
    metrics::{Metrics, ModelNumbers},
    queue::Ticket,
};
use futures::future::BoxFuture;
use std::{pin::Pin, sync::Arc};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, Sleep, sleep_until},
};

/// Pieces that are taken at once.
const TOGETHER: usize = 64;

/// What came next.
#[derive(Debug)]
pub(super) enum Step {
    /// More text; the pieces are in the buffer that was given.
    Pieces,
    /// The end.
    Finished(Finished),
    /// The end, and not as it should be.
    Failed(Problem),
}

/// Work in progress.
pub(super) struct Running {
    work: BoxFuture<'static, Result<Finished, Failed>>,
    /// The work ended so; pieces may still be waiting.
    outcome: Option<Result<Finished, Failed>>,
    pieces: mpsc::Receiver<Piece>,
    began: Instant,
    /// One timer for the whole request: a new one for each piece would cost as much as the piece.
    deadline: Pin<Box<Sleep>>,
    ending: watch::Receiver<Ending>,
    numbers: Numbers,
    _ticket: Ticket,
}

impl Running {
    pub(super) fn new(
        work: BoxFuture<'static, Result<Finished, Failed>>,
        pieces: mpsc::Receiver<Piece>,
        (began, deadline): (Instant, Instant),
        ending: watch::Receiver<Ending>,
        numbers: Numbers,
        ticket: Ticket,
    ) -> Self {
        let deadline = Box::pin(sleep_until(deadline));
        Self { work, outcome: None, pieces, began, deadline, ending, numbers, _ticket: ticket }
    }

    /// Waits for what comes next. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self, buffer: &mut Vec<Piece>) -> Step {
        buffer.clear();
        let step = self.advance(buffer).await;
        match &step {
            Step::Pieces => self.numbers.pieces(self.began),
            Step::Finished(finished) => self.numbers.finished(self.began, finished),
            Step::Failed(_) => self.numbers.over = true,
        }
        step
    }

    async fn advance(&mut self, buffer: &mut Vec<Piece>) -> Step {
        let ending = &mut self.ending;
        if self.outcome.is_none() {
            tokio::select! {
                // In this order: neither many pieces nor a busy engine may hide a limit.
                biased;
                () = self.deadline.as_mut() => return Step::Failed(Problem::late()),
                _ = ending.wait_for(|phase| *phase == Ending::Now) => {
                    return Step::Failed(Problem::ending());
                }
                Some(first) = self.pieces.recv() => buffer.push(first),
                outcome = self.work.as_mut() => self.outcome = Some(outcome),
            }
        }
        while buffer.len() < TOGETHER {
            let Ok(piece) = self.pieces.try_recv() else { break };
            buffer.push(piece);
        }
        if !buffer.is_empty() {
            return Step::Pieces;
        }
        match self.outcome.clone() {
            Some(Ok(finished)) => Step::Finished(finished),
            Some(Err(failed)) => Step::Failed(Problem::engine(failed)),
            None => Step::Pieces,
        }
    }
}

/// What is counted for one request.
pub(super) struct Numbers {
    metrics: Arc<Metrics>,
    model: String,
    /// Known as soon as the engine has accepted the model.
    of_model: Option<Arc<ModelNumbers>>,
    last: Option<Instant>,
    over: bool,
}

impl Numbers {
    pub(super) const fn new(metrics: Arc<Metrics>, model: String) -> Self {
        Self { metrics, model, of_model: None, last: None, over: false }
    }

    /// Counts something that is no stream of pieces, as a whole.
    pub(super) fn whole(mut self, began: Instant, prompt_tokens: u64) {
        self.over = true;
        self.of_model().finished("stop", prompt_tokens, 0, began.elapsed());
    }

    /// Ended with a problem, which is counted by its status.
    pub(super) fn failed(mut self) {
        self.over = true;
    }

    fn of_model(&mut self) -> &ModelNumbers {
        self.of_model.get_or_insert_with(|| self.metrics.model(&self.model))
    }

    fn pieces(&mut self, began: Instant) {
        let now = Instant::now();
        match self.last.replace(now) {
            None => self.of_model().first(now.saturating_duration_since(began)),
            Some(last) => self.of_model().next(now.saturating_duration_since(last)),
        }
    }

    fn finished(&mut self, began: Instant, finished: &Finished) {
        self.over = true;
        let usage = finished.usage;
        let reason = finished.reason.word();
        let (prompt, written) = (usage.prompt_tokens, usage.completion_tokens);
        self.of_model().finished(reason, prompt, written, began.elapsed());
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        if !self.over {
            self.metrics.cancelled();
        }
    }
}
