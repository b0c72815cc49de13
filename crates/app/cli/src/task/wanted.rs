//! What a client wants, as options that `quote`, `run` and `sweep` share.

use crate::{
    examples,
    exit::Complaint,
    input,
    made::{self, Making},
    project::{self, PROJECT, Project, Task},
    values,
};
use anyhow::Result;
use clap::{Args, ValueEnum};
use opengpu_exec::Program;
use opengpu_sdk::{Check, Wishes, tiers::Tier};
use opengpu_types::{
    Address, Allocating, Amount, DeviceClass, Eyes, List, Measure, Millis, Money, Permille,
    Precision, Region, Runtime, Set, Trust, Weights, Work,
};
use std::path::{Path, PathBuf};

/// What `--budget` is if nothing is said.
const BUDGET: Money = Money::tokens(Amount::whole(1));
/// How long a provider is looked for if nothing is said.
const SEEK: Millis = Millis(60_000);

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Wanted {
    /// What runs: the folder of a program, a script (.py, .sh, or with a #! line), an image
    /// (image:NAME, or its OCI layout as a folder or .tar), a task of ./opengpu.toml, or an example
    /// such as path-tracer.
    pub(crate) program: Option<PathBuf>,
    /// File, folder, http(s):// or s3:// address to read, `-` for standard input; the program's own
    /// example if none is given.
    #[arg(short, long, value_name = "INPUT")]
    pub(crate) input: Option<PathBuf>,
    /// A file that goes with a script or an image; may be repeated.
    #[arg(long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Most that all of it may cost: `2` are oGPU, `0.5usd` are dollars [default: 1].
    #[arg(long, value_name = "MONEY", value_parser = values::money)]
    budget: Option<Money>,
    /// Most that a second of one device may cost.
    #[arg(long, value_name = "MONEY", value_parser = values::money)]
    cap: Option<Money>,
    /// The same by the index of the class of devices: economy (0.7), standard (1) or priority (1.4 times
    /// the index, so that dearer devices fit as well), or verified (the index, and two providers run it
    /// and are compared).
    #[arg(long, value_name = "TIER", value_parser = tier, conflicts_with = "cap")]
    tier: Option<Tier>,
    /// Longest time of one lease, such as 30m; the limit of the program if none is given.
    #[arg(long, value_name = "TIME", value_parser = values::span)]
    max_duration: Option<Millis>,
    /// Millions of integer operations that it takes; guessed from the program's limit if not given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    work: Option<u64>,
    /// How far it is checked: fast, checked, replicated or confidential [default: checked].
    #[arg(long, value_name = "TRUST")]
    trust: Option<Trust>,
    /// So many providers run the same, and their outputs are compared; implies `--trust replicated`.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(2..=7))]
    copies: Option<u8>,
    /// What judges the output: a predicate in WebAssembly, or the name of an example that has one. Only
    /// an output that it accepts is paid; nobody repeats the work, and the chain shows input and output
    /// to everybody.
    #[arg(long, value_name = "PREDICATE", conflicts_with = "copies")]
    check: Option<PathBuf>,
    /// Hold a sealed auction, also for a small budget.
    #[arg(long, conflicts_with = "spot")]
    auction: bool,
    /// Take the best standing offer at once, also for a large budget.
    #[arg(long)]
    spot: bool,
    /// Devices at once [default: 1].
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u8).range(1..=64))]
    devices: Option<u8>,
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
    /// What counts more than usual beside the price: time, reliability, or being near you; or nothing
    /// beside the price.
    #[arg(long, value_name = "WHAT", conflicts_with = "weights")]
    prefer: Option<Prefer>,
    /// The same in thousandths of the budget that the worst of each costs: time, reliability and
    /// nearness [default: 100,100,50].
    #[arg(long, value_name = "TIME,RELIABILITY,NEARNESS", value_parser = weights)]
    weights: Option<Weights>,
    /// Only devices that compute with this: f64, f32, f16, bf16 or int8; may be repeated.
    #[arg(long = "precision", value_name = "PRECISION")]
    precisions: Vec<Precision>,
    /// Only devices that are reached by this: cpu, wgpu, cuda, rocm or metal; may be repeated.
    #[arg(long = "runtime", value_name = "RUNTIME")]
    runtimes: Vec<Runtime>,
    /// Where you are; without it no provider is nearer than another.
    #[arg(long, value_name = "REGION")]
    own_region: Option<Region>,
    /// How long a provider is looked for [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = values::span)]
    seek: Option<Millis>,
    /// What a script or an image is given, after `--`.
    #[arg(last = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<String>,
    /// The folder that the program must not leave, if a file of that folder named it.
    #[arg(skip)]
    pub(crate) within: Option<PathBuf>,
}

