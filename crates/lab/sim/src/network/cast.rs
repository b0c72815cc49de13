//! Who takes part: validators with their keys, accounts with tokens, and the genesis of them all.

use commonware_codec::EncodeFixed as _;
use commonware_cryptography::{
    Signer as _,
    ed25519::{PrivateKey, PublicKey},
};
use opengpu_crypto::{BeaconKeypair, Keypair, prove_ed25519_possession};
use opengpu_node::{NodeKeys, committee::consensus_key};
use opengpu_types::{
    Address, Allocation, Amount, Authorization, ChainId, Emission, Genesis, GenesisValidator,
    Height, List, MarketOperation, MarketParameters, Millis, NetworkAddress, Nonce, Operation,
    Parameters, Permille, RuleVersion, SignedTransaction, Text, Transaction, TreasuryStream,
    ValidatorKeys, Weight,
};
use std::{net::SocketAddr, sync::Arc};

pub(crate) const CHAIN: ChainId = ChainId(7_265);
/// The market: whoever dies is soon missed, for a run is short.
pub(crate) const RULES: MarketParameters =
    MarketParameters { silence: Millis(10_000), ..MarketParameters::UNAUDITED };

/// One validator.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) keys: NodeKeys,
    pub(crate) operator: Arc<Keypair>,
}

impl Member {
    pub(crate) fn new(index: u8) -> Self {
        let operator = Arc::new(Keypair::ed25519([index | 0x40; 32]));
        let keys = NodeKeys {
            consensus: PrivateKey::from_seed(u64::from(index)),
            beacon: Arc::new(BeaconKeypair::from_seed([index; 32])),
            operator: Some(Arc::new(Keypair::clone(&operator).into())),
        };
        Self { keys, operator }
    }

    pub(crate) fn public_key(&self) -> PublicKey {
        self.keys.consensus.public_key()
    }

    fn validator_keys(&self) -> ValidatorKeys {
        let (seed, operator) = (self.keys.consensus.encode_fixed(), self.operator.address());
        ValidatorKeys {
            consensus: consensus_key(&self.public_key()),
            consensus_possession: prove_ed25519_possession(&seed, CHAIN.0, &operator),
            beacon: self.keys.beacon.public_key(),
            beacon_possession: self.keys.beacon.prove_possession(CHAIN.0, &operator),
        }
    }

    pub(crate) fn host(&self) -> NetworkAddress {
        // Nobody dials it: the links are simulated.
        NetworkAddress(SocketAddr::from(([127, 0, 0, 1], 9_000)))
    }
}

/// Everyone.
#[derive(Clone, Debug)]
pub(crate) struct Cast {
    pub(crate) members: Vec<Member>,
    pub(crate) accounts: Vec<Keypair>,
}

impl Cast {
    pub(crate) fn new(members: u8, accounts: u8) -> Self {
        Self {
            members: (0..members).map(Member::new).collect(),
            accounts: (0..accounts).map(|index| Keypair::ed25519([index | 0x80; 32])).collect(),
        }
    }

    /// The beginning of their network.
    pub(crate) fn genesis(&self, epoch_blocks: u64, missed_limit: u16) -> Genesis {
        let owners = self.members.iter().map(|member| &*member.operator).chain(&self.accounts);
        let allocations = owners.map(|owner| Allocation {
            account: owner.address(),
            amount: Amount::whole(10_000),
            vesting: None,
        });
        let validators = self.members.iter().map(|member| GenesisValidator {
            operator: member.operator.address(),
            keys: member.validator_keys(),
            host: member.host(),
            commission: permille(50),
            stake: Amount::whole(10_000),
        });
        Genesis {
            chain: CHAIN,
            name: text("simulation"),
            time: Millis(0),
            rules: RuleVersion(1),
            parameters: parameters(self.members.len(), epoch_blocks, missed_limit),
            allocations: list(allocations.collect()),
            treasury: TreasuryStream {
                account: Address::new([9; 20]),
                amount: Amount::whole(1_000),
                start: Millis(0),
                end: Millis(1_000_000_000),
            },
            validators: list(validators.collect()),
        }
    }
}

fn permille(thousandths: u16) -> Permille {
    Permille::new(thousandths).expect("parts of a thousand")
}

fn text<const N: usize>(text: &str) -> Text<N> {
    Text::new(text).expect("a short text")
}

fn list<T, const N: usize>(items: Vec<T>) -> List<T, N> {
    List::new(items).expect("a handful")
}

fn parameters(members: usize, epoch_blocks: u64, missed_limit: u16) -> Parameters {
    Parameters {
        epoch_blocks,
        seats: u32::try_from(members).expect("a handful"),
        minimum_stake: Amount::whole(1_000),
        unbonding: Millis(500_000),
        evidence_epochs: 64,
        block_weight: Weight(100_000_000),
        minimum_base_fee: Amount(1_000_000),
        burned_fee: permille(500),
        account_reserve: Amount(1_000),
        entry_reserve: Amount(1_000),
        conflict_slash: permille(50),
        missed_slash: permille(1),
        missed_limit: permille(missed_limit),
        jail: Millis(20_000),
        reporter_share: permille(50),
        emission: Emission { first_year: Amount::whole(100_000), kept: permille(900) },
        market: RULES,
    }
}

/// A signed transfer with a fee that surely suffices.
pub(crate) fn transfer(
    from: &Keypair,
    nonce: Nonce,
    to: Address,
    amount: Amount,
) -> SignedTransaction {
    signed(from, nonce, Operation::Transfer { to, amount })
}

/// A signed operation on the market.
pub(crate) fn market(
    from: &Keypair,
    nonce: Nonce,
    operation: MarketOperation,
) -> SignedTransaction {
    signed(from, nonce, Operation::Market(operation))
}

fn signed(from: &Keypair, nonce: Nonce, operation: Operation) -> SignedTransaction {
    let transaction = Transaction {
        sender: from.address(),
        nonce,
        valid_until: Height(1_000_000),
        max_fee: Amount::ONE,
        tip: Amount::ZERO,
        sponsor: None,
        operations: list(vec![operation]),
        memo: text(""),
    };
    let signature = from.sign_bytes(&transaction.signing_message(CHAIN));
    let signer = Authorization { key: from.public_key(), signature };
    SignedTransaction { transaction, signer, sponsor: None }
}
