//! A guest that runs: its streams, its end, and the thread that watches it.
//!
//! ```text
//!             ┌── exits, is killed ───────────────────────────────┐
//!   running ──┼── deadline, memory, disk, flood, cancel ──► stop ─┴─► ended, everything removed
//! ```
//!
//! To stop a guest is to end the first process of its namespace; the kernel then ends all others,
//! so nothing can outlive it. The first reason to stop is the one that is told.
//! The thread that starts a guest also waits for it: a guest dies with the thread that made it.

use super::cgroup::Group;
use super::collect::Outputs;
use super::control::{self, Message};
use super::error::SandboxError;
use super::meter::{self, Sample};
use super::network::{Tools, Way};
use super::spec::{Limits, Work};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use std::io::{self, Read};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a guest is measured.
const TICK: Duration = Duration::from_millis(50);
/// Bytes of both streams that are kept when nobody reads them as they come.
const CHUNK: usize = 16 * 1024;

/// Why a guest is no longer running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal, as a shell reports it.
    Signalled(i32),
    /// It was cancelled.
    Cancelled,
    /// Its time was over.
    Deadline,
    /// It used up its processor time.
    Cpu,
    /// It wanted more memory.
    Memory,
    /// It wrote more to its streams than is allowed.
    Flood,
    /// It wrote more into its folders than is allowed.
    Disk,
}

/// What a guest used, as measured from outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From its start to its end.
    pub wall: Duration,
    /// Processor time of all its processes.
    pub cpu: Duration,
    /// The most memory at one time; what was sampled, where the kernel does not remember it.
    pub memory: u64,
    /// Bytes that it wrote to its two streams.
    pub streams: u64,
    /// Bytes in its work folder at the end.
    pub disk: u64,
}

/// The end of a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Why.
    pub how: How,
    /// At what cost.
    pub usage: Usage,
}

/// A guest with its streams collected.
#[derive(Debug)]
pub struct Finished {
    /// Its end.
    pub ended: Ended,
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error.
    pub stderr: Vec<u8>,
    /// What it left in its work folder.
    pub outputs: Outputs,
}

/// A running guest. Dropping it ends it.
#[derive(Debug)]
pub struct Guest {
    stdin: Option<ChildStdin>,
    stdout: Option<Stream>,
    stderr: Option<Stream>,
    terminal: Option<OwnedFd>,
    outputs: Outputs,
    landlock: u8,
    switch: Arc<Switch>,
    warden: Option<JoinHandle<Result<Ended, SandboxError>>>,
}

impl Guest {
    pub(super) fn new(born: Born, warden: JoinHandle<Result<Ended, SandboxError>>) -> Self {
        let Born { stdin, stdout, stderr, terminal, outputs, landlock, switch } = born;
        Self { stdin, stdout, stderr, terminal, outputs, landlock, switch, warden: Some(warden) }
    }

    /// Its standard input, once. Dropping it closes it.
    pub const fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Its standard output, once. A guest whose output is not read waits.
    pub const fn take_stdout(&mut self) -> Option<Stream> {
        self.stdout.take()
    }

    /// Its standard error, once.
    pub const fn take_stderr(&mut self) -> Option<Stream> {
        self.stderr.take()
    }

    /// Our end of its terminal, once, if it has one.
    pub(super) const fn take_terminal(&mut self) -> Option<OwnedFd> {
        self.terminal.take()
    }

