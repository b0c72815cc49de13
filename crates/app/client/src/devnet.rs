//! A network for one machine: genesis and all keys, made from a generator.
//!
//! It differs from a real network by its parameters alone: short epochs, small stakes, short
//! unbonding and jail. The code that runs it is the same.

use crate::{genesis_file::GenesisFileError, node_keys::NodeKeys};
use opengpu_crypto::Keypair;
use opengpu_ledger::check_genesis;
use opengpu_types::{
    Allocation, Amount, ChainId, Emission, Genesis, GenesisValidator, List, MarketParameters,
    Millis, NetworkAddress, Parameters, Permille, RuleVersion, Text, TreasuryStream, Weight,
};
use rand_core::CryptoRng;
use std::net::{Ipv4Addr, SocketAddr};

/// Most validators of a network on one machine.
pub const MAX_VALIDATORS: u16 = 32;
/// Name of the wallet from which `dev faucet` pays.
pub const FAUCET: &str = "faucet";
/// Wallets for users, with tokens from the first block.
pub const USERS: [&str; 2] = ["alice", "bob"];

const YEAR: Millis = Millis(365 * 24 * 60 * 60 * 1_000);
const FAUCET_TOKENS: Amount = Amount::whole(1_000_000);
const USER_TOKENS: Amount = Amount::whole(10_000);
const OPERATOR_TOKENS: Amount = Amount::whole(1_000);
const STAKE: Amount = Amount::whole(10_000);
const TREASURY: Amount = Amount::whole(100_000);

/// What kind of network to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How many validators, 1 to [`MAX_VALIDATORS`].
    pub validators: u16,
    /// Port of the first node's peer-to-peer network; the others follow.
    pub first_port: u16,
    /// Time of the genesis block.
    pub time: Millis,
}

impl Plan {
    /// Validators on the default ports.
    pub const fn new(validators: u16, time: Millis) -> Self {
        Self { validators, first_port: 26_700, time }
    }

    /// Where node `index` listens for other nodes.
    pub const fn host(&self, index: u16) -> NetworkAddress {
        let port = self.first_port.saturating_add(index);
        NetworkAddress(SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port))
    }
}

/// A validator of the network.
#[derive(Clone, Debug)]
pub struct DevValidator {
    /// Keys of its node.
    pub keys: NodeKeys,
    /// Its operator account.
    pub operator: Keypair,
    /// Where its node listens.
    pub host: NetworkAddress,
}

