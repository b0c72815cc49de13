//! The server over real sockets, with an engine that repeats what it is told.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test stops where it fails, and its numbers are small"
)]

mod api;
mod openai_package;
mod parrot;
mod upstream;
