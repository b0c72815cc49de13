//! Room for requests: some run, some wait, and the rest is turned away at once.

use crate::metrics::{Gauge, Metrics, Raised};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

/// Why there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// As many wait as may.
    Queue,
    /// It waited as long as it may.
    Waited,
}

/// The room that there is.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Requests that run or wait.
    places: Arc<Semaphore>,
    /// Requests that run.
    running: Arc<Semaphore>,
    wait: Duration,
    metrics: Arc<Metrics>,
}

/// Room for one request, given back when dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    _place: OwnedSemaphorePermit,
    _running: OwnedSemaphorePermit,
    _raised: Raised,
}

impl Queue {
    pub(crate) fn new(
        running: usize,
        waiting: usize,
        wait: Duration,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            places: Arc::new(Semaphore::new(running.saturating_add(waiting))),
            running: Arc::new(Semaphore::new(running)),
            wait,
            metrics,
        }
    }

    /// Waits for room, in the order of coming.
    pub(crate) async fn enter(&self) -> Result<Ticket, Full> {
        let place = self.places.clone().try_acquire_owned().map_err(|_| Full::Queue)?;
        let running = match self.running.clone().try_acquire_owned() {
            Ok(running) => running,
            Err(_) => {
                let _waiting = self.metrics.raise(Gauge::Waiting);
                let room = self.running.clone().acquire_owned();
                let room = timeout(self.wait, room).await.map_err(|_| Full::Waited)?;
                room.expect("the semaphore is never closed")
            }
        };
        let raised = self.metrics.raise(Gauge::Running);
        Ok(Ticket { _place: place, _running: running, _raised: raised })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(wait: Duration) -> Arc<Queue> {
        Arc::new(Queue::new(1, 1, wait, Arc::new(Metrics::default())))
    }

    #[tokio::test]
    async fn one_runs_one_waits_and_the_third_is_turned_away() {
        let queue = queue(Duration::from_secs(3_600));
        let first = queue.enter().await.unwrap();
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.enter().await.map(drop) }
        });
        while queue.metrics.read(Gauge::Waiting) == 0 {
            tokio::task::yield_now().await;
        }
        let third = timeout(Duration::from_secs(10), queue.enter()).await;
        assert_eq!(third.expect("the third waits too").unwrap_err(), Full::Queue);
        drop(first);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert!(queue.enter().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_has_an_end() {
        let queue = queue(Duration::from_secs(5));
        let _first = queue.enter().await.unwrap();
        assert_eq!(queue.enter().await.unwrap_err(), Full::Waited);
    }
}
