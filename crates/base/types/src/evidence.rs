//! Evidence of two conflicting votes, in plain fields.
//!
//! The ledger rebuilds from them the bytes that the consensus engine signs and checks both
//! signatures, so it needs no engine; `opengpu-node` tests that the bytes are the engine's.

use crate::{
    ChainId, ConsensusKey, Epoch, View,
    codec::{codec_enum, codec_struct},
};
use commonware_codec::{Write as _, varint::UInt};
use opengpu_crypto::Digest;

/// What a vote says about its view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VoteKind {
    /// This block is proposed and valid.
    Notarize {
        /// View of its parent.
        parent: View,
        /// The block.
        block: Digest,
    },
    /// No block came in time.
    Nullify,
    /// This block is final as far as the voter is concerned.
    Finalize {
        /// View of its parent.
        parent: View,
        /// The block.
        block: Digest,
    },
}

codec_enum!(VoteKind {
    0 => Notarize { parent, block },
    1 => Nullify,
    2 => Finalize { parent, block },
});

/// A signed vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Vote {
    /// What it says.
    pub kind: VoteKind,
    /// ed25519 signature of the voter.
    pub signature: [u8; 64],
}

codec_struct!(Vote { kind, signature });

/// Two votes of one voter in one view that an honest voter never casts both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Evidence {
    /// Who voted.
    pub voter: ConsensusKey,
    /// In which epoch.
    pub epoch: Epoch,
    /// In which view.
    pub view: View,
    /// One vote.
    pub first: Vote,
    /// The other.
    pub second: Vote,
}

codec_struct!(Evidence { voter, epoch, view, first, second });

impl Evidence {
    /// Whether the kinds conflict: two different blocks notarized or finalized, or a view both
    /// nullified and finalized.
    pub fn conflicts(&self) -> bool {
        use VoteKind::{Finalize, Notarize, Nullify};
        match (&self.first.kind, &self.second.kind) {
            (Notarize { .. }, Notarize { .. }) | (Finalize { .. }, Finalize { .. }) => {
                self.first.kind != self.second.kind
            }
            (Nullify, Finalize { .. }) | (Finalize { .. }, Nullify) => true,
            _ => false,
        }
    }
}

/// Namespace of the votes of a chain; the engine appends one suffix per kind of vote.
pub fn consensus_namespace(chain: ChainId) -> Vec<u8> {
    format!("opengpu/consensus/v1/{chain}").into_bytes()
}

impl Vote {
    /// Namespace and message that the engine signs for this vote.
    pub fn signed_parts(&self, chain: ChainId, epoch: Epoch, view: View) -> (Vec<u8>, Vec<u8>) {
        let mut namespace = consensus_namespace(chain);
        let mut message = Vec::with_capacity(64);
        UInt(epoch.0).write(&mut message);
        UInt(view.0).write(&mut message);
        let (suffix, proposal) = match &self.kind {
            VoteKind::Notarize { parent, block } => ("_NOTARIZE", Some((parent, block))),
            VoteKind::Nullify => ("_NULLIFY", None),
            VoteKind::Finalize { parent, block } => ("_FINALIZE", Some((parent, block))),
        };
        namespace.extend_from_slice(suffix.as_bytes());
        if let Some((parent, block)) = proposal {
            UInt(parent.0).write(&mut message);
            block.write(&mut message);
        }
        (namespace, message)
    }
}
