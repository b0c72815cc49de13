//! The command line of bubblewrap that builds the namespaces and mounts of one guest.
//!
//! Bubblewrap makes the walls and knows nothing of our limits; it runs as an ordinary user, even
//! where we are root. The order of its arguments is the order of its work: a mount that comes later
//! covers what is below it.
//!
//! Mounts are what a start costs most: the tool reads the list of all of them for each one. So what
//! can be a link or a file of the root itself is no mount.

use super::device::Lent;
use super::error::SandboxError;
use super::network::{HOSTS, RESOLVER};
use super::own::Libraries;
use super::spec::{INPUTS, LAYERS, Network, Root, SECRETS, Spec, WORK, Work};
use super::walls::Walls;
use rustix::fs::{MemfdFlags, SeekFrom, memfd_create, seek};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Nobody: the one user that exists inside.
pub(super) const NOBODY: u32 = 65534;

/// Arguments, and the open files that they speak of.
#[derive(Debug, Default)]
pub(super) struct Line {
    pub(super) arguments: Vec<OsString>,
    pub(super) files: Vec<OwnedFd>,
    /// Folders inside that hold the system.
    pub(super) system: Vec<String>,
}

/// Parts of `/etc` that programs need in order to start, and that tell nothing about the owner.
const CONFIGURATION: [&str; 3] = ["alternatives", "ld.so.cache", "localtime"];
/// Added when the network is granted: whose signatures to believe.
const CERTIFICATES: &str = "ssl/certs";
/// Folders that hold programs; on most systems all but the first are links.
const PROGRAMS: [&str; 5] = ["usr", "bin", "sbin", "lib", "lib64"];
/// Folders that a guest never gets from its image.
const REPLACED: [&str; 8] = ["proc", "sys", "dev", "tmp", "run", "work", "inputs", "etc"];
/// What the process file system says about the machine. Where only root may open one it needs no
/// hiding: a guest is never root.
const HIDDEN_FILES: [&str; 9] = [
    "kcore",
    "keys",
    "key-users",
    "kallsyms",
    "kpagecount",
    "kpageflags",
    "sched_debug",
    "timer_list",
    "sysrq-trigger",
];
const HIDDEN_FOLDERS: [&str; 4] = ["acpi", "scsi", "asound", "driver"];

impl Line {
    /// All walls of a guest. `filter` is the compiled list of system calls.
    pub(super) fn build(
        spec: &Spec,
        lent: &Lent,
        libraries: &Libraries,
        walls: Walls,
        filter: Option<&[u8]>,
    ) -> Result<Self, SandboxError> {
        let mut line = Self::default();
        line.namespaces(walls);
        line.root(spec)?;
        line.private(spec, walls)?;
        for input in &spec.inputs {
            line.three("--ro-bind", &input.source, &input.place);
        }
        for file in &spec.files {
            line.data("--ro-bind-data", "0444", &file.bytes, &file.place)?;
        }
        for secret in &spec.secrets {
            line.data("--file", "0400", &secret.bytes, &Path::new(SECRETS).join(&secret.name))?;
        }
        for (source, place) in libraries.places() {
            line.three("--ro-bind", source, &place);
        }
        for node in &lent.nodes {
            line.three("--dev-bind", node, node);
        }
        for (source, place) in &lent.mounts {
            line.three("--ro-bind", source, place);
        }
        match &spec.work {
            Work::Memory => {
                line.words(["--perms", "0700", "--size"]);
                line.words([spec.limits.disk.max(1).to_string().as_str(), "--tmpfs", WORK]);
            }
            Work::Folder(folder) => line.three("--bind", folder, Path::new(WORK)),
        }
        if walls.read_only {
            line.words(["--remount-ro", "/dev", "--remount-ro", "/"]);
        }
        if let Some(filter) = filter {
            let number = line.hold(memory_file(filter)?);
            line.words(["--seccomp", &number]);
        }
        Ok(line)
    }

    fn namespaces(&mut self, walls: Walls) {
        let nobody = NOBODY.to_string();
        self.words(["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"]);
        self.words(["--unshare-cgroup", "--uid", &nobody, "--gid", &nobody]);
        self.words(["--hostname", "opengpu", "--die-with-parent", "--new-session"]);
        self.words(["--cap-drop", "ALL"]);
        if walls.user_namespaces {
            self.words(["--disable-userns"]);
        }
        if walls.network {
            self.words(["--unshare-net"]);
        }
    }

