//! Untrusted commands: scripts, binaries and images, each behind walls of its own.
//!
//! | wall | by | what it keeps in |
//! |---|---|---|
//! | namespaces: user, mount, process, network, IPC, name, cgroup | bubblewrap | sight and reach |
//! | list of system calls | seccomp | what the kernel does for it |
//! | list of folders | landlock | files, should a mount be wrong |
//! | user 65534, no capabilities, no new privileges | bubblewrap | power |
//! | control group, limits of each process, watcher | the kernel and us | use |
//!
//! A guest sees read-only programs, its inputs and a work folder, and none of this machine's homes,
//! settings, processes or networks. It ends by itself, by a limit, or by us, and then nothing of it
//! is left: no process, mount, group or file outside of the work folder.
//!
//! Where the walls cannot be built nothing is run: there is no mode without them.
//!
//! Our own binary is started once more inside ([`inner_main`]); a program that uses this module
//! calls it first in its `main`.

mod backend;
mod bubblewrap;
mod cgroup;
mod code;
mod collect;
mod control;
mod device;
mod error;
mod guest;
mod hand;
pub mod image;
mod inner;
pub mod measure;
mod meter;
mod network;
mod own;
mod probe;
pub mod python;
mod rental;
mod spec;
mod terminal;
mod walls;
mod words;

pub use backend::Scripts;
pub use cgroup::Cgroup;
pub use collect::{Output, OutputError, Outputs};
pub use error::{Refusal, SandboxError};
pub use guest::{Ended, Finished, Guest, How, Stopper, Stream, Usage};
pub use inner::{INNER, inner_main};
pub use probe::Probe;
pub use rental::{Control, Keys, Rental, shell};
pub use spec::{
    Device, File, INPUTS, Input, LAYERS, Limits, Network, Root, SECRETS, Secret, Spec, WORK, Work,
    may_be_set,
};
pub use terminal::Size;
#[cfg(feature = "weakened")]
pub use walls::Walls;

use crate::walls::filter::{self, Opening};
use bubblewrap::{Line, NOBODY};
use cgroup::Place;
use guest::{Born, Stream as GuestStream, Switch, Warden};
use inner::{Bound, Plan};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Instant;

/// How this machine isolates guests.
#[derive(Clone, Debug)]
pub struct Sandbox {
    bwrap: PathBuf,
    program: Arc<std::fs::File>,
    place: Option<Place>,
    walls: walls::Walls,
    filters: Arc<Filters>,
}

/// The lists of system calls as the kernel reads them: one where it counts memory, one where not.
#[derive(Debug)]
struct Filters {
    counted: Vec<u8>,
    watched: Vec<u8>,
}

impl Sandbox {
    /// A sandbox for this machine, tried with a first guest that does nothing.
    pub fn new() -> Result<Self, SandboxError> {
        let sandbox = Self::untried()?;
        sandbox.attempt()?;
        Ok(sandbox)
    }

    fn untried() -> Result<Self, SandboxError> {
        let why = "bubblewrap is not installed (Debian and Fedora: the package bubblewrap)";
        let bwrap = probe::tool("bwrap");
        let bwrap = bwrap.ok_or_else(|| SandboxError::Unavailable { why: why.into() })?;
        let version = Command::new(&bwrap).arg("--version").env_clear().output();
        let version = version.map_err(SandboxError::system("starting bubblewrap"))?;
        probe::check_version(&String::from_utf8_lossy(&version.stdout))?;
        let program = std::fs::File::open("/proc/self/exe");
        let program = Arc::new(program.map_err(SandboxError::system("opening our own program"))?);
        let (_, place) = Place::find();
        let compiled = |memory_files| {
            filter::compile(Opening { memory_files })
                .map_err(|error| SandboxError::Setup { stage: "filter", said: error.to_string() })
        };
        let filters = Arc::new(Filters { counted: compiled(true)?, watched: compiled(false)? });
        Ok(Self { bwrap, program, place, walls: walls::Walls::ALL, filters })
    }

    /// Runs a guest that does nothing, and gives the version of its second wall.
    fn attempt(&self) -> Result<u8, SandboxError> {
        let unavailable = |said: &str| SandboxError::Unavailable { why: probe::advice(said) };
        let guest = match self.start(Spec::new("true", &[])) {
            Err(SandboxError::Setup { said, .. }) => return Err(unavailable(&said)),
            other => other?,
        };
        let landlock = guest.landlock();
        match guest.output()?.ended.how {
            How::Exited(0) => Ok(landlock),
            how => Err(unavailable(&format!("a guest that does nothing ended with {how:?}"))),
        }
    }

