//! Sessions, transfers and stores through the public API: real sockets on loopback, real files.
//!
//! | module | holds |
//! |---|---|
//! | `ground` | endpoints with stores, honest and hostile |
//! | `sessions` | who is let in, what is asked and answered, limits |
//! | `transfers` | fetching, resuming, several holders, having something kept |
//! | `liars` | holders that send or say something else, or nothing |
//! | `relays` | what a relay sees |
//! | `stores` | quota, eviction, holds, crashes |
//! | `folders` | packing and unpacking |
//! | `conformance` | pinned encodings |
//! | `fuzz_targets` | the bodies of the fuzz targets, run over their corpus |

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test that cannot go on has failed"
)]

mod conformance;
mod folders;
mod fuzz_targets;
mod ground;
mod liars;
mod relays;
mod sessions;
mod stores;
mod transfers;
