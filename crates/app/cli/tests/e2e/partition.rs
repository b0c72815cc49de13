//! Validators that are cut off from each other while a task runs.

use crate::{
    network::Network,
    providers::until,
    scene::{LONGER, Scene},
};
use std::{
    thread,
    time::{Duration, Instant},
};

const EPOCH_BLOCKS: u64 = 20;
/// How long a cut lasts; less than the silence of a provider that the chain takes for its death.
const CUT: Duration = Duration::from_secs(3);
/// How soon blocks are final again; on a busy machine.
const HEALED: Duration = Duration::from_secs(10);

/// Heals all links, and waits until every node has a new block.
fn heal(network: &Network) {
    network.heal();
    let (begin, most) = (Instant::now(), network.nodes.iter().map(|it| it.height()).max().unwrap());
    network.wait("every node goes on", |it| it.nodes.iter().all(|node| node.height() > most));
    assert!(begin.elapsed() < HEALED, "it took {:?}", begin.elapsed());
    eprintln!("healed within {:?}", begin.elapsed());
}

#[test]
fn e2e_validators_are_cut_off_with_a_task_in_flight_and_go_on_as_one() {
    let network = Network::linked(EPOCH_BLOCKS);
    let mut scene = Scene::beside(&network);
    scene.node = network.nodes[1].rpc.url().to_owned();
    let provider = scene.provider("one");
    scene.node = network.nodes[0].rpc.url().to_owned();
    let task = scene.detached_longer();
    until("a checkpoint", || scene.reached(&task) > 0);

    // One is cut off, with the provider that asks it: three are enough.
    network.cut(&[1]);
    thread::sleep(Duration::from_secs(1));
    let (alone, others) = (network.nodes[1].height(), network.nodes[0].height());
    thread::sleep(CUT);
    assert_eq!(network.nodes[1].height(), alone, "nobody tells it of new blocks");
    assert!(network.nodes[0].height() > others, "three of four go on");
    heal(&network);

    // Two and two: nobody has a quorum, so nothing is final anywhere.
    network.cut(&[2, 3]);
    thread::sleep(Duration::from_secs(1));
    let heights = || network.nodes.iter().map(|node| node.height()).collect::<Vec<_>>();
    let before = heights();
    thread::sleep(CUT);
    assert_eq!(heights(), before, "without a quorum nothing is final");
    assert!(!scene.on_chain(&task).is_closed(), "all of it happened while it ran");
    heal(&network);

    let output = scene.pulled(&task);
    assert_eq!(String::from_utf8_lossy(&output), LONGER);
    let entry = scene.assert_paid_once(&task);
    assert_eq!(entry.leases.len(), 1, "one provider did all of it: {:?}", entry.leases);
    network.assert_agreement();
    network.assert_no_offence();
    provider.stop();
}
