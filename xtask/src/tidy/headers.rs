//! Every Rust file opens with `//!`: what it is, what it is not, its invariants.

use super::Finding;
use super::workspace::Workspace;

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let without = workspace.rust().filter(|file| !file.text.starts_with("//! "));
    without
        .map(|file| Finding {
            path: file.path.clone(),
            line: 1,
            rule: "headers",
            message: "the file does not open with `//! `".into(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::workspace::Workspace;

    #[test]
    fn a_file_without_a_header_is_found() {
        let workspace = Workspace::with_files(&[
            ("crates/a/src/good.rs", "//! Says what it is.\n"),
            ("crates/a/src/late.rs", "use std::fmt;\n//! Too late.\n"),
            ("crates/a/src/empty.rs", ""),
            ("crates/a/src/mute.rs", "//!\n"),
        ]);
        let paths: Vec<_> = check(&workspace).into_iter().map(|finding| finding.path).collect();
        assert_eq!(
            paths,
            ["crates/a/src/late.rs", "crates/a/src/empty.rs", "crates/a/src/mute.rs"]
        );
    }
}
