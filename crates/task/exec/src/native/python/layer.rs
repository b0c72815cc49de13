//! Packages that a task asks for, as a folder that can be mounted: made once, kept by content.
//!
//! Made in two steps, because each of them may not have what the other needs:
//!
//! 1. *Fetch*, outside, with the network: the provider's own pip downloads wheels and unpacks nothing.
//!    Only wheels, since building a package from source runs its code. Only pinned names, since an
//!    option or an address in the file would choose where to download from.
//! 2. *Unpack*, inside a sandbox, without network: what is in the wheels is a stranger's, and an
//!    archive that never ends meets the limits of a guest.
//!
//! Inside alone would need the network and the provider's access to its index in reach of a guest;
//! outside alone would unpack a stranger's archives with our rights.

use super::super::error::SandboxError;
use super::super::guest::How;
use super::super::spec::{File, Input, Limits, Spec, Work};
use super::super::{Guest, Sandbox};
use super::Environment;
use crate::scratch::Scratch;
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Packages, each with its version: what `requirements.txt` may say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirements(Vec<String>);

/// A line that is not `name==version`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequirementsError {
    /// An option, an address, a path, or no version.
    #[error("line {line} of the requirements is not `name==version`, with hashes if wanted")]
    Line {
        /// Counted from one.
        line: usize,
    },
    /// More lines than anybody needs.
    #[error("the requirements have more than {limit} lines")]
    TooMany {
        /// The most.
        limit: usize,
    },
}

/// Lines of one file.
const MOST_LINES: usize = 512;
/// Bytes of one line.
const LONGEST_LINE: usize = 1024;

impl Requirements {
    /// Reads the file of a task. The order of lines, comments and spaces do not matter.
    pub fn parse(text: &str) -> Result<Self, RequirementsError> {
        let mut lines = Vec::new();
        for (number, line) in text.lines().enumerate() {
            if number >= MOST_LINES {
                return Err(RequirementsError::TooMany { limit: MOST_LINES });
            }
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if line.len() > LONGEST_LINE || !is_pinned(line) {
                return Err(RequirementsError::Line { line: number.saturating_add(1) });
            }
            lines.push(line.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        lines.sort();
        lines.dedup();
        Ok(Self(lines))
    }

    fn text(&self) -> String {
        self.0.join("\n") + "\n"
    }
}

fn is_pinned(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let Some((name, version)) = words.next().and_then(|word| word.split_once("==")) else {
        return false;
    };
    let (name, extras) = match name.split_once('[') {
        Some((name, extras)) => (name, extras.strip_suffix(']').unwrap_or("[")),
        None => (name, "x"),
    };
    let made_of = |text: &str, more: &[u8]| {
        let known = |byte: u8| byte.is_ascii_alphanumeric() || more.contains(&byte);
        !text.is_empty() && text.bytes().all(known) && !text.starts_with(['-', '.'])
    };
    let is_hash = |word: &str| {
        let digest = word.strip_prefix("--hash=sha256:");
        digest.is_some_and(|digest| {
            digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit())
        })
    };
    made_of(name, b"._-")
        && made_of(extras, b"._-,")
        && made_of(version, b"._-+!")
        && words.all(is_hash)
}

/// Where wheels come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wheels {
    /// From the index that the provider's pip is set up for; the path is a Python that has it.
    Index(PathBuf),
    /// From a folder of the provider, with a wheel of pip among them.
    Folder(PathBuf),
}

/// A folder of packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Where it is on this machine.
    pub folder: PathBuf,
}

/// Why there is no layer.
#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    /// The index does not have them as wheels, or cannot be reached.
    #[error("the packages could not be fetched: {said}")]
    Fetch {
        /// The end of what pip said.
        said: String,
    },
    /// They do not fit together, or hold more than is allowed.
    #[error("the packages could not be unpacked ({how:?}): {said}")]
    Unpack {
        /// How the guest ended.
        how: How,
        /// The end of what pip said.
        said: String,
    },
    /// The sandbox.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// This machine.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The refusal.
        #[source]
        error: io::Error,
    },
}

