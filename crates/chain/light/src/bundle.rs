//! Statements with everything needed to check them, as one file.
//!
//! A bundle is a frame of sections, each with its length, so that damage can be named by section.
//! Every byte counts: the frame is canonical, and each section is bound to the next by a hash or a
//! signature.

use crate::{
    certificate,
    error::{Link, VerifyError},
    state::{Presence, StateProof},
};
use commonware_codec::{Copying, DecodeExt as _, Encode, Read};
use opengpu_crypto::MerkleProof;
use opengpu_types::{ChainId, Entry, Header, Key, Receipt, SeatSet};
use rand_core::CryptoRng;

/// What is taken for granted: the network and the seats of one of its epochs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The network.
    pub chain: ChainId,
    /// The seats, from the genesis document or from a checkpoint that was verified before.
    pub seats: SeatSet,
}

/// A header and the certificate that made it final.
///
/// Not every block has a certificate of its own: when the votes of its view were split, the
/// certificate of a later block of the epoch finalizes it together with everything before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FinalizedHeader {
    /// The header.
    pub header: Header,
    /// The headers after it up to the one that has the certificate; empty if that is `header`.
    pub descendants: Vec<Header>,
    /// The engine's certificate, encoded.
    pub certificate: Vec<u8>,
}

/// From one epoch's seats to the next: any final header of the epoch, and the seats it announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EpochStep {
    /// A header of the epoch.
    pub finalized: FinalizedHeader,
    /// The seats of the epoch after it.
    pub seats: SeatSet,
}

impl FinalizedHeader {
    /// Checks that the seats that are trusted made the header final.
    pub fn verify(&self, rng: &mut impl CryptoRng, trust: &Trust) -> Result<(), VerifyError> {
        let (header, chain) = (&self.header, trust.chain);
        if header.chain != chain {
            return Err(VerifyError::OtherChain { got: header.chain, expected: chain });
        }
        if header.epoch != trust.seats.epoch {
            let (got, known) = (header.epoch, trust.seats.epoch);
            return Err(VerifyError::UnknownSeats { got, known });
        }
        let mut last = header;
        for next in &self.descendants {
            if next.parent != last.digest() || next.epoch != header.epoch {
                return Err(VerifyError::Detached { height: next.height });
            }
            last = next;
        }
        certificate::check(rng, chain, &trust.seats, last, &self.certificate)
    }
}

impl Trust {
    /// Follows steps to the seats of the last epoch they lead to. Steps of epochs before the
    /// trusted one are skipped, so one bundle serves every checkpoint.
    pub fn follow(
        mut self,
        rng: &mut impl CryptoRng,
        steps: &[EpochStep],
    ) -> Result<Self, VerifyError> {
        let begin = self.seats.epoch;
        for step in steps.iter().filter(|step| step.finalized.header.epoch >= begin) {
            step.finalized.verify(rng, &self)?;
            if !step.finalized.header.announces(&step.seats) {
                return Err(VerifyError::OtherSeats { epoch: step.finalized.header.epoch });
            }
            self.seats = step.seats.clone();
        }
        Ok(self)
    }
}

impl EpochStep {
    /// First bytes of a list of steps.
    const MAGIC: &'static [u8; 8] = b"oGPUstp1";

    /// Bytes of consecutive steps.
    pub fn list_to_bytes(steps: &[Self]) -> Vec<u8> {
        let mut frame = Frame(Self::MAGIC.to_vec());
        frame.steps(steps);
        frame.0
    }

    /// Reads [`Self::list_to_bytes`]. Nothing is checked yet: see [`Trust::follow`].
    pub fn list_from_bytes(bytes: &[u8]) -> Result<Vec<Self>, VerifyError> {
        let broken = VerifyError::Malformed { link: Link::Format };
        let mut sections = Sections(bytes.strip_prefix(Self::MAGIC).ok_or(broken)?);
        let steps = sections.steps()?;
        sections.close()?;
        Ok(steps)
    }
}

/// A receipt and why it is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiptBundle {
    /// From genesis to the epoch of the block.
    pub steps: Vec<EpochStep>,
    /// The block's header.
    pub finalized: FinalizedHeader,
    /// The receipt.
    pub receipt: Receipt,
    /// Its place under the header's receipts root.
    pub proof: MerkleProof,
}

/// A key's value or absence and why it is final.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateBundle {
    /// From genesis to the epoch of the block.
    pub steps: Vec<EpochStep>,
    /// The block's header.
    pub finalized: FinalizedHeader,
    /// The key.
    pub key: Key,
    /// Its value, if it has one.
    pub entry: Option<Entry>,
    /// Its place under the header's state root.
    pub proof: StateProof,
}

impl ReceiptBundle {
    /// First bytes of a file with a receipt.
    pub const MAGIC: &'static [u8; 8] = b"oGPUrcp1";

    /// Checks every link; the receipt is final if this succeeds.
    pub fn verify(&self, rng: &mut impl CryptoRng, trust: Trust) -> Result<(), VerifyError> {
        let trust = trust.follow(rng, &self.steps)?;
        self.finalized.verify(rng, &trust)?;
        let header = &self.finalized.header;
        if self.receipt.height != header.height {
            let (got, height) = (self.receipt.height, header.height);
            return Err(VerifyError::OtherHeight { got, height });
        }
        let placed = self.proof.index == self.receipt.index
            && self.proof.verify(&header.receipts, &self.receipt.digest());
        if placed { Ok(()) } else { Err(VerifyError::NotIncluded { leaf: Link::Receipt }) }
    }

