//! The evidence of an audit as bytes: sections like those of other bundles, limits first.

use super::{Evidence, EvidenceError, Moment, Statement, Told};
use crate::{
    error::{Link, VerifyError},
    frame::{Frame, Sections},
};
use commonware_codec::Encode as _;
use opengpu_types::{Height, Transaction};

/// Most things that happen in one audit: every objection of every seat may be dissected.
const MAX_COURSE: usize = 4_096;
/// Most blocks: those of the course, of two seeds and of three facts.
const MAX_BLOCKS: usize = MAX_COURSE + 5;
/// Most bytes of a receipt: that of a block which closes many audits at once.
const MAX_RECEIPT: usize = 16 * 1024 * 1024;
/// Most bytes of a Merkle path.
const MAX_PROOF: usize = 2 * 1024;

/// Tags of what happens.
const PASSED: u8 = 0;
const TOLD: u8 = 1;
const SAID: u8 = 2;

impl Evidence {
    /// First bytes of a file with the evidence of an audit.
    pub const MAGIC: &'static [u8; 8] = b"oGPUaud1";

    /// Bytes of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut frame = Frame::empty(Self::MAGIC);
        frame.steps(&self.steps);
        frame.count(self.blocks.len());
        for block in &self.blocks {
            frame.finalized(block);
        }
        frame.section(&self.lease.encode());
        frame.statement(&self.submitted);
        frame.count(self.origin.iter().count());
        if let Some(origin) = &self.origin {
            frame.statement(origin);
        }
        frame.statement(&self.committed);
        frame.count(self.course.len());
        for moment in &self.course {
            frame.moment(moment);
        }
        frame.bytes()
    }

    /// Reads [`Self::to_bytes`], naming the section that is damaged. Nothing is checked yet.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, EvidenceError> {
        let mut sections = Sections::of(Self::MAGIC, bytes)?;
        let steps = sections.steps()?;
        let mut blocks = Vec::new();
        for _ in 0..sections.count(MAX_BLOCKS)? {
            blocks.push(sections.finalized()?);
        }
        let lease = sections.decode(Link::Task)?;
        let submitted = sections.statement()?;
        let origin = match sections.count(1)? {
            0 => None,
            _ => Some(sections.statement()?),
        };
        let committed = sections.statement()?;
        let mut course = Vec::new();
        for _ in 0..sections.count(MAX_COURSE)? {
            course.push(sections.moment()?);
        }
        sections.close()?;
        Ok(Self { steps, blocks, lease, submitted, origin, committed, course })
    }
}

impl Frame {
    fn told(&mut self, told: &Told) {
        self.section(&told.receipt.encode());
        self.section(&told.proof.encode());
    }

    fn statement(&mut self, statement: &Statement) {
        self.told(&statement.told);
        self.section(&statement.transaction.encode());
        self.section(&statement.proof.encode());
    }

    fn moment(&mut self, moment: &Moment) {
        match moment {
            Moment::Passed(height) => {
                self.section(&[PASSED]);
                self.section(&height.encode());
            }
            Moment::Told { told, seed } => {
                self.section(&[TOLD]);
                self.told(told);
                self.section(&seed.encode());
            }
            Moment::Said(statement) => {
                self.section(&[SAID]);
                self.statement(statement);
            }
        }
    }
}

impl Sections<'_> {
    fn told(&mut self) -> Result<Told, VerifyError> {
        let receipt = self.decode_up_to(MAX_RECEIPT, Link::Receipt)?;
        let proof = self.decode_up_to(MAX_PROOF, Link::Proof)?;
        Ok(Told { receipt, proof })
    }

    fn statement(&mut self) -> Result<Statement, VerifyError> {
        let told = self.told()?;
        let transaction = self.decode_up_to(Transaction::MAX_EVIDENCE, Link::Transaction)?;
        let proof = self.decode_up_to(MAX_PROOF, Link::Proof)?;
        Ok(Statement { told, transaction, proof })
    }

    fn moment(&mut self) -> Result<Moment, VerifyError> {
        match self.next(Link::Format)? {
            [PASSED] => Ok(Moment::Passed(self.decode::<Height>(Link::Deadline)?)),
            [TOLD] => {
                let told = self.told()?;
                Ok(Moment::Told { told, seed: self.decode(Link::Draw)? })
            }
            [SAID] => Ok(Moment::Said(Box::new(self.statement()?))),
            _ => Err(VerifyError::Malformed { link: Link::Format }),
        }
    }
}
