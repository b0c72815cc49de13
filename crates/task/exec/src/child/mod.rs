//! The executor: a process that runs what its supervisor sends, one run after the other.
//!
//! ```text
//!   stdin ──► [reader] ──bounded──► [this thread: prepares, runs] ──► stdout
//!                 └── wishes to stop ──► Stop ◄── clock ── [ticker]
//! ```
//!
//! It stays resident: a small request costs a frame each way and no process. It ends when its
//! standard input ends, so it never outlives its supervisor.

mod said;
mod ticker;
mod voice;

use crate::artifact;
use crate::backend::{Pipe, Prepared, Weighed};
use crate::fault::{Fault, Refusal};
use crate::look::{self, Inside, Looked, Wanted, Watcher};
use crate::program::{Limits, Program};
use crate::protocol::{self, Data, Event, News, PART, Request, Role, Standing};
use crate::registry::Registry;
use crate::run::{self, Observer, Repeat, Repeated, Start};
use crate::stop::Stop;
use crate::trial;
use crate::usage::{Usage, Watch};
use opengpu_crypto::Digest;
use opengpu_types::{ArtifactId, ProgramId, Segment, SegmentIndex};
use opengpu_verify::trace::{Emitted, Extent};
use said::Said;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufReader, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use ticker::Ticker;
use voice::Voice;

/// Requests that may wait.
const QUEUE: usize = 1024;
/// Bytes that are read at once.
const BUFFER: usize = 64 << 10;

/// Serves the supervisor at the other end of the standard streams until it is gone.
pub fn serve() -> io::Result<()> {
    serve_with(Registry::default())
}

/// The same with other back ends. Whatever they are, they run behind the walls that the supervisor
/// wants, which is the first thing that it says.
pub fn serve_with(registry: Registry) -> io::Result<()> {
    let output = own_output()?;
    let role: Option<Role> = protocol::read(&mut io::stdin().lock(), &mut Vec::new())?;
    let grant = match role {
        None => return Ok(()),
        Some(Role::Trial(wanted)) => return trial::serve(&wanted, output),
        Some(Role::Executor(grant)) => grant,
    };
    if let Some(grant) = &grant {
        grant.raise()?;
    }
    serve_on(io::stdin(), output, registry.behind(grant.is_some()))
}

/// Takes standard output for the protocol alone: whatever else prints goes to standard error.
#[cfg(unix)]
fn own_output() -> io::Result<std::fs::File> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let output = rustix::io::dup(rustix::stdio::stdout())?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(output.into())
}

#[cfg(not(unix))]
fn own_output() -> io::Result<io::Stdout> {
    Ok(io::stdout())
}

/// Serves a supervisor on any two streams.
fn serve_on(
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    registry: Registry,
) -> io::Result<()> {
    let (sender, receiver) = sync_channel(QUEUE);
    let wishes = Arc::new(Wishes::default());
    let reader = Arc::clone(&wishes);
    std::thread::Builder::new()
        .name("reader".to_owned())
        .spawn(move || read_requests(input, &sender, &reader))?;
    let voice = Arc::new(Voice::new(output));
    let heard = Arc::clone(&voice);
    // Whoever does not listen any more is noticed by the next word.
    let ticker = Ticker::start(move || drop(heard.send()))?;
    let mut executor = Executor { voice, registry, bays: BTreeMap::new(), wishes, ticker };
    executor.serve(&receiver)
}

/// Wishes that runs end, which must not wait behind other requests.
#[derive(Default)]
struct Wishes(Mutex<Pending>);

#[derive(Default)]
struct Pending {
    current: Option<(u64, Arc<Stop>)>,
    /// Wishes about runs that have not begun.
    later: BTreeSet<(u64, Wish)>,
}

/// How a run shall end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Wish {
    Pause,
    Cancel,
}

impl Wish {
    fn tell(self, stop: &Stop) {
        match self {
            Self::Pause => stop.pause(),
            Self::Cancel => stop.cancel(),
        }
    }
}

