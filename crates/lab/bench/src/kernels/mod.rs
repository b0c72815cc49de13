//! Random integer kernels on the referee's interpreter and on a real device, bit for bit.
//!
//! The device works in a child process: a driver that crashes on a kernel ends the child, the kernel
//! is named, and the comparison goes on with the next one.
//!
//! What it is not: it measures no speed.

mod device;

pub use device::serve;

use crate::BenchError;
use opengpu_crypto::content;
use opengpu_referee::generate::{Sample, Trait, kernel};
use opengpu_referee::wgsl::{Kernel, Limits};
use std::collections::BTreeMap;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// Fuel of one kernel: far more than a generated one takes.
const FUEL: u64 = 200_000_000;

/// What was compared, and what came of it.
#[derive(Debug, Default)]
pub struct Report {
    /// Kernels that were compared.
    pub compared: u64,
    /// Kernels whose outcomes differ, and how.
    pub different: Vec<(u64, String)>,
    /// Kernels with each trait.
    pub traits: BTreeMap<Trait, u64>,
}

/// Compares the kernels of these seeds; `progress` is told how many are done.
pub fn compare(
    first: u64,
    count: u64,
    mut progress: impl FnMut(u64),
) -> Result<Report, BenchError> {
    let mut report = Report::default();
    let mut device = None;
    for seed in first..first.saturating_add(count) {
        let sample = kernel(seed);
        for used in &sample.traits {
            let counted = report.traits.entry(*used).or_default();
            *counted = counted.saturating_add(1);
        }
        let found = match device.take() {
            Some(device) => device,
            None => Device::start()?,
        };
        let (answer, alive) = found.ask(seed);
        device = alive;
        let expected = interpret(&sample);
        if expected != answer {
            report.different.push((seed, format!("the referee: {expected}; the device: {answer}")));
        }
        report.compared = report.compared.saturating_add(1);
        progress(report.compared);
    }
    Ok(report)
}

/// What the referee says of a kernel: the address of all buffers after it, or why there is none.
fn interpret(sample: &Sample) -> String {
    let kernel = match Kernel::check(&sample.source, "main", Limits::VERIFIER) {
        Ok(kernel) => kernel,
        Err(why) => return format!("refused: {why}"),
    };
    let mut buffers = sample.buffers.clone();
    match kernel.run(sample.grid, &mut buffers, FUEL) {
        Ok(_) => address(&buffers),
        Err(fault) => format!("fault: {fault}"),
    }
}

fn address(buffers: &[Vec<u8>]) -> String {
    content(&buffers.concat()).to_string()
}

/// A child process with an open device.
struct Device {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Device {
    fn start() -> Result<Self, BenchError> {
        Self::spawn().map_err(BenchError::system("starting the device's process"))
    }

    fn spawn() -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("device")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let missing = || io::Error::other("a stream of the child is missing");
        let questions = child.stdin.take().ok_or_else(missing)?;
        let answers = BufReader::new(child.stdout.take().ok_or_else(missing)?);
        Ok(Self { child, questions, answers })
    }

    /// What the device says of a kernel; gone if that killed it.
    fn ask(mut self, seed: u64) -> (String, Option<Self>) {
        let mut answer = String::new();
        let asked = writeln!(self.questions, "{seed}").and_then(|()| self.questions.flush());
        match asked.and_then(|()| self.answers.read_line(&mut answer)) {
            Ok(1..) => (answer.trim_end().to_owned(), Some(self)),
            Ok(0) | Err(_) => {
                drop(self.questions);
                let ended =
                    self.child.wait().map_or_else(|error| error.to_string(), |s| s.to_string());
                (format!("the driver died: {ended}"), None)
            }
        }
    }
}
