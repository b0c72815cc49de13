//! A chain for tests: the real ledger, a block every tenth of a second, and people with keys.

use commonware_codec::EncodeFixed as _;
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use opengpu_agent::chain::{Chain, ChainError, Final};
use opengpu_crypto::{BeaconKeypair, Keypair, prove_ed25519_possession};
use opengpu_ledger::{
    BlockContext, Execution, Memory, Overlay, Rejection, check_genesis, epoch_of, genesis_seats,
    invariant, leader, tables,
};
use opengpu_types::{
    Address, Allocation, Amount, Authorization, BeaconSignature, ChainId, ConsensusKey, Emission,
    Entry, Event, Genesis, GenesisValidator, Height, Key, List, MarketOperation, MarketParameters,
    Millis, Nonce, Operation, Outcome, Parameters, Permille, Provider, RuleVersion, SeatSet,
    SignedTransaction, Task, TaskId, Text, Transaction, TransactionId, TreasuryStream,
    ValidatorKeys, View, Weight,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) const CHAIN: ChainId = ChainId(7);
const START: Millis = Millis(1_000_000);
const BLOCK: Duration = Duration::from_millis(100);

pub(crate) fn permille(thousandths: u16) -> Permille {
    Permille::new(thousandths).unwrap()
}

pub(crate) fn person(seed: u8) -> Keypair {
    Keypair::ed25519([seed; 32])
}

fn parameters(market: MarketParameters) -> Parameters {
    Parameters {
        epoch_blocks: 32,
        seats: 4,
        minimum_stake: Amount::whole(100),
        unbonding: Millis(60_000),
        evidence_epochs: 8,
        block_weight: Weight(4_000_000),
        minimum_base_fee: Amount(1_000_000_000),
        burned_fee: permille(500),
        account_reserve: Amount(10_000_000_000_000_000),
        entry_reserve: Amount(20_000_000_000_000_000),
        conflict_slash: permille(50),
        missed_slash: permille(10),
        missed_limit: permille(500),
        jail: Millis(10_000),
        reporter_share: permille(100),
        emission: Emission { first_year: Amount::whole(1_000_000), kept: permille(850) },
        market,
    }
}

fn validator(number: u8) -> GenesisValidator {
    let (owner, secret) = (person(100 + number), PrivateKey::from_seed(u64::from(number)));
    let (beacon, operator) = (BeaconKeypair::from_seed([number; 32]), owner.address());
    let keys = ValidatorKeys {
        consensus: ConsensusKey(secret.public_key().as_ref().try_into().unwrap()),
        consensus_possession: prove_ed25519_possession(&secret.encode_fixed(), CHAIN.0, &operator),
        beacon: beacon.public_key(),
        beacon_possession: beacon.prove_possession(CHAIN.0, &operator),
    };
    let (host, commission) = ("127.0.0.1:4000".parse().unwrap(), permille(100));
    GenesisValidator { operator, keys, host, commission, stake: Amount::whole(1_000) }
}

fn genesis(market: MarketParameters) -> Genesis {
    let people = (0..4).map(|number| 100 + number).chain(1..10);
    let allocations = people.map(|seed| {
        let account = person(seed).address();
        Allocation { account, amount: Amount::whole(10_000), vesting: None }
    });
    let genesis = Genesis {
        chain: CHAIN,
        name: Text::new("test").unwrap(),
        time: START,
        rules: RuleVersion(1),
        parameters: parameters(market),
        allocations: List::new(allocations.collect()).unwrap(),
        treasury: TreasuryStream {
            account: person(1).address(),
            amount: Amount::ZERO,
            start: START,
            end: START,
        },
        validators: List::new((0..4).map(validator).collect()).unwrap(),
    };
    check_genesis(&genesis).unwrap();
    genesis
}

struct Ledger {
    genesis: Genesis,
    state: Memory,
    height: Height,
    time: Millis,
    view: View,
    blocks: Vec<Final>,
    /// What was said in each block.
    said: BTreeMap<Height, Vec<Transaction>>,
    waiting: Vec<(u64, Keypair, MarketOperation)>,
    done: Vec<(u64, TransactionId, Outcome)>,
    tickets: u64,
}

