//! `test`: every check that a change must pass, one step after the other.
//!
//! A failed step does not stop the later ones, so that one run names everything that is wrong.
//! The last line counts the tests as `N passed, N failed`; a test step that fails without naming a
//! failed test (it does not compile, say) counts as one failure, so the line never looks green.

use crate::cargo::{self, Profile, cargo};
use crate::packages::{self, Requirement};
use crate::{chaos, hostile, kernels, models, process, sim, soak, tidy};
use anyhow::{Result, bail};
use std::process::Command;
use std::time::{Duration, Instant};

/// What `test` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Run only these steps; all of them when none is named.
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(STEPS.map(|step| step.name)))]
    steps: Vec<String>,
}

#[derive(Clone, Copy)]
struct Step {
    name: &'static str,
    run: fn(&mut Tally) -> Result<()>,
}

const STEPS: [Step; 13] = [
    Step { name: "tools", run: |_| tools() },
    Step { name: "fmt", run: fmt },
    Step { name: "clippy", run: clippy },
    Step { name: "tidy", run: |_| tidy::run() },
    Step { name: "deny", run: deny },
    Step { name: "tests", run: tests },
    Step { name: "doctests", run: doctests },
    Step { name: "sim", run: short_sim },
    Step { name: "soak", run: short_soak },
    Step { name: "chaos", run: short_chaos },
    Step { name: "kernels", run: short_kernels },
    Step { name: "hostile", run: |_| hostile::run(&hostile::Arguments { only: None }) },
    Step { name: "docs", run: docs },
];

/// Seeds of the short simulation: enough to meet every kind of fault, few enough for every change.
const SHORT_SIM_SEEDS: u64 = 5;
/// Short enough that the soak judges invariants and not coverage: whether a random seed meets every
/// rare refusal within seconds of a debug build is chance. The tests of `opengpu-sim` demand coverage
/// of fixed seeds.
const SHORT_SOAK_SECONDS: u64 = 4;

/// Enough for some kills; how many is not judged in less than a minute.
const SHORT_CHAOS_MINUTES: f64 = 0.25;
/// Few, so that the last tasks end soon.
const SHORT_CHAOS_CLIENTS: u8 = 3;

/// Kernels of the short comparison.
const SHORT_KERNELS: u64 = 100;

/// Tests counted so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    passed: u64,
    failed: u64,
}

impl Tally {
    const fn add(&mut self, other: Self) {
        self.passed = self.passed.saturating_add(other.passed);
        self.failed = self.failed.saturating_add(other.failed);
    }
}

/// A step that could not be taken here, and why. It does not fail the run, and it is not called ok.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Skipped(&'static str);

