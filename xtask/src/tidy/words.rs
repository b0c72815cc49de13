//! One word per thing: the glossary's unwanted words do not name types, fields or commands.
//!
//! The words and their exceptions are read from the glossary itself, so the text that people read
//! is the rule that is checked. In its column "not" a word in backticks is banned as a whole segment
//! of a name (`JobQueue`, `worker_ids`), alone or in the plural; words without backticks are advice.
//! Its table of exceptions says where a word may stand: below a path (with a slash) or as one exact
//! name (without), and why. An exception without a reason, or for a word that nobody bans, is a finding.

use super::Finding;
use super::names::{Kind, Name, names, segments};
use super::workspace::{TextFile, Workspace};

const RULE: &str = "words";
const GLOSSARY: &str = "docs/spec/glossary.md";

#[derive(Debug, Default)]
struct Glossary {
    bans: Vec<Ban>,
    exceptions: Vec<Exception>,
    findings: Vec<Finding>,
}

#[derive(Debug)]
struct Ban {
    /// Lower-case; more than one for a phrase.
    segments: Vec<String>,
    /// The word to use.
    instead: String,
}

#[derive(Debug)]
struct Exception {
    word: String,
    places: Vec<String>,
}

pub(super) fn check(workspace: &Workspace) -> Vec<Finding> {
    let Some(file) = workspace.file(GLOSSARY) else {
        return vec![finding(GLOSSARY, 1, "the glossary is missing".into())];
    };
    let mut glossary = read(file);
    let mut findings = std::mem::take(&mut glossary.findings);
    for file in workspace.rust() {
        match names(file) {
            Ok(names) => {
                findings.extend(names.iter().filter_map(|name| check_name(&glossary, file, name)));
            }
            Err(error) => {
                let line = error.span().start().line.max(1);
                findings.push(finding(&file.path, line, format!("does not parse: {error}")));
            }
        }
    }
    findings
}

fn check_name(glossary: &Glossary, file: &TextFile, name: &Name) -> Option<Finding> {
    if name.kind == Kind::Module {
        return None;
    }
    let segments = segments(&name.text);
    let ban = glossary.bans.iter().find(|ban| {
        ban.stands_in(&segments) && !glossary.excuses(&ban.segments.join(" "), file, name)
    })?;
    let message = format!(
        "{} `{}` says `{}`; the glossary says {}",
        name.kind.word(),
        name.text,
        ban.segments.join(" "),
        ban.instead
    );
    Some(finding(&file.path, name.line, message))
}

impl Ban {
    fn stands_in(&self, name: &[String]) -> bool {
        name.windows(self.segments.len()).any(|window| {
            window.iter().zip(&self.segments).all(|(found, banned)| is_word(found, banned))
        })
    }
}

/// Equal, or the plain plural.
fn is_word(found: &str, banned: &str) -> bool {
    found == banned
        || found.strip_suffix('s') == Some(banned)
        || found.strip_suffix("ies").is_some_and(|stem| banned.strip_suffix('y') == Some(stem))
}

impl Glossary {
    fn excuses(&self, word: &str, file: &TextFile, name: &Name) -> bool {
        let of_word = self.exceptions.iter().filter(|exception| exception.word == word);
        of_word.flat_map(|exception| &exception.places).any(|place| {
            if place.contains('/') { file.path.starts_with(place) } else { name.text == *place }
        })
    }
}

/// Reads the two tables: three columns with "not" last, and "exception", "where", "why".
fn read(file: &TextFile) -> Glossary {
    let mut glossary = Glossary::default();
    let mut exceptions = false;
    for (number, line) in file.lines() {
        let Some(row) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            continue;
        };
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        match cells.as_slice() {
            ["word", "meaning", "not"] => exceptions = false,
            ["exception", "where", "why"] => exceptions = true,
            [first, ..] if first.starts_with("---") => {}
            [word, places, why] if exceptions => {
                glossary.add_exception(number, word, places, why);
            }
            [word, _, not] => glossary.bans.extend(
                quoted(not)
                    .into_iter()
                    .map(|banned| Ban { segments: segments(&banned), instead: (*word).to_owned() }),
            ),
            _ => glossary.findings.push(finding(GLOSSARY, number, "not three columns".into())),
        }
    }
    if glossary.bans.is_empty() {
        glossary.findings.push(finding(GLOSSARY, 1, "the glossary bans no word".into()));
    }
    glossary
}

