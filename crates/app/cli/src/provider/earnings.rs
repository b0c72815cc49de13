//! `opengpu provider earnings`: leases that ended, and what they brought.

use super::{book, folder::Folder};
use crate::{
    context::Context,
    output::{Format, table},
};
use anyhow::{Context as _, Result};
use opengpu_types::Amount;
use serde_json::json;
use std::io::{self, ErrorKind, Write as _};

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line([String; 7]);

fn parse(text: &str) -> Vec<Line> {
    let line = |line: &str| {
        let words: Vec<_> = line.split(',').map(str::to_owned).collect();
        <[String; 7]>::try_from(words).ok().map(Line)
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// What all of them brought.
fn total(lines: &[Line]) -> Amount {
    let paid = lines.iter().filter_map(|Line([.., paid])| paid.parse::<Amount>().ok());
    paid.fold(Amount::ZERO, |sum, paid| sum.plus(paid).unwrap_or(sum))
}

pub(crate) fn run(context: &Context, folder: &Folder) -> Result<()> {
    folder.settings()?;
    let path = book::path(folder);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => format!("{}\n", book::TITLES),
        Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
    };
    if context.output.format == Format::Csv {
        return Ok(io::stdout().lock().write_all(text.as_bytes())?);
    }
    let lines = parse(&text);
    let names = book::TITLES.split(',');
    let items = lines.iter().map(|Line(words)| {
        names.clone().map(str::to_owned).zip(words.iter().map(|word| json!(word))).collect()
    });
    let items: Vec<serde_json::Map<_, _>> = items.collect();
    let data = json!({ "leases": items, "paid_ogpu": total(&lines).to_string() });
    context.output.show(&data, |_| {
        let titles = ["closed", "height", "lease", "reason", "verdict", "worked ms", "paid oGPU"];
        table(titles, lines.iter().map(|Line(words)| words.clone()))
    })?;
    let count = lines.len();
    context.output.note(format!("{count} leases ended; they brought {} oGPU.", total(&lines)));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_added_up_and_others_are_left_out() {
        let text = format!(
            "{}\na,1,x/0,completed,upheld,5,1.5\nbroken\nb,2,y/0,late,,0,0.25\n",
            book::TITLES
        );
        let lines = parse(&text);
        assert_eq!(lines.len(), 2);
        assert_eq!(total(&lines).to_string(), "1.75");
    }
}
