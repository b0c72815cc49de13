//! This machine as the attackers see it: a secret, a folder for tracks, ears on every kind of
//! socket, the owner's terminal; and what is on it before and after.

use crate::observe;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::PathBuf;

/// What is prepared before the first job.
pub(crate) struct Machine {
    folder: tempfile::TempDir,
    secret: String,
    tcp: TcpListener,
    udp: UdpSocket,
    abstract_name: String,
    abstract_stream: UnixListener,
    abstract_datagram: UnixDatagram,
    path: UnixListener,
    terminal: Terminal,
    address: String,
    state: BTreeMap<&'static str, String>,
}

/// Settings of the kernel that a guest would like to change.
const STATE: [&str; 8] = [
    "/proc/sys/kernel/core_pattern",
    "/proc/sys/kernel/domainname",
    "/proc/sys/kernel/hostname",
    "/proc/sys/kernel/modprobe",
    "/proc/sys/kernel/sysrq",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/swaps",
    "/etc/ld.so.preload",
];

fn state() -> BTreeMap<&'static str, String> {
    STATE.map(|path| (path, fs::read_to_string(path).unwrap_or_default())).into()
}

impl Machine {
    pub(crate) fn prepare() -> Self {
        let folder = tempfile::Builder::new().prefix("opengpu-hostile-").tempdir().unwrap();
        let mode = |path: &std::path::Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        // Nothing of this is protected by its mode: only the walls stand in the way.
        mode(folder.path(), 0o777);
        let secret = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap().trim().to_owned();
        fs::write(folder.path().join("secret"), &secret).unwrap();
        mode(&folder.path().join("secret"), 0o666);
        let tcp = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = tcp.local_addr().unwrap().port();
        let udp = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
        let abstract_name = format!("opengpu-hostile-{}", std::process::id());
        let named = |name: &str| SocketAddr::from_abstract_name(name).unwrap();
        let abstract_stream = UnixListener::bind_addr(&named(&abstract_name)).unwrap();
        let datagram = named(&format!("{abstract_name}-datagram"));
        let abstract_datagram = UnixDatagram::bind_addr(&datagram).unwrap();
        let path = UnixListener::bind(folder.path().join("docker.sock")).unwrap();
        mode(&folder.path().join("docker.sock"), 0o777);
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        abstract_stream.set_nonblocking(true).unwrap();
        abstract_datagram.set_nonblocking(true).unwrap();
        path.set_nonblocking(true).unwrap();
        let address = own_address();
        let terminal = Terminal::open(&secret);
        Self {
            folder,
            secret,
            tcp,
            udp,
            abstract_name,
            abstract_stream,
            abstract_datagram,
            path,
            terminal,
            address,
            state: state(),
        }
    }

    /// Everything, as if a neighbour had told.
    pub(crate) fn known_to_attackers(&self) -> BTreeMap<String, String> {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let port = self.tcp.local_addr().unwrap().port().to_string();
        let known = [
            ("TASK_SECRET", at("secret")),
            ("TASK_TRACK", at("track")),
            ("TASK_PORT", port),
            ("TASK_ADDRESS", self.address.clone()),
            ("TASK_ABSTRACT", self.abstract_name.clone()),
            ("TASK_SOCKET", at("docker.sock")),
            ("TASK_TERMINAL", self.terminal.name.clone()),
        ];
        known.map(|(name, value)| (name.to_owned(), value)).into()
    }

    pub(crate) fn is_secret_in(&self, text: &[u8]) -> bool {
        text.windows(self.secret.len()).any(|part| part == self.secret.as_bytes())
    }

    /// A folder for one attack, beside the one for tracks.
    pub(crate) fn scratch(&self) -> tempfile::TempDir {
        tempfile::tempdir_in(self.folder.path()).unwrap()
    }

    pub(crate) fn track(&self) -> PathBuf {
        self.folder.path().join("track")
    }

    /// What reached this machine since it was asked last; and it is put in order again.
    pub(crate) fn heard(&self) -> Vec<String> {
        let mut findings = Vec::new();
        let mut bytes = [0; 64];
        while let Ok((mut stream, _)) = self.tcp.accept() {
            let _ = stream.read(&mut bytes);
            findings.push("was heard over TCP".to_owned());
        }
        while self.udp.recv(&mut bytes).is_ok() {
            findings.push("was heard over UDP".to_owned());
        }
        while self.abstract_stream.accept().is_ok()
            || self.abstract_datagram.recv(&mut bytes).is_ok()
        {
            findings.push("was heard at an abstract socket".to_owned());
        }
        while self.path.accept().is_ok() {
            findings.push("was heard at a socket file".to_owned());
        }
        findings.extend(self.terminal.heard(&self.secret));
        if fs::remove_file(self.track()).is_ok() {
            findings.push("left a track".to_owned());
        }
        let secret = self.folder.path().join("secret");
        if fs::read_to_string(&secret).ok().as_ref() != Some(&self.secret) {
            findings.push("changed the secret".to_owned());
            fs::write(&secret, &self.secret).unwrap();
        }
        for (path, now) in state() {
            let before = &self.state[path];
            if now != *before {
                findings.push(format!("changed {path}"));
                fs::write(path, before).unwrap();
            }
        }
        findings
    }
}

