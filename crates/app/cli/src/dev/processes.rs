//! Nodes, the relay and providers as child processes: started in their own process group, stopped by their own ids.
//!
//! A terminal sends Ctrl-C to its whole foreground group; the children are outside of it, so that
//! they are stopped once, by us, and can finish what they write. Each holds a pipe to us as its
//! stdin, which the system closes if we are killed: then they stop by themselves.

use super::network::{DevNode, LOG};
use crate::exit::{Complaint, Exit};
use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{
    ffi::OsString,
    fs::OpenOptions,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a process may take to end.
const GRACE: Duration = Duration::from_secs(15);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Lines of the log that are shown when a process dies.
const SHOWN_LINES: usize = 5;

/// Set by Ctrl-C, a closed terminal or a request to terminate.
#[derive(Clone, Debug)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn on_signals() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, flag.clone()).context("watching for signals")?;
        }
        Ok(Self(flag))
    }

    pub(super) fn is_requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits until it is requested; a process that dies is an error.
    pub(super) fn wait(&self, processes: &mut Processes) -> Result<()> {
        while !self.is_requested() {
            processes.check()?;
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Process {
    /// With our end of its stdin.
    child: Child,
    name: String,
    log: PathBuf,
}

/// The running processes; dropping them stops them.
#[derive(Debug, Default)]
pub(super) struct Processes(Vec<Process>);

impl Processes {
    /// Starts a node on its folder, with its operator's key from the network's wallets; its
    /// output goes to the log in its folder.
    pub(super) fn start(&mut self, node: &DevNode, home: &Path) -> Result<()> {
        let path = node.folder.path();
        let arguments: [OsString; 9] = [
            "node".into(),
            "run".into(),
            "--data".into(),
            path.into(),
            "--operator".into(),
            node.wallet.clone().into(),
            "--home".into(),
            home.into(),
            "--until-stdin-ends".into(),
        ];
        self.run(&node.name, path.join(LOG), arguments.to_vec())
    }

    /// Starts this binary with these arguments; its output goes to a log.
    pub(super) fn run(&mut self, name: &str, log: PathBuf, arguments: Vec<OsString>) -> Result<()> {
        self.run_build(&std::env::current_exe()?, name, log, arguments)
    }

    /// The same with another build of it.
    pub(super) fn run_build(
        &mut self,
        binary: &Path,
        name: &str,
        log: PathBuf,
        arguments: Vec<OsString>,
    ) -> Result<()> {
        let output = OpenOptions::new().create(true).append(true).open(&log)?;
        let child = Command::new(binary)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        self.0.push(Process { child, name: name.to_owned(), log });
        Ok(())
    }

    /// An error if a process has ended by itself.
    pub(super) fn check(&mut self) -> Result<()> {
        for process in &mut self.0 {
            if let Some(status) = process.child.try_wait()? {
                let message = format!("{} ended: {status}", process.name);
                let (path, tail) = (process.log.display(), tail(&process.log));
                let hint = format!("the end of {path}:\n{tail}");
                return Err(Complaint::new(Exit::Failed, message).hint(hint).into());
            }
        }
        Ok(())
    }

    /// Asks every process to end, waits, and ends those that do not.
    pub(super) fn stop(&mut self) {
        for process in &self.0 {
            // It may have ended already; its id stays reserved until `wait`.
            let _ = kill_process(Pid::from_child(&process.child), Signal::TERM);
        }
        let begin = Instant::now();
        for process in &mut self.0 {
            while begin.elapsed() < GRACE && matches!(process.child.try_wait(), Ok(None)) {
                thread::sleep(LOOK_EVERY);
            }
            let _ = process.child.kill();
            // Closes our end of its stdin as well, which is why it comes last.
            let _ = process.child.wait();
        }
        self.0.clear();
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.stop();
    }
}

fn tail(path: &Path) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let from = lines.len().saturating_sub(SHOWN_LINES);
    lines.into_iter().skip(from).collect::<Vec<_>>().join("\n")
}
