//! Packages that a command needs from outside Rust: Debian's, Python's and Node's.
//!
//! Each command names what it needs, and only that is installed, only when it is missing.
//! Python and Node packages go into a cache folder of our own and touch nothing of the system.
//! Debian packages need root; without it the exact command is printed and the command that asked ends.

use crate::process;
use anyhow::{Context as _, Result, bail};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// What `packages` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// `deb:NAME`, `pip:NAME[==VERSION]` or `npm:NAME[@VERSION]`.
    #[arg(required = true)]
    requirements: Vec<Requirement>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    for requirement in &arguments.requirements {
        match provide(requirement)? {
            Some(folder) => println!("{requirement} {}", folder.display()),
            None => println!("{requirement} installed"),
        }
    }
    Ok(())
}

/// One package of one of the three kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    Debian(String),
    Python(String),
    Node(String),
}

impl FromStr for Requirement {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            // A name that starts with a dash would be read as an option by the installer.
            Some((_, name)) if name.is_empty() || name.starts_with('-') => {
                bail!("`{text}` names no package")
            }
            Some(("deb", name)) => Ok(Self::Debian(name.into())),
            Some(("pip", name)) => Ok(Self::Python(name.into())),
            Some(("npm", name)) => Ok(Self::Node(name.into())),
            _ => bail!("`{text}` does not start with deb:, pip: or npm:"),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Debian(name) => write!(f, "deb:{name}"),
            Self::Python(name) => write!(f, "pip:{name}"),
            Self::Node(name) => write!(f, "npm:{name}"),
        }
    }
}

/// Makes a package available; returns the folder with its programs when it is one of ours.
pub(crate) fn provide(requirement: &Requirement) -> Result<Option<PathBuf>> {
    match requirement {
        Requirement::Debian(name) => debian(name).map(|()| None),
        Requirement::Python(name) => python(name).map(Some),
        Requirement::Node(name) => node(name).map(Some),
    }
}

/// Where packages of our own go.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    Ok(base.join("opengpu"))
}

/// Makes sure that a program can be run, wherever it comes from; its Debian package has its name.
pub(crate) fn program(name: &str) -> Result<()> {
    if process::succeeds(Command::new(name).arg("--version")) { Ok(()) } else { debian(name) }
}

fn debian(name: &str) -> Result<()> {
    if process::succeeds(Command::new("dpkg").args(["-s", name])) {
        return Ok(());
    }
    if !process::succeeds(Command::new("dpkg").arg("--version")) {
        bail!(
            "{name} is missing and this is no Debian system: install it with your package manager"
        );
    }
    let install = ["apt-get", "install", "--yes", "--no-install-recommends", name];
    let root = process::read(Command::new("id").arg("-u"))?.trim() == "0";
    if !root {
        bail!("the Debian package {name} is missing; run: sudo {}", install.join(" "));
    }
    eprintln!("installing the Debian package {name}");
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        process::run(command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    };
    let [_, arguments @ ..] = &install;
    // A new machine may have no list of packages yet, or an old one.
    apt(arguments).or_else(|_| apt(&["update"]).and_then(|()| apt(arguments)))
}

/// The folder with `python` and `pip` of an environment of our own.
pub(crate) fn python_programs() -> Result<PathBuf> {
    let venv = cache()?.join("python");
    let programs = venv.join("bin");
    if !programs.join("pip").exists() {
        // Python may come from elsewhere than Debian, so the modules count and not the package.
        if !process::succeeds(Command::new("python3").args(["-c", "import venv, ensurepip"])) {
            debian("python3-venv")?;
        }
        eprintln!("creating a Python environment in {}", venv.display());
        process::run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    Ok(programs)
}

fn python(name: &str) -> Result<PathBuf> {
    let programs = python_programs()?;
    let pip = programs.join("pip");
    let bare = name.split(['=', '<', '>', '~', '[']).next().unwrap_or(name);
    let shown = process::read(Command::new(&pip).args(["show", "--quiet", bare]));
    if shown.is_err() {
        eprintln!("installing the Python package {name} into {}", programs.display());
        process::run(Command::new(&pip).args(["install", "--quiet", name]))?;
    }
    Ok(programs)
}

fn node(name: &str) -> Result<PathBuf> {
    let folder = cache()?.join("node");
    if !folder.join("node_modules").join(without_version(name)).exists() {
        if !process::succeeds(Command::new("npm").arg("--version")) {
            debian("npm")?;
        }
        eprintln!("installing the Node package {name} into {}", folder.display());
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        process::run(npm_install(&folder, name).current_dir(&folder))?;
    }
    Ok(folder.join("node_modules/.bin"))
}

fn npm_install(folder: &Path, name: &str) -> Command {
    let mut command = Command::new("npm");
    command.args(["install", "--no-fund", "--no-audit", "--prefix"]).arg(folder).arg(name);
    command
}

/// `@scope/name@1.2` without its version; the first `@` of a scoped name is no version.
fn without_version(name: &str) -> &str {
    match name.rfind('@') {
        None | Some(0) => name,
        Some(at) => name.get(..at).unwrap_or(name),
    }
}

#[cfg(test)]
mod tests {
    use super::{Requirement, without_version};

    #[test]
    fn a_requirement_reads_back_as_written() {
        for text in ["deb:npm", "pip:eth-account==0.13", "npm:@foundry-rs/anvil@1.7.1"] {
            assert_eq!(text.parse::<Requirement>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_package_is_refused() {
        for text in ["npm", "deb:", "gem:rake", "pip:--index-url=http://elsewhere"] {
            assert!(text.parse::<Requirement>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_scope_is_not_taken_for_a_version() {
        assert_eq!(without_version("@foundry-rs/anvil@1.7.1"), "@foundry-rs/anvil");
        assert_eq!(without_version("@foundry-rs/anvil"), "@foundry-rs/anvil");
        assert_eq!(without_version("vite@8"), "vite");
        assert_eq!(without_version("vite"), "vite");
    }
}