/// The layers that this machine keeps.
#[derive(Clone, Debug)]
pub struct Layers {
    folder: PathBuf,
    wheels: Wheels,
}

/// What unpacking may use up.
const LIMITS: Limits = Limits {
    memory: 2 << 30,
    processes: 64,
    cpu: Duration::from_secs(300),
    wall: Duration::from_secs(600),
    file: 4 << 30,
    disk: 16 << 30,
    files: 300_000,
    open_files: 1024,
    streams: 4 << 20,
    temporary: 64 << 20,
};
/// Every scratch folder starts with this.
const SCRATCH: &str = ".layer-";
/// How long a download may take.
const PATIENCE: Duration = Duration::from_secs(900);

impl Layers {
    /// Keeps layers in a folder that the user of the sandbox can reach.
    pub const fn new(folder: PathBuf, wheels: Wheels) -> Self {
        Self { folder, wheels }
    }

    /// The layer with these packages for this interpreter; made if it is not kept yet.
    pub fn provide(
        &self,
        sandbox: &Sandbox,
        environment: &Environment,
        requirements: &Requirements,
    ) -> Result<Layer, LayerError> {
        let version = Spec::new(environment.interpreter.clone(), &["-VV"]);
        let version = sandbox.start(version).and_then(Guest::output)?.stdout;
        let mut hasher = Sha256::new();
        for part in [version.as_slice(), requirements.text().as_bytes()] {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hasher.update(part);
        }
        let folder = self.folder.join(hex::encode(hasher.finalize()));
        if folder.is_dir() {
            return Ok(Layer { folder });
        }
        let scratch = Scratch::make(&self.folder, SCRATCH);
        let scratch = scratch.map_err(system("making a folder for layers"))?;
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(scratch.path(), open).map_err(system("opening a folder"))?;
        let wheels = match &self.wheels {
            Wheels::Folder(folder) => folder.clone(),
            Wheels::Index(python) => fetch(python, requirements, scratch.path())?,
        };
        let unpacked = unpack(sandbox, environment, requirements, &wheels, scratch.path())?;
        match fs::rename(unpacked, &folder) {
            // Somebody else was faster with the same packages.
            Err(_) if folder.is_dir() => {}
            other => other.map_err(system("keeping a layer"))?,
        }
        Ok(Layer { folder })
    }
}

/// Downloads wheels, and pip itself as one of them, and unpacks none.
fn fetch(
    python: &Path,
    requirements: &Requirements,
    scratch: &Path,
) -> Result<PathBuf, LayerError> {
    let (wheels, list) = (scratch.join("wheels"), scratch.join("requirements.txt"));
    fs::create_dir(&wheels).map_err(system("making a folder"))?;
    fs::write(&list, requirements.text()).map_err(system("writing requirements"))?;
    let said = scratch.join("said");
    let errors = fs::File::create(&said).map_err(system("making a file"))?;
    for what in [[Path::new("-r"), &list], [Path::new("--no-deps"), Path::new("pip")]] {
        let mut command = Command::new(python);
        command.args(["-m", "pip", "download", "--quiet", "--no-input", "--only-binary", ":all:"]);
        command.args(["--disable-pip-version-check", "--dest"]).arg(&wheels).args(what);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(errors.try_clone().map_err(system("making a file"))?);
        if !ends_well(&mut command)? {
            return Err(LayerError::Fetch { said: end_of(&fs::read(&said).unwrap_or_default()) });
        }
    }
    Ok(wheels)
}

