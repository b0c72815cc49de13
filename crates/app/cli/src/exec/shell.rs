//! `opengpu exec shell`: a rental on this machine, at this terminal.
//!
//! Three threads carry bytes: keys in, screen out, signals. The rental itself is
//! [`opengpu_exec::native::Rental`]; here is only what a terminal needs.

use super::terminal::{self, Raw};
use crate::{
    exit::{Complaint, Exit, Passed},
    values,
};
use anyhow::Result;
use clap::Args;
use opengpu_exec::native::image::{self, ImageError, ImageLimits};
use opengpu_exec::native::{
    Control, How, Keys, Limits, Network, Rental, Root, Sandbox, SandboxError, Spec, Stream, shell,
};
use opengpu_exec::program::ByteSize;
use opengpu_types::Millis;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH},
    iterator::Signals,
};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::{
    Arc,
    atomic::{AtomicI32, Ordering},
};
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Files of its own instead of this machine's: the folder or tar file of an image (OCI), or the
    /// name that podman or docker has for one.
    #[arg(long, value_name = "FOLDER or NAME")]
    image: Option<String>,
    /// Memory of everything in it together.
    #[arg(long, value_name = "SIZE", default_value = "1 GiB")]
    memory: ByteSize,
    /// When it ends by itself.
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = values::span)]
    time: Millis,
    /// Processes and threads at one time.
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    processes: u64,
    /// Grant it the internet, but neither this machine nor what is near it.
    #[arg(long)]
    network: bool,
    /// What to run instead of a shell.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let sandbox = Sandbox::new().map_err(of_sandbox)?;
    let spec = arguments.spec()?;
    let limits = spec.limits;
    let mut rental = Rental::start(&sandbox, spec, terminal::size()).map_err(of_sandbox)?;
    let control = rental.control();
    let signal = listen(&control)?;
    let raw = Raw::enter(rustix::stdio::stdin())?;
    let keys = rental.input();
    let ending = control.clone();
    // It waits for a key that may never come, and ends with this process.
    let at_a_terminal = raw.is_some();
    std::thread::spawn(move || type_in(keys, &ending, at_a_terminal));
    if let Some(screen) = rental.output() {
        show(screen, &control);
    }
    let ended = rental.wait();
    drop(raw);
    let how = ended.map_err(of_sandbox)?.0.how;
    if at_a_terminal && !matches!(how, How::Exited(_)) {
        // Whoever was ended had no time to tidy up the screen.
        let _ = io::stdout().lock().write_all(TIDY);
    }
    match signal.load(Ordering::Relaxed) {
        0 => conclude(how, &limits),
        signal => Err(Passed::signal(signal).into()),
    }
}

impl Arguments {
    fn spec(&self) -> Result<Spec> {
        let root = self.image.as_deref().map_or(Ok(Root::System), open)?;
        let (command, rest) = match self.command.split_first() {
            Some((command, rest)) => (command.clone(), rest.to_vec()),
            None => (shell(&root).map_err(of_sandbox)?.to_owned(), Vec::new()),
        };
        let mut spec = Spec { root, arguments: rest, ..Spec::new(command, &[]) };
        if self.network {
            spec.network = Network::Granted;
        }
        if let Ok(kind) = std::env::var("TERM") {
            spec.environment.insert("TERM".to_owned(), kind);
        }
        let wall = Duration::from_millis(self.time.0);
        spec.limits = Limits {
            memory: self.memory.bytes(),
            processes: self.processes,
            wall,
            cpu: wall.saturating_mul(1024),
            disk: self.memory.bytes(),
            file: self.memory.bytes(),
            open_files: 1024,
            // What is shown is never collected, so it needs no end.
            streams: u64::MAX,
            ..Limits::default()
        };
        Ok(spec)
    }
}

