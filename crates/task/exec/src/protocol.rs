//! What a supervisor and its executor say to each other, over the executor's standard streams.
//!
//! A frame is the length of its message as four bytes, little end first, and the message. Both sides
//! are the same build, so a message has no version; both mistrust each other's lengths, because an
//! executor may have been taken over by what it runs.

use crate::backend::Weighed;
use crate::fault::{Fault, Refusal};
use crate::look::{Looked, Wanted};
use crate::usage::Usage;
use crate::walls::Grant;
use commonware_codec::{DecodeExt, Encode};
use opengpu_types::{ArtifactId, Checkpoint, Segment};
use opengpu_verify::trace::Extent;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer, de::DeserializeOwned, de::Error as _,
};
use std::io::{self, Read, Write};
use std::path::PathBuf;

/// Bytes of the largest message: that of the largest state, and more.
pub(crate) const FRAME: usize = 300 << 20;
/// Bytes of the largest part of an output in one message.
pub(crate) const PART: usize = 16 << 20;
/// Bytes of all that a run may say beside its output.
pub const MOST_LOGGED: u64 = 1 << 20;

/// What a process shall be: the first thing that it hears.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Role {
    /// An executor, behind these walls; without any if none.
    Executor(Option<Grant>),
    /// What one device computes for a trial.
    Trial(crate::trial::Wanted),
}

/// From the supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// Make a program ready, under a number.
    Prepare {
        /// Its number from now on.
        bay: u32,
        /// Where it lies.
        folder: PathBuf,
        /// The address that it must have.
        id: [u8; 32],
    },
    /// Run a program.
    Run {
        /// Number of the run.
        ticket: u64,
        /// Which program.
        bay: u32,
        /// On what.
        input: Data,
        /// Segments that are wanted, if it begins.
        segments: u32,
        /// Where it goes on; it begins if none.
        from: Option<Standing>,
        /// The segment after which it ends; the last one if none.
        until: Option<u32>,
        /// How long it may take.
        milliseconds: u64,
        /// Where the states go; nowhere if nobody wants them.
        keep: Option<PathBuf>,
    },
    /// Run one segment again.
    Repeat {
        /// Number of the run.
        ticket: u64,
        /// Which program.
        bay: u32,
        /// On what.
        input: Data,
        /// The state before it.
        state: Data,
        /// Which segment.
        index: u32,
        /// Steps of the run.
        steps: u64,
        /// Segments of the run.
        segments: u32,
        /// The output before it.
        emitted: [u8; 32],
        /// How long it may take.
        milliseconds: u64,
    },
    /// Weigh what was claimed to be the output of a segment.
    Weigh {
        /// Number of the run.
        ticket: u64,
        /// Which program.
        bay: u32,
        /// On what.
        input: Data,
        /// What was claimed.
        claimed: Vec<u8>,
        /// Which segment.
        index: u32,
        /// Steps of the run.
        steps: u64,
        /// Segments of the run.
        segments: u32,
        /// How long it may take.
        milliseconds: u64,
    },
    /// Look into one segment.
    Look {
        /// Number of the run.
        ticket: u64,
        /// Which program.
        bay: u32,
        /// On what.
        input: Data,
        /// The state before it.
        state: Data,
        /// The leaf before it.
        #[serde(with = "coded")]
        before: Segment,
        /// How long the whole run is.
        #[serde(with = "Length")]
        extent: Extent,
        /// What is wanted of it.
        wanted: Wanted,
        /// How long it may take.
        milliseconds: u64,
    },
    /// End a run at the next checkpoint.
    Pause {
        /// Which one.
        ticket: u64,
    },
    /// End a run.
    Cancel {
        /// Which one.
        ticket: u64,
    },
}

/// Bytes, or where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Data {
    /// Small ones.
    Inline(Vec<u8>),
    /// A file.
    File(PathBuf),
}

/// A run that stands at a checkpoint: what is needed to go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Where it stands.
    #[serde(with = "coded")]
    pub checkpoint: Checkpoint,
    /// How long the whole run is.
    #[serde(with = "Length")]
    pub extent: Extent,
    /// The state that the checkpoint names.
    pub state: Data,
}

/// An extent on its way.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Extent")]
struct Length {
    steps: u64,
    segments: u32,
}

/// From the executor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// A program is ready.
    Prepared {
        /// Which one.
        bay: u32,
    },
    /// A program was refused.
    Refused {
        /// Which one.
        bay: u32,
        /// Why.
        refusal: Refusal,
    },
    /// Something about a run.
    Run {
        /// Which one.
        ticket: u64,
        /// What.
        news: News,
    },
}