impl Wanted {
    /// The same, with what a task of the project's file says where the command line is silent.
    pub(super) fn resolve(mut self) -> Result<Task> {
        let project = Project::load(&std::env::current_dir()?)?;
        let Some(word) = self.program.take() else { return Err(unnamed(project.as_ref()).into()) };
        let found = project.map(|project| project.task(&word)).transpose()?.flatten();
        let Some(task) = found else {
            self.program = Some(word);
            return Ok(Task { wanted: self, ..Task::default() });
        };
        Ok(Task { wanted: self.over(task.wanted), ..task })
    }

    /// What is said here, else what is said there. Where, and in which way, a program runs is one choice.
    fn over(self, base: Self) -> Self {
        let Self { program, within, .. } = base;
        let chosen = self.auction || self.spot;
        Self {
            program,
            within,
            input: self.input.or(base.input),
            files: either(self.files, base.files),
            arguments: either(self.arguments, base.arguments),
            budget: self.budget.or(base.budget),
            // A tier is a cap, so the two are one choice.
            tier: if self.cap.is_some() { None } else { self.tier.or(base.tier) },
            cap: if self.tier.is_some() { None } else { self.cap.or(base.cap) },
            max_duration: self.max_duration.or(base.max_duration),
            work: self.work.or(base.work),
            // Copies decide the trust, so the two are one choice.
            copies: if self.trust.is_some() { self.copies } else { self.copies.or(base.copies) },
            trust: self.trust.or(base.trust),
            auction: self.auction || (!chosen && base.auction),
            spot: self.spot || (!chosen && base.spot),
            devices: self.devices.or(base.devices),
            memory: self.memory.or(base.memory),
            classes: either(self.classes, base.classes),
            regions: either(self.regions, base.regions),
            reliability: self.reliability.or(base.reliability),
            providers: self.providers,
            denied: self.denied,
            // What is preferred decides the weights, so the two are one choice.
            weights: if self.prefer.is_some() { None } else { self.weights.or(base.weights) },
            prefer: if self.weights.is_some() { None } else { self.prefer.or(base.prefer) },
            precisions: either(self.precisions, base.precisions),
            runtimes: either(self.runtimes, base.runtimes),
            own_region: self.own_region.or(base.own_region),
            seek: self.seek.or(base.seek),
            check: self.check.or(base.check),
        }
    }

    /// The program, which is made if it is a script or an image.
    pub(super) fn open(&self, home: &Path) -> Result<Program> {
        let given = self.program.as_deref().unwrap_or(Path::new(""));
        let making = Making {
            files: &self.files,
            arguments: &self.arguments,
            folder: input::is_folder(self.input.as_deref()),
            memory: self.memory,
            longest: self.max_duration,
        };
        if let Some(program) = made::open(home, given, &making)? {
            return Ok(program);
        }
        if !self.files.is_empty() || !self.arguments.is_empty() {
            let told = "--file and arguments after `--` are for scripts and images";
            let hint =
                "a program says its `files`, and its `arguments` under [native], in program.toml";
            return Err(Complaint::usage(told).hint(hint).into());
        }
        let program = examples::open(home, given)?;
        if let Some(folder) = self.within.as_ref().filter(|_| given.exists()) {
            project::confine(&program, folder)?;
        }
        Ok(program)
    }

    /// Most that all of it may cost.
    pub(super) fn budget(&self) -> Money {
        self.budget.unwrap_or(BUDGET)
    }

