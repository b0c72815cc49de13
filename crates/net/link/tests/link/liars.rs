//! Holders that send or say something else, or nothing.

use crate::ground::{GROUP, Open, Place, bytes, endpoint, read};
use bytes::Bytes;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_link::artifact::Groups;
use opengpu_link::session::{Exchange, Refusal, Router, SessionError};
use opengpu_link::transfer::{
    Fault, GROUPS, GetError, HAVE, Holder, Named, OUTLINE, Progress, Run, Size, get,
};
use opengpu_link::{Endpoint, Store};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How a holder misbehaves.
#[derive(Clone, Debug)]
pub(crate) enum Manner {
    /// It flips one bit of the byte at this place.
    Flip(usize),
    /// It sends so many groups and then nothing, on any stream.
    StallAfter(u32),
    /// It sends so many groups and then ends the session.
    CutAfter(u32),
    /// It says that it has these groups only.
    ShowOnly(Range<u32>),
    /// It says another size.
    Size(u64),
    /// It says that there are so many groups.
    Total(u32),
    /// It gives a row with one value changed.
    Row,
    /// It never answers.
    Silent,
    /// It takes so long for every group.
    Drip(Duration),
}

/// An endpoint that has an artifact and misbehaves.
pub(crate) async fn hostile(seed: u8, store: Store, manner: Manner) -> Endpoint {
    let honest = Holder::new(store.clone(), Open).answer_on(Router::default());
    let sent = Arc::new(AtomicU32::new(0));
    let answer = move |kind| {
        let (store, manner, sent) = (store.clone(), manner.clone(), Arc::clone(&sent));
        move |exchange: Exchange| {
            let (store, manner, sent) = (store.clone(), manner.clone(), Arc::clone(&sent));
            async move {
                match kind {
                    OUTLINE => outline(exchange, &store, &manner).await,
                    HAVE => have(exchange, &store, &manner).await,
                    _ => groups(exchange, &store, &manner, &sent).await,
                }
            }
        }
    };
    let router = honest.on(OUTLINE, answer(OUTLINE)).on(HAVE, answer(HAVE));
    endpoint(seed, router.on(GROUPS, answer(GROUPS))).await
}

async fn outline(exchange: Exchange, store: &Store, manner: &Manner) -> Result<(), SessionError> {
    let Named { artifact } = Named::decode(exchange.body.clone()).unwrap();
    let Ok(content) = store.content(&artifact) else {
        return exchange.refuse(Refusal::Missing).await;
    };
    let outline = content.outline();
    let mut row = outline.row().as_flattened().to_vec();
    let mut last = content.read(outline.last()).unwrap().to_vec();
    let mut size = outline.size();
    match manner {
        Manner::Silent => std::future::pending().await,
        Manner::Size(other) => size = *other,
        Manner::Row => row[40] ^= 1,
        Manner::Flip(place) => flip(&mut last, *place, outline.offset(outline.last())),
        _ => {}
    }
    let mut stream = exchange.accept(&Size { size }.encode()).await?;
    stream.send_bytes(Bytes::from(row)).await?;
    stream.send_bytes(Bytes::from(last)).await?;
    stream.finish();
    Ok(())
}

async fn have(exchange: Exchange, store: &Store, manner: &Manner) -> Result<(), SessionError> {
    let Named { artifact } = Named::decode(exchange.body.clone()).unwrap();
    let Ok(mut have) = store.groups(&artifact) else {
        return exchange.refuse(Refusal::Missing).await;
    };
    match manner {
        Manner::Total(total) => have = Groups::all(*total),
        Manner::ShowOnly(shown) => {
            let total = have.total();
            have = Groups::none(total);
            shown.clone().for_each(|index| have.insert(index));
        }
        _ => {}
    }
    exchange.answer(&have.encode()).await
}

async fn groups(
    exchange: Exchange,
    store: &Store,
    manner: &Manner,
    sent: &AtomicU32,
) -> Result<(), SessionError> {
    let wish = Run::decode(exchange.body.clone()).unwrap();
    let content = store.content(&wish.artifact).unwrap();
    let session = exchange.session.clone();
    let mut stream = exchange.accept(&[]).await?;
    for index in wish.first..wish.first + wish.count {
        let mut group = content.read(index).unwrap().to_vec();
        let before = sent.fetch_add(1, Ordering::Relaxed);
        match manner {
            Manner::Flip(place) => flip(&mut group, *place, content.outline().offset(index)),
            Manner::StallAfter(count) if before >= *count => std::future::pending().await,
            Manner::CutAfter(count) if before == *count => session.close(),
            Manner::Drip(each) => tokio::time::sleep(*each).await,
            _ => {}
        }
        stream.send_bytes(Bytes::from(group)).await?;
    }
    stream.finish();
    Ok(())
}

