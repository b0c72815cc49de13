//! A network of nodes on the deterministic runtime: clock and links are simulated, nothing else.

use commonware_codec::EncodeFixed as _;
use commonware_consensus::{marshal::Identifier, types::Height as EngineHeight};
use commonware_cryptography::{
    Signer as _,
    ed25519::{PrivateKey, PublicKey},
};
use commonware_p2p::{
    Address as PeerAddress,
    simulated::{self, Link, Network, Oracle},
};
use commonware_parallel::Sequential;
use commonware_runtime::{Clock as _, Supervisor as _, deterministic};
use commonware_utils::{NZUsize, ordered::Map, probability};
use opengpu_crypto::{BeaconKeypair, Keypair, prove_ed25519_possession};
use opengpu_node::{
    Config, History, Node, NodeKeys, channels,
    committee::consensus_key,
    epochs::Timeouts,
    max_message,
    mempool::{Limits, Mempool},
    start, store,
};
use opengpu_types::{
    Account, Address, Allocation, Amount, Authorization, Block, ChainId, Emission, Entry, Epoch,
    Genesis, GenesisValidator, Height, Key, List, MarketParameters, Millis, NetworkAddress, Nonce,
    Operation, Parameters, Permille, RuleVersion, SeatSet, SignedTransaction, Text, Transaction,
    TreasuryStream, ValidatorKeys, Weight,
};
use std::{net::SocketAddr, sync::Arc, time::Duration};

pub(crate) const CHAIN: ChainId = ChainId(7_265);
pub(crate) const EPOCH_BLOCKS: u64 = 8;

/// A healthy regional network.
pub(crate) const GOOD: Link = Link {
    latency: Duration::from_millis(10),
    jitter: Duration::from_millis(5),
    success_rate: probability!(1.0),
};

pub(crate) type Context = deterministic::Context;

/// One validator and its keys.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) keys: NodeKeys,
    pub(crate) operator: Arc<Keypair>,
}

impl Member {
    pub(crate) fn new(index: u8) -> Self {
        let operator = Arc::new(Keypair::ed25519([100 + index; 32]));
        Self {
            keys: NodeKeys {
                consensus: PrivateKey::from_seed(1_000 + u64::from(index)),
                beacon: Arc::new(BeaconKeypair::from_seed([index; 32])),
                operator: Some(Arc::new(Keypair::clone(&operator).into())),
            },
            operator,
        }
    }

    pub(crate) fn public_key(&self) -> PublicKey {
        self.keys.consensus.public_key()
    }

    pub(crate) fn validator_keys(&self) -> ValidatorKeys {
        let (seed, operator) = (self.keys.consensus.encode_fixed(), self.operator.address());
        ValidatorKeys {
            consensus: consensus_key(&self.public_key()),
            consensus_possession: prove_ed25519_possession(&seed, CHAIN.0, &operator),
            beacon: self.keys.beacon.public_key(),
            beacon_possession: self.keys.beacon.prove_possession(CHAIN.0, &operator),
        }
    }
}

pub(crate) fn host(index: usize) -> NetworkAddress {
    NetworkAddress(SocketAddr::from(([127, 0, 0, 1], 9_000 + u16::try_from(index).unwrap())))
}

fn permille(thousandths: u16) -> Permille {
    Permille::new(thousandths).unwrap()
}

fn parameters() -> Parameters {
    Parameters {
        epoch_blocks: EPOCH_BLOCKS,
        seats: 4,
        minimum_stake: Amount::whole(1_000),
        unbonding: Millis(100_000),
        evidence_epochs: 16,
        block_weight: Weight(100_000_000),
        minimum_base_fee: Amount(1_000_000),
        burned_fee: permille(500),
        account_reserve: Amount(1_000),
        entry_reserve: Amount(1_000),
        conflict_slash: permille(50),
        missed_slash: permille(1),
        missed_limit: permille(900),
        jail: Millis(60_000),
        reporter_share: permille(50),
        emission: Emission { first_year: Amount::whole(100_000), kept: permille(900) },
        market: MarketParameters::UNAUDITED,
    }
}

/// Validators with stake, and accounts with tokens.
pub(crate) fn genesis(members: &[Member], accounts: &[Keypair]) -> Genesis {
    let owners = members.iter().map(|member| &*member.operator).chain(accounts);
    let allocations = owners
        .map(|owner| Allocation {
            account: owner.address(),
            amount: Amount::whole(10_000),
            vesting: None,
        })
        .collect();
    let validators = members
        .iter()
        .enumerate()
        .map(|(index, member)| GenesisValidator {
            operator: member.operator.address(),
            keys: member.validator_keys(),
            host: host(index),
            commission: permille(50),
            stake: Amount::whole(10_000),
        })
        .collect();
    Genesis {
        chain: CHAIN,
        name: Text::new("lab").unwrap(),
        time: Millis(0),
        rules: RuleVersion(1),
        parameters: parameters(),
        allocations: List::new(allocations).unwrap(),
        treasury: TreasuryStream {
            account: Address::new([9; 20]),
            amount: Amount::whole(1_000),
            start: Millis(0),
            end: Millis(1_000_000_000),
        },
        validators: List::new(validators).unwrap(),
    }
}

