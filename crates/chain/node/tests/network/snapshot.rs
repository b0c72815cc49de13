//! The state of a stopped node as a file: it leads to the same state elsewhere, or is refused.

use crate::{
    lab::{EPOCH_BLOCKS, Lab, genesis},
    members,
};
use commonware_runtime::{Runner as _, Supervisor as _, buffer::paged::CacheRef, deterministic};
use opengpu_node::{
    History,
    engine::page_cache,
    snapshot::{SnapshotError, export, import, verify},
};
use opengpu_types::ChainId;
use std::time::Duration;

fn cache() -> CacheRef {
    page_cache(1 << 20)
}

#[test]
fn a_snapshot_leads_to_the_same_state_elsewhere_and_a_damaged_one_nowhere() {
    let runner = deterministic::Runner::timed(Duration::from_secs(300));
    runner.start(|context| async move {
        let members = members(4);
        let network = genesis(&members, &[]);
        let lab = Lab::new(context.child("lab"), network.clone(), &members).await;
        let mut nodes = Vec::new();
        for member in &members {
            nodes.push(lab.start(member).await);
        }
        nodes[3].wait_for(&context, 2 * EPOCH_BLOCKS + 3).await;
        nodes.pop().expect("four nodes").stop(&context).await;

        let me = members[3].public_key();
        let (here, there) = (format!("first-{me}"), format!("second-{me}"));
        let checked = verify(&context.child("check"), &here, &cache()).await.unwrap();
        assert!(checked.entries > 20, "{checked:?}");
        let mut file = Vec::new();
        let child = context.child("export");
        let height = export(&child, &here, &cache(), &network, &mut file).await.unwrap();
        assert!(height <= checked.height && height.0 > 2 * EPOCH_BLOCKS);

        let mut other = network.clone();
        other.chain = ChainId(1);
        let mut child = context.child("other");
        let refused = import(&mut child, "other", &cache(), &other, &mut &file[..]).await;
        assert!(matches!(refused, Err(SnapshotError::OtherNetwork { .. })), "{refused:?}");
        for (number, place) in (0..file.len()).step_by(file.len() / 40).enumerate() {
            let mut damaged = file.clone();
            damaged[place] ^= 0x10;
            let (mut child, prefix) = (context.child("damaged"), format!("damaged-{number}"));
            let refused = import(&mut child, &prefix, &cache(), &network, &mut &damaged[..]).await;
            assert!(refused.is_err(), "byte {place} of {} may be anything", file.len());
        }
        let mut child = context.child("short");
        let short = &file[..file.len() - 1];
        assert!(import(&mut child, "short", &cache(), &network, &mut &*short).await.is_err());

        let mut child = context.child("import");
        let imported = import(&mut child, &there, &cache(), &network, &mut &file[..]).await;
        assert_eq!(imported.unwrap(), height);
        let again = verify(&context.child("again"), &there, &cache()).await.unwrap();
        assert_eq!(again.height, height);

        // A node that starts there goes on from there.
        let moved = lab.start_on("second", &members[3], History::Recent(EPOCH_BLOCKS)).await;
        let end = 4 * EPOCH_BLOCKS;
        moved.wait_for(&context, end).await;
        assert!(moved.block(1).await.is_none(), "nothing was replayed");
        nodes[0].wait_for(&context, end).await;
        assert_eq!(moved.block(end).await, nodes[0].block(end).await);
    });
}
