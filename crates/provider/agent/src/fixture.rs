//! Things for tests: a provider, a task, a lease.

use crate::chain::{Chain, ChainError, Final};
use crate::delivery::Depot;
use crate::hours::Hours;
use crate::parcel::Parcels;
use crate::policy::{Device, Floor, Policy};
use crate::room::Room;
use opengpu_crypto::{Digest, SealKeypair, SealPublicKey};
use opengpu_link::artifact::OwnerSecret;
use opengpu_link::folder::FolderLimits;
use opengpu_link::{Quota, Store};
use opengpu_market::glance;
use opengpu_types::{
    Address, Allocating, Amount, ArtifactId, ChainId, Class, Contact, Entry, Eyes, Height, Key,
    Lease, LeasePhase, List, MarketOperation, MarketParameters, Measure, Millis, Money, Offered,
    Outcome, Permille, Precision, ProgramId, ProgramKind, Provider, ProviderStatus, Rating,
    Reputation, Requirements, Runtime, SessionKey, Set, Shelf, Spec, Task, TaskPhase, Text,
    Transaction, Trust, Weights, Work,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

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
        kinds: Set::all(),
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
        audits: List::empty(),
        exposure: Amount::ZERO,
        reputation: Reputation::default(),
        paces: List::empty(),
        heard: Millis(0),
        proven: None,
        in_trial: false,
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

pub(crate) const DIGEST: Digest = Digest([9; 32]);

/// A depot in a folder, with so many bytes for its store.
pub(crate) fn depot(folder: &Path, quota: u64) -> Depot {
    let store = Store::open(&folder.join("store"), Quota::of(quota)).unwrap();
    let owner = OwnerSecret::from_bytes([1; 32]);
    Depot {
        chain: ChainId(7),
        sealing: SealKeypair::from_seed([1; 32]),
        previous: Vec::new(),
        store: store.clone(),
        programs: folder.join("programs"),
        limits: FolderLimits::default(),
        room: Room::of(folder),
        parcels: Parcels { chain: ChainId(7), store, owner },
    }
}

/// A chain on paper: entries that a test writes.
#[derive(Default)]
pub(crate) struct Paper(Mutex<BTreeMap<Key, Entry>>);

impl Paper {
    pub(crate) fn write(&self, key: Key, entry: Entry) {
        self.0.lock().unwrap().insert(key, entry);
    }

    pub(crate) fn provide(&self, account: Address, provider: Provider) {
        self.write(Key::Provider(account), Entry::Provider(provider.into()));
    }

    pub(crate) fn leave(&self, account: Address) {
        self.0.lock().unwrap().remove(&Key::Provider(account));
    }

    pub(crate) fn shelve(&self, accounts: &[Address]) {
        let offered = provider().offers.first().unwrap().clone();
        let shelved = accounts.iter().map(|account| glance::shelved(*account, 0, &offered));
        let shelf = Shelf { offers: List::new(shelved.collect()).unwrap() };
        self.write(Key::Shelves, Entry::Shelves(1));
        self.write(Key::Shelf(0), Entry::Shelf(shelf));
    }
}

impl Chain for Paper {
    fn id(&self) -> ChainId {
        ChainId(7)
    }

    fn account(&self) -> Address {
        ACCOUNT
    }

    fn parameters(&self) -> Result<MarketParameters, ChainError> {
        Ok(MarketParameters::UNAUDITED)
    }

    fn entry(&self, key: &Key) -> Result<Option<Entry>, ChainError> {
        Ok(self.0.lock().unwrap().get(key).cloned())
    }

    fn submit(&self, _: MarketOperation) -> Result<Outcome, ChainError> {
        Ok(Outcome::Applied)
    }

    fn tip(&self) -> Result<Final, ChainError> {
        Ok(Final { height: Height(1), time: Millis(1), events: Vec::new() })
    }

    fn transactions(&self, _: Height) -> Result<Vec<Transaction>, ChainError> {
        Ok(Vec::new())
    }

    fn next(&self, _: Height, _: Duration) -> Result<Option<Final>, ChainError> {
        Ok(None)
    }
}