/// The terminal that the owner sits at: a line was typed, and is not read yet.
struct Terminal {
    screen: fs::File,
    keyboard: OwnedFd,
    name: String,
}

impl Terminal {
    fn open(secret: &str) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        // The first number is what a guest's own terminal is called inside.
        let first = openpt(flags).unwrap();
        let screen = openpt(flags).unwrap();
        drop(first);
        unlockpt(&screen).unwrap();
        let keyboard = ioctl_tiocgptpeer(&screen, flags).unwrap();
        let name = ptsname(&screen, Vec::new()).unwrap().into_string().unwrap();
        fs::set_permissions(&name, fs::Permissions::from_mode(0o666)).unwrap();
        let mut modes = tcgetattr(&keyboard).unwrap();
        modes.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&keyboard, OptionalActions::Now, &modes).unwrap();
        rustix::io::ioctl_fionbio(&screen, true).unwrap();
        let terminal = Self { screen: screen.into(), keyboard, name };
        terminal.fill(secret);
        terminal
    }

    fn fill(&self, secret: &str) {
        (&self.screen).write_all(format!("{secret}\n").as_bytes()).unwrap();
    }

    /// What was written to it, typed into it, or read from it.
    fn heard(&self, secret: &str) -> Vec<String> {
        let mut findings = Vec::new();
        if (&self.screen).read(&mut [0; 64]).is_ok_and(|count| count > 0) {
            findings.push("wrote to the owner's terminal".to_owned());
        }
        let waiting = rustix::io::ioctl_fionread(&self.keyboard).unwrap();
        let typed = u64::try_from(secret.len() + 1).unwrap();
        if waiting != typed {
            findings.push(format!("left {waiting} of {typed} bytes at the owner's terminal"));
            rustix::termios::tcflush(&self.keyboard, rustix::termios::QueueSelector::IFlush)
                .unwrap();
            self.fill(secret);
        }
        findings
    }
}

/// The address of this machine in its network; asking for a way sends nothing.
fn own_address() -> String {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
    let way = socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).and_then(|()| socket.local_addr());
    way.map_or_else(|_| "127.0.0.2".to_owned(), |address| address.ip().to_string())
}

/// What could be left behind.
#[derive(Debug)]
pub(crate) struct Leftovers(BTreeSet<String>);

impl Leftovers {
    pub(crate) fn look(machine: &Machine) -> Self {
        let mut found: BTreeSet<String> = processes();
        let lines = |path: &str| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.lines().map(str::to_owned).collect::<Vec<_>>()
        };
        found.extend(lines("/proc/self/mountinfo").into_iter().map(|line| format!("mount {line}")));
        for path in ["/proc/sysvipc/shm", "/proc/sysvipc/sem", "/proc/sysvipc/msg"] {
            found.extend(lines(path).into_iter().skip(1).map(|line| format!("{path} {line}")));
        }
        let ours = |line: &String| line.contains("opengpu-hostile");
        found
            .extend(lines("/proc/keys").into_iter().filter(ours).map(|line| format!("key {line}")));
        for (folder, ours) in [("/tmp", false), ("/dev/shm", true), ("/dev/mqueue", true)] {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                // Others use the temporary folder too; what is nobody's there is a guest's.
                if ours || owner(&entry.path()) == Some(65534) {
                    found.insert(format!("file {}", entry.path().display()));
                }
            }
        }
        for entry in fs::read_dir(machine.folder.path()).unwrap().flatten() {
            found.insert(format!("file {}", entry.path().display()));
        }
        found.extend(groups());
        Self(found)
    }

    /// What is here and was not there.
    pub(crate) fn since(&self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).map(|left| format!("left {left}")).collect()
    }
}

fn owner(path: &std::path::Path) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    fs::symlink_metadata(path).ok().map(|found| found.uid())
}

/// Processes below us, and those anywhere that carry the name of a job or of its orphan.
fn processes() -> BTreeSet<String> {
    let ours = observe::below(std::process::id());
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(process) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let line = fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        let named = line == "sleep\u{0}99999\u{0}" || line.contains("/inputs/attack.py");
        if named || ours.contains(&process) {
            found.insert(format!("process {process} {}", line.replace('\0', " ")));
        }
    }
    found
}

/// Control groups of ours: below the groups that we are in ourselves.
fn groups() -> Vec<String> {
    let mut found = Vec::new();
    let prefix = format!("opengpu-{}-", std::process::id());
    for line in fs::read_to_string("/proc/self/cgroup").unwrap_or_default().lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controller, path) = (parts.next().unwrap(), parts.next().unwrap());
        let path = path.trim_start_matches('/');
        for folder in [controller, "unified", "."] {
            let folder = PathBuf::from("/sys/fs/cgroup").join(folder).join(path);
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if entry.file_name().to_string_lossy().starts_with(&prefix) {
                    found.push(format!("group {}", entry.path().display()));
                }
            }
        }
    }
    found
}
