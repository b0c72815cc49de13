//! Whole networks of real nodes on simulated time.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where it fails"
)]

mod agreement;
mod lab;
mod snapshot;
mod starts;

use lab::{EPOCH_BLOCKS, Member, Running};
use opengpu_crypto::Keypair;

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
