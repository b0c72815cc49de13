//! Headers and blocks.

use crate::{
    ChainId, ConsensusKey, Epoch, Height, List, Millis, RuleVersion, SeatSet, SignedTransaction,
    View, codec::codec_struct,
};
use commonware_codec::Encode as _;
use opengpu_crypto::{BeaconSignature, Digest, hash, merkle};

/// A change of rules that is already decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Upgrade {
    /// First height executed by the new rules.
    pub height: Height,
    /// The new rules.
    pub rules: RuleVersion,
}

codec_struct!(Upgrade { height, rules });

/// What a header says about the state after its block.
///
/// The store is a log of operations with an index: `root` proves which values are *current* (and
/// which keys are absent), `log_root` and the bounds are what a joining node syncs the log against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StateCommitment {
    /// Root over current values.
    pub root: Digest,
    /// Root over the log of operations.
    pub log_root: Digest,
    /// First operation of the log that still matters.
    pub log_start: u64,
    /// One past the last operation.
    pub log_end: u64,
}

codec_struct!(StateCommitment { root, log_root, log_start, log_end });

/// Everything that a certificate finalizes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Header {
    /// The network.
    pub chain: ChainId,
    /// Rules by which the block is executed.
    pub rules: RuleVersion,
    /// Rules that will follow, if already decided.
    pub upgrade: Option<Upgrade>,
    /// Block number.
    pub height: Height,
    /// Epoch of the height.
    pub epoch: Epoch,
    /// View in which the block was proposed.
    pub view: View,
    /// View of the parent in the same epoch; zero for the first block of an epoch.
    pub parent_view: View,
    /// Who proposed it.
    pub leader: ConsensusKey,
    /// Digest of the parent's header.
    pub parent: Digest,
    /// Block time.
    pub time: Millis,
    /// The leader's unique signature over chain, height and the parent's beacon.
    pub beacon: BeaconSignature,
    /// The state after this block.
    pub state: StateCommitment,
    /// Merkle root of the witnesses of its transactions.
    pub transactions: Digest,
    /// Merkle root of its receipts.
    pub receipts: Digest,
    /// Digest of the seat set of the next epoch.
    pub next_seats: Digest,
}

codec_struct!(Header {
    chain,
    rules,
    upgrade,
    height,
    epoch,
    view,
    parent_view,
    leader,
    parent,
    time,
    beacon,
    state,
    transactions,
    receipts,
    next_seats,
});

impl Header {
    /// Largest encoding in bytes.
    pub const MAX_SIZE: usize = 512;

    /// The hash that consensus votes on.
    pub fn digest(&self) -> Digest {
        hash("opengpu/header/v1", &[&self.encode()])
    }

    /// Whether `seats` is the set that this header announces for the next epoch.
    pub fn announces(&self, seats: &SeatSet) -> bool {
        seats.epoch == self.epoch.plus(1) && seats.digest() == self.next_seats
    }
}

/// A header and the transactions it commits to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What consensus votes on.
    pub header: Header,
    /// In execution order.
    pub transactions: List<SignedTransaction, { Self::MAX_TRANSACTIONS }>,
}

codec_struct!(Block { header, transactions });

impl Block {
    /// Most transactions in a block, whatever their weight.
    pub const MAX_TRANSACTIONS: usize = 16_384;
    /// Largest encoding in bytes.
    pub const MAX_SIZE: usize = 4 * 1024 * 1024;

    /// The commitment to `transactions` that belongs into the header.
    pub fn transactions_root(transactions: &[SignedTransaction]) -> Digest {
        let leaves: Vec<_> = transactions.iter().map(SignedTransaction::witness).collect();
        merkle::root(&leaves)
    }
}
