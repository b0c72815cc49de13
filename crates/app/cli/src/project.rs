//! Tasks of a project: `[tasks.NAME]` in the `opengpu.toml` of the current folder.
//!
//! ```toml
//! [tasks.train]
//! program = "train.py"
//! input = "data"
//! budget = "2"
//! arguments = ["--epochs", "3"]
//! ```
//!
//! Keys are the flags of `opengpu run`, and flags come before them. A task's name comes before a folder
//! or a file of that name, which is then meant by `./NAME`; the name of an example is nobody else's.
//!
//! Whoever gives you a folder also gives you this file. So it says what runs, and nothing that is yours:
//! no key, no node, no answer to a question, nobody who is paid or sees your data. Its paths do not
//! leave the folder, neither by `..` nor by a link, and addresses are for the command line alone: what is
//! fetched from there with your credentials or in your network would go to a stranger.

use crate::{examples, exit::Complaint, task::wanted::Wanted};
use anyhow::{Context as _, Result};
use clap::Parser;
use opengpu_exec::{Program, artifact, program::models};
use opengpu_link::folder::FilePath;
use opengpu_sdk::inputs::Origin;
use std::{
    collections::BTreeMap,
    io::ErrorKind,
    path::{Path, PathBuf},
};
use toml::{Table, Value};

pub(crate) const PROJECT: &str = "opengpu.toml";
/// Bytes of the largest file.
const LARGEST: u64 = 1 << 20;

/// Keys whose values are paths of the folder, or hold them.
const PLACES: [&str; 4] = ["program", "input", "file", "out"];
/// Keys that are no flags.
const TEXTS: [&str; 2] = ["about", "arguments"];
/// Keys that take several values.
const SEVERAL: [&str; 6] = ["arguments", "class", "file", "precision", "region", "runtime"];
/// Keys that take `true` or `false`.
const FLAGS: [&str; 2] = ["auction", "spot"];
/// All keys, which are flags of `opengpu run` but for `program` and `arguments`.
const KEYS: [&str; 27] = [
    "about",
    "arguments",
    "auction",
    "budget",
    "cap",
    "class",
    "copies",
    "devices",
    "file",
    "input",
    "max-duration",
    "memory",
    "out",
    "own-region",
    "precision",
    "prefer",
    "program",
    "region",
    "reliability",
    "runtime",
    "seek",
    "split",
    "spot",
    "tier",
    "trust",
    "weights",
    "work",
];

/// A task of the file.
#[derive(Debug, Default, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(crate) struct Task {
    #[command(flatten)]
    pub(crate) wanted: Wanted,
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    #[arg(long, value_parser = clap::value_parser!(u8).range(2..=64))]
    pub(crate) split: Option<u8>,
}

/// The file.
#[derive(Debug)]
pub(crate) struct Project {
    /// Its folder, without links.
    folder: PathBuf,
    tasks: BTreeMap<String, Table>,
}

