//! A network of four validators in memory, and people with keys.

use commonware_codec::EncodeFixed as _;
use commonware_cryptography::{Signer as _, ed25519::PrivateKey};
use opengpu_crypto::{BeaconKeypair, Keypair, prove_ed25519_possession};
use opengpu_ledger::{
    BlockContext, Executed, Execution, Invalid, Memory, Overlay, Rejection, Table, check_genesis,
    epoch_of, genesis_seats, invariant, is_last_of_epoch, leader, tables,
};
use opengpu_types::{
    Account, Address, Allocation, Amount, Authorization, BeaconSignature, ChainId, ConsensusKey,
    Emission, Entry, Epoch, Event, Evidence, Failure, Genesis, GenesisValidator, Height, Key, List,
    MarketParameters, Millis, NetworkAddress, Nonce, Operation, Outcome, Parameters, Permille,
    Receipt, RuleVersion, SeatSet, SignedTransaction, Text, Transaction, TreasuryStream,
    UnbondingId, Validator, ValidatorKeys, VestingTerms, View, Vote, VoteKind, Weight,
};

pub(crate) const CHAIN: ChainId = ChainId(7);
pub(crate) const START: Millis = Millis(1_000_000);

pub(crate) fn permille(thousandths: u16) -> Permille {
    Permille::new(thousandths).unwrap()
}

pub(crate) fn parameters() -> Parameters {
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
        market: MarketParameters::UNAUDITED,
    }
}

/// An ed25519 account.
pub(crate) fn person(seed: u8) -> Keypair {
    Keypair::ed25519([seed; 32])
}

pub(crate) fn alice() -> Keypair {
    person(1)
}

pub(crate) fn bob() -> Keypair {
    person(2)
}

/// Has a wallet key.
pub(crate) fn carol() -> Keypair {
    Keypair::secp256k1([3; 32]).unwrap()
}

/// Her allocation vests.
pub(crate) fn vera() -> Keypair {
    person(4)
}

/// Has no account.
pub(crate) fn stranger() -> Keypair {
    person(5)
}

/// The operator of a validator.
pub(crate) fn operator(place: u8) -> Keypair {
    person(100 + place)
}

fn consensus_secret(number: u8) -> PrivateKey {
    PrivateKey::from_seed(u64::from(number))
}

pub(crate) fn consensus_key(number: u8) -> ConsensusKey {
    ConsensusKey(consensus_secret(number).public_key().as_ref().try_into().unwrap())
}

pub(crate) fn beacon_secret(number: u8) -> BeaconKeypair {
    BeaconKeypair::from_seed([number; 32])
}

/// Keys that an operator registers; genesis uses those of 0 to 3 for the operators of that number.
pub(crate) fn validator_keys(number: u8, owner: &Keypair) -> ValidatorKeys {
    let (beacon, operator) = (beacon_secret(number), owner.address());
    let seed = consensus_secret(number).encode_fixed();
    ValidatorKeys {
        consensus: consensus_key(number),
        consensus_possession: prove_ed25519_possession(&seed, CHAIN.0, &operator),
        beacon: beacon.public_key(),
        beacon_possession: beacon.prove_possession(CHAIN.0, &operator),
    }
}

pub(crate) fn host() -> NetworkAddress {
    "127.0.0.1:4000".parse().unwrap()
}

pub(crate) fn genesis() -> Genesis {
    let operators: Vec<Keypair> = (0..4).map(operator).collect();
    let free = |key: &Keypair| Allocation {
        account: key.address(),
        amount: Amount::whole(10_000),
        vesting: None,
    };
    let mut allocations: Vec<_> = operators.iter().map(free).collect();
    allocations.extend([alice(), bob(), carol()].iter().map(free));
    allocations.push(Allocation {
        account: vera().address(),
        amount: Amount::whole(1_000),
        vesting: Some(VestingTerms {
            start: START,
            cliff: Millis(START.0 + 10_000),
            end: Millis(START.0 + 100_000),
        }),
    });
    let validators = operators.iter().zip(0u8..).map(|(key, number)| GenesisValidator {
        operator: key.address(),
        keys: validator_keys(number, key),
        host: host(),
        commission: permille(100),
        stake: Amount::whole(1_000),
    });
    Genesis {
        chain: CHAIN,
        name: Text::new("test").unwrap(),
        time: START,
        rules: RuleVersion(1),
        parameters: parameters(),
        allocations: List::new(allocations).unwrap(),
        treasury: TreasuryStream {
            account: bob().address(),
            amount: Amount::ZERO,
            start: START,
            end: START,
        },
        validators: List::new(validators.collect()).unwrap(),
    }
}