fn ends_well(command: &mut Command) -> Result<bool, LayerError> {
    let start = Instant::now();
    let mut child = command.spawn().map_err(system("starting pip"))?;
    loop {
        if let Some(status) = child.try_wait().map_err(system("waiting for pip"))? {
            return Ok(status.success());
        }
        if start.elapsed() > PATIENCE {
            // It may have ended in this moment.
            let _ = child.kill();
            let _ = child.wait();
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Unpacks wheels inside a sandbox, and gives the folder.
fn unpack(
    sandbox: &Sandbox,
    environment: &Environment,
    requirements: &Requirements,
    wheels: &Path,
    scratch: &Path,
) -> Result<PathBuf, LayerError> {
    let pip = fs::read_dir(wheels).map_err(system("reading wheels"))?.flatten();
    let mut pip = pip.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let pip = pip.find(|name| name.starts_with("pip-") && name.ends_with(".whl"));
    let missing = || LayerError::Fetch { said: "there is no wheel of pip among them".into() };
    let pip = format!("/inputs/wheels/{}/pip", pip.ok_or_else(missing)?);
    let work = scratch.join("work");
    fs::create_dir(&work).map_err(system("making a folder"))?;
    // pip collects in the temporary folder, which is too small for frameworks.
    let mut arguments = vec!["TMPDIR=/work", &environment.interpreter, "-I", "-B", &pip];
    arguments.extend(["install", "--no-index", "--find-links", "/inputs/wheels", "--no-compile"]);
    arguments.extend([
        "--no-cache-dir",
        "--disable-pip-version-check",
        "--no-warn-script-location",
    ]);
    arguments.extend(["--target", "/work/packages", "-r", "/opt/requirements.txt"]);
    let mut spec = Spec::new("env", &arguments);
    spec.inputs.push(Input { source: wheels.to_owned(), place: "/inputs/wheels".into() });
    let bytes = requirements.text().into_bytes();
    spec.files.push(File { place: "/opt/requirements.txt".into(), bytes });
    spec.work = Work::Folder(work.clone());
    spec.limits = LIMITS;
    let finished = sandbox.start(spec)?.output()?;
    let packages = work.join("packages");
    let plain = packages.symlink_metadata().is_ok_and(|found| found.is_dir());
    if finished.ended.how != How::Exited(0) || !plain {
        let said = end_of(&finished.stderr);
        return Err(LayerError::Unpack { how: finished.ended.how, said });
    }
    Ok(packages)
}

/// The last lines are the ones that say why.
fn end_of(said: &[u8]) -> String {
    let start = said.len().saturating_sub(2000);
    String::from_utf8_lossy(said.get(start..).unwrap_or_default()).trim().to_owned()
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> LayerError {
    move |error| LayerError::System { what, error }
}

#[cfg(test)]
mod tests {
    use super::{Requirements, RequirementsError};

    #[test]
    fn pinned_names_are_taken_in_one_form() {
        let hash = "a".repeat(64);
        let text = format!(
            "numpy==2.1.0  # for arrays\n\nscipy[dev]==1.0+cpu   --hash=sha256:{hash}\nnumpy==2.1.0"
        );
        let read = Requirements::parse(&text).unwrap();
        assert_eq!(
            read.text(),
            format!("numpy==2.1.0\nscipy[dev]==1.0+cpu --hash=sha256:{hash}\n")
        );
    }

    #[test]
    fn whatever_would_choose_the_source_is_refused() {
        for line in [
            "--index-url=http://elsewhere",
            "-r other.txt",
            "-e .",
            "numpy",
            "numpy>=1",
            "evil @ http://elsewhere/evil.whl",
            "git+https://elsewhere/evil",
            "./evil.whl",
            "numpy==1 --global-option=x",
            "numpy==1 ; python_version > '3'",
            "numpy[==1",
            "-x==1",
        ] {
            assert_eq!(
                Requirements::parse(line),
                Err(RequirementsError::Line { line: 1 }),
                "{line}"
            );
        }
        let many = "a==1\n".repeat(600);
        assert!(matches!(Requirements::parse(&many), Err(RequirementsError::TooMany { .. })));
    }
}
