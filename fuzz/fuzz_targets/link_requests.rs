//! Any bytes as a request about artifacts.

#![no_main]

#[path = "../link_targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("link_requests", bytes));
