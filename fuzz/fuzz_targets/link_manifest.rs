//! Any bytes as the encoded manifest of a folder.

#![no_main]

#[path = "../link_targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("link_manifest", bytes));
