//! The chain and the node that answers: status, blocks, epochs, validators, parameters, supply.

use super::form;
use commonware_codec::Encode as _;
use opengpu_types::{
    Address, Amount, AuditParameters, BeaconPublicKey, BeaconSignature, Block, ChainId,
    ConsensusKey, Digest, Emission, Epoch, Height, MarketParameters, Millis, NetworkAddress,
    Parameters, Permille, RuleVersion, Seat, SeatSet, Seed, SlashReason, Supply, TransactionId,
    TrialParameters, Validator, ValidatorStatus, View, Weight,
};
use serde::{Deserialize, Serialize};

/// Whether a node votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It has a seat in the running epoch.
    Validator,
    /// It follows the chain without a seat.
    Follower,
}

/// A node and its chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The network.
    #[serde(with = "form")]
    pub chain: ChainId,
    /// Its name.
    pub name: String,
    /// Digest of its genesis.
    #[serde(with = "form")]
    pub genesis: Digest,
    /// Last final block.
    #[serde(with = "form")]
    pub height: Height,
    /// First block whose receipts it has: transactions of earlier ones are unknown to it.
    #[serde(with = "form")]
    pub recorded_from: Height,
    /// Its block time.
    #[serde(with = "form")]
    pub time: Millis,
    /// The running epoch.
    #[serde(with = "form")]
    pub epoch: Epoch,
    /// The node's own key.
    #[serde(with = "form")]
    pub node: ConsensusKey,
    /// Whether it votes.
    pub role: Role,
    /// Seats in the running epoch.
    pub seats: u32,
    /// Other nodes that it is linked to now.
    pub connected_nodes: u32,
    /// Transactions that wait in it.
    pub mempool: u64,
    /// Whether it is still behind the chain.
    pub syncing: bool,
    /// Version of the program.
    pub version: String,
}

/// A final block.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockInfo {
    /// Its number.
    #[serde(with = "form")]
    pub height: Height,
    /// Digest of its header.
    #[serde(with = "form")]
    pub digest: Digest,
    /// Digest of the parent's header.
    #[serde(with = "form")]
    pub parent: Digest,
    /// Its epoch.
    #[serde(with = "form")]
    pub epoch: Epoch,
    /// View in which it was proposed.
    #[serde(with = "form")]
    pub view: View,
    /// Who proposed it.
    #[serde(with = "form")]
    pub leader: ConsensusKey,
    /// Block time.
    #[serde(with = "form")]
    pub time: Millis,
    /// Rules by which it was executed.
    #[serde(with = "form")]
    pub rules: RuleVersion,
    /// The beacon of this height.
    #[serde(with = "form")]
    pub beacon: BeaconSignature,
    /// Root over the current state.
    #[serde(with = "form")]
    pub state: Digest,
    /// Its transactions in order.
    #[serde(with = "form::items")]
    pub transactions: Vec<TransactionId>,
    /// Canonical encoding of the header.
    #[serde(with = "form")]
    pub header: Vec<u8>,
    /// Canonical encoding of the certificate, if this node keeps it.
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Vec<u8>>,
}

impl BlockInfo {
    /// A block as the contract shows it.
    pub fn new(block: &Block, certificate: Option<Vec<u8>>) -> Self {
        let header = &block.header;
        let ids = block.transactions.iter().map(|signed| signed.transaction.id(header.chain));
        Self {
            height: header.height,
            digest: header.digest(),
            parent: header.parent,
            epoch: header.epoch,
            view: header.view,
            leader: header.leader,
            time: header.time,
            rules: header.rules,
            beacon: header.beacon,
            state: header.state.root,
            transactions: ids.collect(),
            header: header.encode().to_vec(),
            certificate,
        }
    }
}

/// Data of the stream's event `block`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockEvent {
    /// Its number; also the id of the event.
    #[serde(with = "form")]
    pub height: Height,
    /// Digest of its header.
    #[serde(with = "form")]
    pub digest: Digest,
    /// Block time.
    #[serde(with = "form")]
    pub time: Millis,
    /// Number of its transactions.
    pub transactions: u32,
    /// Canonical encoding of the certificate; without one, a later block of the epoch made it
    /// final.
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<Vec<u8>>,
    /// Canonical encoding of the header.
    #[serde(with = "form")]
    pub header: Vec<u8>,
}

impl BlockEvent {
    /// Name of the event on the stream.
    pub const NAME: &'static str = "block";
}

