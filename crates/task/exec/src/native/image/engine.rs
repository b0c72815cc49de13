//! Images by name: a container engine of this machine hands one out, and does nothing more.
//!
//! The engine is asked which image a name means and how large it is, and writes it into a folder of
//! ours. From there on it is an image like any other: every part is checked, and it runs behind our
//! own walls (docs/adr/0022). Nothing is fetched from a registry here: a task must not make this
//! machine talk to others, so fetching is the owner's own act.

use super::{Image, ImageError, ImageLimits, find, is_digest, unpack};
use crate::native::probe::tool;
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process_group, set_parent_process_death_signal};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What an engine may see of our environment: where it keeps its images.
const ENVIRONMENT: [&str; 6] =
    ["DOCKER_HOST", "HOME", "PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"];
/// How long an engine may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long the daemon of one may take to answer that it is there.
const ANSWER: Duration = Duration::from_secs(5);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of what it says that are read.
const LONGEST: usize = 4096;
/// Reads of a stream at each look: together they take more than a pipe holds.
const READS: usize = 16;

/// Unpacks an image that an engine of this machine knows, or finds it in the cache.
pub fn named(name: &str, cache: &Path, limits: ImageLimits) -> Result<Image, ImageError> {
    let (engine, id) = knowing(name, limits)?;
    if let Some(image) = find(cache, &id) {
        return Ok(image);
    }
    let scratch = super::scratch(cache)?;
    let layout = scratch.path().join("layout");
    engine.save(name, &layout)?;
    let image = unpack(&layout, cache, limits)?;
    // Between the two questions the name may have been given to another image.
    if image.id == id { Ok(image) } else { Err(ImageError::Digest { digest: id }) }
}

/// Writes an image that an engine of this machine knows as a layout: a folder or one tar file.
pub fn save(name: &str, place: &Path, limits: ImageLimits) -> Result<(), ImageError> {
    knowing(name, limits)?.0.save(name, place)
}

/// The engine that an owner of this machine would use by hand; the one to install if there is none.
pub(super) fn usual() -> &'static str {
    Engine::all().first().map_or("podman", Engine::name)
}

/// Whether the daemon of docker answers, which is not waited for long; else what docker says.
pub fn docker_answers(program: &Path) -> Result<(), String> {
    let mut command = Engine::Docker(program.to_owned()).command();
    command.args(["version", "--format", "{{.Server.Version}}"]);
    finish(command, ANSWER).map(drop)
}

/// The engine that knows an image, and the image's id.
fn knowing(name: &str, limits: ImageLimits) -> Result<(Engine, String), ImageError> {
    if !is_name(name) {
        return Err(ImageError::Name { name: name.to_owned() });
    }
    let engines = Engine::all();
    if engines.is_empty() {
        return Err(ImageError::NoEngine { name: name.to_owned() });
    }
    let mut said = Vec::new();
    for engine in engines {
        let (id, size) = match engine.known(name) {
            Ok(known) => known,
            Err(why) => {
                said.push(engine.says(&why));
                continue;
            }
        };
        if size > limits.bytes {
            return Err(ImageError::TooMany { what: "bytes", limit: limits.bytes });
        }
        return Ok((engine, id));
    }
    Err(ImageError::Unknown { name: name.to_owned(), said: said.join("; ") })
}

/// A program that keeps images.
#[derive(Debug)]
enum Engine {
    Podman(PathBuf),
    Docker(PathBuf),
}

impl Engine {
    /// Those that are installed.
    fn all() -> Vec<Self> {
        let podman = tool("podman").map(Self::Podman);
        podman.into_iter().chain(tool("docker").map(Self::Docker)).collect()
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Podman(_) => "podman",
            Self::Docker(_) => "docker",
        }
    }

    /// What it says, in one line with its name.
    fn says(&self, why: &str) -> String {
        let name = self.name();
        let last = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing");
        format!("{name} says: {}", last.trim().trim_start_matches("Error: "))
    }

    fn command(&self) -> Command {
        let (Self::Podman(program) | Self::Docker(program)) = self;
        let mut command = Command::new(program);
        let kept = ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.env_clear().envs(kept).current_dir("/");
        command
    }

    /// The id and the size of an image, or what the engine says instead.
    fn known(&self, name: &str) -> Result<(String, u64), String> {
        let mut command = self.command();
        command.args(["image", "inspect", "--format", "{{.Id}} {{.Size}}", "--", name]);
        let said = finish(command, PATIENCE)?;
        let (id, size) = said.trim().split_once(' ').ok_or_else(|| said.clone())?;
        let id = id.strip_prefix("sha256:").unwrap_or(id);
        match size.parse() {
            Ok(size) if is_digest(id) => Ok((id.to_owned(), size)),
            _ => Err(said),
        }
    }

    /// Writes an image as a layout: a folder or one tar file.
    fn save(&self, name: &str, place: &Path) -> Result<(), ImageError> {
        let mut command = self.command();
        command.arg("save");
        if matches!(self, Self::Podman(_)) {
            command.args(["--quiet", "--format", "oci-dir"]);
        }
        command.arg("--output").arg(place).args(["--", name]);
        let failed =
            |why: String| ImageError::Unknown { name: name.to_owned(), said: self.says(&why) };
        finish(command, PATIENCE).map(drop).map_err(failed)
    }
}

