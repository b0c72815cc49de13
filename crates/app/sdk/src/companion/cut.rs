//! A session that is cut: what was heard is neither sent nor told again.

use super::*;
use crate::rescue::tests::{Scene, config, scene};
use opengpu_crypto::Digest;
use opengpu_link::Endpoint;
use opengpu_link::session::{Exchange, Router};
use opengpu_types::{Ending, List, Metered, Segment};
use std::sync::Mutex as Plain;

/// News that a provider tells in one go, and then cuts the session.
const FIRST: usize = 3;

type Asked = Arc<Plain<Vec<u64>>>;

fn logged(words: &str) -> News {
    News::Logged { bytes: List::new(words.as_bytes().to_vec()).unwrap() }
}

fn emitted(bytes: &str) -> News {
    News::Emitted { bytes: List::new(bytes.as_bytes().to_vec()).unwrap() }
}

fn reached(index: u32) -> News {
    let (state, emitted) = (ArtifactId(Digest([0; 32])), Digest([0; 32]));
    let (index, metered) = (SegmentIndex(index), Metered::default());
    News::Reached { segment: Segment { index, state, emitted, metered } }
}

fn run() -> Vec<News> {
    let ended = News::Ended { ending: Ending::Completed };
    vec![
        logged("one\n"),
        emitted("ab"),
        reached(0),
        logged("two\n"),
        emitted("cd"),
        reached(1),
        ended,
    ]
}

async fn tell(
    exchange: Exchange,
    asked: Asked,
    tellers: Vec<(u64, Vec<News>)>,
) -> Result<(), SessionError> {
    let Follow { from, .. } = Follow::decode(exchange.body.clone()).unwrap();
    let time = {
        let mut asked = asked.lock().unwrap();
        asked.push(from);
        asked.len().saturating_sub(1)
    };
    let (teller, news) = tellers[time.min(tellers.len().saturating_sub(1))].clone();
    let session = exchange.session.clone();
    let mut stream = exchange.accept(&Telling { teller }.encode()).await?;
    let mut rest = news.into_iter().skip(usize::try_from(from).unwrap());
    let first: Vec<_> = rest.by_ref().take(FIRST).collect();
    stream.send(&Burst::new(first).unwrap().encode()).await?;
    if time == 0 {
        // What was sent arrives first.
        tokio::time::sleep(Duration::from_millis(300)).await;
        session.close();
        return Ok(());
    }
    stream.send(&Burst::new(rest.collect()).unwrap().encode()).await?;
    stream.finish();
    Ok(())
}

/// Follows twice, the first time until the session is cut; says from where it asked.
fn follow_twice(scene: &Scene, tellers: Vec<(u64, Vec<News>)>) -> Vec<u64> {
    let asked = Asked::default();
    let own = Arc::clone(&asked);
    let router = Router::default()
        .on(FOLLOW, move |exchange| tell(exchange, Arc::clone(&own), tellers.clone()));
    let provider = scene.wait(Endpoint::bind(config(4), router, |_| true)).unwrap();
    let (_reached, watched) = watch::channel(None);
    let companion = Companion {
        client: scene.client.clone(),
        lease: scene.id,
        delivery: scene.delivery.clone(),
        store: scene.store.clone(),
        way: None,
        from: None,
        check: None,
        working: true,
        reached: watched,
        rescue: None,
        before: None,
        memory: Memory::default(),
        listener: scene.listener.clone(),
    };
    let record = scene.record();
    for cut in [true, false] {
        let session = scene.wait(scene.endpoint.dial(&provider.nearby())).unwrap();
        let followed = scene.wait(companion.follow(&session, &record));
        assert_eq!(followed.is_err(), cut, "{followed:?}");
    }
    asked.lock().unwrap().clone()
}

fn words(scene: &mut Scene) -> Vec<String> {
    let mut words = Vec::new();
    while let Ok((_, happening)) = scene.told.try_recv() {
        if let Happening::Logged { bytes } = happening {
            words.push(String::from_utf8(bytes).unwrap());
        }
    }
    words
}

#[test]
fn whoever_follows_again_goes_on_where_the_session_was_cut() {
    let mut scene = scene();
    assert_eq!(follow_twice(&scene, vec![(7, run())]), [0, 3]);
    assert_eq!(words(&mut scene), ["one\n", "two\n"]);
    assert_eq!(scene.record().said(0).unwrap(), b"one\ntwo\n");
    let sent = scene.record().sent(0).unwrap().unwrap();
    assert_eq!((sent.bytes.as_slice(), sent.cuts.len()), (b"abcd".as_slice(), 2));
}

#[test]
fn a_provider_that_was_started_anew_tells_all_but_the_words_again() {
    let mut scene = scene();
    let mut anew = run();
    anew.remove(0);
    assert_eq!(follow_twice(&scene, vec![(7, run()), (8, anew)]), [0, 3, 0]);
    assert_eq!(words(&mut scene), ["one\n", "two\n"]);
    assert_eq!(scene.record().said(0).unwrap(), b"one\ntwo\n");
    let sent = scene.record().sent(0).unwrap().unwrap();
    assert_eq!((sent.bytes.as_slice(), sent.cuts.len()), (b"abcd".as_slice(), 2));
}
