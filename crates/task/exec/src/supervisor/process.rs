//! One executor process: its streams, its open tickets, its end.

use super::mailbox::{self, mailbox};
use super::ticket::Ticket;
use super::told::Asked;
use super::{GRACE, StartError, watch};
use crate::fault::Fault;
use crate::program::Program;
use crate::protocol::{self, Event, MOST_LOGGED, News, Request, Role};
use crate::scratch::{self, Scratch};
use crate::stop::milliseconds;
use crate::usage::Usage;
use crate::walls::Grant;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes that are read or written at once.
const BUFFER: usize = 64 << 10;
/// Bytes of last words that are kept.
const LAST_WORDS: usize = 2048;
/// Memory of an executor besides what its program may use.
const OVERHEAD: u64 = 768 << 20;

/// How an executor is started.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The binary; usually the one that runs.
    pub program: PathBuf,
    /// What makes it an executor.
    pub arguments: Vec<OsString>,
    /// Threads that it may use for one run; as many as there are if none.
    pub threads: Option<u32>,
    /// Id of the device that it uses, or of several with commas between them; the first one if none.
    pub device: Option<String>,
    /// What it may read besides the files of the program that it is started for: inputs, states,
    /// more programs.
    pub reads: Vec<PathBuf>,
    /// Folders for states.
    pub writes: Vec<PathBuf>,
}

impl Launch {
    /// The same on these devices; as it was if none is named.
    #[must_use]
    pub fn on(&self, devices: &[String]) -> Self {
        let device = match devices {
            [] => self.device.clone(),
            devices => Some(devices.join(SEPARATOR)),
        };
        Self { device, ..self.clone() }
    }

    /// The process, with no more of our environment than it needs.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .env_clear()
            .envs(ENVIRONMENT.iter().filter_map(|name| Some((name, std::env::var_os(name)?))))
            // Walls are raised by the only thread, so the allocator starts none of its own.
            .env("_RJEM_MALLOC_CONF", "background_thread:false");
        if let Some(threads) = self.threads {
            for name in ["RAYON_NUM_THREADS", "LP_NUM_THREADS", "CANDLE_NUM_THREADS"] {
                command.env(name, threads.to_string());
            }
        }
        if let Some(device) = &self.device {
            command.env(DEVICE, device);
        }
        command
    }
}

/// The variable that names an executor's devices.
pub(crate) const DEVICE: &str = "OPENGPU_DEVICE";
/// Stands between ids of devices.
pub(crate) const SEPARATOR: &str = ",";

/// What the environment of an executor may hold: no secrets, no libraries slipped in.
const ENVIRONMENT: [&str; 11] = [
    "HOME",
    "LANG",
    "OPENGPU_IMAGES",
    crate::program::MODELS,
    "PATH",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_RUNTIME_DIR",
    "RUST_LOG",
    "VK_ICD_FILENAMES",
    "VK_DRIVER_FILES",
];

/// Where drivers keep compiled kernels, by their makers.
const CACHES: [&str; 2] = ["MESA_SHADER_CACHE_DIR", "__GL_SHADER_DISK_CACHE_PATH"];

/// A running executor. It is killed and waited for when this is dropped.
#[derive(Debug)]
pub(super) struct Process {
    shared: Arc<Shared>,
    answers: Mutex<Receiver<Event>>,
    /// Goes away with it.
    _cache: Option<Scratch>,
}

/// What the threads around a process have in common.
#[derive(Debug)]
pub(super) struct Shared {
    id: u32,
    child: Mutex<Child>,
    writer: Mutex<Writer>,
    pub(super) open: Mutex<Open>,
    pub(super) changed: Condvar,
}

#[derive(Debug)]
struct Writer {
    stream: BufWriter<ChildStdin>,
    scratch: Vec<u8>,
}

/// Tickets that have not ended. The executor takes them in order, so the first one runs.
#[derive(Debug, Default)]
pub(super) struct Open {
    next: u64,
    tickets: BTreeMap<u64, OpenTicket>,
    /// Since when the first one is the first one.
    since: Option<Instant>,
    /// Most memory that any program may use here.
    pub(super) memory: u64,
    output: u64,
    /// Why the process was killed, if it was, and for which ticket; for none if there was none.
    cause: Option<(Option<u64>, Fault)>,
    /// Why it died, for whoever comes too late.
    epitaph: Option<Fault>,
    pub(super) dead: bool,
}

#[derive(Debug)]
struct OpenTicket {
    news: Arc<mailbox::Sender>,
    time: Duration,
    cancelled: Option<Instant>,
    /// Whether there is a run, of which there can be news; otherwise a program is made ready.
    runs: bool,
    /// Bytes of output so far, in the whole run.
    emitted: u64,
    /// Bytes that it said beside.
    logged: u64,
}

