//! A lease that ended because its time was over: what happened, and how the next one gets more.

use crate::output::span;
use opengpu_sdk::ran_out;
use opengpu_types::{Millis, Task};

/// What happened to the last lease of a task, if its time was over.
pub(crate) fn told(task: &Task) -> Option<String> {
    let (number, _) = ran_out(task)?;
    Some(format!("lease {number} took all of its time, {}", span(task.spec.requirements.longest)))
}

/// What helps: leases that may take longer.
pub(crate) fn fix(longest: Millis) -> String {
    let more = Millis(longest.0.saturating_mul(4));
    let more = match more.0.div_ceil(1_000) {
        seconds @ ..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds.div_ceil(60)),
        seconds => format!("{}h", seconds.div_ceil(3_600)),
    };
    format!("run it again with more time for a lease, such as --max-duration {more}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values;

    #[test]
    fn the_fix_names_a_longer_time_that_the_option_takes() {
        for longest in [1, 3_000, 29_999, 30_000, 1_800_000, 86_400_000] {
            let fix = fix(Millis(longest));
            let (_, time) = fix.rsplit_once(' ').unwrap();
            let time = values::span(time).unwrap();
            assert!(time.0 > longest, "{fix}");
        }
    }
}