impl Project {
    /// The file of a folder; none if there is none.
    pub(crate) fn load(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(PROJECT);
        let text = match artifact::read(&path, LARGEST) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("reading {PROJECT}")),
        };
        let text = String::from_utf8(text).with_context(|| format!("in {PROJECT}"))?;
        let table: Table = toml::from_str(&text).with_context(|| format!("in {PROJECT}"))?;
        let mut tasks = BTreeMap::new();
        match table.get("tasks") {
            None => {}
            Some(Value::Table(named)) => {
                for (name, task) in named {
                    let Value::Table(task) = task else { return Err(no_table().into()) };
                    check_name(name)?;
                    tasks.insert(name.clone(), task.clone());
                }
            }
            Some(_) => return Err(no_table().into()),
        }
        let folder = std::fs::canonicalize(folder)?;
        Ok(Some(Self { folder, tasks }))
    }

    /// The names of its tasks, what each runs, and what it says of itself.
    pub(crate) fn list(&self) -> Vec<[String; 3]> {
        let text = |task: &Table, key: &str| {
            let text = task.get(key).and_then(|value| value.as_str()).unwrap_or_default();
            text.replace(char::is_control, " ")
        };
        let row = |(name, task): (&String, &Table)| {
            [name.clone(), text(task, "program"), text(task, "about")]
        };
        self.tasks.iter().map(row).collect()
    }

    /// A task, if a word on the command line is the name of one.
    pub(crate) fn task(&self, word: &Path) -> Result<Option<Task>> {
        let Some((name, table)) = self.tasks.iter().find(|(name, _)| Path::new(name) == word)
        else {
            return Ok(None);
        };
        let task = self.read(table).map_err(|complaint| complaint.within(&said(name)))?;
        Ok(Some(task))
    }

    fn read(&self, table: &Table) -> Result<Task, Complaint> {
        if let Some(other) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
            let complaint = Complaint::usage(format!("`{other}` is no key of a task"));
            return Err(complaint.hint(format!(
                "keys are {}; what is yours alone (key, node, providers, --yes) belongs on the \
                 command line or into config.toml",
                KEYS.join(", ")
            )));
        }
        let mut words = Vec::new();
        for (key, value) in table {
            if FLAGS.contains(&key.as_str()) {
                let wanted = value.as_bool().ok_or_else(|| wrong(key, "is `true` or `false`"))?;
                words.extend(wanted.then(|| format!("--{key}")));
            } else if !PLACES.contains(&key.as_str()) && !TEXTS.contains(&key.as_str()) {
                let texts = texts(key, value)?.into_iter();
                words.extend(texts.map(|text| format!("--{key}={text}")));
            }
        }
        let mut task = Task::try_parse_from(words).map_err(|error| {
            let told = error.to_string();
            let line = told.lines().next().unwrap_or_default();
            Complaint::usage(line.trim_start_matches("error: ").to_owned())
        })?;
        let all = |key: &str| table.get(key).map_or(Ok(Vec::new()), |value| texts(key, value));
        let one = |key: &str| all(key).map(|texts| texts.into_iter().next());
        let program = one("program")?.ok_or_else(|| wrong("program", "is missing"))?;
        task.wanted.program = Some(self.program(&program)?);
        task.wanted.input = one("input")?.map(|text| self.input(&text)).transpose()?;
        let files = all("file")?;
        let files = files.iter().map(|text| self.existing("file", text));
        task.wanted.files = files.collect::<Result<_, _>>()?;
        task.out = one("out")?.map(|text| self.target(&text)).transpose()?;
        task.wanted.arguments = all("arguments")?;
        task.wanted.within = Some(self.folder.clone());
        Ok(task)
    }

    /// A path of the folder, an image by its name, or an example.
    fn program(&self, text: &str) -> Result<PathBuf, Complaint> {
        let path = Path::new(text);
        if text.starts_with("image:") || (examples::is_name(path) && !path.exists()) {
            return Ok(path.to_owned());
        }
        self.existing("program", text)
    }

    fn input(&self, text: &str) -> Result<PathBuf, Complaint> {
        match Origin::of(Path::new(text)) {
            Ok(Origin::Path(_)) => self.existing("input", text),
            Ok(Origin::Stream) | Ok(Origin::Web(_)) | Ok(Origin::Object { .. }) | Err(_) => {
                let complaint = wrong("input", "is a file or a folder of the project");
                Err(complaint.hint(format!("addresses are your own choice: --input {text}")))
            }
        }
    }

    /// A path that is there and inside, whatever links are on the way.
    fn existing(&self, key: &str, text: &str) -> Result<PathBuf, Complaint> {
        let path = relative(key, text)?;
        let whole = std::fs::canonicalize(self.folder.join(&path))
            .map_err(|error| wrong(key, &format!("{text}: {error}")))?;
        if !whole.starts_with(&self.folder) {
            return Err(wrong(key, &format!("leads out of the folder: {text}")));
        }
        Ok(path)
    }

    /// A file that may be written: inside, and neither hidden nor a link.
    fn target(&self, text: &str) -> Result<PathBuf, Complaint> {
        let path = relative("out", text)?;
        if path.iter().any(|name| name.as_encoded_bytes().starts_with(b".")) {
            return Err(wrong("out", "is no hidden file"));
        }
        let above = path.parent().filter(|above| !above.as_os_str().is_empty());
        self.existing("out", &above.unwrap_or(Path::new(".")).to_string_lossy())?;
        if self.folder.join(&path).is_symlink() {
            return Err(wrong("out", &format!("leads elsewhere: {text}")));
        }
        Ok(path)
    }
}

