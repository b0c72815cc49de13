//! The first program inside a sandbox: it takes the last things away and becomes the guest.
//!
//! ```text
//!   supervisor ──► bubblewrap: namespaces, mounts, filter ──► this ──► the guest
//!        ▲                                                     │
//!        └──────────── ready, with the open work folder ───────┘
//! ```
//!
//! It is our own binary, started again through an open file, so it need not be visible inside.
//! It has an empty environment: what the task sets reaches the guest and nothing before it.
//! Invariant: no code of the guest has run when it says that it is ready.

use super::control;
use super::spec::WORK;
use super::terminal::{Pair, Size};
use crate::walls::folders::{self, Tcp};
use landlock::{Access, AccessFs};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// The first argument by which a binary knows that it is started inside a sandbox.
pub const INNER: &str = "sandbox-inner";

/// What the supervisor wants of the first program.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Plan {
    /// The number of the open socket to the supervisor.
    pub(super) control: RawFd,
    /// Limits of each process.
    pub(super) limits: Vec<Bound>,
    /// Folders that can be read and executed.
    pub(super) readable: Vec<String>,
    /// Folders and device files that can be changed.
    pub(super) writable: Vec<String>,
    /// Whether connections over TCP are allowed.
    pub(super) network: bool,
    /// Whether it waits for a word before the guest begins.
    pub(super) waits: bool,
    /// Whether the second wall is built.
    pub(super) landlock: bool,
    /// The size of the terminal that the guest gets instead of three pipes, if it gets one.
    pub(super) terminal: Option<Size>,
    /// The guest's environment.
    pub(super) environment: Vec<(String, String)>,
    /// The guest.
    pub(super) command: String,
    /// What follows it.
    pub(super) arguments: Vec<String>,
}

/// One limit of each process.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) enum Bound {
    Cpu(u64),
    File(u64),
    Data(u64),
    OpenFiles(u64),
    Processes(u64),
}

/// Runs inside a sandbox if the arguments (without the program's own name) say so; a binary calls
/// it before it looks at its arguments itself. It returns only when it is not meant, or failed.
pub fn inner_main(mut arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    if arguments.next()? != INNER {
        return None;
    }
    let plan = arguments.next()?.into_string().ok()?;
    let Ok(plan) = serde_json::from_str::<Plan>(&plan) else { return Some(ExitCode::FAILURE) };
    // SAFETY: the supervisor opened this number for us and nothing else in this process knows it.
    #[expect(unsafe_code, reason = "an inherited file has no other form than its number")]
    let socket = unsafe { OwnedFd::from_raw_fd(plan.control) };
    let (stage, reason) = match prepare(&plan, &socket) {
        Ok(mut command) => {
            let error = command.exec();
            (control::COMMAND, error.to_string())
        }
        Err(failed) => failed,
    };
    // The supervisor may be gone; then nobody is left to be told.
    let _ = control::fail(&socket, stage, &reason);
    Some(ExitCode::from(127))
}

type Failed = (&'static str, String);

/// Builds the walls, reports, and gives the command that is left to become.
fn prepare(plan: &Plan, socket: &OwnedFd) -> Result<Command, Failed> {
    close_inherited().map_err(|error| ("files", error.to_string()))?;
    for bound in &plan.limits {
        limit(*bound).map_err(|error| ("limits", error.to_string()))?;
    }
    for resource in [Resource::Core, Resource::Msgqueue, Resource::Rtprio] {
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        setrlimit(resource, none).map_err(|error| ("limits", error.to_string()))?;
    }
    std::env::set_current_dir(WORK).map_err(|error| ("work folder", error.to_string()))?;
    let open = |path| File::open(path).map_err(|error| ("work folder", error.to_string()));
    let folders = [open(WORK)?, open("/tmp")?, open("/dev/shm")?];
    let terminal = plan.terminal.map(Pair::open).transpose();
    let terminal = terminal.map_err(|error| ("terminal", error.to_string()))?;
    let abi = if plan.landlock {
        restrict(plan).map_err(|error| ("landlock", error.to_string()))?
    } else {
        0
    };
    let mut command = Command::new(&plan.command);
    command.args(&plan.arguments).env_clear();
    command.envs(plan.environment.iter().map(|(name, value)| (name, value)));
    if let Some(terminal) = &terminal {
        terminal.become_ours().map_err(|error| ("terminal", error.to_string()))?;
    }
    let ours = terminal.as_ref().map(|terminal| &terminal.ours);
    control::ready(socket, abi, &folders, ours).map_err(|error| ("control", error.to_string()))?;
    if plan.waits {
        control::wait(socket).map_err(|error| ("control", error.to_string()))?;
    }
    Ok(command)
}

/// Everything that was handed to the tools on the way here ends with the next program.
fn close_inherited() -> std::io::Result<()> {
    let flags = libc::CLOSE_RANGE_CLOEXEC.cast_signed();
    // SAFETY: the call takes no pointers, and marking files to be closed later breaks no owner.
    #[expect(unsafe_code, reason = "there is no safe form of this call")]
    let outcome = unsafe { libc::close_range(3, u32::MAX, flags) };
    if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn limit(bound: Bound) -> rustix::io::Result<()> {
    let (resource, most) = match bound {
        Bound::Cpu(seconds) => (Resource::Cpu, seconds),
        Bound::File(bytes) => (Resource::Fsize, bytes),
        Bound::Data(bytes) => (Resource::Data, bytes),
        Bound::OpenFiles(count) => (Resource::Nofile, count),
        Bound::Processes(count) => (Resource::Nproc, count),
    };
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
}

/// The second wall: even if a mount were wrong, only these folders could be touched.
fn restrict(plan: &Plan) -> Result<u8, landlock::RulesetError> {
    // Within itself a guest may still talk over local sockets and over UDP.
    let tcp = if plan.network { Tcp::Open } else { Tcp::Listening };
    let (all, read) = (AccessFs::from_all(folders::TRIED), AccessFs::from_read(folders::TRIED));
    // Names at the top tell nothing, and programs look for them.
    let top = [String::from("/")];
    let rules: [(&[String], _); 3] =
        [(&top, AccessFs::ReadDir.into()), (&plan.readable, read), (&plan.writable, all)];
    folders::restrict(tcp, rules)
}
