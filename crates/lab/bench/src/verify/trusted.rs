//! A provider that earns a record, and how much of its work is audited then.
//!
//! The record is earned with tasks of class `Predicate`: what the chain's referee accepts is upheld in the
//! block of the commitment. What is counted then are checked tasks with short segments: whether a
//! commitment is audited does not depend on how long its segments are.

use super::{
    bed::{Bed, Way},
    shares::{count, percent},
    work::Work,
};
use crate::{error::BenchError, tell};
use opengpu_types::{AuditPhase, Finding};

/// Commitments after which the ladder audits one in ten.
pub(super) const RECORD: u32 = 200;
/// Something is said after so many tasks.
const SAY_EVERY: u32 = 50;

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Trusted {
    /// Commitments that were upheld before.
    pub(super) record: u32,
    /// Rates at which the chain drew lots, in thousandths, one for each task.
    pub(super) rates: Vec<f64>,
    /// How many of them were audited.
    pub(super) audited: usize,
    /// Seconds of executors of the provider, and of all others.
    pub(super) own: f64,
    pub(super) checking: f64,
}

impl Trusted {
    /// The mean rate of the chain, in thousandths; none without a task.
    pub(super) fn rate(&self) -> Option<f64> {
        let sum: f64 = self.rates.iter().sum();
        (!self.rates.is_empty()).then(|| sum / count(self.rates.len()))
    }

    /// How many were audited, in percent.
    pub(super) fn share(&self) -> Option<f64> {
        percent(count(self.audited), count(self.rates.len()))
    }

    /// What all executors spent beside the runs, in percent.
    pub(super) fn extra(&self) -> Option<f64> {
        percent(self.checking, self.own)
    }
}

/// Earns a record of so many by one kind of work and counts so many tasks of another, as far as there is
/// time.
pub(super) fn measure(
    bed: &mut Bed,
    (tiny, work): (&Work, &Work),
    provider: usize,
    (record, tasks): (u32, u32),
    is_over: &dyn Fn() -> bool,
) -> Result<Trusted, BenchError> {
    let mut trusted = Trusted::default();
    let mut earned = bed.record(provider)?;
    while earned < record && !is_over() {
        bed.run(tiny, Way::Judged(provider))?;
        let now = bed.record(provider)?;
        if now <= earned {
            let why = "a predicate accepted an output, and the record did not grow";
            return Err(BenchError::Audit(why.to_owned()));
        }
        earned = now;
        if earned.is_multiple_of(SAY_EVERY) {
            tell(format!("{earned} commitments of the provider were upheld"));
        }
    }
    trusted.record = earned;
    if earned < record {
        tell(format!("no time is left for a record of {record}; it is {earned}"));
        return Ok(trusted);
    }
    for _ in 0..tasks {
        if is_over() {
            break;
        }
        let ran = bed.run(work, Way::Checked(provider))?;
        let Some(audit) = &ran.story.audit else {
            return Err(BenchError::Audit("no lot was drawn".to_owned()));
        };
        if audit.phase != AuditPhase::Decided(Finding::Upheld) {
            return Err(BenchError::Audit(format!("it ended as {:?}", audit.phase)));
        }
        trusted.rates.push(f64::from(audit.rate.get()));
        let audited = usize::from(audit.draws > 0);
        trusted.audited = trusted.audited.saturating_add(audited);
        trusted.own += ran.spent.executor(provider);
        trusted.checking += ran.spent.executors_beside(provider);
    }
    tell(format!("{} of {} lots were drawn", trusted.audited, trusted.rates.len()));
    Ok(trusted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_was_counted_and_of_nothing_there_are_none() {
        let counted = Trusted {
            record: 200,
            rates: vec![100.0, 100.0, 100.0, 140.0],
            audited: 1,
            own: 4.0,
            checking: 0.5,
        };
        assert_eq!((counted.rate(), counted.share()), (Some(110.0), Some(25.0)));
        assert_eq!(counted.extra(), Some(12.5));
        let nothing = Trusted::default();
        assert_eq!((nothing.rate(), nothing.share(), nothing.extra()), (None, None, None));
    }
}