/// The seats of an epoch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpochInfo {
    /// Which epoch.
    #[serde(with = "form")]
    pub epoch: Epoch,
    /// Its first block.
    #[serde(with = "form")]
    pub first_height: Height,
    /// Its last block.
    #[serde(with = "form")]
    pub last_height: Height,
    /// Seed of the leader schedule.
    #[serde(with = "form")]
    pub seed: Seed,
    /// Sorted by consensus key.
    #[serde(with = "form::items")]
    pub seats: Vec<Seat>,
}

impl EpochInfo {
    /// A seat set with the heights at which it votes.
    pub fn new(set: &SeatSet, first_height: Height, last_height: Height) -> Self {
        let (epoch, seed, seats) = (set.epoch, set.seed, set.seats.to_vec());
        Self { epoch, first_height, last_height, seed, seats }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Seat")]
struct SeatForm {
    #[serde(with = "form")]
    consensus: ConsensusKey,
    #[serde(with = "form")]
    validator: Address,
    #[serde(with = "form")]
    beacon: BeaconPublicKey,
    weight: u64,
    #[serde(with = "form")]
    commission: Permille,
    #[serde(with = "form")]
    host: NetworkAddress,
}

/// Whether a validator takes part in elections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ValidatorState {
    /// It does.
    Active,
    /// Not until it is unjailed.
    Jailed,
    /// Never again.
    Retired,
}

/// A validator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorInfo {
    /// Operator account.
    #[serde(with = "form")]
    pub address: Address,
    /// Votes with this key.
    #[serde(with = "form")]
    pub consensus: ConsensusKey,
    /// Signs the beacon with this key.
    #[serde(with = "form")]
    pub beacon: BeaconPublicKey,
    /// Where its node listens.
    #[serde(with = "form")]
    pub host: NetworkAddress,
    /// Its part of the delegators' rewards, in thousandths.
    #[serde(with = "form")]
    pub commission: Permille,
    /// Whether it takes part in elections.
    pub status: ValidatorState,
    /// Earliest return from jail.
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    pub jailed_until: Option<Millis>,
    /// What it is in jail for.
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    pub jailed_for: Option<SlashReason>,
    /// Bonded tokens of all delegators, its own included.
    #[serde(with = "form")]
    pub stake: Amount,
    /// Rewards not yet claimed, commission included.
    #[serde(with = "form")]
    pub rewards: Amount,
    /// Whether it has a seat in the running epoch.
    pub seat: bool,
    /// Whether it has a seat in the next epoch.
    pub next_seat: bool,
}

impl ValidatorInfo {
    /// A validator with its seats in the running and the next epoch.
    pub fn new(address: Address, validator: &Validator, now: &SeatSet, next: &SeatSet) -> Self {
        let (status, jail) = match validator.status {
            ValidatorStatus::Active => (ValidatorState::Active, None),
            ValidatorStatus::Jailed(jail) => (ValidatorState::Jailed, Some(jail)),
            ValidatorStatus::Retired => (ValidatorState::Retired, None),
        };
        let seated = |set: &SeatSet| set.seats.iter().any(|seat| seat.validator == address);
        Self {
            address,
            consensus: validator.keys.consensus,
            beacon: validator.keys.beacon,
            host: validator.host,
            commission: validator.commission,
            status,
            jailed_until: jail.map(|jail| jail.until),
            jailed_for: jail.map(|jail| jail.reason),
            stake: validator.stake,
            rewards: validator.rewards,
            seat: seated(now),
            next_seat: seated(next),
        }
    }
}

/// All candidates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValidatorList {
    /// The running epoch.
    #[serde(with = "form")]
    pub epoch: Epoch,
    /// Sorted by address.
    pub validators: Vec<ValidatorInfo>,
}

/// Parameters and what the next block costs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParametersInfo {
    /// The state is that after this block.
    #[serde(with = "form")]
    pub height: Height,
    /// Fee per weight of the next block.
    #[serde(with = "form")]
    pub base_fee: Amount,
    /// The network's parameters.
    #[serde(with = "form")]
    pub parameters: Parameters,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Parameters", deny_unknown_fields)]
