//! What a client wants, as options that `quote` and `run` share.

use crate::{examples, exit::Complaint, values};
use anyhow::Result;
use clap::Args;
use opengpu_exec::Program;
use opengpu_sdk::Wishes;
use opengpu_types::{
    Address, Allocating, Amount, DeviceClass, Eyes, List, Measure, Millis, Money, Permille, Region,
    Trust, Work,
};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub(crate) struct Wanted {
    /// Folder of the program, its program.toml, or the name of an example such as path-tracer.
    pub(super) program: PathBuf,
    /// File to read, `-` for standard input; the program's own example if none is given.
    #[arg(short, long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,
    /// Most that all of it may cost: `2` are oGPU, `0.5usd` are dollars.
    #[arg(long, value_name = "MONEY", default_value = "1", value_parser = values::money)]
    pub(super) budget: Money,
    /// Most that a second of one device may cost.
    #[arg(long, value_name = "MONEY", value_parser = values::money)]
    cap: Option<Money>,
    /// Longest time of one lease, such as 30m; the limit of the program if none is given.
    #[arg(long, value_name = "TIME", value_parser = values::span)]
    max_duration: Option<Millis>,
    /// Millions of integer operations that it takes; guessed from the program's limit if not given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    work: Option<u64>,
    /// How far it is checked: fast, checked, replicated or confidential.
    #[arg(long, value_name = "TRUST", default_value = "checked")]
    trust: Trust,
    /// So many providers run the same, and their outputs are compared; implies `--trust replicated`.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(2..=8))]
    copies: Option<u8>,
    /// Hold a sealed auction, also for a small budget.
    #[arg(long, conflicts_with = "spot")]
    auction: bool,
    /// Take the best standing offer at once, also for a large budget.
    #[arg(long)]
    spot: bool,
    /// Devices at once.
    #[arg(long, value_name = "COUNT", default_value = "1", value_parser = clap::value_parser!(u8).range(1..=64))]
    devices: u8,
    /// Least memory of a device in MiB; that of the program if none is given.
    #[arg(long, value_name = "MIB")]
    memory: Option<u32>,
    /// Only devices of this class; may be repeated.
    #[arg(long = "class", value_name = "CLASS")]
    classes: Vec<DeviceClass>,
    /// Only providers of this region; may be repeated.
    #[arg(long = "region", value_name = "REGION")]
    regions: Vec<Region>,
    /// Least reliability of a provider, such as 95%.
    #[arg(long, value_name = "PERCENT", value_parser = values::percent)]
    reliability: Option<Permille>,
    /// Only this provider may run it and see its data; may be repeated.
    #[arg(long = "provider", value_name = "ADDRESS")]
    providers: Vec<Address>,
    /// Not this provider; may be repeated.
    #[arg(long = "not", value_name = "ADDRESS")]
    denied: Vec<Address>,
    /// How long a provider is looked for.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::span)]
    seek: Millis,
}

impl Wanted {
    pub(super) fn open(&self, home: &Path) -> Result<Program> {
        examples::open(home, &self.program)
    }

    pub(super) fn wishes(&self) -> Result<Wishes> {
        if self.budget.amount == Amount::ZERO {
            return Err(Complaint::usage("without a budget nothing runs").into());
        }
        let allocating = match (self.auction, self.spot) {
            (true, _) => Some(Allocating::Auction),
            (_, true) => Some(Allocating::Spot),
            _ => None,
        };
        Ok(Wishes {
            cap: self.cap,
            longest: self.max_duration,
            work: self.work.map(|amount| Work { amount, measure: Measure::Integers }),
            trust: if self.copies.is_some() { Trust::Replicated } else { self.trust },
            eyes: if self.providers.is_empty() { Eyes::Anyone } else { Eyes::Allowed },
            copies: self.copies,
            allocating,
            devices: self.devices,
            memory: self.memory,
            classes: few(&self.classes, "--class")?,
            regions: few(&self.regions, "--region")?,
            reliability: self.reliability.unwrap_or(Permille::ZERO),
            allowed: few(&self.providers, "--provider")?,
            denied: few(&self.denied, "--not")?,
            patience: self.seek,
            ..Wishes::new(self.budget)
        })
    }
}

fn few<T: Clone, const MAX: usize>(given: &[T], option: &str) -> Result<List<T, MAX>> {
    let too_many = |_| Complaint::usage(format!("{option} may be given {MAX} times"));
    Ok(List::new(given.to_vec()).map_err(too_many)?)
}
