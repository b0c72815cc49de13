//! Who is let in, what is asked and answered, limits.

use crate::ground::{endpoint, loopback, nearby, quick};
use bytes::Bytes;
use opengpu_crypto::Keypair;
use opengpu_link::session::{
    ALPN, Exchange, Kind, Limits, MAX_FRAME, Refusal, Router, SessionError,
};
use opengpu_link::{BindError, Config, DialError, Endpoint, EndpointId};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Semaphore, mpsc};
use tokio::time::timeout;

const ECHO: Kind = Kind(300);
const COUNT: Kind = Kind(301);

fn echo() -> Router {
    Router::default().on(ECHO, |exchange: Exchange| async move {
        let body = exchange.body.clone();
        exchange.answer(&body).await
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ends_ask_on_one_session() {
    let (told, mut heard) = mpsc::channel(1);
    let router = Router::default().on(ECHO, move |exchange: Exchange| {
        let told = told.clone();
        async move {
            // The one that was dialled asks back, on the same link.
            let back = exchange.session.call(ECHO, b"who are you?").await?;
            told.send((exchange.session.remote(), back)).await.unwrap();
            let body = exchange.body.clone();
            exchange.answer(&body).await
        }
    });
    let (dialled, dialler) = (endpoint(1, router).await, endpoint(2, echo()).await);
    let session = dialler.dial(&nearby(&dialled)).await.unwrap();
    assert_eq!(session.remote(), dialled.id());
    assert_eq!(session.call(ECHO, b"hello").await.unwrap().as_ref(), b"hello");
    let (remote, back) = heard.recv().await.unwrap();
    assert_eq!((remote, back.as_ref()), (dialler.id(), b"who are you?".as_slice()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_id_of_an_endpoint_is_the_key_on_chain() {
    let key = Keypair::ed25519([1; 32]).public_key();
    assert_eq!(Some(endpoint(1, Router::default()).await.id()), EndpointId::of(&key));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_admitted_gets_no_answer() {
    let friend = endpoint(2, Router::default()).await;
    let stranger = endpoint(3, Router::default()).await;
    let id = friend.id();
    let guarded = Endpoint::bind(quick(1), echo(), move |remote| remote == id).await.unwrap();
    let session = friend.dial(&nearby(&guarded)).await.unwrap();
    assert!(session.call(ECHO, b"x").await.is_ok());
    // The handshake may end before the refusal arrives; an answer never comes.
    if let Ok(session) = stranger.dial(&nearby(&guarded)).await {
        assert!(session.call(ECHO, b"x").await.is_err());
        session.closed().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_at_the_same_socket_is_not_taken_for_the_right_one() {
    let (impostor, dialler) = (endpoint(1, echo()).await, endpoint(2, echo()).await);
    let mut address = nearby(&impostor);
    address.id = EndpointId::of(&Keypair::ed25519([9; 32]).public_key()).unwrap();
    let refused = dialler.dial(&address).await;
    assert!(matches!(refused, Err(DialError::Failed { .. } | DialError::Silent(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_without_relay_and_socket_does_not_start() {
    let config = Config { direct: None, ..Config::nearby([1; 32], loopback()) };
    let refused = Endpoint::bind(config, Router::default(), |_| true).await;
    assert!(matches!(refused, Err(BindError::Unreachable)));
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_kinds_and_refusals_are_told() {
    let router = Router::default()
        .on(ECHO, |exchange: Exchange| async { exchange.refuse(Refusal::Busy).await });
    let (server, client) = (endpoint(1, router).await, endpoint(2, Router::default()).await);
    let session = client.dial(&nearby(&server)).await.unwrap();
    let refused = session.call(ECHO, b"").await;
    assert!(matches!(refused, Err(SessionError::Refused(Refusal::Busy))));
    let refused = session.call(COUNT, b"").await;
    assert!(matches!(refused, Err(SessionError::Refused(Refusal::Unknown))));
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_and_bare_bytes_follow_an_answer_both_ways() {
    let router = Router::default().on(COUNT, |exchange: Exchange| async move {
        let mut stream = exchange.accept(b"go").await?;
        while let Some(frame) = stream.next().await? {
            stream.send(&[frame.as_ref(), b"!"].concat()).await?;
        }
        stream.send_bytes(Bytes::from(vec![7; 100_000])).await?;
        stream.finish();
        Ok(())
    });
    let (server, client) = (endpoint(1, router).await, endpoint(2, Router::default()).await);
    let session = client.dial(&nearby(&server)).await.unwrap();
    let (answer, mut stream) = session.ask(COUNT, b"").await.unwrap();
    assert_eq!(answer.as_ref(), b"go");
    for word in ["one", "two"] {
        stream.send(word.as_bytes()).await.unwrap();
        assert_eq!(stream.next().await.unwrap().unwrap(), format!("{word}!"));
    }
    stream.finish();
    let mut bare = vec![0; 100_000];
    stream.read_bytes(&mut bare).await.unwrap();
    assert!(bare.iter().all(|byte| *byte == 7));
    let more = stream.read_bytes(&mut [0]).await;
    assert!(matches!(more, Err(SessionError::Broken(_))), "{more:?}");
}

/// A stranger that speaks the transport but not our rules.
async fn raw(server: &Endpoint) -> (iroh::Endpoint, iroh::endpoint::Connection) {
    let client = iroh::Endpoint::builder(iroh::endpoint::presets::Minimal)
        .relay_mode(iroh::RelayMode::Disabled)
        .bind()
        .await
        .unwrap();
    let id = iroh::EndpointId::from_bytes(&server.id().0).unwrap();
    let address = iroh::EndpointAddr::new(id).with_ip_addr(nearby(server).direct[0]);
    let connection = client.connect(address, ALPN).await.unwrap();
    (client, connection)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_the_limit_ends_at_its_length() {
    let server = endpoint(1, echo()).await;
    let (_client, connection) = raw(&server).await;
    for length in [u32::try_from(MAX_FRAME).unwrap() + 1, u32::MAX] {
        let (mut send, mut receive) = connection.open_bi().await.unwrap();
        send.write_all(&length.to_be_bytes()).await.unwrap();
        // It ends without having waited for any of the bytes.
        assert_eq!(receive.read_to_end(100).await.unwrap(), b"");
    }
    let (mut send, mut receive) = connection.open_bi().await.unwrap();
    send.write_all(&[0, 0, 0, 1, 1]).await.unwrap();
    // A frame that is too short for its kind is answered by: invalid.
    assert_eq!(receive.read_to_end(100).await.unwrap(), [0, 0, 0, 1, 5]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_has_no_more_streams_than_allowed() {
    let gate = Arc::new(Semaphore::new(0));
    let waiting = Arc::clone(&gate);
    let router = Router::default().on(ECHO, move |exchange: Exchange| {
        let waiting = Arc::clone(&waiting);
        async move {
            let _go = waiting.acquire().await;
            exchange.answer(b"").await
        }
    });
    let mut config = quick(1);
    config.limits = Limits { streams: 3, ..config.limits };
    let server = Endpoint::bind(config, router, |_| true).await.unwrap();
    let (_client, connection) = raw(&server).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let (mut send, receive) = connection.open_bi().await.unwrap();
        send.write_all(&[0, 0, 0, 2, 1, 44]).await.unwrap();
        send.finish().unwrap();
        open.push((send, receive));
    }
    let short = Duration::from_millis(100);
    let mut fourth = std::pin::pin!(connection.open_bi());
    assert!(timeout(short, &mut fourth).await.is_err(), "a fourth stream was opened");
    assert!(timeout(short, connection.open_uni()).await.is_err(), "a stream of one direction");
    gate.add_permits(9);
    for (_, receive) in &mut open {
        assert_eq!(receive.read_to_end(100).await.unwrap(), [0, 0, 0, 1, 0]);
    }
    assert!(fourth.await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_endpoint_has_no_more_sessions_than_allowed() {
    let mut config = quick(1);
    config.limits = Limits { sessions_each: 2, ..config.limits };
    let server = Endpoint::bind(config, echo(), |_| true).await.unwrap();
    let (one, other) = (endpoint(2, Router::default()).await, endpoint(3, Router::default()).await);
    let first = one.dial(&nearby(&server)).await.unwrap();
    let second = one.dial(&nearby(&server)).await.unwrap();
    assert!(first.call(ECHO, b"").await.is_ok() && second.call(ECHO, b"").await.is_ok());
    if let Ok(third) = one.dial(&nearby(&server)).await {
        assert!(third.call(ECHO, b"").await.is_err());
    }
    let stranger = other.dial(&nearby(&server)).await.unwrap();
    assert!(stranger.call(ECHO, b"").await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_ends_with_the_last_handle_of_who_dialled() {
    let kept = Arc::new(Mutex::new(None));
    let keep = Arc::clone(&kept);
    let router = Router::default().on(ECHO, move |exchange: Exchange| {
        let keep = Arc::clone(&keep);
        async move {
            *keep.lock().await = Some(exchange.session.clone());
            exchange.answer(b"").await
        }
    });
    let (server, client) = (endpoint(1, router).await, endpoint(2, Router::default()).await);
    let session = client.dial(&nearby(&server)).await.unwrap();
    let again = session.clone();
    session.call(ECHO, b"").await.unwrap();
    drop(session);
    again.call(ECHO, b"").await.unwrap();
    drop(again);
    let other_end = kept.lock().await.take().unwrap();
    other_end.closed().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_that_does_nothing_is_not_waited_for() {
    let router = Router::default().on(ECHO, |exchange: Exchange| async move {
        let _kept = exchange;
        std::future::pending().await
    });
    let (server, client) = (endpoint(1, router).await, endpoint(2, Router::default()).await);
    let session = client.dial(&nearby(&server)).await.unwrap();
    let stalled = session.call(ECHO, b"").await;
    assert!(matches!(stalled, Err(SessionError::Stalled(_))), "{stalled:?}");
}