    /// What ends it from any thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.switch))
    }

    /// The version of the second wall that this kernel has, zero without one.
    pub const fn landlock(&self) -> u8 {
        self.landlock
    }

    /// Ends it now, with everything that it started.
    pub fn cancel(&self) {
        self.switch.stop(How::Cancelled);
    }

    /// Waits for its end. Streams that were not taken are read and dropped; they still count.
    pub fn wait(self) -> Result<(Ended, Outputs), SandboxError> {
        self.finish(false).map(|finished| (finished.ended, finished.outputs))
    }

    /// Waits for its end and keeps what it wrote.
    pub fn output(self) -> Result<Finished, SandboxError> {
        self.finish(true)
    }

    fn finish(mut self, keep: bool) -> Result<Finished, SandboxError> {
        drop((self.stdin.take(), self.terminal.take()));
        let (stdout, stderr) = (self.stdout.take(), self.stderr.take());
        let reader = std::thread::spawn(move || drain(stderr, keep));
        let stdout = drain(stdout, keep);
        let stderr = reader.join().unwrap_or_default();
        let warden = self.warden.take().expect("only the end of a guest takes its warden");
        let mut ended =
            warden.join().unwrap_or_else(|_| Err(lost("the warden of a guest failed")))?;
        // What it wrote last may have been read after its end.
        ended.usage.streams = self.switch.written.load(Ordering::Relaxed);
        if self.switch.why() == Some(How::Flood) {
            ended.how = How::Flood;
        }
        let outputs = self.outputs.again()?;
        Ok(Finished { ended, stdout, stderr, outputs })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.switch.stop(How::Cancelled);
        if let Some(warden) = self.warden.take() {
            // How it ended interests nobody any more.
            drop(warden.join());
        }
    }
}

fn lost(said: &str) -> SandboxError {
    SandboxError::Setup { stage: "guest", said: said.to_owned() }
}

fn drain(stream: Option<Stream>, keep: bool) -> Vec<u8> {
    let mut kept = Vec::new();
    let Some(mut stream) = stream else { return kept };
    let mut chunk = vec![0; CHUNK];
    // A stream that cannot be read any more has ended.
    while let Ok(count @ 1..) = stream.read(&mut chunk) {
        if keep {
            kept.extend(chunk.get(..count).unwrap_or_default());
        }
    }
    kept
}

/// One stream of a guest, with the limit that both share.
#[derive(Debug)]
pub struct Stream {
    pipe: OwnedFd,
    switch: Arc<Switch>,
}

impl Stream {
    pub(super) fn new(pipe: impl Into<OwnedFd>, switch: &Arc<Switch>) -> Self {
        Self { pipe: pipe.into(), switch: Arc::clone(switch) }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(count) => return Ok(self.switch.count(count)),
                // Nobody is left on a terminal.
                Err(Errno::IO) => return Ok(0),
                // Terminals are asked and not waited for.
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], None);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Ends a guest from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Switch>);

impl Stopper {
    /// Ends it now, with everything that it started.
    pub fn stop(&self) {
        self.0.stop(How::Cancelled);
    }
}

/// What stops a guest, in everybody's reach.
#[derive(Debug)]
pub(super) struct Switch {
    why: Mutex<Option<How>>,
    first: Mutex<Option<OwnedFd>>,
    written: AtomicU64,
    limit: u64,
}

impl Switch {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        Arc::new(Self {
            why: Mutex::new(None),
            first: Mutex::new(None),
            written: AtomicU64::new(0),
            limit: limits.streams,
        })
    }

    /// Ends the guest; only the first reason counts.
    fn stop(&self, how: How) {
        self.why.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(how);
        if let Some(first) = &*self.first.lock().unwrap_or_else(PoisonError::into_inner) {
            // It may be gone already, which is what is wanted.
            let _ = pidfd_send_signal(first, Signal::KILL);
        }
    }

    /// Takes the first process inside into our hands; from here on `stop` reaches it.
    fn hold(&self, first: OwnedFd) {
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Some(first);
        if let Some(how) = self.why() {
            self.stop(how);
        }
    }

    fn why(&self) -> Option<How> {
        *self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much of what was read may be handed on.
    fn count(&self, read: usize) -> usize {
        let wide = u64::try_from(read).unwrap_or(u64::MAX);
        let before = self.written.fetch_add(wide, Ordering::Relaxed);
        let left = self.limit.saturating_sub(before);
        if wide > left {
            self.stop(How::Flood);
        }
        usize::try_from(left).unwrap_or(usize::MAX).min(read)
    }
}

/// What a guest has when its walls stand.
#[derive(Debug)]
pub(super) struct Born {
    pub(super) stdin: Option<ChildStdin>,
    pub(super) stdout: Option<Stream>,
    pub(super) stderr: Option<Stream>,
    pub(super) terminal: Option<OwnedFd>,
    pub(super) outputs: Outputs,
    pub(super) landlock: u8,
    pub(super) switch: Arc<Switch>,
}

