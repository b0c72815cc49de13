//! A block in the shape that the consensus engine wants.
//!
//! It is [`opengpu_types::Block`] on the wire, byte for byte. Two things are settled once, when a
//! block is decoded, so that the rest of the node can rely on them:
//!
//! - the transactions are those the header commits to. The digest of a block is the digest of its
//!   header, so without this check a peer could swap the body under a valid digest. The witnesses
//!   hashed for it are kept: signature checks and the mempool know transactions by them;
//! - the leader's key is a curve point and the bounds of the state's log are a range, because the
//!   engine asks for them as such.

use crate::{committee::public_key, store};
use bytes::BufMut;
use commonware_codec::{Buf, EncodeSize, Error, Read, ReadExt as _, Write};
use commonware_consensus::{
    Block as EngineBlock, BoundedBlock, CertifiableBlock, Heightable,
    simplex::types::Context as EngineContext,
    types::{Epoch, Height, Round, View},
};
use commonware_cryptography::{Digestible, ed25519::PublicKey};
use opengpu_crypto::merkle;
use opengpu_types::{Block as WireBlock, Digest, Header, SignedTransaction};

/// Where in consensus a block was proposed.
pub type Context = EngineContext<Digest, PublicKey>;

/// A block whose body fits its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    wire: WireBlock,
    leader: PublicKey,
    witnesses: Vec<Digest>,
}

/// Why bytes or parts are not a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockError {
    /// The leader's key is not a curve point.
    #[error("the leader's key is not an ed25519 key")]
    Leader,
    /// The log of the state has no such bounds.
    #[error("the bounds of the state's log are not a range")]
    StateBounds,
    /// The header commits to other transactions.
    #[error("the transactions are not those of the header")]
    Transactions,
    /// Over [`WireBlock::MAX_SIZE`].
    #[error("the block has {0} bytes")]
    TooLarge(usize),
}

impl Block {
    /// Checks that body and header belong together.
    pub fn new(wire: WireBlock) -> Result<Self, BlockError> {
        let size = wire.encode_size();
        if size > WireBlock::MAX_SIZE {
            return Err(BlockError::TooLarge(size));
        }
        let leader = public_key(&wire.header.leader).ok_or(BlockError::Leader)?;
        if store::sync_target(&wire.header.state).is_none() {
            return Err(BlockError::StateBounds);
        }
        let witnesses: Vec<_> = wire.transactions.iter().map(SignedTransaction::witness).collect();
        if merkle::root(&witnesses) != wire.header.transactions {
            return Err(BlockError::Transactions);
        }
        Ok(Self { wire, leader, witnesses })
    }

    /// What consensus votes on.
    pub const fn header(&self) -> &Header {
        &self.wire.header
    }

    /// In execution order.
    pub fn transactions(&self) -> &[SignedTransaction] {
        &self.wire.transactions
    }

    /// Hashes of the transactions with their signatures, in the same order.
    pub fn witnesses(&self) -> &[Digest] {
        &self.witnesses
    }

    /// Header and transactions.
    pub const fn wire(&self) -> &WireBlock {
        &self.wire
    }
}

impl Write for Block {
    fn write(&self, buf: &mut impl BufMut) {
        self.wire.write(buf);
    }
}

impl EncodeSize for Block {
    fn encode_size(&self) -> usize {
        self.wire.encode_size()
    }
}

impl Read for Block {
    type Cfg = ();

    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, Error> {
        Self::new(WireBlock::read(buf)?).map_err(|error| match error {
            BlockError::Leader => Error::Invalid("Block", "the leader's key is no key"),
            BlockError::StateBounds => Error::Invalid("Block", "no bounds of a log"),
            BlockError::Transactions => Error::Invalid("Block", "foreign transactions"),
            BlockError::TooLarge(_) => Error::Invalid("Block", "too large"),
        })
    }
}

impl Digestible for Block {
    type Digest = Digest;

    fn digest(&self) -> Digest {
        self.wire.header.digest()
    }
}

impl Heightable for Block {
    fn height(&self) -> Height {
        Height::new(self.wire.header.height.0)
    }
}

impl EngineBlock for Block {
    fn parent(&self) -> Digest {
        self.wire.header.parent
    }
}

impl CertifiableBlock for Block {
    type Context = Context;

    fn context(&self) -> Context {
        let header = &self.wire.header;
        Context {
            round: Round::new(Epoch::new(header.epoch.0), View::new(header.view.0)),
            leader: self.leader.clone(),
            parent: (View::new(header.parent_view.0), header.parent),
        }
    }
}

impl BoundedBlock for Block {
    fn max_encode_size((): &()) -> usize {
        WireBlock::MAX_SIZE
    }
}
