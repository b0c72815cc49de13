//! What a client wants of a run, and the task that says it to the chain. Pure.

use opengpu_exec::Program;
use opengpu_exec::program::Class as ProgramClass;
use opengpu_types::{
    Address, Allocating, Amount, ArtifactId, Class, DeviceClass, Eyes, List, MOST_WISHES, Measure,
    Millis, Money, Permille, Precision, ProgramKind, Region, Requirements, Runtime, Set, Spec,
    Trust, Weights, Work,
};

/// Budgets below this, in tokens, do not wait for an auction.
const SMALL: Amount = Amount::whole(5);
/// What a device does in a second for want of a better figure, in millions of integer operations.
const ORDINARY: u64 = 1_000;
/// A program takes this part of the time that its manifest allows, for want of a better figure.
const TAKEN: u64 = 60;
/// How long a provider is looked for.
const PATIENCE: Millis = Millis(60_000);

/// Several devices are wanted of a program that can use one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OneDevice {
    /// As all of its kind.
    #[error("{devices} devices are wanted, and programs of kind `{kind}` use one")]
    Kind {
        /// So many are wanted.
        devices: u8,
        /// Its kind.
        kind: ProgramKind,
    },
    /// Each step of it needs what the one before left behind.
    #[error("{0} devices are wanted, and a kernel with a state uses one")]
    State(u8),
}

/// What a client wants beside the program and its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    /// Most that all of it may cost.
    pub budget: Money,
    /// Most that a second of one device may cost; what the budget allows if none is said.
    pub cap: Option<Money>,
    /// Longest time of one lease; the limit of the program if none is said.
    pub longest: Option<Millis>,
    /// How much work it is; a guess from the program's limit if none is said.
    pub work: Option<Work>,
    /// How far it is checked.
    pub trust: Trust,
    /// Who may see its data.
    pub eyes: Eyes,
    /// So many providers run the same, and their outputs are compared.
    pub copies: Option<u8>,
    /// What judges the output on chain; only what it accepts is paid, and nobody repeats the work.
    pub check: Option<ArtifactId>,
    /// How a provider is found; spot for small budgets if none is said.
    pub allocating: Option<Allocating>,
    /// Devices at once.
    pub devices: u8,
    /// Least memory of a device in MiB; that of the program if none is said.
    pub memory: Option<u32>,
    /// Only such devices, if any are named.
    pub classes: List<DeviceClass, MOST_WISHES>,
    /// Only there, if any are named.
    pub regions: List<Region, MOST_WISHES>,
    /// Least reliability of a provider.
    pub reliability: Permille,
    /// Only these providers, if any are named.
    pub allowed: List<Address, MOST_WISHES>,
    /// Not these.
    pub denied: List<Address, MOST_WISHES>,
    /// What other things than money are worth.
    pub weights: Weights,
    /// Only devices that compute with all of these.
    pub precisions: Set<Precision>,
    /// Only devices that are reached by all of these.
    pub runtimes: Set<Runtime>,
    /// Where the client is; empty if it does not say.
    pub region: Region,
    /// How long a provider is looked for.
    pub patience: Millis,
}

impl Wishes {
    /// A run that may cost so much, checked, on any device.
    pub fn new(budget: Money) -> Self {
        Self {
            budget,
            cap: None,
            longest: None,
            work: None,
            trust: Trust::Checked,
            eyes: Eyes::Anyone,
            copies: None,
            check: None,
            allocating: None,
            devices: 1,
            memory: None,
            classes: List::empty(),
            regions: List::empty(),
            reliability: Permille::ZERO,
            allowed: List::empty(),
            denied: List::empty(),
            weights: Self::WEIGHTS,
            precisions: Set::NONE,
            runtimes: Set::NONE,
            region: Region::default(),
            patience: PATIENCE,
        }
    }

    /// What other things than money are worth if nothing is said.
    pub const WEIGHTS: Weights = Weights {
        time: Permille::constant(100),
        reliability: Permille::constant(100),
        proximity: Permille::constant(50),
    };

    /// The task for this program and input, where a dollar is so many tokens.
    pub fn spec(&self, program: &Program, input: ArtifactId, dollar: Amount) -> Spec {
        let limit = u64::try_from(program.manifest.limits.time.as_millis()).unwrap_or(u64::MAX);
        let memory = u32::try_from(program.manifest.limits.memory >> 20).unwrap_or(u32::MAX);
        Spec {
            program: program.id,
            input,
            segments: program.manifest.segments,
            work: self.work.unwrap_or_else(|| guess(Millis(limit))),
            requirements: Requirements {
                kind: program.manifest.kind,
                devices: self.devices,
                memory: self.memory.unwrap_or(memory).max(1),
                classes: self.classes.clone(),
                precisions: self.precisions,
                runtimes: self.runtimes,
                regions: self.regions.clone(),
                reliability: self.reliability,
                trust: self.trust,
                longest: self.longest.unwrap_or(Millis(limit)),
                cap: self.cap.unwrap_or(self.budget),
                allowed: self.allowed.clone(),
                denied: self.denied.clone(),
            },
            class: match (self.check, self.copies) {
                (Some(predicate), _) => Class::Predicate(predicate),
                (None, Some(copies)) => Class::Replicate(copies),
                (None, None) => class(program.manifest.class),
            },
            eyes: self.eyes,
            allocating: self.allocating.unwrap_or_else(|| self.usual(dollar)),
            weights: self.weights,
            region: self.region.clone(),
            patience: self.patience,
        }
    }

