//! Collects operations, counts what they cost, and gives out words of the frame.

use super::super::{
    Ineligible,
    code::{Op, Reg},
};
use std::collections::BTreeMap;

/// Words of a frame.
const FRAME: u32 = u16::MAX as u32;
/// How much may be looked at, for every operation that there may be.
const WORK: usize = 8;

/// Code that grows at its end.
pub(super) struct Assembler {
    ops: Vec<Op>,
    most: usize,
    /// What was looked at while compiling, whether or not it became code.
    work: usize,
    /// Where each label is, once it is known. Until the end, jumps hold labels.
    labels: Vec<u32>,
    /// The charge to which further operations add their cost.
    charge: Option<usize>,
    frame: u32,
    numbers: Vec<(Reg, u32)>,
    /// Runs of numbers that are already in the frame.
    known: BTreeMap<Vec<u32>, Reg>,
    /// Words of the frame that are zero and stay so.
    zeros: (Reg, u32),
}

impl Assembler {
    pub(super) fn new(most: usize) -> Self {
        Self {
            ops: Vec::new(),
            most,
            work: 0,
            labels: Vec::new(),
            charge: None,
            frame: 0,
            numbers: Vec::new(),
            known: BTreeMap::new(),
            zeros: (0, 0),
        }
    }

    /// Words that nothing else uses.
    pub(super) fn room(&mut self, words: u32) -> Result<Reg, Ineligible> {
        let start = self.frame;
        let end = u64::from(start).saturating_add(u64::from(words));
        let too_large = || Ineligible::TooLarge {
            what: "words that an invocation needs",
            size: end,
            limit: u64::from(FRAME),
        };
        self.frame = u32::try_from(end).ok().filter(|end| *end <= FRAME).ok_or_else(too_large)?;
        Reg::try_from(start).map_err(|_| too_large())
    }

    /// A number of words that fits into an operation.
    pub(super) fn count(&self, words: u32) -> Result<u16, Ineligible> {
        u16::try_from(words).map_err(|_| Ineligible::TooLarge {
            what: "words of a value",
            size: u64::from(words),
            limit: u64::from(FRAME),
        })
    }

    /// Words that hold these numbers in every invocation.
    pub(super) fn numbers(&mut self, words: Vec<u32>) -> Result<Reg, Ineligible> {
        if let Some(found) = self.known.get(&words) {
            return Ok(*found);
        }
        let start = self.room(u32::try_from(words.len()).unwrap_or(u32::MAX))?;
        let places = (start..).zip(&words).map(|(place, word)| (place, *word));
        self.numbers.extend(places.filter(|(_, word)| *word != 0));
        self.known.insert(words, start);
        Ok(start)
    }

    pub(super) fn number(&mut self, number: u32) -> Result<Reg, Ineligible> {
        self.numbers(vec![number])
    }

    /// Words that are zero in every invocation.
    pub(super) fn zeros(&mut self, words: u32) -> Result<Reg, Ineligible> {
        if self.zeros.1 < words {
            self.zeros = (self.room(words)?, words);
        }
        Ok(self.zeros.0)
    }

    pub(super) fn push(&mut self, op: Op) -> Result<(), Ineligible> {
        let cost = op.cost();
        match self.charge.and_then(|at| self.ops.get_mut(at)) {
            Some(Op::Charge(sum)) => *sum = sum.saturating_add(cost),
            _ => {
                self.charge = Some(self.ops.len());
                self.ops.push(Op::Charge(cost));
            }
        }
        let mut op = op;
        let jumps = op.target().is_some();
        self.ops.push(op);
        if jumps {
            self.charge = None;
        }
        if self.ops.len() > self.most {
            let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
            let (size, limit) = (wide(self.ops.len()), wide(self.most));
            return Err(Ineligible::TooLarge { what: "operations", size, limit });
        }
        Ok(())
    }

    /// Counts what costs time here and may leave no code: functions that do nothing, called by
    /// functions that call them twice, and so on.
    pub(super) fn work(&mut self, pieces: usize) -> Result<(), Ineligible> {
        self.work = self.work.saturating_add(pieces);
        let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let (size, limit) = (wide(self.work), wide(self.most.saturating_mul(WORK)));
        if size > limit {
            return Err(Ineligible::TooLarge { what: "pieces of inlined code", size, limit });
        }
        Ok(())
    }

    /// A target for jumps whose place is not known yet.
    pub(super) fn label(&mut self) -> Result<u32, Ineligible> {
        self.work(1)?;
        let label = u32::try_from(self.labels.len()).unwrap_or(u32::MAX);
        self.labels.push(0);
        Ok(label)
    }

    /// Puts a label here.
    pub(super) fn bind(&mut self, label: u32) {
        let here = u32::try_from(self.ops.len()).unwrap_or(u32::MAX);
        let label = usize::try_from(label).unwrap_or(usize::MAX);
        if let Some(place) = self.labels.get_mut(label) {
            *place = here;
        }
        self.charge = None;
    }

    /// The code, the words of its frame, and those that have a value from the start.
    pub(super) fn finish(mut self) -> (Vec<Op>, u32, Vec<(Reg, u32)>) {
        for op in &mut self.ops {
            if let Some(target) = op.target() {
                let label = usize::try_from(*target).unwrap_or(usize::MAX);
                *target = self.labels.get(label).copied().unwrap_or(u32::MAX);
            }
        }
        (self.ops, self.frame, self.numbers)
    }
}
