//! What an executor says: frames that are gathered, and sent at the latest when the clock looks.
//!
//! Small requests share a write. A run that computes for long after it said something has been heard
//! all the same: the ticker sends what waits.

use crate::protocol;
use serde::Serialize;
use std::io::{self, BufWriter, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes that are gathered at most.
const BUFFER: usize = 64 << 10;

pub(super) struct Voice<W: Write>(Mutex<Gathered<W>>);

struct Gathered<W: Write> {
    output: BufWriter<W>,
    scratch: Vec<u8>,
}

impl<W: Write> Voice<W> {
    pub(super) fn new(output: W) -> Self {
        let output = BufWriter::with_capacity(BUFFER, output);
        Self(Mutex::new(Gathered { output, scratch: Vec::new() }))
    }

    /// Says something, now or soon.
    pub(super) fn say(&self, message: &impl Serialize) -> io::Result<()> {
        let Gathered { output, scratch } = &mut *self.lock();
        protocol::write(output, message, scratch)
    }

    /// Sends what waits.
    pub(super) fn send(&self) -> io::Result<()> {
        self.lock().output.flush()
    }

    fn lock(&self) -> MutexGuard<'_, Gathered<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