    /// What judges the output, if it can be run on chain.
    pub(super) fn check(&self) -> Result<Option<Check>> {
        let Some(path) = &self.check else { return Ok(None) };
        let useless = |error| Complaint::usage(format!("{}: {error}", path.display()));
        Ok(Some(Check::new(examples::predicate(path)?).map_err(useless)?))
    }

    /// What a second may cost beside the index, if that is said.
    pub(super) const fn tier(&self) -> Option<Tier> {
        self.tier
    }

    pub(crate) fn wishes(&self) -> Result<Wishes> {
        let again = self.tier.and_then(Tier::copies);
        if again.is_some() && self.check.is_some() {
            return Err(Complaint::usage(
                "--tier verified compares copies, and --check judges one",
            )
            .into());
        }
        let copies = self.copies.or(again);
        if self.budget().amount == Amount::ZERO {
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
            trust: match (copies, self.trust) {
                (Some(_), _) => Trust::Replicated,
                (None, trust) => trust.unwrap_or(Trust::Checked),
            },
            eyes: if self.providers.is_empty() { Eyes::Anyone } else { Eyes::Allowed },
            copies,
            check: self.check()?.as_ref().map(Check::id),
            allocating,
            devices: self.devices.unwrap_or(1),
            memory: self.memory,
            classes: few(&self.classes, "--class")?,
            regions: few(&self.regions, "--region")?,
            reliability: self.reliability.unwrap_or(Permille::ZERO),
            allowed: few(&self.providers, "--provider")?,
            denied: few(&self.denied, "--not")?,
            weights: match (self.weights, self.prefer) {
                (Some(weights), _) => weights,
                (None, prefer) => prefer.map_or(Wishes::WEIGHTS, Prefer::weights),
            },
            precisions: Set::of(&self.precisions),
            runtimes: Set::of(&self.runtimes),
            region: self.own_region.clone().unwrap_or_default(),
            patience: self.seek.unwrap_or(SEEK),
            ..Wishes::new(self.budget())
        })
    }
}

/// What counts more than usual beside the price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Prefer {
    /// Nothing.
    Price,
    /// That it is soon over.
    Time,
    /// That the provider was there for others.
    Reliability,
    /// That it is near.
    Near,
}

impl Prefer {
    /// Half of the budget for what is preferred.
    const fn weights(self) -> Weights {
        const NOTHING: Permille = Permille::ZERO;
        const MUCH: Permille = Permille::constant(500);
        let usual = Wishes::WEIGHTS;
        match self {
            Self::Price => Weights { time: NOTHING, reliability: NOTHING, proximity: NOTHING },
            Self::Time => Weights { time: MUCH, ..usual },
            Self::Reliability => Weights { reliability: MUCH, ..usual },
            Self::Near => Weights { proximity: MUCH, ..usual },
        }
    }
}

fn tier(text: &str) -> Result<Tier, String> {
    let found = Tier::ALL.into_iter().find(|tier| tier.name() == text);
    found.ok_or_else(|| format!("`{text}` is none of {}", Tier::ALL.map(Tier::name).join(", ")))
}

/// Three shares.
fn weights(text: &str) -> Result<Weights, String> {
    let wrong = || format!("`{text}` is not three numbers from 0 to 1000, such as 100,100,50");
    let parts: Vec<_> = text
        .split(',')
        .map(|part| part.trim().parse().ok().and_then(Permille::new).ok_or_else(wrong))
        .collect::<Result<_, _>>()?;
    let &[time, reliability, proximity] = parts.as_slice() else { return Err(wrong()) };
    Ok(Weights { time, reliability, proximity })
}

fn either<T>(given: Vec<T>, base: Vec<T>) -> Vec<T> {
    if given.is_empty() { base } else { given }
}

/// Nothing was named: what could be.
fn unnamed(project: Option<&Project>) -> Complaint {
    let complaint = Complaint::usage("which program?");
    let names: Vec<_> =
        project.into_iter().flat_map(Project::list).map(|[name, ..]| name).collect();
    if names.is_empty() {
        return complaint
            .hint("name a folder, a script, an image or an example such as path-tracer");
    }
    complaint.hint(format!("tasks of {PROJECT}: {}", names.join(", ")))
}

