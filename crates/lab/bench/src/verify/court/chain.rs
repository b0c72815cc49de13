//! A ledger in memory, block by block, with the processor time of everything that it does.
//!
//! Signatures are zeros: whoever hands a transaction to the ledger has checked them, and so their time is
//! in none of the figures here, neither of audits nor of transfers.

use super::super::story::Story;
use crate::error::BenchError;
use opengpu_client::devnet::{DevNetwork, Plan};
use opengpu_crypto::{Keypair, hash};
use opengpu_ledger::{
    BlockContext, Execution, Memory, Overlay, Table, check_genesis, genesis_seats, opening_nonce,
    tables::Accounts,
};
use opengpu_types::{
    Address, Allocation, Amount, AuditParameters, Authorization, BeaconSignature, ConsensusKey,
    Event, Genesis, Height, List, Millis, Operation, Outcome, PublicKey, Receipt, Signature,
    SignedTransaction, Text, Transaction, View, Weight,
};
use rand::{SeedableRng as _, rngs::StdRng};
use rustix::time::{ClockId, clock_gettime};
use std::{collections::BTreeMap, time::Duration};

const START: Millis = Millis(1_800_000_000_000);
const FUNDS: Amount = Amount::whole(10_000);

/// How often something was done, and how long that took in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Took {
    pub(in super::super) count: u32,
    pub(in super::super) time: Duration,
}

impl Took {
    fn add(&mut self, time: Duration) {
        self.count = self.count.saturating_add(1);
        self.time = self.time.saturating_add(time);
    }

    /// Both together.
    pub(in super::super) const fn plus(self, other: Self) -> Self {
        let count = self.count.saturating_add(other.count);
        Self { count, time: self.time.saturating_add(other.time) }
    }

    pub(in super::super) const fn micros(&self) -> f64 {
        self.time.as_secs_f64() * 1e6
    }

    /// Of one of them; none if there was none.
    pub(in super::super) fn each(&self) -> Option<f64> {
        (self.count > 0).then(|| self.micros() / f64::from(self.count))
    }
}

/// Processor time of this thread.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanos.unwrap_or(0))
}

/// What somebody does in a block.
pub(super) struct Act<'a> {
    pub(super) by: &'a Keypair,
    pub(super) operation: Operation,
    /// Whether it is a duty, which is free of fees.
    pub(super) free: bool,
}

/// The chain.
pub(super) struct Chain {
    genesis: Genesis,
    state: Memory,
    pub(super) height: Height,
    pub(super) time: Millis,
    leader: ConsensusKey,
    /// Applying, by the name of the operation.
    pub(super) applied: BTreeMap<&'static str, Took>,
    /// What blocks do by themselves, alarms included: one for each block.
    pub(super) own: Took,
    /// The last block.
    pub(super) last: (Vec<Receipt>, Vec<SignedTransaction>),
}

fn failed(what: &str, why: impl std::fmt::Display) -> BenchError {
    BenchError::Ledger(format!("{what}: {why}"))
}

impl Chain {
    /// Before its first block, with tokens for everybody.
    pub(super) fn new(
        parties: &[Keypair],
        audits: AuditParameters,
        seed: u64,
    ) -> Result<Self, BenchError> {
        let plan = Plan::new(1, START);
        let mut genesis = DevNetwork::generate(&mut StdRng::seed_from_u64(seed), &plan)?.genesis;
        let parameters = &mut genesis.parameters;
        (parameters.epoch_blocks, parameters.block_weight) = (1 << 24, Weight(1 << 30));
        parameters.market.audits = audits;
        let funded = parties.iter().map(|party| Allocation {
            account: party.address(),
            amount: FUNDS,
            vesting: None,
        });
        let all = genesis.allocations.into_vec().into_iter().chain(funded).collect();
        genesis.allocations =
            List::new(all).map_err(|_| BenchError::Nothing("too many accounts"))?;
        check_genesis(&genesis).map_err(|error| failed("the genesis", error))?;
        let [seats, _] = genesis_seats(&genesis).map_err(|error| failed("the seats", error))?;
        let seat = seats.seats.first().ok_or(BenchError::Nothing("no seat"))?;
        Ok(Self {
            leader: seat.consensus,
            genesis,
            state: Memory::default(),
            height: Height(0),
            time: START,
            applied: BTreeMap::new(),
            own: Took::default(),
            last: (Vec::new(), Vec::new()),
        })
    }

    pub(super) const fn id(&self) -> opengpu_types::ChainId {
        self.genesis.chain
    }

