//! Why a source is no kernel, and why a dispatch gave nothing.

/// A place in a source; lines and columns begin at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    /// The line.
    pub line: u32,
    /// The column, in bytes.
    pub column: u32,
}

impl std::fmt::Display for Location {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// Why a source is no kernel of the exact class. Found when a program is registered; the words are
/// for people, and no rule depends on them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ineligible {
    /// More of something than is allowed.
    #[error("{what}: {size}, at most {limit} allowed")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How much there is, as far as it was counted.
        size: u64,
        /// The most.
        limit: u64,
    },
    /// Not WGSL.
    #[error("{at}: {reason}")]
    Parse {
        /// Where.
        at: Location,
        /// What the parser says.
        reason: String,
    },
    /// WGSL, but not valid.
    #[error("the source is not valid: {reason}")]
    Invalid {
        /// What the validator says.
        reason: String,
    },
    /// Rounding differs between devices.
    #[error("{at}: `{what}` is about floats; an exact kernel has integers and booleans only")]
    Float {
        /// Where.
        at: Location,
        /// The word or number.
        what: String,
    },
    /// Something whose outcome devices may choose, or that the referee does not know.
    #[error("{what} cannot be part of an exact kernel")]
    Construct {
        /// What it is.
        what: &'static str,
    },
    /// There is no such entry point.
    #[error("there is no compute entry point `{name}`")]
    Entry {
        /// The name.
        name: String,
    },
    /// Bytes that no member owns, in a buffer that is written.
    #[error("binding {binding} of group {group} is written and has padding between its members")]
    Padding {
        /// Of the binding.
        group: u32,
        /// Of the binding.
        binding: u32,
    },
}

/// Why a dispatch gave nothing. It is an outcome like any other: every node finds the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not as many buffers as bindings.
    #[error("{found} buffers for {expected} bindings")]
    Count {
        /// Buffers that were given.
        found: usize,
        /// Bindings of the kernel.
        expected: usize,
    },
    /// A buffer that cannot be bound.
    #[error("buffer {index} has {size} bytes; {minimum} or more are needed, in multiples of four")]
    Buffer {
        /// Of the buffer.
        index: usize,
        /// Its bytes.
        size: usize,
        /// The least.
        minimum: usize,
    },
    /// More memory than is allowed.
    #[error("the buffers have {size} bytes, at most {limit} are allowed")]
    Memory {
        /// Bytes of all buffers.
        size: usize,
        /// The most.
        limit: usize,
    },
    /// A grid that no device takes, or a group outside of it.
    #[error("the grid is empty or too large, or the group is not in it")]
    Grid,
    /// The fuel ran out.
    #[error("the fuel ran out")]
    Fuel,
    /// Some invocations of a group came to a barrier and others to another one, or to the end.
    #[error("the invocations of a group do not meet at a barrier")]
    Diverged,
    /// What is in memory depends on an order that nobody fixes: the kernel is not exact.
    #[error("not exact: {0}")]
    Race(Race),
    /// The loops of a group take more rounds than every device does: the kernel is not exact.
    #[error("not exact: the loops of a group take more than 65,535 rounds, where a device may end")]
    Rounds,
    /// The compiled kernel left its memory although every index is clamped. A defect of the
    /// referee, never of a party.
    #[error("the referee lost its way in the memory of the kernel")]
    Bounds,
}

/// Two accesses of one word, at least one of which changes it, in no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Race {
    /// Of one group, with no barrier between them.
    #[error("two invocations of a group touch one word of shared memory between two barriers")]
    Shared {
        /// The word, from the start of the group's memory.
        word: u32,
    },
    /// Of one group, with no barrier for buffers between them.
    #[error("two invocations of a group touch word {word} of buffer {buffer} between two barriers")]
    Buffer {
        /// Of the buffer.
        buffer: usize,
        /// Within it.
        word: u32,
    },
    /// Of two groups.
    #[error("two groups touch word {word} of buffer {buffer}")]
    Groups {
        /// Of the buffer.
        buffer: usize,
        /// Within it.
        word: u32,
    },
}