/// Whether all files of a program lie in a folder, or among the models of this machine.
pub(crate) fn confine(program: &Program, folder: &Path) -> Result<()> {
    let names = program.files().keys().chain(&program.manifest.input);
    let models = models().and_then(|models| models.canonicalize().ok());
    for name in names {
        let path = program.path(name)?;
        // What is missing is told by whoever needs it.
        let Ok(whole) = std::fs::canonicalize(&path) else { continue };
        let inside = |place: &PathBuf| whole.starts_with(place);
        if !inside(&folder.to_owned()) && !models.as_ref().is_some_and(inside) {
            let told = format!("{name} of the program leads out of the folder of {PROJECT}");
            let hint = "put the file there itself, or name the program on the command line";
            return Err(Complaint::usage(told).hint(hint).into());
        }
    }
    Ok(())
}

/// A path below the folder; `.` is the folder itself.
fn relative(key: &str, text: &str) -> Result<PathBuf, Complaint> {
    let text = text.trim_end_matches('/');
    let plain = text.strip_prefix("./").unwrap_or(text);
    if matches!(plain, "." | "") && text.starts_with('.') {
        return Ok(PathBuf::from("."));
    }
    let path = FilePath::new(plain)
        .map_err(|error| wrong(key, &format!("is a path of the folder, not `{text}`: {error}")))?;
    Ok(PathBuf::from(path.as_str()))
}

/// The values of a key as the command line takes them.
fn texts(key: &str, value: &Value) -> Result<Vec<String>, Complaint> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Float(_) => Err(wrong(key, "is written in quotes, such as \"0.5\"")),
        Value::Array(values) if SEVERAL.contains(&key) => {
            let each = values.iter().map(|value| texts(key, value));
            Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
        }
        _ => {
            Err(wrong(key, if SEVERAL.contains(&key) { "is a list of texts" } else { "is a text" }))
        }
    }
}

fn check_name(name: &str) -> Result<(), Complaint> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_".contains(c);
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) || name.starts_with('-') {
        let told = format!("{PROJECT}: `{name}` is no name of a task");
        return Err(Complaint::usage(told).hint("1 to 64 letters, digits, `-` and `_`"));
    }
    if examples::is_name(Path::new(name)) {
        let told = format!("{PROJECT}: `{name}` is the name of an example, and of no other task");
        return Err(Complaint::usage(told).hint("give the task another name"));
    }
    Ok(())
}

fn said(name: &str) -> String {
    format!("{PROJECT}, task `{name}`: ")
}

fn wrong(key: &str, what: &str) -> Complaint {
    Complaint::usage(format!("`{key}` {what}"))
}

