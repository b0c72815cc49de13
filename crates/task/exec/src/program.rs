//! Programs: a folder with a manifest, addressed by its content.
//!
//! `program.toml` says of what kind a program is, which files it consists of, how two executions are
//! compared, and what it may use. Its id covers the manifest's bytes and the address of every file that the
//! manifest names, so another comma is another program. The default input is no part of it.

mod manifest;
mod size;

pub use manifest::{Class, Limits, Manifest, Picture};
pub use opengpu_types::ProgramKind as Kind;
pub use size::{ByteSize, NoSize};

use crate::artifact;
use crate::fault::Refusal;
use opengpu_types::{ArtifactId, ProgramId};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

/// Name of the manifest in a program's folder.
pub const MANIFEST: &str = "program.toml";
/// Bytes of the largest manifest.
const MANIFEST_LIMIT: u64 = 64 * 1024;
/// Role of a kernel's buffer that survives from step to step.
const STATE: &str = "state";

/// A program as it lies on this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its address.
    pub id: ProgramId,
    /// What it says of itself.
    pub manifest: Manifest,
    folder: PathBuf,
    files: BTreeMap<String, ArtifactId>,
}

impl Program {
    /// Reads the program in a folder; a path to the manifest itself is good, too.
    pub fn open(path: &Path) -> Result<Self, Refusal> {
        let folder = if path.file_name().is_some_and(|name| name == MANIFEST) {
            path.parent().unwrap_or(Path::new("."))
        } else {
            path
        };
        let place = folder.join(MANIFEST);
        let text = artifact::read(&place, MANIFEST_LIMIT)
            .map_err(|reason| file_refusal(&place.display().to_string(), reason))?;
        let manifest = Manifest::parse(&text)?;
        let mut files = BTreeMap::new();
        for name in manifest.files() {
            let path = inside(folder, name)?;
            let id =
                artifact::address(&path).map_err(|error| unread(manifest.kind, name, &error))?;
            files.insert(name.to_owned(), id);
        }
        let id = program_id(&text, &files);
        Ok(Self { id, manifest, folder: folder.to_owned(), files })
    }

    /// Where its folder is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Its files and their addresses, without the manifest.
    pub const fn files(&self) -> &BTreeMap<String, ArtifactId> {
        &self.files
    }

    /// Where one of its files is.
    pub fn path(&self, name: &str) -> Result<PathBuf, Refusal> {
        inside(&self.folder, name)
    }

    /// The bytes of one of its files, checked against their address.
    pub fn read(&self, name: &str, limit: u64) -> Result<Vec<u8>, Refusal> {
        let path = self.path(name)?;
        let bytes = artifact::read(&path, limit).map_err(|reason| file_refusal(name, reason))?;
        if self.files.get(name) != Some(&ArtifactId::of(&bytes)) {
            return Err(file_refusal(name, "it has changed since it was opened"));
        }
        Ok(bytes)
    }

    /// The settings of its kind.
    pub fn settings<T: DeserializeOwned>(&self) -> Result<T, Refusal> {
        let Manifest { kind, settings, .. } = &self.manifest;
        toml::Value::Table(settings.clone())
            .try_into()
            .map_err(|error| Refusal::program(format_args!("[{kind}]: {error}")))
    }

    /// Whether its input is the archive of a folder, which a run finds unpacked.
    pub fn takes_folder(&self) -> bool {
        let Manifest { kind, settings, .. } = &self.manifest;
        *kind == Kind::Native && settings.get("input").and_then(|it| it.as_str()) == Some("folder")
    }

    /// Whether a run of it can use several devices at once: a kernel, unless it has a state.
    pub fn spreads(&self) -> bool {
        let Manifest { kind, settings, .. } = &self.manifest;
        let buffers = settings.get("buffer").and_then(|it| it.as_array());
        let role = |buffer: &toml::Value| buffer.get("role")?.as_str().map(|it| it == STATE);
        let state = buffers.is_some_and(|all| all.iter().any(|it| role(it) == Some(true)));
        kind.spreads() && !state
    }

    /// The file that its manifest calls its code.
    pub fn code(&self, limit: u64) -> Result<Vec<u8>, Refusal> {
        let Some(code) = &self.manifest.code else {
            return Err(Refusal::program("the manifest names no `code`"));
        };
        self.read(code, limit)
    }
}

