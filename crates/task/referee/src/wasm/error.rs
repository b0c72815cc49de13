//! Why a module is no program, and why a call gave nothing.

use wasmi::TrapCode;

/// Why a module cannot be executed here. Found when a program is registered; the words are for
/// people, and no rule depends on them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ineligible {
    /// Over the limit.
    #[error("the module has {size} bytes, at most {limit} are allowed")]
    TooLarge {
        /// Its bytes.
        size: usize,
        /// The most.
        limit: usize,
    },
    /// Not a module, or one that uses what is not allowed here.
    #[error("the module is not valid here: {reason}")]
    Module {
        /// What the interpreter says.
        reason: String,
    },
    /// A program has nothing from outside.
    #[error("the module imports {name}; a program imports nothing")]
    Import {
        /// Of what.
        name: String,
    },
    /// Something is missing, or has another shape.
    #[error("the module does not export `{name}` in the shape of a program")]
    Export {
        /// Of what.
        name: &'static str,
    },
}

/// Why a call gave nothing. It is an outcome like any other: every node finds the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The argument is over the limit.
    #[error("{size} bytes are too many to begin with, at most {limit} are allowed")]
    Argument {
        /// Its bytes.
        size: usize,
        /// The most.
        limit: usize,
    },
    /// The fuel ran out.
    #[error("the fuel ran out")]
    Fuel,
    /// Calls within calls, too deep.
    #[error("the calls are nested too deeply")]
    Depth,
    /// More memory than is allowed.
    #[error("more memory was wanted than is allowed")]
    Memory,
    /// What was given is longer than allowed, or not inside the memory.
    #[error("what was given is not {limit} bytes or less inside the memory")]
    Given {
        /// The most.
        limit: usize,
    },
    /// A step reads what was not given of the input.
    #[error("the step reads input that is not there")]
    Input,
    /// The program wants to take more steps than a dispute can be about.
    #[error("{steps} steps are too many, at most {limit} are allowed")]
    Steps {
        /// As many as it says.
        steps: u64,
        /// The most.
        limit: u64,
    },
    /// The program stopped itself: it divided by zero, left its memory, or gave up.
    #[error("the program stopped: {0}")]
    Trap(Trap),
}

/// How a program stopped itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trap {
    /// It said that this cannot happen.
    #[error("it reached what it calls unreachable")]
    Unreachable,
    /// It read or wrote outside of its memory.
    #[error("it left its memory")]
    OutOfBounds,
    /// It called what is not there, or as something else.
    #[error("it called what is not there")]
    Missing,
    /// It divided by zero, or a division did not fit.
    #[error("a division had no answer")]
    Division,
}

impl Fault {
    /// The fault that the interpreter reports.
    pub(super) fn of(error: &wasmi::Error) -> Self {
        match error.as_trap_code() {
            Some(TrapCode::OutOfFuel) => Self::Fuel,
            Some(TrapCode::StackOverflow) => Self::Depth,
            Some(TrapCode::UnreachableCodeReached) => Self::Trap(Trap::Unreachable),
            Some(TrapCode::MemoryOutOfBounds | TrapCode::TableOutOfBounds) => {
                Self::Trap(Trap::OutOfBounds)
            }
            Some(TrapCode::IndirectCallToNull | TrapCode::BadSignature) => {
                Self::Trap(Trap::Missing)
            }
            Some(
                TrapCode::IntegerDivisionByZero
                | TrapCode::IntegerOverflow
                | TrapCode::BadConversionToInteger,
            ) => Self::Trap(Trap::Division),
            // Instances are made of what was checked before; what is left is want of memory.
            _ => Self::Memory,
        }
    }
}
