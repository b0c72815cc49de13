//! Scripts and images as programs: each segment is one start in the sandbox, for its steps alone.
//!
//! Python runs a script unless it names something else. A program with more files finds all of them in
//! `/inputs/program`, its script among them; the input is `/inputs/input`, a file or an unpacked folder.
//!
//! A script that keeps to the contract of checkpoints says how many steps it has; its state is its
//! checkpoint. One that knows nothing of it is a single step with an empty state. What a script prints
//! is the output, as a whole at the end of its segment; line by line, with what it says on its standard
//! error, it is also passed on as it comes, for people. An image is the same with files of its own: its command instead of a script. It is
//! named with its address, so that the program's id covers it.

use super::code::{self, Code, Settings, Shape, scratch};
use super::python::{self, Environment};
use super::words::Words;
use super::{
    Cgroup, Ended, File, Guest, How, Input, Probe, Root, Sandbox, SandboxError, Spec, Stream,
};
use crate::archive::{self, ArchiveError};
use crate::backend::{Backend, Begun, Elsewhere, Missing, Pipe, Prepared, Span, Work};
use crate::fault::{Fault, Grown, Refusal};
use crate::program::{Limits, Program};
use crate::scratch::Scratch;
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{fs, io};

/// How often a running script is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that are passed on at once.
const PIECE: usize = 16 << 10;
/// Where the input appears, inside.
const INPUT: &str = "/inputs/input";
/// Where the files of a program appear, inside, if it has more than its script.
const PROGRAM: &str = "/inputs/program";
/// Where a script appears that is alone and not Python's.
const ALONE: &str = "/inputs/script";

/// Runs scripts and images.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scripts;

impl Backend for Scripts {
    fn probe(&self) -> Result<String, Missing> {
        let Probe { isolates, landlock, cgroup, missing, .. } = Sandbox::probe();
        if !isolates {
            let fix = "the checks of the sandbox name what helps".to_owned();
            return Err(Missing { why: missing.join("; "), fix });
        }
        let counted = match cgroup {
            Cgroup::V2 | Cgroup::V1 => "counted by the kernel",
            Cgroup::None { .. } => "watched",
        };
        Ok(format!("scripts and images in a sandbox, landlock {landlock}, use is {counted}"))
    }

    fn prepare(&mut self, program: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        let settings: Settings = program.settings()?;
        let sandbox =
            Sandbox::new().map_err(|error| Refusal::Machine { reason: error.to_string() })?;
        let code = code::code(program, &settings)?;
        let beside = code::beside(program, &settings)?;
        Ok(Box::new(Script { sandbox, code, beside, settings, used: Elsewhere::default() }))
    }
}

#[derive(Debug)]
struct Script {
    sandbox: Sandbox,
    code: Code,
    /// The files of the program, if there are more than its script or its image.
    beside: Option<Scratch>,
    settings: Settings,
    /// What guests used that nobody was told of yet.
    used: Elsewhere,
}

impl Script {
    fn spec(&self) -> Spec {
        let mut spec = match &self.code {
            Code::Script { name, text } => self.script(name, text),
            Code::Image { image, command, arguments } => Spec {
                root: Root::Image(image.root.clone()),
                arguments: arguments.clone(),
                ..Spec::new(command.clone(), &[])
            },
        };
        if let Some(beside) = &self.beside {
            spec.inputs.push(Input { source: beside.path().to_owned(), place: PROGRAM.into() });
        }
        spec
    }

    /// A script, by Python or by what it names.
    fn script(&self, name: &str, text: &[u8]) -> Spec {
        let Settings { command, options, arguments, .. } = &self.settings;
        let words: Vec<_> = arguments.iter().map(String::as_str).collect();
        let place = self.beside.as_ref().map(|_| format!("{PROGRAM}/{name}"));
        let Some(command) = command else {
            let python = Environment::default();
            return match &place {
                Some(place) => python.spec_of(place, &words, None),
                None => python.spec(text, &words, None),
            };
        };
        let options = options.iter().map(String::as_str);
        let script = place.as_deref().unwrap_or(ALONE);
        let line: Vec<_> = options.chain([script]).chain(words).collect();
        let mut spec = Spec::new(command.clone(), &line);
        if place.is_none() {
            spec.files.push(File { place: ALONE.into(), bytes: text.to_vec() });
        }
        spec
    }

