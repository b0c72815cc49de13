//! What tidy looks at: members of the workspace and text files of the repository, read once.
//!
//! Files are those that git tracks or would track, so build output and scratch folders stay out.
//! Paths are relative to the root and use `/`.

use crate::{cargo, process};
use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::process::Command;

/// Kinds of files whose text some rule reads.
const TEXT: [&str; 6] = [".rs", ".md", ".toml", ".sh", ".yml", ".ci/run"];

/// Everything the rules may look at.
#[derive(Debug, Default)]
pub(super) struct Workspace {
    pub(super) crates: Vec<Crate>,
    pub(super) files: Vec<TextFile>,
    /// Every file and every folder, whatever its kind.
    pub(super) paths: BTreeSet<String>,
}

/// A member of the workspace.
#[derive(Debug)]
pub(super) struct Crate {
    pub(super) package: String,
    /// Path of its `Cargo.toml`.
    pub(super) manifest: String,
    pub(super) dependencies: Vec<Dependency>,
}

/// What a member depends on.
#[derive(Debug)]
pub(super) struct Dependency {
    pub(super) package: String,
    /// Needed by tests only.
    pub(super) dev: bool,
}

/// A file that was read.
#[derive(Debug)]
pub(super) struct TextFile {
    pub(super) path: String,
    pub(super) text: String,
}

impl TextFile {
    /// Lines with their numbers, counted from 1.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }
}

impl Crate {
    /// The folder of the member, without a trailing slash.
    pub(super) fn folder(&self) -> &str {
        self.manifest.strip_suffix("/Cargo.toml").unwrap_or_default()
    }
}

impl Workspace {
    pub(super) fn read() -> Result<Self> {
        let root = process::root();
        let list = process::read(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
                .current_dir(root),
        )?;
        let mut workspace = Self { crates: crates()?, ..Self::default() };
        for path in list.split('\0').filter(|path| !path.is_empty()) {
            let file = root.join(path);
            if !file.exists() {
                continue; // deleted, and not yet told to git
            }
            workspace.add_path(path);
            if TEXT.iter().any(|ending| path.ends_with(ending)) {
                let text = std::fs::read_to_string(&file)
                    .with_context(|| format!("reading {}", file.display()))?;
                workspace.files.push(TextFile { path: path.into(), text });
            }
        }
        Ok(workspace)
    }

    pub(super) fn rust(&self) -> impl Iterator<Item = &TextFile> {
        self.with_ending(".rs")
    }

    pub(super) fn with_ending(&self, ending: &str) -> impl Iterator<Item = &TextFile> {
        self.files.iter().filter(move |file| file.path.ends_with(ending))
    }

    pub(super) fn file(&self, path: &str) -> Option<&TextFile> {
        self.files.iter().find(|file| file.path == path)
    }

    fn add_path(&mut self, path: &str) {
        self.paths.insert(path.to_owned());
        for (at, _) in path.match_indices('/') {
            self.paths.extend(path.get(..at).map(str::to_owned));
        }
    }

    /// A workspace of these files, for planting violations.
    #[cfg(test)]
    pub(super) fn with_files(files: &[(&str, &str)]) -> Self {
        let mut workspace = Self::default();
        for (path, text) in files {
            workspace.add_path(path);
            workspace.files.push(TextFile { path: (*path).into(), text: (*text).into() });
        }
        workspace
    }
}

fn crates() -> Result<Vec<Crate>> {
    let root = process::root();
    let mut crates = Vec::new();
    for package in cargo::metadata()?.packages {
        let manifest = package
            .manifest_path
            .strip_prefix(root)
            .with_context(|| format!("{} is outside the workspace", package.name))?;
        let dependencies = package.dependencies.into_iter().map(|dependency| Dependency {
            package: dependency.name,
            dev: dependency.kind.as_deref() == Some("dev"),
        });
        crates.push(Crate {
            package: package.name,
            manifest: manifest.to_string_lossy().replace('\\', "/"),
            dependencies: dependencies.collect(),
        });
    }
    Ok(crates)
}

#[cfg(test)]
mod tests {
    use super::Workspace;

    #[test]
    fn the_repository_is_read_with_its_own_files() {
        let workspace = Workspace::read().unwrap();
        assert!(workspace.file("xtask/src/tidy/workspace.rs").is_some());
        assert!(workspace.paths.contains("xtask/src"));
        assert!(workspace.crates.iter().any(|member| member.folder() == "xtask"));
        assert!(!workspace.paths.iter().any(|path| path.starts_with("target/")));
    }
}