impl Ledger {
    fn seats(&self, epoch: opengpu_types::Epoch) -> SeatSet {
        let found = Overlay::new(&self.state).find::<tables::Seats>(epoch).unwrap();
        found.unwrap_or_else(|| genesis_seats(&self.genesis).unwrap()[0].clone())
    }

    fn context(&self, time: Millis) -> BlockContext {
        let (height, parameters) = (self.height.next(), &self.genesis.parameters);
        let epoch = epoch_of(height, parameters);
        let first = height == Height(1) || epoch != epoch_of(self.height, parameters);
        let parent_view = if first { View(0) } else { self.view };
        let (seats, view) = (self.seats(epoch), View(parent_view.0 + 1));
        let seat = &seats.seats[leader(&seats, view).unwrap()];
        let beacon = BeaconSignature([u8::try_from(height.0 % 251).unwrap(); 48]);
        let (chain, leader) = (CHAIN, seat.consensus);
        BlockContext { chain, height, view, parent_view, leader, time, beacon }
    }

    /// A block with everything that waits.
    fn block(&mut self, time: Millis) {
        let context = self.context(time.max(self.time.plus(Millis(1))));
        let waiting = std::mem::take(&mut self.waiting);
        let mut execution = Execution::new(&self.state, context);
        execution.begin(&self.genesis).unwrap();
        let mut nonces = BTreeMap::<Address, u64>::new();
        for (ticket, key, operation) in waiting {
            let account = Overlay::new(&self.state).find::<tables::Accounts>(key.address());
            let nonce = account.unwrap().map_or(0, |account| account.nonce.0);
            let more = nonces.entry(key.address()).or_default();
            // What is a duty is free.
            let ended = [Amount::ZERO, Amount::ONE].into_iter().find_map(|most| {
                let signed = sign(&key, nonce + *more, context.height, most, operation.clone());
                match execution.apply(&signed) {
                    Ok(receipt) => Some((signed.transaction, receipt.outcome)),
                    Err(Rejection::Invalid(_)) => None,
                    Err(Rejection::Halt(halt)) => panic!("{halt}"),
                }
            });
            let (said, outcome) = ended.unwrap_or_else(|| panic!("no block takes {operation:?}"));
            let id = said.id(CHAIN);
            self.said.entry(context.height).or_default().push(said);
            *more += 1;
            self.done.push((ticket, id, outcome));
        }
        let block = execution.finish().map_err(|(_, halt)| halt).unwrap();
        let before = self.state.clone();
        self.state.commit(block.changes.clone());
        if let Err(breach) = invariant::check_all(&before, &block, &self.state) {
            panic!("block {}: {breach}", context.height);
        }
        (self.height, self.time, self.view) = (context.height, context.time, context.view);
        let events = block.receipts.iter().flat_map(|receipt| receipt.events.iter().cloned());
        let (height, time, events) = (context.height, context.time, events.collect());
        self.blocks.push(Final { height, time, events });
    }
}

fn sign(
    key: &Keypair,
    nonce: u64,
    height: Height,
    max_fee: Amount,
    operation: MarketOperation,
) -> SignedTransaction {
    let transaction = Transaction {
        sender: key.address(),
        nonce: Nonce(nonce),
        valid_until: Height(height.0 + 10),
        max_fee,
        tip: Amount::ZERO,
        sponsor: None,
        operations: List::new(vec![Operation::Market(operation)]).unwrap(),
        memo: Text::default(),
    };
    let message = transaction.signing_message(CHAIN);
    let signer = Authorization { key: key.public_key(), signature: key.sign_bytes(&message) };
    SignedTransaction { signer, sponsor: None, transaction }
}

/// A chain that goes on by itself.
pub(crate) struct Village {
    ledger: Mutex<Ledger>,
    changed: Condvar,
    stop: AtomicBool,
}

/// Stops the chain at the end of a test.
pub(crate) struct Running(pub(crate) Arc<Village>, Option<JoinHandle<()>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        let _ = self.1.take().unwrap().join();
    }
}

impl Village {
    pub(crate) fn start() -> Running {
        Self::start_with(MarketParameters::UNAUDITED)
    }

