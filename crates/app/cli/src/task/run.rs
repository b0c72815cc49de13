//! `opengpu run`: a program on the network, from the plan to the output.

use super::{
    attendance, client,
    many::{self, Until},
    plan::Plan,
    pull::{self, Place},
    wanted::Wanted,
};
use crate::{
    context::Context,
    exec,
    exit::{Complaint, Exit},
    input,
    output::table,
    project::{PROJECT, Project},
};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_sdk::{Attended, Client};
use opengpu_types::TaskId;
use serde_json::json;
use std::{
    path::PathBuf,
    process::{Command, Stdio},
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    /// Key that pays [default: `wallet` in config.toml].
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
    /// Where the output goes; `-` is standard output, and what is a picture becomes one in a file that
    /// ends in .png. It is kept with the task in any case.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Show what would happen, and stop.
    #[arg(long)]
    dry_run: bool,
    /// Return as soon as the task is on chain; a process in the background attends it.
    #[arg(long, conflicts_with_all = ["out", "local"])]
    detach: bool,
    /// Split the lines of the input over so many tasks, and join their outputs in the same sequence: for
    /// programs that treat every line by itself.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(2..=64),
          conflicts_with = "local")]
    split: Option<u8>,
    /// Run the same on this machine instead, for nothing.
    #[arg(long, conflicts_with = "dry_run")]
    local: bool,
}

pub(crate) fn run(context: &Context, mut arguments: Arguments) -> Result<()> {
    if arguments.wanted.program.is_none()
        && let Some(project) = Project::load(&std::env::current_dir()?)?
    {
        return list(context, &project);
    }
    context.make_home()?;
    let task = arguments.wanted.resolve()?;
    // Where nothing is submitted nothing is split.
    arguments.split = arguments.split.or(task.split.filter(|_| !arguments.local));
    arguments.out = arguments.out.or(task.out.filter(|_| !arguments.detach));
    arguments.wanted = task.wanted;
    let Arguments { wanted, out, .. } = &arguments;
    if arguments.local {
        if wanted.check()?.is_some() {
            let complaint = Complaint::usage("--check judges on chain, and --local leaves it out");
            return Err(complaint.hint("leave one of them out").into());
        }
        let program = wanted.open(&context.home)?;
        return exec::run_here(context, program.folder(), wanted.input.clone(), out.clone());
    }
    let name = context.wallet_name(arguments.from.as_deref())?;
    if let Some(parts) = arguments.split {
        return run_split(context, &arguments, &name, parts);
    }
    let plan = Plan::make(context, wanted, context.address(&name)?)?;
    if arguments.dry_run {
        return context.output.show(&plan.json(), |_| plan.text());
    }
    let target = exec::target(out.as_deref(), wanted.input.as_deref())?;
    context.output.note(plan.text());
    plan.check()?;
    context.confirm(&format!("Run it for at most {} oGPU?", plan.escrow))?;
    let (client, signatory) = (client(context)?, context.unlock(&name)?);
    let packed = client.pack(&plan.program, &plan.input, plan.check.as_ref(), plan.spec.clone())?;
    let id = client.submit(&signatory, &packed, plan.budget, plan.escrow)?;
    context.output.note(format!("task {id}"));
    if arguments.detach {
        attend_in_background(context, id)?;
        let json = json!({ "task": id.to_string() });
        context.output.show(&json, |_| id.to_string())?;
        context.output.note(how_to_return(id, &name));
        return Ok(());
    }
    let place = Place { target, shape: plan.program.manifest.picture };
    attend(context, &client, id, &name, &place)
}

/// The tasks that can be named here.
fn list(context: &Context, project: &Project) -> Result<()> {
    let rows = project.list();
    if rows.is_empty() {
        let complaint = Complaint::usage(format!("which program? {PROJECT} defines no tasks"));
        return Err(complaint.hint("write one as [tasks.NAME] with a `program`").into());
    }
    let json = |[name, program, about]: &[String; 3]| json!({ "name": name, "program": program, "about": about });
    let data: Vec<_> = rows.iter().map(json).collect();
    context.output.show(&data, |_| table(["task", "program", "about"], rows.clone()))
}

/// Runs parts of the input at the same time, and joins what comes out.
fn run_split(context: &Context, arguments: &Arguments, name: &str, parts: u8) -> Result<()> {
    let Arguments { wanted, out, .. } = arguments;
    let target = exec::target(out.as_deref(), wanted.input.as_deref())?;
    if input::is_folder(wanted.input.as_deref()) {
        return Err(Complaint::usage("a folder has no lines to split").into());
    }
    let program = wanted.open(&context.home)?;
    let input = input::read(&program, wanted.input.as_deref())?;
    let inputs = many::split(&input, usize::from(parts));
    let until = Until::of(arguments.dry_run, arguments.detach);
    let done = many::run(context, wanted, name, (&program, &inputs), until)?;
    let Some(done) = done else { return Ok(()) };
    let output: Vec<u8> = done.iter().flat_map(|done| &done.output).copied().collect();
    Place { target, shape: program.manifest.picture }.put(&output)?;
    let tasks: Vec<_> = done.iter().map(|done| done.id.to_string()).collect();
    let paid = many::paid(&done).to_string();
    let data = json!({ "tasks": tasks, "paid": paid, "bytes": output.len() });
    context.output.show(&data, |_| {
        let told = format!("{} tasks, paid {paid} oGPU, {} bytes", tasks.len(), output.len());
        format!("{told}\n{}", tasks.join("\n"))
    })
}

/// Attends a task until its end, or until the user leaves.
fn attend(
    context: &Context,
    client: &Client,
    id: TaskId,
    name: &str,
    place: &Place<'_>,
) -> Result<()> {
    let left = attendance::left_by_signal()?;
    let attended = attendance::attend(context, client, id, &left)?;
    match attended.context("another process attends this task")? {
        Attended::Left => {
            attend_in_background(context, id)?;
            if matches!(place.target, exec::Target::Nowhere) {
                context.output.note(format!("The task goes on. {}", how_to_return(id, name)));
                return Ok(());
            }
            // Whoever waits for the output must not take it for there.
            let complaint =
                Complaint::new(Exit::Failed, "left; the task goes on, without its output");
            Err(complaint.hint(how_to_return(id, name)).into())
        }
        Attended::Ended { task, output } => {
            pull::conclude(context, client, id, &task, output, place)
        }
    }
}

fn how_to_return(id: TaskId, name: &str) -> String {
    format!(
        "Watch it: opengpu logs -f {id}; fetch its output: opengpu pull {id}; end it: opengpu stop \
         {id} --from {name}"
    )
}

/// Has a process of its own attend a task: providers are briefed, states and the output are fetched.
pub(super) fn attend_in_background(context: &Context, id: TaskId) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("--home").arg(&context.home).args(["--node", context.rpc.url()]);
    command.args(["pull", "--quiet", &id.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn().context("starting the process that attends the task")?;
    Ok(())
}

/// Complains of a task that this folder knows nothing of.
pub(super) fn known(client: &Client, id: TaskId) -> Result<()> {
    if client.record(id).delivery()?.is_some() {
        return Ok(());
    }
    let complaint = Complaint::usage(format!("task {id} was not submitted from this home folder"));
    Err(complaint.hint("name the folder with --home; only it has the keys of the output").into())
}