    /// The input as the guest finds it, below this folder.
    fn give(&self, input: &[u8], folder: &Path) -> Result<Input, Fault> {
        let place = folder.join("input");
        match self.settings.input {
            Shape::File => fs::write(&place, input).map_err(machine)?,
            Shape::Folder => archive::unpack(input, &place).map_err(unfit)?,
        }
        Ok(Input { source: place, place: INPUT.into() })
    }
}

impl Script {
    /// Steps of a run.
    fn steps(&self) -> u64 {
        self.settings.steps.unwrap_or(1)
    }

    /// A script begins at any step of its own run, and knows of no other.
    fn check_steps(&self, told: u64) -> Result<(), Fault> {
        let steps = self.steps();
        if told == steps {
            return Ok(());
        }
        Err(Fault::program(match self.settings.steps {
            Some(_) => format!("a run of it has {steps} steps and not {told}"),
            None => format!(
                "it keeps no checkpoints, so a run of it is one step and not {told}: one that does \
                 says its `steps` under [native]"
            ),
        }))
    }
}

/// A checkpoint as one byte string: its files by name.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Checkpoint(Vec<(String, Vec<u8>)>);

impl Prepared for Script {
    fn init(&mut self, input: &[u8], _: &mut Work<'_>) -> Result<Begun, Fault> {
        if self.settings.input == Shape::Folder {
            archive::check(input).map_err(unfit)?;
        }
        Ok(Begun { state: Vec::new(), steps: self.steps() })
    }

    fn advance(
        &mut self,
        input: &[u8],
        state: Vec<u8>,
        span: Span,
        work: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault> {
        self.check_steps(span.of)?;
        let folder = scratch().map_err(machine)?;
        let mut spec = self.spec();
        spec.inputs.push(self.give(input, folder.path())?);
        limit(&mut spec, work.limits);
        let until = *span.steps.end();
        if self.settings.steps.is_some() {
            let steps = python::Span {
                from: span.steps.start().saturating_sub(1),
                until,
                every: until,
                checkpoint: unpack(&state, &folder)?,
            };
            steps.apply(&mut spec);
        }
        let guest = self.sandbox.start(spec).map_err(unavailable)?;
        let (ended, outputs) = attend(guest, work, &mut self.used)?;
        judge(&ended, work)?;
        if self.settings.steps.is_none() {
            return Ok(Vec::new());
        }
        let files = python::checkpoint(&outputs, until, work.limits.state)
            .map_err(|error| Fault::program(format_args!("checkpoint {until}: {error}")))?;
        pack(files, until)
    }

    fn elsewhere(&mut self) -> Elsewhere {
        std::mem::take(&mut self.used)
    }
}

/// What a program may use, in the words of the sandbox.
fn limit(spec: &mut Spec, limits: &Limits) {
    spec.limits.memory = limits.memory;
    spec.limits.wall = limits.time;
    spec.limits.cpu = limits.time.saturating_mul(64);
    spec.limits.disk = limits.state.max(spec.limits.disk);
    spec.limits.streams = limits.output;
}

/// Reads one of the guest's streams until its end.
fn listen(
    pipe: Pipe,
    stream: Option<Stream>,
    heard: SyncSender<(Pipe, Vec<u8>)>,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let Some(mut stream) = stream else { return };
        let mut piece = vec![0; PIECE];
        while let Ok(length @ 1..) = stream.read(&mut piece) {
            let read = piece.get(..length).unwrap_or_default().to_vec();
            if heard.send((pipe, read)).is_err() {
                return;
            }
        }
    })
}

