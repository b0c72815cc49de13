//! Cargo as this workspace uses it: its metadata, and one way to build binaries.
//!
//! Binaries for development are built with the features of the *whole* workspace selected.
//! Cargo unifies features over what is selected, so any narrower selection would build the engine
//! a second time, which costs minutes; only `dist` pays for that, to ship the product's own features.

use crate::{packages, process};
use anyhow::{Context as _, Result};
use serde::Deserialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The two profiles in use: tests and `up` share the first, benches and shipping the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    Dev,
    Release,
}

impl Profile {
    /// The name of the folder below the target folder.
    pub(crate) const fn folder(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// The part of `cargo metadata` that is read here.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) target_directory: PathBuf,
}

/// One member of the workspace.
#[derive(Debug, Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a member's dependency tables.
#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `dev`, `build`, or nothing for a normal dependency.
    pub(crate) kind: Option<String>,
}

/// The cargo that runs us, started in the root of the workspace.
///
/// Cargo tells the program that it runs about its package, in the environment. Some build scripts
/// look at the same variables, so they would run again, and with them everything above them, whenever
/// a build by `cargo xtask` follows one by hand. Hence those variables end here.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(program);
    command.current_dir(process::root());
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_about_package(name)) {
        command.env_remove(name);
    }
    command
}

fn is_about_package(variable: &OsStr) -> bool {
    let name = variable.to_string_lossy();
    ["CARGO_PKG_", "CARGO_MANIFEST_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Asks cargo about the members of the workspace; needs no network.
pub(crate) fn metadata() -> Result<Metadata> {
    let text = process::read(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
    serde_json::from_str(&text).context("cargo metadata has an unexpected form")
}

/// What a build of the product needs beside Rust and a C compiler: on Linux its allocator is built
/// with a makefile.
pub(crate) fn prepare() -> Result<()> {
    if cfg!(target_os = "linux") { packages::program("make") } else { Ok(()) }
}

/// What can be built of the workspace and started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// A binary.
    Binary(&'static str),
    /// A binary that only tests and tours use, and no archive has.
    Example(&'static str),
}

impl Target {
    /// How cargo is told to build it.
    const fn words(self) -> [&'static str; 2] {
        match self {
            Self::Binary(name) => ["--bin", name],
            Self::Example(name) => ["--example", name],
        }
    }

    /// Where it is in the folder of a profile.
    fn path(self, folder: &Path) -> PathBuf {
        let suffix = std::env::consts::EXE_SUFFIX;
        match self {
            Self::Binary(name) => folder.join(format!("{name}{suffix}")),
            Self::Example(name) => folder.join("examples").join(format!("{name}{suffix}")),
        }
    }
}

/// Builds binaries and returns their paths in the same order.
pub(crate) fn build<const N: usize>(
    names: [&'static str; N],
    profile: Profile,
) -> Result<[PathBuf; N]> {
    build_all(names.map(Target::Binary), profile)
}

/// The same with examples among them.
pub(crate) fn build_all<const N: usize>(
    targets: [Target; N],
    profile: Profile,
) -> Result<[PathBuf; N]> {
    prepare()?;
    let mut command = cargo();
    command.args(["build", "--workspace"]);
    if profile == Profile::Release {
        command.arg("--release");
    }
    command.args(targets.iter().flat_map(|target| target.words()));
    process::run(&mut command)?;
    let folder = metadata()?.target_directory.join(profile.folder());
    Ok(targets.map(|target| target.path(&folder)))
}

/// Builds one release binary of a member without its default features: a soak of the ledger needs
/// no engine, and an engine in release takes longer to build than the soak runs.
pub(crate) fn build_without_engine(package: &str, name: &str) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--release", "--no-default-features"]);
    command.args(["--package", package, "--bin", name]);
    process::run(&mut command)?;
    let folder = metadata()?.target_directory.join(Profile::Release.folder());
    Ok(folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX)))
}

#[cfg(test)]
mod tests {
    use super::{Target, cargo, metadata};
    use std::path::{Path, PathBuf};

    #[test]
    fn nothing_about_this_package_reaches_a_build() {
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "cargo runs this test");
        let cargo = cargo();
        let gone = |name: &str| cargo.get_envs().any(|it| it == (name.as_ref(), None));
        assert!(gone("CARGO_PKG_NAME") && gone("CARGO_MANIFEST_DIR"));
    }

    #[test]
    fn an_example_is_built_by_its_own_word_and_lies_in_a_folder_of_its_own() {
        let (binary, example) = (Target::Binary("one"), Target::Example("two"));
        assert_eq!([binary, example].map(Target::words), [["--bin", "one"], ["--example", "two"]]);
        let paths = [binary, example].map(|target| target.path(Path::new("debug")));
        let named = paths.map(|path| path.with_extension(""));
        assert_eq!(named, ["debug/one", "debug/examples/two"].map(PathBuf::from));
    }

    #[test]
    fn metadata_lists_this_crate_and_its_dependencies() {
        let metadata = metadata().unwrap();
        let xtask = metadata.packages.iter().find(|package| package.name == "xtask").unwrap();
        assert!(xtask.dependencies.iter().any(|d| d.name == "syn" && d.kind.is_none()));
        assert!(xtask.dependencies.iter().any(|d| d.kind.as_deref() == Some("dev")));
    }
}
