//! The chain as an agent needs it: entries, final blocks in sequence, and one way to act.
//!
//! Whoever implements it holds the key of the provider's account and speaks to a node. An agent
//! believes what it is told here; checking proofs is for the implementation.

use opengpu_types::{
    Address, ChainId, Entry, Event, Height, Key, MarketOperation, MarketParameters, Millis,
    Outcome, Transaction,
};
use std::time::Duration;

/// Why the chain did not answer. Whether an operation took effect all the same is not known then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the chain does not answer: {0}")]
pub struct ChainError(pub String);

/// A final block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Final {
    /// Its height.
    pub height: Height,
    /// Its time.
    pub time: Millis,
    /// What happened in it.
    pub events: Vec<Event>,
}

/// The chain, for the owner of one provider's account.
pub trait Chain: Send + Sync + 'static {
    /// Which chain it is.
    fn id(&self) -> ChainId;

    /// The provider's account.
    fn account(&self) -> Address;

    /// How the market works.
    fn parameters(&self) -> Result<MarketParameters, ChainError>;

    /// An entry of the final state.
    fn entry(&self, key: &Key) -> Result<Option<Entry>, ChainError>;

    /// Signs and sends one operation of the account, without a fee if it is a duty. Returns when it
    /// is final.
    fn submit(&self, operation: MarketOperation) -> Result<Outcome, ChainError>;

    /// The newest final block, without what happened in it.
    fn tip(&self) -> Result<Final, ChainError>;

    /// What was said in a final block, in sequence, also by those whom the chain refused.
    fn transactions(&self, height: Height) -> Result<Vec<Transaction>, ChainError>;

    /// Waits for the block after a height; none if there is none for so long.
    fn next(&self, after: Height, patience: Duration) -> Result<Option<Final>, ChainError>;
}
