//! The genesis as a document that people write and read.
//!
//! ```text
//!   genesis.json  ◄── read / write ──►  opengpu_types::Genesis  ◄── codec ──►  genesis.bin
//! ```
//!
//! Both files name the same network: the digest is over the canonical bytes, never over the JSON.
//! A field that is unknown, or missing, is an error; a genesis has no defaults.

use crate::api::form;
use commonware_codec::DecodeExt as _;
use opengpu_ledger::{GenesisError, Halt, check_genesis, genesis_seats};
use opengpu_types::{
    Address, Allocation, Amount, BeaconPublicKey, BeaconSignature, ChainId, ConsensusKey, Genesis,
    GenesisValidator, List, Millis, NetworkAddress, Parameters, Permille, RuleVersion, SeatSet,
    Text, TreasuryStream, ValidatorKeys, VestingTerms,
};
use serde::{Deserialize, Deserializer, Serialize};

/// Why a file is no genesis.
#[derive(Debug, thiserror::Error)]
pub enum GenesisFileError {
    /// The JSON is not that of a genesis.
    #[error("not a genesis document: {0}")]
    Json(#[from] serde_json::Error),
    /// The bytes are not the canonical encoding of a genesis.
    #[error("neither a genesis document nor its canonical bytes: {0}")]
    Codec(#[from] commonware_codec::Error),
    /// The document cannot begin a network.
    #[error("the genesis is not valid: {0}")]
    Invalid(#[from] GenesisError),
    /// The document does not lead to a first state.
    #[error("the genesis cannot be carried out: {0}")]
    State(#[from] Halt),
}

/// The JSON of a genesis.
pub fn write(genesis: &Genesis) -> String {
    let document = form::Formed(genesis);
    let mut text = serde_json::to_string_pretty(&document).expect("texts and numbers are JSON");
    text.push('\n');
    text
}

/// A genesis from its JSON or its canonical bytes, checked by the rules of the ledger.
pub fn read(bytes: &[u8]) -> Result<Genesis, GenesisFileError> {
    let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    let genesis = if is_json {
        serde_json::from_slice::<Document>(bytes)?.0
    } else {
        Genesis::decode(bytes.to_vec())?
    };
    check_genesis(&genesis)?;
    Ok(genesis)
}

/// The seats of the first epoch: what a reader of the genesis trusts from the beginning.
pub fn first_seats(genesis: &Genesis) -> Result<SeatSet, GenesisFileError> {
    let [first, _] = genesis_seats(genesis)?;
    Ok(first)
}

struct Document(Genesis);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        form::deserialize(deserializer).map(Self)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Genesis", deny_unknown_fields)]
struct GenesisForm {
    #[serde(with = "form")]
    chain: ChainId,
    #[serde(with = "form")]
    name: Text<32>,
    #[serde(with = "form")]
    time: Millis,
    #[serde(with = "form")]
    rules: RuleVersion,
    #[serde(with = "form")]
    parameters: Parameters,
    #[serde(with = "form::list")]
    allocations: List<Allocation, { Genesis::MAX_ALLOCATIONS }>,
    #[serde(with = "form")]
    treasury: TreasuryStream,
    #[serde(with = "form::list")]
    validators: List<GenesisValidator, 128>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Allocation", deny_unknown_fields)]
struct AllocationForm {
    #[serde(with = "form")]
    account: Address,
    #[serde(with = "form")]
    amount: Amount,
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    vesting: Option<VestingTerms>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "VestingTerms", deny_unknown_fields)]
struct VestingTermsForm {
    #[serde(with = "form")]
    start: Millis,
    #[serde(with = "form")]
    cliff: Millis,
    #[serde(with = "form")]
    end: Millis,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TreasuryStream", deny_unknown_fields)]
struct TreasuryStreamForm {
    #[serde(with = "form")]
    account: Address,
    #[serde(with = "form")]
    amount: Amount,
    #[serde(with = "form")]
    start: Millis,
    #[serde(with = "form")]
    end: Millis,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "GenesisValidator", deny_unknown_fields)]
struct GenesisValidatorForm {
    #[serde(with = "form")]
    operator: Address,
    #[serde(with = "form")]
    keys: ValidatorKeys,
    #[serde(with = "form")]
    host: NetworkAddress,
    #[serde(with = "form")]
    commission: Permille,
    #[serde(with = "form")]
    stake: Amount,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "ValidatorKeys", deny_unknown_fields)]
struct ValidatorKeysForm {
    #[serde(with = "form")]
    consensus: ConsensusKey,
    #[serde(with = "form")]
    consensus_possession: [u8; 64],
    #[serde(with = "form")]
    beacon: BeaconPublicKey,
    #[serde(with = "form")]
    beacon_possession: BeaconSignature,
}

form::as_object!(
    Genesis: GenesisForm,
    Allocation: AllocationForm,
    VestingTerms: VestingTermsForm,
    TreasuryStream: TreasuryStreamForm,
    GenesisValidator: GenesisValidatorForm,
    ValidatorKeys: ValidatorKeysForm,
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::devnet::{DevNetwork, Plan};
    use commonware_codec::Encode as _;
    use rand::{SeedableRng as _, rngs::StdRng};

    fn genesis() -> Genesis {
        let mut genesis =
            DevNetwork::generate(&mut StdRng::seed_from_u64(1), &Plan::new(2, Millis(1_000)))
                .unwrap()
                .genesis;
        let mut allocations = genesis.allocations.clone().into_vec();
        let terms = VestingTerms { start: Millis(1), cliff: Millis(2), end: Millis(3) };
        allocations.last_mut().unwrap().vesting = Some(terms);
        genesis.allocations = List::new(allocations).unwrap();
        genesis
    }

    #[test]
    fn json_and_canonical_bytes_name_the_same_network() {
        let genesis = genesis();
        let from_json = read(write(&genesis).as_bytes()).unwrap();
        let from_bytes = read(&genesis.encode()).unwrap();
        assert_eq!(from_json, genesis);
        assert_eq!(from_bytes.digest(), from_json.digest());
    }

    #[test]
    fn a_mistyped_field_is_refused_by_name() {
        let text = write(&genesis()).replace("\"epoch_blocks\"", "\"epoch_block\"");
        assert!(read(text.as_bytes()).unwrap_err().to_string().contains("epoch_block"));
    }

    #[test]
    fn a_document_that_cannot_begin_a_network_is_refused() {
        let mut genesis = genesis();
        genesis.validators = List::empty();
        let error = read(write(&genesis).as_bytes()).unwrap_err();
        assert!(matches!(error, GenesisFileError::Invalid(GenesisError::NoValidator)));
        assert!(matches!(read(b"nonsense"), Err(GenesisFileError::Codec(_))));
    }
}