/// A network with all its keys.
#[derive(Clone, Debug)]
pub struct DevNetwork {
    /// The beginning.
    pub genesis: Genesis,
    /// Its validators, in the sequence of their ports.
    pub validators: Vec<DevValidator>,
    /// Funded accounts by name: the faucet and the users.
    pub wallets: Vec<(&'static str, Keypair)>,
}

impl DevNetwork {
    /// Makes a network; the same generator gives the same network.
    pub fn generate(rng: &mut impl CryptoRng, plan: &Plan) -> Result<Self, GenesisFileError> {
        // Half of the range of numbers that JSON carries exactly is enough to be unique.
        let chain = ChainId(u64::from(rng.next_u32()).saturating_add(1 << 32));
        let validators: Vec<_> = (0..plan.validators.min(MAX_VALIDATORS))
            .map(|index| DevValidator {
                keys: NodeKeys::generate(rng),
                operator: Keypair::generate_ed25519(rng),
                host: plan.host(index),
            })
            .collect();
        let names = std::iter::once(FAUCET).chain(USERS);
        let wallets: Vec<_> = names.map(|name| (name, Keypair::generate_ed25519(rng))).collect();
        let genesis = genesis(chain, plan, &validators, &wallets);
        check_genesis(&genesis)?;
        Ok(Self { genesis, validators, wallets })
    }
}

fn genesis(
    chain: ChainId,
    plan: &Plan,
    validators: &[DevValidator],
    wallets: &[(&'static str, Keypair)],
) -> Genesis {
    let free = |keypair: &Keypair, amount| Allocation {
        account: keypair.address(),
        amount,
        vesting: None,
    };
    let funded = wallets.iter().map(|(name, keypair)| match *name {
        FAUCET => free(keypair, FAUCET_TOKENS),
        _ => free(keypair, USER_TOKENS),
    });
    let operators = validators.iter().map(|it| free(&it.operator, OPERATOR_TOKENS));
    let faucet = wallets.first().expect("the faucet is the first wallet");
    let seated = validators.iter().map(|it| GenesisValidator {
        operator: it.operator.address(),
        keys: it.keys.registration(chain, &it.operator.address()),
        host: it.host,
        commission: Permille::constant(50),
        stake: STAKE,
    });
    Genesis {
        chain,
        name: Text::new("dev").expect("a short text"),
        time: plan.time,
        rules: RuleVersion(1),
        parameters: parameters(plan.validators),
        allocations: List::new(funded.chain(operators).collect()).expect("few accounts"),
        treasury: TreasuryStream {
            account: faucet.1.address(),
            amount: TREASURY,
            start: plan.time,
            end: plan.time.plus(YEAR),
        },
        validators: List::new(seated.collect()).expect("at most 32 validators"),
    }
}

/// Parameters of a network on one machine that begins with so many validators: there is room for
/// one more, and everything happens within a minute or two.
pub fn parameters(validators: u16) -> Parameters {
    let seats = u32::from(validators.min(MAX_VALIDATORS)).saturating_add(1);
    Parameters {
        epoch_blocks: u64::from(seats).saturating_mul(3),
        seats,
        minimum_stake: Amount::whole(100),
        unbonding: Millis(60_000),
        evidence_epochs: 64,
        block_weight: Weight(8_000_000),
        minimum_base_fee: Amount(1_000_000_000),
        burned_fee: Permille::constant(500),
        account_reserve: Amount(10_000_000_000_000_000),
        entry_reserve: Amount(20_000_000_000_000_000),
        conflict_slash: Permille::constant(50),
        missed_slash: Permille::constant(1),
        missed_limit: Permille::constant(500),
        jail: Millis(10_000),
        reporter_share: Permille::constant(50),
        emission: Emission { first_year: Amount::whole(1_000_000), kept: Permille::constant(850) },
        market: MarketParameters::LOCAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::genesis_file::first_seats;
    use rand::{SeedableRng as _, rngs::StdRng};

    fn network(seed: u64, validators: u16) -> Result<DevNetwork, GenesisFileError> {
        let plan = Plan::new(validators, Millis(1_700_000_000_000));
        DevNetwork::generate(&mut StdRng::seed_from_u64(seed), &plan)
    }

    #[test]
    fn the_same_generator_gives_the_same_network_and_another_one_another() {
        let digest = |seed| network(seed, 4).unwrap().genesis.digest();
        assert_eq!(digest(1), digest(1));
        assert_ne!(digest(1), digest(2));
    }

    #[test]
    fn every_validator_is_seated_from_the_first_epoch() {
        let network = network(1, 4).unwrap();
        let first = first_seats(&network.genesis).unwrap();
        assert_eq!(first.seats.len(), 4);
        for validator in &network.validators {
            let seat = first.seat(&validator.keys.consensus_key()).unwrap();
            assert_eq!(seat.validator, validator.operator.address());
            assert_eq!(seat.host, validator.host);
        }
    }

    #[test]
    fn a_network_without_validators_is_refused() {
        assert!(matches!(network(1, 0), Err(GenesisFileError::Invalid(_))));
    }

    #[test]
    fn there_is_room_for_validators_that_come_later() {
        let network = network(1, 4).unwrap();
        assert!(network.genesis.parameters.seats > 4);
        assert_eq!(network.wallets.len(), 3);
    }
}