    /// Bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut frame = Frame::new(Self::MAGIC, &self.steps, &self.finalized);
        frame.section(&self.receipt.encode());
        frame.section(&self.proof.encode());
        frame.0
    }

    /// Reads [`Self::to_bytes`], naming the section that is damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, VerifyError> {
        let (mut sections, steps, finalized) = Sections::open(Self::MAGIC, bytes)?;
        let receipt = sections.decode(Link::Receipt)?;
        let proof = sections.decode(Link::Proof)?;
        sections.close()?;
        Ok(Self { steps, finalized, receipt, proof })
    }
}

impl StateBundle {
    /// First bytes of a file with an entry of the state.
    pub const MAGIC: &'static [u8; 8] = b"oGPUstt1";

    /// Checks every link; this was the state after the header's block if this succeeds.
    pub fn verify(&self, rng: &mut impl CryptoRng, trust: Trust) -> Result<(), VerifyError> {
        let trust = trust.follow(rng, &self.steps)?;
        self.finalized.verify(rng, &trust)?;
        let presence = self.entry.clone().map_or(Presence::Absent, Presence::Present);
        let root = &self.finalized.header.state.root;
        if self.proof.shows(&self.key, &presence, root) {
            Ok(())
        } else {
            Err(VerifyError::NotIncluded { leaf: Link::Entry })
        }
    }

    /// Bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut frame = Frame::new(Self::MAGIC, &self.steps, &self.finalized);
        frame.section(&self.key.encode());
        frame.section(&self.entry.encode());
        frame.section(&self.proof.to_bytes());
        frame.0
    }

    /// Reads [`Self::to_bytes`], naming the section that is damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, VerifyError> {
        let (mut sections, steps, finalized) = Sections::open(Self::MAGIC, bytes)?;
        let key = sections.decode(Link::Entry)?;
        let entry = sections.decode(Link::Entry)?;
        let proof = StateProof::from_bytes(sections.next(Link::Proof)?)
            .ok_or(VerifyError::Malformed { link: Link::Proof })?;
        sections.close()?;
        Ok(Self { steps, finalized, key, entry, proof })
    }
}

/// Most epochs between the beginning of a bundle and its header.
const MAX_STEPS: usize = 65_536;
/// Most headers between a header and the certificate that finalizes it.
const MAX_DESCENDANTS: usize = 4_096;

struct Frame(Vec<u8>);

impl Frame {
    fn new(magic: &[u8; 8], steps: &[EpochStep], finalized: &FinalizedHeader) -> Self {
        let mut frame = Self(magic.to_vec());
        frame.steps(steps);
        frame.finalized(finalized);
        frame
    }

    fn steps(&mut self, steps: &[EpochStep]) {
        self.count(steps.len());
        for step in steps {
            self.finalized(&step.finalized);
            self.section(&step.seats.encode());
        }
    }

    fn finalized(&mut self, finalized: &FinalizedHeader) {
        self.section(&finalized.header.encode());
        self.count(finalized.descendants.len());
        for header in &finalized.descendants {
            self.section(&header.encode());
        }
        self.section(&finalized.certificate);
    }

    fn count(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.0.extend_from_slice(&count.to_be_bytes());
    }

    fn section(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
    }
}

struct Sections<'a>(&'a [u8]);

type Opened<'a> = (Sections<'a>, Vec<EpochStep>, FinalizedHeader);

impl<'a> Sections<'a> {
    fn open(magic: &[u8; 8], bytes: &'a [u8]) -> Result<Opened<'a>, VerifyError> {
        let broken = VerifyError::Malformed { link: Link::Format };
        let mut sections = Self(bytes.strip_prefix(magic).ok_or(broken)?);
        let steps = sections.steps()?;
        let finalized = sections.finalized()?;
        Ok((sections, steps, finalized))
    }

    fn steps(&mut self) -> Result<Vec<EpochStep>, VerifyError> {
        let count = self.count(MAX_STEPS)?;
        let mut steps = Vec::new();
        for _ in 0..count {
            let finalized = self.finalized()?;
            let seats = self.decode(Link::Seats)?;
            steps.push(EpochStep { finalized, seats });
        }
        Ok(steps)
    }

    fn finalized(&mut self) -> Result<FinalizedHeader, VerifyError> {
        let header = self.decode(Link::Header)?;
        let mut descendants = Vec::new();
        for _ in 0..self.count(MAX_DESCENDANTS)? {
            descendants.push(self.decode(Link::Header)?);
        }
        let certificate = self.next(Link::Certificate)?.to_vec();
        Ok(FinalizedHeader { header, descendants, certificate })
    }

    fn count(&mut self, limit: usize) -> Result<usize, VerifyError> {
        let count = usize::try_from(self.length(Link::Format)?).unwrap_or(usize::MAX);
        if count <= limit { Ok(count) } else { Err(VerifyError::Malformed { link: Link::Format }) }
    }

    fn length(&mut self, link: Link) -> Result<u32, VerifyError> {
        let (length, rest) = self.0.split_first_chunk().ok_or(VerifyError::Malformed { link })?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*length))
    }

    fn next(&mut self, link: Link) -> Result<&'a [u8], VerifyError> {
        let length = usize::try_from(self.length(link)?).unwrap_or(usize::MAX);
        let (section, rest) =
            self.0.split_at_checked(length).ok_or(VerifyError::Malformed { link })?;
        self.0 = rest;
        Ok(section)
    }

    fn decode<T: Read<Cfg = ()>>(&mut self, link: Link) -> Result<T, VerifyError> {
        T::decode(Copying(self.next(link)?)).map_err(|_| VerifyError::Malformed { link })
    }

    fn close(self) -> Result<(), VerifyError> {
        if self.0.is_empty() { Ok(()) } else { Err(VerifyError::Malformed { link: Link::Format }) }
    }
}
