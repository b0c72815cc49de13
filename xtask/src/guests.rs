//! `guests`: builds the example programs in WebAssembly, and checks those that are stored.
//!
//! A guest is a folder of `examples/` with a `program.c` or a `program.ts`; its `program.wasm` is stored
//! beside it, so that nobody needs a compiler of these languages to run an example. So is what judges
//! its output, if there is a `predicate.c`.
//! `examples/guests.lock` says for each what it was built from and with, and what came out:
//!
//! ```text
//! heat assemblyscript@0.28.20 <sha-256 of its sources> <sha-256 of program.wasm>
//! sha256-search/predicate ziglang==0.15.2 <sha-256 of its sources> <sha-256 of predicate.wasm>
//! ```
//!
//! Compilers are pinned to a version and see relative paths only, so the same sources give the same
//! bytes everywhere. A test compares sources and programs with the lock without any compiler; `--check`
//! builds everything anew and compares the bytes.

use crate::dist::sha256;
use crate::packages::{self, Requirement};
use crate::{cargo, process};
use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// What `guests` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Build, compare with what is stored, and change nothing.
    #[arg(long)]
    check: bool,
}

const FOLDER: &str = "examples";
/// What a guest may be: the program itself, or what judges its output.
const PARTS: [&str; 2] = [PROGRAM, "predicate"];
const PROGRAM: &str = "program";
const LOCK: &str = "examples/guests.lock";
const LOCK_HEAD: &str = "\
# Written by `cargo xtask guests`: name, compiler, sha-256 of the sources, sha-256 of what was built.
";

/// What guests are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    C,
    AssemblyScript,
}

impl Language {
    const ALL: [Self; 2] = [Self::C, Self::AssemblyScript];

    const fn ending(self) -> &'static str {
        match self {
            Self::C => "c",
            Self::AssemblyScript => "ts",
        }
    }

    const fn sdk(self) -> &'static str {
        match self {
            Self::C => "sdk/opengpu.h",
            Self::AssemblyScript => "sdk/opengpu.ts",
        }
    }

    /// The package of the compiler, with its version.
    const fn compiler(self) -> &'static str {
        match self {
            Self::C => "ziglang==0.15.2",
            Self::AssemblyScript => "assemblyscript@0.28.20",
        }
    }

    fn requirement(self) -> Requirement {
        match self {
            Self::C => Requirement::Python(self.compiler().to_owned()),
            Self::AssemblyScript => Requirement::Node(self.compiler().to_owned()),
        }
    }

    /// Everything that decides the bytes, but the sources. Neither language may use floats or imports.
    const fn flags(self) -> &'static [&'static str] {
        match self {
            // Exports are marked in the sources. This linker puts the stack first: leaving it traps.
            Self::C => &[
                "-target",
                "wasm32-freestanding",
                "-mcpu=mvp+bulk_memory+mutable_globals+sign_ext",
                "-std=c17",
                "-O2",
                "-g0",
                "-Wall",
                "-Wextra",
                "-Werror",
                "-nostdlib",
                "-fno-sanitize=undefined",
                "-Wl,--no-entry",
                "-Wl,-z,stack-size=16384",
                "-Wl,--strip-all",
            ],
            Self::AssemblyScript => &["--runtime", "stub", "--use", "abort=", "-O3", "--noAssert"],
        }
    }

    /// A command that takes arguments of the compiler; fails when the cache holds another version.
    fn command(self) -> Result<Command> {
        let folder = packages::provide(&self.requirement())?
            .with_context(|| format!("{} is no package of our own", self.compiler()))?;
        let start = || match self {
            Self::C => {
                let mut command = Command::new(folder.join("python"));
                command.args(["-m", "ziglang"]);
                command
            }
            Self::AssemblyScript => Command::new(folder.join("asc")),
        };
        let (question, prefix) = match self {
            Self::C => ("version", ""),
            Self::AssemblyScript => ("--version", "Version "),
        };
        let said = process::read(start().arg(question))?;
        let found = said.trim().trim_start_matches(prefix);
        let wanted = self.compiler().rsplit(['=', '@']).next().unwrap_or_default();
        if found != wanted {
            bail!(
                "{} is wanted and {found} is installed in {}; remove it there and try again",
                self.compiler(),
                folder.display()
            );
        }
        Ok(start())
    }
}

/// One example program.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Guest {
    /// As the lock has it: that of its folder, and `/predicate` if it is one.
    name: String,
    language: Language,
}

