//! The encodings of every wire and storage type: they have not changed, they are canonical, and
//! what a wallet shows of them is complete.
//!
//! | module | holds |
//! |---|---|
//! | `values` | every type, and a value of it out of any stream of bytes |
//! | `round_trip` | properties of all encodings |
//! | `conformance` | one pinned hash per type |
//! | `summary` | the text that is signed |
//! | `fuzz_targets` | the bodies of the fuzz targets, run over their corpus |

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a test that cannot go on has failed"
)]

mod conformance;
mod fuzz_targets;
mod round_trip;
mod summary;
mod values;
