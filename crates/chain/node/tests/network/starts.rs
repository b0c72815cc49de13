//! Nodes that start again: from their disk, from an old copy of it, from nothing.

use crate::{
    accounts, assert_agreement,
    lab::{EPOCH_BLOCKS, Lab, genesis},
    members,
};
use commonware_runtime::{Clock as _, Runner as _, Supervisor as _, deterministic};
use opengpu_node::History;
use std::time::Duration;

#[test]
fn a_node_killed_before_the_end_of_an_epoch_comes_back_from_its_disk_and_agrees() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let (members, accounts) = (members(4), accounts(1));
        let (lab, mut nodes) = Lab::running(&context, &members, &accounts).await;
        nodes[0].wait_for(&context, 3).await;

        // Across the end of an epoch the other three go on.
        let killed = nodes.pop().expect("four nodes");
        let at = killed.height().await;
        killed.stop(&context).await;
        nodes[0].wait_for(&context, EPOCH_BLOCKS + 4).await;

        let returned = lab.start(&members[3]).await;
        assert!(returned.height().await >= at, "what was final stays final");
        let end = 3 * EPOCH_BLOCKS;
        returned.wait_for(&context, end).await;
        nodes.push(returned);
        for node in &nodes {
            node.wait_for(&context, end).await;
        }
        assert_agreement(&nodes, end).await;
    });
}

#[test]
fn a_validator_that_starts_epochs_late_replays_and_then_leads() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let members = members(4);
        let genesis = genesis(&members, &[]);
        let lab = Lab::new(context.child("lab"), genesis, &members).await;
        let mut nodes = Vec::new();
        for member in &members[..3] {
            nodes.push(lab.start(member).await);
        }
        nodes[0].wait_for(&context, 2 * EPOCH_BLOCKS + 3).await;

        nodes.push(lab.start(&members[3]).await);
        let end = 5 * EPOCH_BLOCKS;
        for node in &nodes {
            node.wait_for(&context, end).await;
        }
        assert_agreement(&nodes, end).await;
        let late = members[3].validator_keys().consensus;
        let mut led = 0;
        for height in 3 * EPOCH_BLOCKS..=end {
            let block = nodes[0].block(height).await.expect("the block is stored");
            led += u32::from(block.header.leader == late);
        }
        assert!(led > 0, "the late validator takes its turns");
    });
}

#[test]
fn a_validator_that_lost_its_disk_does_not_vote_before_the_others_finalized_without_it() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let members = members(4);
        let (lab, mut nodes) = Lab::running(&context, &members, &[]).await;
        nodes[0].wait_for(&context, EPOCH_BLOCKS + 3).await;

        // Two of four stop; one of them comes back without its votes. It could make the quorum, and
        // nobody can tell it which votes it has forgotten.
        for _ in 0..2 {
            nodes.pop().expect("four nodes").stop(&context).await;
        }
        let returned = lab.start_on("second", &members[3], History::All).await;
        context.sleep(Duration::from_secs(30)).await;
        let at = nodes[0].height().await;
        context.sleep(Duration::from_secs(30)).await;
        assert_eq!(nodes[0].height().await, at, "a vote may have been repeated");

        // With the other one the chain moves on, above everything that was forgotten.
        nodes.push(lab.start(&members[2]).await);
        nodes.push(returned);
        nodes[0].wait_for(&context, at + 4).await;
        // Now it votes: without it, the next one to stop would stop the chain.
        nodes.remove(2).stop(&context).await;
        let end = at + 2 * EPOCH_BLOCKS;
        for node in &nodes {
            node.wait_for(&context, end).await;
        }
        assert_agreement(&nodes, end).await;
    });
}

#[test]
fn a_validator_that_runs_on_an_old_copy_of_its_disk_waits_like_one_that_lost_it() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let members = members(4);
        let (lab, mut nodes) = Lab::running(&context, &members, &[]).await;
        nodes[0].wait_for(&context, 2).await;
        // The first disk stays behind while the validator votes on another one.
        nodes.pop().expect("four nodes").stop(&context).await;
        let elsewhere = lab.start_on("second", &members[3], History::All).await;
        elsewhere.wait_for(&context, EPOCH_BLOCKS - 2).await;
        elsewhere.stop(&context).await;
        nodes.pop().expect("three nodes").stop(&context).await;

        let restored = lab.start(&members[3]).await;
        context.sleep(Duration::from_secs(30)).await;
        let at = nodes[0].height().await;
        context.sleep(Duration::from_secs(30)).await;
        assert_eq!(nodes[0].height().await, at, "a vote may have been repeated");
        nodes.push(lab.start(&members[2]).await);
        nodes.push(restored);
        for node in &nodes {
            node.wait_for(&context, at + 2 * EPOCH_BLOCKS).await;
        }
        assert_agreement(&nodes, at + 2 * EPOCH_BLOCKS).await;
    });
}

#[test]
fn a_network_whose_nodes_all_stopped_goes_on() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let members = members(4);
        let (lab, mut nodes) = Lab::running(&context, &members, &[]).await;
        nodes[0].wait_for(&context, EPOCH_BLOCKS + 3).await;
        for node in std::mem::take(&mut nodes) {
            node.stop(&context).await;
        }
        for member in &members {
            nodes.push(lab.start(member).await);
        }
        let end = 2 * EPOCH_BLOCKS + 3;
        for node in &nodes {
            node.wait_for(&context, end).await;
        }
        assert_agreement(&nodes, end).await;
    });
}

#[test]
fn a_validator_without_data_fetches_the_state_and_not_the_blocks_before_it() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let members = members(4);
        let lab = Lab::new(context.child("lab"), genesis(&members, &[]), &members).await;
        let mut nodes = Vec::new();
        for member in &members[..3] {
            nodes.push(lab.start(member).await);
        }
        let joined_from = 3 * EPOCH_BLOCKS + 3;
        nodes[0].wait_for(&context, joined_from).await;

        let late = lab.start_on("first", &members[3], History::Recent(EPOCH_BLOCKS)).await;
        let end = 6 * EPOCH_BLOCKS;
        late.wait_for(&context, end).await;
        assert!(late.block(1).await.is_none(), "no block before the state was fetched");
        nodes[0].wait_for(&context, end).await;
        for height in end - 2..=end {
            assert_eq!(late.block(height).await, nodes[0].block(height).await);
        }
        let key = members[3].validator_keys().consensus;
        let mut led = 0;
        for height in joined_from..=end {
            let block = nodes[0].block(height).await.expect("the block is stored");
            led += u32::from(block.header.leader == key);
        }
        assert!(led > 0, "the late validator takes its turns");

        // It knows the way from the genesis, and stops and starts like any other.
        late.stop(&context).await;
        let late = lab.start_on("first", &members[3], History::Recent(EPOCH_BLOCKS)).await;
        late.wait_for(&context, end + EPOCH_BLOCKS).await;
    });
}