/// The files of an image: a path if there is something, else a name.
fn open(image: &str) -> Result<Root> {
    let (path, cache, limits) = (Path::new(image), image::cache(), ImageLimits::default());
    let opened = if path.exists() {
        image::unpack(path, &cache, limits)
    } else {
        image::named(image, &cache, limits)
    };
    opened.map(|image| Root::Image(image.root)).map_err(|error| {
        let exit = match error {
            ImageError::System { .. } => Exit::Failed,
            _ => Exit::Usage,
        };
        Complaint::new(exit, error.to_string()).hint(error.fix()).into()
    })
}

/// The first screen, no mouse, no brackets around what is pasted, a cursor, plain letters.
const TIDY: &[u8] = b"\x1b[?1049l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?2004l\x1b[?25h\x1b[0m";
/// Bytes that are carried at once.
const PIECE: usize = 16 << 10;
/// What a terminal sends for the end of input.
const END_OF_INPUT: u8 = 4;

/// Changes the size with the window's, and ends the rental on a signal, which is kept.
fn listen(control: &Control) -> io::Result<Arc<AtomicI32>> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH])?;
    let (seen, control) = (Arc::new(AtomicI32::new(0)), control.clone());
    let noted = Arc::clone(&seen);
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGWINCH {
                // A guest that has ended has no size.
                let _ = control.resize(terminal::size());
            } else {
                noted.store(signal, Ordering::Relaxed);
                control.end();
            }
        }
    });
    Ok(seen)
}

/// Hands on keys until there are none; a terminal that is gone ends the rental.
fn type_in(mut keys: Keys, control: &Control, at_a_terminal: bool) {
    let mut piece = vec![0; PIECE];
    let mut last = b'\n';
    loop {
        let read = match io::stdin().lock().read(&mut piece) {
            Ok(count @ 1..) => piece.get(..count).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => break,
        };
        last = read.last().copied().unwrap_or(last);
        if keys.write_all(read).is_err() {
            return;
        }
    }
    if at_a_terminal {
        control.end();
        return;
    }
    // Within a line the first one only hands the line on.
    let ends: &[u8] = if last == b'\n' { &[END_OF_INPUT] } else { &[END_OF_INPUT; 2] };
    let _ = keys.write_all(ends);
}

/// Shows what comes until the last program on the terminal is gone.
fn show(mut screen: Stream, control: &Control) {
    let mut piece = vec![0; PIECE];
    let mut stdout = io::stdout().lock();
    while let Ok(count @ 1..) = screen.read(&mut piece) {
        let shown = stdout.write_all(piece.get(..count).unwrap_or_default());
        if shown.and_then(|()| stdout.flush()).is_err() {
            control.end();
        }
    }
}

/// The end of a rental as this program's own.
fn conclude(how: How, limits: &Limits) -> Result<()> {
    let (what, hint) = match how {
        How::Exited(0) => return Ok(()),
        How::Exited(code) => return Err(Passed::code(code).into()),
        How::Signalled(signal) => return Err(Passed::signal(signal).into()),
        How::Cancelled => return Err(Complaint::new(Exit::Failed, "the terminal is gone").into()),
        How::Deadline | How::Cpu => {
            (format!("its time of {} s is over", limits.wall.as_secs()), "more with --time 4h")
        }
        How::Memory => (
            format!("it wanted more than {} bytes of memory", limits.memory),
            "more with --memory '4 GiB'",
        ),
        How::Disk => ("its files are too many or too large".to_owned(), "more with --memory"),
        How::Flood => ("it printed without an end".to_owned(), "nothing of it was kept"),
    };
    Err(Complaint::new(Exit::Failed, format!("the shell was ended: {what}")).hint(hint).into())
}

fn of_sandbox(error: SandboxError) -> Complaint {
    match error {
        SandboxError::Refused(_) | SandboxError::Command { .. } => {
            Complaint::usage(error.to_string())
        }
        SandboxError::Unavailable { .. }
        | SandboxError::Setup { .. }
        | SandboxError::System { .. } => Complaint::new(Exit::Failed, error.to_string())
            .hint("`opengpu doctor` looks at this machine"),
    }
}
