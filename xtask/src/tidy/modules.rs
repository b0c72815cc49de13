//! No module is named after being useful; a module is named after what it holds.

use super::Finding;
use super::names::{Kind, names};
use super::workspace::{TextFile, Workspace};

const RULE: &str = "modules";
const BANNED: [&str; 8] =
    ["common", "helper", "helpers", "manager", "managers", "shared", "util", "utils"];

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    workspace.rust().flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let path = file.path.strip_suffix(".rs").unwrap_or(&file.path);
    if let Some(part) = path.split('/').find(|part| BANNED.contains(part)) {
        findings.push(finding(file, 1, part));
    }
    // A file that does not parse is reported by the rule on words.
    for name in names(file).unwrap_or_default() {
        if name.kind == Kind::Module && BANNED.contains(&name.text.as_str()) {
            findings.push(finding(file, name.line, &name.text));
        }
    }
    findings
}

fn finding(file: &TextFile, line: usize, name: &str) -> Finding {
    Finding {
        path: file.path.clone(),
        line,
        rule: RULE,
        message: format!("`{name}` says nothing: name the module after what it holds"),
    }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::tidy::workspace::Workspace;

    fn found(path: &str, text: &str) -> usize {
        check(&Workspace::with_files(&[(path, text)])).len()
    }

    #[test]
    fn a_grab_bag_is_found_as_file_folder_and_inline_module() {
        assert_eq!(found("crates/a/src/utils.rs", "//! A."), 1);
        assert_eq!(found("crates/a/src/common/codec.rs", "//! A."), 1);
        assert_eq!(found("crates/a/src/lib.rs", "//! A.\nmod helpers {}\n"), 1);
    }

    #[test]
    fn a_word_inside_a_longer_name_is_silent() {
        assert_eq!(found("crates/a/src/shared_secret.rs", "//! A.\nmod commonware {}\n"), 0);
    }
}
