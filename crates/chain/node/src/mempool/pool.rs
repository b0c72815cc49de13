//! The pool as a pure state machine: which transactions wait, and which go next.
//!
//! Transactions wait in one queue per lane (account and signing key), ordered by nonce. A transaction leaves the pool in
//! four ways only: a final block used its nonce, its last height has passed, the ledger refused it,
//! or another one replaced it. Offering it in a proposal is not one of them:
//!
//! ```text
//!            offered(h)                   final block at >= h without it
//! Waiting ----------------> Offered(h) ---------------------------------> Waiting
//!    |                          |
//!    +--------------------------+--- nonce used by a final block ---> gone
//! ```
//!
//! so nothing is lost when a proposal loses, and a leader that builds on a block which is not final
//! yet does not offer the same transactions again.
//!
//! Not here: signatures, state and the network. What enters was checked before.

use super::standing::{Refusal, Standing, Standings};
use commonware_codec::EncodeSize as _;
use opengpu_ledger::{Invalid, Lane};
use opengpu_types::{
    Address, Amount, ChainId, Digest, Height, Nonce, SignedTransaction, TransactionId,
};
use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, btree_map::Entry as Slot},
    sync::Arc,
};

/// A transaction that so many proposals could not take is refused: their parents did not all lose.
const MAX_DOUBTS: u32 = 4;

/// What the pool holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Transactions.
    pub transactions: usize,
    /// Bytes of their encodings.
    pub bytes: usize,
    /// Transactions of one lane, which is also how far a nonce may run ahead.
    pub per_lane: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { transactions: 100_000, bytes: 64 * 1024 * 1024, per_lane: 1_024 }
    }
}

/// A transaction whose signatures hold.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The transaction.
    pub signed: Arc<SignedTransaction>,
    /// Its name.
    pub id: TransactionId,
    /// Its hash with the signatures; the pool and blocks know it by this.
    pub witness: Digest,
    /// Nonces count per lane.
    pub lane: Lane,
    /// Bytes of its encoding.
    pub size: usize,
}

impl Borrow<SignedTransaction> for Candidate {
    fn borrow(&self) -> &SignedTransaction {
        &self.signed
    }
}

impl Candidate {
    /// A transaction with the hash that was checked with its signatures.
    pub fn new(
        chain: ChainId,
        signed: SignedTransaction,
        witness: Digest,
    ) -> Result<Self, Invalid> {
        let lane = Lane::of(&signed)?;
        let id = signed.transaction.id(chain);
        let size = signed.encode_size();
        Ok(Self { signed: Arc::new(signed), id, witness, lane, size })
    }

    fn nonce(&self) -> u64 {
        self.signed.transaction.nonce.0
    }

    fn tip(&self) -> Amount {
        self.signed.transaction.tip
    }
}

/// Why a transaction may not wait here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolRefusal {
    /// It waits already.
    #[error("the transaction is in the pool already")]
    Known,
    /// The nonce was used.
    #[error("nonce {given} was used; the next one is {next}")]
    NonceUsed {
        /// Of the transaction.
        given: Nonce,
        /// Of the lane.
        next: Nonce,
    },
    /// The nonce is too far ahead of what is final.
    #[error("nonce {given} is too far ahead; the next one is {next}")]
    NonceAhead {
        /// Of the transaction.
        given: Nonce,
        /// Of the lane.
        next: Nonce,
    },
    /// Another transaction has the nonce, and this one does not tip enough to replace it.
    #[error("another transaction waits with this nonce; replacing it takes a tip of {least}")]
    ReplacementTip {
        /// The least tip that replaces it.
        least: Amount,
    },
    /// It cannot be executed any more.
    #[error("the transaction was valid until height {0}")]
    Expired(Height),
    /// No room.
    #[error("the pool is full")]
    Full,
}

impl PoolRefusal {
    /// For programs; the same names as those of the ledger's refusals where they mean the same.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::NonceUsed { .. } => "nonce-used",
            Self::NonceAhead { .. } => "nonce-ahead",
            Self::ReplacementTip { .. } => "replacement-tip",
            Self::Expired(_) => "expired",
            Self::Full => "busy",
        }
    }
}

/// What happened to a transaction that was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admitted {
    /// It waits.
    New,
    /// It waits in the place of another.
    Replaced(TransactionId),
}

/// A moment, told by what had arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival(u64);

