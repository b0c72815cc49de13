//! Who may have what held, for how long, and who gets it back.

use super::*;
use crate::fixture::{self, ACCOUNT, Paper};
use opengpu_crypto::{SealPublicKey, Sealed};
use opengpu_link::artifact::Grant;
use opengpu_types::{
    CloseReason, Commitment, Contact, Ending, Lease, LeasePhase, List, Provider, SessionKey,
    TaskPhase, Usage,
};

const TASK: TaskId = TaskId(fixture::DIGEST);
const LEASE: LeaseId = LeaseId { task: TASK, number: 0 };
/// The lessee, the client and somebody else.
const LESSEE: EndpointId = EndpointId([5; 32]);
const CLIENT: EndpointId = EndpointId([1; 32]);
const OTHER: EndpointId = EndpointId([6; 32]);
const ROOM: u64 = 4_000;
const KEEP: Millis = Millis(600_000);

struct Scene {
    paper: Arc<Paper>,
    custody: Custody,
    folder: tempfile::TempDir,
}

/// The task with a lease of ours that stands at a segment on chain.
fn task(on_chain: Option<u32>, phase: LeasePhase) -> Task {
    let mut task = fixture::leased();
    let lease = task.leases.get_mut(0).unwrap();
    let reached = |index| opengpu_types::Checkpoint {
        index: SegmentIndex(index),
        state: ArtifactId(fixture::DIGEST),
        emitted: fixture::DIGEST,
        bytes_out: 0,
    };
    let commitment = |index| Commitment {
        root: fixture::DIGEST,
        steps: 8,
        segments: 8,
        reached: reached(index),
        output: ArtifactId(fixture::DIGEST),
        usage: Usage { time: Millis(1), fuel: 1 },
        ending: Ending::Open,
    };
    *lease = Lease { commitment: on_chain.map(commitment), phase, ..lease.clone() };
    task
}

fn provider(session: EndpointId) -> Provider {
    let contact = Contact { session: SessionKey(session.0), ..fixture::contact() };
    Provider { contact, ..fixture::provider() }
}

impl Scene {
    fn new() -> Self {
        let (paper, folder) = (Arc::new(Paper::default()), tempfile::tempdir().unwrap());
        let custody = open(&paper, folder.path());
        let scene = Self { paper, custody, folder };
        scene.paper.provide(ACCOUNT, provider(LESSEE));
        scene.see(task(None, LeasePhase::Running));
        scene
    }

    fn see(&self, task: Task) {
        self.paper.write(Key::Task(TASK), Entry::Task(task.into()));
    }

    /// A parcel of so many bytes that is there already, as if it had been fetched.
    fn parcel(&self, fill: u8, size: usize) -> Parcel {
        let artifact = self.custody.store().import(&vec![fill; size][..]).unwrap();
        let sealed = Sealed { encapsulated: [1; 32], ciphertext: vec![2; 48] };
        let grant = Grant { artifact, reader: fixture::contact().sealing, sealed };
        Parcel { size: u64::try_from(size).unwrap(), grant }
    }

    fn hold(&self, segment: u32, after: Option<u32>, fill: u8) -> Hold {
        Hold {
            lease: LEASE,
            segment: SegmentIndex(segment),
            after: after.map(SegmentIndex),
            state: Some(self.parcel(fill, 100)),
            piece: self.parcel(fill + 100, 50),
        }
    }

    /// Takes it as a session would, without the fetching.
    fn take(&self, hold: &Hold, remote: EndpointId) -> Result<(), Refusal> {
        let refused = |error| match error {
            Untaken::Refused(refusal) => refusal,
            other => panic!("{other}"),
        };
        let (client, on_chain) = self.custody.check(hold, remote).map_err(refused)?;
        let (_place, holding) = self.custody.enter(hold, on_chain)?;
        let kept = Kept { lease: hold.lease, client, holding, ended: None };
        self.custody.replace(kept).map_err(refused)
    }

    fn holding(&self) -> Holding {
        self.custody.lock().get(&LEASE).unwrap().holding.clone()
    }

    fn states(&self) -> Vec<u32> {
        self.holding().states.iter().map(|held| held.segment.0).collect()
    }

    fn has(&self, parcel: &Parcel) -> bool {
        self.custody.store().contains(&parcel.grant.artifact)
    }
}

fn open(paper: &Arc<Paper>, folder: &Path) -> Custody {
    let chain = Arc::clone(paper) as Arc<dyn Chain>;
    let (clock, neighbours) = (Clock::new(Millis(0)), Neighbours::default());
    Custody::open(folder, (ROOM, KEEP), chain, clock, neighbours).unwrap()
}

