//! The state of a stopped validator: checked, exported, lost, imported again.

use crate::network::Network;
use std::{fs, path::Path, process::Command};

const EPOCH_BLOCKS: u64 = 12;

/// Runs `opengpu node ...`; what it prints, or what it complains about.
fn opengpu_node(arguments: &[&str], folder: &Path) -> Result<String, String> {
    let done = Command::new(env!("CARGO_BIN_EXE_opengpu"))
        .args(["-o", "json", "node"])
        .args(arguments)
        .arg("--data")
        .arg(folder)
        .output()
        .unwrap();
    if done.status.success() {
        Ok(String::from_utf8(done.stdout).unwrap())
    } else {
        Err(String::from_utf8(done.stderr).unwrap())
    }
}

#[test]
fn e2e_an_exported_state_is_checked_and_brings_a_validator_back_without_its_past() {
    let mut network = Network::running(EPOCH_BLOCKS);
    network.set(1, "keep_blocks = 64");
    network.wait_blocks(0, 2 * EPOCH_BLOCKS + 2);
    let data = network.nodes[1].data();
    let folder = data.parent().unwrap().to_owned();
    let file = folder.join("state.snapshot");
    let name = file.to_str().unwrap().to_owned();

    let refused = opengpu_node(&["verify-state"], &folder).unwrap_err();
    assert!(refused.contains("another node runs"), "{refused}");
    network.stop(1);
    let verified = opengpu_node(&["verify-state"], &folder).unwrap();
    assert!(verified.contains("\"entries\""), "{verified}");
    opengpu_node(&["export", "--file", &name], &folder).unwrap();
    let again = opengpu_node(&["export", "--file", &name], &folder).unwrap_err();
    assert!(again.contains("exist"), "a file is never overwritten: {again}");

    let full = opengpu_node(&["import", "--file", &name], &folder).unwrap_err();
    assert!(full.contains("holds a state already"), "{full}");
    fs::remove_dir_all(&data).unwrap();
    let whole = fs::read(&file).unwrap();
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&file, damaged).unwrap();
    opengpu_node(&["import", "--file", &name], &folder).unwrap_err();
    fs::write(&file, whole).unwrap();
    opengpu_node(&["import", "--file", &name], &folder).unwrap();

    network.start(1);
    network.wait_caught_up(1, 0);
    network.wait_led_by(1, network.nodes[1].height(), 0);
    let from = network.nodes[1].status().unwrap().recorded_from.0;
    assert!(from > 2 * EPOCH_BLOCKS, "it went on where the state was, not at the genesis: {from}");
    network.assert_agreement();
    network.assert_no_offence();
}