impl Guest {
    fn main(&self) -> String {
        format!("{}.{}", stem(&self.name), self.language.ending())
    }

    fn built(&self) -> String {
        built(&self.name)
    }
}

/// Where a guest is, without the ending.
fn stem(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { format!("{name}/{PROGRAM}") }
}

fn built(name: &str) -> String {
    format!("{}.wasm", stem(name))
}

/// What the lock says about a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    compiler: String,
    /// Digest of its sources.
    origin: String,
    /// Digest of what was built.
    program: String,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let examples = process::root().join(FOLDER);
    let scratch = cargo::metadata()?.target_directory.join("guests");
    std::fs::create_dir_all(&scratch).with_context(|| format!("creating {}", scratch.display()))?;
    let mut built = BTreeMap::new();
    for guest in guests(&examples)? {
        let program = build(&guest, &examples, &scratch)?;
        let entry = entry(&guest, &examples, &program)?;
        println!("{:<16} {:>6} bytes  {}", guest.name, program.len(), entry.program);
        if !arguments.check {
            write(&examples.join(guest.built()), &program)?;
        }
        built.insert(guest.name, entry);
    }
    if !arguments.check {
        return write(&process::root().join(LOCK), to_text(&built).as_bytes());
    }
    let lock = stored(process::root())?;
    let mut differing = differences(&built, &lock);
    differing.extend(differences(&standing(&examples)?, &lock));
    if !differing.is_empty() {
        bail!("{}", differing.join("; "));
    }
    eprintln!("guests: {} programs, all as stored", built.len());
    Ok(())
}

/// What stands in the folder, without building anything.
fn standing(examples: &Path) -> Result<BTreeMap<String, Entry>> {
    let mut found = BTreeMap::new();
    for guest in guests(examples)? {
        let path = examples.join(guest.built());
        let program =
            std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let entry = entry(&guest, examples, &program)?;
        found.insert(guest.name, entry);
    }
    Ok(found)
}

fn entry(guest: &Guest, examples: &Path, program: &[u8]) -> Result<Entry> {
    Ok(Entry {
        compiler: guest.language.compiler().to_owned(),
        origin: sources(guest, examples)?,
        program: sha256(program),
    })
}

