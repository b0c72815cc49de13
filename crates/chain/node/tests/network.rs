//! Whole networks of real nodes on simulated time: agreement, epochs, restarts.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where it fails"
)]

mod lab;

use commonware_runtime::{Runner as _, Supervisor as _, deterministic};
use lab::{EPOCH_BLOCKS, Lab, Member, Running, genesis, transfer};
use opengpu_crypto::Keypair;
use opengpu_types::{Address, Amount};
use std::time::Duration;

fn members(count: u8) -> Vec<Member> {
    (0..count).map(Member::new).collect()
}

fn accounts(count: u8) -> Vec<Keypair> {
    (0..count).map(|index| Keypair::ed25519([200 + index; 32])).collect()
}

/// Every block that two nodes share is the same, commits to its parent and announces its seats.
async fn assert_agreement(nodes: &[Running], up_to: u64) {
    let mut parent: Option<opengpu_types::Block> = None;
    for height in 1..=up_to {
        let first = nodes[0].block(height).await.expect("the block is stored");
        for node in &nodes[1..] {
            let other = node.block(height).await.expect("the block is stored");
            assert_eq!(first, other, "fork at height {height}");
        }
        let header = &first.header;
        assert_eq!(header.epoch.0, height / EPOCH_BLOCKS);
        if let Some(parent) = &parent {
            assert_eq!(header.parent, parent.header.digest());
            assert!(header.time > parent.header.time);
        }
        let next = nodes[0].seats(header.epoch.0 + 1).await;
        assert!(header.announces(&next), "height {height} announces other seats");
        parent = Some(first);
    }
}

#[test]
fn four_validators_agree_through_three_epochs_of_transfers() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let (members, accounts) = (members(4), accounts(8));
        let genesis = genesis(&members, &accounts);
        let lab = Lab::new(context.child("lab"), genesis, &members).await;
        let mut nodes = Vec::new();
        for member in &members {
            nodes.push(lab.start(member).await);
        }
        nodes[0].wait_for(&context, 1).await;

        let receiver = Address::new([7; 20]);
        let mut runtime = context.child("client");
        for round in 0..10 {
            for (index, account) in accounts.iter().enumerate() {
                let node = &nodes[index % nodes.len()];
                let payment = transfer(account, round, receiver, Amount::ONE);
                let verdicts = node.node.intake.submit(&mut runtime, vec![payment]).await;
                assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
            }
            nodes[0].wait_for(&context, nodes[0].height().await + 1).await;
        }
        let end = 3 * EPOCH_BLOCKS + 2;
        for node in &nodes {
            node.wait_for(&context, end).await;
        }

        assert_agreement(&nodes, end).await;
        for node in &nodes {
            let received = node.account(receiver).await;
            let total = received.balance.plus(received.reserve).unwrap();
            assert_eq!(total, Amount::whole(80), "every transfer arrived exactly once");
            assert!(node.mempool.is_empty());
        }
        for member in &members {
            let operator = nodes[0].account(member.operator.address()).await;
            assert!(operator.nonce.0 >= 1, "seats are confirmed without a person");
        }
    });
}

#[test]
fn a_node_killed_before_the_end_of_an_epoch_comes_back_from_its_disk_and_agrees() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let (members, accounts) = (members(4), accounts(1));
        let genesis = genesis(&members, &accounts);
        let lab = Lab::new(context.child("lab"), genesis, &members).await;
        let mut nodes = Vec::new();
        for member in &members {
            nodes.push(lab.start(member).await);
        }
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
fn a_follower_takes_transactions_and_hands_them_to_the_leaders() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let (members, accounts) = (members(5), accounts(1));
        // The fifth has no seat, and never will.
        let genesis = genesis(&members[..4], &accounts);
        let lab = Lab::new(context.child("lab"), genesis, &members).await;
        let mut nodes = Vec::new();
        for member in &members {
            nodes.push(lab.start(member).await);
        }
        let follower = &nodes[4];
        follower.wait_for(&context, 1).await;
        let receiver = Address::new([7; 20]);
        let mut runtime = context.child("client");
        let payment = transfer(&accounts[0], 0, receiver, Amount::ONE);
        let verdicts = follower.node.intake.submit(&mut runtime, vec![payment]).await;
        assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
        let at = follower.height().await;
        follower.wait_for(&context, at + 6).await;
        assert!(follower.mempool.is_empty(), "the transaction is in a block");
        assert_eq!(follower.account(accounts[0].address()).await.nonce.0, 1);
    });
}
