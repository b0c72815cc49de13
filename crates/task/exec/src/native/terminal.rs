//! The pseudo-terminal of a guest, made inside the walls.
//!
//! ```text
//!   supervisor ◄── our end, over the control socket ── first program inside ──► the guest's end:
//!                                                                         input, output, errors
//! ```
//!
//! It belongs to the guest's own file system of terminals, which no other guest and nobody outside
//! sees. So the guest never holds a terminal of this machine's owner, whatever it does with its own.

use rustix::io;
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use rustix::termios::{Winsize, tcsetwinsize};
use serde::{Deserialize, Serialize};
use std::os::fd::{AsFd, OwnedFd};

/// How many characters a terminal shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Size {
    /// From the top to the bottom.
    pub rows: u16,
    /// From the left to the right.
    pub columns: u16,
}

/// What programs take for granted.
impl Default for Size {
    fn default() -> Self {
        Self { rows: 24, columns: 80 }
    }
}

/// Tells a terminal its size; programs on it are told by a signal.
pub(super) fn resize(terminal: impl AsFd, size: Size) -> io::Result<()> {
    let Size { rows, columns } = size;
    tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
}

/// Both ends of a terminal.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) ours: OwnedFd,
    theirs: OwnedFd,
}

impl Pair {
    pub(super) fn open(size: Size) -> io::Result<Self> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        // Not by its name, which something else could have.
        let theirs = ioctl_tiocgptpeer(&ours, flags)?;
        resize(&theirs, size)?;
        Ok(Self { ours, theirs })
    }

    /// Makes the guest's end the terminal of this process, for everything that it reads and writes.
    pub(super) fn become_ours(&self) -> io::Result<()> {
        setsid()?;
        ioctl_tiocsctty(&self.theirs)?;
        dup2_stdin(&self.theirs)?;
        dup2_stdout(&self.theirs)?;
        dup2_stderr(&self.theirs)
    }
}
