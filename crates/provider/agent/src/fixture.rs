//! Things for tests: a provider, a task, a lease.

use crate::hours::Hours;
use crate::policy::{Device, Floor, Policy};
use opengpu_crypto::{Digest, SealPublicKey};
use opengpu_types::{
    Address, Allocating, Amount, ArtifactId, Class, Contact, Eyes, Lease, LeasePhase, List,
    Measure, Millis, Money, Offered, Permille, Precision, ProgramId, ProgramKind, Provider,
    ProviderStatus, Rating, Reputation, Requirements, Runtime, SessionKey, Set, Spec, Task,
    TaskPhase, Text, Trust, Weights, Work,
};

pub(crate) const ACCOUNT: Address = Address::new([7; 20]);
pub(crate) const CLIENT: Address = Address::new([8; 20]);
pub(crate) const RATE: Amount = Amount(1_000_000);

pub(crate) fn policy() -> Policy {
    Policy {
        floor: Floor::Rate(Money::tokens(RATE)),
        longest: Millis(3_600_000),
        kinds: Set::all(),
        trusts: Set::all(),
        most_leases: 4,
        hours: Hours::ALWAYS,
        idle_only: true,
        denied: List::empty(),
        reliability: Permille::ZERO,
        region: Text::default(),
    }
}

pub(crate) fn device() -> Device {
    Device {
        class: Text::new("test-device").unwrap(),
        count: 1,
        memory: 1_024,
        rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
        precisions: Set::of(&[Precision::F32]),
        runtimes: Set::of(&[Runtime::Cpu]),
        watts: 100,
    }
}

pub(crate) fn contact() -> Contact {
    Contact {
        session: SessionKey([1; 32]),
        sealing: SealPublicKey([2; 32]),
        relay: Text::default(),
    }
}

pub(crate) fn provider() -> Provider {
    let offers = policy().offers(&[device()]).unwrap().into_vec();
    let list = |offer| Offered { offer, leased: 0, pace: 1000, shelf: 0 };
    Provider {
        contact: contact(),
        status: ProviderStatus::Active,
        stake: Amount::whole(1_000),
        locked: Amount::ZERO,
        offers: List::new(offers.into_iter().map(list).collect()).unwrap(),
        leases: List::empty(),
        exposure: Amount::ZERO,
        reputation: Reputation::default(),
        heard: Millis(0),
        reserve: Amount::ZERO,
        sponsor: None,
    }
}

pub(crate) fn task() -> Task {
    let spec = Spec {
        program: ProgramId(Digest([1; 32])),
        input: ArtifactId(Digest([2; 32])),
        segments: 8,
        work: Work { amount: 10_000, measure: Measure::Integers },
        requirements: Requirements {
            kind: ProgramKind::Wasm,
            devices: 1,
            memory: 1,
            classes: List::empty(),
            precisions: Set::NONE,
            runtimes: Set::NONE,
            regions: List::empty(),
            reliability: Permille::ZERO,
            trust: Trust::Checked,
            longest: Millis(60_000),
            cap: Money::tokens(Amount::whole(1)),
            allowed: List::empty(),
            denied: List::empty(),
        },
        class: Class::Exact,
        eyes: Eyes::Anyone,
        allocating: Allocating::Spot,
        weights: Weights {
            time: Permille::ZERO,
            reliability: Permille::ZERO,
            proximity: Permille::ZERO,
        },
        region: Text::default(),
        patience: Millis(20_000),
    };
    Task {
        client: CLIENT,
        contact: contact(),
        spec,
        budget: Money::tokens(Amount::whole(1)),
        deposited: Amount::whole(1),
        paid: Amount::ZERO,
        refunded: Amount::ZERO,
        lock: Amount::ZERO,
        submitted: Millis(0),
        phase: TaskPhase::Running,
        leases: List::empty(),
        checkpoint: None,
        ending: None,
        seeking: Millis(0),
        alarm: Millis(0),
        reserve: Amount::ZERO,
    }
}

/// With one lease of ours.
pub(crate) fn leased() -> Task {
    let lease = Lease {
        provider: ACCOUNT,
        offer: 0,
        rate: RATE,
        most: Amount::whole(1),
        lock: Amount::ZERO,
        paid: Amount::ZERO,
        predicted: Millis(10_000),
        session: SessionKey([1; 32]),
        began: Millis(0),
        from: None,
        commitment: None,
        committed: Millis(0),
        signed: Millis(0),
        opened: None,
        verdict: None,
        phase: LeasePhase::Running,
    };
    Task { leases: List::new(vec![lease]).unwrap(), ..task() }
}