/// Adds the validator of that number to the beginning of a network.
pub(crate) fn add_validator(genesis: &mut Genesis, number: u8) {
    let account = operator(number).address();
    let amount = Amount::whole(10_000);
    genesis.allocations.push(Allocation { account, amount, vesting: None }).unwrap();
    let validator = GenesisValidator {
        operator: account,
        keys: validator_keys(number, &operator(number)),
        host: host(),
        commission: permille(100),
        stake: Amount::whole(1_000),
    };
    genesis.validators.push(validator).unwrap();
}

/// A block as it was made.
#[derive(Clone)]
pub(crate) struct Recorded {
    pub(crate) context: BlockContext,
    /// The seats of its epoch.
    pub(crate) seats: SeatSet,
    /// What it announces of the next ones.
    pub(crate) next_seats: opengpu_types::Digest,
    pub(crate) transactions: Vec<SignedTransaction>,
    pub(crate) receipts: Vec<Receipt>,
}

#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) genesis: Genesis,
    pub(crate) state: Memory,
    pub(crate) height: Height,
    pub(crate) time: Millis,
    view: View,
    /// Time from block to block.
    pub(crate) step: Millis,
    /// Validators that miss their turns.
    pub(crate) absent: Vec<Address>,
    /// The last block.
    pub(crate) last: Vec<Receipt>,
    /// All blocks so far, for those who want them.
    pub(crate) recorded: Option<Vec<Recorded>>,
}

impl Network {
    /// After its first block.
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    /// After its first block, with a changed beginning.
    pub(crate) fn with(change: impl FnOnce(&mut Genesis)) -> Self {
        let mut genesis = genesis();
        change(&mut genesis);
        check_genesis(&genesis).unwrap();
        let mut network = Self {
            genesis,
            state: Memory::default(),
            height: Height(0),
            time: START,
            view: View(0),
            step: Millis(1_000),
            absent: Vec::new(),
            last: Vec::new(),
            recorded: None,
        };
        network.offer(&[]);
        network
    }

    /// With a record of its blocks from the first one on.
    pub(crate) fn recorded(change: impl FnOnce(&mut Genesis)) -> Self {
        let mut network = Self { state: Memory::default(), ..Self::with(change) };
        (network.height, network.time, network.view) = (Height(0), START, View(0));
        network.recorded = Some(Vec::new());
        network.offer(&[]);
        network
    }

    pub(crate) fn overlay(&self) -> Overlay<&Memory> {
        Overlay::new(&self.state)
    }

    pub(crate) fn find<T: Table>(&self, id: T::Id) -> Option<T::Value> {
        self.overlay().find::<T>(id).unwrap()
    }

    pub(crate) fn account(&self, key: &Keypair) -> Account {
        self.find::<tables::Accounts>(key.address()).unwrap()
    }

    pub(crate) fn balance(&self, key: &Keypair) -> Amount {
        self.account(key).balance
    }

    pub(crate) fn validator(&self, key: &Keypair) -> Validator {
        self.find::<tables::Validators>(key.address()).unwrap()
    }

    pub(crate) fn supply(&self) -> opengpu_types::Supply {
        self.find::<tables::Supplies>(()).unwrap()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        epoch_of(self.height, &self.genesis.parameters)
    }

    pub(crate) fn seats(&self, epoch: Epoch) -> SeatSet {
        match self.find::<tables::Seats>(epoch) {
            Some(seats) => seats,
            None => genesis_seats(&self.genesis).unwrap()[0].clone(),
        }
    }

    /// The next block's place in time.
    pub(crate) fn context(&self) -> BlockContext {
        let height = self.height.next();
        let epoch = epoch_of(height, &self.genesis.parameters);
        let first = height == Height(1) || epoch != self.epoch();
        let parent_view = if first { View(0) } else { self.view };
        let seats = self.seats(epoch);
        let (view, seat) = (parent_view.0 + 1..)
            .map(|view| (View(view), &seats.seats[leader(&seats, View(view)).unwrap()]))
            .find(|(_, seat)| !self.absent.contains(&seat.validator))
            .unwrap();
        BlockContext {
            chain: self.genesis.chain,
            height,
            view,
            parent_view,
            leader: seat.consensus,
            time: self.time.plus(self.step),
            beacon: BeaconSignature([u8::try_from(height.0 % 251).unwrap(); 48]),
        }
    }

