//! The same block over a state that is loaded on demand, and over one that is all there.

use crate::support::{
    Network, alice, bob, carol, delegate, operator, stranger, transfer, undelegate,
};
use opengpu_crypto::Keypair;
use opengpu_ledger::{
    BlockContext, BlockError, Executed, Execution, Halt, Memory, Rejection, State, Unloaded,
};
use opengpu_types::{
    Amount, Entry, Key, Millis, Nonce, Operation, Purpose, SignedTransaction, Text,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Knows nothing at first.
#[derive(Default)]
struct Partial(BTreeMap<Key, Option<Entry>>);

impl Partial {
    fn load(&mut self, from: &Memory, key: Key) {
        let entry = from.get(&key).unwrap().cloned();
        assert!(self.0.insert(key, entry).is_none(), "{key:?} was asked for twice");
    }
}

impl State for Partial {
    fn get(&self, key: &Key) -> Result<Option<&Entry>, Unloaded> {
        self.0.get(key).map(Option::as_ref).ok_or(Unloaded(*key))
    }
}

fn on_demand(
    network: &Network,
    context: BlockContext,
    transactions: &[SignedTransaction],
) -> Executed {
    let memory = &network.state;
    let mut execution = Execution::new(Partial::default(), context);
    while let Err(error) = execution.begin(&network.genesis) {
        let BlockError::Halt(Halt::Unloaded(key)) = error else { panic!("{error}") };
        execution.base_mut().load(memory, key);
    }
    for signed in transactions {
        while let Err(Rejection::Halt(halt)) = execution.apply(signed) {
            let Halt::Unloaded(key) = halt else { panic!("{halt}") };
            execution.base_mut().load(memory, key);
        }
    }
    loop {
        match execution.finish() {
            Ok(executed) => return executed,
            Err((again, Halt::Unloaded(key))) => {
                execution = *again;
                execution.base_mut().load(memory, key);
            }
            Err((_, halt)) => panic!("{halt}"),
        }
    }
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
    let operation = match kind % 10 {
        0..3 => transfer(other, amount),
        3 => delegate(&validator, amount),
        4 => undelegate(&validator, amount),
        5 => Operation::Redelegate { from: validator.address(), to: operator(0).address(), amount },
        6 => Operation::ClaimRewards { validator: validator.address() },
        7 => Operation::CloseAccount { to: other.address() },
        8 => Operation::Retire,
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
    prop::collection::vec(prop::collection::vec(transaction, 0..5), 1..20)
}

fn run(blocks: &Blocks, check: impl Fn(&Network, BlockContext, &[SignedTransaction])) -> Network {
    let mut network = Network::new();
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
    before.height = opengpu_types::Height(0);
    before.time = network.genesis.time;
    let executed = on_demand(&before, before.context(), &[]);
    let mut state = Memory::default();
    state.commit(executed.changes);
    assert_eq!(state, network.state);
    assert_eq!(network.account(&alice()).nonce, Nonce(0));
}