#[test]
fn only_the_provider_of_an_open_lease_has_something_held() {
    let scene = Scene::new();
    let hold = scene.hold(1, None, 1);
    assert_eq!(scene.take(&hold, OTHER), Err(Refusal::Denied), "a stranger");
    assert_eq!(scene.take(&hold, CLIENT), Err(Refusal::Denied), "the client");
    let another = Hold { lease: LeaseId { number: 1, ..LEASE }, ..hold.clone() };
    assert_eq!(scene.take(&another, LESSEE), Err(Refusal::Denied), "there is no such lease");
    let task_of_nobody = LeaseId { task: TaskId(opengpu_crypto::Digest([1; 32])), number: 0 };
    let nowhere = Hold { lease: task_of_nobody, ..hold.clone() };
    assert_eq!(scene.take(&nowhere, LESSEE), Err(Refusal::Denied), "there is no such task");
    let closed = LeasePhase::Closed { reason: CloseReason::Completed };
    scene.see(task(None, closed));
    assert_eq!(scene.take(&hold, LESSEE), Err(Refusal::Denied), "the lease is over");
    scene.see(task(None, LeasePhase::Running));
    scene.paper.leave(ACCOUNT);
    assert_eq!(scene.take(&hold, LESSEE), Err(Refusal::Denied), "it is no provider any more");
    scene.paper.provide(ACCOUNT, provider(LESSEE));
    let mut sealed_to_another = hold.clone();
    sealed_to_another.piece.grant.reader = SealPublicKey([7; 32]);
    assert_eq!(scene.take(&sealed_to_another, LESSEE), Err(Refusal::Invalid));
    assert_eq!(scene.custody.bytes(), 0);
    assert_eq!(scene.take(&hold, LESSEE), Ok(()));
    assert_eq!(scene.custody.bytes(), 150);
}

#[test]
fn only_the_client_gets_it_back_and_gets_in_for_it() {
    let scene = Scene::new();
    assert!(!scene.custody.admits(CLIENT));
    let hold = scene.hold(1, None, 1);
    scene.take(&hold, LESSEE).unwrap();
    assert!(scene.custody.admits(CLIENT));
    assert!(!scene.custody.admits(OTHER) && !scene.custody.admits(LESSEE), "nobody knows them");
    let artifact = hold.piece.grant.artifact;
    assert!(scene.custody.may_read(CLIENT, artifact));
    assert!(!scene.custody.may_read(OTHER, artifact) && !scene.custody.may_read(LESSEE, artifact));
    assert!(!scene.custody.may_read(CLIENT, ArtifactId::of(b"something else")));
    // Another provider gets in, and reads nothing.
    scene.paper.shelve(&[ACCOUNT]);
    scene.custody.0.neighbours.look(&*scene.paper).unwrap();
    assert!(scene.custody.admits(LESSEE) && !scene.custody.may_read(LESSEE, artifact));
}

#[test]
fn the_newer_takes_the_place_of_the_older_but_for_the_state_on_chain() {
    let scene = Scene::new();
    let [first, second, third] = [(1, 1), (2, 2), (4, 3)].map(|(segment, fill)| {
        let after = (segment > 1).then_some(if segment == 2 { 1 } else { 2 });
        scene.hold(segment, after, fill)
    });
    scene.take(&first, LESSEE).unwrap();
    scene.see(task(Some(1), LeasePhase::Running));
    scene.take(&second, LESSEE).unwrap();
    // Until the second one is on chain, the first one is where somebody would go on.
    assert_eq!((scene.states(), scene.holding().pieces.len()), (vec![1, 2], 2));
    assert!(scene.has(first.state.as_ref().unwrap()));
    scene.see(task(Some(2), LeasePhase::Running));
    scene.take(&third, LESSEE).unwrap();
    assert_eq!((scene.states(), scene.holding().pieces.len()), (vec![2, 4], 3));
    assert!(!scene.has(first.state.as_ref().unwrap()), "what is replaced takes no room");
    assert!(scene.has(&first.piece), "its piece of the output is still needed");
    assert_eq!(scene.take(&second, LESSEE), Err(Refusal::Invalid), "nothing goes back");
    let gap = scene.hold(6, Some(5), 4);
    assert_eq!(scene.take(&gap, LESSEE), Err(Refusal::Missing), "pieces have no gap");
    // The end has no state of its own, and everything anew takes the place of all pieces.
    let end = Hold { state: None, ..scene.hold(8, None, 5) };
    scene.see(task(Some(4), LeasePhase::Running));
    scene.take(&end, LESSEE).unwrap();
    assert_eq!((scene.states(), scene.holding().pieces.len()), (vec![4], 1));
    assert!(!scene.has(&first.piece) && scene.has(&end.piece));
}

