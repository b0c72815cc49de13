//! Fetching, resuming, several holders, having something kept.

use crate::ground::{GROUP, Open, Place, ROOM, bytes, loopback, read};
use crate::liars::{Manner, hostile};
use commonware_codec::Encode as _;
use opengpu_crypto::SealKeypair;
use opengpu_link::artifact::{ArtifactKey, Grant};
use opengpu_link::session::{Limits, Router};
use opengpu_link::transfer::{
    GROUPS, GetError, Holder, Keep, Policy, PutError, Run, Turn, get, get_all, put,
};
use opengpu_link::{Config, Endpoint, EndpointId, Quota, Store, StoreError};
use opengpu_types::{ArtifactId, ChainId, Millis};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn nobody_looks(_: opengpu_link::transfer::Progress) {}

#[tokio::test(flavor = "multi_thread")]
async fn an_artifact_of_any_size_arrives_as_it_is() {
    let (holder, getter) = (Place::new(1).await, Place::new(2).await);
    let session = getter.dial(&holder.endpoint).await;
    for size in [0, 1, GROUP - 1, GROUP, GROUP + 1, 5 * GROUP + 17] {
        let content = bytes(size);
        let id = holder.store.import(content.as_slice()).unwrap();
        assert_eq!(id, ArtifactId::of(&content));
        let fetched =
            get(&getter.store, id, std::slice::from_ref(&session), nobody_looks).await.unwrap();
        assert!(fetched.bytes >= size as u64 && fetched.bytes <= (size + size / 1000 + 64) as u64);
        assert_eq!(read(&getter.store, &id), content, "{size}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_grows_to_the_whole_size() {
    let (holder, getter) = (Place::new(1).await, Place::new(2).await);
    let session = getter.dial(&holder.endpoint).await;
    let id = holder.store.import(bytes(9 * GROUP + 1).as_slice()).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&seen);
    let report = move |progress: opengpu_link::transfer::Progress| {
        told.lock().unwrap().push((progress.done, progress.size));
    };
    get(&getter.store, id, &[session], report).await.unwrap();
    let mut seen = seen.lock().unwrap().clone();
    let size = 9 * GROUP as u64 + 1;
    assert!(seen.len() >= 10 && seen.iter().all(|(done, of)| done <= of && *of == size));
    seen.sort_unstable();
    assert_eq!(seen.last(), Some(&(size, size)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_there_is_not_fetched_again() {
    let (holder, getter) = (Place::new(1).await, Place::new(2).await);
    let session = getter.dial(&holder.endpoint).await;
    let id = holder.store.import(bytes(3 * GROUP).as_slice()).unwrap();
    let holders = [session];
    // Two at once share one transfer.
    let (a, b) = tokio::join!(
        get(&getter.store, id, &holders, nobody_looks),
        get(&getter.store, id, &holders, nobody_looks)
    );
    let both = a.unwrap().bytes + b.unwrap().bytes;
    assert!(both < 4 * GROUP as u64, "{both}");
    let again = get(&getter.store, id, &holders, nobody_looks).await.unwrap();
    assert_eq!(again.bytes, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_was_cut_goes_on_where_it_was() {
    let size = 40 * GROUP;
    let content = bytes(size);
    let (holder, getter) = (Place::new(1).await, Place::new(2).await);
    let id = holder.store.import(content.as_slice()).unwrap();
    // One that sends nothing more after a while.
    let cutting = hostile(3, holder.store.clone(), Manner::StallAfter(15)).await;
    let session = getter.dial(&cutting).await;
    let cut = get(&getter.store, id, &[session], nobody_looks).await;
    assert!(matches!(cut, Err(GetError::Unavailable { .. })), "{cut:?}");
    let before = getter.store.groups(&id).unwrap().len();
    assert!((10..40).contains(&before), "{before}");
    // The process ends, too.
    let getter = getter.restart(2).await;
    assert_eq!(getter.store.groups(&id).unwrap().len(), before);
    let session = getter.dial(&holder.endpoint).await;
    let rest = get(&getter.store, id, &[session], nobody_looks).await.unwrap();
    let total = rest.bytes + u64::from(before) * GROUP as u64;
    assert!(total * 10 < size as u64 * 11, "{total} for {size}");
    assert_eq!(read(&getter.store, &id), content);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_holders_with_a_half_each_make_a_whole() {
    let content = bytes(20 * GROUP + 3);
    let source = Place::new(1).await;
    let id = source.store.import(content.as_slice()).unwrap();
    let mut halves = Vec::new();
    for (seed, shown) in [(2, 0..10), (3, 10..21)] {
        let half = Place::new(seed).await;
        let partial = hostile(seed + 100, source.store.clone(), Manner::ShowOnly(shown)).await;
        let session = half.dial(&partial).await;
        let cut = get(&half.store, id, &[session], nobody_looks).await;
        assert!(matches!(cut, Err(GetError::Unavailable { .. })));
        assert!(!half.store.contains(&id));
        halves.push(half);
    }
    source.endpoint.close().await;
    let getter = Place::new(9).await;
    let mut sessions = Vec::new();
    for half in &halves {
        let session = getter.dial(&half.endpoint).await;
        let alone = get(&getter.store, id, std::slice::from_ref(&session), nobody_looks).await;
        if sessions.is_empty() {
            assert!(alone.is_err(), "half an artifact was enough");
        }
        sessions.push(session);
    }
    let getter = Place::new(10).await;
    let mut sessions = Vec::new();
    for half in &halves {
        sessions.push(getter.dial(&half.endpoint).await);
    }
    let fetched = get(&getter.store, id, &sessions, nobody_looks).await.unwrap();
    assert!(fetched.dropped.is_empty(), "{:?}", fetched.dropped);
    let from = |half: &Place| fetched.from[&half.endpoint.address().id];
    // The last group came with the outline.
    assert_eq!([from(&halves[0]), from(&halves[1])], [10 * GROUP as u64; 2]);
    assert_eq!(read(&getter.store, &id), content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_holder_keeps_an_output_beyond_its_provider() {
    let (provider, second, client) =
        (Place::new(1).await, Place::new(2).await, Place::new(3).await);
    let key = ArtifactKey::from_bytes([5; 32]);
    let output = bytes(3 * GROUP);
    let id = provider.store.import_encrypted(&key, output.as_slice()).unwrap();
    let size = provider.store.whole(&id).unwrap().outline().size();
    let session = provider.dial(&second.endpoint).await;
    let wish = Keep { artifact: id, size, until: Millis(1_000) };
    let seen = Mutex::new(Vec::new());
    let sent = put(&session, wish, |progress| seen.lock().unwrap().push(progress.done)).await;
    assert!(sent.unwrap() >= size);
    assert_eq!(seen.lock().unwrap().last(), Some(&size));
    assert_eq!(second.store.held_until(&id), Some(Millis(1_000)));
    // Asking again sends nothing, and a shorter time does not shorten.
    let again = put(&session, Keep { until: Millis(10), ..wish }, |_| {}).await.unwrap();
    assert_eq!((again, second.store.held_until(&id)), (0, Some(Millis(1_000))));
    provider.endpoint.close().await;
    drop(provider);
    let session = client.dial(&second.endpoint).await;
    get(&client.store, id, &[session], nobody_looks).await.unwrap();
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut client.store.decrypt(&id, &key).unwrap(), &mut plain).unwrap();
    assert_eq!(plain, output);
}

/// Keeps for one endpoint, up to a size, and lets it alone read.
struct Only(EndpointId, u64);

impl Policy for Only {
    fn may_read(&self, remote: EndpointId, _: ArtifactId) -> bool {
        remote == self.0
    }
    fn may_keep(&self, remote: EndpointId, wish: &Keep) -> bool {
        remote == self.0 && wish.size <= self.1
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_read_and_left_is_up_to_the_holder() {
    let (friend, stranger) = (Place::new(1).await, Place::new(2).await);
    let guarded = Place::with(3, Only(friend.endpoint.id(), GROUP as u64), ROOM).await;
    let id = guarded.store.import(b"x".as_slice()).unwrap();
    for (place, may) in [(&friend, true), (&stranger, false)] {
        let session = place.dial(&guarded.endpoint).await;
        let read = get(&place.store, id, std::slice::from_ref(&session), nobody_looks).await;
        assert_eq!(read.is_ok(), may);
        let mine = place.store.import(b"mine".as_slice()).unwrap();
        let wish = Keep { artifact: mine, size: 4, until: Millis(0) };
        assert_eq!(put(&session, wish, |_| {}).await.is_ok(), may);
    }
    let session = friend.dial(&guarded.endpoint).await;
    let large = friend.store.import(bytes(2 * GROUP).as_slice()).unwrap();
    let honest = Keep { artifact: large, size: 2 * GROUP as u64, until: Millis(0) };
    let refused = put(&session, honest, |_| {}).await;
    assert!(matches!(refused, Err(PutError::Session(_))), "{refused:?}");
    // Who says that it is small does not get more in.
    let lie = Keep { size: 10, ..honest };
    assert!(matches!(put(&session, lie, |_| {}).await, Err(PutError::Failed)));
    assert!(!guarded.store.contains(&large));
}

/// Lets everybody read in turns, and counts those who have one.
struct Turns(Arc<()>);

impl Policy for Turns {
    fn may_read(&self, _: EndpointId, _: ArtifactId) -> bool {
        true
    }
    fn may_keep(&self, _: EndpointId, _: &Keep) -> bool {
        false
    }
    fn turn(&self, _: EndpointId, _: ArtifactId, _: u64) -> Option<Turn> {
        let place: Box<dyn Send> = Box::new(Arc::clone(&self.0));
        Some(Box::pin(std::future::ready(Ok(place))))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_loses_its_turn() {
    let reader = Place::new(1).await;
    let turns = Arc::new(());
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), ROOM).unwrap();
    let router = Holder::new(store.clone(), Turns(Arc::clone(&turns))).answer_on(Router::default());
    let idle = Duration::from_secs(60);
    let limits = Limits { idle, ..Limits::default() };
    let config = Config { limits, ..Config::nearby([2; 32], loopback()) };
    let holder = Endpoint::bind(config, router, |_| true).await.unwrap();
    let artifact = store.import(bytes(64 * GROUP).as_slice()).unwrap();
    let session = reader.dial(&holder).await;
    let wish = Run { artifact, first: 0, count: 64 };
    let begun = session.ask(GROUPS, &wish.encode()).await.unwrap();
    assert_eq!(Arc::strong_count(&turns), 3, "the test, the policy and the reader");
    let free = async {
        while Arc::strong_count(&turns) > 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), free).await.expect("it keeps its turn");
    drop(begun);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_is_full_of_held_things_takes_no_more() {
    let sender = Place::new(1).await;
    let small = Place::with(2, Open, Quota::of(3 * GROUP as u64)).await;
    let session = sender.dial(&small.endpoint).await;
    let keep = |size: usize, until| {
        let id = sender.store.import(bytes(size).as_slice()).unwrap();
        Keep { artifact: id, size: size as u64, until: Millis(until) }
    };
    put(&session, keep(2 * GROUP, 9), |_| {}).await.unwrap();
    let refused = put(&session, keep(2 * GROUP + 1, 9), |_| {}).await;
    assert!(matches!(refused, Err(PutError::Failed)), "{refused:?}");
    let refused = put(&session, keep(4 * GROUP, 9), |_| {}).await;
    assert!(matches!(refused, Err(PutError::Session(_))), "{refused:?}");
    put(&session, keep(GROUP, 0), |_| {}).await.unwrap();
    small.store.expire(Millis(9)).unwrap();
    put(&session, keep(2 * GROUP + 1, 9), |_| {}).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_no_grant_cannot_open_what_it_holds() {
    let (owner, holder) = (Place::new(1).await, Place::new(2).await);
    let key = ArtifactKey::from_bytes([3; 32]);
    let id = owner.store.import_encrypted(&key, b"the secret".as_slice()).unwrap();
    let session = holder.dial(&owner.endpoint).await;
    get(&holder.store, id, &[session], nobody_looks).await.unwrap();
    let stored = read(&holder.store, &id);
    assert!(!stored.windows(10).any(|window| window == b"the secret"));
    let (reader, other) = (SealKeypair::from_seed([1; 32]), SealKeypair::from_seed([2; 32]));
    let mut rng: rand::rngs::StdRng = rand::SeedableRng::seed_from_u64(1);
    let grant = Grant::issue(&mut rng, ChainId(1), id, &key, reader.public_key()).unwrap();
    assert!(grant.open(ChainId(1), &other).is_err());
    let opened = grant.open(ChainId(1), &reader).unwrap();
    let mut plain = String::new();
    let mut decrypting = holder.store.decrypt(&id, &opened).unwrap();
    std::io::Read::read_to_string(&mut decrypting, &mut plain).unwrap();
    assert_eq!(plain, "the secret");
    let guessed = holder.store.decrypt(&id, &ArtifactKey::from_bytes([4; 32]));
    assert!(matches!(guessed, Err(StoreError::Disk(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_small_ones_arrive_and_come_again_for_nothing() {
    let (holder, getter) = (Place::new(1).await, Place::new(2).await);
    let ids: Vec<_> =
        (0..50_u8).map(|number| holder.store.import([number; 100].as_slice()).unwrap()).collect();
    let sessions = [getter.dial(&holder.endpoint).await];
    let fetched = get_all(&getter.store, ids.clone(), &sessions, nobody_looks).await.unwrap();
    assert_eq!(fetched.bytes, 5_000);
    assert!(ids.iter().all(|id| getter.store.contains(id)));
    let again = get_all(&getter.store, ids, &sessions, nobody_looks).await.unwrap();
    assert_eq!(again.bytes, 0);
    let missing = get_all(&getter.store, [ArtifactId::of(b"?")], &sessions, nobody_looks).await;
    assert!(matches!(missing, Err(GetError::Unavailable { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_provider_that_only_dials_out_gets_its_inputs_and_gives_its_outputs() {
    let (client, provider) = (Place::new(1).await, Place::new(2).await);
    let session = provider.dial(&client.endpoint).await;
    let (input, output) = (bytes(2 * GROUP), bytes(GROUP + 5));
    let wanted = client.store.import(input.as_slice()).unwrap();
    let made = provider.store.import(output.as_slice()).unwrap();
    get(&provider.store, wanted, std::slice::from_ref(&session), nobody_looks).await.unwrap();
    let wish = Keep { artifact: made, size: output.len() as u64, until: Millis(1) };
    put(&session, wish, |_| {}).await.unwrap();
    assert_eq!(read(&client.store, &made), output);
    assert_eq!(read(&provider.store, &wanted), input);
}
