//! The frame of a file: sections, each with its length, so that damage can be named by section.

use crate::{
    bundle::{EpochStep, FinalizedHeader},
    error::{Link, VerifyError},
};
use commonware_codec::{Copying, DecodeExt as _, Encode as _, Read};

/// Most epochs between the beginning of a bundle and its header.
const MAX_STEPS: usize = 65_536;
/// Most headers between a header and the certificate that finalizes it.
const MAX_DESCENDANTS: usize = 4_096;

/// A file that is written.
pub(crate) struct Frame(Vec<u8>);

impl Frame {
    pub(crate) fn empty(magic: &[u8; 8]) -> Self {
        Self(magic.to_vec())
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        self.0
    }

    pub(crate) fn new(magic: &[u8; 8], steps: &[EpochStep], finalized: &FinalizedHeader) -> Self {
        let mut frame = Self::empty(magic);
        frame.steps(steps);
        frame.finalized(finalized);
        frame
    }

    pub(crate) fn steps(&mut self, steps: &[EpochStep]) {
        self.count(steps.len());
        for step in steps {
            self.finalized(&step.finalized);
            self.section(&step.seats.encode());
        }
    }

    pub(crate) fn finalized(&mut self, finalized: &FinalizedHeader) {
        self.section(&finalized.header.encode());
        self.count(finalized.descendants.len());
        for header in &finalized.descendants {
            self.section(&header.encode());
        }
        self.section(&finalized.certificate);
    }

    pub(crate) fn count(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&count.to_be_bytes());
    }

    pub(crate) fn section(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }
}

/// A file that is read.
pub(crate) struct Sections<'a>(&'a [u8]);

pub(crate) type Opened<'a> = (Sections<'a>, Vec<EpochStep>, FinalizedHeader);

impl<'a> Sections<'a> {
    pub(crate) fn of(magic: &[u8; 8], bytes: &'a [u8]) -> Result<Self, VerifyError> {
        let broken = VerifyError::Malformed { link: Link::Format };
        Ok(Self(bytes.strip_prefix(magic).ok_or(broken)?))
    }

    pub(crate) fn open(magic: &[u8; 8], bytes: &'a [u8]) -> Result<Opened<'a>, VerifyError> {
        let mut sections = Self::of(magic, bytes)?;
        let steps = sections.steps()?;
        let finalized = sections.finalized()?;
        Ok((sections, steps, finalized))
    }

    pub(crate) fn steps(&mut self) -> Result<Vec<EpochStep>, VerifyError> {
        let count = self.count(MAX_STEPS)?;
        let mut steps = Vec::new();
        for _ in 0..count {
            let finalized = self.finalized()?;
            let seats = self.decode(Link::Seats)?;
            steps.push(EpochStep { finalized, seats });
        }
        Ok(steps)
    }

    pub(crate) fn finalized(&mut self) -> Result<FinalizedHeader, VerifyError> {
        let header = self.decode(Link::Header)?;
        let mut descendants = Vec::new();
        for _ in 0..self.count(MAX_DESCENDANTS)? {
            descendants.push(self.decode(Link::Header)?);
        }
        let certificate = self.next(Link::Certificate)?.to_vec();
        Ok(FinalizedHeader { header, descendants, certificate })
    }

    pub(crate) fn count(&mut self, limit: usize) -> Result<usize, VerifyError> {
        let count = usize::try_from(self.length(Link::Format)?).unwrap_or(usize::MAX);
        if count <= limit { Ok(count) } else { Err(VerifyError::Malformed { link: Link::Format }) }
    }

    fn length(&mut self, link: Link) -> Result<u32, VerifyError> {
        let (length, rest) = self.0.split_first_chunk().ok_or(VerifyError::Malformed { link })?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*length))
    }

    pub(crate) fn next(&mut self, link: Link) -> Result<&'a [u8], VerifyError> {
        let length = usize::try_from(self.length(link)?).unwrap_or(usize::MAX);
        let (section, rest) =
            self.0.split_at_checked(length).ok_or(VerifyError::Malformed { link })?;
        self.0 = rest;
        Ok(section)
    }

    pub(crate) fn decode<T: Read<Cfg = ()>>(&mut self, link: Link) -> Result<T, VerifyError> {
        self.decode_up_to(usize::MAX, link)
    }

    /// As [`Self::decode`], of a section with no more bytes than that.
    pub(crate) fn decode_up_to<T: Read<Cfg = ()>>(
        &mut self,
        limit: usize,
        link: Link,
    ) -> Result<T, VerifyError> {
        let section = self.next(link)?;
        let section = Some(section).filter(|section| section.len() <= limit);
        let section = section.ok_or(VerifyError::Malformed { link })?;
        T::decode(Copying(section)).map_err(|_| VerifyError::Malformed { link })
    }

    pub(crate) fn close(self) -> Result<(), VerifyError> {
        if self.0.is_empty() { Ok(()) } else { Err(VerifyError::Malformed { link: Link::Format }) }
    }
}