#[derive(Debug)]
struct Waiting {
    candidate: Candidate,
    /// Order of arrival; earlier goes first among equal tips.
    arrival: u64,
    /// Height of the newest proposal that holds it.
    offered: Option<Height>,
    /// Proposals whose state refused it.
    doubts: u32,
}

#[derive(Debug, Default)]
struct Queue {
    /// Next nonce by what is final.
    next: u64,
    waiting: BTreeMap<u64, Waiting>,
}

impl Queue {
    /// The first transaction at or after `nonce` that can go: no gap before it, not offered.
    fn ready_from(&self, nonce: u64) -> Option<&Waiting> {
        let mut expected = nonce;
        for (nonce, waiting) in self.waiting.range(nonce..) {
            if *nonce != expected {
                return None;
            }
            if waiting.offered.is_none() {
                return Some(waiting);
            }
            expected = expected.saturating_add(1);
        }
        None
    }
}

/// Part of a selection that is kept for what is free of fees, as in a block.
const DUTIES: usize = 4;

/// Place in the order of selection: duties first, as long as there is room for them, then highest tip, then
/// first come. Nobody can pay a tip for a duty, and for most of them silence costs a stake.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    duty: bool,
    tip: Amount,
    arrival: std::cmp::Reverse<u64>,
    lane: Lane,
    nonce: u64,
}

impl Rank {
    fn of(waiting: &Waiting) -> Self {
        Self {
            duty: waiting.candidate.signed.transaction.is_fee_free(),
            tip: waiting.candidate.tip(),
            arrival: std::cmp::Reverse(waiting.arrival),
            lane: waiting.candidate.lane,
            nonce: waiting.candidate.nonce(),
        }
    }
}

/// Transactions that wait for a block.
#[derive(Debug)]
pub struct Pool {
    limits: Limits,
    queues: BTreeMap<Lane, Queue>,
    /// By witness; never listed.
    places: HashMap<Digest, (Lane, u64)>,
    /// By the last height at which they may be executed.
    expiries: BTreeSet<(Height, Digest)>,
    /// By the height of the proposal that holds them.
    offers: BTreeMap<Height, Vec<Digest>>,
    finalized: Height,
    bytes: usize,
    arrivals: u64,
    standings: Standings,
}

