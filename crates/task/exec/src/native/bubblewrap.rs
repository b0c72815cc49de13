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
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Component, Path};

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
const REPLACED: [&str; 7] = ["proc", "sys", "dev", "tmp", "run", "work", "inputs"];
/// Folders that it gets only if they are folders and no links: there are mounts of ours below.
const SHARED: [&str; 2] = ["etc", "opt"];
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
            if let Root::Image(image) = &spec.root {
                check_mount(image, place)?;
            }
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
                names.retain(|name| !REPLACED.iter().chain(&SHARED).any(|other| name == other));
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
            return self.shared(spec, from);
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

    /// What a guest gets of the folders of its image that hold mounts of ours as well.
    fn shared(&mut self, spec: &Spec, image: &Path) -> Result<(), SandboxError> {
        // Through a link the mount would lead out of the image.
        let plain = |path: &Path, is: fn(&fs::Metadata) -> bool| {
            path.symlink_metadata().is_ok_and(|found| is(&found))
        };
        let [etc, opt] = SHARED.map(|name| image.join(name));
        if plain(&etc, fs::Metadata::is_dir) {
            self.three("--ro-bind", &etc, Path::new("/etc"));
            let resolver = Path::new("/etc/resolv.conf");
            let granted = spec.network == Network::Granted;
            // Only what is there can be covered.
            if granted && plain(&etc.join("resolv.conf"), fs::Metadata::is_file) {
                self.data("--ro-bind-data", "0444", RESOLVER.as_bytes(), resolver)?;
            }
        }
        let inputs = spec.inputs.iter().map(|input| &input.place);
        let files = spec.files.iter().map(|file| &file.place);
        // With files of ours it is a folder of ours: the image's own takes none, and may hold links.
        let ours = inputs.chain(files).any(|place| place.starts_with(LAYERS));
        if !ours && plain(&opt, fs::Metadata::is_dir) {
            self.three("--ro-bind", &opt, Path::new(LAYERS));
        }
        Ok(())
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

/// Refuses a mount for a device that a link of an image would lead elsewhere: bubblewrap follows it
/// while it still sees the files of this machine.
fn check_mount(image: &Path, place: &Path) -> Result<(), SandboxError> {
    let refused = |why: &str| {
        let place = place.display();
        let said = format!("a device needs `{place}`, which this image cannot give: {why}");
        SandboxError::Setup { stage: "device", said }
    };
    let below = place.strip_prefix("/").map_err(|_| refused("it is no whole path"))?;
    let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || below.as_os_str().is_empty() {
        return Err(refused("it is not below the root"));
    }
    if REPLACED.iter().any(|name| below.starts_with(name)) {
        return Ok(());
    }
    let mut path = image.to_owned();
    for part in below.components() {
        path.push(part);
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => return Err(refused("a link is in the way")),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => break,
            Err(error) => return Err(refused(&error.to_string())),
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::{Line, check_mount};
    use crate::native::error::SandboxError;
    use crate::native::spec::{File, Root, Spec};
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_folder_of_an_image_that_is_a_link_gets_no_mounts_of_ours() {
        let image = tempfile::tempdir().unwrap();
        let mut spec = Spec::new("/bin/sh", &[]);
        spec.root = Root::Image(image.path().to_owned());
        let places = |spec: &Spec| {
            let mut line = Line::default();
            line.root(spec).unwrap();
            let is_place = |word: &&OsStr| *word == "/opt" || *word == "/etc" || *word == "/usr";
            let words = line.arguments.iter().map(AsRef::as_ref).filter(is_place);
            words.map(|word: &OsStr| word.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        for name in ["opt", "etc"] {
            symlink("/oldroot/tmp", image.path().join(name)).unwrap();
        }
        fs::create_dir(image.path().join("usr")).unwrap();
        assert_eq!(places(&spec), ["/usr"]);
        for name in ["opt", "etc"] {
            fs::remove_file(image.path().join(name)).unwrap();
            fs::create_dir(image.path().join(name)).unwrap();
        }
        assert_eq!(places(&spec), ["/usr", "/etc", "/opt"]);
        spec.files.push(File { place: "/opt/x".into(), bytes: Vec::new() });
        assert_eq!(places(&spec), ["/usr", "/etc"]);
    }

    #[test]
    fn a_mount_for_a_device_does_not_follow_links_of_an_image() {
        let image = tempfile::tempdir().unwrap();
        fs::create_dir_all(image.path().join("usr/lib")).unwrap();
        fs::write(image.path().join("usr/file"), "").unwrap();
        symlink("usr/lib", image.path().join("lib")).unwrap();
        symlink("/oldroot/etc", image.path().join("usr/lib/out")).unwrap();
        symlink("/oldroot", image.path().join("run")).unwrap();
        let check = |place: &str| check_mount(image.path(), place.as_ref());
        for place in ["/usr/lib/gpu.so", "/usr/lib/new/gpu.so", "/new/gpu.so", "/run/x/gpu"] {
            assert!(check(place).is_ok(), "{place}");
        }
        let outside = ["/", "usr/lib/gpu.so", "/usr/../gpu.so", "/..", "/run/../lib/gpu.so"];
        let links = ["/lib/gpu.so", "/usr/lib/out", "/usr/lib/out/gpu.so", "/usr/file/gpu.so"];
        for place in outside.into_iter().chain(links) {
            let refused = check(place);
            assert!(matches!(refused, Err(SandboxError::Setup { .. })), "{place}: {refused:?}");
        }
    }
}