    /// What this machine has and what is missing; it never fails.
    pub fn probe() -> Probe {
        let (cgroup, _) = Place::find();
        let tried = Self::untried().and_then(|sandbox| sandbox.attempt());
        let mut missing = Vec::new();
        if let Cgroup::None { why } = &cgroup {
            missing.push(format!(
                "memory and processes are watched, not counted by the kernel: {why}"
            ));
        }
        match &tried {
            Ok(0) => missing.push("this kernel has no landlock: one wall less around files".into()),
            Ok(_) => {}
            Err(error) => missing.push(error.to_string()),
        }
        Probe {
            bwrap: probe::tool("bwrap"),
            podman: probe::tool("podman"),
            docker: probe::tool("docker"),
            runc: probe::tool("runc"),
            isolates: tried.is_ok(),
            network: network::Tools::find().err().map(|error| error.to_string()),
            landlock: tried.unwrap_or_default(),
            cgroup,
            missing,
        }
    }

    /// The same with walls left out, for the hostile corpus.
    #[cfg(feature = "weakened")]
    #[must_use]
    pub fn weakened(self, walls: Walls) -> Self {
        Self { walls, ..self }
    }

    /// The same without control groups, as on a machine that does not permit them.
    #[cfg(feature = "weakened")]
    #[must_use]
    pub fn uncounted(self) -> Self {
        Self { place: None, ..self }
    }

    /// Starts a guest; its walls stand when this returns.
    pub fn start(&self, spec: Spec) -> Result<Guest, SandboxError> {
        self.launch(spec, None)
    }

    /// The same, on a terminal of this size where one is wanted.
    fn launch(&self, spec: Spec, terminal: Option<Size>) -> Result<Guest, SandboxError> {
        spec::check(&spec)?;
        let prepared = self.prepare(spec, terminal)?;
        let (sender, receiver) = sync_channel(1);
        let warden = std::thread::Builder::new().name("guest".into());
        let warden = warden.spawn(move || prepared.run(&sender));
        let warden = warden.map_err(SandboxError::system("starting the warden of a guest"))?;
        match receiver.recv() {
            Ok(born) => Ok(Guest::new(born, warden)),
            // It ended before its guest was born; what it returns says why.
            Err(_) => match warden.join() {
                Ok(Err(error)) => Err(error),
                Ok(Ok(_)) | Err(_) => {
                    let said = "the warden of a guest failed".to_owned();
                    Err(SandboxError::Setup { stage: "guest", said })
                }
            },
        }
    }

    fn prepare(&self, spec: Spec, terminal: Option<Size>) -> Result<Prepared, SandboxError> {
        let lent = device::lend(&spec.devices)?;
        let granted = spec.network == Network::Granted && self.walls.network;
        let tools = granted.then(network::Tools::find).transpose()?;
        if let Work::Folder(folder) = &spec.work
            && rustix::process::getuid().is_root()
        {
            // Where we are root the guest is somebody else.
            std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY))
                .map_err(SandboxError::system("giving the work folder to the guest"))?;
        }
        let group = self.place.as_ref().map(|place| place.create(&spec.limits)).transpose();
        let group = group.map_err(SandboxError::system("making a control group"))?;
        let filter = if group.is_some() { &self.filters.counted } else { &self.filters.watched };
        let filter = self.walls.filter.then_some(filter.as_slice());
        let libraries = match spec.root {
            Root::System => own::Libraries::default(),
            Root::Image(_) => own::Libraries::find(),
        };
        let mut line = Line::build(&spec, &lent, &libraries, self.walls, filter)?;

        let (control, theirs) =
            UnixDatagram::pair().map_err(SandboxError::system("making a socket"))?;
        let theirs = OwnedFd::from(theirs);
        let mut plan = self.plan(&spec, &lent, theirs.as_raw_fd(), group.is_some());
        plan.readable.append(&mut line.system);
        plan.waits = tools.is_some();
        if terminal.is_some() {
            // To a process it is the terminal that it has, which is the one made inside.
            plan.writable.push("/dev/tty".to_owned());
            plan.terminal = terminal;
        }
        line.hold(theirs);
        let info = pipe_with(PipeFlags::CLOEXEC);
        let (info, told) = info.map_err(SandboxError::system("making a pipe"))?;
        let told = line.hold(told);
        let program = self.program.try_clone();
        let program = program.map_err(SandboxError::system("opening our own program"))?;
        let program = format!("/proc/self/fd/{}", line.hold(program.into()));
        let plan = serde_json::to_string(&plan).expect("a plan is numbers and text");
        line.arguments.extend(["--info-fd".into(), told.into()]);
        let arguments = line.hand_over()?;
        let mut words = ["--args", &arguments, "--"].map(str::to_owned).to_vec();
        words.extend(libraries.start());
        words.extend([program, INNER.to_owned(), plan]);

        let doors = group.as_ref().map(cgroup::Group::doors).transpose();
        let doors = doors.map_err(SandboxError::system("opening a control group"))?;
        let command = self.command(&words, &line, doors.unwrap_or_default());
        Ok(Prepared { spec, command, line, control: control.into(), info, group, tools })
    }

    /// The tool, as an ordinary user, with its open files, inside the group.
    fn command(&self, arguments: &[String], line: &Line, doors: Vec<OwnedFd>) -> Command {
        let mut command = Command::new(&self.bwrap);
        command.args(arguments).env_clear().current_dir("/");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if rustix::process::getuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let files = line.files.iter().map(|file| file.as_raw_fd()).collect();
        hand::over(&mut command, files, move || {
            for door in &doors {
                rustix::io::write(door, b"0")?;
            }
            Ok(())
        });
        command
    }

    /// What is left to do inside.
    fn plan(&self, spec: &Spec, lent: &device::Lent, control: RawFd, counted: bool) -> Plan {
        let limits = &spec.limits;
        let cpu = limits.cpu.as_secs().saturating_add(1);
        let mut bounds =
            vec![Bound::Cpu(cpu), Bound::File(limits.file), Bound::OpenFiles(limits.open_files)];
        if !counted {
            bounds.push(Bound::Data(limits.memory));
            bounds.push(Bound::Processes(limits.processes));
        }
        let mut environment: Vec<_> =
            ENVIRONMENT.map(|(name, value)| (name.into(), value.into())).into();
        environment.extend(spec.environment.clone());
        let nodes = lent.nodes.iter().map(|node| node.to_string_lossy().into_owned());
        Plan {
            control,
            limits: bounds,
            readable: READABLE.map(String::from).into(),
            writable: WRITABLE.iter().map(|&path| path.into()).chain(nodes).collect(),
            network: spec.network == Network::Granted,
            waits: false,
            landlock: self.walls.landlock,
            terminal: None,
            environment,
            command: spec.command.clone(),
            arguments: spec.arguments.clone(),
        }
    }
}

