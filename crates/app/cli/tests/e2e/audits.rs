//! Audits with real processes: an honest provider is upheld, and those whose executors lie, or who vanish
//! when they are asked, lose.

use crate::{
    dev::{liar, text},
    providers::{Running, until},
    scene::{SHORT, Scene},
};
use opengpu_client::{Keystore, Passphrase, devnet, send};
use opengpu_types::{
    Address, Amount, Audit, AuditPhase, AuditSeat, Challenger, CloseReason, Entry, Event, Fault,
    Finding, Height, Key, LeaseId, LeasePhase, Operation, Outcome, Said, Verdict,
};
use rustix::process::Signal;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(180);
/// What a provider of these tests has staked, beside what it keeps for fees.
const STAKE: &str = "5";
/// Less than the providers of a local network take, however slow the device seemed when it was measured: whoever
/// asks for it has the first lease.
const CHEAP: &str = "0.0001 oGPU";
/// More than they take: whoever asks for it has no lease.
const DEAR: &str = "0.01 oGPU";

/// What an audit came to.
#[derive(Debug)]
struct Closed {
    finding: Finding,
    audit: Audit,
    fees: Amount,
    forfeited: Amount,
}

impl Closed {
    fn said(&self, verifier: Address) -> Vec<Said> {
        let own = self.audit.seats.iter().filter(|seat| seat.verifier == verifier);
        own.flat_map(|seat| seat.duties.iter().map(|duty| duty.said)).collect()
    }
}

fn events(scene: &Scene) -> Vec<Event> {
    let rpc = scene.rpc();
    let receipts = (1..=rpc.status().unwrap().height.0)
        .flat_map(|height| rpc.receipts(Height(height)).unwrap())
        .filter(|receipt| receipt.outcome == Outcome::Applied);
    receipts.flat_map(|receipt| receipt.events.into_vec()).collect()
}

fn lease(task: &str, number: u8) -> LeaseId {
    LeaseId { task: task.parse().unwrap(), number }
}

fn closed(scene: &Scene, id: LeaseId) -> Closed {
    let found = events(scene).into_iter().find_map(|event| match event {
        Event::AuditClosed { lease, audit, fees, forfeited } if lease == id => {
            Some((audit.into_inner(), fees, forfeited))
        }
        _ => None,
    });
    let (audit, fees, forfeited) = found.expect("the lease was audited");
    let AuditPhase::Decided(finding) = audit.phase else { unreachable!("it is over: {audit:?}") };
    Closed { finding, audit, fees, forfeited }
}

/// What a lease lost: all of it, burned, and the finder's.
fn slashed(scene: &Scene, id: LeaseId) -> (Amount, Amount, Amount) {
    let found = events(scene).into_iter().find_map(|event| match event {
        Event::ProviderSlashed { lease, amount, burned, finder, .. } if lease == id => {
            Some((amount, burned, finder))
        }
        _ => None,
    });
    found.expect("it was slashed")
}

/// A provider with stake.
fn staked(
    scene: &Scene,
    (name, rate): (&str, &str),
    start: impl FnOnce(&Scene, &[&str]) -> Running,
) -> Running {
    scene.init_provider_at(name, rate, &[]);
    let keys = Keystore::new(&scene.home().join("dev"));
    let faucet = keys.unlock(devnet::FAUCET, &Passphrase::default()).unwrap();
    let (to, amount) = (scene.account(name).parse().unwrap(), Amount::whole(100));
    send(&scene.rpc(), &faucet, vec![Operation::Transfer { to, amount }], PATIENCE).unwrap();
    start(scene, &["--stake", STAKE])
}

/// The same whose executors lie, by the name of what they do.
fn lying(scene: &Scene, name: &str, rate: &str) -> Running {
    staked(scene, (name, rate), |scene, more| {
        let start = ["provider", "start", "--data", name, "--wallet", name];
        let arguments = scene.arguments(&[&start[..], more].concat());
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        scene.start_as_provider(name, &mut liar(scene.home(), name, &arguments))
    })
}

fn short(scene: &Scene) -> (String, Vec<u8>) {
    scene.write("short.txt", SHORT);
    (scene.detached("short.txt", &["--spot", "--prefer", "price"]), scene.undisturbed("short.txt"))
}

fn phases(scene: &Scene, task: &str) -> Vec<LeasePhase> {
    let leases = scene.on_chain(task).leases;
    leases.iter().map(|lease| lease.phase).collect()
}

