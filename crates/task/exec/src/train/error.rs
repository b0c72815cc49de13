//! What may go wrong in training, and whose fault it is.

/// Why a training cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum TrainError {
    /// A number of the configuration is not within its bounds.
    #[error("{field} is {found}; from {least} to {most}")]
    Outside {
        /// Which one.
        field: &'static str,
        /// What was asked for.
        found: u32,
        /// Least.
        least: u32,
        /// Most.
        most: u32,
    },
    /// A share of the configuration is not from 0 to 1.
    #[error("{field} is {found}; from 0 to 1")]
    Share {
        /// Which one.
        field: &'static str,
        /// What was asked for.
        found: f32,
    },
    /// Heads do not divide the width.
    #[error("{heads} heads do not divide a width of {width}")]
    Heads {
        /// The heads.
        heads: usize,
        /// The width.
        width: usize,
    },
    /// The data is not what this training reads.
    #[error("the data cannot be used: line {line} {reason}")]
    Line {
        /// Which line.
        line: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The data is too much, too little, or no text.
    #[error("the data cannot be used: {reason}")]
    Data {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The state is none of this training: other data, another configuration, or cut.
    #[error("the state cannot be used: {reason}")]
    State {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The weights became no numbers: the rate is too high.
    #[error("the weights are no numbers any more after step {step}")]
    Diverged {
        /// After which step.
        step: u64,
    },
    /// More steps than can be counted.
    #[error("the number of steps cannot be counted")]
    Step,
    /// The engine failed: a bug or a lack of memory.
    #[error("the engine failed: {0}")]
    Engine(#[from] candle_core::Error),
    /// A weight has no name or no gradient.
    #[error("a weight is not part of the model")]
    Bug,
}
