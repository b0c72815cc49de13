//! Settlements that fall into one block, of two leases and of one: whatever the order, each lease is
//! paid once.

use crate::{
    network::Network,
    providers::{Running, spec, submit, until},
    scene::{SHORT, Scene, example},
};
use opengpu_client::{
    Facts, Keystore, Passphrase, Rpc, Signatory, Signer, TransactionBuilder, api::SubmissionStatus,
    devnet, market, send,
};
use opengpu_types::{
    Amount, ArtifactId, Checkpoint, CloseReason, Commitment, Digest, Ending, Event, Height,
    LeaseId, LeasePhase, Leave, MarketOperation, Millis, Nonce, Operation, Outcome, Receipt,
    SegmentIndex, SignedTransaction, Spec, Task, TransactionId, Trust, Usage,
};
use std::{thread, time::Duration};

const EPOCH_BLOCKS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(180);
/// How often it is tried to meet in one block.
const ROUNDS: usize = 5;
/// Others object for less than that.
const OBJECTION: Duration = Duration::from_millis(1_200);
/// Runs for some seconds.
const MIDDLE: &str = "opengpu:\n5000000\n";
/// What whoever wants to go first adds to its fee.
const TIP: u128 = 1_000_000_000;
/// Time for which a lease is to be paid.
const USED: Millis = Millis(1_000);

fn signatory(scene: &Scene, name: &str) -> Signatory {
    Keystore::new(&scene.home().join("dev")).unlock(name, &Passphrase::default()).unwrap()
}

/// A provider with a stake of its own: what it commits to for a client who chose `fast` is settled at
/// once.
fn staked(scene: &Scene, name: &str) -> Running {
    scene.init_provider(name);
    let (to, amount) = (scene.account(name).parse().unwrap(), Amount::whole(300));
    let gift = vec![Operation::Transfer { to, amount }];
    send(&scene.rpc(), &signatory(scene, devnet::FAUCET), gift, PATIENCE).unwrap();
    scene.start_provider(name, &["--stake", "200"])
}

/// The receipts in which a lease ended, with the time that each pays for, and what.
fn ends(rpc: &Rpc, wanted: LeaseId) -> Vec<(Height, u32, Millis, Amount)> {
    let mut ends = Vec::new();
    for height in 1..=rpc.status().unwrap().height.0 {
        for receipt in rpc.receipts(Height(height)).unwrap() {
            for event in &receipt.events {
                match event {
                    Event::LeaseClosed { lease, time, paid, .. } if *lease == wanted => {
                        ends.push((receipt.height, receipt.index, *time, *paid));
                    }
                    _ => {}
                }
            }
        }
    }
    ends
}

/// Where the only lease of a task ended, once it is sure that it was paid once and for its time.
fn settled(scene: &Scene, task: &str) -> (Height, u32) {
    let entry = scene.assert_paid_once(task);
    assert_eq!(entry.leases.len(), 1, "one provider: {:?}", entry.leases);
    let lease = &entry.leases[0];
    let id = LeaseId { task: task.parse().unwrap(), number: 0 };
    let ends = ends(&scene.rpc(), id);
    assert_eq!(ends.len(), 1, "it ends once: {ends:?}");
    let (height, index, time, paid) = ends[0];
    assert_eq!(Some(paid), lease.rate.mul_div(time.0.into(), 1_000), "by the second");
    (height, index)
}

/// Two tasks of two clients, each for a provider of its own, in the background.
fn begun(scene: &Scene) -> [String; 2] {
    let tasks = [("alice", "one"), ("bob", "two")].map(|(client, provider)| {
        let (program, account) = (example("sha256-search"), scene.account(provider));
        let wanted = ["run", &program, "--from", client, "--input", "middle.txt", "--detach"];
        let more = ["--trust", "checked", "--spot", "--provider", &account];
        let detached = scene.json(&[&wanted[..], &more].concat());
        detached["task"].as_str().unwrap().to_owned()
    });
    for task in &tasks {
        until("a checkpoint", || scene.reached(task) > 0);
    }
    tasks
}

/// Takes the quorum away, or gives it back.
fn freeze(network: &Network, frozen: bool) {
    for index in [2, 3] {
        if frozen { network.freeze(index) } else { network.thaw(index) }
    }
}

fn has_committed(scene: &Scene, task: &str) -> bool {
    let leases = scene.on_chain(task).leases;
    leases.last().is_some_and(|lease| {
        matches!(lease.phase, LeasePhase::Committed { .. } | LeasePhase::Closed { .. })
    })
}

