//! Any text as the path of a packed file.

#![no_main]

#[path = "../link_targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("link_file_path", bytes));
