//! Executors as real processes: this binary is its own executor.
//!
//! Everything that a guest can do to its process must come back as a typed fault, and nothing may
//! stay behind.

#![cfg(feature = "wasm")]
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where it fails"
)]
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "executors that misbehave")]

mod guests;
mod supervisor;
mod traces;
#[cfg(target_os = "linux")]
mod walls;

use libtest_mimic::{Arguments, Trial};
use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = opengpu_exec::native::inner_main(std::env::args_os().skip(1)) {
        return code;
    }
    match std::env::args().nth(1).as_deref() {
        Some("executor") => {
            opengpu_exec::child::serve().unwrap();
            return ExitCode::SUCCESS;
        }
        #[cfg(target_os = "linux")]
        Some("evil") => {
            walls::serve();
            return ExitCode::SUCCESS;
        }
        Some("scales") => {
            traces::serve();
            return ExitCode::SUCCESS;
        }
        // Executors that have been taken over by what they run.
        Some("mute") => {
            let _ = std::io::read_to_string(std::io::stdin());
            return ExitCode::SUCCESS;
        }
        Some("deaf") => loop {
            std::thread::park();
        },
        Some("liar") => {
            println!("I am an executor, believe me.");
            return ExitCode::SUCCESS;
        }
        Some("abort") => {
            eprintln!("the driver is on fire");
            std::process::abort();
        }
        Some("glutton") => devour(),
        // It is ready, says so, and takes all memory while nobody wants anything.
        Some("idle glutton") => {
            say(&[0, 0]);
            devour();
        }
        // News of a run while a program is made ready: its number is that of the preparation.
        Some("premature") => loop {
            say(&[2, 1, 0, 1]);
        },
        // Ready, and then output without an end for the first run.
        Some("flood") => {
            say(&[0, 0]);
            let emitted = [[2, 2, 1, 0x80, 0x80, 0x04].as_slice(), &[7; 65_536]].concat();
            loop {
                say(&emitted);
            }
        }
        _ => {}
    }
    #[cfg(target_os = "linux")]
    let more = walls::TESTS;
    #[cfg(not(target_os = "linux"))]
    let more: &[(&str, fn())] = &[];
    let trials: Vec<Trial> = supervisor::TESTS
        .iter()
        .chain(traces::TESTS)
        .chain(more)
        .map(|(name, test)| {
            Trial::test(*name, move || {
                test();
                Ok(())
            })
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// Says one message of the protocol.
fn say(message: &[u8]) {
    let mut output = std::io::stdout().lock();
    let length = u32::try_from(message.len()).unwrap();
    let said = output.write_all(&[&length.to_le_bytes(), message].concat());
    if said.and_then(|()| output.flush()).is_err() {
        std::process::exit(0);
    }
}

/// Takes all memory.
fn devour() -> ! {
    let mut all = Vec::new();
    loop {
        all.push(vec![1u8; 64 << 20]);
        std::hint::black_box(&all);
    }
}
