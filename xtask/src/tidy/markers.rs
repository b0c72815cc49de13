//! A reminder in the code names the issue that will remove it: `(#12)` after the marker.

use super::Finding;
use super::workspace::{TextFile, Workspace};

/// Written in two parts, so that this file does not find itself.
const MARKERS: [&str; 2] = [concat!("TO", "DO"), concat!("FIX", "ME")];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    // Prose may speak about markers; code and configuration must not carry them.
    let code = workspace.files.iter().filter(|file| !file.path.ends_with(".md"));
    code.flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in file.lines() {
        for marker in MARKERS {
            let bare = line.match_indices(marker).any(|(at, _)| {
                let rest = line.get(at.saturating_add(marker.len())..).unwrap_or_default();
                !names_an_issue(rest)
            });
            if bare {
                findings.push(Finding {
                    path: file.path.clone(),
                    line: number,
                    rule: "markers",
                    message: format!(
                        "{marker} without an issue: write {marker}(#12), or do it now"
                    ),
                });
            }
        }
    }
    findings
}

fn names_an_issue(rest: &str) -> bool {
    let Some((number, _)) = rest.strip_prefix("(#").and_then(|rest| rest.split_once(')')) else {
        return false;
    };
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::{MARKERS, check};
    use crate::tidy::workspace::Workspace;

    fn found(text: &str) -> usize {
        check(&Workspace::with_files(&[("crates/a/src/lib.rs", text)])).len()
    }

    #[test]
    fn a_marker_without_an_issue_is_found() {
        for marker in MARKERS {
            assert_eq!(found(&format!("// {marker}: later\n")), 1);
            assert_eq!(found(&format!("// {marker}(somebody): later\n")), 1);
            assert_eq!(found(&format!("// {marker}(#): later\n")), 1);
        }
    }

    #[test]
    fn a_marker_with_an_issue_is_silent() {
        for marker in MARKERS {
            assert_eq!(found(&format!("// {marker}(#12): later\n")), 0);
        }
    }
}
