//! Owners who come back, whatever the node does.

use crate::village::{Account, person};
use crate::{LONG, Scene, Setup, start_on};
use opengpu_agent::chain::{Chain, ChainError, Final};
use opengpu_agent::core::Stage;
use opengpu_types::{
    Address, Amount, ChainId, CloseReason, Entry, Height, Key, MarketOperation, MarketParameters,
    Outcome, Transaction,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A chain whose node answers nobody while it hangs.
struct Hanging {
    account: Account,
    hangs: Arc<AtomicBool>,
}

impl Hanging {
    fn wait(&self) {
        while self.hangs.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Chain for Hanging {
    fn id(&self) -> ChainId {
        self.account.id()
    }

    fn account(&self) -> Address {
        self.account.account()
    }

    fn parameters(&self) -> Result<MarketParameters, ChainError> {
        self.account.parameters()
    }

    fn entry(&self, key: &Key) -> Result<Option<Entry>, ChainError> {
        self.wait();
        self.account.entry(key)
    }

    fn submit(&self, operation: MarketOperation) -> Result<Outcome, ChainError> {
        self.wait();
        self.account.submit(operation)
    }

    fn tip(&self) -> Result<Final, ChainError> {
        self.wait();
        self.account.tip()
    }

    fn transactions(&self, height: Height) -> Result<Vec<Transaction>, ChainError> {
        self.wait();
        self.account.transactions(height)
    }

    fn next(&self, after: Height, patience: Duration) -> Result<Option<Final>, ChainError> {
        self.wait();
        self.account.next(after, patience)
    }
}

pub(crate) fn an_owner_who_returns_does_not_wait_for_a_node_that_hangs() {
    let mut scene = Scene::empty();
    let account = Account { village: Arc::clone(&scene.chain.0), key: person(2) };
    let hangs = Arc::new(AtomicBool::new(false));
    let chain = Arc::new(Hanging { account, hangs: Arc::clone(&hangs) });
    let setup = Setup { number: 2, relay: None, times: 1, turn: 0, devices: 1 };
    scene.agent = Some(start_on(chain, setup, scene.folder.path(), scene.owner.clone()));
    scene.agent().announce(Amount::whole(200)).unwrap();
    let (lease, _session) = scene.run(LONG);
    scene.village().until("a checkpoint", || scene.checkpoint(lease));
    let stage = || scene.agent().status().leases.first().map(|lease| lease.stage);
    assert_eq!(stage(), Some(Stage::Running));
    hangs.store(true, Ordering::SeqCst);
    let back = Instant::now();
    scene.owner.0.store(true, Ordering::SeqCst);
    let stopped = || matches!(stage(), Some(Stage::Leaving { .. })).then_some(());
    scene.village().until("the run to stop", stopped);
    assert!(back.elapsed() < Duration::from_secs(5), "{:?}", back.elapsed());
    // What is to be said is said when the node is there again.
    hangs.store(false, Ordering::SeqCst);
    assert_eq!(scene.closed(lease).0, CloseReason::Released);
}
