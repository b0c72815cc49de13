//! Blocks, epochs and transactions while nothing goes wrong.

use crate::{
    accounts, assert_agreement,
    lab::{EPOCH_BLOCKS, Lab, genesis, transfer},
    members,
};
use commonware_runtime::{Clock as _, Runner as _, Supervisor as _, deterministic};
use opengpu_types::{Address, Amount};
use std::time::Duration;

#[test]
fn four_validators_agree_through_three_epochs_of_transfers() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let (members, accounts) = (members(4), accounts(8));
        let (_lab, nodes) = Lab::running(&context, &members, &accounts).await;
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

/// Whoever leads next waits for work, and must not keep anybody else waiting meanwhile.
#[test]
fn a_transfer_given_to_any_idle_node_is_final_at_once() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let (members, accounts) = (members(4), accounts(1));
        let (_lab, nodes) = Lab::running(&context, &members, &accounts).await;
        // Beyond the first blocks, in which validators confirm their seats.
        nodes[0].wait_for(&context, 3).await;
        let (sender, receiver) = (&accounts[0], Address::new([7; 20]));
        let mut runtime = context.child("client");
        for nonce in 0..12 {
            // Longer than the network needs to become idle, and not in step with its blocks.
            context.sleep(Duration::from_millis(1_330)).await;
            let node = &nodes[usize::try_from(nonce).unwrap() % nodes.len()];
            let payment = transfer(sender, nonce, receiver, Amount::ONE);
            let begin = context.current();
            let verdicts = node.node.intake.submit(&mut runtime, vec![payment]).await;
            assert!(verdicts.iter().all(Result::is_ok), "{verdicts:?}");
            while node.account(sender.address()).await.nonce.0 <= nonce {
                context.sleep(Duration::from_millis(5)).await;
            }
            let took = context.current().duration_since(begin).unwrap();
            assert!(took < Duration::from_millis(400), "transfer {nonce} took {took:?}");
        }
    });
}
