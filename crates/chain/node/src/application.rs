//! The state machine as the engine drives it: propose, process, finalized.
//!
//! - **propose**: a leader executes what the mempool offers and seals the result into a header; it
//!   was not called before there was a reason ([`crate::pace`]).
//! - **process**: a voter executes the block, checks signatures on the workers meanwhile, and
//!   compares everything that the header claims. Its verdict is final, so only what headers and
//!   state say counts; the clock can only make it wait ([`crate::timing`]).
//! - **finalized**: the mempool learns what was taken, and at the end of an epoch the next one is
//!   announced.
//!
//! Consensus itself checks what is between blocks: parent digest, next height, the round and leader
//! that a header names, and that no block is built past the end of an epoch.
//!
//! Calls may run at the same time on clones and may be dropped at any await; before the last one
//! nothing is changed but what is known about proposals.

use crate::{
    alarms::Alarms,
    block::{Block, Context},
    committee::{Scheme, consensus_key},
    epochs::Opening,
    executor::{ExecuteError, Output, Purpose, execute},
    history::Records,
    mempool::{Candidate, Mempool},
    signatures::Signatures,
    store::{self, Batch, Databases, Readers, Sealed, SyncTarget},
    timing,
    turn::Turn,
};
use commonware_consensus::marshal::ancestry::Ancestry;
use commonware_glue::stateful::{Application as StatefulApplication, Finality, Input, Proposed};
use commonware_parallel::Strategy;
use commonware_runtime::{Clock, Metrics, Spawner, Storage};
use commonware_utils::channel::mpsc;
use futures::StreamExt as _;
use opengpu_crypto::BeaconKeypair;
use opengpu_ledger::{BlockContext, Corruption, Invalid, is_last_of_epoch, verify_leader};
use opengpu_types::{
    BeaconSignature, Block as WireBlock, Entry, Epoch, Genesis, Header, Height, Key, List, Millis,
    SeatSet, SignedTransaction, View,
};
use rand_core::CryptoRng;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

/// Bytes of a block that are not transactions, generously.
const BLOCK_OVERHEAD: usize = 1_024;

