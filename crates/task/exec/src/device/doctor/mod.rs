//! What is missing on this machine, and the command that brings it.
//!
//! Each check looks at one thing and says what it found. A check that failed, or that warns, names
//! its fix: a command where there is one.
//!
//! What it is not: it changes nothing, and it needs no rights.
//!
//! Invariant: files are looked for below a root and programs in a search path that are arguments,
//! so that tests can show machines that are not there.

mod gpu;
#[cfg(target_os = "linux")]
mod linux;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use super::facts;
use crate::{Registry, backend::Missing, program::Kind};

/// Disk space for artifacts and models below which a provider gets into trouble.
const DISK: u64 = 20 << 30;
/// Main memory below which little runs.
const MEMORY: u64 = 4 << 30;

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// Whether it is well.
    pub state: State,
    /// What was found.
    pub found: String,
    /// What to do, unless all is well.
    pub fix: Option<String>,
}

/// Whether something is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// All is well.
    Ok,
    /// It works, but not as well as it could.
    Warn,
    /// Something will not work.
    Failed,
}

impl Check {
    fn ok(name: &str, found: impl Into<String>) -> Self {
        Self { name: name.to_owned(), state: State::Ok, found: found.into(), fix: None }
    }

    fn warn(name: &str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        let fix = Some(fix.into());
        Self { name: name.to_owned(), state: State::Warn, found: found.into(), fix }
    }

    fn failed(name: &str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { state: State::Failed, ..Self::warn(name, found, fix) }
    }
}

/// Looks at this machine. `cache` is the folder for artifacts and models.
pub fn checks(cache: &Path) -> Vec<Check> {
    let machine = Machine::this();
    let mut checks = gpu::checks(&machine, &crate::gpu::adapters());
    #[cfg(target_os = "linux")]
    checks.extend(linux::checks(&machine));
    #[cfg(not(target_os = "linux"))]
    checks.push(Check::warn(
        "walls",
        "this system has none: executors can touch the owner's files and network",
        "run programs of strangers on Linux, or as a user who owns nothing",
    ));
    checks.push(disk(cache));
    #[cfg(unix)]
    checks.extend(home(cache));
    checks.extend(memory(&machine));
    checks.push(python(&machine));
    checks
}

/// What this machine runs, kind by kind.
pub fn programs(registry: &Registry) -> Vec<Check> {
    let check = |(kind, probed): (Kind, Result<String, Missing>)| {
        let name = format!("programs: {kind}");
        match probed {
            Ok(found) => Check::ok(&name, found),
            Err(Missing { why, fix }) => Check::warn(&name, why, fix),
        }
    };
    registry.probe().into_iter().map(check).collect()
}

/// The machine that is looked at.
struct Machine {
    /// Where its files begin.
    root: PathBuf,
    /// Where programs are looked for.
    path: OsString,
    /// Whether its own programs can be started to see whether they work.
    real: bool,
}

impl Machine {
    fn this() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self { root: PathBuf::from("/"), path, real: true }
    }

    /// A text file of the machine.
    fn text(&self, path: &str) -> Option<String> {
        facts::text(&self.root.join(path))
    }

    fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Where a program is.
    fn program(&self, name: &str) -> Option<PathBuf> {
        std::env::split_paths(&self.path).map(|folder| folder.join(name)).find(|at| at.is_file())
    }

    /// The command that installs something, in the words of this system.
    fn install(&self, packages: Packages) -> String {
        let release = self.text("etc/os-release").unwrap_or_default();
        let value = |line: &str| {
            let (name, value) = line.split_once('=')?;
            matches!(name, "ID" | "ID_LIKE").then(|| value.trim_matches('"').to_owned())
        };
        let family = release.lines().filter_map(value).collect::<Vec<_>>().join(" ");
        let is = |name: &str| family.split(' ').any(|word| word == name);
        if is("fedora") || is("rhel") {
            format!("sudo dnf install {}", packages.fedora)
        } else if is("arch") {
            format!("sudo pacman -S {}", packages.arch)
        } else if is("suse") || is("opensuse") {
            format!("sudo zypper install {}", packages.suse)
        } else {
            format!("sudo apt install {}", packages.debian)
        }
    }
}

/// Names of the same packages on different systems.
#[derive(Clone, Copy)]
struct Packages {
    debian: &'static str,
    fedora: &'static str,
    arch: &'static str,
    suse: &'static str,
}

/// What a program says of itself in one line; none if it fails.
fn said(program: &Path, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().unwrap_or_default().trim();
    output.status.success().then(|| line.chars().take(120).collect())
}

/// Bytes in words.
fn size(bytes: u64) -> String {
    let mebibytes = bytes >> 20;
    if mebibytes < 10 << 10 { format!("{mebibytes} MiB") } else { format!("{} GiB", bytes >> 30) }
}

const DISK_NAME: &str = "disk space";

fn disk(cache: &Path) -> Check {
    // The folder may not exist yet; what counts is the disk that it would be on.
    let there = cache.ancestors().find(|folder| folder.exists()).unwrap_or(cache);
    match free_space(there) {
        Some(free) => judge_disk(free, there),
        None => Check::warn(
            DISK_NAME,
            format!("unknown for {}", there.display()),
            format!("make at least {} free for {}", size(DISK), cache.display()),
        ),
    }
}