impl OpenTicket {
    /// Tells its owner that there is no executor any more.
    fn end(&self, fault: Fault) {
        self.news.end(News::Failed { fault, usage: Usage::default() });
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) const fn id(&self) -> u32 {
        self.id
    }

    /// Tells the executor to end a run, and remembers when.
    pub(super) fn cancel(&self, ticket: u64) {
        let mut open = self.lock();
        let Some(entry) = open.tickets.get_mut(&ticket) else { return };
        if entry.cancelled.is_some() {
            return;
        }
        entry.cancelled = Some(Instant::now());
        drop(open);
        self.changed.notify_all();
        self.wish(&Request::Cancel { ticket });
    }

    /// Tells the executor to end a run at the next checkpoint.
    pub(super) fn pause(&self, ticket: u64) {
        if self.lock().tickets.contains_key(&ticket) {
            self.wish(&Request::Pause { ticket });
        }
    }

    fn wish(&self, request: &Request) {
        // A pipe that is full or broken belongs to a process that is killed after the grace, or when
        // its time is over, which ends this write, too.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writer.send([request]);
    }

    /// Kills the process for a reason, which its first ticket is told.
    pub(super) fn kill(&self, fault: Fault) {
        {
            let mut open = self.lock();
            if open.cause.is_none() {
                let first = open.tickets.keys().next().copied();
                open.cause = Some((first, fault));
            }
        }
        let _ = self.child().kill();
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends every ticket after the process has died.
    fn bury(&self, status: Option<ExitStatus>, words: &str) {
        let mut open = self.lock();
        open.dead = true;
        let (first, epitaph) = match open.cause.take() {
            None => (None, Fault::Crashed { how: how(status, words) }),
            Some((None, fault)) => (None, fault),
            Some((Some(first), fault)) => {
                let how = "it was stopped for the run before".to_owned();
                (Some((first, fault)), Fault::Crashed { how })
            }
        };
        for (number, ticket) in std::mem::take(&mut open.tickets) {
            let own = first.as_ref().filter(|(of, _)| *of == number).map(|(_, fault)| fault);
            ticket.end(own.unwrap_or(&epitaph).clone());
        }
        open.epitaph = Some(epitaph);
        drop(open);
        self.changed.notify_all();
    }

    /// Passes news on to the owner of a ticket.
    fn pass(&self, ticket: u64, news: News) -> Result<(), io::Error> {
        let mut open = self.lock();
        let most = open.output;
        let Some(mut first) = open.tickets.first_entry().filter(|entry| *entry.key() == ticket)
        else {
            return Err(io::Error::other("news of a run that is not the first"));
        };
        if !first.get().runs {
            return Err(io::Error::other("news of what is no run"));
        }
        if let News::Emitted(bytes) = &news {
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let emitted = first.get().emitted.saturating_add(length);
            first.get_mut().emitted = emitted;
            if emitted > most {
                return Err(io::Error::other("more output than it may give"));
            }
        }
        if let News::Logged(bytes) = &news {
            let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
            let logged = first.get().logged.saturating_add(length);
            first.get_mut().logged = logged;
            if logged > MOST_LOGGED {
                return Err(io::Error::other("more words than it may say"));
            }
        }
        let last = news.is_last();
        let sender = if last {
            let entry = open.tickets.remove(&ticket);
            open.since = (!open.tickets.is_empty()).then(Instant::now);
            entry.map(|entry| entry.news)
        } else {
            open.tickets.get(&ticket).map(|entry| Arc::clone(&entry.news))
        };
        drop(open);
        if let Some(sender) = sender {
            sender.send(news);
        }
        Ok(())
    }
}

impl Open {
    /// Why the process must be killed by now, if it must.
    pub(super) fn overdue(&self, now: Instant) -> Option<Fault> {
        let (_, first) = self.tickets.first_key_value()?;
        let late = |since: Instant, time: Duration| {
            now.saturating_duration_since(since) > time.saturating_add(GRACE)
        };
        if first.cancelled.is_some_and(|since| late(since, Duration::ZERO)) {
            return Some(Fault::Cancelled);
        }
        self.since
            .filter(|since| late(*since, first.time))
            .map(|_| Fault::Deadline { milliseconds: milliseconds(first.time) })
    }

    pub(super) fn is_idle(&self) -> bool {
        self.tickets.is_empty()
    }
}

impl Writer {
    /// Says something that is not sent yet.
    fn say<T: Serialize>(&mut self, message: &T) -> io::Result<()> {
        protocol::write(&mut self.stream, message, &mut self.scratch)
    }