/// What is known of a guest when its walls stand.
#[derive(Debug)]
pub(super) struct Settled {
    /// The version of the second wall.
    pub(super) landlock: u8,
    /// Our end of its terminal.
    pub(super) terminal: Option<OwnedFd>,
}

/// Watches one guest from its first process to its last.
#[derive(Debug)]
pub(super) struct Warden {
    pub(super) child: Child,
    pub(super) tool: OwnedFd,
    pub(super) control: OwnedFd,
    pub(super) command: String,
    pub(super) group: Option<Group>,
    pub(super) limits: Limits,
    /// What opens a way out, where one was granted.
    pub(super) tools: Option<Tools>,
    pub(super) way: Option<Way>,
    pub(super) work: Work,
    pub(super) switch: Arc<Switch>,
    pub(super) start: Instant,
    pub(super) folders: Vec<OwnedFd>,
    pub(super) peak: Sample,
    pub(super) walked: meter::Held,
    pub(super) next_walk: Instant,
}

impl Warden {
    /// Waits until the walls stand, and holds the first process inside.
    pub(super) fn settle(&mut self, info: &OwnedFd) -> Result<Settled, SandboxError> {
        let number = first_process(info, self.limits.wall);
        let first = number.and_then(|number| pidfd_open(number, PidfdFlags::empty()).ok());
        loop {
            let gone = self.pause(true)?;
            match control::receive(&self.control)
                .map_err(SandboxError::system("hearing a guest"))?
            {
                Some(Message::Ready { landlock, folders, terminal }) => {
                    self.folders = folders;
                    // It lives, so the number that the tool told is still its own.
                    self.switch.hold(first.ok_or_else(|| lost("its first process is unknown"))?);
                    if let (Some(tools), Some(number)) = (&self.tools, number) {
                        self.way = Some(tools.open(number)?);
                        control::go(&self.control).map_err(SandboxError::system("a guest"))?;
                    }
                    return Ok(Settled { landlock, terminal });
                }
                Some(Message::Failed { stage, reason }) => {
                    return Err(SandboxError::Setup {
                        stage: "inside",
                        said: format!("{stage}: {reason}"),
                    });
                }
                None if gone => return Err(self.unborn()),
                None => {}
            }
            if self.start.elapsed() >= self.limits.wall {
                self.end_tool();
                let said = "the time of the guest was over before it began".to_owned();
                return Err(SandboxError::Setup { stage: "start", said });
            }
        }
    }