fn few<T: Clone, const MAX: usize>(given: &[T], option: &str) -> Result<List<T, MAX>> {
    let too_many = |_| Complaint::usage(format!("{option} may be given {MAX} times"));
    Ok(List::new(given.to_vec()).map_err(too_many)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        wanted: Wanted,
    }

    fn line(words: &[&str]) -> Wanted {
        Line::parse_from([&["run"][..], words].concat()).wanted
    }

    #[test]
    fn the_command_line_comes_before_what_a_file_says() {
        let base = || {
            let words = ["own", "--budget", "2", "--seek", "5s", "--auction", "--copies", "3"];
            let more = ["--region", "eu", "--input", "a", "--", "x"];
            line(&[&words[..], &more].concat())
        };
        let wishes = |words: &[&str]| line(words).over(base()).wishes().unwrap();
        let silent = wishes(&["name"]);
        assert_eq!(silent, base().wishes().unwrap());
        let spot = wishes(&["name", "--spot", "--budget", "7", "--region", "us", "--region", "ap"]);
        assert_eq!(spot.allocating, Some(Allocating::Spot));
        assert_eq!(spot.budget, Money::tokens(Amount::whole(7)));
        assert_eq!((spot.regions.len(), spot.copies, spot.patience), (2, Some(3), Millis(5_000)));
        let fast = wishes(&["name", "--trust", "fast"]);
        assert_eq!((fast.trust, fast.copies), (Trust::Fast, None));
        let mixed = line(&["name", "--input", "b", "--", "y", "z"]).over(base());
        assert_eq!(mixed.program.as_deref(), Some(Path::new("own")));
        assert_eq!(mixed.input.as_deref(), Some(Path::new("b")));
        assert_eq!(mixed.arguments, ["y", "z"]);
    }

    #[test]
    fn what_counts_beside_the_price_is_a_word_or_three_numbers() {
        let weights = |words: &[&str]| {
            let Weights { time, reliability, proximity } =
                line(&[&["own"], words].concat()).wishes().unwrap().weights;
            [time, reliability, proximity].map(Permille::get)
        };
        assert_eq!(weights(&[]), [100, 100, 50]);
        assert_eq!(weights(&["--prefer", "price"]), [0, 0, 0]);
        assert_eq!(weights(&["--prefer", "near"]), [100, 100, 500]);
        assert_eq!(weights(&["--weights", "1, 20,1000"]), [1, 20, 1000]);
        for wrong in ["1,2", "1,2,3,4", "1,2,1001", "a,b,c"] {
            assert!(super::weights(wrong).is_err(), "{wrong}");
        }
        let base = line(&["own", "--prefer", "time", "--own-region", "eu", "--runtime", "cpu"]);
        let wishes = line(&["name", "--weights", "1,2,3"]).over(base).wishes().unwrap();
        assert_eq!(wishes.weights.time.get(), 1, "the two are one choice");
        assert_eq!((wishes.region.as_str(), wishes.runtimes), ("eu", Set::of(&[Runtime::Cpu])));
    }

    #[test]
    fn a_tier_is_a_cap_and_verified_is_two_copies() {
        let base = || line(&["own", "--tier", "verified"]);
        assert_eq!(base().wishes().unwrap().copies, Some(2));
        assert_eq!(base().wishes().unwrap().trust, Trust::Replicated);
        let capped = line(&["name", "--cap", "2"]).over(base());
        assert_eq!((capped.tier(), capped.wishes().unwrap().copies), (None, None));
        let cheap = line(&["name", "--tier", "economy"]).over(line(&["own", "--cap", "2"]));
        assert_eq!((cheap.tier(), cheap.cap), (Some(Tier::Economy), None));
        let more = line(&["own", "--tier", "verified", "--copies", "3"]);
        assert_eq!(more.wishes().unwrap().copies, Some(3));
        assert!(tier("gold").unwrap_err().contains("economy, standard, priority, verified"));
    }

    #[test]
    fn what_is_not_said_is_one_token_checked_on_one_device() {
        let wishes = line(&["own"]).wishes().unwrap();
        assert_eq!(wishes, Wishes::new(Money::tokens(Amount::whole(1))));
    }
}
