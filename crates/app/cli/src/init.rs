//! `opengpu init`: a first `opengpu.toml`, with what it may say.

use crate::{context::Context, exit::Complaint, project::PROJECT};
use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;
use std::{
    fs::File,
    io::{ErrorKind, Write as _},
    path::Path,
};

/// What is written; every line of the task can be uncommented.
const TEMPLATE: &str = "\
# Tasks of this folder: `opengpu run` lists them, `opengpu run NAME` runs one, and flags come before
# what is said here. Keys, nodes, providers and `--yes` are said on the command line or in config.toml.

[tasks.hello]
about = \"A first task\"
# A program's folder, a script, an image, or an example.
program = \"sha256-search\"
# A file or a folder of this folder; scripts find it at /inputs/input.
#input = \"data\"
# Files that go with a script or an image, and what they are given.
#file = [\"helper.py\"]
#arguments = [\"--epochs\", \"3\"]
# Most that it may cost, and most for a second: \"2\" are oGPU, \"0.5usd\" are dollars.
#budget = \"1\"
#cap = \"0.01\"
# Longest time of one lease.
#max-duration = \"10m\"
# fast, checked, replicated or confidential; or so many copies, which are compared.
#trust = \"checked\"
#copies = 2
# Lines of the input over so many tasks.
#split = 4
# Where the output goes.
#out = \"output.txt\"
";

#[derive(Debug, Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(context: &Context, _: &Arguments) -> Result<()> {
    let mut file = match File::create_new(Path::new(PROJECT)) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let complaint = Complaint::usage(format!("{PROJECT} is there already"));
            return Err(complaint.hint("`opengpu run` lists its tasks").into());
        }
        made => made.with_context(|| format!("making {PROJECT}"))?,
    };
    file.write_all(TEMPLATE.as_bytes())?;
    let told = "Wrote opengpu.toml. Try it here for nothing: opengpu run hello --local";
    context.output.show(&json!({ "file": PROJECT }), |_| told.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::Project;

    #[test]
    fn all_that_a_first_file_shows_may_be_said() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["data", "helper.py"] {
            std::fs::write(at(name), "").unwrap();
        }
        let load = |text: &str| {
            std::fs::write(at(PROJECT), text).unwrap();
            let project = Project::load(folder.path()).unwrap().unwrap();
            project.task(Path::new("hello")).unwrap().unwrap()
        };
        load(TEMPLATE);
        let task = load(&TEMPLATE.replace("\n#", "\n").replace("\n ", "\n# "));
        assert_eq!((task.split, task.wanted.files.len()), (Some(4), 1));
    }
}