impl Wishes {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, ticket: u64, wish: Wish) {
        let mut pending = self.lock();
        match &pending.current {
            Some((current, stop)) if *current == ticket => wish.tell(stop),
            Some((current, _)) if *current > ticket => {}
            _ => {
                pending.later.insert((ticket, wish));
            }
        }
    }

    fn begin(&self, ticket: u64, stop: &Arc<Stop>) {
        let mut pending = self.lock();
        for wish in [Wish::Pause, Wish::Cancel] {
            if pending.later.remove(&(ticket, wish)) {
                wish.tell(stop);
            }
        }
        // Tickets only grow, so wishes about earlier ones came too late.
        pending.later = pending.later.split_off(&(ticket, Wish::Pause));
        pending.current = Some((ticket, Arc::clone(stop)));
    }
}

fn read_requests(input: impl Read, sender: &SyncSender<Request>, wishes: &Wishes) {
    let mut input = BufReader::with_capacity(BUFFER, input);
    let mut scratch = Vec::new();
    while let Ok(Some(request)) = protocol::read(&mut input, &mut scratch) {
        match request {
            Request::Pause { ticket } => wishes.add(ticket, Wish::Pause),
            Request::Cancel { ticket } => wishes.add(ticket, Wish::Cancel),
            request => {
                if sender.send(request).is_err() {
                    return;
                }
            }
        }
    }
    // Nobody reads the outcome any more: what runs shall end now, and the queue with it.
    if let Some((_, stop)) = &wishes.lock().current {
        stop.cancel();
    }
}

/// A program that is ready, and what it may use.
struct Bay {
    prepared: Box<dyn Prepared>,
    limits: Limits,
}

struct Executor<W: Write> {
    voice: Arc<Voice<W>>,
    registry: Registry,
    bays: BTreeMap<u32, Bay>,
    wishes: Arc<Wishes>,
    ticker: Ticker,
}

impl<W: Write> Executor<W> {
    fn serve(&mut self, requests: &Receiver<Request>) -> io::Result<()> {
        loop {
            let request = match requests.try_recv() {
                Ok(request) => request,
                // Frames are gathered as long as there is more to do.
                Err(TryRecvError::Empty) => {
                    self.voice.send()?;
                    let Ok(request) = requests.recv() else { return Ok(()) };
                    request
                }
                Err(TryRecvError::Disconnected) => return self.voice.send(),
            };
            self.answer(request)?;
        }
    }