/// A signed transaction with a fee that surely suffices.
pub(crate) fn sign(from: &Keypair, nonce: u64, operations: Vec<Operation>) -> SignedTransaction {
    let transaction = Transaction {
        sender: from.address(),
        nonce: Nonce(nonce),
        valid_until: Height(1_000_000),
        max_fee: Amount::whole(1),
        tip: Amount::ZERO,
        sponsor: None,
        operations: List::new(operations).unwrap(),
        memo: Text::new("").unwrap(),
    };
    let signature = from.sign_bytes(&transaction.signing_message(CHAIN));
    let signer = Authorization { key: from.public_key(), signature };
    SignedTransaction { transaction, signer, sponsor: None }
}

pub(crate) fn transfer(
    from: &Keypair,
    nonce: u64,
    to: Address,
    amount: Amount,
) -> SignedTransaction {
    sign(from, nonce, vec![Operation::Transfer { to, amount }])
}

/// The network.
pub(crate) struct Lab {
    pub(crate) context: Context,
    pub(crate) genesis: Arc<Genesis>,
    pub(crate) oracle: Oracle<PublicKey, Context>,
    /// Everyone may connect, with a seat or without.
    guests: Map<PublicKey, PeerAddress>,
}

impl Lab {
    /// A network in which `members` are linked to each other.
    pub(crate) async fn new(context: Context, genesis: Genesis, members: &[Member]) -> Self {
        let (network, oracle) = Network::new(
            context.child("network"),
            simulated::Config {
                max_size: max_message(),
                max_peers_per_set: NZUsize!(16),
                disconnect_on_block: true,
                tracked_peer_sets: NZUsize!(4),
            },
        );
        network.start();
        let guests = members.iter().enumerate();
        let guests =
            guests.map(|(index, it)| (it.public_key(), PeerAddress::Symmetric(host(index).0)));
        let guests = Map::from_iter_dedup(guests);
        let lab = Self { context, genesis: Arc::new(genesis), oracle, guests };
        for a in members {
            for b in members {
                if a.public_key() != b.public_key() {
                    let (a, b) = (a.public_key(), b.public_key());
                    lab.oracle.add_link(a, b, GOOD).await.unwrap();
                }
            }
        }
        lab
    }

    /// A network of seats whose nodes all run.
    pub(crate) async fn running(
        context: &Context,
        members: &[Member],
        accounts: &[Keypair],
    ) -> (Self, Vec<Running>) {
        let lab = Self::new(context.child("lab"), genesis(members, accounts), members).await;
        let mut nodes = Vec::new();
        for member in members {
            nodes.push(lab.start(member).await);
        }
        (lab, nodes)
    }

    /// Starts, or starts again, the node of a member on its own disk.
    pub(crate) async fn start(&self, member: &Member) -> Running {
        self.start_on("first", member, History::All).await
    }

    /// Starts the node of a member on one of its disks.
    pub(crate) async fn start_on(&self, disk: &str, member: &Member, history: History) -> Running {
        let me = member.public_key();
        let control = self.oracle.control(me.clone());
        let mut opened = Vec::new();
        for (channel, quota) in channels() {
            opened.push(control.register(channel, quota).await.unwrap());
        }
        let mempool = Mempool::new(Limits::default());
        let config = Config {
            genesis: self.genesis.clone(),
            keys: member.keys.clone(),
            manager: self.oracle.socket_manager(),
            blocker: control,
            strategy: Sequential,
            mempool: mempool.clone(),
            partition_prefix: format!("{disk}-{me}"),
            guests: self.guests.clone(),
            timeouts: Timeouts::default(),
            history,
            cache_bytes: 1 << 20,
            records: None,
        };
        let Ok(channels) = opened.try_into() else { panic!("a node has as many channels") };
        let context = self.context.child("node").with_attribute("key", &me);
        let node = Box::pin(start(context, config, channels)).await.unwrap();
        Running { node, mempool }
    }
}

/// A running node.
pub(crate) struct Running {
    pub(crate) node: Node<Context, Sequential>,
    pub(crate) mempool: Mempool,
}

impl Running {
    /// Kills the node and everything below it; its disk stays.
    pub(crate) async fn stop(self, context: &Context) {
        self.node.handle.abort();
        let _ = self.node.handle.await;
        context.sleep(Duration::from_millis(1)).await;
    }

    pub(crate) async fn height(&self) -> u64 {
        self.node.marshal.get_processed().await.map_or(0, |processed| processed.height().get())
    }

    pub(crate) async fn wait_for(&self, context: &Context, height: u64) {
        while self.height().await < height {
            context.sleep(Duration::from_millis(50)).await;
        }
    }

    pub(crate) async fn block(&self, height: u64) -> Option<Block> {
        let identifier = Identifier::Height(EngineHeight::new(height));
        let block = self.node.marshal.get_block(identifier).await?;
        Some(block.inner().wire().clone())
    }

    pub(crate) async fn entry(&self, key: Key) -> Option<Entry> {
        let databases = self.node.state.subscribe_databases().await;
        store::get(&*databases.read().await, &key).await.unwrap()
    }

    pub(crate) async fn account(&self, owner: Address) -> Account {
        match self.entry(Key::Account(owner)).await {
            Some(Entry::Account(account)) => account,
            other => panic!("no account of {owner}: {other:?}"),
        }
    }

    pub(crate) async fn seats(&self, epoch: u64) -> SeatSet {
        match self.entry(Key::Seats(Epoch(epoch))).await {
            Some(Entry::Seats(seats)) => seats,
            other => panic!("no seats of epoch {epoch}: {other:?}"),
        }
    }
}
