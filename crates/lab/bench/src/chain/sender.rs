//! Both ends of the talk between a measurement and its sender.
//!
//! ```text
//!   measurement                         sender
//!        │ ◄─────────── ready ──────────── │  everything is signed
//!        │ ───────────── go ─────────────► │  sends
//!        │ ◄──── done (if it sent all) ─── │
//!        │ ──── the input is closed ─────► │  stops sending
//!        │ ◄────────── {...} ───────────── │  what became of it, as one line of JSON
//! ```

use crate::error::BenchError;
use serde_json::Value;
use std::{
    io::{self, BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

const READY: &str = "ready";
const GO: &str = "go";
const DONE: &str = "done";

/// A sender as its measurement sees it.
#[derive(Debug)]
pub(super) struct Sender {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Sender {
    /// Starts this program as a sender and waits until it has signed.
    pub(super) fn start(arguments: &[String]) -> Result<Self, BenchError> {
        let starting = || BenchError::system("starting a sender");
        let program = std::env::current_exe().map_err(starting())?;
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(starting())?;
        let input = child.stdin.take();
        let output = child.stdout.take().ok_or(BenchError::Nothing("a sender without output"))?;
        let mut sender = Self { child, input, output: BufReader::new(output) };
        sender.expect(READY)?;
        Ok(sender)
    }

    pub(super) fn go(&mut self) -> Result<(), BenchError> {
        let input = self.input.as_mut().ok_or(BenchError::Nothing("a sender that was stopped"))?;
        writeln!(input, "{GO}").map_err(BenchError::system("speaking to a sender"))
    }

    /// Waits until it has sent everything.
    pub(super) fn done(&mut self) -> Result<(), BenchError> {
        self.expect(DONE)
    }

    /// Stops it; what became of what it sent.
    pub(super) fn stop(mut self) -> Result<Value, BenchError> {
        drop(self.input.take());
        loop {
            let line = self.line()?;
            if line != DONE {
                return serde_json::from_str(&line).map_err(|_| BenchError::Sender(line));
            }
        }
    }

    fn expect(&mut self, word: &str) -> Result<(), BenchError> {
        let line = self.line()?;
        if line == word { Ok(()) } else { Err(BenchError::Sender(line)) }
    }

    fn line(&mut self) -> Result<String, BenchError> {
        let mut line = String::new();
        let reading = BenchError::system("listening to a sender");
        if self.output.read_line(&mut line).map_err(reading)? == 0 {
            return Err(BenchError::Sender("it ended early".to_owned()));
        }
        Ok(line.trim_end().to_owned())
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        // It ends by itself when its input is closed; this is for when it does not.
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sender's own end: says that everything is signed and waits for the start. The flag is set
/// when sending shall stop.
pub(super) fn ready() -> Result<Arc<AtomicBool>, BenchError> {
    say(READY)?;
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(BenchError::system("waiting for the start"))?;
    if line.trim_end() != GO {
        return Err(BenchError::Sender(format!("told {line:?} instead of {GO}")));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    thread::spawn(move || {
        // Reads until the other end closes it.
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        flag.store(true, Ordering::Relaxed);
    });
    Ok(stop)
}

/// Everything is sent.
pub(super) fn done() -> Result<(), BenchError> {
    say(DONE)
}

/// What became of it.
pub(super) fn tell_outcome(outcome: &Value) -> Result<(), BenchError> {
    say(&outcome.to_string())
}

fn say(line: &str) -> Result<(), BenchError> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(BenchError::system("speaking"))
}
