//! The processor in a trial, all of its threads at once.

use opengpu_crypto::Digest;
use opengpu_verify::trial::{self, Device, Work};
use std::thread;

/// The leaves of all blocks.
pub(super) fn leaves(words: [u32; 2], work: Work, threads: Option<u32>) -> Vec<Digest> {
    let threads = threads.and_then(|threads| usize::try_from(threads).ok());
    let threads = threads.or_else(|| Some(thread::available_parallelism().ok()?.get()));
    let device = Device { offer: 0, number: 0, words, work };
    let blocks: Vec<u32> = (0..work.blocks()).collect();
    let share = blocks.len().div_ceil(threads.unwrap_or(1).max(1)).max(1);
    thread::scope(|scope| {
        let parts: Vec<_> = blocks
            .chunks(share)
            .map(|part| {
                let leaf = move |at: &u32| trial::leaf(&trial::block(&device, *at));
                scope.spawn(move || part.iter().map(leaf).collect::<Vec<_>>())
            })
            .collect();
        let parts = parts.into_iter().map(|part| part.join().unwrap_or_default());
        parts.flatten().collect()
    })
}
