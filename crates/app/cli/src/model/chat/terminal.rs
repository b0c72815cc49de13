//! The terminal of a conversation: the lines that are typed, and ctrl-C.
//!
//! Ctrl-C stops an answer that is on its way. At the prompt it leaves, as ctrl-D does.

use signal_hook::{consts::SIGINT, iterator::Signals};
use std::{
    io::{self, BufRead as _, Read as _, Write as _},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread,
};

/// What is typed, or the end of it.
type Typed = io::Result<Option<String>>;
/// Stops an answer.
pub(super) type Canceller = Box<dyn Fn() + Send>;
/// What ctrl-C does now.
type Stop = Arc<Mutex<Interrupt>>;

/// What ctrl-C does.
#[derive(Default)]
enum Interrupt {
    /// Nobody answers: it leaves.
    #[default]
    Leave,
    /// An answer is about to begin: it will be stopped at once if this is set.
    Soon(bool),
    /// Stops the answer that is on its way.
    Stop(Canceller),
}

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

    /// Does something that ctrl-C stops: by what the work gives as soon as it can be stopped.
    pub(super) fn interruptible<T>(&self, work: impl FnOnce(&dyn Fn(Canceller)) -> T) -> T {
        *self.lock() = Interrupt::Soon(false);
        let done = work(&|stop| {
            let mut now = self.lock();
            if matches!(*now, Interrupt::Soon(true)) {
                stop();
            }
            *now = Interrupt::Stop(stop);
        });
        *self.lock() = Interrupt::Leave;
        done
    }

    fn lock(&self) -> MutexGuard<'_, Interrupt> {
        self.stop.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn interrupts(mut signals: Signals, stop: &Stop, leave: &SyncSender<Typed>) {
    for _ in signals.forever() {
        match &mut *stop.lock().unwrap_or_else(PoisonError::into_inner) {
            Interrupt::Stop(stop) => stop(),
            Interrupt::Soon(wished) => *wished = true,
            // A line that waits is read first; the next key leaves.
            Interrupt::Leave => match leave.try_send(Ok(None)) {
                Ok(()) | Err(TrySendError::Full(_)) => {}
                Err(TrySendError::Disconnected(_)) => return,
            },
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
