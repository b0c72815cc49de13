//! Leases that are audited: by agents, through a relay, with executors that repeat.

use crate::holders::Meeting;
use crate::village::{Village, permille, person};
use crate::{SHORT, Scene, example};
use opengpu_agent::Agent;
use opengpu_exec::Program;
use opengpu_types::{
    Address, Amount, Audit, AuditParameters, AuditPhase, CloseReason, Entry, Event, Fault, Finding,
    Key, LeaseId, MarketParameters, Millis, Verdict,
};

/// Everything is audited, and machines with other work have time.
fn market() -> MarketParameters {
    let audits = AuditParameters {
        segments: 4,
        answering: Millis(30_000),
        opening: Millis(4_000),
        revealing: Millis(15_000),
        fee: permille(1000),
        ..AuditParameters::LOCAL
    };
    MarketParameters { audits, ..MarketParameters::LOCAL }
}

/// A provider that has a lease, others, and the disks of all.
struct Cast {
    scene: Scene,
    meeting: Meeting,
    lessee: Option<Agent>,
    others: Vec<Option<Agent>>,
    disks: Vec<tempfile::TempDir>,
}

impl Cast {
    /// The first one is the cheapest.
    fn new(others: u8) -> Self {
        let (scene, meeting) = (Scene::on(Village::start_with(market())), Meeting::new());
        let disks: Vec<_> = (0..=others).map(|_| tempfile::tempdir().unwrap()).collect();
        let lessee = meeting.provider(&scene, 2, disks[0].path(), 1);
        let others = (0..others).map(|other| {
            let place = usize::from(other) + 1;
            Some(meeting.provider(&scene, 3 + other, disks[place].path(), 2))
        });
        let others = others.collect();
        Self { scene, meeting, lessee: Some(lessee), others, disks }
    }

    fn lessee(&self) -> &Agent {
        self.lessee.as_ref().unwrap()
    }

    /// Has the first one run a task.
    fn run(&self) -> LeaseId {
        let (program, scene) = (example("sha256-search"), &self.scene);
        let opened = Program::open(&program).unwrap();
        let task = scene.client.submit(scene.village(), &opened, SHORT, |_| {});
        let lease = scene.lease(task);
        assert_eq!(scene.village().task(task).leases[0].provider, person(2).address());
        let session = scene.client.dial(&self.lessee().nearby());
        let reader = self.lessee().contact().sealing;
        scene.client.deliver(&session, reader, lease, (&program, SHORT), None).unwrap();
        lease
    }

    fn audit(&self, lease: LeaseId) -> Option<Audit> {
        match self.scene.village().entry(&Key::Audit(lease)) {
            Some(Entry::Audit(audit)) => Some(audit.into_inner()),
            _ => None,
        }
    }

    /// Waits until somebody has sealed; says who.
    fn sealed(&self, lease: LeaseId) -> Address {
        self.scene.village().until("a seal", || {
            let audit = self.audit(lease)?;
            let sealed = audit.seats.iter().find(|seat| {
                seat.duties.iter().all(|duty| matches!(duty.said, opengpu_types::Said::Sealed(_)))
            });
            sealed.map(|seat| seat.verifier)
        })
    }

    /// How an audit ended, and what verifiers were paid.
    fn found(&self, lease: LeaseId) -> (Finding, Amount) {
        let events = self.scene.village().events();
        let mut found = events.into_iter().filter_map(|event| match event {
            Event::AuditClosed { lease: closed, audit, fees, .. } if closed == lease => {
                Some((audit.into_inner(), fees))
            }
            _ => None,
        });
        let (audit, fees) = found.next().expect("it was audited");
        match audit.phase {
            AuditPhase::Decided(finding) => (finding, fees),
            phase => panic!("it ended in {phase:?}"),
        }
    }
}

pub(crate) fn an_honest_run_is_repeated_by_others_upheld_and_they_are_paid() {
    let cast = Cast::new(2);
    let before = [3, 4].map(|seed| cast.scene.village().balance(&person(seed)));
    let lease = cast.run();
    let (reason, verdict, paid) = cast.scene.closed(lease);
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    let (finding, fees) = cast.found(lease);
    assert_eq!(finding, Finding::Upheld);
    assert!(!fees.is_zero() && fees < paid);
    let after = [3, 4].map(|seed| cast.scene.village().balance(&person(seed)));
    assert!(
        before.iter().zip(after).all(|(before, after)| *before < after),
        "{before:?} {after:?}"
    );
    // Nothing of it stays with those who repeated it.
    for disk in &cast.disks {
        cast.scene.village().until("the cases to be gone", || {
            let left = ["audits", "cases"].map(|name| {
                std::fs::read_dir(disk.path().join("records").join(name)).unwrap().count()
            });
            (left == [0, 0]).then_some(())
        });
    }
}

pub(crate) fn a_verifier_that_dies_between_seal_and_reveal_goes_on_from_its_disk() {
    let mut cast = Cast::new(2);
    let lease = cast.run();
    // Whoever has the lease is gone for the moment, so that no leaf is opened before the verifier dies.
    let sealed = cast.sealed(lease);
    let place = if sealed == person(3).address() { 0 } else { 1 };
    cast.others[place] = None;
    let (number, disk) = (3 + u8::try_from(place).unwrap(), cast.disks[place + 1].path());
    cast.others[place] = Some(cast.meeting.provider(&cast.scene, number, disk, 2));
    let (reason, verdict, _) = cast.scene.closed(lease);
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    let events = cast.scene.village().events();
    let draws = events.iter().filter(|event| {
        matches!(event, Event::AuditDrawn { lease: drawn, verifiers, .. }
            if *drawn == lease && !verifiers.is_empty())
    });
    assert_eq!(draws.count(), 1, "nobody else was needed");
}

pub(crate) fn whoever_is_gone_when_leaves_are_to_be_opened_is_refuted() {
    let mut cast = Cast::new(2);
    let lease = cast.run();
    // One verifier is gone, so leaves are awaited only when its time is over; the other one has sealed.
    cast.others[1] = None;
    cast.sealed(lease);
    let stake = cast.scene.village().provider(&person(2)).unwrap().stake;
    cast.lessee = None;
    let (reason, verdict, paid) = cast.scene.closed(lease);
    assert_eq!((reason, verdict), (CloseReason::Refuted, Some(Verdict::Refuted)));
    assert_eq!(cast.found(lease).0, Finding::Refuted(Fault::Unopened));
    assert!(paid.is_zero());
    let left = cast.scene.village().provider(&person(2)).unwrap();
    assert!(left.stake <= stake && left.locked.is_zero(), "its lock is lost");
}