/// Passes on what the guest prints and says, and ends it when it shall end.
fn attend(
    mut guest: Guest,
    work: &mut Work<'_>,
    used: &mut Elsewhere,
) -> Result<(Ended, super::Outputs), Fault> {
    let (sender, pieces) = sync_channel(64);
    let readers = [
        listen(Pipe::Output, guest.take_stdout(), sender.clone()),
        listen(Pipe::Error, guest.take_stderr(), sender),
    ];
    let stop = Arc::clone(&work.stop);
    let mut output = Vec::new();
    let (mut printed, mut said) = (Words::default(), Words::default());
    let ended = loop {
        match pieces.recv_timeout(LOOK) {
            Ok((pipe, piece)) => {
                let words = match pipe {
                    Pipe::Output => &mut printed,
                    Pipe::Error => &mut said,
                };
                words.hear(&piece, |line| work.log(pipe, line));
                if pipe == Pipe::Output {
                    output.extend(piece);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
        }
        if let Some(fault) = stop.fault() {
            guest.cancel();
            break Err(fault);
        }
    };
    drop(pieces);
    printed.end(|line| work.log(Pipe::Output, line));
    said.end(|line| work.log(Pipe::Error, line));
    let waited = guest.wait().map_err(unavailable);
    for reader in readers {
        let _ = reader.join();
    }
    if let Ok((Ended { usage, .. }, _)) = &waited {
        used.cpu = used.cpu.saturating_add(usage.cpu);
        used.memory = used.memory.max(usage.memory);
    }
    ended?;
    // One link for all of it: where a pipe cuts is chance.
    work.emit(&output)?;
    waited
}

/// Whether the guest did what it should.
fn judge(ended: &Ended, work: &Work<'_>) -> Result<(), Fault> {
    let limits = work.limits;
    match ended.how {
        How::Exited(0) => Ok(()),
        How::Exited(code) => Err(Fault::program(format_args!("it ended with code {code}"))),
        How::Signalled(signal) => Err(Fault::program(format_args!("it ended by signal {signal}"))),
        How::Cancelled => Err(work.stop.fault().unwrap_or(Fault::Cancelled)),
        How::Deadline | How::Cpu => {
            Err(Fault::Deadline { milliseconds: crate::stop::milliseconds(limits.time) })
        }
        How::Memory => Err(Fault::Memory { limit: limits.memory }),
        How::Flood => Err(Fault::TooLarge { what: Grown::Output, limit: limits.output }),
        How::Disk => Err(Fault::TooLarge { what: Grown::State, limit: limits.state }),
    }
}

fn pack(files: Vec<(PathBuf, Vec<u8>)>, step: u64) -> Result<Vec<u8>, Fault> {
    if files.is_empty() {
        return Err(Fault::program(format_args!("it left no checkpoint after step {step}")));
    }
    let named = files.into_iter().map(|(name, bytes)| match name.into_os_string().into_string() {
        Ok(name) => Ok((name, bytes)),
        Err(_) => Err(Fault::program("a file of its checkpoint has no name in UTF-8")),
    });
    let checkpoint = Checkpoint(named.collect::<Result<_, _>>()?);
    postcard::to_stdvec(&checkpoint).map_err(Fault::program)
}

/// Writes a checkpoint into a folder, from which the script begins; none before the first step.
fn unpack(state: &[u8], folder: &Scratch) -> Result<Option<PathBuf>, Fault> {
    if state.is_empty() {
        return Ok(None);
    }
    let Checkpoint(files) = postcard::from_bytes(state)
        .map_err(|error| Fault::program(format_args!("the state is no checkpoint: {error}")))?;
    let place = folder.path().join("checkpoint");
    for (name, bytes) in files {
        let plain = |part| matches!(part, Component::Normal(_));
        if name.is_empty() || !Path::new(&name).components().all(plain) {
            return Err(Fault::program("a file of the checkpoint lies outside of it"));
        }
        let path = place.join(name);
        fs::create_dir_all(path.parent().unwrap_or(&place)).map_err(machine)?;
        fs::write(path, bytes).map_err(machine)?;
    }
    Ok(Some(place))
}

/// Whose fault it is that an archive cannot be unpacked.
fn unfit(error: ArchiveError) -> Fault {
    match error {
        ArchiveError::Disk(error) => machine(error),
        other => Fault::Input { reason: other.to_string() },
    }
}

fn machine(error: io::Error) -> Fault {
    Fault::Device { reason: error.to_string() }
}

fn unavailable(error: SandboxError) -> Fault {
    match error {
        SandboxError::Refused(_) | SandboxError::Command { .. } => Fault::program(error),
        other => Fault::Device { reason: other.to_string() },
    }
}
