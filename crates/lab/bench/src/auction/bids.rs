//! Sealed bids on a chain of four validators: how many are accepted in a second.
//!
//! A hundred providers are registered and tasks are opened first. Then all bids, signed before, go to
//! the nodes over their public RPC, task after task, because a task takes bids only for a while after
//! the first one. What counts is the time from the first submission to the block that has the last one,
//! and only bids that took effect.

use crate::{
    chain::{Terms, submit_all, transaction},
    error::BenchError,
    network::{Cast, Scene, wait},
};
use opengpu_client::Rpc;
use opengpu_crypto::{Digest, Keypair, SealPublicKey};
use opengpu_market::auction::seal;
use opengpu_types::{
    Allocating, Amount, ArtifactId, Class, Contact, Eyes, Height, List, MarketOperation, Measure,
    Millis, Money, Offer, Operation, Outcome, Permille, Precision, ProgramId, ProgramKind, Rating,
    Requirements, Runtime, SessionKey, Set, SignedTransaction, Spec, TaskId, Text, Trust, Weights,
    Work,
};
use rand::rngs::StdRng;
use std::{path::Path, time::Instant};

/// Providers that bid, each for every task.
const BIDDERS: u8 = 100;
/// Transactions in one request.
const BATCH: usize = 500;
const STAKE: Amount = Amount::whole(200);
const RATE: Amount = Amount(1_000_000_000_000_000);
const BUDGET: Amount = Amount::whole(1);

/// Bids that are accepted in a second, when each of the providers bids for so many tasks.
pub(super) fn per_second(
    opengpu: &Path,
    folder: &Path,
    tasks: u64,
    rng: &mut StdRng,
) -> Result<f64, BenchError> {
    let bidders: Vec<_> = (0..BIDDERS).map(|_| Keypair::generate_ed25519(rng)).collect();
    let client = Keypair::generate_ed25519(rng);
    let accounts: Vec<_> = bidders.iter().chain([&client]).cloned().collect();
    let cast = Cast { providers: 0, stake: Amount::ZERO, clients: &accounts };
    let mut scene = Scene::make(opengpu, folder, &cast, rng)?;
    scene.start()?;
    let rpc = scene.rpcs.first().ok_or(BenchError::Nothing("no node"))?;
    let terms = Terms::ask(rpc)?;
    let signed = |keypair: &Keypair, operation, nonce| {
        transaction(&terms, keypair, vec![Operation::Market(operation)], nonce)
    };
    let first = |keypair: &Keypair| Ok::<_, BenchError>(rpc.account(keypair.address())?.nonce.0);

    let mut nonces = Vec::new();
    let mut openings = Vec::new();
    for bidder in &bidders {
        let nonce = first(bidder)?;
        nonces.push(nonce.saturating_add(1));
        openings.push(signed(bidder, registration()?, nonce));
    }
    let begin = first(&client)?;
    let submissions: Vec<_> = (begin..begin.saturating_add(tasks))
        .map(|nonce| signed(&client, submission(), nonce))
        .collect();
    let ids: Vec<_> = submissions
        .iter()
        .map(|signed| TaskId::of(&signed.transaction.id(terms.chain), 0))
        .collect();
    openings.extend(submissions);
    send(&scene.rpcs, &openings)?;
    let known =
        |id: &TaskId| Ok::<_, BenchError>(opengpu_client::market::task(rpc, *id)?.is_some());
    wait("opening the tasks", || ids.iter().try_fold(true, |all, id| Ok(all && known(id)?)))?;

    let mut bids = Vec::new();
    for (round, id) in (0u64..).zip(&ids) {
        for (bidder, nonce) in bidders.iter().zip(&nonces) {
            let seal = seal(terms.chain, &id.0, &bidder.address(), RATE, &[0; 32]);
            let bid = MarketOperation::SealBid { task: *id, offer: 0, seal };
            bids.push(signed(bidder, bid, nonce.saturating_add(round)));
        }
    }
    let from = rpc.status()?.height;
    let begun = Instant::now();
    send(&scene.rpcs, &bids)?;
    let (last, terms) = (bids.last().ok_or(BenchError::Nothing("no bids"))?, &terms);
    let last = last.transaction.id(terms.chain);
    let patience = std::time::Duration::from_secs(60);
    opengpu_client::wait_until_final(rpc, last, terms.valid_until, patience)?;
    let seconds = begun.elapsed().as_secs_f64();
    let accepted = accepted(rpc, from, rpc.status()?.height)?;
    if accepted < bids.len() {
        crate::tell(format!(
            "{} of {} bids were refused",
            bids.len().saturating_sub(accepted),
            bids.len()
        ));
    }
    Ok(crate::figures::float(u64::try_from(accepted).unwrap_or(0)) / seconds)
}

