//! Leases whose provider is lost for good, and what another one holds of them.

use crate::client::Client;
use crate::village::person;
use crate::{Owner, SHORT, Scene, Setup, example, local, start_with};
use commonware_codec::Encode as _;
use opengpu_agent::Agent;
use opengpu_exec::Program;
use opengpu_link::lease::{HELD, HOLD, Hold, Piece, Wanted};
use opengpu_link::session::SessionError;
use opengpu_link::{Relay, RelaySetup};
use opengpu_types::{Amount, ArtifactId, CloseReason, LeaseId, Millis, SegmentIndex, Verdict};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Runs on well after its first checkpoint, also on a fast machine.
const LONGER: &[u8] = b"opengpu:\n30000000\n";
/// How long a client waits for the next provider on a machine with other work.
const PATIENT: Millis = Millis(120_000);

/// A relay that ends with its test.
pub(crate) struct Meeting {
    relay: Option<Relay>,
    runtime: Runtime,
}

impl Meeting {
    pub(crate) fn new() -> Self {
        let listen = "127.0.0.1:0".parse().unwrap();
        let setup = RelaySetup { listen, tls: None, rate: None };
        let runtime = Runtime::new().unwrap();
        let relay = runtime.block_on(Relay::start(setup, |_| true)).unwrap();
        Self { relay: Some(relay), runtime }
    }

    /// A provider that is found through it, and takes so many times the usual rate.
    pub(crate) fn provider(&self, scene: &Scene, number: u8, folder: &Path, times: u128) -> Agent {
        let relay = Some(self.relay.as_ref().unwrap().url().clone());
        let setup = Setup { number, relay, times, turn: 0, devices: 1 };
        let agent = start_with(&scene.chain, setup, folder, Owner::default());
        agent.announce(Amount::whole(200)).unwrap();
        agent
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let _within = self.runtime.enter();
        drop(self.relay.take());
    }
}

/// What pieces that were held say of the output, until a segment.
fn until(pieces: &[Piece], segment: SegmentIndex) -> Vec<u8> {
    let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.bytes.clone()).collect();
    let mut cuts = pieces.iter().flat_map(|piece| &piece.cuts);
    let end = cuts.find(|cut| cut.segment.index == segment).expect("it is held so far").end;
    bytes[..usize::try_from(end).unwrap()].to_vec()
}

pub(crate) fn another_provider_goes_on_from_what_a_holder_has() {
    let (scene, meeting) = (Scene::empty(), Meeting::new());
    let [lost, kept] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    // The dearer one does not get the lease.
    let holder = meeting.provider(&scene, 3, kept.path(), 2);
    let lessee = meeting.provider(&scene, 2, lost.path(), 1);
    let (program, village) = (example("sha256-search"), scene.village());
    let opened = Program::open(&program).unwrap();
    let task = scene.client.submit(village, &opened, LONGER, |spec| spec.patience = PATIENT);
    let first = scene.lease(task);
    assert_eq!(village.task(task).leases[0].provider, person(2).address());
    let session = scene.client.dial(&lessee.nearby());
    let reader = lessee.contact().sealing;
    scene.client.deliver(&session, reader, first, (&program, LONGER), None).unwrap();
    // The client hears and fetches nothing from here on.
    drop(session);
    village.until("a checkpoint that is held and on chain", || {
        let held = lessee.status().leases.first()?.held?;
        (scene.checkpoint(first)? >= held.0).then_some(())
    });
    // It is killed, and its disk is gone.
    drop(lessee);
    drop(lost);
    refuses_strangers(&scene, &holder, first);
    let second = LeaseId { number: 1, ..first };
    let from =
        village.until("another lease", || village.task(task).leases.get(1).map(|it| it.from));
    let from = from.expect("it goes on from a checkpoint");
    let session = scene.client.dial(&holder.nearby());
    let holding = scene.client.held(&session, first);
    let state = holding.states.iter().find(|held| held.segment == from.index);
    let state = scene.client.open(&session, state.expect("its state is held").parcel.clone());
    assert_eq!(ArtifactId::of(&state), from.state);
    let pieces = holding.pieces.iter().map(|parcel| {
        let plain = scene.client.open(&session, parcel.clone());
        Piece::read(&plain).unwrap()
    });
    let part = until(&pieces.collect::<Vec<_>>(), from.index);
    let reader = holder.contact().sealing;
    scene.client.deliver(&session, reader, second, (&program, LONGER), Some(&state)).unwrap();
    let (reason, verdict, _) = scene.closed(second);
    assert_eq!((reason, verdict), (CloseReason::Completed, Some(Verdict::Upheld)));
    let output = [part, scene.client.output(&session, second)].concat();
    assert_eq!(output, local(LONGER));
    assert!(holder.status().holding > 0, "it is kept until the client has had time to fetch it");
}