/// Flips a bit of the byte at `place`, if these bytes from `offset` on have it.
fn flip(bytes: &mut [u8], place: usize, offset: u64) {
    if let Some(byte) =
        place.checked_sub(usize::try_from(offset).unwrap()).and_then(|at| bytes.get_mut(at))
    {
        *byte ^= 1 << (place % 8);
    }
}

fn nobody_looks(_: Progress) {}

const SIZE: usize = 6 * GROUP + 100;

/// Fetches from one that misbehaves, alone and beside an honest one.
async fn check(manner: Manner, expected: impl Fn(&Fault) -> bool) {
    let content = bytes(SIZE);
    let honest = Place::new(1).await;
    let id = honest.store.import(content.as_slice()).unwrap();
    let liar = hostile(2, honest.store.clone(), manner.clone()).await;
    let alone = Place::new(3).await;
    let session = alone.dial(&liar).await;
    let failed = get(&alone.store, id, &[session], nobody_looks).await;
    let Err(GetError::Unavailable { dropped, .. }) = failed else {
        panic!("{manner:?}: {failed:?}")
    };
    assert_eq!(dropped.len(), 1, "{manner:?}");
    assert!(expected(&dropped[0].fault), "{manner:?}: {:?}", dropped[0].fault);
    assert!(!alone.store.contains(&id));
    let beside = Place::new(4).await;
    let sessions = [beside.dial(&liar).await, beside.dial(&honest.endpoint).await];
    let fetched = get(&beside.store, id, &sessions, nobody_looks).await.unwrap();
    // It may not have come to the lie, if the honest one was asked for that group.
    assert!(fetched.dropped.iter().all(|dropped| dropped.holder == liar.id()), "{manner:?}");
    assert_eq!(read(&beside.store, &id), content, "{manner:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_flipped_bit_anywhere_drops_the_holder_and_not_the_transfer() {
    for place in [0, 1_023, 1_024, GROUP - 1, GROUP, 3 * GROUP + 5, 6 * GROUP, SIZE - 1] {
        check(Manner::Flip(place), |fault| matches!(fault, Fault::Lied)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_stalls_is_dropped() {
    let stalled = |fault: &Fault| matches!(fault, Fault::Session(SessionError::Stalled(_)));
    check(Manner::StallAfter(0), stalled).await;
    check(Manner::StallAfter(1), stalled).await;
    check(Manner::Silent, stalled).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_drips_is_left_for_one_that_waits() {
    let (honest, content) = (Place::new(1).await, bytes(96 * GROUP));
    let id = honest.store.import(content.as_slice()).unwrap();
    // Each is in time, and all together keep the honest one waiting.
    let slow = hostile(2, honest.store.clone(), Manner::Drip(Duration::from_secs(1))).await;
    let here = Place::new(3).await;
    let sessions = [here.dial(&slow).await, here.dial(&honest.endpoint).await];
    let fetched = get(&here.store, id, &sessions, nobody_looks).await.unwrap();
    let [dropped] = &fetched.dropped[..] else { panic!("{fetched:?}") };
    assert!(dropped.holder == slow.id() && matches!(dropped.fault, Fault::Slow), "{dropped:?}");
    assert_eq!(read(&here.store, &id), content);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_hangs_up_is_dropped() {
    check(Manner::CutAfter(1), |fault| matches!(fault, Fault::Session(_))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_lies_about_the_size_is_dropped() {
    let lied = |fault: &Fault| matches!(fault, Fault::Lied | Fault::Session(_));
    for size in [0, 1, SIZE as u64 - 1, SIZE as u64 + 1, 3 * GROUP as u64, 7 * GROUP as u64] {
        check(Manner::Size(size), lied).await;
    }
    check(Manner::Size(u64::MAX), |fault| matches!(fault, Fault::TooLarge(u64::MAX))).await;
    check(Manner::Total(6), lied).await;
    check(Manner::Total(9), lied).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_outline_leads_elsewhere_is_dropped() {
    check(Manner::Row, |fault| matches!(fault, Fault::Lied)).await;
}