#[test]
fn e2e_an_honest_provider_is_audited_upheld_and_its_verifiers_are_paid() {
    let scene = Scene::new("3");
    let (task, expected) = short(&scene);
    assert_eq!(scene.pulled(&task), expected);
    let entry = scene.assert_paid_once(&task);
    assert_eq!(entry.leases[0].verdict, Some(Verdict::Upheld));
    let Closed { finding, audit, fees, forfeited } = closed(&scene, lease(&task, 0));
    assert_eq!(finding, Finding::Upheld);
    assert_eq!(audit.seats.len(), 2, "all others repeat something: {:?}", audit.seats);
    assert!(audit.seats.iter().all(|seat| seat.draw == 1), "nobody was away: {:?}", audit.seats);
    assert!(!fees.is_zero() && fees < entry.paid && forfeited.is_zero());
}

fn a_liar_is_found(name: &str) {
    let scene = Scene::new("3");
    let lies = lying(&scene, name, CHEAP);
    let (task, expected) = short(&scene);
    // Somebody else does what was not done, and the client has what it paid for.
    assert_eq!(scene.pulled(&task), expected);
    let entry = scene.on_chain(&task);
    let account: Address = scene.account(name).parse().unwrap();
    assert_eq!(entry.leases[0].provider, account, "it was the cheapest");
    assert_eq!(entry.leases[0].verdict, Some(Verdict::Refuted));
    assert!(entry.leases[0].paid.is_zero());
    let closed_by = [CloseReason::Refuted, CloseReason::Completed];
    assert_eq!(phases(&scene, &task), closed_by.map(|reason| LeasePhase::Closed { reason }));
    let first = closed(&scene, lease(&task, 0));
    let Finding::Refuted(Fault::Wrong { finder: Challenger::Verifier(finder), index }) =
        first.finding
    else {
        unreachable!("it lost a dispute: {first:?}")
    };
    let said = first.said(finder);
    assert!(said.iter().any(|said| matches!(said, Said::Objected(_))), "{index}: {said:?}");
    let (amount, burned, finders) = slashed(&scene, lease(&task, 0));
    assert!(!amount.is_zero() && burned < amount, "{amount} {burned}");
    assert_eq!(finders, amount.mul_div(1, 4).unwrap());
    assert_eq!(closed(&scene, lease(&task, 1)).finding, Finding::Upheld);
    lies.stop();
}

#[test]
fn e2e_a_provider_that_runs_nothing_is_narrowed_to_one_step_and_slashed() {
    a_liar_is_found("liar");
}

#[test]
fn e2e_a_provider_that_lies_in_some_steps_is_narrowed_to_one_step_and_slashed() {
    a_liar_is_found("liar-rarely");
}

#[test]
fn e2e_a_verifier_that_lies_loses_its_pledge_and_harms_nobody() {
    let scene = Scene::new("3");
    let lies = lying(&scene, "liar-always", DEAR);
    let (task, expected) = short(&scene);
    assert_eq!(scene.pulled(&task), expected);
    let entry = scene.assert_paid_once(&task);
    assert_eq!(entry.leases[0].verdict, Some(Verdict::Upheld));
    let found = closed(&scene, lease(&task, 0));
    assert_eq!(found.finding, Finding::Upheld);
    let said = found.said(scene.account("liar-always").parse().unwrap());
    assert!(said.contains(&Said::Dismissed), "{said:?}");
    assert!(!found.forfeited.is_zero(), "its pledge is lost");
    lies.stop();
}

#[test]
fn e2e_a_provider_that_vanishes_when_it_is_to_open_is_refuted_and_another_does_its_task() {
    let scene = Scene::new("3");
    let start = |scene: &Scene, more: &[&str]| scene.start_provider("gone", more);
    let gone = staked(&scene, ("gone", CHEAP), start);
    // A verifier that does not answer, so that leaves are awaited only when its time is over.
    let start = |scene: &Scene, more: &[&str]| scene.start_provider("asleep", more);
    let asleep = staked(&scene, ("asleep", DEAR), start);
    asleep.signal(Signal::STOP);
    let (task, expected) = short(&scene);
    let rpc = scene.rpc();
    let sealed =
        |seat: &AuditSeat| seat.duties.iter().all(|duty| matches!(duty.said, Said::Sealed(_)));
    until("a verifier was served", || match rpc.entry(&Key::Audit(lease(&task, 0))).unwrap() {
        Some(Entry::Audit(audit)) => audit.into_inner().seats.iter().any(sealed),
        _ => false,
    });
    gone.kill();
    asleep.signal(Signal::CONT);
    assert_eq!(scene.pulled(&task), expected);
    let found = closed(&scene, lease(&task, 0));
    assert_eq!(found.finding, Finding::Refuted(Fault::Unopened));
    let (amount, burned, finder) = slashed(&scene, lease(&task, 0));
    assert!(!amount.is_zero() && burned < amount && finder.is_zero(), "nobody found it");
}

#[test]
fn e2e_a_liar_of_another_name_is_nothing() {
    let place = tempfile::tempdir().unwrap();
    let refused = liar(place.path(), "opengpu", &["--version"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
}
