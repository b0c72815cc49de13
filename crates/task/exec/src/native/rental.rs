//! Rentals: a shell in the sandbox, as bytes in and bytes out.
//!
//! ```text
//!   keys ──► Keys ──► │ pseudo-terminal, made inside │ ──► shell
//!   screen ◄─ Stream ◄─ │                              │ ◄──
//!   size, end ──► Control
//! ```
//!
//! All walls stand as for any guest. Nothing is collected here: whoever does not read makes the
//! guest wait, and a guest that does not read makes whoever types wait, until its time is over.
//! It knows no terminal of this machine; the command line or a session puts one at the other end.

use super::Sandbox;
use super::collect::Outputs;
use super::error::{Refusal, SandboxError};
use super::guest::{Ended, Guest, Stopper, Stream};
use super::spec::{Root, Spec};
use super::terminal::{self, Size};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{
    FileType, Mode, OFlags, ResolveFlags, fcntl_getfl, fcntl_setfl, fstat, open, openat2,
};
use rustix::io::Errno;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// A guest with a terminal of its own. Dropping it ends it.
#[derive(Debug)]
pub struct Rental {
    guest: Guest,
    terminal: Arc<OwnedFd>,
}

impl Rental {
    /// Starts a command on a new terminal; its walls stand when this returns.
    pub fn start(sandbox: &Sandbox, spec: Spec, size: Size) -> Result<Self, SandboxError> {
        let mut guest = sandbox.launch(spec, Some(size))?;
        let terminal = guest.take_terminal().ok_or_else(|| SandboxError::Setup {
            stage: "inside",
            said: "no terminal was made".to_owned(),
        })?;
        // Both directions wait by asking, because nobody wakes a writer whose reader is gone.
        let flags = fcntl_getfl(&terminal).map_err(SandboxError::system("holding a terminal"))?;
        fcntl_setfl(&terminal, flags | OFlags::NONBLOCK)
            .map_err(SandboxError::system("holding a terminal"))?;
        Ok(Self { guest, terminal: Arc::new(terminal) })
    }

    /// Where keys go.
    pub fn input(&self) -> Keys {
        Keys { terminal: Arc::clone(&self.terminal) }
    }

    /// What it shows, once; it ends with the last program on the terminal.
    pub const fn output(&mut self) -> Option<Stream> {
        self.guest.take_stdout()
    }

    /// What changes its size and ends it, from any thread.
    pub fn control(&self) -> Control {
        Control { terminal: Arc::clone(&self.terminal), stopper: self.guest.stopper() }
    }

    /// Waits for its end, and gives what is in its work folder. What was not read is dropped.
    pub fn wait(self) -> Result<(Ended, Outputs), SandboxError> {
        drop(self.terminal);
        self.guest.wait()
    }
}

/// The keyboard of a rental. Writing waits while the guest does not read, and fails when it is gone.
#[derive(Clone, Debug)]
pub struct Keys {
    terminal: Arc<OwnedFd>,
}

impl Write for Keys {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            let mut terminal = [PollFd::new(&*self.terminal, PollFlags::OUT)];
            match poll(&mut terminal, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [terminal] = terminal;
            if terminal.revents().contains(PollFlags::HUP) {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            match rustix::io::write(&*self.terminal, bytes) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Changes the size of a rental's terminal, and ends it.
#[derive(Clone, Debug)]
pub struct Control {
    terminal: Arc<OwnedFd>,
    stopper: Stopper,
}

impl Control {
    /// Tells the size of the screen at the other end.
    pub fn resize(&self, size: Size) -> io::Result<()> {
        Ok(terminal::resize(&*self.terminal, size)?)
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }
}

/// Shells, in the order in which people want them.
const SHELLS: [&str; 4] = ["/bin/bash", "/usr/bin/bash", "/bin/sh", "/usr/bin/sh"];

/// The shell that a root has.
pub fn shell(root: &Root) -> Result<&'static str, SandboxError> {
    let folder = match root {
        Root::System => Path::new("/"),
        Root::Image(folder) => folder,
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty());
    let folder = folder.map_err(SandboxError::system("opening an image"))?;
    let found = SHELLS.into_iter().find(|shell| is_program(&folder, shell));
    found.ok_or(SandboxError::Refused(Refusal::Shell))
}

/// Whether a path leads to a program, with links as they lead inside.
fn is_program(root: &OwnedFd, path: &str) -> bool {
    let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(root, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), inside);
    let stat = opened.and_then(fstat);
    stat.is_ok_and(|stat| {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_mode & 0o001 != 0
    })
}

#[cfg(test)]
mod tests {
    use super::shell;
    use crate::native::{Refusal, Root, SandboxError};
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn a_shell_is_looked_for_inside_of_an_image_alone() {
        let image = tempfile::tempdir().unwrap();
        let root = Root::Image(image.path().to_owned());
        let none = |root: &Root| matches!(shell(root), Err(SandboxError::Refused(Refusal::Shell)));
        assert!(none(&root));
        fs::create_dir_all(image.path().join("usr/bin")).unwrap();
        symlink("/usr/bin", image.path().join("bin")).unwrap();
        // This machine has one there, and it is not meant.
        symlink("/usr/bin/bash", image.path().join("usr/bin/sh")).unwrap();
        assert!(none(&root));
        fs::remove_file(image.path().join("usr/bin/sh")).unwrap();
        let path = image.path().join("usr/bin/sh");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(none(&root));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(shell(&root).unwrap(), "/bin/sh");
        assert!(shell(&Root::System).is_ok());
    }
}
