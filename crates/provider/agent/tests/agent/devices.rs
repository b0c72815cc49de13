//! A provider with two devices of one class.

use crate::{LONG, Scene, Setup, emitted, local, person, start_with};
use opengpu_agent::core::{Devices, Stage};
use opengpu_types::{Amount, CloseReason, LeaseId, ProviderStatus, Verdict};
use std::collections::BTreeMap;

/// Where each lease runs.
fn running(scene: &Scene) -> BTreeMap<LeaseId, (u8, Devices)> {
    let leases = scene.agent().status().leases.into_iter();
    let running = leases.filter(|held| matches!(held.stage, Stage::Running));
    running.filter_map(|held| Some((held.lease, held.devices?))).collect()
}

/// An agent with two devices.
fn start(scene: &mut Scene) {
    let setup = Setup { number: 2, relay: None, times: 1, turn: 0, devices: 2 };
    scene.agent = Some(start_with(&scene.chain, setup, scene.folder.path(), scene.owner.clone()));
}

pub(crate) fn two_leases_run_at_once_each_on_its_own_device_also_after_a_restart() {
    let mut scene = Scene::empty();
    start(&mut scene);
    scene.agent().announce(Amount::whole(1_000)).unwrap();
    let leases = [scene.run(LONG), scene.run(LONG)].map(|(lease, _)| lease);
    let two = || Some(running(&scene)).filter(|running| running.len() == 2);
    let before = scene.village().until("both to run", two);
    assert_eq!(before[&leases[0]], (0, Devices::NONE.with(0)));
    assert_eq!(before[&leases[1]], (0, Devices::NONE.with(1)));
    for lease in leases {
        scene.village().until("a checkpoint", || scene.checkpoint(lease));
        // The next agent knows it by the disk alone.
        let record = scene.folder.path().join(format!("records/leases/{}-0/devices", lease.task));
        let numbers: Devices = std::fs::read(record).unwrap().into_iter().collect();
        assert_eq!(before[&lease].1, numbers);
    }
    drop(scene.agent.take());
    start(&mut scene);
    let two = || Some(running(&scene)).filter(|running| running.len() == 2);
    assert_eq!(scene.village().until("both to run again", two), before);
    let expected = local(LONG);
    for lease in leases {
        let session = scene.client.dial(&scene.agent().nearby());
        let news = scene.client.follow(&session, lease, 0);
        assert_eq!(emitted(&news), expected);
        let (reason, verdict, paid) = scene.closed(lease);
        assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
        assert!(!paid.is_zero());
    }
}

pub(crate) fn a_device_that_is_taken_away_gives_its_lease_back_and_the_offer_follows() {
    let mut scene = Scene::empty();
    start(&mut scene);
    scene.agent().announce(Amount::whole(1_000)).unwrap();
    let leases = [scene.run(LONG), scene.run(LONG)].map(|(lease, _)| lease);
    for lease in leases {
        scene.village().until("a checkpoint", || scene.checkpoint(lease));
    }
    drop(scene.agent.take());
    let setup = Setup { number: 2, relay: None, times: 1, turn: 0, devices: 1 };
    scene.agent = Some(start_with(&scene.chain, setup, scene.folder.path(), scene.owner.clone()));
    scene.agent().announce(Amount::ZERO).unwrap();
    for lease in leases {
        let (reason, _, paid) = scene.closed(lease);
        assert_eq!(reason, CloseReason::Released);
        assert!(!paid.is_zero(), "its checkpoint is paid");
    }
    let offered = || {
        let provider = scene.village().provider(&person(2))?;
        let active = provider.status == ProviderStatus::Active;
        (active && provider.offers.iter().all(|it| it.offer.devices == 1)).then_some(provider)
    };
    let provider = scene.village().until("one device on offer", offered);
    assert_eq!(provider.reputation.broken, 0, "nobody is to blame");
    assert!(!scene.agent().status().unannounced);
}
