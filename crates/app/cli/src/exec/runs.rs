//! The runs that were kept: one folder for each, named by what ran and what it commits to.

use crate::{context::Context, exit::Complaint};
use anyhow::{Context as _, Result};
use opengpu_exec::{record::Record, scratch::Scratch};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// How an unfinished run begins: no name of a run does.
const UNFINISHED: &str = ".unfinished-";
/// Digits of the root in the name of a run.
const DIGITS: usize = 12;
/// How often a finished run looks for its place: others may finish the same run at the same time.
const ATTEMPTS: usize = 16;

/// Where runs are kept.
pub(super) struct Runs(PathBuf);

impl Runs {
    pub(super) fn new(context: &Context) -> Self {
        Self(context.home.join("runs"))
    }

    /// A folder for a run that begins. It goes away if the run does not end well.
    pub(super) fn begin(&self) -> Result<Scratch> {
        Scratch::make(&self.0, UNFINISHED).with_context(|| format!("making {}", self.0.display()))
    }

    /// Keeps a finished run. One that lies there has the same root, and makes room.
    pub(super) fn settle(
        &self,
        unfinished: &Scratch,
        record: &Record,
    ) -> Result<(String, PathBuf)> {
        let root: String = record.root().to_string().chars().take(DIGITS).collect();
        let name = format!("{}-{root}", record.facts.name);
        let place = self.0.join(&name);
        let mut outcome = Ok(());
        for _ in 0..ATTEMPTS {
            outcome = fs::rename(unfinished.path(), &place);
            match &outcome {
                // What is dropped now has nothing left to remove.
                Ok(()) => return Ok((name, place)),
                Err(_) if place.is_dir() => {
                    // Whoever else finishes it may have been quicker.
                    let _ = self.discard(&place);
                }
                Err(_) => break,
            }
        }
        outcome.with_context(|| format!("keeping the run as {}", place.display()))?;
        Ok((name, place))
    }

    /// The names of all runs, and where they are. A folder that somebody else put there is none.
    pub(super) fn all(&self) -> Result<Vec<(String, PathBuf)>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.with_context(|| format!("reading {}", self.0.display()))?,
        };
        let mut runs = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if !name.starts_with('.') && Record::is_in(&entry.path()) {
                runs.push((name, entry.path()));
            }
        }
        Ok(runs)
    }

    /// A kept run by its name, by that of its program, or by a beginning that no other run has.
    pub(super) fn named(&self, name: &str) -> Result<(String, PathBuf)> {
        let all = self.all()?;
        if let Some(run) = all.iter().find(|(run, _)| run == name) {
            return Ok(run.clone());
        }
        // A program's whole name is meant before a beginning of others.
        let of = |run: &str| run.rsplit_once('-').is_some_and(|(program, _)| program == name);
        let whole = all.iter().any(|(run, _)| of(run));
        let fits = |run: &str| if whole { of(run) } else { run.starts_with(name) };
        let mut like = all.into_iter().filter(|(run, _)| !name.is_empty() && fits(run));
        match (like.next(), like.next()) {
            (Some(run), None) => Ok(run),
            (Some((first, _)), Some((second, _))) => {
                let message =
                    format!("{name}: several runs begin so, such as {first} and {second}");
                Err(Complaint::usage(message).hint("name more of it").into())
            }
            (None, _) => Err(Complaint::usage(format!("{name}: there is no such run"))
                .hint("`opengpu exec list` names the runs that were kept")
                .into()),
        }
    }

    /// A run by its name, or by the folder in which it lies.
    pub(super) fn find(&self, run: &Path) -> Result<(String, PathBuf)> {
        let name = run.to_string_lossy();
        match self.named(&name) {
            Err(_) if Record::is_in(run) => Ok((name.into_owned(), run.to_owned())),
            found => found,
        }
    }

    /// Removes a run: it is out of sight at once. Files that cannot be removed go later.
    pub(super) fn discard(&self, place: &Path) -> Result<()> {
        let out = self.begin()?;
        fs::rename(place, out.path().join("run"))
            .with_context(|| format!("removing {}", place.display()))
    }
}
