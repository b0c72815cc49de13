//! What was said in audits, on disk: it is there before it is sent, and is never replaced.
//!
//! ```text
//!   folder/audits/TASK-NUMBER    what this provider said about a lease of somebody else
//! ```

use crate::audit::{Kept, Said};
use crate::record::{self, lease_of, spoiled};
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_types::{Digest, LeaseId, List, Segment, SegmentIndex, codec_struct};
use opengpu_verify::answer::Answer;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tracing::warn;

/// Most that is kept of one audit.
const MOST: usize = 256;

/// What was said in all audits.
#[derive(Clone, Debug)]
pub struct Docket {
    folder: PathBuf,
}

/// What was said about a segment in one draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    seed: [u8; 32],
    index: SegmentIndex,
    /// None if it was not served.
    sealed: Option<Sealed>,
}

codec_struct!(Line { seed, index, sealed });

/// An answer with its salt and the leaf before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sealed {
    answer: Digest,
    salt: [u8; 32],
    before: Option<Segment>,
}

codec_struct!(Sealed { answer, salt, before });

impl Docket {
    /// The docket in a folder, which is made if it is not there.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let folder = folder.join("audits");
        fs::create_dir_all(&folder)?;
        Ok(Self { folder })
    }

    /// Keeps all that was said in an audit.
    pub fn keep(&self, lease: LeaseId, kept: &Kept) -> io::Result<()> {
        let lines = kept.iter().flat_map(|(seed, said)| {
            said.iter().map(|(index, said)| {
                let sealed = match *said {
                    Said::Unserved => None,
                    Said::Sealed { answer: Answer(answer), salt, before } => {
                        Some(Sealed { answer, salt, before })
                    }
                };
                Line { seed: *seed, index: *index, sealed }
            })
        });
        let lines = List::<_, MOST>::new(lines.collect()).map_err(io::Error::other)?;
        record::write(&self.path(lease), &lines.encode())
    }

    /// What was said in an audit that is over is needed no more.
    pub fn forget(&self, lease: LeaseId) -> io::Result<()> {
        record::remove(&self.path(lease))
    }

    /// All that is there. What cannot be read of one audit is that one's loss alone: its seals stay shut.
    pub fn restore(&self) -> io::Result<BTreeMap<LeaseId, Kept>> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Some(lease) = entry.file_name().to_str().and_then(lease_of) else { continue };
            match read(&entry.path()) {
                Ok(kept) => all.extend(kept.map(|kept| (lease, kept))),
                Err(error) => warn!(%lease, %error, "what was said in an audit cannot be read"),
            }
        }
        Ok(all)
    }

    fn path(&self, lease: LeaseId) -> PathBuf {
        self.folder.join(format!("{}-{}", lease.task, lease.number))
    }
}

fn read(path: &Path) -> io::Result<Option<Kept>> {
    let Some(bytes) = record::read(path)? else { return Ok(None) };
    let lines = List::<Line, MOST>::decode(bytes).map_err(spoiled)?;
    let mut kept = Kept::new();
    for Line { seed, index, sealed } in lines.iter().copied() {
        let said = match sealed {
            None => Said::Unserved,
            Some(Sealed { answer, salt, before }) => {
                Said::Sealed { answer: Answer(answer), salt, before }
            }
        };
        kept.entry(seed).or_default().insert(index, said);
    }
    Ok(Some(kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{ArtifactId, Metered, TaskId};

    #[test]
    fn what_was_said_comes_back_as_it_was_and_a_spoiled_file_spoils_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let lease = |number| LeaseId { task: TaskId(Digest([7; 32])), number };
        let (index, state, emitted) = (SegmentIndex(2), ArtifactId::of(b"s"), Digest([4; 32]));
        let before = Segment { index, state, emitted, metered: Metered::default() };
        let sealed = |salt, before| {
            let answer = Answer(Digest([salt; 32]));
            Said::Sealed { answer, salt: [salt; 32], before }
        };
        let first = BTreeMap::from([
            (SegmentIndex(0), sealed(1, None)),
            (SegmentIndex(3), sealed(2, Some(before))),
            (SegmentIndex(5), Said::Unserved),
        ]);
        let second = BTreeMap::from([(SegmentIndex(3), sealed(3, None))]);
        let kept = Kept::from([([1; 32], first), ([2; 32], second)]);
        let docket = Docket::open(folder.path()).unwrap();
        docket.keep(lease(0), &kept).unwrap();
        docket.keep(lease(1), &Kept::new()).unwrap();
        let again = Docket::open(folder.path()).unwrap();
        let all = BTreeMap::from([(lease(0), kept.clone()), (lease(1), Kept::new())]);
        assert_eq!(again.restore().unwrap(), all);
        fs::write(docket.path(lease(1)), b"no").unwrap();
        assert_eq!(again.restore().unwrap(), BTreeMap::from([(lease(0), kept)]));
        again.forget(lease(0)).unwrap();
        again.forget(lease(0)).unwrap();
        assert!(again.restore().unwrap().is_empty());
    }
}
