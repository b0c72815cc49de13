//! What a client's predicate judges: kept with its lease, judged here first, and shown to the chain.
//!
//! - A predicate is public in the end, so it travels as it is, under the address that the task names.
//! - Whatever would not fit into the transaction that shows it is refused before the work begins; an
//!   output that turns out too large, or that the predicate refuses, is not committed to.
//! - Nobody is paid for such an output, so nobody gets it.

use crate::delivery::Undelivered;
use crate::record::{Record, Records};
use opengpu_link::Store;
use opengpu_referee::predicate::Predicate;
use opengpu_types::{ArtifactId, Boxed, Class, Ending, List, MarketOperation, Task, Witness};
use std::io::{self, Read as _};

/// The most that a program may read if a predicate judges what it makes of it.
pub(crate) fn most_input(task: &Task, limit: u64) -> u64 {
    match task.spec.class {
        Class::Predicate(_) => limit.min(u64::try_from(Witness::MAX).unwrap_or(u64::MAX)),
        _ => limit,
    }
}

/// Keeps the predicate of a task that was sent for a lease, if its task has one.
pub(crate) fn take(store: &Store, task: &Task, record: &Record) -> Result<(), Undelivered> {
    let Class::Predicate(id) = task.spec.class else { return Ok(()) };
    let wrong = |what: &dyn std::fmt::Display| Undelivered::Wrong(what.to_string());
    let most = u64::try_from(Witness::MAX).unwrap_or(u64::MAX);
    let mut module = Vec::new();
    store.whole(&id)?.reader().take(most.saturating_add(1)).read_to_end(&mut module)?;
    if module.len() > Witness::MAX {
        return Err(wrong(&format_args!("the predicate has more than {most} bytes")));
    }
    Predicate::check(&module).map_err(|error| wrong(&error))?;
    // What is on disk must be the one that the task names, or nothing will be paid.
    if ArtifactId::of(&module) != id {
        return Err(wrong(&"another predicate"));
    }
    Ok(record.keep_predicate(&module)?)
}

/// Whether the output of a run will be paid, as far as a predicate decides it.
pub(crate) fn accepts(record: &Record) -> io::Result<bool> {
    let Some(module) = record.predicate()? else { return Ok(true) };
    let Some(witness) = witness(record, module)? else { return Ok(false) };
    let predicate = Predicate::check(&witness.predicate).map_err(io::Error::other)?;
    Ok(predicate.accepts(&witness.input, &witness.output))
}

/// Adds to a commitment what the chain must see of it.
pub(crate) fn attach(records: &Records, operation: MarketOperation) -> io::Result<MarketOperation> {
    let MarketOperation::CommitTrace { lease, commitment, witness: None } = operation else {
        return Ok(operation);
    };
    let record = records.lease(lease);
    let shown = match (commitment.ending, record.predicate()?) {
        (Ending::Completed, Some(module)) => witness(&record, module)?.map(Boxed::new),
        _ => None,
    };
    Ok(MarketOperation::CommitTrace { lease, commitment, witness: shown })
}

/// What the chain is shown; none if it does not fit.
fn witness(record: &Record, module: Vec<u8>) -> io::Result<Option<Witness>> {
    let [input, output] = [record.input(), record.output()].map(|path| {
        let mut bytes = Vec::new();
        let most = u64::try_from(Witness::MAX).unwrap_or(u64::MAX).saturating_add(1);
        std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
        Ok::<_, io::Error>(bytes)
    });
    let parts = (List::new(module), List::new(input?), List::new(output?));
    Ok(match parts {
        (Ok(predicate), Ok(input), Ok(output)) => Some(Witness { predicate, input, output }),
        _ => None,
    })
}
