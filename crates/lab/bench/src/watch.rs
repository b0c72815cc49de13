//! Reads the streams of all nodes and notes when each block arrives.

use crate::{figures::Seen, machine};
use opengpu_client::{Rpc, follow::Blocks};
use opengpu_types::Height;
use std::{
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

/// Pause before a stream that broke is opened again.
const PAUSE: Duration = Duration::from_millis(200);

/// Blocks as they arrived; its readers end with the process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watcher(Arc<Mutex<Vec<Seen>>>);

impl Watcher {
    /// Reads from now on.
    pub(crate) fn start(urls: &[String]) -> Self {
        let watcher = Self::default();
        for (node, url) in urls.iter().enumerate() {
            let (watcher, rpc) = (watcher.clone(), Rpc::new(url));
            thread::spawn(move || watcher.read(node, &rpc));
        }
        watcher
    }

    fn read(&self, node: usize, rpc: &Rpc) {
        let mut last = None;
        loop {
            let Ok(blocks) = Blocks::follow(rpc, last) else {
                thread::sleep(PAUSE);
                continue;
            };
            for block in blocks.map_while(Result::ok) {
                let arrival = machine::now();
                let Height(height) = block.height;
                last = Some(block.height);
                let proposed = block.time.0.saturating_mul(1_000);
                let transactions = block.transactions;
                let seen = Seen { arrival, proposed, node, height, transactions };
                self.0.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
            }
        }
    }

    /// Blocks that arrived between two moments, in the sequence of their arrival.
    pub(crate) fn between(&self, from: u64, to: u64) -> Vec<Seen> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let inside = all.iter().filter(|seen| (from..to).contains(&seen.arrival));
        let mut inside: Vec<_> = inside.copied().collect();
        inside.sort_unstable();
        inside
    }
}
