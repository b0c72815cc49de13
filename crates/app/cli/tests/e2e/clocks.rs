//! Clocks that are wrong by an hour: of a provider, of its client, of a validator.
//!
//! A process is told another time by libfaketime; spans of time stay as they are.

use crate::{
    dev::text,
    network::Network,
    providers::until,
    scene::{LONGER, SHORT, Scene, example},
};
use opengpu_types::Amount;
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{SystemTime, UNIX_EPOCH},
};

const EPOCH_BLOCKS: u64 = 10;

/// The library, if it is installed.
fn library() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let mut found = folders.map(|it| it.path().join("faketime/libfaketimeMT.so.1"));
    let found = found.find(|path| path.exists());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none(), "libfaketime is missing: cargo xtask test tools");
        eprintln!("skipped: libfaketime is not installed");
    }
    found
}

/// Has a process see the time that a file says, such as `+1h`; it may change.
fn tell_time(command: &mut Command, library: &Path, file: &Path) {
    command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", file);
    command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

/// The hours that the lines of a log begin with.
fn hours(log: &str) -> BTreeSet<String> {
    log.lines().filter_map(|line| Some(line.get(..13)?.to_owned())).collect()
}

#[test]
fn e2e_clocks_of_provider_and_client_are_wrong_by_an_hour_and_the_pay_is_right() {
    let Some(library) = library() else { return };
    let scene = Scene::new("0");
    scene.write("short.txt", SHORT);
    let expected = scene.undisturbed("short.txt");
    for clock in ["+1h", "-1h", "+0"] {
        scene.write(clock, clock);
    }
    let start = |name: &str, clock: &str| {
        scene.init_provider(name);
        let words = ["provider", "start", "--data", name, "--wallet", name, "--sponsor", "faucet"];
        let mut command = scene.command(&words);
        tell_time(&mut command, &library, &scene.home().join(clock));
        scene.start_as_provider(name, &mut command)
    };
    let ahead = start("ahead", "+1h");
    let behind = start("behind", "-1h");
    for (provider, clock) in [("ahead", "+0"), ("ahead", "-1h"), ("behind", "+1h")] {
        let (program, account) = (example("sha256-search"), scene.account(provider));
        let words = ["-o", "json", "run", &program, "--from", "alice", "--input", "short.txt"];
        let mut command = scene.command(&[&words[..], &["--provider", &account]].concat());
        tell_time(&mut command, &library, &scene.home().join(clock));
        let ran = command.stdin(Stdio::null()).output().unwrap();
        let told = format!("{provider}, {clock}: {}", text(&ran));
        assert_eq!(ran.status.code(), Some(0), "{told}");
        let ended: Value = serde_json::from_slice(&ran.stdout).unwrap();
        let output = fs::read(scene.home().join(ended["output_file"].as_str().unwrap())).unwrap();
        assert_eq!(output, expected, "{told}");
        let entry = scene.assert_paid_once(ended["task"].as_str().unwrap());
        // By the time of the chain: an hour would have cost more than the whole budget.
        assert_eq!(entry.leases.len(), 1, "{told}");
        let took = u128::from(ended["took_ms"].as_u64().unwrap());
        let most = entry.leases[0].rate.mul_div(took, 1_000).unwrap();
        assert!(took < 60_000 && entry.paid <= most, "{told}");
        assert!(entry.paid < Amount::ONE, "{told}");
    }
    let logs = ["ahead", "behind"].map(|name| scene.home().join(format!("{name}.log")));
    let logs = logs.map(|path| hours(&fs::read_to_string(path).unwrap()));
    assert!(logs[0].is_disjoint(&logs[1]), "their clocks differ by two hours: {logs:?}");
    ahead.stop();
    behind.stop();
}

#[test]
fn e2e_the_clock_of_a_validator_is_wrong_by_an_hour_and_the_others_go_on() {
    let Some(library) = library() else { return };
    let mut network = Network::new(EPOCH_BLOCKS);
    for index in [0, 1, 3] {
        network.start(index);
    }
    let mut scene = Scene::beside(&network);
    let clock = scene.home().join("clock");
    set(&clock, "+0");
    network.start_with(2, |command| tell_time(command, &library, &clock));
    network.wait("every node is ready", |it| it.nodes.iter().all(|node| node.rpc.is_ready()));
    scene.node = network.nodes[1].rpc.url().to_owned();
    let provider = scene.provider("one");
    scene.node = network.nodes[0].rpc.url().to_owned();
    let task = scene.detached_longer();
    until("a checkpoint", || scene.reached(&task) > 0);

    // It is linked to the others when its clock jumps, and proposes blocks of the wrong time.
    set(&clock, "+1h");
    network.wait_blocks(0, 6);
    assert_right_time(&network);
    // It comes back an hour behind, and nobody shakes hands with it.
    network.kill(2);
    set(&clock, "-1h");
    network.start_with(2, |command| tell_time(command, &library, &clock));
    network.wait_blocks(0, 6);
    assert_right_time(&network);
    assert!(!scene.on_chain(&task).is_closed(), "all of it happened while it ran");
    // With the right time it is one of them again.
    network.kill(2);
    network.start(2);
    network.wait_caught_up(2, 0);
    network.wait_led_by(2, network.nodes[0].height(), 0);

    assert_eq!(String::from_utf8_lossy(&scene.pulled(&task)), LONGER);
    let entry = scene.assert_paid_once(&task);
    assert_eq!(entry.leases.len(), 1, "{:?}", entry.leases);
    let (wrong, right) = (hours(&network.nodes[2].log()), hours(&network.nodes[0].log()));
    assert!(wrong.difference(&right).count() > 0, "its clock was wrong: {wrong:?}");
    network.assert_agreement();
    network.assert_no_offence();
    provider.stop();
}

/// Sets a clock, whole at once: it is read at any time.
fn set(clock: &Path, time: &str) {
    let draft = clock.with_extension("draft");
    fs::write(&draft, time).unwrap();
    fs::rename(draft, clock).unwrap();
}

/// The time of the chain is that of those who are right.
fn assert_right_time(network: &Network) {
    let time = network.nodes[0].rpc.status().unwrap().time;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let wrong = u128::from(time.0).abs_diff(now);
    assert!(wrong < 10_000, "the clock of the chain is wrong by {wrong} ms");
}
