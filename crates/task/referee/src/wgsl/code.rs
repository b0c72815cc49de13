//! The compiled form of a kernel: flat code over words, with all functions inlined.
//!
//! Every value is a run of words in the *frame* of its invocation, and so are its variables. Code
//! names words of the frame by number. Numbers that are known before an invocation begins
//! (literals, lengths of arrays, the place in the grid) are written there and never computed.
//!
//! Fuel: an operation costs one, and one that moves several words costs one for each. The cost of
//! all operations up to the next jump or the next target of one is charged in advance by
//! [`Op::Charge`]; fuel can therefore only run out at a charge.

/// A word of a frame.
pub(super) type Reg = u16;

/// What it costs to enter a loop, whose rounds are looked up once.
const ENTER: u32 = 8;

/// An operation of one word and one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Binary {
    Add,
    Sub,
    Mul,
    DivU,
    DivS,
    RemU,
    And,
    Or,
    Xor,
    Shl,
    ShrU,
    ShrS,
    Eq,
    Ne,
    LtU,
    LtS,
    LeU,
    LeS,
    MinU,
    MinS,
    MaxU,
    MaxS,
    DotI8,
    DotU8,
}

/// An operation of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unary {
    Not,
    Neg,
    Ones,
    LeadingZeros,
    TrailingZeros,
    Reverse,
    FirstLeadingU,
    FirstLeadingS,
    FirstTrailing,
    /// One of four bytes, by its number and with or without its sign.
    ByteU(u8),
    ByteS(u8),
}

/// An atomic operation. Those of one kind can change places without changing the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Adds, wrapping; a subtraction adds the negated value.
    #[default]
    Add,
    /// Keeps the bits that both have.
    And,
    /// Keeps the bits that one has.
    Or,
    /// Keeps the bits that exactly one has.
    Xor,
    /// Keeps the smaller, unsigned.
    MinU,
    /// Keeps the smaller, signed.
    MinS,
    /// Keeps the larger, unsigned.
    MaxU,
    /// Keeps the larger, signed.
    MaxS,
}

impl Kind {
    /// What is in memory afterwards.
    #[must_use]
    pub fn apply(self, before: u32, value: u32) -> u32 {
        match self {
            Self::Add => before.wrapping_add(value),
            Self::And => before & value,
            Self::Or => before | value,
            Self::Xor => before ^ value,
            Self::MinU => before.min(value),
            Self::MinS => before.cast_signed().min(value.cast_signed()).cast_unsigned(),
            Self::MaxU => before.max(value),
            Self::MaxS => before.cast_signed().max(value.cast_signed()).cast_unsigned(),
        }
    }
}

/// What a barrier orders, apart from the invocations themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sync {
    pub(super) shared: bool,
    pub(super) buffers: bool,
}

/// Where words of memory are: `base` words from the start, and as many more as `offset` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub(super) base: u32,
    pub(super) offset: Reg,
}

/// One operation. `to` and `from` name the first of several words. A touch changes nothing, and
/// counts as a change where races are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Charge(u32),
    Jump(u32),
    JumpUnless(Reg, u32),
    JumpEqual(Reg, Reg, u32),
    /// A loop is entered; `at` will say in which round it is.
    Enter {
        at: Reg,
    },
    /// A round of a loop begins; `around` says in which round the loop around it is.
    Round {
        at: Reg,
        around: Reg,
        number: u16,
    },
    Barrier(Sync),
    End,
    Copy {
        to: Reg,
        from: Reg,
        count: u16,
    },
    Unary {
        op: Unary,
        to: Reg,
        from: Reg,
    },
    Binary {
        op: Binary,
        to: Reg,
        left: Reg,
        right: Reg,
    },
    Select {
        to: Reg,
        condition: Reg,
        accept: Reg,
        reject: Reg,
    },
    Extract {
        signed: bool,
        to: Reg,
        from: Reg,
        offset: Reg,
        count: Reg,
    },
    Insert {
        to: Reg,
        into: Reg,
        from: Reg,
        offset: Reg,
        count: Reg,
    },
    Pack {
        to: Reg,
        from: Reg,
    },
    LoadFrame {
        to: Reg,
        base: Reg,
        offset: Reg,
        count: u16,
    },
    StoreFrame {
        base: Reg,
        offset: Reg,
        from: Reg,
        count: u16,
    },
    LoadShared {
        to: Reg,
        count: u16,
        at: At,
    },
    StoreShared {
        from: Reg,
        count: u16,
        at: At,
    },
    TouchShared {
        count: u16,
        at: At,
    },
    AtomicShared {
        kind: Kind,
        from: Reg,
        at: At,
    },
    LoadBuffer {
        buffer: u8,
        to: Reg,
        count: u16,
        at: At,
    },
    StoreBuffer {
        buffer: u8,
        from: Reg,
        count: u16,
        at: At,
    },
    TouchBuffer {
        buffer: u8,
        count: u16,
        at: At,
    },
    AtomicBuffer {
        kind: Kind,
        buffer: u8,
        from: Reg,
        at: At,
    },
}

impl Op {
    pub(super) fn cost(&self) -> u32 {
        match self {
            Self::Charge(_) => 0,
            Self::Enter { .. } => ENTER,
            Self::Copy { count, .. }
            | Self::LoadFrame { count, .. }
            | Self::StoreFrame { count, .. }
            | Self::LoadShared { count, .. }
            | Self::StoreShared { count, .. }
            | Self::LoadBuffer { count, .. }
            | Self::StoreBuffer { count, .. } => u32::from(*count),
            _ => 1,
        }
    }

    /// Where it may continue instead of behind itself.
    pub(super) fn target(&mut self) -> Option<&mut u32> {
        match self {
            Self::Jump(target) | Self::JumpUnless(_, target) | Self::JumpEqual(_, _, target) => {
                Some(target)
            }
            _ => None,
        }
    }
}

/// A number of the frame that the length of a buffer decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Length {
    pub(super) to: Reg,
    pub(super) buffer: u8,
    /// Bytes before the array.
    pub(super) before: u32,
    /// Bytes of an element.
    pub(super) stride: u32,
}

/// Words of the frame in which an invocation finds its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) global: Reg,
    pub(super) local: Reg,
    pub(super) index: Reg,
    pub(super) group: Reg,
    pub(super) groups: Reg,
}

/// A compiled kernel.
#[derive(Clone, Debug)]
pub(super) struct Code {
    pub(super) ops: Vec<Op>,
    /// Words of a frame.
    pub(super) frame: u32,
    /// Words of the group's memory.
    pub(super) shared: u32,
    /// Words of the frame that have a value from the start.
    pub(super) numbers: Vec<(Reg, u32)>,
    pub(super) lengths: Vec<Length>,
    pub(super) places: Places,
    /// Whether invocations wait for each other.
    pub(super) barriers: bool,
}