impl Glossary {
    fn add_exception(&mut self, line: usize, word: &str, places: &str, why: &str) {
        let words = quoted(word);
        let places = quoted(places);
        if why.is_empty() || places.is_empty() || words.is_empty() {
            let message = "an exception has a word, a place and a reason".to_owned();
            self.findings.push(finding(GLOSSARY, line, message));
        }
        for word in words {
            if !self.bans.iter().any(|ban| ban.segments.join(" ") == word) {
                let message = format!("an exception for `{word}`, which is not banned above");
                self.findings.push(finding(GLOSSARY, line, message));
            }
            self.exceptions.push(Exception { word, places: places.clone() });
        }
    }
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn finding(path: &str, line: usize, message: String) -> Finding {
    Finding { path: path.to_owned(), line, rule: RULE, message }
}

#[cfg(test)]
mod tests {
    use super::{GLOSSARY, check};
    use crate::tidy::workspace::Workspace;

    const TABLES: &str = "\
| word | meaning | not |
|---|---|---|
| task | One paid piece of work. | `job`, `source`, order |
| provider | Party that is paid. | `worker` |
| eyes | Who may see. | `privacy mode` |
| validator | Party that votes. | `authority` |

| exception | where | why |
|---|---|---|
| `worker` | `crates/chain/node/` | threads of the runtime |
| `source` | `source` | the standard library's word for the cause of an error |
";

    fn found(path: &str, text: &str) -> Vec<String> {
        let workspace = Workspace::with_files(&[(GLOSSARY, TABLES), (path, text)]);
        check(&workspace).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn banned_words_in_types_variants_fields_and_commands_are_found() {
        let path = "crates/base/types/src/lib.rs";
        let text = "//! A.\nstruct JobQueue {\n    worker_ids: u64,\n}\nenum E {\n    Authorities,\n}\n\
                    struct C {\n    #[arg(long = \"job\")]\n    task: u64,\n}\n";
        let wanted = [
            "crates/base/types/src/lib.rs:2: words: type `JobQueue` says `job`; the glossary says task",
            "crates/base/types/src/lib.rs:3: words: field `worker_ids` says `worker`; the glossary says provider",
            "crates/base/types/src/lib.rs:6: words: variant `Authorities` says `authority`; the glossary says validator",
            "crates/base/types/src/lib.rs:9: words: command or flag `job` says `job`; the glossary says task",
        ];
        let mut found = found(path, text);
        found.sort();
        assert_eq!(found, wanted);
    }

    #[test]
    fn a_phrase_is_found_only_when_its_words_follow_each_other() {
        let path = "crates/base/types/src/lib.rs";
        assert_eq!(found(path, "//! A.\nenum PrivacyMode {}\n").len(), 1);
        assert_eq!(found(path, "//! A.\nenum PrivacyOfMode {}\n").len(), 0);
    }

    #[test]
    fn advice_parts_of_words_and_functions_are_silent() {
        let text =
            "//! A.\nstruct Reorder { ordering: u64, jobless: u64 }\nfn job() {}\nstruct Order;\n";
        assert!(found("crates/base/types/src/lib.rs", text).is_empty());
    }

    #[test]
    fn an_exception_holds_at_its_place_and_nowhere_else() {
        let text = "//! A.\nstruct Pool { workers: u64 }\n";
        assert!(found("crates/chain/node/src/lib.rs", text).is_empty());
        assert_eq!(found("crates/chain/ledger/src/lib.rs", text).len(), 1);
    }

    #[test]
    fn an_exact_name_is_excused_but_not_its_relatives() {
        assert!(found("crates/a/src/lib.rs", "//! A.\nstruct E { source: u64 }\n").is_empty());
        assert_eq!(found("crates/a/src/lib.rs", "//! A.\nstruct E { source_id: u64 }\n").len(), 1);
    }

    #[test]
    fn an_exception_without_a_reason_or_a_ban_is_found() {
        let tables = format!("{TABLES}| `worker` | `crates/app/` | |\n| `nothing` | `x/` | y |\n");
        let found = check(&Workspace::with_files(&[(GLOSSARY, tables.as_str())]));
        let messages: Vec<_> = found.into_iter().map(|finding| finding.message).collect();
        let wanted = [
            "an exception has a word, a place and a reason",
            "an exception for `nothing`, which is not banned above",
        ];
        assert_eq!(messages, wanted);
    }

    #[test]
    fn a_missing_or_empty_glossary_is_found() {
        assert_eq!(check(&Workspace::default()).len(), 1);
        assert_eq!(check(&Workspace::with_files(&[(GLOSSARY, "")])).len(), 1);
    }

    #[test]
    fn a_file_that_does_not_parse_is_found() {
        assert_eq!(found("crates/a/src/lib.rs", "//! A.\nstruct {\n").len(), 1);
    }
}