/// The guests below a folder, in the order of their names.
fn guests(examples: &Path) -> Result<Vec<Guest>> {
    let mut found = Vec::new();
    let entries =
        std::fs::read_dir(examples).with_context(|| format!("listing {}", examples.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("listing {}", examples.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for (part, language) in PARTS.into_iter().flat_map(|it| Language::ALL.map(|of| (it, of))) {
            if path.join(part).with_extension(language.ending()).exists() {
                let name = match part {
                    PROGRAM => name.clone(),
                    part => format!("{name}/{part}"),
                };
                found.push(Guest { name, language });
            }
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

fn build(guest: &Guest, examples: &Path, scratch: &Path) -> Result<Vec<u8>> {
    let main = guest.main();
    let target = scratch.join(format!("{}.wasm", guest.name.replace('/', "-")));
    let mut command = guest.language.command()?;
    match guest.language {
        Language::C => command.arg("cc").args(guest.language.flags()).arg(main).arg("-o"),
        Language::AssemblyScript => command.arg(main).args(guest.language.flags()).arg("--outFile"),
    };
    process::run(command.arg(&target).current_dir(examples))?;
    std::fs::read(&target).with_context(|| format!("reading {}", target.display()))
}

/// The digest of all that a program is made from: files with their names, and the compiler's flags.
fn sources(guest: &Guest, examples: &Path) -> Result<String> {
    let mut all = Vec::new();
    let main = guest.main();
    for name in [main.as_str(), guest.language.sdk()] {
        let path = examples.join(name);
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        all.extend_from_slice(format!("{name} {}\n", bytes.len()).as_bytes());
        all.extend_from_slice(&bytes);
    }
    for flag in guest.language.flags() {
        all.extend_from_slice(format!("{flag}\n").as_bytes());
    }
    Ok(sha256(&all))
}

/// The lock, as it is stored.
fn stored(root: &Path) -> Result<BTreeMap<String, Entry>> {
    let path = root.join(LOCK);
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    from_text(&text)
}

fn from_text(text: &str) -> Result<BTreeMap<String, Entry>> {
    let mut entries = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, compiler, origin, program] = words.as_slice() else {
            bail!("`{line}` is no line of {LOCK}");
        };
        let entry = Entry {
            compiler: (*compiler).to_owned(),
            origin: (*origin).to_owned(),
            program: (*program).to_owned(),
        };
        if entries.insert((*name).to_owned(), entry).is_some() {
            bail!("{LOCK} has {name} twice");
        }
    }
    Ok(entries)
}

fn to_text(entries: &BTreeMap<String, Entry>) -> String {
    let mut text = LOCK_HEAD.to_owned();
    for (name, Entry { compiler, origin, program }) in entries {
        writeln!(text, "{name} {compiler} {origin} {program}").expect("a text takes all text");
    }
    text
}

/// What is not as the lock says, in words.
fn differences(found: &BTreeMap<String, Entry>, stored: &BTreeMap<String, Entry>) -> Vec<String> {
    let mut differing = Vec::new();
    for (name, entry) in found {
        match stored.get(name) {
            None => differing.push(format!("{name} is not in {LOCK}; run `cargo xtask guests`")),
            Some(before) if before.origin != entry.origin || before.compiler != entry.compiler => {
                differing
                    .push(format!("{name} was built from other sources; run `cargo xtask guests`"));
            }
            Some(before) if before.program != entry.program => {
                differing.push(format!("{} is not what {LOCK} says", built(name)));
            }
            Some(_) => {}
        }
    }
    let gone = stored.keys().filter(|name| !found.contains_key(*name));
    differing.extend(gone.map(|name| format!("{name} is in {LOCK} and has no sources")));
    differing
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{FOLDER, LOCK, differences, from_text, standing, stored, to_text};
    use crate::process;
    use std::path::Path;

    /// A repository with one guest, and its lock.
    fn small() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let files = [
            ("one/program.c", "c"),
            ("one/program.wasm", "w"),
            ("one/predicate.c", "c"),
            ("one/predicate.wasm", "w"),
            ("sdk/opengpu.h", "h"),
        ];
        for (name, text) in files {
            let path = root.path().join(FOLDER).join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::write(
            root.path().join(LOCK),
            to_text(&standing(&root.path().join(FOLDER)).unwrap()),
        )
        .unwrap();
        root
    }

    fn differing(root: &Path) -> Vec<String> {
        differences(&standing(&root.join(FOLDER)).unwrap(), &stored(root).unwrap())
    }

    #[test]
    fn programs_and_sources_are_those_of_the_lock() {
        assert_eq!(differing(process::root()), Vec::<String>::new());
        assert!(!stored(process::root()).unwrap().is_empty());
    }

    #[test]
    fn an_edit_of_a_source_of_the_sdk_or_of_a_program_is_noticed() {
        let [one, other] = ["one", "one/predicate"]
            .map(|name| format!("{name} was built from other sources; run `cargo xtask guests`"));
        let changed = |file: &str| format!("{file} is not what examples/guests.lock says");
        let cases = [
            ("one/program.c", vec![one.clone()]),
            ("sdk/opengpu.h", vec![one, other.clone()]),
            ("one/program.wasm", vec![changed("one/program.wasm")]),
            ("one/predicate.c", vec![other]),
            ("one/predicate.wasm", vec![changed("one/predicate.wasm")]),
        ];
        for (file, wanted) in cases {
            let root = small();
            assert!(differing(root.path()).is_empty());
            std::fs::write(root.path().join(FOLDER).join(file), "edited").unwrap();
            assert_eq!(differing(root.path()), wanted, "{file}");
        }
    }

    #[test]
    fn a_guest_that_comes_or_goes_is_noticed() {
        let root = small();
        let examples = root.path().join(FOLDER);
        std::fs::rename(examples.join("one"), examples.join("two")).unwrap();
        let wanted = [
            "two is not in examples/guests.lock; run `cargo xtask guests`",
            "two/predicate is not in examples/guests.lock; run `cargo xtask guests`",
            "one is in examples/guests.lock and has no sources",
            "one/predicate is in examples/guests.lock and has no sources",
        ];
        assert_eq!(differing(root.path()), wanted);
    }

    #[test]
    fn a_lock_reads_back_as_written_and_nothing_else_is_one() {
        let entries = standing(&process::root().join(FOLDER)).unwrap();
        assert_eq!(from_text(&to_text(&entries)).unwrap(), entries);
        assert!(from_text("one two three\n").is_err());
        assert!(from_text("one two three four five\n").is_err());
        assert!(from_text("one a b c\none a b c\n").is_err());
    }
}
