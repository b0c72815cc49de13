//! Proofs about the state: that a key has a value *now*, or that it has none.
//!
//! The root in the header covers which operations of the store's log are current, so a proof of a
//! value that was overwritten or deleted since does not fit a later header.

use commonware_codec::{Copying, Decode as _, Encode as _, Write as _};
use commonware_cryptography::Sha256;
use commonware_storage::{
    mmr,
    qmdb::{
        any::value::VariableEncoding,
        current::ordered::proof::constant::{ExclusionProof, KeyValueProof},
    },
};
use opengpu_types::{Digest, Entry, Key, Record};

/// Bytes of activity bits under one leaf of the tree of current values; part of the protocol.
pub const CHUNK: usize = 32;
/// Shape of the trees; part of the protocol.
pub type Family = mmr::Family;
/// Most digests in one proof.
const MAX_DIGESTS: usize = 256;

type ValueProof = KeyValueProof<Family, Digest, Digest, CHUNK>;
type AbsenceProof = ExclusionProof<Family, Digest, VariableEncoding<Record>, Digest, CHUNK>;

/// What is known about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It has this value.
    Present(Entry),
    /// It has none.
    Absent,
}

/// A proof of a key's current value, or of its absence, as the store makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateProof(Inner);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Inner {
    Value(ValueProof),
    Absence(Box<AbsenceProof>),
}

impl StateProof {
    /// Of a value.
    pub const fn of_value(proof: ValueProof) -> Self {
        Self(Inner::Value(proof))
    }

    /// Of an absence.
    pub fn of_absence(proof: AbsenceProof) -> Self {
        Self(Inner::Absence(Box::new(proof)))
    }

    /// Whether it shows that `key` has exactly this presence under `root`.
    pub fn shows(&self, key: &Key, presence: &Presence, root: &Digest) -> bool {
        match (&self.0, presence) {
            (Inner::Value(proof), Presence::Present(entry)) => {
                let record = Record { key: *key, entry: entry.clone() };
                proof.verify::<Sha256, VariableEncoding<Record>>(key.digest(), record, root)
            }
            (Inner::Absence(proof), Presence::Absent) => {
                proof.verify::<Sha256>(&key.digest(), root)
            }
            _ => false,
        }
    }

    /// Bytes for the wire.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match &self.0 {
            Inner::Value(proof) => {
                bytes.push(0);
                proof.write(&mut bytes);
            }
            Inner::Absence(proof) => {
                bytes.push(1);
                bytes.extend_from_slice(&proof.encode());
            }
        }
        bytes
    }

    /// Reads [`Self::to_bytes`]; `None` if they are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (tag, rest) = bytes.split_first()?;
        match tag {
            0 => ValueProof::decode_cfg(Copying(rest), &(MAX_DIGESTS, ())).ok().map(Self::of_value),
            1 => AbsenceProof::decode_cfg(Copying(rest), &(MAX_DIGESTS, ((), ()), ()))
                .ok()
                .map(Self::of_absence),
            _ => None,
        }
    }
}
