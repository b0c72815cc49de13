//! Images by name: a container engine of this machine hands one out, and does nothing more.
//!
//! The engine is asked which image a name means and how large it is, and writes it into a folder of
//! ours. From there on it is an image like any other: every part is checked, and it runs behind our
//! own walls (docs/adr/0022). Nothing is fetched from a registry here: a task must not make this
//! machine talk to others, so fetching is the owner's own act.

use super::{Image, ImageError, ImageLimits, find, is_digest, unpack};
use crate::native::probe::tool;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What an engine may see of our environment: where it keeps its images.
const ENVIRONMENT: [&str; 6] =
    ["DOCKER_HOST", "HOME", "PATH", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"];
/// How long an engine may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often it is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of what it says that are read.
const LONGEST: u64 = 4096;

/// Unpacks an image that an engine of this machine knows, or finds it in the cache.
pub fn named(name: &str, cache: &Path, limits: ImageLimits) -> Result<Image, ImageError> {
    if !is_name(name) {
        return Err(ImageError::Unknown { name: name.to_owned(), why: "it is no name".to_owned() });
    }
    let engines: Vec<_> = Engine::all();
    let mut why = "this machine has neither podman nor docker".to_owned();
    for engine in engines {
        let (id, size) = match engine.known(name) {
            Ok(known) => known,
            Err(said) => {
                why = said;
                continue;
            }
        };
        if size > limits.bytes {
            return Err(ImageError::TooMany { what: "bytes", limit: limits.bytes });
        }
        if let Some(image) = find(cache, &id) {
            return Ok(image);
        }
        let scratch = super::scratch(cache)?;
        let layout = scratch.path().join("layout");
        engine.save(name, &layout)?;
        let image = unpack(&layout, cache, limits)?;
        // Between the two questions the name may have been given to another image.
        return if image.id == id { Ok(image) } else { Err(ImageError::Digest { digest: id }) };
    }
    Err(ImageError::Unknown { name: name.to_owned(), why })
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
        let said = finish(command)?;
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
        let failed = |why| ImageError::Unknown { name: name.to_owned(), why };
        finish(command).map(drop).map_err(failed)
    }
}

/// Runs an engine to its end; gives what it says, or what it complains about.
fn finish(mut command: Command) -> Result<String, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // Both are read at once, and to their ends: whoever is not read does not go on.
    let complaint = std::thread::spawn(move || hear(stderr));
    let answer = std::thread::spawn(move || hear(stdout));
    let start = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Ok(status),
            Ok(None) if start.elapsed() < PATIENCE => std::thread::sleep(LOOK),
            Ok(None) => break Err(format!("it takes longer than {} s", PATIENCE.as_secs())),
            Err(error) => break Err(error.to_string()),
        }
    };
    if status.is_err() {
        // It may be gone already.
        let _ = child.kill();
        let _ = child.wait();
    }
    let (answer, complaint) =
        (answer.join().unwrap_or_default(), complaint.join().unwrap_or_default());
    if status?.success() { Ok(answer) } else { Err(complaint.trim().to_owned()) }
}

/// The beginning of a stream, which is read to its end.
fn hear(stream: Option<impl std::io::Read>) -> String {
    let mut kept = Vec::new();
    if let Some(mut stream) = stream {
        // What cannot be read is not said.
        let _ = stream.by_ref().take(LONGEST).read_to_end(&mut kept);
        let _ = std::io::copy(&mut stream, &mut std::io::sink());
    }
    String::from_utf8_lossy(&kept).into_owned()
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
    use super::{is_name, named};
    use crate::native::image::{ImageError, ImageLimits};

    #[test]
    fn a_name_is_no_option_and_no_path() {
        for name in ["python:3.12", "localhost/a/b:c", "a@sha256:00"] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", "-o", "--help", "/etc", "a b", "a\nb", "../x", "$(x)", &"a".repeat(256)] {
            assert!(!is_name(name), "{name}");
            let cache = tempfile::tempdir().unwrap();
            let refused = named(name, cache.path(), ImageLimits::default());
            assert!(matches!(refused, Err(ImageError::Unknown { .. })), "{refused:?}");
        }
    }
}
