//! What a guest is: its program, what it may see, and what it may use up.
//!
//! Checked in one place, before anything is built. What is not named here, a guest does not have:
//! no network, no device, no file but its root, its inputs and its own work folder.

use super::error::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

/// The work folder, inside.
pub const WORK: &str = "/work";
/// Where inputs appear, inside.
pub const INPUTS: &str = "/inputs";
/// Where layers of software appear, inside.
pub const LAYERS: &str = "/opt";
/// Where secrets appear, inside: on memory, readable by the guest alone.
pub const SECRETS: &str = "/run/secrets";

/// A command, and all that it is given.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The files that it finds as its system.
    pub root: Root,
    /// A path inside, or a name that is looked for in `/usr/local/bin`, `/usr/bin` and `/bin`.
    pub command: String,
    /// What follows the command.
    pub arguments: Vec<String>,
    /// Variables; only names that [`may_be_set`] knows.
    pub environment: BTreeMap<String, String>,
    /// Files and folders of this machine that it may read.
    pub inputs: Vec<Input>,
    /// Small files made of bytes that it may read.
    pub files: Vec<File>,
    /// Files that are never written to a disk.
    pub secrets: Vec<Secret>,
    /// Where its work folder is kept.
    pub work: Work,
    /// What it can reach.
    pub network: Network,
    /// What it may compute on.
    pub devices: Vec<Device>,
    /// What it may use up.
    pub limits: Limits,
}

impl Spec {
    /// A command on the system's own files, with nothing else.
    pub fn new(command: impl Into<String>, arguments: &[&str]) -> Self {
        Self {
            root: Root::System,
            command: command.into(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
            environment: BTreeMap::new(),
            inputs: Vec::new(),
            files: Vec::new(),
            secrets: Vec::new(),
            work: Work::Memory,
            network: Network::None,
            devices: Vec::new(),
            limits: Limits::default(),
        }
    }
}

/// The files that a guest finds as its system; it can change none of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// The programs and libraries of this machine, without its configuration, homes and data.
    System,
    /// The unpacked files of an image.
    Image(PathBuf),
}

/// A file or folder that a guest may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Where it is on this machine.
    pub source: PathBuf,
    /// Where it appears, below `/inputs` or `/opt`.
    pub place: PathBuf,
}

/// A small file that a guest may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    /// Where it appears, below `/inputs` or `/opt`.
    pub place: PathBuf,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// A file below [`SECRETS`], readable by the guest alone, gone with it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// A secret stays out of logs.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Where the one folder is kept that a guest may write to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// In memory: the kernel itself stops what is too much, and nothing can be left on a disk.
    Memory,
    /// In a folder of this machine, measured while the guest runs.
    Folder(PathBuf),
}

/// What a guest can reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Nothing but itself.
    None,
    /// The internet as well, but neither this machine nor what is near it. Only the owner grants it.
    Granted,
}

/// Something to compute on, lent to one guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Device {
    /// A device file of a GPU.
    Node(PathBuf),
    /// A device by the name that its vendor registered (CDI), such as `nvidia.com/gpu=0`.
    Named(String),
}

/// What a guest may use up. Each one is enforced; which one ended a guest is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of memory of all its processes together, files in memory included.
    pub memory: u64,
    /// Processes and threads at one time.
    pub processes: u64,
    /// Processor time of all its processes together.
    pub cpu: Duration,
    /// Time from its start.
    pub wall: Duration,
    /// Bytes of one file.
    pub file: u64,
    /// Bytes in the work folder.
    pub disk: u64,
    /// Files and folders in the work folder, and as many in its temporary folder.
    pub files: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Bytes that it writes to its two output streams together.
    pub streams: u64,
    /// Bytes in its temporary folder and, as many again, in its folder for memory of many
    /// processes.
    pub temporary: u64,
}

/// For a small task.
impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 512 << 20,
            processes: 64,
            cpu: Duration::from_secs(60),
            wall: Duration::from_secs(60),
            file: 256 << 20,
            disk: 256 << 20,
            files: 10_000,
            open_files: 256,
            streams: 1 << 20,
            temporary: 64 << 20,
        }
    }
}

/// Most of everything that a task lists.
const MOST_LISTED: usize = 64;
/// Bytes of one argument, variable or command.
const LONGEST_TEXT: usize = 4096;
/// Bytes of one file that is made of bytes, and of one secret.
const LARGEST_FILE: usize = 1 << 20;
/// Arguments.
const MOST_ARGUMENTS: usize = 1024;

/// Names that change how a runtime computes and not what it loads.
const VARIABLES: [&str; 10] = [
    "CUDA_VISIBLE_DEVICES",
    "LANG",
    "LC_ALL",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "PYTHONHASHSEED",
    "PYTHONUNBUFFERED",
    "TERM",
    "TZ",
];
/// What a task's own names start with, and ours.
const PREFIXES: [&str; 2] = ["TASK_", "OPENGPU_"];