/// The runtime's clock in block time.
pub fn now(clock: &impl Clock) -> Millis {
    let since = clock.current().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Returns once the clock shows `time`.
pub async fn sleep_until(clock: &impl Clock, time: Millis) {
    if now(clock) < time {
        clock
            .sleep_until(
                UNIX_EPOCH.checked_add(Duration::from_millis(time.0)).unwrap_or(UNIX_EPOCH),
            )
            .await;
    }
}

/// The state machine of one node.
#[derive(Clone, Debug)]
pub struct Application<T> {
    /// Where it begins; checked.
    pub genesis: Arc<Genesis>,
    /// Signs the beacons of this node's blocks.
    pub beacon: Arc<BeaconKeypair>,
    /// What is proposed.
    pub mempool: Mempool,
    /// When the chain has something to do by itself.
    pub alarms: Alarms,
    /// Where consensus stands.
    pub turn: Turn,
    /// Checks signatures.
    pub signatures: Signatures,
    /// The workers.
    pub strategy: T,
    /// Takes new epochs.
    pub openings: mpsc::UnboundedSender<Opening>,
    /// Kept for the RPC, if this node serves one.
    pub records: Option<Records>,
}

impl<T: Strategy> Application<T> {
    /// The block of height zero: it commits to the genesis and to an empty store. Its proofs, seats
    /// and receipts are nobody's business: the first block brings the first state.
    pub fn genesis_block<E>(&self) -> Block
    where
        E: Spawner + Storage + Clock + Metrics,
    {
        let genesis = &self.genesis;
        let first = genesis.validators.first().expect("a checked genesis has validators");
        let header = Header {
            chain: genesis.chain,
            rules: genesis.rules,
            upgrade: None,
            height: Height(0),
            epoch: Epoch(0),
            view: View(0),
            parent_view: View(0),
            leader: first.keys.consensus,
            parent: genesis.digest(),
            time: genesis.time,
            beacon: BeaconSignature([0; 48]),
            state: store::empty_commitment::<E, T>(),
            transactions: WireBlock::transactions_root(&[]),
            receipts: opengpu_crypto::merkle::root(&[]),
            next_seats: genesis.digest(),
        };
        Block::new(WireBlock { header, transactions: List::empty() })
            .expect("a checked genesis has valid keys, and an empty body fits an empty root")
    }

    /// Tells the mempool what the ledger did not take.
    fn discard(
        &self,
        height: Height,
        candidates: &[Candidate],
        left_out: &BTreeMap<usize, Invalid>,
    ) {
        let refused = left_out.iter().filter_map(|(index, invalid)| {
            let candidate = candidates.get(*index)?;
            tracing::debug!(id = %candidate.id, reason = invalid.name(), "transaction left out");
            Some((&candidate.witness, invalid))
        });
        self.mempool.left_out(height, refused);
    }

    /// Whether a header says about its block what executing it has shown.
    fn agrees<E>(&self, header: &Header, output: &Output<E, T>) -> bool
    where
        E: Spawner + Storage + Clock + Metrics,
    {
        header.chain == self.genesis.chain
            && header.rules == output.chain.rules
            && header.upgrade == output.chain.upgrade
            && header.state == store::commitment::<E, T>(&output.sealed)
            && header.receipts == output.receipts
            && header.next_seats == output.next_seats
    }

    /// Runs a verification on the workers.
    async fn signatures_hold(&self, seed: [u8; 32], block: Arc<Block>) -> bool {
        let signatures = self.signatures.clone();
        let spawned = self.strategy.spawn(block.transactions().len(), move |strategy| {
            signatures.all_hold(seed, block.transactions(), block.witnesses(), &strategy)
        });
        spawned.await
    }

    async fn beacon_holds(
        &self,
        seats: SeatSet,
        context: BlockContext,
        before: BeaconSignature,
    ) -> bool {
        let spawned = self.strategy.spawn(1, move |_| verify_leader(&seats, &context, &before));
        spawned.await.inspect_err(|error| tracing::warn!(%error, "block refused")).is_ok()
    }
}

/// A node with a damaged state or disk must stop: it must not vote, and it must not say that a
/// block is invalid either.
fn stop(error: &(dyn std::error::Error + 'static)) -> ! {
    tracing::error!(error, "the node stops");
    #[expect(clippy::panic, reason = "the runtime ends the process when an actor panics")]
    {
        panic!("{error}")
    }
}

impl<E, T> StatefulApplication<E> for Application<T>
where
    E: Clock + CryptoRng + Spawner + Storage + Metrics,
    T: Strategy,
{
    type SigningScheme = Scheme;
    type Context = Context;
    type Block = Block;
    type Databases = Databases<E, T>;
    type Captured = ();
    type Provider = ();
    type Input = ();

    fn sync_targets(block: &Block) -> SyncTarget {
        store::sync_target(&block.header().state).expect("a block has bounds of a log")
    }

    async fn genesis(&mut self) -> Block {
        self.genesis_block::<E>()
    }

    async fn propose(
        &mut self,
        (runtime, context): (E, Context),
        mut ancestry: impl Ancestry<Block>,
        batch: Batch<E, T>,
        _: Input<(), ()>,
    ) -> Option<Proposed<Self, E>> {
        let parent = ancestry.next().await?;
        let parent = parent.inner().header();
        let height = parent.height.next();
        let mut header = Header {
            chain: self.genesis.chain,
            height,
            epoch: Epoch(context.round.epoch().get()),
            view: View(context.round.view().get()),
            parent_view: View(context.parent.0.get()),
            leader: consensus_key(&context.leader),
            parent: context.parent.1,
            time: timing::proposed(parent.time, now(&runtime)),
            beacon: self.beacon.sign(self.genesis.chain.0, height.0, &parent.beacon),
            // The rest follows from execution.
            ..parent.clone()
        };
        let room = WireBlock::MAX_SIZE.saturating_sub(BLOCK_OVERHEAD);
        let candidates = self.mempool.select(WireBlock::MAX_TRANSACTIONS, room);
        let block_context = BlockContext::from(&header);
        let executed =
            execute(&self.genesis, block_context, &candidates, batch, Purpose::Propose).await;
        let output = match executed {
            Ok(output) => output,
            Err(ExecuteError::Block(error)) => {
                tracing::warn!(%error, "nothing proposed");
                return None;
            }
            Err(error) => stop(&error),
        };
        self.alarms.set(header.time, output.alarms);
        self.discard(height, &candidates, &output.left_out);
        let included = candidates
            .iter()
            .enumerate()
            .filter(|(index, _)| !output.left_out.contains_key(index))
            .map(|(_, candidate)| SignedTransaction::clone(&candidate.signed))
            .collect();
        let transactions = List::new(included).expect("the selection respects the limit");
        header.rules = output.chain.rules;
        header.upgrade = output.chain.upgrade;
        header.state = store::commitment::<E, T>(&output.sealed);
        header.receipts = output.receipts;
        header.next_seats = output.next_seats;
        header.transactions = WireBlock::transactions_root(&transactions);
        let block = Block::new(WireBlock { header, transactions })
            .inspect_err(|error| tracing::error!(%error, "nothing proposed"))
            .ok()?;
        self.mempool.offered(height, block.witnesses());
        self.turn.proposed(block.header().epoch, block.header().view);
        if let Some(records) = &self.records {
            records.executed(block.header(), output.receipt_list);
        }
        Some(Proposed { block, merkleized: output.sealed })
    }

    async fn process(
        &mut self,
        (mut runtime, _): (E, Context),
        mut ancestry: impl Ancestry<Block>,
        batch: Batch<E, T>,
        finality: Finality,
    ) -> Option<Sealed<E, T>> {
        let block = ancestry.next().await?.inner_shared();
        let header = block.header();
        let context = BlockContext::from(header);
        let candidate = finality == Finality::Candidate;
        self.turn.proposed(header.epoch, header.view);
        let seed = {
            let mut seed = [0; 32];
            runtime.fill_bytes(&mut seed);
            seed
        };
        let signatures = async { !candidate || self.signatures_hold(seed, block.clone()).await };
        let execution =
            execute(&self.genesis, context, block.transactions(), batch, Purpose::Verify);
        let (holding, executed) = futures::join!(signatures, execution);
        let output = match executed {
            Ok(output) => output,
            Err(error @ (ExecuteError::Block(_) | ExecuteError::Transaction { .. })) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(height = header.height.0, error, "block refused");
                return None;
            }
            Err(error) => stop(&error),
        };
        if !holding || !self.agrees(header, &output) {
            tracing::warn!(height = header.height.0, holding, "block refused");
            return None;
        }
        self.alarms.set(header.time, output.alarms);
        if candidate {
            let parent = ancestry.next().await?;
            let before = parent.inner().header().beacon;
            if !self.beacon_holds(output.seats, context, before).await {
                return None;
            }
            self.mempool.offered(header.height, block.witnesses());
            sleep_until(&runtime, timing::vote_from(header.time)).await;
        }
        if let Some(records) = &self.records {
            records.executed(header, output.receipt_list);
        }
        Some(output.sealed)
    }

    /// Records the block before its state is applied: what the state contains is then recorded,
    /// whenever the process dies.
    async fn capture(
        &mut self,
        _: (E, Context),
        block: &Block,
        _: &Sealed<E, T>,
        _: Readers<E, T>,
    ) {
        let Some(records) = &self.records else { return };
        if let Err(error) = records.record(block).await {
            stop(&error);
        }
    }

    async fn finalized(&mut self, _: (E, Context), block: &Block, (): (), readers: Readers<E, T>) {
        self.mempool.finalized(block);
        if let Some(records) = &self.records {
            records.applied(block);
        }
        let header = block.header();
        if !is_last_of_epoch(header.height, &self.genesis.parameters) {
            return;
        }
        let next = header.epoch.plus(1);
        let mut seats = Vec::with_capacity(2);
        for epoch in [next, next.plus(1)] {
            let entry = store::get(&*readers.read().await, &Key::Seats(epoch)).await;
            match entry {
                Ok(Some(Entry::Seats(set))) => seats.push(Arc::new(set)),
                Ok(_) => stop(&Corruption::Missing(Key::Seats(epoch))),
                Err(error) => stop(&error),
            }
        }
        if let [seats, next] = seats.as_slice() {
            let (seats, next) = (seats.clone(), next.clone());
            // The runner is gone only when the node is stopping.
            let _ = self.openings.send(Opening { anchor: header.digest(), seats, next });
        }
    }
}
