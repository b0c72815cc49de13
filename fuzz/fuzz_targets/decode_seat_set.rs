//! Any bytes as an encoded seat set.

#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("decode_seat_set", bytes));
