//! The owner's terminal while it shows a rental: raw, and as it was afterwards on every way out.
//!
//! The end of [`Raw`] restores it, and so does a panic on any thread before it prints. What was
//! typed and not yet read then is thrown away: a guest can make a terminal answer as if somebody had
//! typed, and the owner's own shell must not hear that.

use opengpu_exec::native::Size;
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, Once, PoisonError};

/// The terminal and how it was, while it is raw.
static BEFORE: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);

/// A terminal that hands on every key.
#[derive(Debug)]
pub(super) struct Raw(());

impl Raw {
    /// Makes what is open there raw if it is a terminal.
    pub(super) fn enter(terminal: impl AsFd) -> io::Result<Option<Self>> {
        if !isatty(&terminal) {
            return Ok(None);
        }
        let before = tcgetattr(&terminal)?;
        let mut raw = before.clone();
        raw.make_raw();
        let kept = terminal.as_fd().try_clone_to_owned()?;
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some((kept, before));
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let next = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore();
                next(panic);
            }));
        });
        let entered = Self(());
        tcsetattr(terminal, OptionalActions::Now, &raw)?;
        Ok(Some(entered))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        restore();
    }
}

/// Puts the terminal back, once.
fn restore() {
    if let Some((terminal, before)) = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take() {
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

#[cfg(test)]
mod tests {
    use super::Raw;
    use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
    use rustix::termios::tcgetattr;
    use std::fs::File;

    #[test]
    fn a_terminal_is_restored_at_the_end_and_when_any_thread_panics() {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        unlockpt(&ours).unwrap();
        let terminal = ioctl_tiocgptpeer(&ours, flags).unwrap();
        let modes = || tcgetattr(&terminal).unwrap().local_modes;
        let before = modes();
        let raw = Raw::enter(&terminal).unwrap().unwrap();
        assert_ne!(modes(), before);
        drop(raw);
        assert_eq!(modes(), before);
        let raw = Raw::enter(&terminal).unwrap().unwrap();
        assert_ne!(modes(), before);
        assert!(std::thread::spawn(|| panic!("as wanted")).join().is_err());
        assert_eq!(modes(), before, "restored before the panic was told");
        drop(raw);
        assert!(Raw::enter(File::open("/dev/null").unwrap()).unwrap().is_none());
    }
}
