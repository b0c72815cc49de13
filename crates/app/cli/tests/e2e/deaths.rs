//! Deaths of those who work on a task: providers that forget, winners that refuse, validators that die.

use crate::{
    dev::{run, text},
    network::{Network, copy_folder},
    providers::{Running, until},
    scene::{LONG, LONGER, SHORT, Scene},
};
use opengpu_client::{Keystore, Passphrase, send};
use opengpu_types::{
    Amount, CloseReason, Entry, Event, Height, Key, LeaseId, LeasePhase, Leave, MarketOperation,
    Operation,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{fs, path::Path, time::Duration};

const EPOCH_BLOCKS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(180);

/// The folder of a provider as it is at one moment of its life.
fn copied(provider: &Running, folder: &Path) {
    provider.signal(Signal::STOP);
    copy_folder(folder, &folder.with_extension("copy"));
    provider.signal(Signal::CONT);
}

/// The provider dies, and all that it has is a copy of what it was before.
fn restored(scene: &Scene, provider: Running, name: &str) -> Running {
    provider.kill();
    let folder = scene.home().join(name);
    fs::remove_dir_all(&folder).unwrap();
    fs::rename(folder.with_extension("copy"), &folder).unwrap();
    scene.start_provider(name, &[])
}

fn earned(scene: &Scene, name: &str) -> Vec<Value> {
    let earnings = scene.json(&["provider", "earnings", "--data", name]);
    earnings["leases"].as_array().unwrap().clone()
}

#[test]
fn e2e_a_provider_with_an_old_state_is_paid_once_and_goes_on() {
    let scene = Scene::new("0");
    let expected = LONGER.as_bytes();
    let (provider, folder) = (scene.provider("old"), scene.home().join("old"));

    // It has forgotten its newest checkpoints, and its lease still runs.
    let first = scene.detached_longer();
    until("a checkpoint", || scene.reached(&first) > 0);
    copied(&provider, &folder);
    let then = scene.reached(&first);
    until("a later checkpoint", || scene.reached(&first) > then);
    let provider = restored(&scene, provider, "old");
    assert_eq!(scene.pulled(&first), expected);
    let entry = scene.assert_paid_once(&first);
    assert_eq!(entry.leases.len(), 1, "it goes on with its lease: {:?}", entry.leases);

    // It has forgotten that its lease has ended.
    let second = scene.detached_longer();
    until("a checkpoint", || scene.reached(&second) > 0);
    copied(&provider, &folder);
    until("the end", || scene.on_chain(&second).is_closed());
    let paid = scene.assert_paid_once(&second).paid;
    let provider = restored(&scene, provider, "old");
    assert_eq!(scene.pulled(&second), expected);

    // It takes the next task, and each lease is in its book once.
    scene.write("short.txt", SHORT);
    let third = scene.detached("short.txt", &[]);
    assert_eq!(scene.pulled(&third), scene.undisturbed("short.txt"));
    scene.assert_paid_once(&third);
    until("three lines", || earned(&scene, "old").len() >= 3);
    let leases: Vec<_> = earned(&scene, "old").iter().map(|it| it["lease"].clone()).collect();
    let known = [&first, &second, &third].map(|task| Value::from(format!("{task}/0")));
    assert_eq!(leases, known);
    assert_eq!(scene.assert_paid_once(&second).paid, paid, "nothing was said of it again");
    provider.stop();
}

/// A provider with tokens and a stake of its own.
fn staked(scene: &Scene, name: &str) -> Running {
    scene.init_provider(name);
    let funded = run(scene.home(), &["dev", "faucet", &scene.account(name), "300"]);
    assert_eq!(funded.status.code(), Some(0), "{}", text(&funded));
    scene.start_provider(name, &["--stake", "200"])
}

fn stake(scene: &Scene, name: &str) -> Amount {
    let account = scene.account(name).parse().unwrap();
    match scene.rpc().entry(&Key::Provider(account)).unwrap() {
        Some(Entry::Provider(provider)) => provider.stake,
        _ => unreachable!("the chain knows {name}"),
    }
}

#[test]
fn e2e_a_bid_winner_that_refuses_loses_its_lock_and_the_next_one_runs_it() {
    let scene = Scene::new("0");
    scene.write("short.txt", SHORT);
    scene.write("long.txt", LONG);
    let mut providers = Vec::from(["one", "two"].map(|name| (staked(&scene, name), name)));
    let whole = Amount::whole(200);
    assert_eq!(["one", "two"].map(|name| stake(&scene, name)), [whole; 2]);

    // The winner does not want it any more, and says so before its agent has done all of it.
    let task = scene.detached("long.txt", &["--auction"]);
    until("a winner", || !scene.on_chain(&task).leases.is_empty());
    let won = scene.on_chain(&task).leases[0].clone();
    let is_winner = |(_, name): &(Running, &str)| scene.account(name) == won.provider.to_string();
    let (winner, name) = providers.remove(providers.iter().position(is_winner).unwrap());
    let (next, other) = providers.remove(0);
    winner.signal(Signal::STOP);
    let keystore = Keystore::new(&scene.home().join("dev"));
    let key = keystore.unlock(name, &Passphrase::default()).unwrap();
    let lease = LeaseId { task: task.parse().unwrap(), number: 0 };
    let refuse = MarketOperation::ReleaseLease { lease, leave: Leave::Refused };
    send(&scene.rpc(), &key, vec![Operation::Market(refuse)], PATIENCE).unwrap();
    let closed = scene.on_chain(&task).leases[0].clone();
    assert_eq!(closed.phase, LeasePhase::Closed { reason: CloseReason::Refused });
    assert!(!won.lock.is_zero() && closed.paid.is_zero(), "{won:?}");
    assert_eq!(stake(&scene, name), whole.minus(won.lock).unwrap(), "by rule");
    winner.signal(Signal::CONT);

    assert_eq!(scene.pulled(&task), scene.undisturbed("long.txt"));
    let entry = scene.assert_paid_once(&task);
    assert_eq!(entry.leases.len(), 2, "{:?}", entry.leases);
    assert_eq!(entry.leases[1].provider.to_string(), scene.account(other));
    assert_eq!(slashed(&scene, lease), [won.lock], "once");
    assert_eq!(stake(&scene, other), whole);

    // Whoever has refused may work again.
    until("it has given up", || {
        let status = scene.json(&["provider", "status", "--data", name]);
        status["leases"].as_array().unwrap().is_empty()
    });
    let task = scene.detached("short.txt", &["--provider", &scene.account(name)]);
    scene.pulled(&task);
    winner.stop();
    next.stop();
}

/// What a provider lost for a lease, each time.
pub(crate) fn slashed(scene: &Scene, wanted: LeaseId) -> Vec<Amount> {
    let rpc = scene.rpc();
    let heights = 1..=rpc.status().unwrap().height.0;
    let receipts = heights.flat_map(|height| rpc.receipts(Height(height)).unwrap());
    let events = receipts.flat_map(|receipt| receipt.events.into_vec());
    let lost = events.filter_map(|event| match event {
        Event::ProviderSlashed { lease, amount, .. } if lease == wanted => Some(amount),
        _ => None,
    });
    lost.collect()
}

#[test]
fn e2e_validators_die_with_a_task_in_flight_and_it_is_paid_once() {
    let mut network = Network::running(EPOCH_BLOCKS);
    let mut scene = Scene::beside(&network);
    // The provider asks the second node, the client the first.
    scene.node = network.nodes[1].rpc.url().to_owned();
    let provider = scene.provider("one");
    scene.node = network.nodes[0].rpc.url().to_owned();
    let task = scene.detached_longer();
    until("a checkpoint", || scene.reached(&task) > 0);

    // The node of the provider dies; the three others go on without it.
    network.kill(1);
    network.wait_blocks(0, 3);
    network.start(1);
    network.wait_caught_up(1, 0);
    network.wait_led_by(1, network.nodes[1].height(), 2);
    // The node of the client dies and stays away: another one is asked.
    network.kill(0);
    scene.node = network.nodes[2].rpc.url().to_owned();
    assert!(!scene.on_chain(&task).is_closed(), "all of it happened while it ran");
    network.wait_blocks(2, 3);
    let output = scene.pulled(&task);
    network.start(0);
    network.wait_caught_up(0, 2);
    assert_eq!(String::from_utf8_lossy(&output), LONGER);
    let entry = scene.assert_paid_once(&task);
    assert_eq!(entry.leases.len(), 1, "one provider did all of it: {:?}", entry.leases);
    scene.node = network.nodes[0].rpc.url().to_owned();
    assert_eq!(scene.on_chain(&task), entry, "the one that was away says the same");
    network.assert_agreement();
    network.assert_no_offence();
    provider.stop();
}
