//! PROMISES.md is honest in form: every promise once, a legal status, and evidence that exists.
//!
//! A row is `| id | promise | status | shown by |`. Evidence stands in backticks: `crate::test_name` for a
//! test (searched as `fn test_name` in that crate) or a `cargo xtask` command line.
//! Whether the test shows the promise is for the reader; that it exists is checked here.

use super::Finding;
use super::workspace::Workspace;
use std::collections::BTreeMap;

const RULE: &str = "promises";
const LEDGER: &str = "PROMISES.md";
const STATUSES: [&str; 4] = ["real", "partial", "simulated", "absent"];

/// Letter of the area, and how many promises it has.
const AREAS: [(char, u32); 5] = [('C', 15), ('M', 9), ('E', 16), ('S', 7), ('A', 14)];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(file) = workspace.file(LEDGER) else {
        return vec![finding(1, "the file is missing".into())];
    };
    let mut findings = Vec::new();
    let mut seen = BTreeMap::new();
    for (number, line) in file.lines() {
        let Some(row) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [id, _, status, shown] = cells.as_slice() else {
            findings.push(finding(number, "a row has four columns".into()));
            continue;
        };
        if *id == "id" || id.starts_with("---") {
            continue;
        }
        if !is_promised(id) {
            findings.push(finding(number, format!("`{id}` is not a promise")));
        }
        if let Some(first) = seen.insert((*id).to_owned(), number) {
            findings.push(finding(number, format!("{id} is already in line {first}")));
        }
        if !STATUSES.contains(status) {
            let legal = STATUSES.join(", ");
            findings.push(finding(number, format!("{id}: `{status}` is none of {legal}")));
        }
        check_evidence(workspace, (number, id, status, shown), &mut findings);
    }
    for (area, count) in AREAS {
        for id in (1..=count).map(|number| format!("{area}{number}")) {
            if !seen.contains_key(&id) {
                findings.push(finding(1, format!("{id} is missing")));
            }
        }
    }
    findings
}

fn is_promised(id: &str) -> bool {
    AREAS.iter().any(|(area, count)| {
        id.strip_prefix(*area)
            .and_then(|number| number.parse::<u32>().ok())
            .is_some_and(|number| (1..=*count).contains(&number))
    })
}

fn check_evidence(
    workspace: &Workspace,
    (line, id, status, shown): (usize, &str, &str, &str),
    findings: &mut Vec<Finding>,
) {
    let evidence: Vec<&str> = shown.split('`').skip(1).step_by(2).collect();
    if evidence.is_empty() && status != "absent" {
        findings.push(finding(line, format!("{id} is {status} but names no test and no command")));
    }
    for named in evidence {
        if named.starts_with("cargo xtask ") {
            continue;
        }
        let Some((role, rest)) = named.split_once("::") else {
            let message = format!("{id}: `{named}` is neither crate::test_name nor a command");
            findings.push(finding(line, message));
            continue;
        };
        let test = rest.rsplit("::").next().unwrap_or(rest);
        if !exists(workspace, role, test) {
            findings.push(finding(line, format!("{id}: no `fn {test}` in crate {role}")));
        }
    }
}

fn exists(workspace: &Workspace, role: &str, test: &str) -> bool {
    let package = format!("opengpu-{role}");
    let Some(member) =
        workspace.crates.iter().find(|member| member.package == package || member.package == role)
    else {
        return false;
    };
    let folder = format!("{}/", member.folder());
    let needle = format!("fn {test}");
    workspace.rust().filter(|file| file.path.starts_with(&folder)).any(|file| {
        file.text.split(needle.as_str()).skip(1).any(|rest| {
            // The name ends here, or it is another function that starts alike.
            !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
        })
    })
}

fn finding(line: usize, message: String) -> Finding {
    Finding { path: LEDGER.into(), line, rule: RULE, message }
}

#[cfg(test)]
mod tests {
    use super::{AREAS, LEDGER, check};
    use crate::tidy::workspace::{Crate, Workspace};

    fn table(replace: &str, with: &str) -> String {
        let mut text = "| id | promise | status | shown by |\n|---|---|---|---|\n".to_owned();
        for (area, count) in AREAS {
            for number in 1..=count {
                text.push_str(&format!("| {area}{number} | It works. | absent | |\n"));
            }
        }
        text.replace(replace, with)
    }

    fn messages(table: &str) -> Vec<String> {
        let tests = "//! Tests.\nfn the_cap_holds() {}\nfn the_cap_holds_always() {}\n";
        let mut workspace = Workspace::with_files(&[
            (LEDGER, table),
            ("crates/chain/ledger/src/token.rs", tests),
            ("crates/chain/node/src/lib.rs", "//! Node.\nfn elsewhere() {}\n"),
        ]);
        workspace.crates.push(Crate {
            package: "opengpu-ledger".into(),
            manifest: "crates/chain/ledger/Cargo.toml".into(),
            dependencies: Vec::new(),
        });
        check(&workspace).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn all_promises_absent_is_honest() {
        assert!(messages(&table("", "")).is_empty());
    }

    #[test]
    fn a_missing_a_double_and_an_invented_promise_are_found() {
        let found = messages(&table("| M3 |", "| M4 |"));
        assert_eq!(found, ["M4 is already in line 20", "M3 is missing"]);
        let found = messages(&table("| S7 |", "| S8 |"));
        assert_eq!(found, ["`S8` is not a promise", "S7 is missing"]);
    }

    #[test]
    fn an_unknown_status_is_found() {
        let found = messages(&table("| C4 | It works. | absent |", "| C4 | It works. | done |"));
        assert_eq!(found[0], "C4: `done` is none of real, partial, simulated, absent");
    }

    #[test]
    fn a_claim_needs_a_test_that_exists_in_the_named_crate() {
        let row = "| C4 | It works. | absent | |";
        let with =
            |shown: &str| messages(&table(row, &format!("| C4 | It works. | real | {shown} |")));
        assert_eq!(with(""), ["C4 is real but names no test and no command"]);
        assert_eq!(with("`ledger::the_cap`"), ["C4: no `fn the_cap` in crate ledger"]);
        assert_eq!(with("`ledger::elsewhere`"), ["C4: no `fn elsewhere` in crate ledger"]);
        assert_eq!(with("`market::the_cap_holds`"), ["C4: no `fn the_cap_holds` in crate market"]);
        assert_eq!(with("`a test`"), ["C4: `a test` is neither crate::test_name nor a command"]);
        assert!(with("`ledger::token::the_cap_holds`, `cargo xtask soak`").is_empty());
    }

    #[test]
    fn a_missing_ledger_is_found() {
        assert_eq!(check(&Workspace::default()).len(), 1);
    }
}
