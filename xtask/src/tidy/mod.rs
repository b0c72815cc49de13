//! `tidy`: the rules of the house that the compiler does not know.
//!
//! Each rule is a pure function from a [`Workspace`] that was read once to its [`Finding`]s, so that a
//! test can plant a violation in a few lines of text and see it found.
//! Rules only report; none of them rewrites a file.

mod edges;
mod headers;
mod links;
mod markers;
mod modules;
mod names;
mod promises;
mod sizes;
mod words;
mod workspace;

use anyhow::{Result, bail};
use std::fmt;
use workspace::Workspace;

/// One violation, at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    /// Counted from 1.
    line: usize,
    rule: &'static str,
    message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, rule, message } = self;
        write!(f, "{path}:{line}: {rule}: {message}")
    }
}

type Rule = fn(&Workspace) -> Vec<Finding>;

const RULES: [Rule; 8] = [
    edges::check,
    headers::check,
    links::check,
    markers::check,
    modules::check,
    promises::check,
    sizes::check,
    words::check,
];

/// Reads the workspace, prints every finding and fails when there is one.
pub(crate) fn run() -> Result<()> {
    let workspace = Workspace::read()?;
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|check| check(&workspace)).collect();
    findings.sort();
    for finding in &findings {
        println!("{finding}");
    }
    if !findings.is_empty() {
        bail!("tidy has {} to fix", findings.len());
    }
    eprintln!("tidy: {} files, {} rules, no findings", workspace.files.len(), RULES.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Finding;

    #[test]
    fn a_finding_is_printed_so_that_an_editor_can_jump_to_it() {
        let finding = Finding {
            path: "crates/base/types/src/lib.rs".into(),
            line: 7,
            rule: "words",
            message: "say `task`".into(),
        };
        assert_eq!(finding.to_string(), "crates/base/types/src/lib.rs:7: words: say `task`");
    }
}
