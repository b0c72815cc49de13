//! Trials of devices: each one computes what the chain asks of it, in a process of its own.
//!
//! ```text
//!   compute ──Role::Trial──► executor: batches of lanes ──► leaves of all blocks ──► compute
//! ```
//!
//! The work and its check are those of `opengpu_verify::trial`. No program of anybody runs here, so there
//! are no walls; a driver that crashes takes nothing down but its own process.

mod on_cpu;
#[cfg(feature = "gpu")]
mod on_gpu;

use crate::protocol::{self, Role};
use crate::supervisor::Launch;
use opengpu_crypto::Digest;
use opengpu_verify::trial::{self, Device, Work};
use serde::{Deserialize, Serialize};
use std::io::{self, BufWriter, Write as _};
use std::process::{Child, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// What the processor is called.
pub(crate) const PROCESSOR: &str = "cpu";
/// How often it looks whether it shall stop.
const LOOK: Duration = Duration::from_millis(50);

/// What one device is to compute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Wanted {
    /// Its id; the processor if none.
    device: Option<String>,
    threads: Option<u32>,
    words: [u32; 2],
    lanes: u32,
    rounds: u32,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The process could not be started or asked.
    #[error("the process of a trial failed: {0}")]
    Process(#[from] io::Error),
    /// The device.
    #[error("the device of a trial failed: {0}")]
    Device(String),
    /// Nobody waits for it any more.
    #[error("a trial was not done in time")]
    Late,
}

/// A process that is killed and waited for when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has a device compute, in a process of its own; gives the leaves of its blocks. Ends early when it is
/// told to stop, or when the time is over.
pub fn compute(
    launch: &Launch,
    device: &Device,
    patience: Duration,
    stop: impl Fn() -> bool,
) -> Result<Vec<Digest>, TrialError> {
    let Work { lanes, rounds } = device.work;
    let (id, threads) = (launch.device.clone(), launch.threads);
    let wanted = Wanted { device: id, threads, words: device.words, lanes, rounds };
    let mut command = launch.command();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut running = Running(command.spawn()?);
    let (stdin, stdout) = (running.0.stdin.take(), running.0.stdout.take());
    let (Some(mut stdin), Some(mut stdout)) = (stdin, stdout) else {
        return Err(io::Error::other("it has no streams").into());
    };
    protocol::write(&mut stdin, &Role::Trial(wanted), &mut Vec::new())?;
    stdin.flush()?;
    let (sender, answer) = channel();
    let reader = std::thread::Builder::new().name("trial".to_owned()).spawn(move || {
        let _ = sender.send(protocol::read::<Answer>(&mut stdout, &mut Vec::new()));
    })?;
    let until = Instant::now().checked_add(patience);
    let told = loop {
        match answer.recv_timeout(LOOK) {
            Ok(told) => break told,
            Err(RecvTimeoutError::Timeout) => {
                if stop() || until.is_none_or(|until| Instant::now() >= until) {
                    return Err(TrialError::Late);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("nobody reads what it says").into());
            }
        }
    };
    drop(running);
    let _ = reader.join();
    let leaves = match told? {
        Some(Answer::Leaves(bytes)) => bytes,
        Some(Answer::Failed(why)) => return Err(TrialError::Device(why)),
        None => return Err(TrialError::Device("its process ended".to_owned())),
    };
    let (leaves, _) = leaves.as_chunks::<32>();
    let leaves: Vec<_> = leaves.iter().copied().map(Digest).collect();
    match u32::try_from(leaves.len()) == Ok(device.work.blocks()) {
        true => Ok(leaves),
        false => Err(TrialError::Device("it told something else than was asked".to_owned())),
    }
}

/// What the process answers.
#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    /// 32 bytes for each block.
    Leaves(Vec<u8>),
    Failed(String),
}

/// Computes what is wanted, and answers on this stream.
pub(crate) fn serve(wanted: &Wanted, output: impl io::Write) -> io::Result<()> {
    let answer = match leaves(wanted) {
        Ok(leaves) => Answer::Leaves(leaves.into_iter().flat_map(|leaf| leaf.0).collect()),
        Err(why) => Answer::Failed(why),
    };
    let mut output = BufWriter::new(output);
    protocol::write(&mut output, &answer, &mut Vec::new())?;
    output.flush()
}

fn leaves(wanted: &Wanted) -> Result<Vec<Digest>, String> {
    let work = Work { lanes: wanted.lanes, rounds: wanted.rounds };
    if work.lanes > trial::LANES_MAX || work.rounds > trial::ROUNDS_MAX {
        return Err("more than any trial asks".to_owned());
    }
    match wanted.device.as_deref() {
        None | Some(PROCESSOR) => Ok(on_cpu::leaves(wanted.words, work, wanted.threads)),
        #[cfg(feature = "gpu")]
        Some(id) => on_gpu::leaves(id, wanted.words, work).map_err(|error| error.to_string()),
        #[cfg(not(feature = "gpu"))]
        Some(id) => Err(format!("this build reaches no GPU, and {id} is one")),
    }
}

/// The leaves of blocks whose values are given as bytes.
#[cfg(feature = "gpu")]
fn leaves_of(values: &[u8]) -> impl Iterator<Item = Digest> {
    let (blocks, _) = values.as_chunks::<{ opengpu_types::Trial::BLOCK_BYTES }>();
    blocks.iter().map(trial::leaf)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(device: Option<&str>, lanes: u32, rounds: u32) -> Wanted {
        let device = device.map(str::to_owned);
        Wanted { device, threads: Some(2), words: [1, 2], lanes, rounds }
    }

    fn expected(lanes: u32, rounds: u32) -> Vec<Digest> {
        let device = Device { offer: 0, number: 0, words: [1, 2], work: Work { lanes, rounds } };
        (0..device.work.blocks()).map(|at| trial::leaf(&trial::block(&device, at))).collect()
    }

    #[test]
    fn the_processor_computes_what_is_checked() {
        for lanes in [64, 128, 640, 64_000] {
            assert_eq!(leaves(&wanted(Some("cpu"), lanes, 3)).unwrap(), expected(lanes, 3));
        }
        assert_eq!(leaves(&wanted(None, 64, 3)).unwrap(), expected(64, 3));
    }

    #[test]
    fn what_no_trial_asks_is_not_computed() {
        assert!(leaves(&wanted(None, u32::MAX, 1)).is_err());
        assert!(leaves(&wanted(None, 64, u32::MAX)).is_err());
        assert!(leaves(&wanted(Some("no such device"), 64, 1)).is_err());
    }

    #[cfg(feature = "gpu")]
    #[test]
    fn a_gpu_computes_what_is_checked() {
        let gpu = crate::gpu::adapters().into_iter().next();
        let gpu = gpu.expect("a GPU, or Mesa's software driver (package mesa-vulkan-drivers)");
        let id = gpu.info().id.to_string();
        for (lanes, rounds) in [(64, 3), (640, 70), (64_000, 2)] {
            let found = leaves(&wanted(Some(&id), lanes, rounds)).unwrap();
            assert_eq!(found, expected(lanes, rounds), "{lanes} {rounds}");
        }
    }
}