fn program_id(manifest: &[u8], files: &BTreeMap<String, ArtifactId>) -> ProgramId {
    ProgramId::of(manifest, files.iter().map(|(name, id)| (name.as_str(), id)))
}

fn file_refusal(name: &str, reason: impl std::fmt::Display) -> Refusal {
    Refusal::File { file: name.to_owned(), reason: reason.to_string() }
}

/// Why a file has no address. Models are not carried around with programs, so a missing one comes with
/// the way to it.
fn unread(kind: Kind, name: &str, error: &io::Error) -> Refusal {
    let has_models = matches!(kind, Kind::Llm | Kind::Onnx);
    if !has_models || error.kind() != io::ErrorKind::NotFound {
        return file_refusal(name, error);
    }
    let reason = "it is neither in the program's folder nor in the folder of models \
                  (OPENGPU_MODELS); `cargo xtask models` fetches those of the examples";
    file_refusal(name, reason)
}

/// A name in a manifest never leaves its folder, or the folder of models: what many programs share and
/// no program carries around. It is addressed by its content all the same. A link that lies there was
/// made on this machine, as `opengpu serve` does for a model elsewhere, and is followed.
fn inside(folder: &Path, name: &str) -> Result<PathBuf, Refusal> {
    let plain = |part| matches!(part, Component::Normal(_));
    if name.is_empty() || !Path::new(name).components().all(plain) {
        return Err(file_refusal(name, "a file of a program lies in its folder"));
    }
    let own = folder.join(name);
    let shared = models().map(|models| models.join(name));
    Ok(if own.exists() { own } else { shared.filter(|path| path.exists()).unwrap_or(own) })
}

/// Names the folder of models.
pub const MODELS: &str = "OPENGPU_MODELS";

/// Where the models of this machine are.
pub fn models() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let cache = || folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    folder(MODELS).or_else(|| Some(cache()?.join("opengpu").join("models")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const TEXT: &str = "name = 'a'\nkind = 'wasm'\ncode = 'a.wasm'\nclass = 'exact'\n";

    fn folder(manifest: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(MANIFEST), manifest).unwrap();
        fs::write(folder.path().join("a.wasm"), b"code").unwrap();
        folder
    }

    #[test]
    fn an_id_covers_the_manifest_and_every_file_it_names() {
        let base = folder(TEXT);
        let program = Program::open(base.path()).unwrap();
        assert_eq!(Program::open(&base.path().join(MANIFEST)).unwrap(), program);
        assert_ne!(Program::open(folder(&format!("{TEXT}\n")).path()).unwrap().id, program.id);
        fs::write(base.path().join("input"), b"no part of it").unwrap();
        assert_eq!(Program::open(base.path()).unwrap().id, program.id);
        fs::write(base.path().join("a.wasm"), b"Code").unwrap();
        assert_ne!(Program::open(base.path()).unwrap().id, program.id);
    }

    #[test]
    fn a_file_that_changed_after_it_was_opened_is_not_read() {
        let base = folder(TEXT);
        let program = Program::open(base.path()).unwrap();
        assert_eq!(program.code(100).unwrap(), b"code");
        assert!(matches!(program.code(3), Err(Refusal::File { .. })), "over the limit");
        fs::write(base.path().join("a.wasm"), b"Code").unwrap();
        assert!(matches!(program.code(100), Err(Refusal::File { .. })));
    }

    #[test]
    fn a_missing_model_comes_with_the_way_to_it_and_other_files_do_not() {
        let reason = |kind: &str| {
            let base = folder(&TEXT.replace("a.wasm", "missing").replace("'wasm'", kind));
            Program::open(base.path()).unwrap_err().to_string()
        };
        for kind in ["'llm'", "'onnx'"] {
            let reason = reason(kind);
            assert!(reason.starts_with("missing: "), "{reason}");
            assert!(reason.contains("`cargo xtask models`"), "{reason}");
        }
        assert!(!reason("'wasm'").contains("models"));
    }

    #[test]
    fn a_manifest_names_nothing_outside_of_its_folder() {
        for name in ["../a.wasm", "/etc/passwd", "", "x/../../a", "."] {
            let base = folder(&TEXT.replace("a.wasm", name));
            assert!(matches!(Program::open(base.path()), Err(Refusal::File { .. })), "{name}");
        }
    }
}
