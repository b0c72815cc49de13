//! The whole product with real processes: a local network, and validators that are killed, lose
//! their disks, or come back on an old copy of them.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stderr,
    reason = "a test stops where it fails, and its numbers are small"
)]

mod audits;
mod backup;
mod clocks;
mod commands;
mod deaths;
mod dev;
mod devices;
mod disk;
mod faults;
mod idle;
mod links;
mod network;
mod partition;
mod providers;
mod scene;
mod settlements;
mod state;
mod tasks;