pub(crate) fn what_is_held_is_fetched_from_its_provider_as_well() {
    let (scene, meeting) = (Scene::empty(), Meeting::new());
    let [folder, kept] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let holder = meeting.provider(&scene, 3, kept.path(), 2);
    let lessee = meeting.provider(&scene, 2, folder.path(), 1);
    let (program, village) = (example("sha256-search"), scene.village());
    let opened = Program::open(&program).unwrap();
    let task = scene.client.submit(village, &opened, LONGER, |spec| spec.patience = PATIENT);
    let lease = scene.lease(task);
    let session = scene.client.dial(&lessee.nearby());
    let reader = lessee.contact().sealing;
    scene.client.deliver(&session, reader, lease, (&program, LONGER), None).unwrap();
    village.until("a checkpoint that is held", || lessee.status().leases.first()?.held);
    // The holder says where state and pieces are, and the provider gives the same ones.
    let holding = scene.client.held(&scene.client.dial(&holder.nearby()), lease);
    for parcel in &holding.pieces {
        let piece = Piece::read(&scene.client.open(&session, parcel.clone())).unwrap();
        assert!(!piece.cuts.is_empty());
    }
    for held in &holding.states {
        assert!(!scene.client.open(&session, held.parcel.clone()).is_empty());
    }
}

pub(crate) fn a_commitment_does_not_wait_for_a_holder_that_is_gone() {
    let (scene, meeting) = (Scene::empty(), Meeting::new());
    let [gone, folder] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    drop(meeting.provider(&scene, 3, gone.path(), 2));
    let lessee = meeting.provider(&scene, 2, folder.path(), 1);
    let (program, village) = (example("sha256-search"), scene.village());
    let opened = Program::open(&program).unwrap();
    let lease = scene.lease(scene.client.submit(village, &opened, SHORT, |_| {}));
    let session = scene.client.dial(&lessee.nearby());
    let reader = lessee.contact().sealing;
    scene.client.deliver(&session, reader, lease, (&program, SHORT), None).unwrap();
    let began = Instant::now();
    assert_eq!(scene.closed(lease).0, CloseReason::Completed);
    let took = began.elapsed();
    assert!(took < Duration::from_secs(15), "it waited: {took:?}");
    assert_eq!(scene.client.output(&session, lease), local(SHORT));
}

/// Whoever is no provider does not get in, whatever it asks.
fn refuses_strangers(scene: &Scene, holder: &Agent, lease: LeaseId) {
    let stranger = Client::with_seed(9);
    let piece = stranger.parcel(b"rubbish", scene.village().task(lease.task).contact.sealing);
    let (segment, after, state) = (SegmentIndex(250), None, None);
    let hold = Hold { lease, segment, after, state, piece };
    for (kind, body) in [(HOLD, hold.encode()), (HELD, Wanted { lease }.encode())] {
        let refused = stranger.attempt(&holder.nearby(), kind, &body);
        assert!(matches!(refused, Err(SessionError::Lost(_))), "{refused:?}");
    }
}
