//! Pointers, and what goes through them.

use super::{
    super::code::{At, Binary, Kind, Length, Op, Reg},
    Activation, Held, Ineligible, Lower,
};
use naga::{ArraySize, AtomicFunction, Expression, Handle, ScalarKind, TypeInner};

/// Runs of words in which one value may lie in a buffer.
const RUNS: usize = 1024;

/// Which memory a pointer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    Frame,
    Shared,
    Buffer(u8),
}

/// A pointer: `base` words from the start of a memory, plus what a word of the frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) memory: Memory,
    pub(super) base: u32,
    pub(super) offset: Option<Reg>,
    /// The vector that this is a component of: where it begins, and its words.
    pub(super) vector: Option<(u32, Option<Reg>, u16)>,
}

impl Place {
    /// The vector that a component of it is in.
    fn around(self, inner: &TypeInner) -> Option<(u32, Option<Reg>, u16)> {
        match inner {
            TypeInner::Vector { size, .. } => {
                Some((self.base, self.offset, u16::from(u8::from(*size))))
            }
            _ => None,
        }
    }

    fn in_buffer(self) -> bool {
        matches!(self.memory, Memory::Buffer(_))
    }
}

impl<'a> Lower<'a> {
    /// What a pointer points to.
    fn pointee(&self, on: &Activation<'a>, pointer: Handle<Expression>) -> TypeInner {
        match on.inner(self.module, pointer) {
            TypeInner::Pointer { base, .. } => self.module.types[*base].inner.clone(),
            TypeInner::ValuePointer { size: Some(size), scalar, .. } => {
                TypeInner::Vector { size: *size, scalar: *scalar }
            }
            TypeInner::ValuePointer { size: None, scalar, .. } => TypeInner::Scalar(*scalar),
            other => other.clone(),
        }
    }

    /// A part of what a pointer points to, chosen by a constant.
    pub(super) fn member(
        &self,
        on: &Activation<'a>,
        place: Place,
        pointer: Handle<Expression>,
        index: u32,
    ) -> Place {
        let inner = self.pointee(on, pointer);
        let part = self.layout.part(&inner, index, place.in_buffer());
        let vector = place.around(&inner);
        Place { base: place.base.saturating_add(part), vector, ..place }
    }

    /// An element of what a pointer points to, chosen while the kernel runs.
    pub(super) fn element(
        &mut self,
        on: &Activation<'a>,
        place: Place,
        pointer: Handle<Expression>,
        index: Reg,
    ) -> Result<Place, Ineligible> {
        let inner = self.pointee(on, pointer);
        let step = self.layout.step(&inner, place.in_buffer());
        let mut words = self.scaled(index, step)?;
        if let Some(before) = place.offset {
            let to = self.out.room(1)?;
            self.out.push(Op::Binary { op: Binary::Add, to, left: before, right: words })?;
            words = to;
        }
        let vector = place.around(&inner);
        Ok(Place { offset: Some(words), vector, ..place })
    }

    /// An index, times the words of an element.
    pub(super) fn scaled(&mut self, index: Reg, step: u32) -> Result<Reg, Ineligible> {
        if step == 1 {
            return Ok(index);
        }
        let (right, to) = (self.out.number(step)?, self.out.room(1)?);
        self.out.push(Op::Binary { op: Binary::Mul, to, left: index, right })?;
        Ok(to)
    }

    /// Reads what a pointer points to.
    pub(super) fn load(
        &mut self,
        on: &Activation<'a>,
        pointer: Handle<Expression>,
    ) -> Result<Reg, Ineligible> {
        let place = self.place(on, pointer)?;
        let inner = self.pointee(on, pointer);
        let words = self.layout.words_of(&inner);
        let to = self.out.room(words)?;
        self.transfer(place, &inner, to, words, true)?;
        Ok(to)
    }

    /// Writes to what a pointer points to.
    pub(super) fn store(
        &mut self,
        on: &Activation<'a>,
        pointer: Handle<Expression>,
        from: Reg,
    ) -> Result<(), Ineligible> {
        let place = self.place(on, pointer)?;
        let inner = self.pointee(on, pointer);
        // The language lets a device write a whole vector where one component is stored.
        if let (Some((base, offset, count)), true) = (place.vector, place.memory != Memory::Frame) {
            let at = self.at(Place { base, offset, ..place })?;
            self.out.push(match place.memory {
                Memory::Buffer(buffer) => Op::TouchBuffer { buffer, count, at },
                _ => Op::TouchShared { count, at },
            })?;
        }
        let words = self.layout.words_of(&inner);
        self.transfer(place, &inner, from, words, false)
    }