#[test]
fn no_lease_takes_more_than_its_part_and_all_together_no_more_than_the_quota() {
    let scene = Scene::new();
    let large = Hold { piece: scene.parcel(1, 1_001), state: None, ..scene.hold(1, None, 2) };
    assert_eq!(scene.take(&large, LESSEE), Err(Refusal::Busy), "a quarter is the most");
    let mut task = task(None, LeasePhase::Running);
    let lease = task.leases[0].clone();
    task.leases = List::new(vec![lease; 5]).unwrap();
    scene.see(task);
    let piece = |number: u8, size| Hold {
        lease: LeaseId { number, ..LEASE },
        segment: SegmentIndex(1),
        after: None,
        state: None,
        piece: scene.parcel(10 + number, size),
    };
    for number in 0..4 {
        assert_eq!(scene.take(&piece(number, 900), LESSEE), Ok(()));
    }
    let (bytes, fifth) = (scene.custody.bytes(), piece(4, 200));
    assert_eq!(scene.take(&fifth, LESSEE), Ok(()));
    assert_eq!(scene.custody.bytes(), bytes + 200);
    let one_more = Parcel { size: 201, ..scene.parcel(21, 10) };
    let full = Hold { segment: SegmentIndex(2), piece: one_more, ..fifth };
    assert_eq!(scene.take(&full, LESSEE), Err(Refusal::Busy), "the quota is used up");
}

#[test]
fn one_lease_does_not_ask_all_the_time() {
    let (mut counter, room) = (Counter::default(), Room::of(ROOM));
    let mut ask = |now| {
        let entered = counter.enter((LEASE, 1), (0, 0), room, Millis(now));
        counter.leave(LEASE);
        entered
    };
    assert!((0..16).all(|now| ask(now) == Ok(())));
    assert_eq!(ask(17), Err(Refusal::Busy));
    assert_eq!(ask(10_001), Ok(()), "later it may again");
    assert_eq!(counter.enter((LEASE, 1), (0, 0), room, Millis(10_002)), Ok(()));
    let again = counter.enter((LEASE, 1), (0, 0), room, Millis(10_003));
    assert_eq!(again, Err(Refusal::Busy), "one thing at a time");
}

#[test]
fn what_is_held_goes_some_time_after_the_end_of_its_task() {
    let scene = Scene::new();
    let hold = scene.hold(1, None, 1);
    scene.take(&hold, LESSEE).unwrap();
    scene.custody.sweep().unwrap();
    let mut closed = task(Some(1), LeasePhase::Closed { reason: CloseReason::Completed });
    closed.phase = TaskPhase::Closed { reason: CloseReason::Completed, at: Millis(5_000) };
    scene.see(closed);
    scene.custody.sweep().unwrap();
    assert!(scene.has(&hold.piece), "its client may come for it");
    // The end outlives a restart.
    let Scene { paper, custody, folder } = scene;
    drop(custody);
    let custody = open(&paper, folder.path());
    assert_eq!(custody.lock()[&LEASE].ended, Some(Millis(5_000)));
    custody.0.clock.set(Millis(6_000));
    custody.sweep().unwrap();
    assert!(custody.store().contains(&hold.piece.grant.artifact));
    custody.0.clock.set(Millis(605_000));
    custody.sweep().unwrap();
    assert!(!custody.store().contains(&hold.piece.grant.artifact));
    assert_eq!(custody.bytes(), 0);
    drop(custody);
    assert_eq!(open(&paper, folder.path()).bytes(), 0, "and from the disk, too");
}

#[test]
fn a_task_that_the_chain_has_no_more_has_ended() {
    let scene = Scene::new();
    let hold = scene.hold(1, None, 1);
    scene.take(&hold, LESSEE).unwrap();
    let mut kept = scene.custody.lock()[&LEASE].clone();
    assert!(kept.see(None, Millis(7)) && kept.ended == Some(Millis(7)));
    assert!(!kept.see(None, Millis(9)), "it ended when that was first seen");
    assert!(!kept.is_over(Millis(600_006), KEEP) && kept.is_over(Millis(600_007), KEEP));
}

#[test]
fn a_client_that_changes_its_key_gets_in_with_the_new_one_alone() {
    let scene = Scene::new();
    let hold = scene.hold(1, None, 10);
    scene.take(&hold, LESSEE).unwrap();
    let mut changed = task(Some(1), LeasePhase::Running);
    changed.contact.session = SessionKey(OTHER.0);
    scene.see(changed);
    scene.custody.sweep().unwrap();
    let piece = hold.piece.grant.artifact;
    assert!(scene.custody.admits(OTHER) && scene.custody.may_read(OTHER, piece));
    assert!(!scene.custody.admits(CLIENT) && !scene.custody.may_read(CLIENT, piece));
    // It is so after a restart, too.
    let Scene { paper, custody, folder } = scene;
    drop(custody);
    assert!(open(&paper, folder.path()).may_read(OTHER, piece));
}