struct Report {
    name: &'static str,
    took: Duration,
    ended: Result<()>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut tally = Tally::default();
    let mut reports = Vec::new();
    for step in STEPS {
        if !arguments.steps.is_empty() && !arguments.steps.iter().any(|name| name == step.name) {
            continue;
        }
        eprintln!("\n==> {}", step.name);
        let start = Instant::now();
        let ended = (step.run)(&mut tally);
        let report = Report { name: step.name, took: start.elapsed(), ended };
        eprintln!("<== {}", describe(&report));
        reports.push(report);
    }
    eprintln!();
    for report in &reports {
        println!("{}", describe(report));
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    let wrong: Vec<_> = reports.iter().filter(|report| report.failed()).collect();
    if !wrong.is_empty() {
        let names: Vec<_> = wrong.iter().map(|report| report.name).collect();
        bail!("failed: {}", names.join(", "));
    }
    Ok(())
}

impl Report {
    fn failed(&self) -> bool {
        self.ended.as_ref().is_err_and(|error| !error.is::<Skipped>())
    }
}

fn describe(report: &Report) -> String {
    let Report { name, took, ended } = report;
    let (seconds, tenths) = (took.as_secs(), took.subsec_millis() / 100);
    match ended {
        Ok(()) => format!("{name:<10} ok      {seconds:>5}.{tenths} s"),
        Err(error) => {
            let verdict = if report.failed() { "FAILED" } else { "skipped" };
            format!("{name:<10} {verdict:<7} {seconds:>5}.{tenths} s  {error:#}")
        }
    }
}

/// What tests touch beside Rust: a sandbox, a GPU in software, a Python with numpy, wrong clocks, models.
pub(crate) fn tools() -> Result<()> {
    for name in ["bubblewrap", "libfaketime", "python3", "python3-numpy"] {
        packages::provide(&Requirement::Debian(name.to_owned()))?;
    }
    tour_tools()
}

/// What the tour touches beside Rust: a GPU in software, and models.
pub(crate) fn tour_tools() -> Result<()> {
    cargo::prepare()?;
    for name in kernels::DRIVERS {
        packages::provide(&Requirement::Debian(name.to_owned()))?;
    }
    models::run()
}

fn fmt(_: &mut Tally) -> Result<()> {
    process::run(cargo().args(["fmt", "--all", "--check"]))
}

fn clippy(_: &mut Tally) -> Result<()> {
    process::run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn deny(_: &mut Tally) -> Result<()> {
    if !process::succeeds(cargo().args(["deny", "--version"])) {
        return Err(Skipped("cargo-deny is missing: cargo install --locked cargo-deny").into());
    }
    process::run(cargo().args(["deny", "check"]))
}

fn tests(tally: &mut Tally) -> Result<()> {
    if !process::succeeds(cargo().args(["nextest", "--version"])) {
        eprintln!("cargo-nextest is not installed: using cargo test, which is slower");
        eprintln!("hint: cargo install --locked cargo-nextest");
        return counted(
            cargo().args(["test", "--workspace", "--all-targets", "--no-fail-fast"]),
            tally,
        );
    }
    let profile = if std::env::var_os("CI").is_some() { "ci" } else { "default" };
    counted(cargo().args(["nextest", "run", "--workspace", "--profile", profile]), tally)
}

fn doctests(tally: &mut Tally) -> Result<()> {
    counted(cargo().args(["test", "--workspace", "--doc", "--no-fail-fast"]), tally)
}

fn short_sim(_: &mut Tally) -> Result<()> {
    for scenario in ["transfers", "market"] {
        let scenario = scenario.to_owned();
        sim::run(&sim::Arguments { seeds: SHORT_SIM_SEEDS, first_seed: 0, scenario })?;
    }
    Ok(())
}

fn short_soak(_: &mut Tally) -> Result<()> {
    let arguments = soak::Arguments { seconds: SHORT_SOAK_SECONDS, seed: None };
    soak::run(&arguments, Profile::Dev)
}

fn short_chaos(_: &mut Tally) -> Result<()> {
    let (minutes, clients) = (SHORT_CHAOS_MINUTES, SHORT_CHAOS_CLIENTS);
    chaos::run(&chaos::Arguments { minutes, clients, seed: None })
}

fn short_kernels(_: &mut Tally) -> Result<()> {
    let arguments = kernels::Arguments { count: SHORT_KERNELS, first_seed: 1 };
    kernels::run(&arguments, Profile::Dev)
}

fn docs(_: &mut Tally) -> Result<()> {
    let mut command = cargo::cargo();
    command.args(["doc", "--workspace", "--no-deps", "--document-private-items"]);
    process::run(command.env("RUSTDOCFLAGS", "-D warnings"))
}

fn counted(command: &mut Command, tally: &mut Tally) -> Result<()> {
    let watched = process::watch(command)?;
    let mut counted = Tally::default();
    for line in &watched.lines {
        counted.add(count(line));
    }
    if watched.ended.is_err() && counted.failed == 0 {
        counted.failed = 1;
    }
    tally.add(counted);
    watched.ended
}

/// Reads one line of a test runner; a line that is not a summary counts nothing.
///
/// cargo-nextest: `Summary [ 1.2s] 10 tests run: 8 passed (1 slow), 1 failed, 1 timed out, 2 skipped`.
/// cargo test: `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out`.
fn count(line: &str) -> Tally {
    let line = without_colours(line);
    let parts = if let Some((head, parts)) = line.split_once(" run: ")
        && head.trim_start().starts_with("Summary [")
    {
        parts
    } else if let Some(result) = line.trim_start().strip_prefix("test result: ") {
        result.split_once(". ").map_or("", |(_, parts)| parts)
    } else {
        return Tally::default();
    };
    let mut tally = Tally::default();
    for part in parts.split([',', ';']) {
        let Some((number, what)) = part.trim().split_once(' ') else {
            continue;
        };
        let Ok(number) = number.parse::<u64>() else {
            continue;
        };
        if what.starts_with("passed") {
            tally.passed = tally.passed.saturating_add(number);
        } else if ["failed", "timed out", "exec failed"].iter().any(|bad| what.starts_with(bad)) {
            tally.failed = tally.failed.saturating_add(number);
        }
    }
    tally
}

/// Drops `ESC [ ... m`, which a runner prints when it is told to use colours.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').map_or("", |(_, rest)| rest));
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{Report, STEPS, Skipped, Tally, count, counted, describe};
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn nextest_summaries_are_counted_with_every_way_to_fail() {
        let line = "     Summary [   2.345s] 12 tests run: 9 passed (1 slow), 1 failed, 2 timed out, 4 skipped";
        assert_eq!(count(line), Tally { passed: 9, failed: 3 });
        let line = "\u{1b}[32;1m     Summary\u{1b}[0m [   0.1s] \u{1b}[1m2\u{1b}[0m tests run: \u{1b}[1m2\u{1b}[0m \u{1b}[32;1mpassed\u{1b}[0m, 0 skipped";
        assert_eq!(count(line), Tally { passed: 2, failed: 0 });
        let line = "     Summary [   0.1s] 1 test run: 1 passed, 0 skipped";
        assert_eq!(count(line), Tally { passed: 1, failed: 0 });
    }

    #[test]
    fn cargo_test_summaries_are_counted() {
        let line = "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out";
        assert_eq!(count(line), Tally { passed: 3, failed: 2 });
    }

    #[test]
    fn a_test_that_prints_the_words_is_not_counted() {
        assert_eq!(count("5 passed, 0 failed"), Tally::default());
    }

    #[test]
    fn a_test_step_that_dies_without_a_count_counts_as_a_failure() {
        let mut tally = Tally::default();
        assert!(counted(Command::new("git").arg("no-such-command"), &mut tally).is_err());
        assert_eq!(tally, Tally { passed: 0, failed: 1 });
    }

    #[test]
    fn a_failed_step_says_why() {
        let report = Report {
            name: "fmt",
            took: Duration::from_millis(1_250),
            ended: Err(anyhow::anyhow!("two files differ")),
        };
        assert_eq!(describe(&report), "fmt        FAILED      1.2 s  two files differ");
    }

    #[test]
    fn a_skipped_step_is_neither_ok_nor_a_failure() {
        let ended = Err(Skipped("a tool is missing").into());
        let report = Report { name: "deny", took: Duration::ZERO, ended };
        assert!(!report.failed());
        assert_eq!(describe(&report), "deny       skipped     0.0 s  a tool is missing");
    }

    #[test]
    fn no_two_steps_share_a_name() {
        let mut names = STEPS.map(|step| step.name);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