fn judge_disk(free: u64, folder: &Path) -> Check {
    let found = format!("{} free at {}", size(free), folder.display());
    if free >= DISK {
        return Check::ok(DISK_NAME, found);
    }
    let fix = format!("make at least {} free, or choose a cache folder elsewhere", size(DISK));
    Check::warn(DISK_NAME, found, fix)
}

/// Whether others keep out of the home folder; none if it is not made yet.
#[cfg(unix)]
fn home(folder: &Path) -> Option<Check> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(folder).ok()?.permissions().mode() & 0o777;
    let name = "home folder";
    let found = format!("{} has mode {mode:04o}", folder.display());
    Some(if mode & 0o077 == 0 {
        Check::ok(name, found)
    } else {
        let fix = format!("chmod 700 {}", folder.display());
        Check::warn(name, format!("{found}: others may look into it"), fix)
    })
}

#[cfg(unix)]
fn free_space(folder: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(unix))]
fn free_space(_: &Path) -> Option<u64> {
    None
}

/// None where the system does not tell.
fn memory(machine: &Machine) -> Option<Check> {
    let all = facts::main_memory(&machine.root, "MemTotal")?;
    let free = facts::main_memory(&machine.root, "MemAvailable").unwrap_or(0);
    let found = format!("{} of {} available", size(free), size(all));
    Some(if free >= MEMORY {
        Check::ok("memory", found)
    } else {
        Check::warn("memory", found, "close programs that use much of it, see: ps aux --sort=-rss")
    })
}

/// Which one the sandbox starts, whatever else there is.
const PYTHON: &str = "/usr/bin/python3";

fn python(machine: &Machine) -> Check {
    let packages =
        Packages { debian: "python3", fedora: "python3", arch: "python", suse: "python3" };
    let program = if machine.real {
        Some(PathBuf::from(PYTHON)).filter(|program| program.exists())
    } else {
        machine.program("python3")
    };
    match program {
        Some(program) if machine.real => match said(&program, &["--version"]) {
            Some(version) => Check::ok("python3", format!("{version}, {PYTHON}")),
            None => Check::failed(
                "python3",
                format!("{} does not start", program.display()),
                machine.install(packages),
            ),
        },
        Some(program) => Check::ok("python3", program.display().to_string()),
        None => Check::warn(
            "python3",
            "not found: tasks that are Python scripts are refused",
            machine.install(packages),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fix_is_in_the_words_of_the_system() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine { root: root.path().to_owned(), path: OsString::new(), real: false };
        let packages = Packages { debian: "a", fedora: "b", arch: "c", suse: "d" };
        std::fs::create_dir(root.path().join("etc")).unwrap();
        for (release, command) in [
            ("ID=debian\n", "sudo apt install a"),
            ("NAME=\"x\"\nID=rocky\nID_LIKE=\"rhel centos fedora\"\n", "sudo dnf install b"),
            ("ID=arch\n", "sudo pacman -S c"),
            ("ID=\"opensuse-leap\"\nID_LIKE=\"suse opensuse\"\n", "sudo zypper install d"),
            ("", "sudo apt install a"),
        ] {
            std::fs::write(root.path().join("etc/os-release"), release).unwrap();
            assert_eq!(machine.install(packages), command);
        }
    }

    #[test]
    fn little_space_is_told_with_what_would_do() {
        let folder = Path::new("/cache");
        assert_eq!(judge_disk(DISK, folder).state, State::Ok);
        let check = judge_disk(DISK - 1, folder);
        assert_eq!(check.state, State::Warn);
        assert_eq!(check.found, "19 GiB free at /cache");
        assert!(check.fix.unwrap().contains("20 GiB"));
    }

    #[cfg(unix)]
    #[test]
    fn a_home_folder_that_others_may_look_into_is_told() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        assert_eq!(home(&root.path().join("none")), None);
        let mode = |bits| {
            std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(bits)).unwrap();
            home(root.path()).unwrap()
        };
        assert_eq!(mode(0o700).state, State::Ok);
        let check = mode(0o755);
        assert_eq!(check.state, State::Warn);
        assert_eq!(check.fix.unwrap(), format!("chmod 700 {}", root.path().display()));
    }

    #[test]
    fn a_missing_python_is_no_failure_but_has_a_fix() {
        let root = tempfile::tempdir().unwrap();
        let mut machine =
            Machine { root: root.path().to_owned(), path: OsString::new(), real: false };
        let check = python(&machine);
        assert_eq!(check.state, State::Warn);
        assert_eq!(check.fix.as_deref(), Some("sudo apt install python3"));
        std::fs::write(root.path().join("python3"), "").unwrap();
        machine.path = root.path().as_os_str().to_owned();
        assert_eq!(python(&machine).state, State::Ok);
    }

    #[test]
    fn little_memory_is_told() {
        let root = tempfile::tempdir().unwrap();
        let machine = Machine { root: root.path().to_owned(), path: OsString::new(), real: false };
        assert_eq!(memory(&machine), None);
        std::fs::create_dir(root.path().join("proc")).unwrap();
        let show = |free: u64| {
            let text = format!("MemTotal: 16777216 kB\nMemAvailable: {free} kB\n");
            std::fs::write(root.path().join("proc/meminfo"), text).unwrap();
            memory(&machine).unwrap()
        };
        assert_eq!(show(8 << 20).state, State::Ok);
        let check = show(1 << 20);
        assert_eq!(
            (check.state, check.found.as_str()),
            (State::Warn, "1024 MiB of 16 GiB available")
        );
        assert!(check.fix.is_some());
    }
}
