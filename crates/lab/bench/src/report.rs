//! How every bench ends: a table, a file, and last the wanted figures.

use crate::{error::BenchError, machine, tell, told::Told, want::Want};
use serde_json::{Map, Value, json};
use std::fs;

/// Everything that a run says.
#[derive(Debug)]
pub(crate) struct Report {
    /// Of which bench.
    pub(crate) bench: &'static str,
    /// When it began.
    pub(crate) begun: u64,
    /// The table.
    pub(crate) rows: Vec<(&'static str, f64)>,
    /// What a table cannot hold, in words.
    pub(crate) notes: Vec<String>,
    /// The wanted figures.
    pub(crate) wants: Vec<Want>,
    /// What else the file holds, by name.
    pub(crate) more: Map<String, Value>,
}

impl Report {
    /// Prints the table and the wanted figures, and writes the file unless the run was quick.
    pub(crate) fn publish(&self, told: &Told) -> Result<(), BenchError> {
        self.print(told.quick);
        if told.quick {
            return Ok(());
        }
        let path = told.results.join(format!("{}-{}.json", self.bench, machine::date(self.begun)));
        let mut text = format!("{:#}", self.json(&told.commit));
        text.push('\n');
        fs::write(&path, text)
            .map_err(BenchError::system(format!("writing {}", path.display())))?;
        tell(format!("written to {}", path.display()));
        Ok(())
    }

    #[expect(clippy::print_stdout, reason = "the output of the program")]
    fn print(&self, quick: bool) {
        if quick {
            println!("a quick run: it shows that the bench works, its figures are no results");
        }
        for (name, value) in &self.rows {
            println!("{name:<52}{value:>12.1}");
        }
        for note in &self.notes {
            println!("{note}");
        }
        for want in &self.wants {
            println!("{want}");
        }
    }

    fn json(&self, commit: &str) -> Value {
        let figures = self.rows.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
        let mut file = json!({
            "bench": self.bench,
            "commit": commit,
            "date": machine::date(self.begun),
            "machine": machine::describe(),
            "command": repeatable(self.bench, std::env::args().skip(1)),
            "figures": figures.collect::<Map<_, _>>(),
            "notes": self.notes,
            "wants": self.wants.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        if let Some(file) = file.as_object_mut() {
            file.extend(self.more.clone());
        }
        file
    }
}

/// What anybody types to measure the same: without what xtask adds, which is about this machine.
fn repeatable(bench: &str, mut arguments: impl Iterator<Item = String>) -> String {
    let mut words = vec![format!("cargo xtask bench {bench}")];
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--opengpu" | "--results" | "--commit" | "--peer" | "--no-peer" | "--keep" => {
                arguments.next();
            }
            _ => words.push(word),
        }
    }
    words.join(" ")
}

/// Lines that name the peers that are missing.
pub(crate) fn absent(missing: &Map<String, Value>) -> Vec<String> {
    let why = |why: &Value| why.as_str().unwrap_or_default().to_owned();
    missing.iter().map(|(name, it)| format!("{name}: no peer ({})", why(it))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_repeated_elsewhere() {
        let words =
            ["--opengpu", "/here/opengpu", "--rounds", "3", "--peer", "anvil=/x", "--quick"];
        let command = repeatable("chain", words.into_iter().map(str::to_owned));
        assert_eq!(command, "cargo xtask bench chain --rounds 3 --quick");
    }

    #[test]
    fn a_file_names_what_was_measured_and_holds_what_is_added() {
        let more = Map::from_iter([("rounds".to_owned(), json!([1]))]);
        let rows = vec![("rate", 2.0)];
        let notes = vec!["nobody".to_owned()];
        let report = Report { bench: "exec", begun: 0, rows, notes, wants: Vec::new(), more };
        let file = report.json("abc");
        assert_eq!(file["commit"], "abc");
        assert_eq!(file["figures"]["rate"], 2.0);
        assert_eq!(file["rounds"], json!([1]));
        assert_eq!(file["notes"], json!(["nobody"]));
    }
}