#[test]
fn e2e_two_leases_that_are_settled_in_one_block_are_each_paid_once() {
    let network = Network::running(EPOCH_BLOCKS);
    let scene = Scene::beside(&network);
    scene.write("middle.txt", MIDDLE);
    let expected = scene.undisturbed("middle.txt");
    let providers = ["one", "two"].map(|name| staked(&scene, name));
    let mut met = false;
    for round in 0..ROUNDS {
        let tasks = begun(&scene);
        // Without a quorum nothing is final: both do all of it, and the words of both wait.
        freeze(&network, true);
        for name in ["one", "two"] {
            until("it has done all of it", || {
                let status = scene.json(&["provider", "status", "--data", name]);
                status["leases"][0]["stage"] != "running"
            });
        }
        freeze(&network, false);
        // The time in which others could object is over for both before there is another block.
        until("both have committed", || tasks.iter().all(|task| has_committed(&scene, task)));
        freeze(&network, true);
        thread::sleep(OBJECTION);
        freeze(&network, false);
        for task in &tasks {
            assert_eq!(scene.pulled(task), expected);
        }
        let [first, second] = tasks.map(|task| settled(&scene, &task));
        eprintln!("round {round}: settled at {first:?} and {second:?}");
        met = first.0 == second.0;
        if met {
            break;
        }
    }
    assert!(met, "two settlements never met in one block");
    network.assert_agreement();
    network.assert_no_offence();
    providers.into_iter().for_each(Running::stop);
}

/// Operations of one account, in its own order, with a tip that says who goes first.
fn signed(
    rpc: &Rpc,
    by: &Signatory,
    tip: u128,
    all: Vec<MarketOperation>,
) -> Vec<SignedTransaction> {
    let (signer, facts) = (Signer::from(by), Facts::ask(rpc).unwrap());
    let nonce = signer.next_nonce(rpc, by.account).unwrap().unwrap();
    let sign = |(operation, nonce)| {
        let builder = TransactionBuilder::new(by.account).tip(Amount(tip));
        let builder = builder.operation(Operation::Market(operation));
        let (mut draft, _) = builder.draft(&facts, signer, Some(Nonce(nonce))).unwrap();
        draft.sign(by).unwrap();
        draft.finish().unwrap()
    };
    all.into_iter().zip(nonce.0..).map(sign).collect()
}

/// All of a run of the task's own length.
fn whole(task: &Task) -> Commitment {
    let segments = task.spec.segments;
    let state = ArtifactId::of(b"the last state");
    let (index, emitted) = (SegmentIndex(segments), Digest([2; 32]));
    Commitment {
        root: Digest([1; 32]),
        steps: u64::from(segments),
        segments,
        reached: Checkpoint { index, state, emitted, bytes_out: 0 },
        output: ArtifactId::of(b""),
        usage: Usage { time: USED, fuel: 1 << 50 },
        ending: Ending::Completed,
    }
}

/// The receipts of transactions, once all are final.
fn receipts(rpc: &Rpc, ids: &[TransactionId], above: u64) -> Vec<Receipt> {
    let mut found = Vec::new();
    until("all are final", || {
        let heights = above..=rpc.status().unwrap().height.0;
        let all = heights.flat_map(|height| rpc.receipts(Height(height)).unwrap());
        found = all.filter(|it| it.transaction.is_some_and(|id| ids.contains(&id))).collect();
        found.len() == ids.len()
    });
    found
}

/// A lease whose settlement is asked for by both sides, and by its provider again and again, in one
/// block: the client goes first, or the provider. What is paid, what comes back, and why it ended; none
/// if they did not meet in one block.
fn contested(scene: &Scene, client_first: bool) -> Option<(Amount, Amount, CloseReason)> {
    let (rpc, alice, one) = (scene.rpc(), signatory(scene, "alice"), signatory(scene, "one"));
    let mut wanted = spec(one.account);
    wanted.requirements.trust = Trust::Fast;
    submit(scene.home(), &rpc, Spec { patience: Millis(60_000), ..wanted });
    let open = || market::open_tasks(&rpc, alice.account).unwrap();
    until("a lease", || open().first().is_some_and(|(_, task)| !task.leases.is_empty()));
    let (id, task) = open().remove(0);
    until("it has run for long enough", || {
        rpc.status().unwrap().time >= task.leases[0].began.plus(USED)
    });

    let (lease, witness) = (LeaseId { task: id, number: 0 }, None);
    let commit = MarketOperation::CommitTrace { lease, commitment: whole(&task), witness };
    let release = MarketOperation::ReleaseLease { lease, leave: Leave::Broken };
    let asked = vec![commit.clone(), commit.clone(), release, commit];
    let tips = if client_first { (TIP, 0) } else { (0, TIP) };
    let cancel = vec![MarketOperation::CancelTask { task: id }];
    let mut all = signed(&rpc, &alice, tips.0, cancel);
    all.extend(signed(&rpc, &one, tips.1, asked));
    let chain = rpc.status().unwrap().chain;
    let ids: Vec<_> = all.iter().map(|it| it.transaction.id(chain)).collect();
    let above = rpc.status().unwrap().height.0;
    let taken = rpc.submit(all.iter().chain(&all).cloned().collect()).unwrap();
    assert!(taken[..5].iter().all(|it| it.status != SubmissionStatus::Refused), "{taken:?}");
    let found = receipts(&rpc, &ids, above);

    // One of the provider's does it; the client comes in time or too late.
    let applied = |id| found.iter().any(|it| it.transaction == Some(id) && is_applied(it));
    let applied: Vec<_> = ids.iter().map(|id| applied(*id)).collect();
    let entry = scene.assert_paid_once(&id.to_string());
    let (height, index) = settled(scene, &id.to_string());
    let place = found.iter().find(|it| it.transaction == Some(ids[1])).unwrap();
    assert_eq!((place.height, place.index), (height, index), "the first commitment ends it");
    if found.iter().any(|receipt| receipt.height != height) {
        return None;
    }
    assert_eq!(applied, [client_first, true, false, false, false], "{found:?}");
    let cancelled = found.iter().find(|it| it.transaction == Some(ids[0])).unwrap();
    assert_eq!(cancelled.index < index, client_first, "{found:?}");
    Some((entry.paid, entry.refunded, entry.ending.unwrap()))
}

