//! How executions are compared that cannot be equal bit for bit.
//!
//! | class | compared | by |
//! |---|---|---|
//! | `Tolerance` | numbers that rounding moves | [`tolerance`]: the error of a projection |
//! | `Likelihood` | texts of a model | [`likelihood`]: gaps and choices of tokens |
//! | `Perceptual` | pictures | [`perceptual`]: noise and structure |
//!
//! All of it is integers: whoever computes with floats (executors do) brings them to fixed point by a
//! rounding that is stated here, and from there on every node finds the same. What a difference costs,
//! and whom, is not decided here.

pub mod likelihood;
pub mod perceptual;
pub mod tolerance;
