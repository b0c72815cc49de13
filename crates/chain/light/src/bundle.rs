//! Statements with everything needed to check them, as one file.
//!
//! A bundle is a frame of sections, each with its length, so that damage can be named by section.
//! Every byte counts: the frame is canonical, and each section is bound to the next by a hash or a
//! signature.

use crate::{
    certificate,
    error::{Link, VerifyError},
    frame::{Frame, Sections},
    state::{Presence, StateProof},
};
use commonware_codec::Encode as _;
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
            self.take(rng, step)?;
        }
        Ok(self)
    }

    /// Follows one step, to the seats of the next epoch.
    pub(crate) fn take(
        &mut self,
        rng: &mut impl CryptoRng,
        step: &EpochStep,
    ) -> Result<(), VerifyError> {
        step.finalized.verify(rng, self)?;
        if !step.finalized.header.announces(&step.seats) {
            return Err(VerifyError::OtherSeats { epoch: step.finalized.header.epoch });
        }
        self.seats = step.seats.clone();
        Ok(())
    }
}

impl EpochStep {
    /// First bytes of a list of steps.
    const MAGIC: &'static [u8; 8] = b"oGPUstp1";

    /// Bytes of consecutive steps.
    pub fn list_to_bytes(steps: &[Self]) -> Vec<u8> {
        let mut frame = Frame::empty(Self::MAGIC);
        frame.steps(steps);
        frame.bytes()
    }

    /// Reads [`Self::list_to_bytes`]. Nothing is checked yet: see [`Trust::follow`].
    pub fn list_from_bytes(bytes: &[u8]) -> Result<Vec<Self>, VerifyError> {
        let mut sections = Sections::of(Self::MAGIC, bytes)?;
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
        frame.bytes()
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
        frame.bytes()
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