/// Whether a task may set a variable. It is a list of what is harmless and not of what harms:
/// loaders and runtimes learn new hooks faster than a list of harms would.
pub fn may_be_set(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    VARIABLES.contains(&name)
        || (name.len() <= 64
            && name.bytes().all(plain)
            && PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// Whether a task may have what it asks for.
pub(super) fn check(spec: &Spec) -> Result<(), Refusal> {
    let counts = [
        ("arguments", spec.arguments.len(), MOST_ARGUMENTS),
        ("variables", spec.environment.len(), MOST_LISTED),
        ("inputs", spec.inputs.len(), MOST_LISTED),
        ("files", spec.files.len(), MOST_LISTED),
        ("secrets", spec.secrets.len(), MOST_LISTED),
        ("devices", spec.devices.len(), MOST_LISTED),
    ];
    for (what, count, limit) in counts {
        within(what, count, limit)?;
    }
    for text in std::iter::once(&spec.command).chain(&spec.arguments) {
        check_text(text, text)?;
    }
    for (name, value) in &spec.environment {
        if !may_be_set(name) {
            return Err(Refusal::Variable { name: name.clone() });
        }
        check_text(name, value)?;
    }
    let places = spec.inputs.iter().map(|input| &input.place);
    for place in places.chain(spec.files.iter().map(|file| &file.place)) {
        check_place(place)?;
    }
    let mut names = BTreeSet::new();
    for secret in &spec.secrets {
        if !is_plain(&secret.name) || !names.insert(&secret.name) {
            return Err(Refusal::SecretName { name: secret.name.clone() });
        }
        within("bytes of a secret", secret.bytes.len(), LARGEST_FILE)?;
    }
    for file in &spec.files {
        within("bytes of a file", file.bytes.len(), LARGEST_FILE)?;
    }
    Ok(())
}

fn within(what: &'static str, count: usize, limit: usize) -> Result<(), Refusal> {
    if count <= limit {
        return Ok(());
    }
    let wide = |size: usize| u64::try_from(size).unwrap_or(u64::MAX);
    Err(Refusal::TooMany { what, count: wide(count), limit: wide(limit) })
}

fn check_text(name: &str, text: &str) -> Result<(), Refusal> {
    if text.len() > LONGEST_TEXT || text.contains('\0') {
        let name = name.chars().take(64).collect();
        return Err(Refusal::Value { name });
    }
    Ok(())
}

/// Below one of the two folders, with plain names only.
fn check_place(place: &Path) -> Result<(), Refusal> {
    let refusal = || Refusal::Place { place: place.to_owned() };
    let rest = [INPUTS, LAYERS].iter().find_map(|folder| place.strip_prefix(folder).ok());
    let rest = rest.ok_or_else(refusal)?;
    let plain = |part: Component<'_>| match part {
        Component::Normal(name) => name.to_str().is_some_and(is_plain),
        _ => false,
    };
    if rest.as_os_str().is_empty() || !rest.components().all(plain) {
        return Err(refusal());
    }
    Ok(())
}

/// A name of one file, without surprises.
pub(super) fn is_plain(name: &str) -> bool {
    let byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
    !name.is_empty() && name.len() <= 128 && !name.starts_with('.') && name.bytes().all(byte)
}

#[cfg(test)]
mod tests {
    use super::{File, Limits, Refusal, Secret, Spec, check, may_be_set};

    #[test]
    fn variables_that_load_code_are_refused_and_own_names_are_not() {
        let hooks = ["LD_PRELOAD", "LD_AUDIT", "PYTHONSTARTUP", "PYTHONPATH", "BASH_ENV", "PATH"];
        for name in hooks.into_iter().chain(["GLIBC_TUNABLES", "NODE_OPTIONS", "", "TASK_a"]) {
            assert!(!may_be_set(name), "{name}");
        }
        assert!(["TZ", "PYTHONHASHSEED", "TASK_SEED", "OPENGPU_FROM"].into_iter().all(may_be_set));
        let mut spec = Spec::new("true", &[]);
        spec.environment.insert("LD_PRELOAD".into(), "x.so".into());
        assert_eq!(check(&spec), Err(Refusal::Variable { name: "LD_PRELOAD".into() }));
    }

    #[test]
    fn a_file_has_its_place_below_the_inputs() {
        let at = |place: &str| {
            let mut spec = Spec::new("true", &[]);
            spec.files.push(File { place: place.into(), bytes: Vec::new() });
            check(&spec)
        };
        assert_eq!(at("/inputs/a/model.gguf"), Ok(()));
        for place in ["/inputs", "/inputs/../etc", "/etc/passwd", "inputs/a", "/inputs/.hidden"] {
            assert!(matches!(at(place), Err(Refusal::Place { .. })), "{place}");
        }
    }

    #[test]
    fn a_secret_is_named_plainly_once_and_never_shown() {
        let secret = |name: &str| Secret { name: name.into(), bytes: b"hunter2".to_vec() };
        let mut spec = Spec::new("true", &[]);
        spec.secrets = vec![secret("token")];
        assert_eq!(check(&spec), Ok(()));
        assert!(!format!("{spec:?}").contains("hunter2"));
        assert!(!format!("{spec:?}").contains("104, 117"));
        for names in [vec!["../token"], vec![""], vec!["a", "a"]] {
            spec.secrets = names.into_iter().map(secret).collect();
            assert!(matches!(check(&spec), Err(Refusal::SecretName { .. })));
        }
    }

    #[test]
    fn everything_that_is_listed_has_an_end() {
        let mut spec = Spec::new("true", &[]);
        spec.arguments = vec![String::new(); 1025];
        let refusal = Refusal::TooMany { what: "arguments", count: 1025, limit: 1024 };
        assert_eq!(check(&spec), Err(refusal));
        let long = "x".repeat(5000);
        assert!(matches!(check(&Spec::new(long, &[])), Err(Refusal::Value { .. })));
        assert!(matches!(check(&Spec::new("a\0b", &[])), Err(Refusal::Value { .. })));
        assert!(Limits::default().memory > 0);
    }
}
