//! A validator that is started on an old copy of its data folder has forgotten votes; it must not
//! vote again where it has voted before.

use crate::network::{Network, copy_folder};
use std::{fs, thread, time::Duration};

/// Long enough that the copy and the votes after it are of one epoch, where votes can conflict.
const EPOCH_BLOCKS: u64 = 120;
/// Longer than voters wait for a leader: a node that is alone would vote to skip a view.
const ALONE: Duration = Duration::from_secs(5);

#[test]
fn e2e_a_validator_on_an_old_copy_of_its_data_follows_until_it_can_vote_without_conflict() {
    let mut network = Network::running(EPOCH_BLOCKS);
    let loads = vec![network.load("alice", 0), network.load("faucet", 3)];
    network.wait_blocks(0, 5);

    network.stop(1);
    let (data, copy) = (network.nodes[1].data(), network.nodes[1].data().with_extension("copy"));
    copy_folder(&data, &copy);
    network.start(1);
    network.wait_caught_up(1, 0);
    let voted = network.wait_led_by(1, network.nodes[1].height(), 0);
    network.wait_blocks(0, 5);
    network.kill(1);

    // Every view in which it has voted is at most one above this one.
    let newest = network.nodes[0].rpc.block(None).unwrap();
    assert_eq!(voted / EPOCH_BLOCKS, newest.epoch.0, "the copy is of the running epoch");

    fs::remove_dir_all(&data).unwrap();
    fs::rename(&copy, &data).unwrap();
    let before = network.nodes[1].log().len();
    let log = |network: &Network| network.nodes[1].log()[before..].to_owned();
    // Nobody tells it how far the network is.
    for other in [0, 2, 3] {
        network.freeze(other);
    }
    network.start(1);
    thread::sleep(ALONE);
    let alone = log(&network);
    assert!(alone.contains("votes=false") && !alone.contains("votes=true"), "{alone}");
    for other in [0, 2, 3] {
        network.thaw(other);
    }
    network.wait_caught_up(1, 0);
    network.wait_led_by(1, network.nodes[1].height(), 0);
    let (epoch, view) = first_vote(&log(&network)).expect("it says when it votes again");
    assert!((epoch, view) >= (newest.epoch.0, newest.view.0), "too early: {epoch}, {view}");

    network.assert_nothing_lost(loads);
    network.assert_no_offence();
}

/// Epoch and view from which a node votes, by its log.
fn first_vote(log: &str) -> Option<(u64, u64)> {
    let line = log.lines().find(|line| line.contains("this node votes"))?;
    let field = |name: &str| {
        let (_, rest) = line.split_once(name)?;
        rest.split(|digit: char| !digit.is_ascii_digit()).next()?.parse().ok()
    };
    Some((field("epoch=")?, field("from=")?))
}
