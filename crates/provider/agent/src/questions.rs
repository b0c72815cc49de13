//! What the owner wants to know of the desk, or wants done: each question has one reply.

use crate::core::{Input, Question, Reply};
use crate::desk::Inbox;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// How long a reply is waited for.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    /// The replies that are waited for; nobody else's are kept.
    replies: BTreeMap<u64, Option<Reply>>,
}

/// Questions that wait for their replies.
#[derive(Clone, Debug, Default)]
pub(crate) struct Questions(Arc<(Mutex<Waiting>, Condvar)>);

impl Questions {
    /// Puts a question and waits; nothing if the desk does not reply.
    pub(crate) fn put(&self, inbox: &Inbox, question: Question) -> Option<Reply> {
        let (waiting, changed) = &*self.0;
        let mut guard = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let number = guard.next;
        guard.next = number.wrapping_add(1);
        guard.replies.insert(number, None);
        inbox.tell(Input::Wanted { number, question });
        let pending = |waiting: &mut Waiting| matches!(waiting.replies.get(&number), Some(None));
        let (mut guard, _) = changed
            .wait_timeout_while(guard, PATIENCE, pending)
            .unwrap_or_else(PoisonError::into_inner);
        guard.replies.remove(&number).flatten()
    }

    /// Replies to whoever still waits.
    pub(crate) fn reply(&self, number: u64, reply: Reply) {
        let (waiting, changed) = &*self.0;
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = waiting.replies.get_mut(&number) {
            *place = Some(reply);
            changed.notify_all();
        }
    }
}
