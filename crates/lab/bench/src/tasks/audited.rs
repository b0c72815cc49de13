//! The same task, audited: on a network of its own, on which two providers repeat what the third has run.
//!
//! Beside the others no provider could repeat anything, so that what is not audited is measured alone.

use super::{client::Submitter, items};
use crate::{
    error::BenchError,
    figures::percentile,
    network::{Cast, Scene},
    tell,
};
use opengpu_client::Rpc;
use opengpu_crypto::Keypair;
use opengpu_types::{Amount, Event, Height, Outcome, TaskId, Trust};
use rand::rngs::StdRng;
use std::{path::Path, time::Instant};

/// One that runs a task, and those who repeat it.
const PROVIDERS: usize = 3;

/// Milliseconds from submission to settlement of so many tasks, the middle one. A task that nobody has
/// repeated is no measurement.
pub(super) fn measure(
    opengpu: &Path,
    folder: &Path,
    tasks: u32,
    rng: &mut StdRng,
) -> Result<f64, BenchError> {
    let keypair = Keypair::generate_ed25519(rng);
    let clients = [keypair.clone()];
    let cast = Cast { providers: PROVIDERS, stake: Amount::whole(500), clients: &clients };
    let mut scene = Scene::make(opengpu, folder, &cast, rng)?;
    scene.start()?;
    let submitter = Submitter::open(&scene, &folder.join("client"), keypair)?;
    let nothing = items::program(&scene.folder.join("nothing"), 1)?;
    let rpc = scene.rpcs.first().ok_or(BenchError::Nothing("no node"))?;
    let mut times = Vec::new();
    // The first one finds nothing warm.
    for number in 0..=tasks {
        let (before, begin) = (rpc.status()?.height, Instant::now());
        let settled = submitter.run(&nothing, &items::input(1), Trust::Checked)?;
        let time = begin.elapsed().as_secs_f64() * 1e3;
        if !is_repeated(rpc, before, settled.id)? {
            return Err(BenchError::Task(format!("nobody has repeated task {}", settled.id)));
        }
        if number > 0 {
            times.push(time);
        }
    }
    tell(format!("audited: {times:.0?} ms"));
    percentile(&times, 0.5).ok_or(BenchError::Nothing("no tasks"))
}

/// Whether the audit of a task is over, and somebody was drawn for it.
fn is_repeated(rpc: &Rpc, after: Height, wanted: TaskId) -> Result<bool, BenchError> {
    for height in after.0..=rpc.status()?.height.0 {
        let receipts = rpc.receipts(Height(height))?;
        let applied = receipts.iter().filter(|receipt| receipt.outcome == Outcome::Applied);
        let repeated = |event: &Event| match event {
            Event::AuditClosed { lease, audit, .. } => {
                lease.task == wanted && !audit.seats.is_empty()
            }
            _ => false,
        };
        if applied.flat_map(|receipt| receipt.events.iter()).any(repeated) {
            return Ok(true);
        }
    }
    Ok(false)
}
