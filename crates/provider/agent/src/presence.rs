//! Whether the owner is at the machine.
//!
//! On Linux two things tell: what comes from input devices, where they may be read, and when somebody
//! last typed into a terminal, which the kernel notes to within some seconds. Where neither can be
//! seen, the owner is taken to be away; [`Sight`] says so.

use crate::core::Input;
use crate::desk::Inbox;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How often the owner is looked for.
const LOOK: Duration = Duration::from_millis(250);

/// Tells whether the owner is at the machine.
pub trait Presence: Send + 'static {
    /// How long ago the owner did something; none if nothing was seen.
    fn idle(&mut self) -> Option<Duration>;
}

/// What can be seen of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// What comes from keyboard and mouse.
    Inputs,
    /// What is typed into terminals alone: somebody at a desktop is not noticed.
    Terminals,
    /// Nothing.
    Nothing,
}

/// Tells the desk when the owner comes and goes, until it is stopped. It waits for nobody: a node that
/// hangs must not keep the owner waiting.
pub(crate) fn watch(presence: &mut dyn Presence, away: Duration, inbox: &Inbox, stop: &AtomicBool) {
    let mut there = false;
    while !stop.load(Ordering::SeqCst) {
        let is_there = presence.idle().is_some_and(|idle| idle < away);
        if is_there != there {
            there = is_there;
            inbox.tell(if there { Input::OwnerBack } else { Input::OwnerAway });
        }
        std::thread::sleep(LOOK);
    }
}

/// A machine without an owner at it, such as one in a rack.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Presence for Unattended {
    fn idle(&mut self) -> Option<Duration> {
        None
    }
}

#[cfg(target_os = "linux")]
pub use linux::Attended;

#[cfg(target_os = "linux")]
mod linux {
    use super::{Presence, Sight};
    use rustix::fs::OFlags;
    use std::collections::BTreeMap;
    use std::fs::{self, File, OpenOptions};
    use std::io::Read as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    use std::path::{Path, PathBuf};
    use std::time::{Duration, Instant, SystemTime};

    /// A machine at which the owner may sit.
    #[derive(Debug)]
    pub struct Attended {
        devices: PathBuf,
        inputs: BTreeMap<PathBuf, File>,
        seen: Option<Instant>,
    }

    impl Default for Attended {
        fn default() -> Self {
            Self::at(Path::new("/dev"))
        }
    }

    impl Attended {
        /// With its devices in this folder.
        pub fn at(devices: &Path) -> Self {
            Self { devices: devices.to_owned(), inputs: BTreeMap::new(), seen: None }
        }

        /// What can be seen of the owner here.
        pub fn sight(&mut self) -> Sight {
            self.find();
            match (self.inputs.is_empty(), self.terminals().is_empty()) {
                (false, _) => Sight::Inputs,
                (true, false) => Sight::Terminals,
                (true, true) => Sight::Nothing,
            }
        }

        fn terminals(&self) -> Vec<PathBuf> {
            let consoles = files(&self.devices, "tty").into_iter();
            consoles.chain(files(&self.devices.join("pts"), "")).collect()
        }

        /// Opens input devices that are new.
        fn find(&mut self) {
            for path in files(&self.devices.join("input"), "event") {
                if self.inputs.contains_key(&path) {
                    continue;
                }
                let flags = OFlags::NONBLOCK.bits().cast_signed();
                let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
                if let Ok(file) = opened {
                    self.inputs.insert(path, file);
                }
            }
        }

        /// Whether anything came from an input device since the last time.
        fn drain(&mut self) -> bool {
            let mut came = false;
            let mut bytes = [0; 4096];
            self.inputs.retain(|path, file| {
                loop {
                    match file.read(&mut bytes) {
                        Ok(0) => return path.exists(),
                        Ok(_) => came = true,
                        Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
                    }
                }
            });
            came
        }

        /// How long ago somebody typed into a terminal.
        fn typed(&self) -> Option<Duration> {
            let read = |path: PathBuf| fs::metadata(path).ok()?.accessed().ok();
            let last = self.terminals().into_iter().filter_map(read).max()?;
            // A clock that was set back makes it now.
            Some(SystemTime::now().duration_since(last).unwrap_or_default())
        }
    }

    impl Presence for Attended {
        fn idle(&mut self) -> Option<Duration> {
            self.find();
            if self.drain() {
                self.seen = Some(Instant::now());
            }
            let seen = self.seen.map(|seen| seen.elapsed());
            seen.into_iter().chain(self.typed()).min()
        }
    }

    fn files(folder: &Path, prefix: &str) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
        let named = |name: &std::ffi::OsStr| {
            let rest = name.to_str().and_then(|name| name.strip_prefix(prefix));
            rest.is_some_and(|rest| rest.bytes().next().is_some_and(|it| it.is_ascii_digit()))
        };
        entries.flatten().filter(|it| named(&it.file_name())).map(|it| it.path()).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::io::Write as _;
        use std::process::Command;

        #[test]
        fn what_comes_from_an_input_device_is_the_owner() {
            let folder = tempfile::tempdir().unwrap();
            let inputs = folder.path().join("input");
            fs::create_dir(&inputs).unwrap();
            let event = inputs.join("event0");
            assert!(Command::new("mkfifo").arg(&event).status().unwrap().success());
            let mut attended = Attended::at(folder.path());
            assert_eq!(attended.idle(), None, "nobody has done anything");
            let mut keyboard = OpenOptions::new().read(true).write(true).open(&event).unwrap();
            keyboard.write_all(&[1; 24]).unwrap();
            assert!(attended.idle().unwrap() < Duration::from_secs(5));
        }

        #[test]
        fn where_nothing_can_be_seen_of_the_owner_it_is_said() {
            let folder = tempfile::tempdir().unwrap();
            let sight = || Attended::at(folder.path()).sight();
            assert_eq!(sight(), Sight::Nothing);
            fs::create_dir(folder.path().join("input")).unwrap();
            // What is there and cannot be read is not seen.
            fs::create_dir(folder.path().join("pts")).unwrap();
            fs::write(folder.path().join("pts/0"), b"").unwrap();
            std::os::unix::fs::symlink("gone", folder.path().join("input/event0")).unwrap();
            assert_eq!(sight(), Sight::Terminals);
            fs::write(folder.path().join("input/event1"), b"").unwrap();
            assert_eq!(sight(), Sight::Inputs);
        }

        #[test]
        fn whoever_typed_into_a_terminal_is_the_owner() {
            let folder = tempfile::tempdir().unwrap();
            let terminals = folder.path().join("pts");
            fs::create_dir(&terminals).unwrap();
            fs::write(terminals.join("ptmx"), b"").unwrap();
            assert_eq!(Attended::at(folder.path()).idle(), None);
            let file = File::create(terminals.join("3")).unwrap();
            let hour = Duration::from_secs(3_600);
            let then = SystemTime::now().checked_sub(hour).unwrap();
            file.set_times(fs::FileTimes::new().set_accessed(then)).unwrap();
            let idle = Attended::at(folder.path()).idle().unwrap();
            assert!((hour..hour.saturating_mul(2)).contains(&idle), "{idle:?}");
        }
    }
}
