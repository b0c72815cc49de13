//! The owner's terminal while it shows a rental: raw, and as it was afterwards on every way out.
//!
//! The end of [`Raw`] restores it, and so does a panic on any thread before it prints. What was
//! typed and not yet read then is thrown away: a guest can make a terminal answer as if somebody had
//! typed, and the owner's own shell must not hear that.

use opengpu_exec::native::Size;
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::os::fd::AsFd;
use std::sync::{Mutex, Once, PoisonError};

/// How the terminal was, while it is raw.
static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

/// A terminal that hands on every key.
#[derive(Debug)]
pub(super) struct Raw(());

impl Raw {
    /// Makes standard input raw if it is a terminal.
    pub(super) fn enter() -> rustix::io::Result<Option<Self>> {
        if !isatty(stdin()) {
            return Ok(None);
        }
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore(stdin());
                next(panic);
            }));
        });
        let entered = Self(());
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        Ok(Some(entered))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore(stdin());
    }
}

/// Puts the terminal back, once.
fn restore(terminal: impl AsFd) {
    if let Some(before) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
        // It may be gone, and then there is nothing to restore.
        let _ = tcsetattr(terminal, OptionalActions::Flush, &before);
    }
}

/// The size of the terminal, as far as it is known.
pub(super) fn size() -> Size {
    match tcgetwinsize(stdin()) {
        Ok(found) if found.ws_row > 0 && found.ws_col > 0 => {
            Size { rows: found.ws_row, columns: found.ws_col }
        }
        _ => Size::default(),
    }
}
