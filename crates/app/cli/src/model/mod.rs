//! Models on this machine, without any chain: `opengpu serve` and `opengpu chat`.
//!
//! A model's file becomes a program like any other, so that what is served here is what the network
//! would run.

pub(crate) mod chat;
pub(crate) mod serve;

use crate::{context::Context, exit::Complaint};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_exec::{
    Program, artifact,
    program::{MANIFEST, models},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Name of the model's file in its program.
const FILE: &str = "model.gguf";

/// Which model, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// A GGUF file, a folder with a program.toml, or the name of a file in the models folder.
    model: Option<PathBuf>,
    /// Tokens of prompt and answer together.
    #[arg(long, value_name = "TOKENS", default_value_t = 4096,
          value_parser = clap::value_parser!(u32).range(16..=1_048_576))]
    context: u32,
    #[command(flatten)]
    machine: crate::exec::Machine,
}

impl Which {
    /// The program, and the name under which clients know it.
    fn program(&self, context: &Context) -> Result<(Program, String)> {
        let Some(model) = &self.model else {
            return Err(Complaint::usage("which model?").hint("name a GGUF file").into());
        };
        if model.join(MANIFEST).is_file() {
            let program = Program::open(model)?;
            let name = program.manifest.name.clone();
            return Ok((program, name));
        }
        let file = find(context, model)?;
        let name = name(&file);
        let folder = context.home.join("served").join(&name);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let manifest = format!(
            "name = \"{name}\"\nkind = \"llm\"\ncode = \"{FILE}\"\nclass = \"likelihood\"\n\n\
             [limits]\nmemory = \"{} MiB\"\nseconds = 3600\n\n[llm]\ncontext = {}\n",
            memory(&file)?,
            self.context
        );
        artifact::write(&folder.join(MANIFEST), manifest.as_bytes())?;
        link(&file, &folder.join(FILE))?;
        Ok((Program::open(&folder)?, name))
    }
}

fn find(context: &Context, model: &Path) -> Result<PathBuf> {
    let folders = [PathBuf::new(), context.home.join("models"), models().unwrap_or_default()];
    let wanted = |folder: &PathBuf| {
        let plain = folder.join(model);
        [plain.clone(), plain.with_added_extension("gguf")]
    };
    let found = folders.iter().flat_map(wanted).find(|path| path.is_file());
    found.ok_or_else(|| {
        let places: Vec<_> = folders.iter().skip(1).map(|at| at.display().to_string()).collect();
        Complaint::usage(format!("{}: there is no such model", model.display()))
            .hint(format!("name a GGUF file, or put it into {}", places.join(" or ")))
            .into()
    })
}

/// A file's name without its ending, in the letters that a program's name may have.
fn name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = stem.chars().map(allowed).take(64).collect();
    if name.is_empty() { "model".to_owned() } else { name }
}

/// Memory that a model of this size needs, in MiB: its numbers, some of them wider, and the context.
fn memory(file: &Path) -> Result<u64> {
    let bytes = fs::metadata(file)?.len();
    Ok((bytes >> 20).saturating_mul(3).saturating_add(2048))
}

/// Puts the model's file into its program without copying it.
fn link(file: &Path, place: &Path) -> Result<()> {
    let file = fs::canonicalize(file)?;
    if fs::symlink_metadata(place).is_ok() {
        fs::remove_file(place)?;
    }
    #[cfg(unix)]
    std::os::unix::fs::symlink(&file, place)?;
    #[cfg(not(unix))]
    fs::hard_link(&file, place)?;
    Ok(())
}