/// Runs an engine to its end; gives what it says, or what it complains about.
fn finish(mut command: Command, patience: Duration) -> Result<String, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // It leads a group of its own, so that it can be ended with all that it started.
    command.process_group(0);
    let enter = || set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from);
    // SAFETY: between fork and exec it only makes a system call; it neither allocates nor locks.
    #[expect(unsafe_code, reason = "an engine ends with whoever asked it")]
    unsafe {
        command.pre_exec(enter);
    }
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let mut answer = Ear::new(child.stdout.take());
    let mut complaint = Ear::new(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        // Looked at first: all that it said before its end is heard after it.
        let looked = child.try_wait();
        answer.hear();
        complaint.hear();
        match looked {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if start.elapsed() < patience => std::thread::sleep(LOOK),
            Ok(None) => break Err(format!("it takes longer than {} s", patience.as_secs())),
            Err(error) => break Err(error.to_string()),
        }
    };
    if status.is_err() {
        // It may be gone already.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
        let _ = child.wait();
    }
    if status?.success() { Ok(answer.said()) } else { Err(complaint.said().trim().to_owned()) }
}

/// One stream of an engine. Nobody waits for its end: what the engine started may hold it open.
#[derive(Debug)]
struct Ear {
    stream: Option<File>,
    kept: Vec<u8>,
}

impl Ear {
    /// What cannot be read without waiting is not heard.
    fn new(stream: Option<impl Into<OwnedFd>>) -> Self {
        let stream = stream.map(Into::into).filter(|stream| ioctl_fionbio(stream, true).is_ok());
        Self { stream: stream.map(File::from), kept: Vec::new() }
    }

    /// Takes what is there, more than a pipe holds and not without an end: whoever is not read does
    /// not go on. Its beginning is kept.
    fn hear(&mut self) {
        let Some(stream) = &mut self.stream else { return };
        let mut chunk = [0; 8192];
        for _ in 0..READS {
            let Ok(count @ 1..) = stream.read(&mut chunk) else { return };
            let left = LONGEST.saturating_sub(self.kept.len());
            self.kept.extend(chunk.iter().take(count.min(left)));
        }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.kept).into_owned()
    }
}

/// A name that an engine takes for a name and nothing else.
fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/:@".contains(&byte);
    name.len() <= 255
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
        && name.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::{Engine, PATIENCE, finish, is_name, named};
    use crate::native::image::{ImageError, ImageLimits};
    use rustix::process::{Pid, Signal, kill_process};
    use std::process::Command;
    use std::time::{Duration, Instant};

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn an_engine_is_heard_to_its_end_and_only_its_beginning_is_kept() {
        let said = finish(shell("head -c 1000000 /dev/zero; echo no >&2; exit 1"), PATIENCE);
        assert_eq!(said, Err("no".to_owned()));
        let said = finish(shell("head -c 1000000 /dev/zero; echo no >&2"), PATIENCE);
        assert_eq!(said, Ok("\0".repeat(4096)));
    }

    #[test]
    fn whoever_an_engine_leaves_behind_holds_nobody_up() {
        let start = Instant::now();
        let said = finish(shell("sleep 300 & echo $!"), PATIENCE).unwrap();
        let left = Pid::from_raw(said.trim().parse().unwrap()).unwrap();
        // It still runs and has the stream open.
        kill_process(left, Signal::KILL).unwrap();
        assert!(start.elapsed() < Duration::from_secs(200));
    }

    #[test]
    fn an_engine_without_an_end_is_ended_with_what_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let told = folder.path().join("told");
        let script = format!("sleep 300 & echo $! > {}; wait", told.display());
        // Long enough to start, so that there is something to end.
        let refused = finish(shell(&script), Duration::from_secs(2));
        assert_eq!(refused, Err("it takes longer than 2 s".to_owned()));
        let number = std::fs::read_to_string(told).unwrap();
        let state = || {
            let path = format!("/proc/{}/stat", number.trim());
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.rsplit(") ").next().and_then(|rest| rest.chars().next())
        };
        let start = Instant::now();
        // Whoever inherits it may be slow to let go of it.
        while !matches!(state(), None | Some('Z' | 'X')) {
            assert!(start.elapsed() < Duration::from_secs(60), "{:?}", state());
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_engine_is_quoted_with_its_name_in_one_line() {
        let podman = Engine::Podman("/usr/bin/podman".into());
        let said = podman.says("WARN: old\nError: no such image\n");
        assert_eq!(said, "podman says: no such image");
        assert_eq!(Engine::Docker("docker".into()).says(""), "docker says: nothing");
    }

    #[test]
    fn a_name_is_no_option_and_no_path() {
        for name in ["python:3.12", "localhost/a/b:c", "a@sha256:00"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-o", "--help", "/etc", "a b", "a\nb", "../x", "$(x)", &"a".repeat(256)] {
            assert!(!is_name(name), "{name}");
            let cache = tempfile::tempdir().unwrap();
            let refused = named(name, cache.path(), ImageLimits::default());
            assert!(matches!(refused, Err(ImageError::Name { .. })), "{refused:?}");
        }
    }
}