    /// Whether the program can use what is wanted for it. Nobody bids for a task that cannot, and a
    /// provider that gets it by a spot award gives it back, so it should not be submitted.
    pub fn suit(&self, program: &Program) -> Result<(), OneDevice> {
        let (devices, kind) = (self.devices, program.manifest.kind);
        if devices <= 1 || program.spreads() {
            Ok(())
        } else if kind.spreads() {
            Err(OneDevice::State(devices))
        } else {
            Err(OneDevice::Kind { devices, kind })
        }
    }

    /// An auction takes some seconds, which a small budget is not worth.
    fn usual(&self, dollar: Amount) -> Allocating {
        let small = self.budget.in_tokens(dollar).is_some_and(|budget| budget < SMALL);
        if small { Allocating::Spot } else { Allocating::Auction }
    }
}

/// Work that an ordinary device does in a part of the time that a program may take.
fn guess(limit: Millis) -> Work {
    let seconds = (limit.0 / TAKEN).div_ceil(1_000).max(1);
    Work { amount: seconds.saturating_mul(ORDINARY), measure: Measure::Integers }
}

/// How executions of a program are compared, as the chain says it.
const fn class(class: ProgramClass) -> Class {
    match class {
        ProgramClass::Exact => Class::Exact,
        ProgramClass::Tolerance => Class::Tolerance,
        ProgramClass::Likelihood => Class::Likelihood,
        ProgramClass::Perceptual => Class::Perceptual,
        ProgramClass::None => Class::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::RateUnit;
    use std::path::Path;

    const DOLLAR: Amount = Amount::whole(2);

    fn example(name: &str) -> Program {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
        Program::open(&examples.join(name)).unwrap()
    }

    fn program() -> Program {
        example("sha256-search")
    }

    #[test]
    fn several_devices_are_for_kernels_without_a_state() {
        let wishes = Wishes { devices: 2, ..Wishes::new(Money::tokens(Amount::ONE)) };
        assert_eq!(wishes.suit(&example("path-tracer")), Ok(()));
        assert_eq!(wishes.suit(&example("heat-gpu")), Err(OneDevice::State(2)));
        let wasm = OneDevice::Kind { devices: 2, kind: ProgramKind::Wasm };
        assert_eq!(wishes.suit(&program()), Err(wasm));
        let one = Wishes { devices: 1, ..wishes };
        for name in ["path-tracer", "heat-gpu", "sha256-search"] {
            assert_eq!(one.suit(&example(name)), Ok(()));
        }
    }

    #[test]
    fn a_task_says_what_the_program_needs_and_the_client_wishes() {
        let (program, input) = (program(), ArtifactId::of(b"input"));
        let wishes = Wishes::new(Money::tokens(Amount::whole(2)));
        let spec = wishes.spec(&program, input, DOLLAR);
        assert_eq!((spec.program, spec.input), (program.id, input));
        assert_eq!(spec.segments, program.manifest.segments);
        assert_eq!(spec.requirements.kind, program.manifest.kind);
        let memory = u64::from(spec.requirements.memory) << 20;
        assert_eq!(memory, program.manifest.limits.memory);
        assert_eq!(spec.requirements.cap, wishes.budget);
        assert_eq!(spec.allocating, Allocating::Spot, "a small budget does not wait");
        assert!(spec.work.amount > 0);

        let large = Wishes::new(Money::tokens(Amount::whole(50)));
        assert_eq!(large.spec(&program, input, DOLLAR).allocating, Allocating::Auction);
        // Two dollars are four tokens here, and three are six.
        let usd = |amount| Money { amount: Amount::whole(amount), unit: RateUnit::Usd };
        let dollars = |amount| Wishes::new(usd(amount)).spec(&program, input, DOLLAR).allocating;
        assert_eq!((dollars(2), dollars(3)), (Allocating::Spot, Allocating::Auction));
        let copied = Wishes { copies: Some(3), ..wishes };
        assert_eq!(copied.spec(&program, input, DOLLAR).class, Class::Replicate(3));
    }
}
