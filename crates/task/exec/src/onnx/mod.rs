//! Networks in ONNX files that look at pictures: they name what they see, or find where it is.
//!
//! ```text
//!   file ─► model (what it may hold) ─► library (pinned) ─► session
//!   input ─► list ─► picture ─► tensor ─► session ─► answer ─► output
//! ```
//!
//! One picture is one step. Steps do not depend on each other, so the state is empty, and any picture
//! can be looked at again alone. A session computes on one thread: with more, the library divides its
//! sums in other ways, and their last bits differ.
//!
//! What it is not: a way to bring code. The library comes from the folder of models and has a pinned
//! digest; a model names no other file and no operator that the standard does not have.

mod answer;
mod backend;
mod boxes;
mod library;
mod list;
mod model;
mod picture;
mod tensor;

pub use backend::Networks;
pub(crate) use library::path as library;
