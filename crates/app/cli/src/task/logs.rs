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
    let reader = journal::Reader::new(client.record(arguments.task).journal());
    let mut shown = Shown { context, from, reader };
    shown.show()?;
    if !arguments.follow {
        return Ok(());
    }
    let left = attendance::left_by_signal()?;
    while !left.load(Ordering::SeqCst) && !is_over(&client, arguments.task, &left, &mut shown)? {
        std::thread::sleep(LOOK);
        shown.show()?;
    }
    shown.show()
}

/// A journal on its way to whoever reads it.
struct Shown<'a> {
    context: &'a Context,
    from: Millis,
    reader: journal::Reader,
}

impl Shown<'_> {
    /// Shows what is new.
    fn show(&mut self) -> Result<()> {
        for line in self.reader.read()?.into_iter().filter(|line| line.time >= self.from) {
            let json = json!({ "time_ms": line.time.0, "text": line.text });
            let text = |_: &_| format!("{} {}", date(line.time), line.text);
            self.context.output.show_line(&json, text)?;
        }
        Ok(())
    }
}

/// Whether a task has ended and all of it is here. If nobody attends it, this process does.
fn is_over(client: &Client, id: TaskId, left: &AtomicBool, shown: &mut Shown<'_>) -> Result<bool> {
    let record = client.record(id);
    let Some(_attending) = record.attend()? else { return Ok(false) };
    let mut journal = journal::Journal::open(&record.journal())?;
    let mut asides = journal::Asides::default();
    client.attend(id, left, &mut |lease, happening| {
        if let Some(text) = journal::words(lease, &happening) {
            // What cannot be kept or shown now is told all the same at the end of the task.
            let _ = journal.write(&text);
            let _ = shown.show();
        }
        let path = record.journal();
        asides.explain(client, id, &happening, move |text| {
            let _ = journal::Journal::open(&path).and_then(|mut journal| journal.write(text));
        });
    })?;
    Ok(true)
}
