//! `opengpu logs`: what happened to a task.

use super::{attendance, client, journal, run};
use crate::{context::Context, output::date, values};
use anyhow::Result;
use clap::Args;
use opengpu_sdk::Client;
use opengpu_types::{Millis, TaskId};
use serde_json::json;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

/// How often a journal that grows is read.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The task.
    task: TaskId,
    /// Go on until it has ended; Ctrl-C leaves.
    #[arg(short, long)]
    follow: bool,
    /// Only what happened since so long ago, such as 10m.
    #[arg(long, value_name = "TIME", value_parser = values::span)]
    since: Option<Millis>,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let client = client(context)?;
    run::known(&client, arguments.task)?;
    let from =
        arguments.since.map_or(Millis(0), |since| Millis(journal::now().0.saturating_sub(since.0)));
    let mut reader = journal::Reader::new(client.record(arguments.task).journal());
    let mut show = || -> Result<()> {
        for line in reader.read()?.into_iter().filter(|line| line.time >= from) {
            let json = json!({ "time_ms": line.time.0, "text": line.text });
            context.output.show_line(&json, |_| format!("{} {}", date(line.time), line.text))?;
        }
        Ok(())
    };
    show()?;
    if !arguments.follow {
        return Ok(());
    }
    let left = attendance::left_by_signal()?;
    while !left.load(Ordering::SeqCst) && !is_over(&client, arguments.task, &left)? {
        std::thread::sleep(LOOK);
        show()?;
    }
    show()
}

/// Whether a task has ended and all of it is here. If nobody attends it, this process does.
fn is_over(client: &Client, id: TaskId, left: &AtomicBool) -> Result<bool> {
    let record = client.record(id);
    let Some(_attending) = record.attend()? else { return Ok(false) };
    let mut journal = journal::Journal::open(&record.journal())?;
    client.attend(id, left, &mut |lease, happening| {
        if let Some(text) = journal::words(lease, &happening) {
            // What cannot be kept is told all the same at the end of the task.
            let _ = journal.write(&text);
        }
    })?;
    Ok(true)
}