    /// Executes a block without keeping it.
    pub(crate) fn execute(
        &self,
        context: BlockContext,
        transactions: &[SignedTransaction],
    ) -> (Executed, Vec<Result<Receipt, Invalid>>) {
        let mut execution = Execution::new(&self.state, context);
        execution.begin(&self.genesis).unwrap();
        let results = transactions.iter().map(|signed| match execution.apply(signed) {
            Ok(receipt) => Ok(receipt.clone()),
            Err(Rejection::Invalid(invalid)) => Err(invalid),
            Err(Rejection::Halt(halt)) => panic!("{halt}"),
        });
        let results = results.collect();
        (execution.finish().map_err(|(_, halt)| halt).unwrap(), results)
    }

    /// Offers transactions to the next block; the block is kept and checked.
    pub(crate) fn offer(
        &mut self,
        transactions: &[SignedTransaction],
    ) -> Vec<Result<Receipt, Invalid>> {
        let context = self.context();
        let (block, results) = self.execute(context, transactions);
        let before = self.state.clone();
        self.state.commit(block.changes.clone());
        if let Err(breach) = invariant::check_all(&before, &block, &self.state) {
            panic!("block {}: {breach}", context.height);
        }
        let seats = self.seats(epoch_of(context.height, &self.genesis.parameters));
        if let Some(recorded) = &mut self.recorded {
            let taken = transactions.iter().zip(&results).filter(|(_, result)| result.is_ok());
            recorded.push(Recorded {
                context,
                seats,
                next_seats: block.next_seats,
                transactions: taken.map(|(transaction, _)| transaction.clone()).collect(),
                receipts: block.receipts.clone(),
            });
        }
        (self.height, self.time, self.view) = (context.height, context.time, context.view);
        self.last = block.receipts;
        results
    }

    /// A block of transactions that it must take; says how they ended.
    pub(crate) fn block(&mut self, transactions: &[SignedTransaction]) -> Vec<Outcome> {
        self.offer(transactions).into_iter().map(|result| result.unwrap().outcome).collect()
    }

    /// A block with one transaction that must take effect; gives its receipt.
    pub(crate) fn apply(&mut self, transaction: SignedTransaction) -> Receipt {
        let receipt = self.offer(&[transaction]).remove(0).unwrap();
        assert_eq!(receipt.outcome, Outcome::Applied);
        receipt
    }

    /// A block with one transaction that must fail; says why.
    pub(crate) fn fail(&mut self, transaction: SignedTransaction) -> Failure {
        match self.block(&[transaction])[0] {
            Outcome::Failed { failure, .. } => failure,
            Outcome::Applied => panic!("it took effect"),
        }
    }

    /// A block with one transaction that it must refuse; says why.
    pub(crate) fn refuse(&mut self, transaction: SignedTransaction) -> Invalid {
        self.offer(&[transaction]).remove(0).unwrap_err()
    }

    pub(crate) fn idle(&mut self, blocks: u64) {
        for _ in 0..blocks {
            self.offer(&[]);
        }
    }

    /// Runs through the next block that is the last of its epoch.
    pub(crate) fn end_epoch(&mut self) {
        self.offer(&[]);
        while !is_last_of_epoch(self.height, &self.genesis.parameters) {
            self.offer(&[]);
        }
    }

    /// Runs until everything that unbonds now is mature in the next block.
    pub(crate) fn wait_for_unbonding(&mut self) {
        let end = self.time.plus(self.genesis.parameters.unbonding);
        let epoch = self.epoch().plus(3);
        while self.time < end || self.epoch() < epoch {
            self.offer(&[]);
        }
    }

    /// Numbers of the unbonding entries of an account.
    pub(crate) fn unbondings(&self, owner: &Keypair) -> Vec<UnbondingId> {
        let owned = self.state.iter().filter_map(|(key, entry)| match (key, entry) {
            (Key::Unbonding(id), Entry::Unbonding(entry)) => {
                (entry.delegator == owner.address()).then_some(*id)
            }
            _ => None,
        });
        owned.collect()
    }

