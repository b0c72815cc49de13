//! `opengpu sweep`: a program on many values under one budget.

use super::{
    many::{self, Until},
    wanted::Wanted,
};
use crate::{context::Context, exit::Complaint, input, output::table};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_exec::artifact;
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    /// A value, which a task gets in place of `{}` in the input, or as its input; may be repeated.
    #[arg(long = "value", value_name = "TEXT", required_unless_present = "values")]
    value: Vec<String>,
    /// File with one value in each line.
    #[arg(long, value_name = "FILE", conflicts_with = "value")]
    values: Option<PathBuf>,
    /// Key that pays [default: `wallet` in config.toml].
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Folder for the outputs, which are numbered like the values.
    #[arg(long, value_name = "FOLDER", required_unless_present_any = ["dry_run", "detach"])]
    out: Option<PathBuf>,
    /// Show what would happen, and stop.
    #[arg(long)]
    dry_run: bool,
    /// Return as soon as all tasks are on chain; processes in the background attend them.
    #[arg(long, conflicts_with = "out")]
    detach: bool,
}

pub(crate) fn run(context: &Context, arguments: Arguments) -> Result<()> {
    context.make_home()?;
    let Arguments { wanted, out, .. } = &arguments;
    let wanted = &wanted.clone().resolve()?.wanted;
    let name = context.wallet_name(arguments.from.as_deref())?;
    let program = wanted.open(&context.home)?;
    let values = match &arguments.values {
        None => arguments.value.clone(),
        Some(path) => {
            let text = std::fs::read_to_string(path);
            let text = text.with_context(|| format!("reading {}", path.display()))?;
            text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
        }
    };
    let base = match &wanted.input {
        None => None,
        Some(path) if input::is_folder(Some(path)) => {
            return Err(Complaint::usage("a value does not stand in a folder").into());
        }
        Some(path) => Some(input::read(&program, Some(path))?),
    };
    let inputs = values.iter().map(|value| fill(base.as_deref(), value));
    let inputs: Vec<_> = inputs.collect::<Result<_>>()?;
    if let Some(out) = out.as_ref().filter(|_| !arguments.dry_run) {
        std::fs::create_dir_all(out).with_context(|| format!("creating {}", out.display()))?;
    }
    let until = Until::of(arguments.dry_run, arguments.detach);
    let done = many::run(context, wanted, &name, (&program, &inputs), until)?;
    let (Some(done), Some(out)) = (done, out) else { return Ok(()) };
    let mut rows = Vec::new();
    for (number, (value, done)) in values.iter().zip(&done).enumerate() {
        let path = out.join(number.to_string());
        artifact::write(&path, &done.output)?;
        let (id, paid) = (done.id.to_string(), done.task.paid.to_string());
        rows.push([value.clone(), id, paid, path.display().to_string()]);
    }
    let data = json!({
        "paid": many::paid(&done).to_string(),
        "tasks": rows
            .iter()
            .map(|[value, task, paid, output]| {
                json!({ "value": value, "task": task, "paid": paid, "output_file": output })
            })
            .collect::<Vec<_>>(),
    });
    context.output.show(&data, |_| table(["value", "task", "paid", "output"], rows.clone()))
}

/// The input of one value.
fn fill(base: Option<&[u8]>, value: &str) -> Result<Vec<u8>> {
    let Some(base) = base else { return Ok(value.as_bytes().to_vec()) };
    let text = std::str::from_utf8(base).ok().filter(|text| text.contains("{}"));
    let complain = || {
        let complaint = Complaint::usage("the input has no `{}` in which a value could stand");
        complaint.hint("without --input each value is the whole input")
    };
    Ok(text.ok_or_else(complain)?.replace("{}", value).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_input_or_stands_in_it() {
        assert_eq!(fill(None, "7").unwrap(), b"7");
        assert_eq!(fill(Some(b"a {} b {}\n"), "7").unwrap(), b"a 7 b 7\n");
        assert!(fill(Some(b"a"), "7").is_err());
    }
}
