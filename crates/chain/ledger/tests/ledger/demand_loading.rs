//! The same block over a state that is loaded on demand, and over one that is all there.

use crate::market::bazaar::{Bazaar, RATE, offer, provider, spec};
use crate::support::{
    CHAIN, Network, add_validator, alice, bob, carol, delegate, operator, stranger, transfer,
    undelegate, votes,
};
use opengpu_crypto::Keypair;
use opengpu_ledger::{
    BlockContext, BlockError, Executed, Execution, Halt, Memory, Rejection, State, Unloaded,
    block_keys, predicted_keys,
};
use opengpu_types::{
    Address, Allocation, Amount, Digest, Entry, Epoch, Height, Key, List, Millis, Nonce, Offer,
    Operation, ProviderStatus, Purpose, SignedTransaction, Spec, Text, UnbondingId, View, VoteKind,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Knows nothing at first.
#[derive(Default)]
struct Partial(BTreeMap<Key, Option<Entry>>);

impl Partial {
    fn load(&mut self, from: &Memory, keys: Vec<Key>) {
        assert!(!keys.is_empty(), "a halt asks for something");
        for key in keys {
            let entry = from.get(&key).unwrap().cloned();
            assert!(self.0.insert(key, entry).is_none(), "{key:?} was asked for twice");
        }
    }
}

impl State for Partial {
    fn get(&self, key: &Key) -> Result<Option<&Entry>, Unloaded> {
        self.0.get(key).map(Option::as_ref).ok_or(Unloaded(*key))
    }
}

/// How often each step was repeated.
#[derive(Debug, Default, PartialEq, Eq)]
struct Repeated {
    begin: u32,
    /// The most of any transaction.
    apply: u32,
    finish: u32,
}

fn on_demand(
    network: &Network,
    context: BlockContext,
    transactions: &[SignedTransaction],
) -> Executed {
    count_loads(network, Partial::default(), context, transactions).0
}

fn count_loads(
    network: &Network,
    loaded: Partial,
    context: BlockContext,
    transactions: &[SignedTransaction],
) -> (Executed, Repeated) {
    let memory = &network.state;
    let mut execution = Execution::new(loaded, context);
    let mut repeated = Repeated::default();
    while let Err(error) = execution.begin(&network.genesis) {
        let BlockError::Halt(Halt::Unloaded(keys)) = error else { panic!("{error}") };
        execution.base_mut().load(memory, keys);
        repeated.begin += 1;
    }
    for signed in transactions {
        let mut times = 0;
        while let Err(Rejection::Halt(halt)) = execution.apply(signed) {
            let Halt::Unloaded(keys) = halt else { panic!("{halt}") };
            execution.base_mut().load(memory, keys);
            times += 1;
        }
        repeated.apply = repeated.apply.max(times);
    }
    loop {
        match execution.finish() {
            Ok(executed) => return (executed, repeated),
            Err((again, Halt::Unloaded(keys))) => {
                execution = *again;
                execution.base_mut().load(memory, keys);
                repeated.finish += 1;
            }
            Err((_, halt)) => panic!("{halt}"),
        }
    }
}

/// What a caller loads before a block.
fn predicted(
    network: &Network,
    context: BlockContext,
    transactions: &[SignedTransaction],
) -> Partial {
    let mut keys = block_keys(context.height, context.time, &network.genesis.parameters);
    transactions.iter().for_each(|signed| predicted_keys(signed, &mut keys));
    keys.sort();
    keys.dedup();
    let mut partial = Partial::default();
    partial.load(&network.state, keys);
    partial
}

fn people() -> Vec<Keypair> {
    vec![alice(), bob(), carol(), stranger(), operator(0), operator(1)]
}

/// One transaction from a few random numbers.
fn transaction(
    network: &Network,
    used: &mut BTreeMap<usize, u64>,
    (who, whom, kind, size): (usize, usize, u8, u64),
) -> SignedTransaction {
    let people = people();
    let (key, other) = (&people[who % people.len()], &people[whom % people.len()]);
    let amount = Amount(u128::from(size) * 1_000_000_000_000);
    let validator = operator(u8::try_from(whom % 4).unwrap());
    let operation = match kind % 11 {
        0..3 => transfer(other, amount),
        3 => delegate(&validator, amount),
        4 => undelegate(&validator, amount),
        5 => Operation::Redelegate { from: validator.address(), to: operator(0).address(), amount },
        6 => Operation::ClaimRewards { validator: validator.address() },
        7 => Operation::CloseAccount { to: other.address() },
        8 => Operation::Retire,
        9 => Operation::Withdraw { id: UnbondingId(size % 4) },
        _ => Operation::Authorize {
            name: Text::default(),
            spender: other.address(),
            amount,
            purpose: Purpose::Anything,
            until: network.time.plus(Millis(5_000)),
        },
    };
    let count = used.entry(who % people.len()).or_default();
    let draft = network.tx(key, operation).later(*count);
    *count += 1;
    draft.sign()
}

type Blocks = Vec<Vec<(usize, usize, u8, u64)>>;

fn blocks() -> impl Strategy<Value = Blocks> {
    let transaction = (0usize..6, 0usize..6, any::<u8>(), 0u64..1_000_000_000);
    prop::collection::vec(prop::collection::vec(transaction, 0..5), 1..40)
}

fn run(blocks: &Blocks, check: impl Fn(&Network, BlockContext, &[SignedTransaction])) -> Network {
    // One seat, so that epochs are short.
    let mut network = Network::with(|genesis| {
        genesis.parameters.seats = 1;
        genesis.parameters.epoch_blocks = 8;
    });
    network.step = Millis(7_000);
    for block in blocks {
        let mut used = BTreeMap::new();
        let block: Vec<_> =
            block.iter().map(|numbers| transaction(&network, &mut used, *numbers)).collect();
        check(&network, network.context(), &block);
        network.offer(&block);
    }
    network
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn loading_on_demand_changes_nothing(blocks in blocks()) {
        run(&blocks, |network, context, block| {
            let whole = network.execute(context, block).0;
            assert_eq!(on_demand(network, context, block), whole);
        });
    }

    #[test]
    fn the_same_blocks_give_the_same_state(blocks in blocks()) {
        let (one, other) = (run(&blocks, |_, _, _| {}), run(&blocks, |_, _, _| {}));
        prop_assert_eq!(one.state, other.state);
        prop_assert_eq!(one.last, other.last);
    }
}

#[test]
fn the_first_block_needs_nothing_but_genesis() {
    let network = Network::new();
    let mut before = Network::new();
    before.state = Memory::default();
    before.height = Height(0);
    before.time = network.genesis.time;
    let executed = on_demand(&before, before.context(), &[]);
    let mut state = Memory::default();
    state.commit(executed.changes);
    assert_eq!(state, network.state);
    assert_eq!(network.account(&alice()).nonce, Nonce(0));
}

#[test]
fn a_genesis_with_many_accounts_is_carried_out_in_a_few_batches() {
    let mut network = Network::with(|genesis| {
        let mut allocations = std::mem::take(&mut genesis.allocations).into_vec();
        allocations.extend((0..3_000u32).map(|number| {
            let mut account = [0xcc; 20];
            account[..4].copy_from_slice(&number.to_be_bytes());
            Allocation { account: Address::new(account), amount: Amount::whole(1), vesting: None }
        }));
        genesis.allocations = List::new(allocations).unwrap();
    });
    network.state = Memory::default();
    network.height = Height(0);
    network.time = network.genesis.time;
    let context = network.context();
    let loaded = predicted(&network, context, &[]);
    let (executed, Repeated { begin, finish, .. }) = count_loads(&network, loaded, context, &[]);
    assert!(executed.changes.len() > 3_000);
    assert!(begin <= 1 && finish <= 4, "{begin} and {finish} repetitions");
}

/// Many validators, each with stake that began to unbond, one of them absent.
fn crowded() -> Network {
    let mut network = Network::with(|genesis| {
        (4..16).for_each(|number| add_validator(genesis, number));
        genesis.parameters.seats = 16;
        genesis.parameters.epoch_blocks = 128;
    });
    network.absent = vec![operator(7).address()];
    for number in 0..16 {
        let leave = undelegate(&operator(number), Amount::whole(100));
        network.apply(network.tx(&operator(number), leave).sign());
    }
    network
}

#[test]
fn the_end_of_an_epoch_asks_for_everything_in_a_few_batches() {
    let mut network = crowded();
    while network.context().height.0 < 127 {
        network.idle(1);
    }
    let (context, nothing) = (network.context(), Vec::new());
    let loaded = predicted(&network, context, &nothing);
    let (executed, repeated) = count_loads(&network, loaded, context, &nothing);
    assert!(executed.changes.contains_key(&Key::Seats(Epoch(2))), "the epoch ended");
    assert!(executed.changes.contains_key(&Key::Offences(Epoch(0))), "somebody was punished");
    assert_eq!((repeated.begin, repeated.apply), (0, 0));
    assert!(repeated.finish <= 4, "{repeated:?}");
}

#[test]
fn a_report_asks_for_all_pools_that_it_reaches_at_once() {
    let mut network = Network::new();
    for _ in 0..4 {
        let leave = undelegate(&operator(0), Amount::whole(10));
        network.apply(network.tx(&operator(0), leave).sign());
        network.end_epoch();
        network.idle(1);
    }
    let kinds =
        [1, 2].map(|byte| VoteKind::Notarize { parent: View(1), block: Digest([byte; 32]) });
    let evidence = votes(CHAIN, 0, (Epoch(0), View(3)), kinds).into();
    let report = [network.tx(&alice(), Operation::ReportEvidence { evidence }).sign()];
    let context = network.context();
    let loaded = predicted(&network, context, &report);
    let (executed, repeated) = count_loads(&network, loaded, context, &report);
    let slashed = |key: &&Key| matches!(key, Key::UnbondingPool { .. });
    assert_eq!(executed.changes.keys().filter(slashed).count(), 4);
    assert!(repeated.apply <= 2, "{repeated:?}");
}

#[test]
fn an_ordinary_block_is_loaded_in_one_batch() {
    let mut network = Network::new();
    network.apply(network.tx(&alice(), delegate(&operator(0), Amount::whole(9))).sign());
    let block = [
        network.tx(&alice(), transfer(&bob(), Amount(5))).sign(),
        network.tx(&bob(), delegate(&operator(1), Amount::whole(5))).sign(),
        network.tx(&carol(), Operation::Burn { amount: Amount(1) }).sign(),
    ];
    let context = network.context();
    let loaded = predicted(&network, context, &block);
    assert_eq!(count_loads(&network, loaded, context, &block).1, Repeated::default());
}

#[test]
fn the_end_of_silent_leases_asks_for_all_offers_of_their_providers_at_once() {
    let mut bazaar = Bazaar::empty();
    let devices = |number: u8, place: u8| {
        let class = Text::new(format!("class-{number}-{place}")).unwrap();
        Offer { class, ..offer(RATE) }
    };
    for number in 0..6 {
        let offers: Vec<_> = (0..8).map(|place| devices(number, place)).collect();
        bazaar.register(number, &offers, Amount::whole(200));
    }
    for number in 0..6 {
        let mut task = Spec { patience: Millis(0), ..spec() };
        task.requirements.classes.push(devices(number, 0).class).unwrap();
        let id = bazaar.submit(task, 50);
        assert_eq!(bazaar.lease(id, 0).provider, provider(number).address());
    }
    bazaar.wait(12_000);
    let mut network = bazaar.network;
    network.step = Millis(5_000);
    let context = network.context();
    let loaded = predicted(&network, context, &[]);
    let (executed, repeated) = count_loads(&network, loaded, context, &[]);
    let silent = |entry: &Option<Entry>| match entry {
        Some(Entry::Provider(it)) => it.status == ProviderStatus::Silent { draining: false },
        _ => false,
    };
    let silent = executed.changes.values().filter(|it| silent(it)).count();
    assert_eq!(silent, 6);
    assert!(repeated.begin <= 16, "{repeated:?}");
}