struct ParametersForm {
    epoch_blocks: u64,
    seats: u32,
    #[serde(with = "form")]
    minimum_stake: Amount,
    #[serde(with = "form")]
    unbonding: Millis,
    evidence_epochs: u64,
    #[serde(with = "form")]
    block_weight: Weight,
    #[serde(with = "form")]
    minimum_base_fee: Amount,
    #[serde(with = "form")]
    burned_fee: Permille,
    #[serde(with = "form")]
    account_reserve: Amount,
    #[serde(with = "form")]
    entry_reserve: Amount,
    #[serde(with = "form")]
    conflict_slash: Permille,
    #[serde(with = "form")]
    missed_slash: Permille,
    #[serde(with = "form")]
    missed_limit: Permille,
    #[serde(with = "form")]
    jail: Millis,
    #[serde(with = "form")]
    reporter_share: Permille,
    #[serde(with = "form")]
    emission: Emission,
    #[serde(with = "form")]
    market: MarketParameters,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "MarketParameters", deny_unknown_fields)]
struct MarketParametersForm {
    #[serde(with = "form")]
    provider_stake: Amount,
    #[serde(with = "form")]
    newcomer: Amount,
    exposure: u16,
    #[serde(with = "form")]
    client_lock: Permille,
    #[serde(with = "form")]
    provider_lock: Permille,
    #[serde(with = "form")]
    bid_pledge: Amount,
    #[serde(with = "form")]
    bidding: Millis,
    #[serde(with = "form")]
    opening: Millis,
    #[serde(with = "form")]
    silence: Millis,
    #[serde(with = "form")]
    grace: Millis,
    #[serde(with = "form")]
    objection: Millis,
    #[serde(with = "form")]
    retention: Millis,
    #[serde(with = "form")]
    half_life: Millis,
    #[serde(with = "form")]
    index: Amount,
    #[serde(with = "form")]
    least_index: Amount,
    #[serde(with = "form")]
    most_index: Amount,
    #[serde(with = "form")]
    index_period: Millis,
    #[serde(with = "form")]
    dollar: Amount,
    #[serde(with = "form")]
    audits: AuditParameters,
    #[serde(with = "form")]
    trials: TrialParameters,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TrialParameters", deny_unknown_fields)]
struct TrialParametersForm {
    #[serde(with = "form")]
    period: Millis,
    #[serde(with = "form")]
    work: Millis,
    slack: u16,
    #[serde(with = "form")]
    allowance: Millis,
    #[serde(with = "form")]
    opening: Millis,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "AuditParameters", deny_unknown_fields)]
struct AuditParametersForm {
    segments: u8,
    #[serde(with = "form")]
    answering: Millis,
    #[serde(with = "form")]
    posting: Millis,
    #[serde(with = "form")]
    opening: Millis,
    #[serde(with = "form")]
    revealing: Millis,
    #[serde(with = "form")]
    clock: Millis,
    #[serde(with = "form")]
    showing: Millis,
    #[serde(with = "form")]
    lately: Millis,
    #[serde(with = "form")]
    fee: Permille,
    #[serde(with = "form")]
    fees: Permille,
    #[serde(with = "form")]
    pledge: Amount,
    #[serde(with = "form")]
    again: Permille,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Emission", deny_unknown_fields)]
struct EmissionForm {
    #[serde(with = "form")]
    first_year: Amount,
    #[serde(with = "form")]
    kept: Permille,
}

/// Where every token is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupplyInfo {
    /// The state is that after this block.
    #[serde(with = "form")]
    pub height: Height,
    /// No more than this is ever minted.
    #[serde(with = "form")]
    pub cap: Amount,
    /// `minted` is the sum of all the others.
    #[serde(with = "form")]
    pub supply: Supply,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Supply")]
struct SupplyForm {
    #[serde(with = "form")]
    minted: Amount,
    #[serde(with = "form")]
    burned: Amount,
    #[serde(with = "form")]
    balances: Amount,
    #[serde(with = "form")]
    reserves: Amount,
    #[serde(with = "form")]
    vesting: Amount,
    #[serde(with = "form")]
    stake: Amount,
    #[serde(with = "form")]
    unbonding: Amount,
    #[serde(with = "form")]
    rewards: Amount,
    #[serde(with = "form")]
    epoch_pool: Amount,
    #[serde(with = "form")]
    treasury: Amount,
    #[serde(with = "form")]
    escrow: Amount,
    #[serde(with = "form")]
    locks: Amount,
}

form::as_object!(
    Seat: SeatForm,
    Parameters: ParametersForm,
    MarketParameters: MarketParametersForm,
    AuditParameters: AuditParametersForm,
    TrialParameters: TrialParametersForm,
    Emission: EmissionForm,
    Supply: SupplyForm,
);

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::{Jail, List, RewardIndex, Shares, ValidatorKeys};

