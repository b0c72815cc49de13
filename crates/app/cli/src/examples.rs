//! Programs that come with the binary, so that whoever has nothing else can run something.

use crate::{exec, exit::Complaint};
use anyhow::Result;
use opengpu_exec::{Program, artifact};
use std::path::{Path, PathBuf};

/// A program by its files.
pub(crate) struct Example {
    pub(crate) name: &'static str,
    files: &'static [(&'static str, &'static [u8])],
}

macro_rules! example {
    ($name:literal: $($file:literal),*) => {
        Example {
            name: $name,
            files: &[$((
                $file,
                include_bytes!(concat!("../../../../examples/", $name, "/", $file)),
            )),*],
        }
    };
}

pub(crate) const PATH_TRACER: Example = example!("path-tracer": "program.toml", "kernel.wgsl");
pub(crate) const TRAIN_DIGITS: Example = example!("train-digits": "program.toml");
const SHA256_SEARCH: Example =
    example!("sha256-search": "program.toml", "program.wasm", "input.txt");
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
            let hint =
                format!("name a folder with a program.toml, or an example: {}", names.join(", "));
            Err(Complaint::usage(told).hint(hint).into())
        }
        Err(error) => Err(error),
    }
}

/// Where a program is, for commands that take its folder.
pub(crate) fn folder(home: &Path, path: &Path) -> Result<PathBuf> {
    Ok(open(home, path)?.folder().to_owned())
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
    }
}