/// What happens in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum News {
    /// It has begun and is so long.
    Begun {
        /// Its steps.
        steps: u64,
        /// Its segments.
        segments: u32,
    },
    /// The next bytes of the output.
    Emitted(Vec<u8>),
    /// A segment is over.
    Segment(#[serde(with = "coded")] Segment),
    /// It ended where it should, and the output of its segments is whole.
    Finished {
        /// What it used.
        usage: Usage,
    },
    /// The repeated segment and the state after it; what it emitted came before.
    Repeated {
        /// As found here.
        #[serde(with = "coded")]
        segment: Segment,
        /// Steps of the run, as found here.
        steps: u64,
        /// After it.
        state: Vec<u8>,
        /// What it used.
        usage: Usage,
    },
    /// What an output that was claimed weighs.
    Weighed {
        /// How far its choices are off.
        weighed: Weighed,
        /// What it used, the metered work of the segment included.
        usage: Usage,
    },
    /// It ended without an output.
    Failed {
        /// Why.
        fault: Fault,
        /// What it used until then.
        usage: Usage,
    },
    /// A line that the program said beside its output, or about lines that are left out.
    Logged(Vec<u8>),
    /// A segment that is looked into stands here; what it emitted until here came before.
    Stands {
        /// Units of the run before.
        units: u64,
        /// Its state.
        #[serde(with = "coded")]
        state: ArtifactId,
    },
    /// A look is over.
    Looked {
        /// What was found beside points.
        looked: Looked,
        /// What it used.
        usage: Usage,
    },
}

impl News {
    /// Whether nothing comes after it.
    pub(crate) const fn is_last(&self) -> bool {
        !matches!(
            self,
            Self::Begun { .. }
                | Self::Emitted(_)
                | Self::Logged(_)
                | Self::Segment(_)
                | Self::Stands { .. }
        )
    }
}

/// Wire types cross the pipe in their canonical encoding.
mod coded {
    use super::*;

    pub(super) fn serialize<T: Encode, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(&value.encode())
    }

    pub(super) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: DecodeExt<()>,
        D: Deserializer<'de>,
    {
        let bytes = Vec::<u8>::deserialize(from)?;
        T::decode(bytes).map_err(D::Error::custom)
    }
}

/// Writes one frame; `scratch` is kept between frames.
pub(crate) fn write(
    to: &mut impl Write,
    message: &impl Serialize,
    scratch: &mut Vec<u8>,
) -> io::Result<()> {
    scratch.clear();
    postcard::to_io(message, &mut *scratch).map_err(io::Error::other)?;
    if scratch.len() > FRAME {
        return Err(io::Error::other("a message is over the limit"));
    }
    let length = u32::try_from(scratch.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(scratch)
}

/// Reads one frame; none at the end of the stream.
pub(crate) fn read<T: DeserializeOwned>(
    from: &mut impl Read,
    scratch: &mut Vec<u8>,
) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX);
    if length > FRAME {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is over the limit"));
    }
    // Memory is taken as bytes arrive: a length alone costs nothing.
    scratch.clear();
    let limit = u64::try_from(length).unwrap_or(u64::MAX);
    if from.take(limit).read_to_end(scratch)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let broken = |error| io::Error::new(io::ErrorKind::InvalidData, error);
    let (message, rest) = postcard::take_from_bytes(scratch).map_err(broken)?;
    if !rest.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "bytes after a message"));
    }
    Ok(Some(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_crypto::Digest;
    use opengpu_types::{ArtifactId, Metered, SegmentIndex};
    use proptest::prelude::*;

    #[test]
    fn messages_come_back_as_they_were_sent() {
        let segment = Segment {
            index: SegmentIndex(3),
            state: ArtifactId::of(b"s"),
            emitted: Digest([4; 32]),
            metered: Metered { fuel: 5, ..Metered::default() },
        };
        let sent = [
            Event::Run { ticket: 1, news: News::Segment(segment) },
            Event::Run { ticket: 2, news: News::Emitted(vec![1, 2, 3]) },
            Event::Run { ticket: 2, news: News::Logged(b"so far\n".to_vec()) },
            Event::Refused { bay: 1, refusal: Refusal::program("no") },
        ];
        let (mut bytes, mut scratch) = (Vec::new(), Vec::new());
        for event in &sent {
            write(&mut bytes, event, &mut scratch).unwrap();
        }
        let mut stream = bytes.as_slice();
        for event in sent {
            assert_eq!(read(&mut stream, &mut scratch).unwrap(), Some(event));
        }
        assert_eq!(read::<Event>(&mut stream, &mut scratch).unwrap(), None);
    }

    #[test]
    fn a_length_that_lies_is_an_error_and_costs_nothing() {
        let mut scratch = Vec::new();
        let huge = [u32::MAX.to_le_bytes().as_slice(), b"x"].concat();
        assert!(read::<Event>(&mut huge.as_slice(), &mut scratch).is_err());
        let more = [1_000_000u32.to_le_bytes().as_slice(), b"x"].concat();
        assert!(read::<Event>(&mut more.as_slice(), &mut scratch).is_err());
        assert!(scratch.capacity() < 1_000_000);
    }

    proptest! {
        #[test]
        fn noise_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut framed = u32::try_from(bytes.len()).unwrap().to_le_bytes().to_vec();
            framed.extend(&bytes);
            let _ = read::<Event>(&mut framed.as_slice(), &mut Vec::new());
            let _ = read::<Request>(&mut framed.as_slice(), &mut Vec::new());
        }
    }
}