    fn seat_set(epoch: u64, seats: Vec<Seat>) -> SeatSet {
        SeatSet { epoch: Epoch(epoch), seed: Seed([1; 32]), seats: List::new(seats).unwrap() }
    }

    fn seat() -> Seat {
        Seat {
            consensus: ConsensusKey([2; 32]),
            validator: Address::ZERO,
            beacon: BeaconPublicKey([3; 96]),
            weight: 100,
            commission: Permille::new(50).unwrap(),
            host: "127.0.0.1:26700".parse().unwrap(),
        }
    }

    #[test]
    fn a_status_is_flat_and_complete() {
        let status = Status {
            chain: ChainId(7),
            name: "dev".into(),
            genesis: Digest([0; 32]),
            height: Height(12),
            recorded_from: Height(1),
            time: Millis(1_700_000_000_000),
            epoch: Epoch(1),
            node: ConsensusKey([0; 32]),
            role: Role::Follower,
            seats: 4,
            connected_nodes: 3,
            mempool: 0,
            syncing: false,
            version: "0.1.0".into(),
        };
        let zero = "0".repeat(64);
        let wanted = format!(
            concat!(
                r#"{{"chain":7,"name":"dev","genesis":"0x{zero}","height":12,"recorded_from":1,"#,
                r#""time":1700000000000,"epoch":1,"node":"0x{zero}","role":"follower","#,
                r#""seats":4,"connected_nodes":3,"mempool":0,"syncing":false,"version":"0.1.0"}}"#
            ),
            zero = zero
        );
        assert_eq!(serde_json::to_string(&status).unwrap(), wanted);
    }

    #[test]
    fn an_epoch_lists_its_seats() {
        let info = EpochInfo::new(&seat_set(3, vec![seat()]), Height(60), Height(79));
        let json = serde_json::to_value(&info).unwrap();
        assert_eq!(json["first_height"], 60);
        assert_eq!(json["seats"][0]["host"], "127.0.0.1:26700");
        assert_eq!(json["seats"][0]["weight"], 100);
        assert_eq!(serde_json::from_value::<EpochInfo>(json).unwrap(), info);
    }

    #[test]
    fn a_jailed_validator_says_until_when_what_for_and_in_which_epoch_it_has_a_seat() {
        let validator = Validator {
            keys: ValidatorKeys {
                consensus: ConsensusKey([2; 32]),
                consensus_possession: [5; 64],
                beacon: BeaconPublicKey([3; 96]),
                beacon_possession: BeaconSignature([4; 48]),
            },
            host: "127.0.0.1:26700".parse().unwrap(),
            commission: Permille::new(50).unwrap(),
            status: ValidatorStatus::Jailed(Jail {
                until: Millis(99),
                reason: SlashReason::MissedTurns,
            }),
            stake: Amount::whole(5),
            shares: Shares(5),
            index: RewardIndex(0),
            rewards: Amount::ZERO,
            commission_due: Amount::ZERO,
            unbonding_epochs: List::empty(),
            reserve: Amount::ZERO,
        };
        let (now, next) = (seat_set(1, vec![seat()]), seat_set(2, Vec::new()));
        let info = ValidatorInfo::new(Address::ZERO, &validator, &now, &next);
        let json = serde_json::to_value(&info).unwrap();
        assert_eq!(json["status"], "jailed");
        assert_eq!(json["jailed_until"], 99);
        assert_eq!(json["jailed_for"], "missed-turns");
        assert_eq!((info.seat, info.next_seat), (true, false));
        assert_eq!(serde_json::from_value::<ValidatorInfo>(json).unwrap(), info);
    }

    #[test]
    fn supply_is_in_decimal_text() {
        let supply = Supply { minted: Amount::whole(3), ..Supply::default() };
        let info = SupplyInfo { height: Height(1), cap: Amount::CAP, supply };
        let json = serde_json::to_value(&info).unwrap();
        assert_eq!(json["cap"], "21000000");
        assert_eq!(json["supply"]["minted"], "3");
        assert_eq!(serde_json::from_value::<SupplyInfo>(json).unwrap(), info);
    }
}