    fn answer(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::Prepare { bay, folder, id } => {
                let event = match self.prepare(&folder, ProgramId(Digest(id))) {
                    Ok(ready) => {
                        self.bays.insert(bay, ready);
                        Event::Prepared { bay }
                    }
                    Err(refusal) => Event::Refused { bay, refusal },
                };
                self.voice.say(&event)
            }
            Request::Run { ticket, bay, input, segments, from, until, milliseconds, keep } => {
                let errand = Errand { ticket, bay, input, milliseconds };
                self.run(errand, |bay, input, stop, teller, usage| {
                    let Bay { prepared, limits } = bay;
                    let start = start(segments, from, limits)?;
                    let mut seen = Seen { keep, kept: None, teller, usage };
                    let until = until.map(SegmentIndex);
                    run::execute(&mut **prepared, input, start, until, limits, stop, &mut seen)?;
                    Ok(Ended::Finished)
                })
            }
            Request::Repeat {
                ticket,
                bay,
                input,
                state,
                index,
                steps,
                segments,
                emitted,
                milliseconds,
            } => {
                let errand = Errand { ticket, bay, input, milliseconds };
                let which = Repeat {
                    index: SegmentIndex(index),
                    extent: Extent { steps, segments },
                    emitted: Emitted(Digest(emitted)),
                };
                self.repeat(errand, state, &which)
            }
            Request::Weigh {
                ticket,
                bay,
                input,
                claimed,
                index,
                steps,
                segments,
                milliseconds,
            } => {
                let errand = Errand { ticket, bay, input, milliseconds };
                self.run(errand, |bay, input, stop, _, usage| {
                    let Bay { prepared, limits } = bay;
                    let span = run::span(index, &Extent { steps, segments });
                    let (weighed, metered) =
                        run::weigh(&mut **prepared, input, &claimed, span, limits, stop)?;
                    usage.add(&metered);
                    Ok(Ended::Weighed(weighed))
                })
            }
            Request::Look { ticket, bay, input, state, before, extent, wanted, milliseconds } => {
                let errand = Errand { ticket, bay, input, milliseconds };
                self.look(errand, state, &Inside { before, extent }, &wanted)
            }
            // The reader keeps these to itself.
            Request::Pause { .. } | Request::Cancel { .. } => Ok(()),
        }
    }

    fn repeat(&mut self, errand: Errand, state: Data, which: &Repeat) -> io::Result<()> {
        self.run(errand, |bay, input, stop, teller, usage| {
            let state = load(state, bay.limits.state).map_err(Fault::checkpoint)?;
            let prepared = &mut *bay.prepared;
            let found = run::repeat(prepared, input, state, which, &bay.limits, stop)?;
            usage.add(&found.segment.metered);
            teller.emit(&found.emitted);
            Ok(Ended::Repeated(found))
        })
    }

    fn look(
        &mut self,
        errand: Errand,
        state: Data,
        inside: &Inside,
        wanted: &Wanted,
    ) -> io::Result<()> {
        self.run(errand, |bay, input, stop, teller, _| {
            let Bay { prepared, limits } = bay;
            let state = load(state, limits.state).map_err(Fault::checkpoint)?;
            let (given, bounds) = ((input, state), (&*limits, stop));
            look::look(&mut **prepared, given, inside, wanted, bounds, teller).map(Ended::Looked)
        })
    }

    fn prepare(&mut self, folder: &std::path::Path, id: ProgramId) -> Result<Bay, Refusal> {
        let program = Program::open(folder)?;
        if program.id != id {
            return Err(Refusal::program(format_args!(
                "it is {} and not {id}: a file has changed",
                program.id
            )));
        }
        let prepared = self.registry.prepare(&program)?;
        Ok(Bay { prepared, limits: program.manifest.limits })
    }

    /// Runs something under its limits, measures it, and says how it ended.
    fn run(
        &mut self,
        errand: Errand,
        body: impl FnOnce(
            &mut Bay,
            &[u8],
            &Arc<Stop>,
            &mut Teller<'_, W>,
            &mut Usage,
        ) -> Result<Ended, Fault>,
    ) -> io::Result<()> {
        let watch = Watch::start();
        let stop = Arc::new(Stop::within(Duration::from_millis(errand.milliseconds)));
        self.wishes.begin(errand.ticket, &stop);
        let mut usage = Usage::default();
        let (ticket, voice, said) = (errand.ticket, &*self.voice, Said::default());
        let mut teller = Teller { ticket, voice, said, broken: None };
        let ended = match self.bays.get_mut(&errand.bay) {
            None => Err(Fault::program("it was never prepared")),
            Some(bay) => {
                let _beat = self.ticker.watch(Arc::clone(&stop), bay.prepared.pulse());
                let input = load(errand.input, bay.limits.input);
                input.map_err(|reason| Fault::Input { reason }).and_then(|input| {
                    usage.bytes_in = u64::try_from(input.len()).unwrap_or(u64::MAX);
                    body(bay, &input, &stop, &mut teller, &mut usage)
                })
            }
        };
        watch.read(&mut usage);
        if let Some(bay) = self.bays.get_mut(&errand.bay) {
            usage.add_elsewhere(bay.prepared.elsewhere());
        }
        teller.end(ended.is_err());
        let news = match ended {
            Ok(Ended::Finished) => News::Finished { usage },
            Ok(Ended::Repeated(Repeated { segment, steps, state, .. })) => {
                News::Repeated { segment, steps, state, usage }
            }
            Ok(Ended::Weighed(weighed)) => News::Weighed { weighed, usage },
            Ok(Ended::Looked(looked)) => News::Looked { looked, usage },
            Err(fault) => News::Failed { fault, usage },
        };
        teller.tell(news);
        teller.broken.map_or(Ok(()), Err)
    }
}

