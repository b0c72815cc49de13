//! Relative links of the documents lead to a file or a folder of the repository.
//!
//! Links to the web are not followed: a check that needs the network fails for the wrong reasons.

use super::Finding;
use super::workspace::{TextFile, Workspace};

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let documents = workspace.with_ending(".md");
    documents.flat_map(|document| check_document(workspace, document)).collect()
}

fn check_document(workspace: &Workspace, document: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut fenced = false;
    for (number, line) in document.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        for link in links(line) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains(':') {
                continue; // a heading of this page, or a scheme
            }
            let found = resolve(&document.path, target)
                .is_some_and(|path| path.is_empty() || workspace.paths.contains(&path));
            if !found {
                findings.push(Finding {
                    path: document.path.clone(),
                    line: number,
                    rule: "links",
                    message: format!("`{link}` leads nowhere"),
                });
            }
        }
    }
    findings
}

/// The targets of `[text](target)` in a line, outside of code spans.
fn links(line: &str) -> Vec<&str> {
    let prose = line.split('`').step_by(2);
    prose
        .flat_map(|text| text.split("](").skip(1))
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target.trim())
        .collect()
}

/// The path that a link of a document means; nothing when it leaves the repository.
fn resolve(document: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    if !target.starts_with('/') {
        parts.extend(document.split('/'));
        parts.pop();
    }
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::workspace::Workspace;

    fn found(text: &str) -> Vec<String> {
        let workspace = Workspace::with_files(&[
            ("docs/adr/0001-engine.md", text),
            ("docs/spec/glossary.md", ""),
            ("README.md", ""),
        ]);
        check(&workspace).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        assert_eq!(
            found("See [it](../spec/missing.md#a)."),
            ["`../spec/missing.md#a` leads nowhere"]
        );
        assert_eq!(
            found("See [it](../../../outside.md)."),
            ["`../../../outside.md` leads nowhere"]
        );
    }

    #[test]
    fn files_folders_headings_and_the_web_are_silent() {
        let text = "[a](../spec/glossary.md) [b](../spec/) [c](#here) [d](https://x.org/y) [e](/README.md) [f](../..)";
        assert!(found(text).is_empty());
    }

    #[test]
    fn code_is_not_a_link() {
        assert!(found("`[a](nowhere.md)`\n```\n[b](nowhere.md)\n```\n").is_empty());
    }
}