/// What every guest finds set.
const ENVIRONMENT: [(&str, &str); 5] = [
    ("HOME", WORK),
    ("LANG", "C.UTF-8"),
    ("PATH", "/usr/local/bin:/usr/bin:/bin"),
    ("TMPDIR", "/tmp"),
    ("USER", "nobody"),
];

/// What a guest may read, beside its system.
const READABLE: [&str; 6] = ["/etc", "/proc", "/dev", "/run", INPUTS, LAYERS];

/// What a guest may change.
const WRITABLE: [&str; 10] = [
    WORK,
    "/tmp",
    "/dev/shm",
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/ptmx",
    "/dev/pts",
];

/// Everything that a guest needs, made and not yet started.
#[derive(Debug)]
struct Prepared {
    spec: Spec,
    command: Command,
    line: Line,
    control: OwnedFd,
    info: OwnedFd,
    group: Option<cgroup::Group>,
    tools: Option<network::Tools>,
}

impl Prepared {
    /// Starts the guest, tells that it is born, and watches it; the work of its warden.
    fn run(mut self, born: &SyncSender<Born>) -> Result<Ended, SandboxError> {
        let start = Instant::now();
        let child = self.command.spawn().map_err(SandboxError::system("starting bubblewrap"))?;
        drop(self.line);
        let switch = Switch::new(&self.spec.limits);
        let tool = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let mut warden = Warden {
            tool: tool.map_err(SandboxError::system("watching a guest"))?,
            child,
            control: self.control,
            command: self.spec.command,
            group: self.group,
            limits: self.spec.limits,
            tools: self.tools,
            way: None,
            work: self.spec.work,
            switch: Arc::clone(&switch),
            start,
            folders: Vec::new(),
            peak: meter::Sample::default(),
            walked: meter::Held::default(),
            next_walk: start,
        };
        let guest::Settled { landlock, terminal } = warden.settle(&self.info)?;
        let work = warden.folders.first().map(OwnedFd::try_clone).transpose();
        let work = work.map_err(SandboxError::system("holding the work folder"))?;
        let work =
            work.ok_or(SandboxError::Setup { stage: "inside", said: "no work folder".into() })?;
        let child = &mut warden.child;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let stream = |pipe: OwnedFd| GuestStream::new(pipe, &switch);
        let (stdin, stdout, stderr) = match &terminal {
            // The pipes are the tool's own, which has nothing more to say.
            Some(terminal) => {
                let screen = terminal.try_clone();
                let screen = screen.map_err(SandboxError::system("holding a terminal"))?;
                (None, Some(stream(screen)), None)
            }
            None => (
                stdin,
                stdout.map(|pipe| stream(pipe.into())),
                stderr.map(|pipe| stream(pipe.into())),
            ),
        };
        let outputs = Outputs::new(work);
        let given = Born { stdin, stdout, stderr, terminal, outputs, landlock, switch };
        // Whoever started it may be gone; then the guest ends with its streams.
        drop(born.send(given));
        warden.watch()
    }
}
