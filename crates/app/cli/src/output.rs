//! Printing: data on stdout as a table, JSON or CSV, everything else on stderr.

use crate::csv;
use anyhow::Result;
use clap::ValueEnum;
use comfy_table::{ContentArrangement, Table, presets};
use opengpu_types::{Millis, Permille, Text};
use serde::{Deserialize, Serialize};
use std::io::{self, Write as _};

/// How data is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// For spreadsheets.
    Csv,
}

/// Where everything that is printed goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) format: Format,
}

impl Output {
    /// Prints data: as JSON, as CSV, or as the text that `table` makes of it.
    pub(crate) fn show<T: Serialize>(
        &self,
        data: &T,
        table: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        let text = match self.format {
            Format::Json => serde_json::to_string_pretty(data)?,
            Format::Csv => csv::lines(&serde_json::to_value(data)?),
            Format::Table => table(data),
        };
        writeln!(io::stdout().lock(), "{}", text.trim_end())?;
        Ok(())
    }

    /// Prints one item of a stream: as one line of JSON or CSV, or as the line that `table` makes of it.
    pub(crate) fn show_line<T: Serialize>(
        &self,
        data: &T,
        table: impl FnOnce(&T) -> String,
    ) -> Result<()> {
        let text = match self.format {
            Format::Json => serde_json::to_string(data)?,
            Format::Csv => csv::row(&serde_json::to_value(data)?),
            Format::Table => table(data),
        };
        writeln!(io::stdout().lock(), "{}", text.trim_end_matches('\n'))?;
        Ok(())
    }

    /// Prints one line that is no data.
    pub(crate) fn note(&self, text: impl AsRef<str>) {
        // Notes are a courtesy: a closed stderr must not stop the command.
        let _ = writeln!(io::stderr().lock(), "{}", text.as_ref());
    }
}

/// Names and values, one per line.
pub(crate) fn facts<const N: usize>(rows: [(&str, String); N]) -> String {
    lines(rows)
}

/// Names and values, one per line, of any number.
pub(crate) fn lines<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut table = plain();
    for (name, value) in rows {
        table.add_row([name, value.as_str()]);
    }
    text(table)
}

/// A table with a title line.
pub(crate) fn table<const N: usize>(
    titles: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = plain();
    table.set_header(titles.map(str::to_uppercase));
    for row in rows {
        table.add_row(row);
    }
    text(table)
}

/// No frames and no wrapping: columns can be copied, and lines can be searched.
fn plain() -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table
}

fn text(mut table: Table) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines: Vec<_> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// A line of a stranger's program, which must not steer the terminal of whoever reads it.
pub(crate) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    Text::<2048>::cut(text.trim_end()).to_string()
}

/// So many of a thing, whose name takes an `s` if there is not one of it.
pub(crate) fn counted(count: impl Into<u64>, thing: &str) -> String {
    let count = count.into();
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

/// A part as per cent, such as `5%` or `2.5%`.
pub(crate) fn percent(share: Permille) -> String {
    let (whole, rest) = (share.get() / 10, share.get() % 10);
    if rest == 0 { format!("{whole}%") } else { format!("{whole}.{rest}%") }
}

/// A block time as a date in UTC, `2026-11-15 23:24:05Z`.
pub(crate) fn date(time: Millis) -> String {
    const DAY: u64 = 86_400;
    let seconds = time.0 / 1_000;
    let (days, rest) = (seconds / DAY, seconds % DAY);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day number since 1970.
fn civil(days: u64) -> (u64, u64, u64) {
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let (mut year, mut rest) = (1970_u64, days);
    loop {
        let length = if leap(year) { 366 } else { 365 };
        match rest.checked_sub(length) {
            Some(left) => (year, rest) = (year.saturating_add(1), left),
            None => break,
        }
        if year == 9999 {
            // Far beyond any honest clock; a node may send anything.
            return (year, 12, 31);
        }
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 1_u64;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        match rest.checked_sub(length) {
            Some(left) => (month, rest) = (month.saturating_add(1), left),
            None => break,
        }
    }
    (year, month, rest.saturating_add(1))
}

/// A span in words, such as `2 d 3 h` or `45 s`.
pub(crate) fn span(time: Millis) -> String {
    let seconds = time.0 / 1_000;
    let parts = [
        (seconds / 86_400, "d"),
        (seconds / 3_600 % 24, "h"),
        (seconds / 60 % 60, "min"),
        (seconds % 60, "s"),
    ];
    let words: Vec<_> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .take(2)
        .map(|(count, unit)| format!("{count} {unit}"))
        .collect();
    if words.is_empty() { format!("{} ms", time.0) } else { words.join(" ") }
}

/// How long ago something was; what was less than a second ago is now.
pub(crate) fn ago(time: Millis) -> String {
    if time < Millis(1_000) { "just now".to_owned() } else { format!("{} ago", span(time)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_one_and_others_are_several() {
        let told = [0u32, 1, 2].map(|count| counted(count, "segment"));
        assert_eq!(told, ["0 segments", "1 segment", "2 segments"]);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00Z"),
            (951_782_400, "2000-02-29 00:00:00Z"),
            (1_735_689_599, "2024-12-31 23:59:59Z"),
            (1_794_785_045, "2026-11-15 23:24:05Z"),
        ] {
            assert_eq!(date(Millis(seconds * 1_000)), text);
        }
        assert!(date(Millis(u64::MAX)).starts_with("9999"));
    }

    #[test]
    fn spans_and_parts_read_well() {
        assert_eq!(span(Millis(60_000)), "1 min");
        assert_eq!(span(Millis(183_600_000)), "2 d 3 h");
        assert_eq!(span(Millis(250)), "250 ms");
        assert_eq!(ago(Millis(999)), "just now");
        assert_eq!(ago(Millis(1_000)), "1 s ago");
        assert_eq!(percent(Permille::new(50).unwrap()), "5%");
        assert_eq!(percent(Permille::new(25).unwrap()), "2.5%");
    }

    #[test]
    fn tables_have_no_frames_and_no_trailing_spaces() {
        let text = table(["name", "height"], [["a".to_owned(), "1".to_owned()]]);
        assert_eq!(text, "NAME  HEIGHT\na     1");
        assert_eq!(facts([("height", "1".to_owned())]), "height  1");
    }
}
