//! `opengpu exec` with the real binary: the examples run, a run repeats, what was changed is found.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic,
    reason = "a test that cannot go on has failed"
)]

#[cfg(target_os = "linux")]
mod conversation;
mod device;
mod inputs;
mod mistakes;
mod models;
mod parts;
mod scripts;
#[cfg(target_os = "linux")]
mod shell;

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A home folder and the binary in it.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// The binary, deaf to the environment of whoever runs the tests but for where models are.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opengpu"));
        command.args(arguments).env_clear().env("PATH", "/usr/bin:/bin");
        for name in ["HOME", "OPENGPU_MODELS", "XDG_CACHE_HOME"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("OPENGPU_HOME", self.0.path());
        command.env("OPENGPU_IMAGES", self.0.path().join("images"));
        command
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What a command shows as JSON.
    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.output(&[arguments, &["-o", "json"]].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Exit code and words of a command that fails.
    fn failure(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.output(arguments);
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn run(&self, example: &str, more: &[&str]) -> Value {
        let folder = self::example(example);
        self.json(&[&["exec", "run", folder.to_str().unwrap()], more].concat())
    }

    fn folder(&self, run: &Value) -> PathBuf {
        self.0.path().join("runs").join(run["run"].as_str().unwrap())
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name)
}

/// The same root twice, on one thread and on two; then a segment in the middle.
fn repeats(name: &str) {
    let machine = Machine::new();
    let first = machine.run(name, &["--threads", "1"]);
    let second = machine.run(name, &["--threads", "2"]);
    assert_eq!(first["root"], second["root"], "{name}");
    assert_eq!(first["output"], second["output"], "{name}");
    let middle = (first["segments"].as_u64().unwrap() / 2).max(1).to_string();
    let run = first["run"].as_str().unwrap();
    let last = first["segments"].to_string();
    for index in ["0", &middle, &last] {
        let checked = machine.json(&["exec", "segment", run, index]);
        assert_eq!(checked["verdict"], "equal", "{name}, segment {index}");
    }
}

#[test]
fn sha256_search_repeats() {
    repeats("sha256-search");
}

#[test]
fn word_count_repeats() {
    repeats("word-count");
}

#[test]
fn mandelbrot_repeats() {
    repeats("mandelbrot");
}

#[test]
fn heat_repeats() {
    repeats("heat");
}

#[test]
fn nbody_repeats() {
    repeats("nbody");
}

#[test]
fn heat_on_a_gpu_repeats() {
    repeats("heat-gpu");
}

#[test]
fn a_python_script_in_the_sandbox_repeats() {
    repeats("python-numpy");
}

#[test]
fn a_picture_of_floats_is_repeated_closely_enough() {
    let machine = Machine::new();
    let run = machine.run("path-tracer", &[]);
    let checked = machine.json(&["exec", "segment", run["run"].as_str().unwrap(), "20"]);
    let verdict = checked["verdict"].as_str().unwrap();
    assert!(verdict == "equal" || verdict.starts_with("close"), "{verdict}");
}

#[test]
fn an_output_goes_where_it_is_wanted() {
    let machine = Machine::new();
    let folder = example("mandelbrot");
    let arguments = ["exec", "run", folder.to_str().unwrap(), "--out", "-"];
    let output = machine.output(&arguments);
    assert!(output.status.success());
    assert!(output.stdout.starts_with(b"P6") || output.stdout.starts_with(b"P5"));
    let listed = machine.json(&["exec", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
}

#[test]
fn whatever_was_changed_is_found() {
    let machine = Machine::new();
    let copy = machine.0.path().join("program");
    fs::create_dir(&copy).unwrap();
    for name in ["program.toml", "program.wasm", "input.txt"] {
        fs::copy(example("nbody").join(name), copy.join(name)).unwrap();
    }
    let run = machine.json(&["exec", "run", copy.to_str().unwrap()]);
    let name = run["run"].as_str().unwrap();
    let segment = |index: &str| machine.failure(&["exec", "segment", name, index]);
    let change = |path: &Path| {
        let original = fs::read(path).unwrap();
        let mut bytes = original.clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, &bytes).unwrap();
        original
    };
    let folder = machine.folder(&run);
    let facts = fs::read_to_string(folder.join("run.json")).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
    let state = folder.join("states").join(facts["segments"][4]["state"].as_str().unwrap());
    for (path, word) in [
        (state.clone(), "state 4"),
        (folder.join("input"), "the input"),
        (folder.join("output"), "the output"),
        (copy.join("program.wasm"), "the program"),
    ] {
        let original = change(&path);
        let (code, error) = segment("5");
        assert!(code == 6 && error.contains(word), "{}: {code} {error}", path.display());
        fs::write(&path, original).unwrap();
    }
    fs::rename(&state, folder.join("gone")).unwrap();
    let (code, error) = segment("5");
    assert!(code == 6 && error.contains("gone"), "{code} {error}");
    fs::rename(folder.join("gone"), &state).unwrap();
    // A state and its address changed together: the root no longer fits.
    let facts = folder.join("run.json");
    let text = fs::read_to_string(&facts).unwrap();
    let state = run_state(&text, 4);
    fs::write(&facts, text.replace(&state, &"0".repeat(64))).unwrap();
    let (code, error) = segment("5");
    assert!(code == 6 && error.contains("a segment"), "{code} {error}");
    fs::write(&facts, text).unwrap();
    assert_eq!(machine.json(&["exec", "segment", name, "5"])["verdict"], "equal");
}

#[test]
fn one_run_many_times_at_once_is_kept_once() {
    let machine = Machine::new();
    let program = example("word-count");
    let start = |_| {
        let mut command = machine.command(&["exec", "run", program.to_str().unwrap()]);
        command.stdout(Stdio::null()).spawn().unwrap()
    };
    let running: Vec<_> = (0..6).map(start).collect();
    for mut run in running {
        assert!(run.wait().unwrap().success());
    }
    assert_eq!(machine.json(&["exec", "list"]).as_array().unwrap().len(), 1);
}

#[test]
fn a_run_that_was_killed_leaves_nothing_for_long() {
    let machine = Machine::new();
    let program = example("mandelbrot");
    let runs = machine.0.path().join("runs");
    let unfinished = || {
        let names = fs::read_dir(&runs).into_iter().flatten().flatten();
        names.filter(|name| name.file_name().to_str().unwrap().starts_with('.')).count()
    };
    let arguments = ["exec", "run", program.to_str().unwrap()];
    let mut run = machine.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
    while unfinished() == 0 && run.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    run.kill().unwrap();
    run.wait().unwrap();
    assert_eq!(unfinished(), 1, "it was killed before it could clean up");
    machine.run("word-count", &[]);
    assert_eq!(unfinished(), 0);
}

/// A script as a program in the sandbox.
#[cfg(target_os = "linux")]
fn script(machine: &Machine, text: &str) -> PathBuf {
    let folder = machine.0.path().join("script");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("script.py"), text).unwrap();
    let manifest = "name = 'script'\nkind = 'native'\ncode = 'script.py'\nclass = 'none'\n";
    fs::write(folder.join("program.toml"), manifest).unwrap();
    folder
}

#[cfg(target_os = "linux")]
#[test]
fn what_a_script_uses_is_the_usage_of_its_run() {
    let machine = Machine::new();
    let text = "import time\nheld = bytearray(150 << 20)\n\
                while time.process_time() < 0.6:\n    pass\n";
    let run = machine.json(&["exec", "run", script(&machine, text).to_str().unwrap()]);
    let usage = |name: &str| run["usage"][name].as_u64().unwrap();
    assert!(usage("cpu_microseconds") >= 600_000, "{}", run["usage"]);
    assert!(usage("peak_memory") >= 150 << 20, "{}", run["usage"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_is_told_to_end_leaves_nothing() {
    let machine = Machine::new();
    let folder = script(&machine, "import time\ntime.sleep(600)\n");
    for signal in ["TERM", "HUP"] {
        let mut command = machine.command(&["exec", "run", folder.to_str().unwrap()]);
        let mut run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let runs = machine.0.path().join("runs");
        let count = || fs::read_dir(&runs).into_iter().flatten().count();
        while count() == 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        // The script sleeps by now, or the run ends before it begins: both must leave nothing.
        std::thread::sleep(std::time::Duration::from_millis(700));
        let id = run.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
        assert!(!run.wait().unwrap().success());
        assert_eq!(count(), 0, "{signal}");
    }
}

#[test]
fn kept_runs_are_listed_found_by_their_beginning_and_removed() {
    let machine = Machine::new();
    let names: Vec<_> = ["4", "8"]
        .map(|segments| machine.run("word-count", &["--segments", segments]))
        .map(|run| run["run"].as_str().unwrap().to_owned())
        .into();
    let listed = machine.json(&["exec", "list"]);
    assert_eq!([&listed[0]["run"], &listed[1]["run"]], [&names[0], &names[1]], "the newest last");
    assert_eq!(listed[1]["segments"], 8);
    assert!(listed[0]["ended"].as_u64().unwrap() > 1_700_000_000_000);

    let (code, error) = machine.failure(&["exec", "segment", "word-count", "1"]);
    assert!(code == 2 && error.contains(&names[0]) && error.contains(&names[1]), "{error}");
    let beginning = &names[0][..names[0].len() - 4];
    let checked = machine.json(&["exec", "segment", beginning, "1"]);
    assert_eq!((&checked["run"], &checked["verdict"]), (&names[0].clone().into(), &"equal".into()));

    let (code, _) = machine.failure(&["exec", "remove", &names[1], "nothing"]);
    assert_eq!(
        (code, machine.json(&["exec", "list"])),
        (2, listed),
        "nothing is removed by halves"
    );
    let (code, _) = machine.failure(&["exec", "remove", "../runs"]);
    assert_eq!(code, 2);
    machine.json(&["exec", "remove", beginning]);
    assert_eq!(machine.json(&["exec", "list"])[0]["run"], names[1].as_str());
    // Nobody asks where there is no terminal, and what is no run stays.
    let runs = machine.0.path().join("runs");
    fs::create_dir(runs.join("mine")).unwrap();
    assert_eq!(machine.failure(&["exec", "remove", "mine"]).0, 2);
    let (code, error) = machine.failure(&["exec", "remove", "--all"]);
    assert!(code == 2 && error.contains("--yes"), "{code} {error}");
    machine.json(&["exec", "remove", "--all", "--yes"]);
    let left: Vec<_> = fs::read_dir(runs).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["mine"]);
}

#[test]
fn a_program_that_was_moved_is_named_again() {
    let machine = Machine::new();
    let (old, new) = (machine.0.path().join("old"), machine.0.path().join("new"));
    fs::create_dir(&old).unwrap();
    for name in ["program.toml", "program.wasm", "input.txt"] {
        fs::copy(example("nbody").join(name), old.join(name)).unwrap();
    }
    let run = machine.json(&["exec", "run", old.to_str().unwrap()]);
    let name = run["run"].as_str().unwrap();
    fs::rename(&old, &new).unwrap();
    let (code, error) = machine.failure(&["exec", "segment", name, "5"]);
    assert!(code == 2 && error.contains("--program"), "{code} {error}");
    let new = new.to_str().unwrap();
    let checked = machine.json(&["exec", "segment", name, "5", "--program", new]);
    assert_eq!(checked["verdict"], "equal");
    let other = example("heat");
    let (code, error) =
        machine.failure(&["exec", "segment", name, "5", "--program", other.to_str().unwrap()]);
    assert!(code == 6 && error.contains("the program"), "{code} {error}");
}

#[test]
fn an_input_comes_from_a_pipe_and_an_output_is_checked_before_the_run() {
    let machine = Machine::new();
    let program = example("word-count");
    let program = program.to_str().unwrap();
    let file = machine.0.path().join("words");
    fs::write(&file, "a b a\n").unwrap();
    let from_file = machine.run("word-count", &["--input", file.to_str().unwrap()]);
    let mut command = machine.command(&["exec", "run", program, "--input", "-", "-o", "json"]);
    let output = command.stdin(fs::File::open(&file).unwrap()).output().unwrap();
    let from_pipe: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(from_pipe["root"], from_file["root"]);

    machine.json(&["exec", "remove", "--all", "--yes"]);
    let home = machine.0.path().to_str().unwrap();
    let words = file.to_str().unwrap();
    let cases =
        [("/nowhere/x", "no such folder"), (home, "it is a folder"), (words, "it is the input")];
    for (out, word) in cases {
        let arguments = ["exec", "run", program, "--input", words, "--out", out];
        let (code, error) = machine.failure(&arguments);
        assert!(code == 2 && error.contains(word), "{code} {error}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "a b a\n");
    assert_eq!(machine.json(&["exec", "list"]), Value::Array(Vec::new()), "nothing ran");
}

fn run_state(facts: &str, index: usize) -> String {
    let facts: Value = serde_json::from_str(facts).unwrap();
    facts["segments"][index]["state"].as_str().unwrap().to_owned()
}

#[cfg(unix)]
#[test]
fn a_new_home_folder_is_closed_to_others_and_an_old_one_is_left_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let machine = Machine::new();
    let home = machine.0.path().join("new");
    let program = example("sha256-search");
    let mode = || fs::metadata(&home).unwrap().permissions().mode() & 0o777;
    for wanted in [0o700, 0o755] {
        let mut command = machine.command(&["exec", "run", program.to_str().unwrap()]);
        assert!(command.env("OPENGPU_HOME", &home).output().unwrap().status.success());
        assert_eq!(mode(), wanted);
        fs::set_permissions(&home, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn mistakes_are_explained() {
    let machine = Machine::new();
    let (code, error) = machine.failure(&["exec", "run", "nowhere"]);
    assert!(code == 2 && error.contains("program.toml"), "{code} {error}");
    let (code, error) = machine.failure(&["exec", "segment", "nothing", "1"]);
    assert!(code == 2 && error.contains("exec list"), "{code} {error}");
    let folder = machine.0.path().join("bad");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("program.toml"), "name = 'bad'\nkind = 'wasm'\nclass = 'exact'\n")
        .unwrap();
    let (code, error) = machine.failure(&["exec", "run", folder.to_str().unwrap()]);
    assert!(code == 2 && error.contains("code"), "{code} {error}");
    let runs = machine.0.path().join("runs");
    assert_eq!(fs::read_dir(runs).unwrap().count(), 0, "nothing unfinished stays");
}
