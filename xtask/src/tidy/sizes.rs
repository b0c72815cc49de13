//! A file has at most 600 lines before its tests; a longer one holds two ideas.
//!
//! Files that are tests from their first line to their last (`tests/`, `tests.rs`, `*_tests.rs`) are
//! not counted.

use super::Finding;
use super::workspace::{TextFile, Workspace};

const LIMIT: usize = 600;

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in workspace.rust().filter(|file| !is_tests(&file.path)) {
        let lines = lines_before_tests(file);
        if lines > LIMIT {
            findings.push(Finding {
                path: file.path.clone(),
                line: LIMIT,
                rule: "sizes",
                message: format!("{lines} lines before the tests, at most {LIMIT}: split the file"),
            });
        }
    }
    findings
}

fn is_tests(path: &str) -> bool {
    path.split('/').any(|part| part == "tests" || part == "tests.rs")
}

/// The tests start at `#[cfg(test)]` over a module; over anything else it is one more product line.
fn lines_before_tests(file: &TextFile) -> usize {
    let mut start = None;
    let mut last = 0;
    for (number, line) in file.lines() {
        last = number;
        if line == "#[cfg(test)]" {
            start = start.or(Some(number));
        } else if line.starts_with("mod ") || line.starts_with("pub mod ") {
            if let Some(start) = start {
                return start.saturating_sub(1);
            }
        } else if !line.starts_with("#[") {
            start = None;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::workspace::Workspace;

    fn found(path: &str, text: &str) -> usize {
        check(&Workspace::with_files(&[(path, text)])).len()
    }

    #[test]
    fn one_line_too_many_is_found() {
        assert_eq!(found("crates/a/src/lib.rs", &"x\n".repeat(600)), 0);
        assert_eq!(found("crates/a/src/lib.rs", &"x\n".repeat(601)), 1);
    }

    #[test]
    fn tests_below_the_product_are_not_counted() {
        let text =
            format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", "x\n".repeat(600), "y\n".repeat(900));
        assert_eq!(found("crates/a/src/lib.rs", &text), 0);
        assert_eq!(found("crates/a/tests/whole.rs", &"x\n".repeat(900)), 0);
    }

    #[test]
    fn an_import_for_tests_does_not_end_the_count() {
        let text = format!("#[cfg(test)]\nuse a::b;\n\nmod c;\n{}", "x\n".repeat(700));
        assert_eq!(found("crates/a/src/lib.rs", &text), 1);
    }
}
