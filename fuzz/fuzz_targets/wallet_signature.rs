//! Any bytes as the signature that a wallet returns.

#![no_main]

#[path = "../targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| targets::run("wallet_signature", bytes));
