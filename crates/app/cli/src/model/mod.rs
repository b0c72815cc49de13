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
    program::{Kind, MANIFEST, models},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Name of the model's file in its program.
const FILE: &str = "model.gguf";

/// Tokens of prompt and answer together, where nobody says how many.
const CONTEXT: u32 = 4096;
/// As many as any model may be given.
const MOST_TOKENS: i64 = 1_048_576;

/// Which model, and how much of it.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// A GGUF file, a folder with a program.toml, or the name of a file in the models folder.
    model: Option<PathBuf>,
    /// Tokens of prompt and answer together, for a GGUF file: a program.toml says its own
    /// [default: 4096].
    #[arg(long, value_name = "TOKENS", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(16..=MOST_TOKENS))]
    context: Option<u32>,
    #[command(flatten)]
    machine: crate::exec::Machine,
}

impl Which {
    /// The program, and the name under which clients know it.
    fn program(&self, context: &Context) -> Result<(Program, String)> {
        let Some(model) = &self.model else {
            return Err(Complaint::usage("which model?").hint(ways(context)).into());
        };
        let is_manifest = model.file_name().is_some_and(|name| name == MANIFEST);
        if is_manifest || model.join(MANIFEST).is_file() {
            return self.ready_made(model);
        }
        let file = find(context, model)?;
        let name = name(&file);
        let folder = context.home.join("served").join(&name);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let manifest = format!(
            "name = \"{name}\"\nkind = \"llm\"\ncode = \"{FILE}\"\nclass = \"likelihood\"\n\n\
             [limits]\nmemory = \"{} MiB\"\nseconds = 3600\n\n[llm]\ncontext = {}\n",
            memory(&file)?,
            self.context.unwrap_or(CONTEXT)
        );
        artifact::write(&folder.join(MANIFEST), manifest.as_bytes())?;
        link(&file, &folder.join(FILE))?;
        Ok((Program::open(&folder)?, name))
    }

    /// A program that somebody wrote. Its context is a part of what it is.
    fn ready_made(&self, path: &Path) -> Result<(Program, String)> {
        let program = Program::open(path)?;
        let shown = path.display();
        let kind = program.manifest.kind;
        if kind != Kind::Llm {
            let message = format!("{shown} is a program of kind {kind}, and not a model");
            let hint = format!("run it with `opengpu exec run {shown}`");
            return Err(Complaint::usage(message).hint(hint).into());
        }
        if self.context.is_some() {
            let message = format!("--context is for GGUF files, and {shown} is a program");
            let manifest = program.folder().join(MANIFEST);
            let hint = format!("set `context` under [llm] in {}", manifest.display());
            return Err(Complaint::usage(message).hint(hint).into());
        }
        let name = program.manifest.name.clone();
        Ok((program, name))
    }
}

/// Where models are looked for by their names.
fn places(context: &Context) -> [PathBuf; 2] {
    [context.home.join("models"), models().unwrap_or_default()]
}

/// How to come to a model.
fn ways(context: &Context) -> String {
    let [own, shared] = places(context);
    format!(
        "name a GGUF file, put one into {} or {}, or fetch a small one with `cargo xtask models`: \
         it is then known as smollm2-135m-instruct",
        own.display(),
        shared.display()
    )
}

fn find(context: &Context, model: &Path) -> Result<PathBuf> {
    let [own, shared] = places(context);
    let folders = [PathBuf::new(), own, shared];
    let wanted = |folder: &PathBuf| {
        let plain = folder.join(model);
        [plain.clone(), plain.with_added_extension("gguf")]
    };
    let found = folders.iter().flat_map(wanted).find(|path| path.is_file());
    found.ok_or_else(|| {
        let shown = model.display();
        let complaint = if model.is_dir() {
            Complaint::usage(format!("{shown} is a folder without a {MANIFEST}"))
        } else {
            Complaint::usage(format!("{shown}: there is no such model"))
        };
        complaint.hint(ways(context)).into()
    })
}

/// A file's name without its ending, in the letters that a program's name may have.
fn name(file: &Path) -> String {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = stem.trim_start_matches('.').chars().map(allowed).take(64).collect();
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
