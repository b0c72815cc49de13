//! Real processes that are killed and lose their disks while transfers are under way.

use crate::network::Network;

/// Short, so that several pass in a test.
const EPOCH_BLOCKS: u64 = 20;

#[test]
fn e2e_a_second_validator_may_die_when_the_first_is_back_and_no_promise_is_broken() {
    let mut network = Network::running(EPOCH_BLOCKS);
    // By way of two nodes that live through all of it.
    let loads = vec![network.load("alice", 0), network.load("faucet", 3)];
    network.wait_blocks(0, 10);

    network.kill(1);
    network.wait_blocks(0, 10);
    network.start(1);
    network.wait_caught_up(1, 0);
    network.wait_led_by(1, network.nodes[1].height(), 0);

    // Three votes of four are needed: nothing becomes final unless the first one votes again.
    network.kill(2);
    network.wait_blocks(0, 10);
    network.start(2);
    network.wait_caught_up(2, 0);
    network.wait_led_by(2, network.nodes[2].height(), 0);

    network.assert_nothing_lost(loads);
    network.assert_no_offence();
}

#[test]
fn e2e_a_validator_without_its_disk_comes_back_to_the_head_and_votes_again() {
    let mut network = Network::running(EPOCH_BLOCKS);
    let loads = vec![network.load("alice", 0), network.load("faucet", 3)];
    network.wait_blocks(0, 3 * EPOCH_BLOCKS);

    network.stop(1);
    // A node that wants all blocks has to replay them; this one wants the present.
    network.set(1, &format!("keep_blocks = {}", 2 * EPOCH_BLOCKS));
    std::fs::remove_dir_all(network.nodes[1].data()).unwrap();
    let before = network.nodes[1].log().len();
    network.wait_blocks(0, 5);
    network.start(1);
    network.wait_caught_up(1, 0);
    let digest = |index: usize, height| network.nodes[index].block(height).unwrap().digest;
    let head = network.nodes[1].height();
    assert_eq!(digest(1, head), digest(0, head), "another chain at height {head}");
    let log = network.nodes[1].log()[before..].to_owned();
    assert!(log.contains("the state is fetched from peers"), "{log}");
    network.wait_led_by(1, head, 0);

    network.assert_nothing_lost(loads);
    network.assert_no_offence();
}