fn no_table() -> Complaint {
    Complaint::usage(format!("{PROJECT}: a task is a table")).hint("write it as [tasks.NAME]")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder with a program, a script, data, and a file of the project.
    fn folder(tasks: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["own", "data", "out"] {
            fs::create_dir(at(name)).unwrap();
        }
        let manifest = "name = 'own'\nkind = 'wasm'\ncode = 'a'\nclass = 'exact'\ninput = 'b'\n";
        fs::write(at("own/program.toml"), manifest).unwrap();
        for name in ["own/a", "own/b", "train.py", "helper.py", "data/x"] {
            fs::write(at(name), name).unwrap();
        }
        fs::write(at(PROJECT), tasks).unwrap();
        folder
    }

    fn project(tasks: &str) -> (tempfile::TempDir, Result<Option<Project>>) {
        let folder = folder(tasks);
        let project = Project::load(folder.path());
        (folder, project)
    }

    fn task(table: &str) -> Result<Task> {
        let (_folder, project) = project(&format!("[tasks.a]\n{table}\n"));
        Ok(project?.unwrap().task(Path::new("a"))?.unwrap())
    }

    #[test]
    fn a_task_says_what_the_flags_of_the_command_line_say() {
        let said = "program = './train.py'\ninput = 'data/'\nfile = ['helper.py']\nbudget = '2usd'\n\
                    arguments = ['--epochs', 3]\ncopies = 2\nmax-duration = '10m'\nsplit = 4\n\
                    region = ['eu', 'us']\nauction = true\nspot = false\nout = 'out/a.txt'\n\
                    prefer = 'time'\nprecision = ['f32']\nruntime = ['cpu']\nown-region = 'eu'";
        let task = task(said).unwrap();
        assert_eq!(task.wanted.program.as_deref(), Some(Path::new("train.py")));
        assert_eq!(task.wanted.input.as_deref(), Some(Path::new("data")));
        assert_eq!(task.wanted.files, [PathBuf::from("helper.py")]);
        assert_eq!(task.wanted.arguments, ["--epochs", "3"]);
        assert_eq!(task.out.as_deref(), Some(Path::new("out/a.txt")));
        assert_eq!(task.split, Some(4));
        let wishes = task.wanted.wishes().unwrap();
        assert_eq!(wishes.copies, Some(2));
        assert_eq!((wishes.weights.time.get(), wishes.region.as_str()), (500, "eu"));
        assert_eq!(wishes.runtimes, opengpu_types::Set::of(&[opengpu_types::Runtime::Cpu]));
        assert_eq!(wishes.precisions, opengpu_types::Set::of(&[opengpu_types::Precision::F32]));
        assert_eq!(wishes.allocating, Some(opengpu_types::Allocating::Auction));
        assert_eq!(
            (wishes.longest, wishes.regions.len()),
            (Some(opengpu_types::Millis(600_000)), 2)
        );
        assert_eq!(wishes.budget.unit, opengpu_types::RateUnit::Usd);
        let (_folder, none) = project("output = 'json'");
        assert!(none.unwrap().unwrap().list().is_empty());
    }

    #[test]
    fn what_is_the_users_own_cannot_be_said() {
        for key in ["from", "wallet", "node", "home", "yes", "provider", "not", "local", "detach"] {
            // Also with a value that the command line would take.
            let value = opengpu_types::Address::ZERO;
            let error = task(&format!("program = 'own'\n{key} = '{value}'")).unwrap_err();
            let told = format!("{error:#}");
            assert!(told.contains(&format!("task `a`: `{key}` is no key")), "{told}");
        }
        // A value is a value, whatever it looks like.
        for sly in ["budget = '1 --yes'", "cap = '--provider=0x1'", "trust = 'fast --from=x'"] {
            assert!(task(&format!("program = 'own'\n{sly}")).is_err(), "{sly}");
        }
        let sly = task("program = 'own'\narguments = ['--yes', '--']").unwrap();
        assert_eq!(sly.wanted.arguments, ["--yes", "--"]);
        assert!(task("program = '--provider=0x1'").is_err());
    }

    #[test]
    fn no_path_leaves_the_folder() {
        for path in ["../x", "/etc/passwd", "data/../../x", "~/x", "nothing", "a\\b"] {
            for key in ["input", "file"] {
                let error = task(&format!("program = 'own'\n{key} = '{path}'")).unwrap_err();
                assert!(format!("{error:#}").contains(key), "{error:#}");
            }
            assert!(task(&format!("program = '{path}'")).is_err(), "{path}");
        }
        for input in ["https://a/b", "s3://bucket/key", "-", "ftp://a"] {
            assert!(task(&format!("program = 'own'\ninput = '{input}'")).is_err(), "{input}");
        }
        for out in ["../x", "/tmp/x", ".git/hooks/x", ".bashrc", "missing/x"] {
            assert!(task(&format!("program = 'own'\nout = '{out}'")).is_err(), "{out}");
        }
        assert!(task("program = '.'\ninput = '.'").is_ok());
        assert!(task("program = 'image:alpine'").is_ok());
        assert!(task("program = 'sha256-search'").is_ok());
    }

    #[cfg(unix)]
    #[test]
    fn no_link_leaves_the_folder() {
        use std::os::unix::fs::symlink;
        let secret = tempfile::tempdir().unwrap();
        fs::write(secret.path().join("id"), "secret").unwrap();
        let tasks = "[tasks.input]\nprogram = 'own'\ninput = 'away'\n\
                     [tasks.below]\nprogram = 'own'\ninput = 'folder/id'\n\
                     [tasks.script]\nprogram = 'away'\n[tasks.file]\nprogram = 'own'\nfile = 'away'\n\
                     [tasks.out]\nprogram = 'own'\nout = 'folder/x'\n\
                     [tasks.over]\nprogram = 'own'\nout = 'away'\n\
                     [tasks.near]\nprogram = 'own'\ninput = 'near'\n[tasks.own]\nprogram = 'own'\n";
        let (folder, project) = project(tasks);
        let (project, at) = (project.unwrap().unwrap(), |name: &str| folder.path().join(name));
        symlink(secret.path().join("id"), at("away")).unwrap();
        symlink(secret.path(), at("folder")).unwrap();
        symlink("data/x", at("near")).unwrap();
        for name in ["input", "below", "script", "file", "out", "over"] {
            assert!(project.task(Path::new(name)).is_err(), "{name}");
        }
        assert!(project.task(Path::new("near")).unwrap().is_some());

        // A program's own files may not either.
        let whole = folder.path().canonicalize().unwrap();
        let program = Program::open(&at("own")).unwrap();
        confine(&program, &whole).unwrap();
        for name in ["own/a", "own/b"] {
            fs::remove_file(at(name)).unwrap();
            symlink(secret.path().join("id"), at(name)).unwrap();
            let program = Program::open(&at("own")).unwrap();
            assert!(confine(&program, &whole).is_err(), "{name}");
            fs::remove_file(at(name)).unwrap();
            fs::write(at(name), "").unwrap();
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_is_known() {
        for (said, words) in [
            ("programm = 'own'", "`programm` is no key"),
            ("input = 'data'", "`program` is missing"),
            ("program = 'own'\nbudget = 0.5", "in quotes"),
            ("program = 'own'\nbudget = 'much'", "much"),
            ("program = 'own'\ncopies = 99", "99"),
            ("program = 'own'\nauction = 'yes'", "`true` or `false`"),
            ("program = ['own']", "`program` is a text"),
        ] {
            let told = format!("{:#}", task(said).unwrap_err());
            assert!(told.contains(words) && told.contains(PROJECT), "{said}: {told}");
        }
        for (text, words) in [
            ("tasks = 1", "is a table"),
            ("[tasks]\na = 1", "is a table"),
            ("[tasks.path-tracer]\nprogram = 'own'", "name of an example"),
            ("[tasks.'a/b']\nprogram = 'own'", "no name of a task"),
            ("[tasks.'--yes']\nprogram = 'own'", "no name of a task"),
        ] {
            let told = format!("{:#}", project(text).1.unwrap_err());
            assert!(told.contains(words), "{text}: {told}");
        }
    }
}