    /// Moves words between memory and the frame.
    fn transfer(
        &mut self,
        place: Place,
        inner: &TypeInner,
        frame: Reg,
        words: u32,
        load: bool,
    ) -> Result<(), Ineligible> {
        let count = self.out.count(words)?;
        match place.memory {
            Memory::Frame => {
                // Frames are smaller than the numbers that name their words.
                let base = Reg::try_from(place.base).unwrap_or(Reg::MAX);
                self.out.push(match (place.offset, load) {
                    (None, true) => Op::Copy { to: frame, from: base, count },
                    (None, false) => Op::Copy { to: base, from: frame, count },
                    (Some(offset), true) => Op::LoadFrame { to: frame, base, offset, count },
                    (Some(offset), false) => Op::StoreFrame { base, offset, from: frame, count },
                })
            }
            Memory::Shared => {
                let at = self.at(place)?;
                self.out.push(if load {
                    Op::LoadShared { to: frame, count, at }
                } else {
                    Op::StoreShared { from: frame, count, at }
                })
            }
            Memory::Buffer(buffer) => {
                let limit = u64::try_from(RUNS).unwrap_or(u64::MAX);
                let runs = self.layout.runs(inner, RUNS).ok_or(Ineligible::TooLarge {
                    what: "pieces of a value in a buffer",
                    size: limit.saturating_add(1),
                    limit,
                })?;
                let start = self.at(place)?;
                for run in runs {
                    let at = At { base: start.base.saturating_add(run.memory), ..start };
                    let frame = u32::from(frame).saturating_add(run.frame);
                    let (frame, count) = (self.out.count(frame)?, self.out.count(run.count)?);
                    self.out.push(if load {
                        Op::LoadBuffer { buffer, to: frame, count, at }
                    } else {
                        Op::StoreBuffer { buffer, from: frame, count, at }
                    })?;
                }
                Ok(())
            }
        }
    }

    fn at(&mut self, place: Place) -> Result<At, Ineligible> {
        let offset = match place.offset {
            Some(offset) => offset,
            None => self.out.zeros(1)?,
        };
        Ok(At { base: place.base, offset })
    }

    /// An atomic operation whose value nobody takes.
    pub(super) fn atomic(
        &mut self,
        on: &Activation<'a>,
        pointer: Handle<Expression>,
        function: AtomicFunction,
        value: Reg,
    ) -> Result<(), Ineligible> {
        let place = self.place(on, pointer)?;
        let signed = match self.pointee(on, pointer) {
            TypeInner::Atomic(scalar) => scalar.kind == ScalarKind::Sint,
            _ => false,
        };
        let mut from = value;
        let kind = match (function, signed) {
            (AtomicFunction::Add, _) => Kind::Add,
            (AtomicFunction::Subtract, _) => {
                from = self.out.room(1)?;
                let op = super::super::code::Unary::Neg;
                self.out.push(Op::Unary { op, to: from, from: value })?;
                Kind::Add
            }
            (AtomicFunction::And, _) => Kind::And,
            (AtomicFunction::InclusiveOr, _) => Kind::Or,
            (AtomicFunction::ExclusiveOr, _) => Kind::Xor,
            (AtomicFunction::Min, false) => Kind::MinU,
            (AtomicFunction::Min, true) => Kind::MinS,
            (AtomicFunction::Max, false) => Kind::MaxU,
            (AtomicFunction::Max, true) => Kind::MaxS,
            (AtomicFunction::Exchange { .. }, _) => {
                return Err(Ineligible::Construct { what: "an atomic exchange" });
            }
        };
        let at = self.at(place)?;
        match place.memory {
            Memory::Buffer(buffer) => self.out.push(Op::AtomicBuffer { kind, buffer, from, at }),
            _ => self.out.push(Op::AtomicShared { kind, from, at }),
        }
    }

    /// The number of elements of the last array of a buffer: known when a dispatch begins.
    pub(super) fn array_length(
        &mut self,
        on: &Activation<'a>,
        pointer: Handle<Expression>,
    ) -> Result<Reg, Ineligible> {
        let place = self.place(on, pointer)?;
        let inner = self.pointee(on, pointer);
        let (Memory::Buffer(buffer), TypeInner::Array { stride, size: ArraySize::Dynamic, .. }) =
            (place.memory, inner)
        else {
            return Err(Ineligible::Construct { what: "the length of such an array" });
        };
        let before = place.base.saturating_mul(4);
        let same = |length: &&Length| {
            (length.buffer, length.before, length.stride) == (buffer, before, stride)
        };
        if let Some(length) = self.lengths.iter().find(same) {
            return Ok(length.to);
        }
        let to = self.out.room(1)?;
        self.lengths.push(Length { to, buffer, before, stride });
        Ok(to)
    }

    pub(super) fn place(
        &mut self,
        on: &Activation<'a>,
        pointer: Handle<Expression>,
    ) -> Result<Place, Ineligible> {
        match self.held(on, pointer)? {
            Held::Place(place) => Ok(place),
            Held::Value(_) => Err(Ineligible::Construct { what: "a pointer of this form" }),
        }
    }
}
