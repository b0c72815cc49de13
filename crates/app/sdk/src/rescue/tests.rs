//! Two who have the same: one of them stops in the middle, or lies from there on.

use super::*;
use crate::output;
use crate::records::Record;
use bytes::Bytes;
use opengpu_crypto::Digest;
use opengpu_link::artifact::{GROUP, Grant, OwnerSecret};
use opengpu_link::lease::HeldState;
use opengpu_link::session::{Exchange, Limits, Router};
use opengpu_link::transfer::{GROUPS, Holder, Run};
use opengpu_link::{Config, Quota};
use opengpu_types::{ChainId, List, TaskId, Text};
use std::io::Cursor;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use tempfile::TempDir;
use tokio::sync::mpsc;

/// Groups of what is fetched, about.
const LONG: u32 = 16;
/// Groups that a bad one sends before it is bad.
const GOOD: u32 = 4;

/// What a source does after some groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    GoesOn,
    Stalls,
    Dies,
    Lies,
}

/// Somebody who has a state and a piece.
struct Place {
    endpoint: Endpoint,
    sent: Arc<AtomicU32>,
    _folder: TempDir,
}

impl Place {
    fn sent(&self) -> u32 {
        self.sent.load(Ordering::SeqCst)
    }
}

async fn groups(
    exchange: Exchange,
    store: Store,
    sent: Arc<AtomicU32>,
    then: Then,
) -> Result<(), SessionError> {
    let wish = Run::decode(exchange.body.clone()).unwrap();
    let (content, session) = (store.content(&wish.artifact).unwrap(), exchange.session.clone());
    let mut stream = exchange.accept(&[]).await?;
    for index in (wish.first..).take(usize::try_from(wish.count).unwrap()) {
        let mut group = content.read(index).unwrap().to_vec();
        let bad = sent.fetch_add(1, Ordering::SeqCst) >= GOOD;
        match then {
            // Slower than the other, so that both are needed.
            Then::GoesOn => tokio::time::sleep(Duration::from_millis(3)).await,
            Then::Stalls if bad => std::future::pending().await,
            Then::Dies if bad => {
                // What was sent arrives first.
                tokio::time::sleep(Duration::from_millis(300)).await;
                session.close();
            }
            Then::Lies if bad => group[0] ^= 1,
            _ => {}
        }
        stream.send_bytes(Bytes::from(group)).await?;
    }
    stream.finish();
    Ok(())
}

/// A client that knows one lease, and an endpoint of it.
pub(crate) struct Scene {
    pub(crate) client: Client,
    pub(crate) delivery: Delivery,
    pub(crate) store: Store,
    pub(crate) id: LeaseId,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) output: Vec<u8>,
    pub(crate) state: Vec<u8>,
    pub(crate) told: mpsc::Receiver<(u8, Happening)>,
    pub(crate) listener: Listener,
    _home: TempDir,
}

fn long(salt: u8) -> Vec<u8> {
    let length = GROUP.saturating_mul(usize::try_from(LONG).unwrap());
    let mut bytes = vec![salt; length];
    for (place, part) in (0u64..).zip(bytes.chunks_exact_mut(1 << 10)) {
        part[..8].copy_from_slice(&place.to_le_bytes());
    }
    bytes
}

pub(crate) fn config(seed: u8) -> Config {
    let limits = Limits { idle: Duration::from_secs(1), ..Limits::default() };
    Config { limits, ..Config::nearby([seed; 32], (Ipv4Addr::LOCALHOST, 0).into()) }
}

pub(crate) fn scene() -> Scene {
    let home = tempfile::tempdir().unwrap();
    let rpc = opengpu_client::Rpc::new("http://127.0.0.1:1");
    let client = Client::open(home.path(), &rpc, ChainId(7)).unwrap();
    let artifact = ArtifactId::of(b"");
    let delivery = Delivery {
        name: Text::default(),
        salt: [1; 32],
        program: artifact,
        program_key: [0; 32],
        files: List::empty(),
        input: artifact,
        input_key: [0; 32],
    };
    let id = LeaseId { task: TaskId(Digest([5; 32])), number: 0 };
    client.record(id.task).begin(&delivery).unwrap();
    let store = client.store(&delivery.salt).unwrap();
    let bound = Endpoint::bind(config(1), Router::default(), |_| false);
    let endpoint = Arc::new(client.runtime.block_on(bound).unwrap());
    let (happened, told) = mpsc::channel(1_024);
    let listener = Listener { lease: 0, happened };
    let (output, state) = (long(1), long(2));
    Scene { client, delivery, store, id, endpoint, output, state, told, listener, _home: home }
}

impl Scene {
    pub(crate) fn record(&self) -> Record {
        self.client.record(self.id.task)
    }

    fn checkpoint(&self) -> Checkpoint {
        let (index, emitted) = (SegmentIndex(2), Digest([0; 32]));
        Checkpoint { index, state: ArtifactId::of(&self.state), emitted, bytes_out: 0 }
    }

