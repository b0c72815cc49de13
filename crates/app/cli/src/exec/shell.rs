//! `opengpu exec shell`: a rental on this machine, at this terminal.
//!
//! Three threads carry bytes: keys in, screen out, signals. The rental itself is
//! [`opengpu_exec::native::Rental`]; here is only what a terminal needs. Where there is none, and
//! input is piped, it is [`piped`]'s.

use super::{
    least, piped,
    terminal::{self, Raw},
};
use crate::exit::{Complaint, Exit, Passed};
use anyhow::Result;
use clap::Args;
use opengpu_exec::native::image::{self, ImageError, ImageLimits};
use opengpu_exec::native::{
    How, Keys, Limits, Network, Rental, Root, Sandbox, SandboxError, Spec, Stopper, shell,
};
use opengpu_exec::program::ByteSize;
use opengpu_types::Millis;
use signal_hook::{
    consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH},
    iterator::Signals,
};
use std::io::{self, IsTerminal as _, Read as _, Write as _};
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
    #[arg(long, value_name = "SIZE", default_value = "1 GiB", value_parser = least::memory)]
    memory: ByteSize,
    /// When it ends by itself.
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = least::time)]
    time: Millis,
    /// Processes and threads at one time.
    #[arg(long, value_name = "COUNT", default_value = "256",
          value_parser = least::processes)]
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
    let (how, signal) = if io::stdin().is_terminal() {
        at_a_terminal(&sandbox, spec)?
    } else {
        piped::run(&sandbox, spec)?
    };
    match signal {
        0 => conclude(how, &limits),
        signal => Err(Passed::signal(signal).into()),
    }
}

/// Runs a guest on a terminal of its own, and tells how it ended and the signal that ended it.
fn at_a_terminal(sandbox: &Sandbox, spec: Spec) -> Result<(How, i32)> {
    let mut rental = Rental::start(sandbox, spec, terminal::size()).map_err(of_sandbox)?;
    let control = rental.control();
    let stopper = control.stopper();
    // A guest that has ended has no size.
    let signal = listen(stopper.clone(), move || drop(control.resize(terminal::size())))?;
    let raw = Raw::enter(rustix::stdio::stdin())?;
    let (keys, ending) = (rental.input(), stopper.clone());
    // It waits for a key that may never come, and ends with this process.
    std::thread::spawn(move || type_in(keys, &ending));
    piped::pass_on(rental.output(), io::stdout(), &stopper);
    let ended = rental.wait();
    drop(raw);
    let how = ended.map_err(of_sandbox)?.0.how;
    if !matches!(how, How::Exited(_)) {
        // Whoever was ended had no time to tidy up the screen.
        let _ = io::stdout().lock().write_all(TIDY);
    }
    Ok((how, seen(&signal)))
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
    opened.map(|image| Root::Image(image.root)).map_err(|error| of_image(error).into())
}

/// Why there is no image, with what helps.
pub(crate) fn of_image(error: ImageError) -> Complaint {
    let exit = match error {
        ImageError::System { .. } => Exit::Failed,
        _ => Exit::Usage,
    };
    Complaint::new(exit, error.to_string()).hint(error.fix())
}

/// The first screen, no mouse, no brackets around what is pasted, a cursor, plain letters.
const TIDY: &[u8] = b"\x1b[?1049l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?2004l\x1b[?25h\x1b[0m";
/// Bytes that are carried at once.
pub(super) const PIECE: usize = 16 << 10;

/// Tells when the window changes, and ends the rental on a signal, which is kept.
pub(super) fn listen(
    stopper: Stopper,
    changed: impl Fn() + Send + 'static,
) -> io::Result<Arc<AtomicI32>> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGWINCH])?;
    let seen = Arc::new(AtomicI32::new(0));
    let noted = Arc::clone(&seen);
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGWINCH {
                changed();
            } else {
                noted.store(signal, Ordering::Relaxed);
                stopper.stop();
            }
        }
    });
    Ok(seen)
}

/// The signal that was kept; zero if there was none.
pub(super) fn seen(signal: &AtomicI32) -> i32 {
    signal.load(Ordering::Relaxed)
}

/// Hands on keys until the terminal is gone, which ends the rental.
fn type_in(mut keys: Keys, stopper: &Stopper) {
    let mut piece = vec![0; PIECE];
    loop {
        let read = match io::stdin().lock().read(&mut piece) {
            Ok(count @ 1..) => piece.get(..count).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Ok(_) | Err(_) => break,
        };
        if keys.write_all(read).is_err() {
            return;
        }
    }
    stopper.stop();
}

/// The end of a rental as this program's own.
fn conclude(how: How, limits: &Limits) -> Result<()> {
    let (what, hint) = match how {
        How::Exited(0) => return Ok(()),
        How::Exited(code) => return Err(Passed::code(code).into()),
        How::Signalled(signal) => return Err(Passed::signal(signal).into()),
        How::Cancelled => {
            let gone = "the terminal, or whoever reads the output, is gone";
            return Err(Complaint::new(Exit::Failed, gone).into());
        }
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

pub(super) fn of_sandbox(error: SandboxError) -> Complaint {
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
