//! Segments that somebody else runs again, and those who may not.

use crate::client::{Client, SEGMENTS};
use crate::village::person;
use crate::{SHORT, Scene, device, example, launch, policy};
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_exec::{Data, Program, Supervisor, run::Repeat};
use opengpu_link::Session;
use opengpu_link::folder::{self, FolderLimits};
use opengpu_link::lease::{AGAIN, Again, Piece, Standing};
use opengpu_link::session::{Refusal, SessionError};
use opengpu_types::{
    Amount, CloseReason, Eyes, LeaseId, List, MarketOperation, Outcome, SegmentIndex,
};
use opengpu_verify::trace::{Emitted, Extent, Opening, Owner, Trace};

/// Another input.
const OTHER: &[u8] = b"another:\n65536\n";

/// A provider that has nothing but its keys.
fn reader(scene: &Scene, seed: u8) -> Client {
    let reader = Client::with_seed(seed);
    let offers = policy().offers(&[device()]).unwrap();
    let (contact, stake) = (reader.contact(), Amount::whole(200));
    let register = MarketOperation::RegisterProvider { contact, offers, stake };
    let (_, outcome) = scene.village().act(&reader.key, register).unwrap();
    assert_eq!(outcome, Outcome::Applied);
    reader
}

/// Runs a segment again from what the provider gives, and holds it against the root on chain.
fn runs_again(scene: &Scene, reader: &Client, session: &Session, lease: LeaseId, index: u32) {
    let wanted = Standing { lease, segment: SegmentIndex(index) };
    let again = Again::decode(reader.call(session, AGAIN, &wanted.encode()).unwrap()).unwrap();
    let input = reader.open(session, again.input);
    assert!(input == SHORT || input == OTHER);
    let pieces = Piece::read(&reader.open(session, again.segments)).unwrap();
    let segments: Vec<_> = pieces.cuts.iter().map(|cut| cut.segment).collect();
    let task = scene.village().task(lease.task);
    let commitment = task.leases[0].commitment.unwrap();
    let extent = Extent { steps: commitment.steps, segments: commitment.segments };
    let owner = Owner { task: lease.task.0, provider: task.leases[0].provider };
    let trace = Trace::new(&owner, extent, None, segments).unwrap();
    assert_eq!(trace.root(), commitment.root, "the leaves lead to what is on chain");

    let place = tempfile::tempdir().unwrap();
    let key = reader.fetch_folder(session, &again.program);
    let manifest = folder::read_manifest(&reader.store, &again.program.grant.artifact, &key);
    let manifest = manifest.unwrap();
    let files: Vec<_> = manifest.files().iter().map(|file| file.artifact).collect();
    reader.fetch_all(session, &files);
    folder::unpack(&reader.store, &manifest, place.path(), &FolderLimits::default()).unwrap();
    let program = Program::open(place.path()).unwrap();
    assert_eq!(program.id, task.spec.program);

    let before = index.checked_sub(1).map(|before| trace.segment(SegmentIndex(before)).unwrap());
    let state = again.state.map(|state| reader.open(session, state)).unwrap_or_default();
    assert_eq!(before.is_some(), !state.is_empty());
    let emitted = before.map_or(Emitted::NOTHING, |before| Emitted(before.emitted));
    let which = Repeat { index: SegmentIndex(index), extent, emitted };
    let supervisor = Supervisor::new(launch());
    let ticket = supervisor.repeat(&program, Data::Inline(input), Data::Inline(state), &which);
    let (found, _) = ticket.unwrap().wait_repeated().unwrap();
    // The leaf of what was found here has its place below the root on chain.
    let opening = trace.open(SegmentIndex(index)).unwrap();
    let opening = Opening { segment: found.segment, ..opening };
    assert!(opening.verify(&owner, None, &commitment.root), "segment {index}: {found:?}");
}

fn is_denied(refused: Result<bytes::Bytes, SessionError>) -> bool {
    matches!(refused, Err(SessionError::Refused(Refusal::Denied)))
}

pub(crate) fn whom_the_eyes_of_a_task_allow_runs_a_segment_again_and_nobody_else() {
    let scene = Scene::new();
    let (lease, _client) = scene.run(SHORT);
    assert_eq!(scene.closed(lease).0, CloseReason::Completed);
    // Of the second one, only those see something who are allowed to run it.
    let folder = example("sha256-search");
    let program = Program::open(&folder).unwrap();
    let task = scene.client.submit(scene.village(), &program, OTHER, |spec| {
        spec.eyes = Eyes::Allowed;
        spec.requirements.allowed =
            List::new(vec![person(2).address(), person(4).address()]).unwrap();
    });
    let closed = scene.lease(task);
    let session = scene.client.dial(&scene.agent().nearby());
    let sealing = scene.agent().contact().sealing;
    scene.client.deliver(&session, sealing, closed, (&folder, OTHER), None).unwrap();
    assert_eq!(scene.closed(closed).0, CloseReason::Completed);

    let [other, allowed] = [3, 4].map(|seed| reader(&scene, seed));
    let [theirs, ours] = [&other, &allowed].map(|reader| reader.dial(&scene.agent().nearby()));
    for index in [0, 1, SEGMENTS / 2, SEGMENTS] {
        runs_again(&scene, &other, &theirs, lease, index);
    }
    runs_again(&scene, &allowed, &ours, closed, SEGMENTS);
    let wanted = |lease, segment| Standing { lease, segment: SegmentIndex(segment) }.encode();
    assert!(is_denied(other.call(&theirs, AGAIN, &wanted(closed, 1))));
    let beyond = other.call(&theirs, AGAIN, &wanted(lease, SEGMENTS + 1));
    assert!(matches!(beyond, Err(SessionError::Refused(Refusal::Missing))), "{beyond:?}");
    // A client is no provider, whatever it has leased.
    assert!(is_denied(scene.client.call(&session, AGAIN, &wanted(lease, 1))));
    // What one may fetch, another one may not.
    let again = allowed.call(&ours, AGAIN, &wanted(closed, 1)).unwrap();
    let input = Again::decode(again).unwrap().state.unwrap().grant.artifact;
    assert!(other.tries(&theirs, input).is_err() && allowed.tries(&ours, input).is_ok());
}