    /// Somebody who has all of it, packed by the same provider.
    fn place(&self, seed: u8, then: Then) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Quota::of(1 << 30)).unwrap();
        let owner = OwnerSecret::from_bytes([9; 32]);
        let reader = self.client.identity.sealing().public_key();
        let parcel = |plain: Vec<u8>| {
            let packed = store.import_owned(&owner, &mut Cursor::new(plain));
            let (artifact, key, _) = packed.unwrap();
            let grant = Grant::issue(&mut rand::rng(), ChainId(7), artifact, &key, reader);
            let size = store.whole(&artifact).unwrap().outline().size();
            Parcel { size, grant: grant.unwrap() }
        };
        let piece = parcel([Piece::head(&[]), self.output.clone()].concat());
        let state = parcel(self.state.clone());
        let segment = self.checkpoint().index;
        let held = HeldState { segment, parcel: state.clone() };
        let (states, pieces) = (List::new(vec![held]).unwrap(), List::new(vec![piece]).unwrap());
        let holding = Holding { segment, states, pieces }.encode();
        let sent = Arc::new(AtomicU32::new(0));
        let (state, count) = (state.encode(), Arc::clone(&sent));
        let answer = |bytes: Bytes| {
            move |exchange: Exchange| {
                let bytes = bytes.clone();
                async move { exchange.answer(&bytes).await }
            }
        };
        let router = Holder::readable(store.clone()).answer_on(Router::default());
        let router = router.on(HELD, answer(holding)).on(STATE, answer(state));
        let router = router
            .on(GROUPS, move |exchange| groups(exchange, store.clone(), Arc::clone(&count), then));
        let bound = Endpoint::bind(config(seed), router, |_| true);
        let endpoint = self.client.runtime.block_on(bound).unwrap();
        Place { endpoint, sent, _folder: folder }
    }

    fn rescue(&self, provider: Option<&Place>, holders: &[&Place]) -> Rescue {
        let reader = self.client.identity.sealing().public_key();
        let way = |place: &Place| {
            let (address, endpoint) = (place.endpoint.nearby(), Arc::clone(&self.endpoint));
            Way { address, reader, endpoint }
        };
        let mut lease = output::tests::lease(None, 3);
        lease.commitment.as_mut().unwrap().output = ArtifactId::of(&self.output);
        Rescue {
            client: self.client.clone(),
            delivery: self.delivery.clone(),
            store: self.store.clone(),
            id: self.id,
            lease,
            provider: provider.map(way),
            holders: holders.iter().map(|place| way(place)).collect(),
            listener: self.listener.clone(),
        }
    }

    pub(crate) fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.client.runtime.block_on(work)
    }
}

/// Both gave something, and what the bad one gave in time did not come again from the other.
fn check_shares(good: &Place, bad: &Place, then: Then) {
    let (good, bad) = (good.sent(), bad.sent());
    assert!(good > 0 && bad >= GOOD, "{then:?}: {good} and {bad}");
    assert!(good < LONG, "{then:?}: everything came from one, {good}");
}

#[test]
fn a_piece_comes_from_two_holders_and_from_one_when_the_other_fails_in_the_middle() {
    for then in [Then::Stalls, Then::Dies, Then::Lies] {
        let mut scene = scene();
        let (good, bad) = (scene.place(2, Then::GoesOn), scene.place(3, then));
        let rescue = scene.rescue(None, &[&bad, &good]);
        scene.wait(rescue.part(None)).unwrap();
        check_shares(&good, &bad, then);
        assert_eq!(scene.record().sent(0).unwrap().unwrap().bytes, scene.output);
        let mut told = Vec::new();
        while let Ok((_, happening)) = scene.told.try_recv() {
            told.push(happening);
        }
        assert!(told.contains(&Happening::Rescued { segment: SegmentIndex(2) }), "{told:?}");
    }
}

#[test]
fn a_state_comes_from_the_provider_and_its_holder_at_once() {
    for then in [Then::Stalls, Then::Dies, Then::Lies] {
        let scene = scene();
        let (holder, provider) = (scene.place(2, Then::GoesOn), scene.place(3, then));
        let rescue = scene.rescue(Some(&provider), &[&holder]);
        scene.wait(rescue.state(&scene.checkpoint())).unwrap();
        check_shares(&holder, &provider, then);
        let kept = scene.record().state(scene.checkpoint().state).unwrap();
        assert_eq!(kept, Some(scene.state.clone()));
    }
}

#[test]
fn an_output_that_is_over_comes_from_its_provider_as_well_as_long_as_that_lives() {
    let scene = scene();
    let (holder, provider) = (scene.place(2, Then::GoesOn), scene.place(3, Then::Dies));
    let rescue = scene.rescue(None, &[&holder]);
    let session = scene.wait(scene.endpoint.dial(&provider.endpoint.nearby())).unwrap();
    scene.wait(rescue.part(Some(&session))).unwrap();
    check_shares(&holder, &provider, Then::Dies);
    assert_eq!(scene.record().sent(0).unwrap().unwrap().bytes, scene.output);
}

#[test]
fn a_state_that_was_cut_at_its_provider_goes_on_from_a_holder() {
    let scene = scene();
    let (holder, provider) = (scene.place(2, Then::GoesOn), scene.place(3, Then::Dies));
    let alone = scene.rescue(Some(&provider), &[]);
    assert!(scene.wait(alone.state(&scene.checkpoint())).is_err());
    scene.wait(provider.endpoint.close());
    let rescue = scene.rescue(Some(&provider), &[&holder]);
    scene.wait(rescue.state(&scene.checkpoint())).unwrap();
    check_shares(&holder, &provider, Then::Dies);
}