/// Gives transactions to the nodes in turns, in their sequence.
fn send(rpcs: &[Rpc], transactions: &[SignedTransaction]) -> Result<(), BenchError> {
    for (batch, rpc) in transactions.chunks(BATCH).zip(rpcs.iter().cycle()) {
        submit_all(rpc, batch)?;
    }
    Ok(())
}

/// Transactions that took effect in these blocks.
fn accepted(rpc: &Rpc, after: Height, to: Height) -> Result<usize, BenchError> {
    let mut count = 0usize;
    for height in after.0.saturating_add(1)..=to.0 {
        let receipts = rpc.receipts(Height(height))?;
        let applied = |it: &&opengpu_types::Receipt| {
            it.transaction.is_some() && it.outcome == Outcome::Applied
        };
        count = count.saturating_add(receipts.iter().filter(applied).count());
    }
    Ok(count)
}

fn contact() -> Contact {
    let (session, sealing) = (SessionKey([1; 32]), SealPublicKey([2; 32]));
    Contact { session, sealing, relay: Text::default() }
}

fn registration() -> Result<MarketOperation, BenchError> {
    let offer = Offer {
        class: Text::new("bench").map_err(|_| BenchError::Nothing("a class"))?,
        devices: 1,
        memory: 1_024,
        rating: Rating { floats: 1_000, integers: 1_000, products: 1_000, memory: 1_000 },
        precisions: Set::of(&[Precision::F32]),
        runtimes: Set::of(&[Runtime::Cpu]),
        kinds: Set::all(),
        trusts: Set::all(),
        region: Text::default(),
        longest: Millis(3_600_000),
        rate: Money::tokens(RATE),
        reliability: Permille::ZERO,
        denied: List::empty(),
    };
    let offers = List::new(vec![offer]).map_err(|_| BenchError::Nothing("an offer"))?;
    Ok(MarketOperation::RegisterProvider { contact: contact(), offers, stake: STAKE })
}

fn submission() -> MarketOperation {
    let spec = Spec {
        program: ProgramId(Digest([1; 32])),
        input: ArtifactId(Digest([2; 32])),
        segments: 8,
        work: Work { amount: 10_000, measure: Measure::Integers },
        requirements: Requirements {
            kind: ProgramKind::Wasm,
            devices: 1,
            memory: 1,
            classes: List::empty(),
            precisions: Set::NONE,
            runtimes: Set::NONE,
            regions: List::empty(),
            reliability: Permille::ZERO,
            trust: Trust::Checked,
            longest: Millis(600_000),
            cap: Money::tokens(BUDGET),
            allowed: List::empty(),
            denied: List::empty(),
        },
        class: Class::Exact,
        eyes: Eyes::Anyone,
        allocating: Allocating::Auction,
        weights: Weights {
            time: Permille::constant(100),
            reliability: Permille::constant(100),
            proximity: Permille::constant(50),
        },
        region: Text::default(),
        patience: Millis(600_000),
    };
    let budget = Money::tokens(BUDGET);
    MarketOperation::SubmitTask { spec: spec.into(), budget, escrow: BUDGET, contact: contact() }
}
