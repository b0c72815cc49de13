//! `opengpu device` and `opengpu doctor`: what this machine has, how fast it is, what is amiss.

use crate::{
    context::Context,
    exit::{Complaint, Exit},
    output::{facts, table},
};
use anyhow::Result;
use clap::Subcommand;
use opengpu_crypto::{Seed, hash};
use opengpu_exec::device::{
    self, Device, Memory, MemoryWitness, Rating,
    doctor::{Check, State},
};
use opengpu_exec::{Registry, gpu::Kind};
use std::time::Duration;

/// How long a benchmark may take.
const BUDGET: Duration = Duration::from_secs(90);

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// List the devices of this machine.
    List,
    /// Measure a device: compute, integers, memory, matrices, transfer.
    Bench {
        /// Id of the device, as `opengpu device list` shows it; the first one if none is given.
        device: Option<String>,
        /// What the integer part is computed from; a challenger chooses it. Random if none is given.
        #[arg(long, value_name = "TEXT")]
        challenge: Option<String>,
        /// Seconds that it may take.
        #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=600))]
        seconds: Option<u64>,
    },
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    match command {
        Command::List => list(context),
        Command::Bench { device, challenge, seconds } => {
            let budget = seconds.map_or(BUDGET, Duration::from_secs);
            bench(context, device.as_deref(), challenge, budget)
        }
    }
}

fn list(context: &Context) -> Result<()> {
    let devices = device::list();
    context.output.show(&devices, |devices| {
        let titles = ["id", "name", "kind", "api", "memory", "driver"];
        table(titles, devices.iter().map(row))
    })?;
    if let Some(note) = note(&devices) {
        context.output.note(note);
    }
    Ok(())
}

/// What a machine without a GPU can still do, in words.
fn note(devices: &[Device]) -> Option<String> {
    if devices.iter().any(is_gpu) {
        return None;
    }
    let doctor = "`opengpu doctor` says what a GPU would need";
    Some(match devices.iter().find(|device| device.kind == Kind::Software) {
        Some(software) => format!(
            "no GPU was found; kernels still run, slowly, in software on {}: {doctor}",
            software.id
        ),
        None => format!("no GPU was found, and no software that runs kernels: {doctor}"),
    })
}

/// Software that behaves like a GPU is none.
const fn is_gpu(device: &Device) -> bool {
    !matches!(device.kind, Kind::Cpu | Kind::Software)
}

fn row(device: &Device) -> [String; 6] {
    let api = device.api.map_or_else(|| "-".to_owned(), |api| api.to_string());
    let memory = device.memory.as_ref().map_or_else(|| "-".to_owned(), memory);
    [
        device.id.to_string(),
        device.name.clone(),
        format!("{:?}", device.kind).to_lowercase(),
        api,
        memory,
        device.driver.clone(),
    ]
}

fn memory(memory: &Memory) -> String {
    let mebibytes = memory.bytes >> 20;
    let text = format!("{}.{} GiB", mebibytes >> 10, (mebibytes & 1023).saturating_mul(10) >> 10);
    match memory.source {
        MemoryWitness::Guess => format!("{text} (estimate)"),
        MemoryWitness::Nvml | MemoryWitness::Sysfs | MemoryWitness::System => text,
    }
}

fn bench(
    context: &Context,
    wanted: Option<&str>,
    challenge: Option<String>,
    budget: Duration,
) -> Result<()> {
    let devices = device::list();
    let found = match wanted {
        None => devices.first(),
        Some(id) => devices.iter().find(|device| device.id.to_string() == id),
    };
    let Some(found) = found else {
        let ids: Vec<_> = devices.iter().map(|device| device.id.to_string()).collect();
        let message = format!("there is no device `{}`", wanted.unwrap_or_default());
        let hint = format!("this machine has: {}", ids.join(", "));
        return Err(Complaint::usage(message).hint(hint).into());
    };
    let challenge = challenge.unwrap_or_else(|| format!("{:032x}", rand::random::<u128>()));
    let seed = Seed(hash("opengpu/device/challenge", &[challenge.as_bytes()]).0);
    context.output.note(format!(
        "measuring {} ({}), {} s at most",
        found.id,
        found.name,
        budget.as_secs()
    ));
    let rating = device::bench(found, &seed, budget).map_err(|error| {
        Complaint::new(Exit::Failed, error.to_string()).hint("see `opengpu doctor`")
    })?;
    if !device::check(&seed, &rating) {
        let message = "the integers that the device computed are wrong";
        return Err(Complaint::new(Exit::Verification, message).into());
    }
    context.output.show(&rating, |rating| show(rating, &challenge))
}

fn show(rating: &Rating, challenge: &str) -> String {
    let some = |value: Option<f64>, unit: &str| {
        value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2} {unit}"))
    };
    facts([
        ("device", format!("{} ({})", rating.device, rating.name)),
        ("compute", format!("{:.2} GFLOP/s (32-bit floats)", rating.compute_gflops)),
        ("integers", format!("{:.2} Gop/s (32-bit)", rating.integer_gops)),
        ("matrices", format!("{:.2} GFLOP/s (32-bit floats)", rating.matmul_gflops)),
        ("memory", format!("{:.2} GB/s", rating.bandwidth_gbs)),
        ("upload", some(rating.upload_gbs, "GB/s")),
        ("download", some(rating.download_gbs, "GB/s")),
        ("launch", some(rating.launch_us, "us")),
        ("challenge", format!("{challenge}, answered and checked on the processor")),
        ("took", format!("{} ms", rating.took_ms)),
    ])
}

/// `opengpu doctor`: every failed check names its fix.
pub(crate) fn doctor(context: &Context) -> Result<()> {
    let mut checks = device::doctor::checks(&context.home);
    checks.extend(device::doctor::programs(&Registry::default()));
    context.output.show(&checks, |checks| {
        let row = |check: &Check| {
            let word = match check.state {
                State::Ok => "ok",
                State::Warn => "warn",
                State::Failed => "FAILED",
            };
            [word.to_owned(), check.name.clone(), check.found.clone()]
        };
        let mut text = table(["state", "check", "found"], checks.iter().map(row));
        for check in checks.iter().filter(|check| check.state != State::Ok) {
            if let Some(fix) = &check.fix {
                text.push_str(&format!("\n{}: {fix}", check.name));
            }
        }
        text
    })?;
    let failed = checks.iter().filter(|check| check.state == State::Failed).count();
    if failed > 0 {
        let message = format!("{failed} of {} checks failed", checks.len());
        return Err(Complaint::new(Exit::Failed, message).into());
    }
    Ok(())
}