/// How something that ran came out.
enum Ended {
    Finished,
    Repeated(Repeated),
    Weighed(Weighed),
    Looked(Looked),
}

/// What every run has.
struct Errand {
    ticket: u64,
    bay: u32,
    input: Data,
    milliseconds: u64,
}

/// Where a run starts, with its state.
fn start(segments: u32, from: Option<Standing>, limits: &Limits) -> Result<Start, Fault> {
    let Some(Standing { checkpoint, extent, state }) = from else {
        return Ok(Start::Beginning { segments });
    };
    let state = load(state, limits.state).map_err(Fault::checkpoint)?;
    Ok(Start::Checkpoint { checkpoint, extent, state })
}

/// Bytes that are not too many, or why there are none.
fn load(data: Data, limit: u64) -> Result<Vec<u8>, String> {
    match data {
        Data::Inline(bytes) if u64::try_from(bytes.len()).is_ok_and(|length| length <= limit) => {
            Ok(bytes)
        }
        Data::Inline(_) => Err(format!("it has more than {limit} bytes")),
        Data::File(path) => {
            artifact::read(&path, limit).map_err(|error| format!("{}: {error}", path.display()))
        }
    }
}

/// Tells the supervisor about one run.
struct Teller<'a, W: Write> {
    ticket: u64,
    voice: &'a Voice<W>,
    said: Said,
    broken: Option<io::Error>,
}

impl<W: Write> Teller<'_, W> {
    /// Tells of bytes of an output, however many.
    fn emit(&mut self, bytes: &[u8]) {
        bytes.chunks(PART).for_each(|part| self.tell(News::Emitted(part.to_vec())));
    }

    /// Tells of a line, unless there are too many.
    fn log(&mut self, pipe: Pipe, line: &[u8]) {
        let lines = self.said.hear(pipe, line, Instant::now());
        lines.into_iter().for_each(|line| self.tell(News::Logged(line)));
    }

    /// Tells what was kept back and must be known.
    fn end(&mut self, failed: bool) {
        let lines = std::mem::take(&mut self.said).end(failed);
        lines.into_iter().for_each(|line| self.tell(News::Logged(line)));
    }

    fn tell(&mut self, news: News) {
        if self.broken.is_none() {
            let event = Event::Run { ticket: self.ticket, news };
            self.broken = self.voice.say(&event).err();
        }
    }
}

impl<W: Write> Watcher for Teller<'_, W> {
    fn emitted(&mut self, bytes: &[u8]) {
        self.emit(bytes);
    }

    fn stands(&mut self, units: u64, state: ArtifactId) {
        self.tell(News::Stands { units, state });
    }
}

/// Tells what happens in a run, and keeps its states where somebody wants them.
struct Seen<'a, 'b, W: Write> {
    keep: Option<PathBuf>,
    /// The state that was kept last: one that does not change is written once.
    kept: Option<ArtifactId>,
    teller: &'a mut Teller<'b, W>,
    usage: &'a mut Usage,
}

impl<W: Write> Observer for Seen<'_, '_, W> {
    fn begun(&mut self, extent: Extent) {
        let Extent { steps, segments } = extent;
        self.teller.tell(News::Begun { steps, segments });
    }

    fn emitted(&mut self, bytes: &[u8]) {
        self.teller.emit(bytes);
    }

    fn logged(&mut self, pipe: Pipe, line: &[u8]) {
        self.teller.log(pipe, line);
    }

    fn segment(&mut self, segment: &Segment, state: &[u8]) -> Result<(), Fault> {
        self.usage.add(&segment.metered);
        if let Some(folder) = &self.keep
            && self.kept != Some(segment.state)
        {
            let path = folder.join(segment.state.to_string());
            artifact::write(&path, state).map_err(|error| Fault::Device {
                reason: format!("the state cannot be kept: {error}"),
            })?;
            self.kept = Some(segment.state);
        }
        self.teller.tell(News::Segment(*segment));
        Ok(())
    }
}