    fn send<'a>(&mut self, requests: impl IntoIterator<Item = &'a Request>) -> io::Result<()> {
        for request in requests {
            self.say(request)?;
        }
        self.stream.flush()
    }
}

impl Process {
    /// Starts an executor and the threads that watch it; what it is granted is the first thing that it
    /// hears.
    pub(super) fn start(launch: &Launch, grant: Option<&Grant>) -> io::Result<Self> {
        let mut command = launch.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A driver without a place for compiled kernels compiles them for every dispatch, and one that
        // all executors share is a way from one lease to the next.
        let cache = match grant.filter(|grant| grant.devices()) {
            Some(_) => Some(Scratch::make(&scratch::temporary()?, "executor-")?),
            None => None,
        };
        let grant = match &cache {
            Some(cache) => {
                command.envs(CACHES.map(|name| (name, cache.path())));
                grant
                    .cloned()
                    .map(|grant| grant.with(&[], &[cache.path().to_owned()]))
                    .transpose()?
            }
            None => grant.cloned(),
        };
        // Signals of a terminal are for the supervisor, which tells its executor what to do.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let (answer, answers) = sync_channel(1);
        let (born, birth) = sync_channel(1);
        // The kernel ends an executor together with the thread that started it: so that is the one
        // which lives as long as the executor.
        spawn("reader", move || match bear(command) {
            Err(error) => drop(born.send(Err(error))),
            Ok((shared, stdout, stderr)) => {
                let words = Arc::new(Mutex::new(VecDeque::new()));
                let heard = Arc::clone(&words);
                let ear = spawn("last words", move || listen(stderr, &heard));
                let _ = born.send(Ok(Arc::clone(&shared)));
                read_events(&shared, stdout, &answer, ear.ok(), &words);
            }
        })?;
        let gone = |_| io::Error::other("the thread of an executor is gone");
        let shared = birth.recv().map_err(gone)??;
        let process = Self { shared, answers: Mutex::new(answers), _cache: cache };
        let shared = Arc::clone(&process.shared);
        spawn("watch", move || watch::watch(&shared))?;
        process.writer().say(&Role::Executor(grant))?;
        Ok(process)
    }

    pub(super) fn id(&self) -> u32 {
        self.shared.id
    }

    pub(super) fn is_dead(&self) -> bool {
        self.shared.lock().dead
    }

    pub(super) fn is_idle(&self) -> bool {
        self.shared.lock().is_idle()
    }

    /// Makes a program ready, and waits for it. Preparing counts as a run that has the same time.
    pub(super) fn prepare(&self, bay: u32, program: &Program) -> Result<(), StartError> {
        let limits = &program.manifest.limits;
        let (news, died) = mailbox();
        let number = {
            let mut open = self.shared.lock();
            open.memory = open.memory.max(limits.memory.saturating_add(OVERHEAD));
            open.output = open.output.max(limits.output);
            open.add(news, limits.time, None)
        };
        self.shared.changed.notify_all();
        let folder = std::path::absolute(program.folder())?;
        let request = Request::Prepare { bay, folder, id: program.id.0.0 };
        match self.send([&request]) {
            // It is dead or dying, and its end says more.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            sent => sent?,
        }
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = answers.recv();
        self.shared.lock().remove(number);
        match answer {
            Ok(Event::Prepared { .. }) => Ok(()),
            Ok(Event::Refused { refusal, .. }) => Err(refusal.into()),
            Ok(Event::Run { .. }) => Err(io::Error::other("it answered something else").into()),
            Err(_) => match died.receive() {
                Some(News::Failed { fault, .. }) => Err(fault.into()),
                _ => Err(Fault::Crashed { how: "it is gone".to_owned() }.into()),
            },
        }
    }

    /// Orders runs with what is asked of each; it is given its number and its milliseconds.
    pub(super) fn submit<R: FnOnce(u64, u64) -> Request>(
        &self,
        errands: impl IntoIterator<Item = (Duration, Asked, R)>,
    ) -> io::Result<Vec<Ticket>> {
        let mut tickets = Vec::new();
        let mut requests = Vec::new();
        {
            let mut open = self.shared.lock();
            for (time, asked, request) in errands {
                let (news, receiver) = mailbox();
                let number = open.add(news, time, Some(asked.emitted_before()));
                requests.push(request(number, milliseconds(time)));
                tickets.push(Ticket::new(number, receiver, Arc::clone(&self.shared), asked));
            }
        }
        self.shared.changed.notify_all();
        self.send(&requests)?;
        Ok(tickets)
    }