/// Two leases of two providers, whose commitments come in one block, in this order or the other: what
/// each is paid and what comes back; none if they did not meet in one block.
fn paired(scene: &Scene, turned: bool) -> Option<[(Amount, Amount); 2]> {
    let (rpc, alice) = (scene.rpc(), signatory(scene, "alice"));
    let names = ["one", "two"].map(|name| signatory(scene, name));
    for provider in &names {
        let mut wanted = spec(provider.account);
        wanted.requirements.trust = Trust::Fast;
        submit(scene.home(), &rpc, wanted);
    }
    let mut open = market::open_tasks(&rpc, alice.account).unwrap();
    let find = |by: &Signatory| open.iter().position(|it| it.1.leases[0].provider == by.account);
    let places = names.each_ref().map(|by| find(by).unwrap());
    if places == [1, 0] {
        open.swap(0, 1);
    }
    let began = open.iter().map(|(_, task)| task.leases[0].began).max().unwrap();
    until("both have run for long enough", || rpc.status().unwrap().time >= began.plus(USED));
    let tips = if turned { [0, TIP] } else { [TIP, 0] };
    let commits = open.iter().zip(&names).zip(tips).map(|(((id, task), by), tip)| {
        let (lease, commitment) = (LeaseId { task: *id, number: 0 }, whole(task));
        let commit = MarketOperation::CommitTrace { lease, commitment, witness: None };
        signed(&rpc, by, tip, vec![commit]).remove(0)
    });
    let commits: Vec<_> = commits.collect();
    let status = rpc.status().unwrap();
    let ids: Vec<_> = commits.iter().map(|it| it.transaction.id(status.chain)).collect();
    rpc.submit(commits).unwrap();
    let found = receipts(&rpc, &ids, status.height.0);
    assert!(found.iter().all(is_applied), "{found:?}");
    let [first, second] = [0, 1].map(|place: usize| settled(scene, &open[place].0.to_string()));
    if first.0 != second.0 {
        return None;
    }
    assert_eq!(second.1 < first.1, turned, "whoever tips more goes first: {found:?}");
    Some([0, 1].map(|place: usize| {
        let entry = scene.on_chain(&open[place].0.to_string());
        (entry.paid, entry.refunded)
    }))
}

#[test]
fn e2e_two_leases_whose_commitments_meet_in_one_block_are_paid_the_same_in_any_order() {
    let scene = Scene::new("0");
    let providers = ["one", "two"].map(|name| staked(&scene, name));
    let meet = |turned| {
        let mut rounds = (0..ROUNDS).filter_map(|_| paired(&scene, turned));
        rounds.next().expect("they never met in one block")
    };
    assert_eq!(meet(false), meet(true));
    providers.into_iter().for_each(Running::stop);
}

fn is_applied(receipt: &Receipt) -> bool {
    receipt.outcome == Outcome::Applied
}

#[test]
fn e2e_a_lease_whose_settlement_is_asked_for_five_times_in_one_block_is_paid_once() {
    let scene = Scene::new("0");
    let provider = staked(&scene, "one");
    let meet = |client_first| {
        let mut rounds = (0..ROUNDS).filter_map(|_| contested(&scene, client_first));
        rounds.next().expect("they never met in one block")
    };
    let (first, second) = (meet(false), meet(true));
    assert_eq!((first.2, second.2), (CloseReason::Completed, CloseReason::Cancelled));
    assert_eq!((first.0, first.1), (second.0, second.1), "whoever goes first");

    // Its agent, which said none of it, goes on.
    scene.write("short.txt", SHORT);
    until("it has given up what ended", || {
        let status = scene.json(&["provider", "status", "--data", "one"]);
        status["leases"].as_array().unwrap().is_empty()
    });
    let task = scene.detached("short.txt", &["--provider", &scene.account("one")]);
    assert_eq!(scene.pulled(&task), scene.undisturbed("short.txt"));
    settled(&scene, &task);
    provider.stop();
}
