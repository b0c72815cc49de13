//! Programs that come with the binary, so that whoever has nothing else can run something.

use crate::{exec, exit::Complaint};
use anyhow::{Context as _, Result};
use opengpu_exec::{Program, artifact};
use std::path::Path;

/// What judges the output of a program, beside it.
const PREDICATE: &str = "predicate.wasm";
/// Bytes of what is read as one; smaller ones may still be too large for the chain.
const MOST_PREDICATE: u64 = 1 << 20;

/// A program by its files.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    files: &'static [(&'static str, &'static [u8])],
    /// What judges its output, if there is such a thing.
    predicate: Option<&'static [u8]>,
}

macro_rules! example {
    ($name:literal: $($file:literal),*) => {
        Example {
            name: $name,
            files: &[$((
                $file,
                include_bytes!(concat!("../../../../examples/", $name, "/", $file)),
            )),*],
            predicate: None,
        }
    };
}

pub(crate) const PATH_TRACER: Example = example!("path-tracer": "program.toml", "kernel.wgsl");
pub(crate) const TRAIN_DIGITS: Example = example!("train-digits": "program.toml");
pub(crate) const SHA256_SEARCH: Example = Example {
    predicate: Some(include_bytes!("../../../../examples/sha256-search/predicate.wasm")),
    ..example!("sha256-search": "program.toml", "program.wasm", "input.txt")
};
const ALL: [Example; 3] = [PATH_TRACER, TRAIN_DIGITS, SHA256_SEARCH];

impl Example {
    /// Writes its files into the folder of examples.
    pub(crate) fn unpack(&self, home: &Path) -> Result<Program> {
        let folder = home.join("examples").join(self.name);
        std::fs::create_dir_all(&folder)?;
        for (name, bytes) in self.files {
            artifact::write(&folder.join(name), bytes)?;
        }
        Ok(Program::open(&folder)?)
    }
}

/// A program by its path, or an example by its name if there is no such path.
pub(crate) fn open(home: &Path, path: &Path) -> Result<Program> {
    if !path.exists()
        && let Some(example) = ALL.into_iter().find(|it| Path::new(it.name) == path)
    {
        return example.unpack(home);
    }
    match exec::existing(path) {
        Ok(path) => Ok(Program::open(path)?),
        Err(_) if !path.exists() => {
            let names: Vec<_> = ALL.into_iter().map(|it| it.name).collect();
            let told = format!("{}: there is no such program", path.display());
            let hint = format!(
                "name a folder with a program.toml, a script, image:NAME, or an example: {}",
                names.join(", ")
            );
            Err(Complaint::usage(told).hint(hint).into())
        }
        Err(error) => Err(error),
    }
}

/// What judges an output: a module, the folder of a program that has one, or an example by its name.
pub(crate) fn predicate(path: &Path) -> Result<Vec<u8>> {
    let example = || ALL.into_iter().find(|it| Path::new(it.name) == path)?.predicate;
    let file = if path.is_dir() { path.join(PREDICATE) } else { path.to_owned() };
    match (file.exists(), example()) {
        (false, Some(module)) => Ok(module.to_vec()),
        (true, _) => {
            let read = artifact::read(&file, MOST_PREDICATE);
            Ok(read.with_context(|| format!("reading {}", file.display()))?)
        }
        (false, None) => {
            let told = format!("{}: there is no such predicate", file.display());
            let with = ALL.into_iter().filter(|it| it.predicate.is_some()).map(|it| it.name);
            let names = with.collect::<Vec<_>>().join(", ");
            let hint = format!("name a module in WebAssembly, or an example that has one: {names}");
            Err(Complaint::usage(told).hint(hint).into())
        }
    }
}

/// Whether an example has this name.
pub(crate) fn is_name(path: &Path) -> bool {
    ALL.iter().any(|example| Path::new(example.name) == path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_the_same_programs_as_in_their_folders() {
        let home = tempfile::tempdir().unwrap();
        for example in ALL {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
            let own = Program::open(&folder.join(example.name)).unwrap();
            let program = open(home.path(), Path::new(example.name)).unwrap();
            assert_eq!(program.id, own.id, "{}", example.name);
            assert_eq!(open(home.path(), own.folder()).unwrap().id, own.id);
        }
        let error = open(home.path(), Path::new("nothing")).unwrap_err();
        assert!(error.to_string().contains("no such program"), "{error}");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/sha256-search");
        let named = predicate(Path::new("sha256-search")).unwrap();
        assert_eq!(named, predicate(&folder).unwrap());
        assert_eq!(named, predicate(&folder.join(PREDICATE)).unwrap());
        let error = predicate(Path::new("path-tracer")).unwrap_err();
        assert!(error.to_string().contains("no such predicate"), "{error}");
    }
}
