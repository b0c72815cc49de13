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
mod kinds;
mod parts;
mod points;
mod supervisor;
mod traces;
#[cfg(target_os = "linux")]
mod walls;

use libtest_mimic::{Arguments, Trial};
use std::io::{Read as _, Write as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(target_os = "linux")]
    if let Some(code) = opengpu_exec::native::inner_main(std::env::args_os().skip(1)) {
        return code;
    }
    if let Some(code) = std::env::args().nth(1).and_then(|role| play(&role)) {
        return code;
    }
    #[cfg(target_os = "linux")]
    let more = walls::TESTS;
    #[cfg(not(target_os = "linux"))]
    let more: &[(&str, fn())] = &[];
    let trials: Vec<Trial> = supervisor::TESTS
        .iter()
        .chain(traces::TESTS)
        .chain(parts::TESTS)
        .chain(points::TESTS)
        .chain(kinds::TESTS)
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

/// Is an executor, good or not, if that is its role.
fn play(role: &str) -> Option<ExitCode> {
    match role {
        "executor" => opengpu_exec::child::serve().unwrap(),
        #[cfg(target_os = "linux")]
        "evil" => walls::serve(),
        "scales" => traces::serve(),
        "puppet" => parts::speak(),
        "seer" => points::speak(),
        // Executors that have been taken over by what they run.
        "mute" => drop(std::io::read_to_string(std::io::stdin())),
        "deaf" => loop {
            std::thread::park();
        },
        "liar" => println!("I am an executor, believe me."),
        "abort" => {
            eprintln!("the driver is on fire");
            std::process::abort();
        }
        "glutton" => devour(),
        // It is ready, says so, and takes all memory while nobody wants anything.
        "idle glutton" => {
            say(&[0, 0]);
            devour();
        }
        // News of a run while a program is made ready: its number is that of the preparation.
        "premature" => loop {
            say(&[2, 1, 0, 1]);
        },
        // Ready, and then output without an end for the first run.
        "flood" => {
            hear_all();
            let emitted = [[2, 2, 1, 0x80, 0x80, 0x04].as_slice(), &[7; 65_536]].concat();
            loop {
                say(&emitted);
            }
        }
        // The same with words, which are no output.
        "chatter" => {
            hear_all();
            let logged = [[2, 2, 7, 0x80, 0x80, 0x04].as_slice(), &[7; 65_536]].concat();
            loop {
                say(&logged);
            }
        }
        _ => return None,
    }
    Some(ExitCode::SUCCESS)
}

/// Says one message of the protocol.
/// Hears one message.
fn hear() {
    let mut length = [0; 4];
    let mut input = std::io::stdin().lock();
    input.read_exact(&mut length).unwrap();
    let length = usize::try_from(u32::from_le_bytes(length)).unwrap();
    input.read_exact(&mut vec![0; length]).unwrap();
}

/// Is ready, and waits until it is asked for the first run.
fn hear_all() {
    // Its walls, and what it shall make ready.
    (0..2).for_each(|_| hear());
    say(&[0, 0]);
    hear();
}

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
