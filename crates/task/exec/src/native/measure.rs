//! How long a guest takes to start, beside bubblewrap alone with the same namespaces.
//!
//! Both say one word; the time runs from the start of the first process to the first byte of the
//! word. They take turns, so that other work on the machine falls on both.

use super::bubblewrap::NOBODY;
use super::error::SandboxError;
use super::{Sandbox, Spec};
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// One turn of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Our sandbox, with all its walls.
    pub ours: Duration,
    /// Bubblewrap alone.
    pub bare: Duration,
}

/// Namespaces as ours has them, and as few mounts as a program needs to start.
const BARE: [&str; 32] = [
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup",
    "--unshare-net",
    "--uid",
    "65534",
    "--gid",
    "65534",
    "--hostname",
    "opengpu",
    "--die-with-parent",
    "--new-session",
    "--ro-bind",
    "/usr",
    "/usr",
    "--symlink",
    "usr/bin",
    "/bin",
    "--symlink",
    "usr/lib",
    "/lib",
    "--symlink",
    "usr/lib64",
    "/lib64",
    "--proc",
    "/proc",
    "--dev",
    "/dev",
    "--tmpfs",
    "/tmp",
];

/// Takes turns; the first of each is not counted.
pub fn starts(sandbox: &Sandbox, rounds: usize) -> Result<Vec<Turn>, SandboxError> {
    let mut turns = Vec::new();
    for _ in 0..=rounds {
        turns.push(Turn { ours: ours(sandbox)?, bare: bare(sandbox)? });
    }
    turns.remove(0);
    Ok(turns)
}

fn ours(sandbox: &Sandbox) -> Result<Duration, SandboxError> {
    let start = Instant::now();
    let mut guest = sandbox.start(Spec::new("/usr/bin/echo", &["word"]))?;
    let mut stdout = guest.take_stdout().expect("nobody took it");
    let read = stdout.read_exact(&mut [0]);
    let took = start.elapsed();
    read.map_err(SandboxError::system("hearing a guest"))?;
    guest.wait()?;
    Ok(took)
}

fn bare(sandbox: &Sandbox) -> Result<Duration, SandboxError> {
    let failed = "running bubblewrap alone";
    let mut command = Command::new(&sandbox.bwrap);
    command.args(BARE).args(["/usr/bin/echo", "word"]).env_clear();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    if rustix::process::getuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let start = Instant::now();
    let mut child = command.spawn().map_err(SandboxError::system(failed))?;
    let mut stdout = child.stdout.take().expect("it was piped");
    let read = stdout.read_exact(&mut [0]);
    let took = start.elapsed();
    child.wait().map_err(SandboxError::system(failed))?;
    read.map_err(SandboxError::system(failed))?;
    Ok(took)
}