    /// The system's files, none of them writable.
    fn root(&mut self, spec: &Spec) -> Result<(), SandboxError> {
        let (from, names) = match &spec.root {
            Root::System => (Path::new("/"), PROGRAMS.map(OsString::from).to_vec()),
            Root::Image(folder) => {
                let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
                let entries = entries.map_err(SandboxError::system("reading an image"))?;
                let mut names: Vec<_> = entries.iter().map(fs::DirEntry::file_name).collect();
                names.sort();
                names.retain(|name| !REPLACED.iter().any(|replaced| name == replaced));
                (folder.as_path(), names)
            }
        };
        for name in names {
            let (source, place) = (from.join(&name), Path::new("/").join(&name));
            self.system.push(place.to_string_lossy().into_owned());
            match fs::read_link(&source) {
                Ok(target) => self.three("--symlink", &target, &place),
                Err(_) if source.exists() => self.three("--ro-bind", &source, &place),
                Err(_) => {}
            }
        }
        let granted = spec.network == Network::Granted;
        if matches!(spec.root, Root::Image(_)) {
            let etc = from.join("etc");
            // Through a link the mount would lead out of the image.
            let plain = |path: &Path, is: fn(&fs::Metadata) -> bool| {
                path.symlink_metadata().is_ok_and(|found| is(&found))
            };
            if plain(&etc, fs::Metadata::is_dir) {
                self.three("--ro-bind", &etc, Path::new("/etc"));
                let resolver = Path::new("/etc/resolv.conf");
                // Only what is there can be covered.
                if granted && plain(&etc.join("resolv.conf"), fs::Metadata::is_file) {
                    self.data("--ro-bind-data", "0444", RESOLVER.as_bytes(), resolver)?;
                }
            }
            return Ok(());
        }
        if granted {
            for (name, text) in [("resolv.conf", RESOLVER), ("hosts", HOSTS)] {
                self.data("--file", "0444", text.as_bytes(), &Path::new("/etc").join(name))?;
            }
        }
        let more = granted.then_some(&CERTIFICATES);
        for name in CONFIGURATION.iter().chain(more) {
            let path = Path::new("/etc").join(name);
            match fs::read_link(&path) {
                // It leads to what a guest has, too.
                Ok(target) if target.starts_with("/usr") => self.three("--symlink", &target, &path),
                _ => self.three("--ro-bind-try", &path, &path),
            }
        }
        let users = format!("nobody:x:{NOBODY}:{NOBODY}:nobody:{WORK}:/usr/sbin/nologin\n");
        self.data("--file", "0444", users.as_bytes(), Path::new("/etc/passwd"))?;
        let groups = format!("nogroup:x:{NOBODY}:\n");
        self.data("--file", "0444", groups.as_bytes(), Path::new("/etc/group"))
    }

    /// What every guest has for itself alone.
    fn private(&mut self, spec: &Spec, walls: Walls) -> Result<(), SandboxError> {
        self.words(["--proc", "/proc", "--dev", "/dev"]);
        if walls.read_only {
            for name in HIDDEN_FILES {
                let path = Path::new("/proc").join(name);
                if path.metadata().is_ok_and(|found| found.permissions().mode() & 0o006 != 0) {
                    self.data("--ro-bind-data", "0444", b"", &path)?;
                }
            }
            for name in HIDDEN_FOLDERS {
                let path = Path::new("/proc").join(name);
                if path.exists() {
                    self.words(["--perms", "0555", "--size", "4096", "--tmpfs"]);
                    self.arguments.push(path.clone().into_os_string());
                    self.words(["--remount-ro"]);
                    self.arguments.push(path.into_os_string());
                }
            }
        }
        let size = spec.limits.temporary.max(1).to_string();
        for place in ["/tmp", "/dev/shm"] {
            self.words(["--perms", "0700", "--size", &size, "--tmpfs", place]);
        }
        for place in [INPUTS, LAYERS, "/run"] {
            self.words(["--perms", "0755", "--dir", place]);
        }
        self.words(["--perms", "0700", "--dir", SECRETS]);
        Ok(())
    }

    fn words<const N: usize>(&mut self, words: [&str; N]) {
        self.arguments.extend(words.map(OsString::from));
    }

    fn three(&mut self, option: &str, source: &Path, place: &Path) {
        self.arguments.extend([option.into(), source.into(), place.into()]);
    }

    /// A file made of bytes.
    fn data(
        &mut self,
        option: &str,
        mode: &str,
        bytes: &[u8],
        place: &Path,
    ) -> Result<(), SandboxError> {
        let number = self.hold(memory_file(bytes)?);
        self.words(["--perms", mode, option, &number]);
        self.arguments.push(place.into());
        Ok(())
    }

    /// Puts the arguments into a file, and gives its number: on a command line, which a guest can
    /// read, they would tell where things are on this machine.
    pub(super) fn hand_over(&mut self) -> Result<String, SandboxError> {
        let mut bytes = Vec::new();
        for argument in self.arguments.drain(..) {
            bytes.extend(argument.as_bytes());
            bytes.push(0);
        }
        Ok(self.hold(memory_file(&bytes)?))
    }

    /// Keeps a file open for bubblewrap, and gives its number.
    pub(super) fn hold(&mut self, file: OwnedFd) -> String {
        let number = file.as_raw_fd().to_string();
        self.files.push(file);
        number
    }
}

/// An open file that exists in memory alone.
fn memory_file(bytes: &[u8]) -> Result<OwnedFd, SandboxError> {
    let failed = "making a file in memory";
    let file =
        memfd_create("opengpu", MemfdFlags::CLOEXEC).map_err(SandboxError::system(failed))?;
    let mut file = File::from(file);
    file.write_all(bytes).map_err(SandboxError::system(failed))?;
    seek(&file, SeekFrom::Start(0)).map_err(SandboxError::system(failed))?;
    Ok(file.into())
}
