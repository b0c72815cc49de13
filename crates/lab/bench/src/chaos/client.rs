//! A client that submits one task after the other, and attends each until it has its output.
//!
//! ```text
//!   idle ─run─► attends ─ended well─► idle
//!                 │ killed, or ended badly
//!                 └─► dead ─a moment─► `pull` of the same task, or `run` if none was submitted
//! ```

use crate::{
    error::BenchError,
    network::{Scene, short, store, words},
    process::Process,
    tell,
};
use opengpu_client::{Rpc, market, wallet::create_folder};
use opengpu_crypto::Keypair;
use opengpu_types::{Address, CloseReason, Task, TaskId, TaskPhase};
use rand::rngs::StdRng;
use std::{
    collections::BTreeSet,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

/// How long a client stays dead.
const REST: Duration = Duration::from_millis(700);
/// How often one that ends badly is started again for the same task.
const TRIES: u32 = 40;
/// Exit code of a client for whom nobody is free.
const NO_CAPACITY: i32 = 4;
/// Numbers that the search of the first client looks at; others look at more.
const LEAST: usize = 3_000_000;
const MORE: usize = 400_000;

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: String,
    pub(super) address: Address,
    home: PathBuf,
    url: String,
    input: PathBuf,
    program: PathBuf,
    log: PathBuf,
    opengpu: PathBuf,
    process: Option<Process>,
    since: Instant,
    /// Tasks that are over for us.
    over: BTreeSet<TaskId>,
    failures: u32,
    /// The same program on the same input, undisturbed.
    local: Process,
    expected: PathBuf,
}

impl Client {
    /// A client with its own home; what its tasks should give is found out beside it.
    pub(super) fn new(
        scene: &Scene,
        number: usize,
        keypair: &Keypair,
        program: &Path,
        rng: &mut StdRng,
    ) -> Result<Self, BenchError> {
        let name = format!("client-{number}");
        let home = scene.folder.join("clients").join(number.to_string());
        create_folder(&home.join("tasks"))?;
        store(&home, &name, keypair, rng)?;
        let (input, expected) = (home.join("input"), home.join("expected"));
        let count = LEAST.saturating_add(MORE.saturating_mul(number));
        fs::write(&input, format!("{name}:\n{count}\n"))
            .map_err(BenchError::system("writing an input"))?;
        let log = scene.folder.join(format!("logs/{name}.log"));
        let mut local = Command::new(&scene.opengpu);
        local.arg("--home").arg(home.join("local")).arg("run").arg(program);
        local.arg("--local").arg("--input").arg(&input).arg("--out").arg(&expected);
        let local_log = scene.folder.join(format!("logs/{name}-local.log"));
        let local = Process::start(format!("{name} alone"), &mut local, &local_log)?;
        Ok(Self {
            address: keypair.address(),
            url: scene.url(number).to_owned(),
            program: program.to_owned(),
            opengpu: scene.opengpu.clone(),
            process: None,
            since: Instant::now(),
            over: BTreeSet::new(),
            failures: 0,
            name,
            home,
            input,
            log,
            local,
            expected,
        })
    }

    /// Whether it is known what its tasks should give.
    pub(super) fn is_expected_known(&mut self) -> bool {
        self.local.ended().is_some()
    }

    /// The task of which it has no output yet, as its folder tells.
    pub(super) fn task(&self) -> Option<TaskId> {
        let entries = fs::read_dir(self.home.join("tasks")).ok()?;
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        ids.filter(|id| !self.over.contains(id)).min()
    }

    /// The task that it attends now, if that is open on chain.
    pub(super) fn open_task(&self, rpc: &Rpc) -> Option<(TaskId, Task)> {
        self.process.as_ref()?;
        let id = self.task()?;
        let task = market::task(rpc, id).ok()??;
        (!task.is_closed()).then_some((id, task))
    }

    /// Whether nothing is left to do for it.
    pub(super) fn is_idle(&self) -> bool {
        self.process.is_none() && self.task().is_none()
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) -> Result<(), BenchError> {
        self.since = Instant::now();
        self.process.take().map_or(Ok(()), Process::kill)
    }

    /// Goes on; `more` says whether new tasks are submitted. Whether it ended badly by itself.
    pub(super) fn tend(&mut self, rpc: Option<&Rpc>, more: bool) -> Result<bool, BenchError> {
        if let Some(process) = &mut self.process {
            let Some(status) = process.ended() else { return Ok(false) };
            self.process = None;
            self.since = Instant::now();
            // All providers are busy, and it asks again.
            let refused = status.code() == Some(NO_CAPACITY) && self.task().is_none();
            return Ok(!refused && self.end(status.success(), rpc));
        }
        if self.since.elapsed() < REST {
            return Ok(false);
        }
        match self.task() {
            Some(id) => self.start(words(["pull", &id.to_string()]))?,
            None if more => {
                let mut run = vec!["run".into(), self.program.clone().into()];
                run.extend(["--input".into(), self.input.clone().into()]);
                run.extend(words(["--from", &self.name, "--seek", "10m"]));
                self.start(run)?;
            }
            None => {}
        }
        Ok(false)
    }

    /// Takes the end of its process; whether that was bad.
    fn end(&mut self, well: bool, rpc: Option<&Rpc>) -> bool {
        let task = self.task();
        if well {
            self.over.extend(task);
            self.failures = 0;
            return false;
        }
        self.failures = self.failures.saturating_add(1);
        tell(format!("{} ended by itself: {}", self.name, last_line(&self.log)));
        let hopeless = task.is_some_and(|id| self.failures > TRIES || is_lost(rpc, id));
        if hopeless {
            self.over.extend(task);
            self.failures = 0;
        }
        true
    }

    fn start(&mut self, arguments: Vec<OsString>) -> Result<(), BenchError> {
        let mut command = Command::new(&self.opengpu);
        command.arg("--home").arg(&self.home).args(["--node", &self.url, "--yes"]);
        command.args(arguments);
        self.process = Some(Process::start(&self.name, &mut command, &self.log)?);
        Ok(())
    }

    /// The last line in the journal of its task.
    pub(super) fn newest(&self) -> Option<String> {
        let id = self.task()?.to_string();
        let journal = fs::read_to_string(self.home.join("tasks").join(&id).join("journal"));
        let journal = journal.unwrap_or_default();
        let line = journal.lines().last().unwrap_or("not begun").to_owned();
        Some(format!("{} waits for task {}: {line}", self.name, short(&id)))
    }

    /// Attends a task again that it has given up.
    pub(super) fn take_up(&mut self, id: TaskId) {
        self.over.remove(&id);
    }

    /// Whether the output of a task is here and what it should be.
    pub(super) fn is_right(&self, id: TaskId) -> bool {
        let output = fs::read(self.home.join("tasks").join(id.to_string()).join("output"));
        let expected = fs::read(&self.expected);
        matches!((output, expected), (Ok(output), Ok(expected)) if output == expected)
    }
}

/// Whether a task has ended without an output.
fn is_lost(rpc: Option<&Rpc>, id: TaskId) -> bool {
    let task = rpc.and_then(|rpc| market::task(rpc, id).ok().flatten());
    let phase = task.map(|task| task.phase);
    matches!(phase, Some(TaskPhase::Closed { reason, .. }) if reason != CloseReason::Completed)
}

fn last_line(path: &Path) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let error = text.lines().rev().find(|line| line.starts_with("error"));
    error.or_else(|| text.lines().last()).unwrap_or_default().to_owned()
}
