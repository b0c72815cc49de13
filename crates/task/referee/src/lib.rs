//! The referee: decides one disputed step by executing it, with the same outcome on every node.
//!
//! A dispute about a task is narrowed to one step of its program. That step is executed by every
//! validator while it executes a block, so an interpreter stands here and no compiler: its limits
//! (fuel, memory, depth of calls) are counted and not measured, and nothing depends on the machine.
//!
//! - [`wasm`]: programs in WebAssembly, without floats and without anything from outside.
//! - [`predicate`]: programs in WebAssembly that judge an output.
//! - [`wgsl`]: kernels in WGSL, with integers only and with nothing left to the device.
//!
//! The interpreters and their tables of costs are consensus: their versions are pinned exactly, and
//! another version is another version of the rules. Not here: who disputes what, and who pays.
//!
//! With the feature `generate` there are random kernels, for comparisons with devices.

#[cfg(feature = "generate")]
pub mod generate;
pub mod predicate;
pub mod wasm;
pub mod wgsl;
