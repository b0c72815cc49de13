//! Any bytes as the evidence of an audit.

#![no_main]

#[path = "../light_targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("decode_audit", bytes));
