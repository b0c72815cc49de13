//! The hostile corpus: jobs that try to get out, to use up everything, or to stay.
//!
//! Whether one escaped is judged from outside: by a secret of this machine that turns up in what
//! the job wrote, by tracks that it left, by sockets of this machine that heard it, by what its
//! processes hold open while they run, and by the state of the machine before and after. What a job
//! itself says counts as well, but only against it.
//!
//! The same jobs run once more in sandboxes with a wall left out, where they must find a way: a
//! corpus that never finds anything shows nothing.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test stops where it fails, and this one prints a table"
)]

mod archives;
mod jobs;
mod machine;
mod observe;

use jobs::{Attack, Needs};
use machine::{Leftovers, Machine};
use opengpu_exec::native::{Cgroup, Sandbox, Walls, inner_main};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    if let Some(code) = inner_main(std::env::args_os().skip(1)) {
        return code;
    }
    let mut arguments = std::env::args().skip(1);
    let only = match (arguments.next().as_deref(), arguments.next()) {
        (Some("--only"), Some(only)) => Some(only),
        (None, None) => None,
        _ => {
            eprintln!("usage: hostile [--only FAMILY or FAMILY/NAME]");
            return ExitCode::from(2);
        }
    };
    let sandbox = match Sandbox::new() {
        Ok(sandbox) => sandbox,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    };
    if run(&sandbox, only.as_deref()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What came of one family.
#[derive(Default)]
struct Row {
    count: usize,
    unrun: usize,
    escapes: usize,
    leftovers: usize,
    took: Duration,
}

fn run(sandbox: &Sandbox, only: Option<&str>) -> bool {
    let machine = Machine::prepare();
    let probe = Sandbox::probe();
    if let Some(missing) = &probe.network {
        println!("granted: skipped, {missing}");
    }
    let whole = match probe.cgroup {
        Cgroup::None { .. } => Needs::Counting,
        Cgroup::V1 | Cgroup::V2 => Needs::Everything,
    };
    let before = Leftovers::look(&machine);
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let wanted = |job: &Attack| {
        only.is_none_or(|only| job.is(only)) && !(job.is_granted() && probe.network.is_some())
    };
    for job in jobs::all().iter().filter(|job| wanted(job)) {
        let start = Instant::now();
        let findings = job.run(sandbox, &machine, whole);
        let left = Leftovers::look(&machine).since(&before);
        for finding in findings.iter().chain(&left) {
            eprintln!("{}/{}: {finding}", job.family, job.name);
        }
        let row = rows.entry(job.family).or_default();
        row.count += 1;
        let (unrun, escapes): (Vec<_>, Vec<_>) =
            findings.iter().partition(|finding| finding.starts_with(jobs::UNRUN));
        row.unrun += usize::from(!unrun.is_empty());
        row.escapes += usize::from(!escapes.is_empty());
        row.leftovers += left.len();
        row.took += start.elapsed();
    }
    let control = jobs::control(sandbox, &machine);
    let found = weakened(sandbox, &machine, only);
    let watched = watched(sandbox, &machine, only);
    println!(
        "{:<12} {:>5} {:>8} {:>10} {:>8}",
        "family", "jobs", "escapes", "leftovers", "seconds"
    );
    for (family, row) in &rows {
        println!(
            "{family:<12} {:>5} {:>8} {:>10} {:>8.1}",
            row.count,
            row.escapes,
            row.leftovers,
            row.took.as_secs_f32()
        );
    }
    println!("control: {}", if control.is_none() { "succeeds" } else { "FAILS" });
    if let Some(reason) = &control {
        eprintln!("control: {reason}");
    }
    println!("watched instead of counted: {} jobs, {} escapes", watched.count, watched.escapes);
    for (walls, escapes) in &found {
        println!("without {walls}: {escapes} escapes");
    }
    let sum = |part: fn(&Row) -> usize| rows.values().map(part).sum::<usize>();
    let (jobs, escapes, leftovers) =
        (sum(|row| row.count), sum(|row| row.escapes), sum(|row| row.leftovers));
    println!("hostile: {jobs} jobs, {escapes} escapes, {leftovers} leftovers");
    let unrun = sum(|row| row.unrun);
    if unrun > 0 {
        eprintln!("{unrun} jobs did not run, which shows nothing");
    }
    // A part of the corpus need not hold what a missing wall lets through.
    let blind = only.is_none() && found.iter().any(|(_, escapes)| *escapes == 0);
    escapes == 0
        && unrun == 0
        && leftovers == 0
        && control.is_none()
        && !blind
        && watched.escapes == 0
}

/// Bombs once more, as on a machine that permits no control groups.
fn watched(sandbox: &Sandbox, machine: &Machine, only: Option<&str>) -> Row {
    let sandbox = sandbox.clone().uncounted();
    let mut row = Row::default();
    let jobs = jobs::all().into_iter().filter(|job| job.is_for_the_watcher());
    for job in jobs.filter(|job| only.is_none_or(|only| job.is(only))) {
        let findings = job.run(&sandbox, machine, Needs::Counting);
        for finding in &findings {
            eprintln!("{}/{}, watched: {finding}", job.family, job.name);
        }
        row.count += 1;
        row.escapes += usize::from(!findings.is_empty());
    }
    row
}

/// Runs what each wall stops in a sandbox without it, and counts what then gets out.
fn weakened(
    sandbox: &Sandbox,
    machine: &Machine,
    only: Option<&str>,
) -> Vec<(&'static str, usize)> {
    let all = Walls {
        filter: true,
        landlock: true,
        network: true,
        user_namespaces: true,
        read_only: true,
    };
    let filter = Walls { filter: false, user_namespaces: false, ..all };
    let network = Walls { network: false, landlock: false, ..all };
    let files = Walls { read_only: false, landlock: false, ..all };
    let variants = [
        ("the list of system calls", filter, Needs::Filter),
        ("a network of its own", network, Needs::Network),
        ("read-only folders", files, Needs::ReadOnly),
    ];
    let mut found = Vec::new();
    for (name, walls, needs) in variants {
        let weak = sandbox.clone().weakened(walls);
        let jobs = jobs::all().into_iter().filter(|job| job.needs == needs);
        let jobs = jobs.filter(|job| only.is_none_or(|only| job.is(only)));
        let got_out = |finding: &String| !finding.starts_with(jobs::UNRUN);
        let escaped = |job: &Attack| job.run(&weak, machine, needs).iter().any(got_out);
        found.push((name, jobs.filter(escaped).count()));
    }
    found
}