    pub(super) const fn parameters(&self) -> &opengpu_types::Parameters {
        &self.genesis.parameters
    }

    pub(super) fn find<T: Table>(&self, id: T::Id) -> Result<Option<T::Value>, BenchError> {
        Overlay::new(&self.state).find::<T>(id).map_err(|halt| failed("reading the state", halt))
    }

    /// The next block, so long after the one before; everything that is done in it must take effect.
    pub(super) fn block(&mut self, step: Millis, acts: Vec<Act<'_>>) -> Result<(), BenchError> {
        let before = View(self.height.0);
        (self.height, self.time) = (self.height.next(), self.time.plus(step));
        let context = BlockContext {
            chain: self.genesis.chain,
            height: self.height,
            view: View(self.height.0),
            parent_view: before,
            leader: self.leader,
            time: self.time,
            beacon: beacon(self.height),
        };
        let mut execution = Execution::new(&self.state, context);
        let begun = spent();
        execution.begin(&self.genesis).map_err(|error| failed("a block", error))?;
        let mut own = spent().saturating_sub(begun);
        let mut transactions = Vec::new();
        for act in acts {
            let name = act.operation.name();
            let account = execution.state().find::<Accounts>(act.by.address());
            let account = account.map_err(|halt| failed(name, halt))?;
            let until = self.height.next();
            let nonce = account.map_or_else(|| opening_nonce(until), |account| account.nonce);
            let signed = unsigned(act, until, nonce);
            let begun = spent();
            let outcome = execution.apply(&signed).map(|receipt| receipt.outcome);
            self.applied.entry(name).or_default().add(spent().saturating_sub(begun));
            match outcome.map_err(|rejection| failed(name, format!("{rejection:?}")))? {
                Outcome::Applied => transactions.push(signed),
                Outcome::Failed { failure, .. } => return Err(failed(name, failure)),
            }
        }
        let begun = spent();
        let block = execution.finish().map_err(|(_, halt)| failed("a block", halt))?;
        own = own.saturating_add(spent().saturating_sub(begun));
        self.own.add(own);
        self.state.commit(block.changes);
        self.last = (block.receipts.into_iter().collect(), transactions);
        Ok(())
    }

    pub(super) fn idle(&mut self, step: Millis) -> Result<(), BenchError> {
        self.block(step, Vec::new())
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &Event> {
        self.last.0.iter().flat_map(|receipt| receipt.events.iter())
    }

    /// Tells a story what the last block says.
    pub(super) fn tell(&self, story: &mut Story) {
        story.read(self.height, &self.last.0, &self.last.1);
    }

    /// Forgets all times so far.
    pub(super) fn forget_times(&mut self) {
        (self.applied, self.own) = (BTreeMap::new(), Took::default());
    }
}

/// Anything that differs from block to block: nobody proves it here.
fn beacon(height: Height) -> BeaconSignature {
    let (first, second) = (hash("beacon", &[&height.0.to_be_bytes()]).0, [7; 16]);
    let mut bytes = [0; 48];
    for (place, byte) in bytes.iter_mut().zip(first.into_iter().chain(second)) {
        *place = byte;
    }
    BeaconSignature(bytes)
}

fn unsigned(act: Act<'_>, until: Height, nonce: opengpu_types::Nonce) -> SignedTransaction {
    let key = act.by.public_key();
    let signature = match key {
        PublicKey::Ed25519(_) => Signature::Ed25519([0; 64]),
        PublicKey::Secp256k1(_) => Signature::Eip712([0; 64]),
    };
    let transaction = Transaction {
        sender: act.by.address(),
        nonce,
        valid_until: until,
        max_fee: if act.free { Amount::ZERO } else { Amount::ONE },
        tip: Amount::ZERO,
        sponsor: None,
        operations: List::new(vec![act.operation]).expect("one is not too many"),
        memo: Text::default(),
    };
    SignedTransaction { transaction, signer: Authorization { key, signature }, sponsor: None }
}

/// Keys of so many parties.
pub(super) fn keys(count: u8) -> Vec<Keypair> {
    (0..count).map(|number| Keypair::ed25519(hash("party", &[&[number]]).0)).collect()
}

/// Whose key it is.
pub(super) fn key_of(keys: &[Keypair], address: Address) -> Result<&Keypair, BenchError> {
    let found = keys.iter().find(|key| key.address() == address);
    found.ok_or(BenchError::Nothing("a party that nobody plays"))
}
