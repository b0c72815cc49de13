//! How many words a type has, and where its parts are.
//!
//! In frames and in the memory of a group parts follow each other without gaps, and a boolean is a
//! word. In buffers they are where the language says.

use naga::{ArraySize, Handle, Module, Type, TypeInner};

/// Sizes of all types of a module.
#[derive(Clone, Debug)]
pub(super) struct Layout<'a> {
    module: &'a Module,
    words: Vec<u32>,
}

/// Words that follow each other on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// From the start of the value in a buffer.
    pub(super) memory: u32,
    /// From the start of the value in a frame.
    pub(super) frame: u32,
    pub(super) count: u32,
}

impl<'a> Layout<'a> {
    pub(super) fn new(module: &'a Module) -> Self {
        let mut layout = Self { module, words: Vec::with_capacity(module.types.len()) };
        for (_, ty) in module.types.iter() {
            // Types stand behind those that they are made of.
            let words = layout.words_of(&ty.inner);
            layout.words.push(words);
        }
        layout
    }

    /// Words of a type; of an array without a length, those of no element.
    pub(super) fn words(&self, ty: Handle<Type>) -> u32 {
        self.words.get(ty.index()).copied().unwrap_or(0)
    }

    pub(super) fn words_of(&self, inner: &TypeInner) -> u32 {
        match inner {
            TypeInner::Scalar(_) | TypeInner::Atomic(_) => 1,
            TypeInner::Vector { size, .. } => u32::from(*size),
            TypeInner::Array { base, size: ArraySize::Constant(length), .. } => {
                self.words(*base).saturating_mul(length.get())
            }
            TypeInner::Struct { members, .. } => {
                members.iter().fold(0, |sum: u32, member| sum.saturating_add(self.words(member.ty)))
            }
            _ => 0,
        }
    }

    /// Words before a part that is chosen by a constant.
    pub(super) fn part(&self, inner: &TypeInner, index: u32, buffer: bool) -> u32 {
        match inner {
            TypeInner::Struct { members, .. } => {
                let index = usize::try_from(index).unwrap_or(usize::MAX);
                if buffer {
                    return members.get(index).map_or(0, |member| member.offset / 4);
                }
                let before = members.iter().take(index);
                before.fold(0, |sum: u32, member| sum.saturating_add(self.words(member.ty)))
            }
            other => self.step(other, buffer).saturating_mul(index),
        }
    }

    /// Words from one element to the next.
    pub(super) fn step(&self, inner: &TypeInner, buffer: bool) -> u32 {
        match inner {
            TypeInner::Array { stride, .. } if buffer => stride / 4,
            TypeInner::Array { base, .. } => self.words(*base),
            _ => 1,
        }
    }

    /// How a value of a buffer is spread, in at most this many runs.
    pub(super) fn runs(&self, inner: &TypeInner, most: usize) -> Option<Vec<Run>> {
        let mut runs = Vec::new();
        self.collect(inner, 0, 0, most, &mut runs)?;
        Some(runs)
    }

    /// Depth is bounded by the types within types that a kernel may have.
    fn collect(
        &self,
        inner: &TypeInner,
        memory: u32,
        frame: u32,
        most: usize,
        runs: &mut Vec<Run>,
    ) -> Option<()> {
        let count = self.words_of(inner);
        let dense = inner.size(self.module.to_ctx()) == count.checked_mul(4)?;
        match inner {
            TypeInner::Array { base, size: ArraySize::Constant(length), .. } if !dense => {
                let base = &self.module.types[*base].inner;
                for index in 0..length.get() {
                    let memory = memory.checked_add(self.part(inner, index, true))?;
                    let frame = frame.checked_add(self.part(inner, index, false))?;
                    self.collect(base, memory, frame, most, runs)?;
                }
            }
            TypeInner::Struct { members, .. } if !dense => {
                for (index, member) in (0u32..).zip(members) {
                    let memory = memory.checked_add(self.part(inner, index, true))?;
                    let frame = frame.checked_add(self.part(inner, index, false))?;
                    let inner = &self.module.types[member.ty].inner;
                    self.collect(inner, memory, frame, most, runs)?;
                }
            }
            _ => runs.push(Run { memory, frame, count }),
        }
        (runs.len() <= most).then_some(())
    }
}