    /// The tool ended before the guest began, and says why on the guest's stream.
    fn unborn(&mut self) -> SandboxError {
        let mut said = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            // What cannot be read is not said.
            let _ = stderr.take(4096).read_to_string(&mut said);
        }
        SandboxError::Setup { stage: "walls", said: said.trim().to_owned() }
    }

    fn end_tool(&mut self) {
        self.switch.stop(How::Deadline);
        // Both may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for a tick, or for the end of the tool (true), or for a message when `early`.
    fn pause(&self, early: bool) -> Result<bool, SandboxError> {
        let left = self.limits.wall.saturating_sub(self.start.elapsed()).min(TICK);
        let left = left.max(Duration::from_millis(1));
        let time = Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() };
        let mut waited = vec![PollFd::new(&self.tool, PollFlags::IN)];
        if early {
            waited.push(PollFd::new(&self.control, PollFlags::IN));
        }
        match poll(&mut waited, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(SandboxError::system("watching a guest")(error)),
        }
        Ok(waited.first().is_some_and(|tool| !tool.revents().is_empty()))
    }

    /// Measures until the end, then removes everything.
    pub(super) fn watch(mut self) -> Result<Ended, SandboxError> {
        while !self.pause(false)? {
            if let Some(how) = self.exceeded() {
                self.switch.stop(how);
            }
        }
        let tool = Pid::from_child(&self.child);
        // It has ended and is not taken away yet, so the kernel still knows what it all cost.
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(tool), options).map_err(SandboxError::system("waiting for a guest"))?;
        let counted = self.group.as_ref().and_then(Group::cpu);
        // Of processes that were ended from outside nobody was told, but they were seen before.
        let seen = || meter::cpu(self.child.id()).max(self.peak.cpu);
        let cpu = counted.unwrap_or_else(seen);
        let status = self.child.wait().map_err(SandboxError::system("waiting for a guest"))?;
        let failed = control::receive(&self.control);
        if let Ok(Some(Message::Failed { stage, reason })) = failed
            && stage == control::COMMAND
        {
            let name = std::mem::take(&mut self.command);
            return Err(SandboxError::Command { name, reason });
        }
        let memory = self.group.as_ref().and_then(Group::peak).unwrap_or(self.peak.memory);
        self.next_walk = self.start;
        let usage = Usage {
            wall: self.start.elapsed(),
            cpu,
            memory,
            streams: self.switch.written.load(Ordering::Relaxed),
            disk: self.held(0).bytes,
        };
        let ran_out = self.group.as_ref().is_some_and(Group::ran_out);
        let how = match self.switch.why() {
            Some(how) => how,
            None if ran_out => How::Memory,
            None => ended_by_itself(status),
        };
        Ok(Ended { how, usage })
    }

    /// The limit that is exceeded now, if any.
    fn exceeded(&mut self) -> Option<How> {
        if self.start.elapsed() >= self.limits.wall {
            return Some(How::Deadline);
        }
        let cpu = match &self.group {
            Some(group) if group.ran_out() => return Some(How::Memory),
            Some(group) => group.cpu().unwrap_or_default(),
            None => {
                let sample = meter::tree(self.child.id());
                self.peak.memory = self.peak.memory.max(sample.memory);
                self.peak.cpu = self.peak.cpu.max(sample.cpu);
                sample.cpu
            }
        };
        if cpu >= self.limits.cpu {
            return Some(How::Cpu);
        }
        let held = [0, 1, 2].map(|folder| self.held(folder));
        let on_disk = usize::from(self.work != Work::Memory);
        let in_memory: u64 = held.iter().skip(on_disk).map(|held| held.bytes).sum();
        if self.group.is_none() && self.peak.memory.saturating_add(in_memory) > self.limits.memory {
            return Some(How::Memory);
        }
        let over = held.iter().any(|held| held.files > self.limits.files);
        let full = held.first().is_some_and(|held| held.bytes > self.limits.disk);
        (over || full).then_some(How::Disk)
    }

    /// What is in the work folder (0), the temporary one (1), or that of memory (2).
    fn held(&mut self, folder: usize) -> meter::Held {
        let Some(opened) = self.folders.get(folder) else { return meter::Held::default() };
        if folder > 0 || self.work == Work::Memory {
            return meter::file_system(opened.as_fd());
        }
        // A large folder takes long to add up, so it is done less often.
        let start = Instant::now();
        if start >= self.next_walk {
            self.walked = meter::folder(opened.as_fd(), self.limits.files);
            let rest = start.elapsed().saturating_mul(10);
            self.next_walk = Instant::now().checked_add(rest).unwrap_or(start);
        }
        self.walked
    }
}

/// A tool that is dropped before its guest was seen to end leaves nothing either.
impl Drop for Warden {
    fn drop(&mut self) {
        self.switch.stop(How::Cancelled);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The tool ends as a shell would: a signal is a code over 128.
fn ended_by_itself(status: ExitStatus) -> How {
    match (status.code(), status.signal()) {
        (Some(code @ 129..=192), _) => How::Signalled(code.saturating_sub(128)),
        (Some(code), _) => How::Exited(code),
        (None, signal) => How::Signalled(signal.unwrap_or_default()),
    }
}

/// The number of the first process inside, as the tool tells it.
fn first_process(info: &OwnedFd, patience: Duration) -> Option<Pid> {
    let start = Instant::now();
    let mut text = Vec::new();
    while !text.contains(&b'}') && text.len() < 4096 {
        let left = patience.checked_sub(start.elapsed())?;
        let time = Timespec::try_from(left).ok()?;
        poll(&mut [PollFd::new(info, PollFlags::IN)], Some(&time))
            .ok()
            .filter(|&ready| ready > 0)?;
        let mut chunk = [0; 512];
        let count = rustix::io::read(info, &mut chunk).ok().filter(|&count| count > 0)?;
        text.extend(chunk.get(..count)?);
    }
    let told: serde_json::Value = serde_json::from_slice(&text).ok()?;
    let number = told.get("child-pid")?.as_i64()?;
    Pid::from_raw(i32::try_from(number).ok()?)
}