    /// Waits for what unbonds now and lets its owner withdraw all of it; says what that cost.
    pub(crate) fn withdraw(&mut self, owner: &Keypair) -> Amount {
        self.wait_for_unbonding();
        let mut fees = Amount::ZERO;
        for id in self.unbondings(owner) {
            let withdraw = self.tx(owner, Operation::Withdraw { id }).sign();
            fees = fees.plus(self.apply(withdraw).fee).unwrap();
        }
        fees
    }

    pub(crate) fn tx(&self, key: &Keypair, operation: Operation) -> Draft {
        self.batch(key, vec![operation])
    }

    pub(crate) fn batch(&self, key: &Keypair, operations: Vec<Operation>) -> Draft {
        let account = self.find::<tables::Accounts>(key.address());
        Draft {
            transaction: Transaction {
                sender: key.address(),
                nonce: account.map_or(Nonce(0), |account| account.nonce),
                valid_until: Height(self.height.0 + 100),
                max_fee: Amount::ONE,
                tip: Amount::ZERO,
                sponsor: None,
                operations: List::new(operations).unwrap(),
                memo: Text::default(),
            },
            signer: key.clone(),
            sponsor: None,
            chain: CHAIN,
        }
    }

    /// All events of the last block.
    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.last.iter().flat_map(|receipt| &receipt.events)
    }
}

/// A transaction before its signatures.
pub(crate) struct Draft {
    pub(crate) transaction: Transaction,
    signer: Keypair,
    sponsor: Option<Keypair>,
    chain: ChainId,
}

impl Draft {
    /// Lets a key with a limit sign.
    pub(crate) fn by(mut self, network: &Network, spender: &Keypair) -> Self {
        let id = (self.transaction.sender, spender.address());
        let limit = network.find::<tables::SpendingLimits>(id);
        self.transaction.nonce = limit.map_or(Nonce(0), |limit| limit.nonce);
        self.signer = spender.clone();
        self
    }

    /// Lets the key sign that an account was given.
    pub(crate) fn with(mut self, key: &Keypair) -> Self {
        self.signer = key.clone();
        self
    }

    /// Lets the key sign that the sponsor was given.
    pub(crate) fn sponsored_with(mut self, key: &Keypair) -> Self {
        self.sponsor = Some(key.clone());
        self
    }

    pub(crate) fn sponsored(mut self, sponsor: &Keypair) -> Self {
        self.transaction.sponsor = Some(sponsor.address());
        self.sponsor = Some(sponsor.clone());
        self
    }

    /// Counts on from the nonce that the state expects.
    pub(crate) fn later(mut self, by: u64) -> Self {
        self.transaction.nonce.0 += by;
        self
    }

    pub(crate) fn change(mut self, change: impl FnOnce(&mut Transaction)) -> Self {
        change(&mut self.transaction);
        self
    }

    pub(crate) fn sign(self) -> SignedTransaction {
        let message = self.transaction.signing_message(self.chain);
        let authorize = |key: &Keypair| Authorization {
            key: key.public_key(),
            signature: key.sign_bytes(&message),
        };
        SignedTransaction {
            signer: authorize(&self.signer),
            sponsor: self.sponsor.as_ref().map(authorize),
            transaction: self.transaction,
        }
    }
}

pub(crate) fn transfer(to: &Keypair, amount: Amount) -> Operation {
    Operation::Transfer { to: to.address(), amount }
}

pub(crate) fn delegate(to: &Keypair, amount: Amount) -> Operation {
    Operation::Delegate { validator: to.address(), amount }
}

pub(crate) fn undelegate(from: &Keypair, amount: Amount) -> Operation {
    Operation::Undelegate { validator: from.address(), amount }
}

/// Two votes of one view, signed by the consensus key of that number under a chain's id.
pub(crate) fn votes(
    chain: ChainId,
    number: u8,
    (epoch, view): (Epoch, View),
    kinds: [VoteKind; 2],
) -> Evidence {
    let [first, second] = kinds.map(|kind| {
        let mut vote = Vote { kind, signature: [0; 64] };
        let (namespace, message) = vote.signed_parts(chain, epoch, view);
        let signature = consensus_secret(number).sign(&namespace, &message);
        vote.signature = signature.as_ref().try_into().unwrap();
        vote
    });
    Evidence { voter: consensus_key(number), epoch, view, first, second }
}
