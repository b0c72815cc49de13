//! News of one ticket on their way to its owner: a queue that takes memory only for what waits.
//!
//! A small request has three pieces of news, a long answer thousands; the channels of the standard
//! library take memory for as many as may ever wait.

use crate::protocol::News;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// News that may wait for their owner; then the executor waits, too.
const NEWS: usize = 1024;

/// The two ends of a new mailbox.
pub(super) fn mailbox() -> (Sender, Receiver) {
    let shared = Arc::new(Shared::default());
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    news: VecDeque<News>,
    /// Whether either end has gone.
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as a condition holds.
    fn wait_while(&self, condition: impl FnMut(&mut Waiting) -> bool) -> MutexGuard<'_, Waiting> {
        self.changed.wait_while(self.lock(), condition).unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }
}

/// Where news come in. The mailbox is closed when it is dropped.
#[derive(Debug)]
pub(super) struct Sender(Arc<Shared>);

impl Sender {
    /// Waits for room if there is none. What nobody will read is dropped.
    pub(super) fn send(&self, news: News) {
        let mut waiting =
            self.0.wait_while(|waiting| waiting.news.len() >= NEWS && !waiting.closed);
        if !waiting.closed {
            waiting.news.push_back(news);
            drop(waiting);
            self.0.changed.notify_one();
        }
    }

    /// The last news, for which there is always room.
    pub(super) fn end(&self, news: News) {
        self.0.lock().news.push_back(news);
        self.0.changed.notify_one();
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Where the owner of a ticket reads.
#[derive(Debug)]
pub(super) struct Receiver(Arc<Shared>);

impl Receiver {
    /// Waits for the next news; none when no more will come.
    pub(super) fn receive(&self) -> Option<News> {
        self.take(VecDeque::pop_front)
    }

    /// Waits for news and takes all that are there; none when no more will come.
    pub(super) fn receive_all(&self) -> VecDeque<News> {
        self.take(std::mem::take)
    }

    fn take<T>(&self, take: impl FnOnce(&mut VecDeque<News>) -> T) -> T {
        let mut waiting = self.0.wait_while(|waiting| waiting.news.is_empty() && !waiting.closed);
        let full = waiting.news.len() >= NEWS;
        let taken = take(&mut waiting.news);
        drop(waiting);
        if full {
            self.0.changed.notify_one();
        }
        taken
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    fn news(segments: usize) -> News {
        News::Begun { steps: 0, segments: u32::try_from(segments).unwrap() }
    }

    #[test]
    fn news_come_in_sequence_and_the_sender_waits_for_room() {
        let (sender, receiver) = mailbox();
        let sending = thread::spawn(move || (0..3 * NEWS).for_each(|it| sender.send(news(it))));
        thread::sleep(Duration::from_millis(20));
        assert!(receiver.0.lock().news.len() <= NEWS);
        for expected in 0..3 * NEWS {
            assert_eq!(receiver.receive(), Some(news(expected)));
        }
        assert_eq!(receiver.receive(), None, "the sender has gone");
        sending.join().unwrap();
    }

    #[test]
    fn a_sender_does_not_wait_for_an_owner_who_has_gone() {
        let (sender, receiver) = mailbox();
        (0..NEWS).for_each(|it| sender.send(news(it)));
        let sending = thread::spawn(move || sender.send(news(0)));
        thread::sleep(Duration::from_millis(20));
        drop(receiver);
        sending.join().unwrap();
    }

    #[test]
    fn what_waits_is_taken_together() {
        let (sender, receiver) = mailbox();
        (0..NEWS).for_each(|it| sender.send(news(it)));
        let sending = thread::spawn(move || sender.send(news(NEWS)));
        let mut taken = receiver.receive_all();
        sending.join().unwrap();
        taken.extend(receiver.receive_all());
        assert!(taken.into_iter().eq((0..=NEWS).map(news)));
        assert!(receiver.receive_all().is_empty(), "the sender has gone");
    }

    #[test]
    fn the_end_finds_room_in_a_full_mailbox() {
        let (sender, receiver) = mailbox();
        (0..NEWS).for_each(|it| sender.send(news(it)));
        sender.end(news(9));
        drop(sender);
        let last = std::iter::from_fn(|| receiver.receive()).last();
        assert_eq!(last, Some(news(9)));
    }
}