impl Pool {
    /// An empty pool.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            queues: BTreeMap::new(),
            places: HashMap::new(),
            expiries: BTreeSet::new(),
            offers: BTreeMap::new(),
            finalized: Height(0),
            bytes: 0,
            arrivals: 0,
            standings: Standings::default(),
        }
    }

    /// Transactions in the pool.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of the transactions in the pool.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a transaction waits.
    pub fn contains(&self, witness: &Digest) -> bool {
        self.places.contains_key(witness)
    }

    /// How far a transaction is that is in no final block; `None` if it is not known here.
    pub fn standing(&self, id: &TransactionId) -> Option<&Standing> {
        self.standings.get(id)
    }

    /// A transaction was not let in. One that waits does so still: anyone can send it once more
    /// with a fault of his own.
    pub fn turned_away(&mut self, id: TransactionId, refusal: Refusal) {
        if self.standings.get(&id) != Some(&Standing::Waiting) {
            self.standings.refused(id, refusal);
        }
    }

    /// The first nonce of a lane that nothing waits with, from `next` on.
    pub fn next_nonce(&self, lane: &Lane, next: Nonce) -> Nonce {
        let Some(queue) = self.queues.get(lane) else { return next };
        let mut free = queue.next.max(next.0);
        for nonce in queue.waiting.range(free..).map(|(nonce, _)| *nonce) {
            if nonce != free {
                break;
            }
            free = free.saturating_add(1);
        }
        Nonce(free)
    }

    /// Whether a proposal made now would hold something.
    pub fn has_ready(&self) -> bool {
        self.queues.values().any(|queue| queue.ready_from(queue.next).is_some())
    }

    /// Lets a transaction in. `next` is the lane's next nonce in the state of a final block.
    pub fn admit(&mut self, candidate: Candidate, next: Nonce) -> Result<Admitted, PoolRefusal> {
        let (nonce, size) = (candidate.nonce(), candidate.size);
        let valid_until = candidate.signed.transaction.valid_until;
        if self.places.contains_key(&candidate.witness) {
            return Err(PoolRefusal::Known);
        }
        if valid_until <= self.finalized {
            return Err(PoolRefusal::Expired(valid_until));
        }
        let queued = self.queues.get(&candidate.lane);
        let next = queued.map_or(next.0, |queue| queue.next.max(next.0));
        if nonce < next {
            return Err(PoolRefusal::NonceUsed { given: Nonce(nonce), next: Nonce(next) });
        }
        if nonce.saturating_sub(next) >= self.limits.per_lane {
            return Err(PoolRefusal::NonceAhead { given: Nonce(nonce), next: Nonce(next) });
        }
        let replaced = match queued.and_then(|queue| queue.waiting.get(&nonce)) {
            None => None,
            Some(old) => {
                let least = replacement_tip(old.candidate.tip());
                if candidate.tip() < least {
                    return Err(PoolRefusal::ReplacementTip { least });
                }
                Some((old.candidate.id, old.candidate.witness, old.candidate.size))
            }
        };
        let freed = replaced.map_or(0, |(_, _, size)| size);
        let bytes = self.bytes.saturating_sub(freed).saturating_add(size);
        let crowded = replaced.is_none() && self.len() >= self.limits.transactions;
        if crowded || bytes > self.limits.bytes {
            return Err(PoolRefusal::Full);
        }
        if let Some((id, old, _)) = replaced {
            self.remove(&old);
            self.standings.refused(id, Refusal::replaced(candidate.id));
        }
        self.standings.waits(candidate.id);
        self.bytes = bytes;
        self.arrivals = self.arrivals.saturating_add(1);
        self.places.insert(candidate.witness, (candidate.lane, nonce));
        self.expiries.insert((valid_until, candidate.witness));
        let queue = self.queues.entry(candidate.lane).or_default();
        queue.next = next;
        queue
            .waiting
            .insert(nonce, Waiting { candidate, arrival: self.arrivals, offered: None, doubts: 0 });
        Ok(replaced.map_or(Admitted::New, |(old, _, _)| Admitted::Replaced(old)))
    }

    /// The transactions that should go next, best first; each lane's in the order of nonces.
    pub fn select(&self, count: usize, bytes: usize) -> Vec<Candidate> {
        self.select_until(Arrival(u64::MAX), count, bytes)
    }

    /// The newest arrival.
    pub const fn newest(&self) -> Arrival {
        Arrival(self.arrivals)
    }

    /// Like [`Self::select`], of those that had arrived by then.
    pub fn select_until(&self, newest: Arrival, count: usize, bytes: usize) -> Vec<Candidate> {
        let ready = |queue: &Queue, nonce| {
            let ready = queue.ready_from(nonce).filter(|waiting| waiting.arrival <= newest.0);
            ready.map(Rank::of)
        };
        let mut ranks: BinaryHeap<Rank> =
            self.queues.values().filter_map(|queue| ready(queue, queue.next)).collect();
        let mut selected = Vec::new();
        let mut room = bytes;
        let mut duties = (count / DUTIES, bytes / DUTIES);
        while let Some(rank) = ranks.pop() {
            if selected.len() >= count {
                break;
            }
            let Some(queue) = self.queues.get(&rank.lane) else { continue };
            let Some(waiting) = queue.waiting.get(&rank.nonce) else { continue };
            if rank.duty {
                let left = duties.1.checked_sub(waiting.candidate.size);
                let Some(left) = duties.0.checked_sub(1).zip(left) else {
                    ranks.push(Rank { duty: false, ..rank });
                    continue;
                };
                duties = left;
            }
            // One that does not fit holds back its lane only: a smaller one may still fit.
            let Some(rest) = room.checked_sub(waiting.candidate.size) else { continue };
            room = rest;
            selected.push(waiting.candidate.clone());
            ranks.extend(ready(queue, rank.nonce.saturating_add(1)));
        }
        selected
    }

    /// Transactions are in a proposal for `height`, ours or another leader's.
    pub fn offered(&mut self, height: Height, witnesses: &[Digest]) {
        if height <= self.finalized {
            return;
        }
        for witness in witnesses {
            let Some(waiting) = waiting(&self.places, &mut self.queues, witness) else { continue };
            waiting.offered = waiting.offered.max(Some(height));
            self.offers.entry(height).or_default().push(*witness);
        }
    }

    /// A proposal for `height` could not take a transaction. Its parent may still lose, so the
    /// transaction is tried again when the height is final, but not for ever.
    pub fn doubt(&mut self, height: Height, witness: &Digest, refusal: Refusal) {
        let Some(waiting) = waiting(&self.places, &mut self.queues, witness) else { return };
        waiting.doubts = waiting.doubts.saturating_add(1);
        if waiting.doubts < MAX_DOUBTS {
            self.offered(height, std::slice::from_ref(witness));
        } else {
            self.refuse(witness, refusal);
        }
    }

    /// The ledger refused a transaction for good.
    pub fn refuse(&mut self, witness: &Digest, refusal: Refusal) {
        if let Some(id) = self.remove(witness) {
            self.standings.refused(id, refusal);
        }
    }

    /// A block is final. What it took, or made stale, leaves; what was offered for its height or
    /// an earlier one and did not get in waits again.
    pub fn finalized<'a>(
        &mut self,
        height: Height,
        included: impl IntoIterator<Item = (&'a Digest, &'a SignedTransaction)>,
    ) {
        self.finalized = self.finalized.max(height);
        for (witness, signed) in included {
            if let Some(lane) = self.lane(witness, signed) {
                self.use_nonce(lane, signed.transaction.nonce, witness);
            }
        }
        let later = self.offers.split_off(&self.finalized.next());
        for witness in std::mem::replace(&mut self.offers, later).into_values().flatten() {
            let Some(waiting) = waiting(&self.places, &mut self.queues, &witness) else { continue };
            waiting.offered = waiting.offered.filter(|at| *at > self.finalized);
        }
        let valid = self.expiries.split_off(&(self.finalized.next(), LEAST_WITNESS));
        for (valid_until, witness) in std::mem::replace(&mut self.expiries, valid) {
            self.refuse(&witness, Refusal::expired(valid_until));
        }
    }

    /// The lane of a transaction, if anything of its sender waits. The address of a key costs a
    /// hash, so it is computed only then.
    fn lane(&self, witness: &Digest, signed: &SignedTransaction) -> Option<Lane> {
        if let Some((lane, _)) = self.places.get(witness) {
            return Some(*lane);
        }
        let sender = signed.transaction.sender;
        let first = Lane { sender, signer: Address::ZERO };
        let (candidate, _) = self.queues.range(first..).next()?;
        if candidate.sender == sender { Lane::of(signed).ok() } else { None }
    }

    /// Removes everything of `lane` up to `nonce`, which `by` used.
    fn use_nonce(&mut self, lane: Lane, nonce: Nonce, by: &Digest) {
        let Some(queue) = self.queues.get_mut(&lane) else { return };
        queue.next = queue.next.max(nonce.0.saturating_add(1));
        let stale: Vec<_> = queue
            .waiting
            .range(..queue.next)
            .map(|(_, waiting)| waiting.candidate.witness)
            .collect();
        for witness in stale {
            match self.remove(&witness) {
                Some(id) if witness == *by => self.standings.included(&id),
                Some(id) => self.standings.refused(id, Refusal::overtaken()),
                None => {}
            }
        }
    }

    fn remove(&mut self, witness: &Digest) -> Option<TransactionId> {
        let (lane, nonce) = self.places.remove(witness)?;
        let Slot::Occupied(mut queue) = self.queues.entry(lane) else { return None };
        let removed = queue.get_mut().waiting.remove(&nonce);
        if let Some(waiting) = &removed {
            self.bytes = self.bytes.saturating_sub(waiting.candidate.size);
            let valid_until = waiting.candidate.signed.transaction.valid_until;
            self.expiries.remove(&(valid_until, *witness));
        }
        if queue.get().waiting.is_empty() {
            queue.remove();
        }
        removed.map(|waiting| waiting.candidate.id)
    }
}

/// The place of a transaction in its queue.
fn waiting<'a>(
    places: &HashMap<Digest, (Lane, u64)>,
    queues: &'a mut BTreeMap<Lane, Queue>,
    witness: &Digest,
) -> Option<&'a mut Waiting> {
    let (lane, nonce) = places.get(witness)?;
    queues.get_mut(lane)?.waiting.get_mut(nonce)
}

/// Cuts an ordered set at a height.
const LEAST_WITNESS: Digest = Digest([0; 32]);

/// A tenth more than the old tip, rounded up, and more than nothing.
fn replacement_tip(old: Amount) -> Amount {
    let tenth = Amount(old.0.div_ceil(10).max(1));
    old.plus(tenth).unwrap_or(Amount(u128::MAX))
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
