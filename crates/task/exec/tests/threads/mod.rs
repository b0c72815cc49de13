//! How a test runs a part of itself in a process with another number of threads.

use std::process::Command;

/// What another test of this program says, in a process that computes with so many threads.
pub(crate) fn said_with_threads(test: &str, threads: usize) -> String {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env(opengpu_exec::llm::THREADS, threads.to_string())
        .output()
        .expect("this program can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("a test prints text");
    let said = text.lines().find_map(|line| line.split_once("said: ")).expect("the test says it");
    said.1.to_owned()
}

/// Says it to whoever started this process.
pub(crate) fn say(what: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\nsaid: {what}\n").as_bytes()).expect("somebody listens");
}
