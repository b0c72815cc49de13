//! A provider process that lies, on a network of its own: from its commitment to the verdict.
//!
//! It has a network of its own because it would lie as a verifier as well.

use super::{
    bed::{Bed, Way},
    story::Story,
    work::Work,
};
use crate::{error::BenchError, figures::float};
use opengpu_sdk::Wishes;
use opengpu_types::{Height, Millis, Verdict};
use std::path::Path;

/// How long somebody else is looked for when the liar is refuted: nobody else may have the task.
const PATIENCE: Millis = Millis(2_000);

/// How long a lie lived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lie {
    /// Blocks and seconds from the commitment to the verdict.
    pub(super) committed: (f64, f64),
    /// From the objection to the verdict.
    pub(super) objected: (f64, f64),
}

/// Has the liar run one task and follows it to its verdict.
pub(super) fn measure(
    opengpu: &Path,
    folder: &Path,
    (liar, providers): (&Path, usize),
    work: &Work,
) -> Result<Lie, BenchError> {
    let mut bed = Bed::start(opengpu, folder, providers, Some(liar))?;
    let way = Way::Checked(providers.saturating_sub(1));
    let rpc = bed.scene.rpcs.first().ok_or(BenchError::Nothing("no node"))?.clone();
    let from = rpc.status()?.height;
    let (input, _) = bed.next_input(work, way)?;
    let wishes = Wishes { patience: PATIENCE, ..bed.wishes(way)? };
    let id = bed.submitter.submit(&work.program, &input, None, &wishes)?;
    // A task that only a liar may have ends without an output; how it ended the chain says.
    let _ = bed.submitter.attend(id);
    let story = bed.story(id, from)?;
    let (committed, objected, ended) = refuted(&story)?;
    let since = |from: Height| {
        let blocks = float(ended.0.saturating_sub(from.0));
        Ok::<_, BenchError>((blocks, bed.between(from, ended)?))
    };
    Ok(Lie { committed: since(committed)?, objected: since(objected)? })
}

/// When it was committed to, objected to and refuted; an error if it was not.
fn refuted(story: &Story) -> Result<(Height, Height, Height), BenchError> {
    let wrong = |why: String| Err(BenchError::Audit(why));
    let Some(closed) = story.closed.first() else {
        return wrong("the liar's lease has no end".to_owned());
    };
    if closed.verdict != Some(Verdict::Refuted) {
        return wrong(format!("the liar was not refuted, its lease ended as {:?}", closed.verdict));
    }
    match (story.committed, story.objected) {
        (Some(committed), Some(objected)) => Ok((committed, objected, closed.at)),
        (_, None) => wrong("the liar was refuted by silence and not by a dispute".to_owned()),
        (None, _) => wrong("the liar never committed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::story::Closed;
    use super::*;
    use opengpu_types::{Address, ChainId, Digest, LeaseId, TaskId};

    #[test]
    fn a_liar_that_is_upheld_or_silent_gives_no_figure() {
        let task = TaskId(Digest([1; 32]));
        let mut story = Story::new(ChainId(7), task);
        assert!(refuted(&story).unwrap_err().to_string().contains("has no end"));
        let closed = |verdict| Closed {
            lease: LeaseId { task, number: 0 },
            provider: Address::new([1; 20]),
            verdict: Some(verdict),
            at: Height(9),
        };
        story.committed = Some(Height(3));
        story.closed = vec![closed(Verdict::Upheld)];
        assert!(refuted(&story).unwrap_err().to_string().contains("not refuted"));
        story.closed = vec![closed(Verdict::Refuted)];
        assert!(refuted(&story).unwrap_err().to_string().contains("by silence"));
        story.objected = Some(Height(6));
        assert_eq!(refuted(&story).unwrap(), (Height(3), Height(6), Height(9)));
    }
}
