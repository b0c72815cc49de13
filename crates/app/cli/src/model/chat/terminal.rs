//! The terminal of a conversation: the lines that are typed, and ctrl-C.
//!
//! Ctrl-C stops an answer that is on its way. At the prompt it leaves, as ctrl-D does.

use signal_hook::{consts::SIGINT, iterator::Signals};
use std::{
    io::{self, BufRead as _, Read as _, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};

/// What is typed, or the end of it.
type Typed = io::Result<Option<String>>;
/// Stops the answer that is on its way, if there is one.
type Stop = Arc<Mutex<Option<Box<dyn Fn() + Send>>>>;

/// Where a user types.
pub(super) struct Terminal {
    typed: Receiver<Typed>,
    stop: Stop,
}

impl Terminal {
    /// Listens to the keyboard from now on. Two threads do, because one waits for lines.
    pub(super) fn open() -> io::Result<Self> {
        let (sender, typed) = sync_channel(1);
        let stop = Stop::default();
        let signals = Signals::new([SIGINT])?;
        let (stopped, leave) = (Arc::clone(&stop), sender.clone());
        thread::Builder::new()
            .name("ctrl-C".to_owned())
            .spawn(move || interrupts(signals, &stopped, &leave))?;
        thread::Builder::new().name("keyboard".to_owned()).spawn(move || lines(&sender))?;
        Ok(Self { typed, stop })
    }

    /// Asks for a line; there is none when the user leaves.
    pub(super) fn ask(&self) -> Typed {
        write!(io::stderr().lock(), "> ")?;
        let typed = self.typed.recv().unwrap_or(Ok(None))?;
        if typed.is_none() {
            // Whatever comes next begins on a line of its own.
            writeln!(io::stderr().lock())?;
        }
        Ok(typed)
    }

    /// Does something that ctrl-C stops.
    pub(super) fn interruptible<T>(
        &self,
        stop: impl Fn() + Send + 'static,
        work: impl FnOnce() -> T,
    ) -> T {
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(stop));
        let done = work();
        *self.stop.lock().unwrap_or_else(PoisonError::into_inner) = None;
        done
    }
}

fn interrupts(mut signals: Signals, stop: &Stop, leave: &SyncSender<Typed>) {
    for _ in signals.forever() {
        if let Some(stop) = stop.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            stop();
            continue;
        }
        if leave.send(Ok(None)).is_err() {
            return;
        }
    }
}

fn lines(typed: &SyncSender<Typed>) {
    loop {
        let mut line = String::new();
        let read = io::stdin().lock().take(super::SAID).read_line(&mut line);
        let over = !matches!(read, Ok(1..));
        if typed.send(read.map(|count| (count > 0).then_some(line))).is_err() || over {
            return;
        }
    }
}
