//! Mistakes with `chat` and `serve`: each is explained before any model is loaded.

use crate::{Machine, example};
use std::{fs, path::PathBuf};

/// A command that is refused as bad usage, in these words.
fn refused(machine: &Machine, arguments: &[&str], words: &[&str]) {
    let (code, error) = machine.failure(arguments);
    assert_eq!(code, 2, "{arguments:?}: {error}");
    assert!(!error.contains("loading"), "{arguments:?}: {error}");
    for word in words {
        assert!(error.contains(word), "{arguments:?}: no {word:?} in {error}");
    }
}

/// A program whose model is only a name.
fn program(machine: &Machine) -> PathBuf {
    let folder = machine.0.path().join("program");
    fs::create_dir(&folder).unwrap();
    let manifest = "name = 'a'\nkind = 'llm'\ncode = 'a.gguf'\nclass = 'exact'\n";
    fs::write(folder.join("program.toml"), manifest).unwrap();
    folder
}

#[test]
fn who_says_nothing_gets_no_answer() {
    let machine = Machine::new();
    refused(&machine, &["chat", "smollm2-135m-instruct"], &["nothing was said"]);
}

#[test]
fn a_server_that_others_could_use_is_refused_with_what_it_needs() {
    let machine = Machine::new();
    let arguments = ["serve", "smollm2-135m-instruct", "--listen", "0.0.0.0:0"];
    refused(&machine, &arguments, &["--keys", "--behind-tls"]);
}

#[test]
fn numbers_out_of_range_are_refused_with_their_range() {
    let machine = Machine::new();
    for (option, number, range) in [
        ("--temperature", "3", "from 0 to 2"),
        ("--temperature", "-1", "from 0 to 2"),
        ("--temperature", "hot", "from 0 to 2"),
        ("--max-tokens", "0", "1..=1048576"),
        ("--max-tokens", "-1", "1..=1048576"),
        ("--context", "1", "16..=1048576"),
        ("--threads", "0", "1..=1024"),
    ] {
        let arguments = ["chat", "smollm2-135m-instruct", option, number];
        refused(&machine, &arguments, &[option, range]);
    }
}

#[test]
fn the_context_of_a_program_is_not_silently_kept() {
    let machine = Machine::new();
    let folder = program(&machine);
    fs::write(folder.join("a.gguf"), "").unwrap();
    let manifest = folder.join("program.toml");
    let fix = format!("set `context` under [llm] in {}", manifest.display());
    for path in [&folder, &manifest] {
        for command in ["chat", "serve"] {
            let arguments = [command, path.to_str().unwrap(), "--context", "8192"];
            refused(&machine, &arguments, &["--context is for GGUF files", &fix]);
        }
    }
}

#[test]
fn a_program_that_is_no_model_is_named_with_what_runs_it() {
    let machine = Machine::new();
    let folder = example("mandelbrot");
    let path = folder.to_str().unwrap();
    let fix = format!("hint: run it with `opengpu exec run {path}`");
    for command in ["chat", "serve"] {
        refused(&machine, &[command, path], &["is a program of kind wasm, and not a model", &fix]);
    }
}

#[test]
fn a_missing_model_comes_with_the_way_to_one() {
    let machine = Machine::new();
    let fix = "cargo xtask models";
    refused(&machine, &["chat", "nope.gguf"], &["nope.gguf: there is no such model", fix]);
    refused(&machine, &["serve"], &["which model?", fix]);
    let home = machine.0.path().to_str().unwrap();
    refused(&machine, &["chat", home], &["is a folder without a program.toml", fix]);
    let folder = program(&machine);
    let path = folder.to_str().unwrap();
    for arguments in [&["chat", path][..], &["serve", path], &["exec", "run", path]] {
        refused(&machine, arguments, &["a.gguf", fix]);
    }
}

#[test]
fn what_an_upstream_server_does_not_have_is_refused() {
    let machine = Machine::new();
    let with_model = ["serve", "m.gguf", "--upstream-key", "key"];
    refused(&machine, &with_model, &["--upstream-key", "cannot be used with"]);
    refused(&machine, &["serve", "--upstream-key", "key"], &["--upstream <URL>"]);
    for option in ["--context", "--threads", "--device"] {
        let arguments = ["serve", "--upstream", "http://127.0.0.1:9", option, "64"];
        refused(&machine, &arguments, &[option, "cannot be used with"]);
    }
}

#[test]
fn a_folder_is_no_file_of_keys() {
    let machine = Machine::new();
    let folder = machine.0.path().to_str().unwrap();
    let words = [&format!("{folder} is a folder"), "a file with one API key per line"];
    refused(&machine, &["serve", "m.gguf", "--keys", folder], &words);
}