    /// With another market.
    pub(crate) fn start_with(market: MarketParameters) -> Running {
        let ledger = Ledger {
            genesis: genesis(market),
            state: Memory::default(),
            height: Height(0),
            time: START,
            view: View(0),
            blocks: Vec::new(),
            said: BTreeMap::new(),
            waiting: Vec::new(),
            done: Vec::new(),
            tickets: 0,
        };
        let village = Arc::new(Self {
            ledger: Mutex::new(ledger),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
        });
        village.lock().block(START.plus(Millis(1)));
        let own = Arc::clone(&village);
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            while !own.stop.load(Ordering::SeqCst) {
                std::thread::sleep(BLOCK);
                let elapsed = Millis(u64::try_from(began.elapsed().as_millis()).unwrap());
                own.lock().block(START.plus(elapsed));
                own.changed.notify_all();
            }
        });
        Running(village, Some(thread))
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// Does something, in the next block.
    pub(crate) fn act(
        &self,
        key: &Keypair,
        operation: MarketOperation,
    ) -> Option<(TransactionId, Outcome)> {
        let mut ledger = self.lock();
        ledger.tickets += 1;
        let ticket = ledger.tickets;
        ledger.waiting.push((ticket, key.clone(), operation));
        while !self.stop.load(Ordering::SeqCst) {
            if let Some(place) = ledger.done.iter().position(|(number, ..)| *number == ticket) {
                let (_, id, outcome) = ledger.done.remove(place);
                return Some((id, outcome));
            }
            ledger = self.changed.wait_timeout(ledger, Duration::from_secs(1)).unwrap().0;
        }
        None
    }

    pub(crate) fn task(&self, id: TaskId) -> Task {
        Overlay::new(&self.lock().state).find::<tables::Tasks>(id).unwrap().unwrap()
    }

    pub(crate) fn provider(&self, key: &Keypair) -> Option<Provider> {
        Overlay::new(&self.lock().state).find::<tables::Providers>(key.address()).unwrap()
    }

    pub(crate) fn balance(&self, key: &Keypair) -> Amount {
        let account = Overlay::new(&self.lock().state).find::<tables::Accounts>(key.address());
        account.unwrap().map_or(Amount::ZERO, |account| account.balance)
    }

    pub(crate) fn entry(&self, key: &Key) -> Option<Entry> {
        let ledger = self.lock();
        ledger.state.iter().find(|(found, _)| *found == key).map(|(_, entry)| entry.clone())
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().blocks.iter().flat_map(|block| block.events.clone()).collect()
    }

    /// Waits until something is so.
    pub(crate) fn until<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = found() {
                return found;
            }
            assert!(began.elapsed() < Duration::from_secs(180), "it never came: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// One account on it.
pub(crate) struct Account {
    pub(crate) village: Arc<Village>,
    pub(crate) key: Keypair,
}

impl Chain for Account {
    fn id(&self) -> ChainId {
        CHAIN
    }

    fn account(&self) -> Address {
        self.key.address()
    }

    fn parameters(&self) -> Result<MarketParameters, ChainError> {
        Ok(self.village.lock().genesis.parameters.market)
    }

    fn entry(&self, key: &Key) -> Result<Option<Entry>, ChainError> {
        Ok(self.village.entry(key))
    }

    fn submit(&self, operation: MarketOperation) -> Result<Outcome, ChainError> {
        let done = self.village.act(&self.key, operation);
        done.map(|(_, outcome)| outcome).ok_or_else(|| ChainError("stopped".to_owned()))
    }

    fn tip(&self) -> Result<Final, ChainError> {
        let ledger = self.village.lock();
        Ok(Final { height: ledger.height, time: ledger.time, events: Vec::new() })
    }

    fn transactions(&self, height: Height) -> Result<Vec<Transaction>, ChainError> {
        Ok(self.village.lock().said.get(&height).cloned().unwrap_or_default())
    }

    fn next(&self, after: Height, patience: Duration) -> Result<Option<Final>, ChainError> {
        let find =
            |ledger: &Ledger| ledger.blocks.iter().find(|block| block.height > after).cloned();
        let ledger = self.village.lock();
        if let Some(block) = find(&ledger) {
            return Ok(Some(block));
        }
        let (ledger, _) = self.village.changed.wait_timeout(ledger, patience).unwrap();
        Ok(find(&ledger))
    }
}
