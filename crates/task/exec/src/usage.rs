//! What a run used, as measured by the machine that ran it.
//!
//! [`Metered`] is the part that whoever repeats the run finds again, and stands in the trace. The
//! rest differs every time: it is paid for by rate, and bounded by what others measured.

use crate::backend::Elsewhere;
use opengpu_types::{Metered, Segment};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What a run used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Wall time.
    pub microseconds: u64,
    /// Time on processors, of all threads.
    pub cpu_microseconds: u64,
    /// Fuel of the executing engine.
    pub fuel: u64,
    /// Tokens that a model read.
    pub tokens_in: u64,
    /// Tokens that a model wrote.
    pub tokens_out: u64,
    /// Bytes of the input.
    pub bytes_in: u64,
    /// Bytes of the output.
    pub bytes_out: u64,
    /// Most memory that the executor had at once since it was started, or a guest of its sandbox had.
    pub peak_memory: u64,
    /// Energy of the package, where the machine tells it.
    pub millijoules: Option<u64>,
}

impl Usage {
    /// Adds what a segment metered.
    pub const fn add(&mut self, metered: &Metered) {
        self.fuel = self.fuel.saturating_add(metered.fuel);
        self.tokens_in = self.tokens_in.saturating_add(metered.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(metered.tokens_out);
        self.bytes_out = self.bytes_out.saturating_add(metered.bytes_out);
    }

    /// Adds what other processes used.
    pub(crate) fn add_elsewhere(&mut self, elsewhere: Elsewhere) {
        let cpu = u64::try_from(elsewhere.cpu.as_micros()).unwrap_or(u64::MAX);
        self.cpu_microseconds = self.cpu_microseconds.saturating_add(cpu);
        self.peak_memory = self.peak_memory.max(elsewhere.memory);
    }

    /// The part that whoever repeats the run finds again.
    pub const fn metered(&self) -> Metered {
        let Self { fuel, tokens_in, tokens_out, bytes_out, .. } = *self;
        Metered { fuel, tokens_in, tokens_out, bytes_out }
    }

    /// Whether it says of the metered part what all segments together say.
    pub fn fits(&self, segments: &[Segment]) -> bool {
        let mut sum = Self::default();
        segments.iter().for_each(|segment| sum.add(&segment.metered));
        sum.metered() == self.metered()
    }
}

/// Measures one run from its beginning to its end.
#[derive(Debug)]
pub(crate) struct Watch {
    started: Instant,
    cpu: Duration,
    energy: Option<u64>,
}

impl Watch {
    /// Begins to measure.
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), cpu: machine::resources().0, energy: machine::energy() }
    }

    /// Writes what was measured since.
    pub(crate) fn read(&self, usage: &mut Usage) {
        let whole = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        usage.microseconds = whole(self.started.elapsed());
        let (cpu, memory) = machine::resources();
        usage.cpu_microseconds = whole(cpu.saturating_sub(self.cpu));
        usage.peak_memory = memory;
        // The counter wraps now and then; a run that saw it wrap reports nothing.
        usage.millijoules = machine::energy()
            .zip(self.energy)
            .and_then(|(now, then)| now.checked_sub(then))
            .map(|microjoules| microjoules / 1_000);
    }
}

/// What Linux tells about this process and this machine. Read for every small request, so it costs
/// one system call, and a file only where the machine has that file.
#[cfg(target_os = "linux")]
mod machine {
    use std::sync::OnceLock;
    use std::time::Duration;

    /// Microjoules that the first processor package took since some time.
    const ENERGY: &str = "/sys/class/powercap/intel-rapl:0/energy_uj";

    /// Time of all threads on processors, and the most resident memory so far in bytes.
    pub(super) fn resources() -> (Duration, u64) {
        // SAFETY: the structure is plain numbers, for which zeros are valid.
        #[expect(unsafe_code, reason = "no safe crate offers getrusage")]
        let mut found: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a structure of that type which outlives the call.
        #[expect(unsafe_code, reason = "no safe crate offers getrusage")]
        unsafe {
            libc::getrusage(libc::RUSAGE_SELF, &raw mut found);
        }
        let memory = u64::try_from(found.ru_maxrss).unwrap_or(0).saturating_mul(1024);
        (span(found.ru_utime).saturating_add(span(found.ru_stime)), memory)
    }

    fn span(time: libc::timeval) -> Duration {
        let micros = u64::try_from(time.tv_usec).unwrap_or(0);
        Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or(0))
            .saturating_add(Duration::from_micros(micros))
    }

    /// Energy of the first processor package since some time, in microjoules.
    pub(super) fn energy() -> Option<u64> {
        static TOLD: OnceLock<bool> = OnceLock::new();
        let read = || std::fs::read_to_string(ENERGY).ok()?.trim().parse().ok();
        TOLD.get_or_init(|| read().is_some()).then(read).flatten()
    }
}

/// Elsewhere nothing is told yet.
#[cfg(not(target_os = "linux"))]
mod machine {
    use std::time::Duration;

    pub(super) const fn resources() -> (Duration, u64) {
        (Duration::ZERO, 0)
    }

    pub(super) const fn energy() -> Option<u64> {
        None
    }
}