    fn send<'a>(&self, requests: impl IntoIterator<Item = &'a Request>) -> io::Result<()> {
        self.writer().send(requests)
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Adds a run that goes on after so much output; otherwise a program is made ready.
    fn add(&mut self, news: mailbox::Sender, time: Duration, run: Option<u64>) -> u64 {
        let number = self.next;
        self.next = self.next.saturating_add(1);
        if self.tickets.is_empty() {
            self.since = Some(Instant::now());
        }
        let (runs, emitted) = (run.is_some(), run.unwrap_or(0));
        let (news, logged) = (Arc::new(news), 0);
        let ticket = OpenTicket { news, time, cancelled: None, runs, emitted, logged };
        match &self.epitaph {
            Some(fault) => ticket.end(fault.clone()),
            None => drop(self.tickets.insert(number, ticket)),
        }
        number
    }

    fn remove(&mut self, number: u64) {
        self.tickets.remove(&number);
        self.since = (!self.tickets.is_empty()).then(Instant::now);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.shared.kill(Fault::Cancelled);
        // Its threads end by themselves: one may still wait for the owner of a ticket.
        let _ = self.shared.child().wait();
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body)
}

/// Starts the process.
fn bear(mut command: Command) -> io::Result<(Arc<Shared>, ChildStdout, ChildStderr)> {
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = streams(&mut child)?;
    let shared = Shared {
        id: child.id(),
        child: Mutex::new(child),
        writer: Mutex::new(Writer {
            stream: BufWriter::with_capacity(BUFFER, stdin),
            scratch: Vec::new(),
        }),
        open: Mutex::new(Open { next: 1, memory: OVERHEAD, ..Open::default() }),
        changed: Condvar::new(),
    };
    Ok((Arc::new(shared), stdout, stderr))
}

fn streams(child: &mut Child) -> io::Result<(ChildStdin, ChildStdout, ChildStderr)> {
    let missing = || io::Error::other("a stream of the executor is missing");
    Ok((
        child.stdin.take().ok_or_else(missing)?,
        child.stdout.take().ok_or_else(missing)?,
        child.stderr.take().ok_or_else(missing)?,
    ))
}

/// Passes on what the executor says, until it says nothing more; then waits for its end.
fn read_events(
    shared: &Shared,
    stdout: ChildStdout,
    answer: &SyncSender<Event>,
    ear: Option<JoinHandle<()>>,
    words: &Mutex<VecDeque<u8>>,
) {
    let mut stream = BufReader::with_capacity(BUFFER, stdout);
    let mut scratch = Vec::new();
    let broken = loop {
        match protocol::read(&mut stream, &mut scratch) {
            Ok(Some(Event::Run { ticket, news })) => {
                if let Err(error) = shared.pass(ticket, news) {
                    break Some(error);
                }
            }
            Ok(Some(event)) => {
                if answer.try_send(event).is_err() {
                    break Some(io::Error::other("an answer that nobody waits for"));
                }
            }
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    if let Some(error) = broken {
        shared.kill(Fault::Crashed { how: format!("it broke the protocol: {error}") });
    }
    let status = {
        let mut child = shared.child();
        // Its output has ended, so it has ended, or will not be of use any more.
        let _ = child.kill();
        child.wait().ok()
    };
    let _ = ear.map(JoinHandle::join);
    let words: Vec<u8> =
        words.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
    shared.bury(status, &String::from_utf8_lossy(&words));
}

/// Keeps the end of what the executor says to people.
fn listen(mut stderr: ChildStderr, words: &Mutex<VecDeque<u8>>) {
    let mut part = [0; 1024];
    while let Ok(length) = stderr.read(&mut part) {
        let Some(read) = part.get(..length).filter(|read| !read.is_empty()) else { return };
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.extend(read);
        let surplus = words.len().saturating_sub(LAST_WORDS);
        words.drain(..surplus);
    }
}

fn how(status: Option<ExitStatus>, words: &str) -> String {
    let ended = status.map_or_else(|| "it ended".to_owned(), |status| status.to_string());
    let words = words.trim();
    if words.is_empty() { ended } else { format!("{ended}; its last words: {words}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_too_late_is_told_why_it_died() {
        let fault = Fault::Memory { limit: 1 };
        let mut open = Open { epitaph: Some(fault.clone()), ..Open::default() };
        let (news, receiver) = mailbox();
        open.add(news, Duration::ZERO, Some(0));
        assert!(open.is_idle(), "it would wait for ever");
        let usage = Usage::default();
        assert_eq!(receiver.receive(), Some(News::Failed { fault, usage }));
    }
}
