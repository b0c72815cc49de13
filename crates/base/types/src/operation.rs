//! What an account can ask of the chain.

use crate::{
    Address, Amount, Authorization, Boxed, ChainId, ConsensusKey, Epoch, Evidence, MarketOperation,
    Millis, NetworkAddress, Permille, Text, UnbondingId,
    codec::{codec_enum, codec_struct},
};
use opengpu_crypto::{BeaconPublicKey, BeaconSignature, SigningMessage, hash};

/// Keys that a validator registers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValidatorKeys {
    /// Votes with this.
    pub consensus: ConsensusKey,
    /// Shows that the operator holds the secret of `consensus`.
    pub consensus_possession: [u8; 64],
    /// Signs the beacon with this.
    pub beacon: BeaconPublicKey,
    /// Shows that the operator holds the secret of `beacon`.
    pub beacon_possession: BeaconSignature,
}

codec_struct!(ValidatorKeys { consensus, consensus_possession, beacon, beacon_possession });

/// What a key with a spending limit may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Every operation that spends, but none that changes authorizations or closes the account.
    Anything,
    /// Transfers only.
    Transfers,
    /// Delegation, its undoing and rewards only; not moving stake to another validator.
    Stake,
    /// Submitting tasks and paying for them only.
    Tasks,
}

codec_enum!(Purpose { 0 => Anything, 1 => Transfers, 2 => Stake, 3 => Tasks });

/// One step of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Moves tokens; a new account keeps a reserve out of what it receives.
    Transfer {
        /// Receiver.
        to: Address,
        /// How much.
        amount: Amount,
    },
    /// Destroys tokens of the sender.
    Burn {
        /// How much.
        amount: Amount,
    },
    /// Ends the sender's account: balance and reserve go to `to`.
    CloseAccount {
        /// Receiver of what is left.
        to: Address,
    },
    /// Lets another key spend from the sender's account within a limit; replaces an earlier limit
    /// of that key.
    Authorize {
        /// What people call it.
        name: Text<32>,
        /// Address of the key.
        spender: Address,
        /// Most that it may spend, fees included.
        amount: Amount,
        /// On what.
        purpose: Purpose,
        /// Until which block time.
        until: Millis,
    },
    /// Ends a spending limit.
    Revoke {
        /// Address of the key.
        spender: Address,
    },
    /// Pays out what has vested to the sender so far.
    ReleaseVested,
    /// Makes the sender a validator.
    RegisterValidator {
        /// Its keys.
        keys: ValidatorKeys,
        /// Where its node listens.
        host: NetworkAddress,
        /// Its part of the delegators' rewards.
        commission: Permille,
        /// Its own stake.
        stake: Amount,
    },
    /// Changes what others see of the sender's validator.
    EditValidator {
        /// Where its node listens.
        host: NetworkAddress,
        /// Its part of the delegators' rewards.
        commission: Permille,
    },
    /// Replaces the keys of the sender's validator; seats already assigned keep the old ones.
    RotateKeys {
        /// The new keys.
        keys: ValidatorKeys,
    },
    /// Brings the sender's validator back into elections after its jail time.
    Unjail,
    /// Ends the sender's validator; its stake unbonds. Others' delegations stay until withdrawn.
    Retire,
    /// Adds stake to a validator.
    Delegate {
        /// Operator account of the validator.
        validator: Address,
        /// How much.
        amount: Amount,
    },
    /// Takes stake from a validator; it can be withdrawn after the unbonding time.
    Undelegate {
        /// Operator account of the validator.
        validator: Address,
        /// How much.
        amount: Amount,
    },
    /// Moves stake to another validator: withdrawing it after the unbonding time delegates it
    /// there.
    Redelegate {
        /// From this validator.
        from: Address,
        /// To this one.
        to: Address,
        /// How much.
        amount: Amount,
    },
    /// Pays out the sender's rewards at a validator.
    ClaimRewards {
        /// Operator account of the validator.
        validator: Address,
    },
    /// Shows that a validator cast two conflicting votes.
    ReportEvidence {
        /// The votes.
        evidence: Boxed<Evidence>,
    },
    /// Confirms that the sender's validator is ready for its seat: a duty, free of fees.
    ConfirmSeat {
        /// The epoch of the seat.
        epoch: Epoch,
    },
    /// Takes out stake of the sender that has finished unbonding.
    Withdraw {
        /// Number of the unbonding entry.
        id: UnbondingId,
    },
    /// Something on the market.
    Market(MarketOperation),
    /// Gives the sender's account another key: everything that it owns and owes stays as it is, and the
    /// key before has no right any more.
    ChangeKey {
        /// The new key, and its signature of [`Operation::taking_over`].
        to: Authorization,
    },
}

codec_enum!(Operation {
    0 => Transfer { to, amount },
    1 => Burn { amount },
    2 => CloseAccount { to },
    3 => Authorize { name, spender, amount, purpose, until },
    4 => Revoke { spender },
    5 => ReleaseVested,
    6 => RegisterValidator { keys, host, commission, stake },
    7 => EditValidator { host, commission },
    8 => RotateKeys { keys },
    9 => Unjail,
    10 => Retire,
    11 => Delegate { validator, amount },
    12 => Undelegate { validator, amount },
    13 => Redelegate { from, to, amount },
    14 => ClaimRewards { validator },
    15 => ReportEvidence { evidence },
    16 => ConfirmSeat { epoch },
    17 => Withdraw { id },
    18 => Market(operation),
    19 => ChangeKey { to },
});

impl Operation {
    /// What a key signs that is to be the key of an account: nobody gives one to a key that is not there.
    pub fn taking_over(chain: ChainId, account: &Address) -> SigningMessage {
        let parts: [&[u8]; 2] = [&chain.0.to_be_bytes(), account.as_bytes()];
        SigningMessage {
            body: hash("opengpu/change-key/v1", &parts),
            text: format!("OpenGPU on chain {chain}: become the key of account {account}"),
            chain_id: chain.0,
        }
    }

    /// Name of the kind, as shown in tables and metrics.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Transfer { .. } => "transfer",
            Self::Burn { .. } => "burn",
            Self::CloseAccount { .. } => "close-account",
            Self::Authorize { .. } => "authorize",
            Self::Revoke { .. } => "revoke",
            Self::ReleaseVested => "release-vested",
            Self::RegisterValidator { .. } => "register-validator",
            Self::EditValidator { .. } => "edit-validator",
            Self::RotateKeys { .. } => "rotate-keys",
            Self::Unjail => "unjail",
            Self::Retire => "retire",
            Self::Delegate { .. } => "delegate",
            Self::Undelegate { .. } => "undelegate",
            Self::Redelegate { .. } => "redelegate",
            Self::ClaimRewards { .. } => "claim-rewards",
            Self::ReportEvidence { .. } => "report-evidence",
            Self::ConfirmSeat { .. } => "confirm-seat",
            Self::Withdraw { .. } => "withdraw",
            Self::Market(operation) => operation.name(),
            Self::ChangeKey { .. } => "change-key",
        }
    }
}
