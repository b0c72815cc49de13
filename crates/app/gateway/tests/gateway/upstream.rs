//! A server in front of a server: the outer one's engine is the proxy, the inner one's a parrot.

use crate::parrot::{MODEL, Parrot, Seen, Server};
use futures::future::BoxFuture;
use opengpu_exec::proxy::{Limits as ProxyLimits, Origin, Reach, Upstream};
use opengpu_gateway::{
    Settings,
    engine::{
        ChatRequest, CompletionRequest, EmbeddingRequest, Embeddings, Engine, Failed, FinishReason,
        Finished, Message, ModelCard, Prompt, Role, Sampling, Sink,
    },
};
use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

const LONG: Duration = Duration::from_secs(60);

fn client(address: SocketAddr) -> Upstream {
    let origin = Origin::parse(&format!("http://{address}"), Reach::Loopback).unwrap();
    Upstream::new(origin, None, ProxyLimits::default()).unwrap()
}

/// Two servers, and a client of the outer one.
async fn chain() -> (Server, Server, Upstream, tokio::sync::mpsc::UnboundedReceiver<Seen>) {
    let (parrot, seen) = Parrot::new();
    let inner = Server::start(parrot, Settings::default()).await;
    let outer = Server::start(Arc::new(client(inner.address)), Settings::default()).await;
    let client = client(outer.address);
    (inner, outer, client, seen)
}

fn saying(model: &str, text: &str) -> ChatRequest {
    ChatRequest {
        model: model.into(),
        messages: vec![Message { role: Role::User, text: text.into(), name: None }],
        sampling: Sampling { top_logprobs: Some(2), max_tokens: Some(2), ..Sampling::default() },
    }
}

#[tokio::test]
async fn everything_passes_through_two_servers_unchanged() {
    let (_inner, _outer, client, _) = chain().await;
    let models = client.models().await.unwrap();
    assert_eq!((models[0].id.as_str(), models[0].created), (MODEL, Some(1_700_000_000)));
    let mut answer = client.chat(&saying(MODEL, "one two three")).await.unwrap();
    let (mut text, mut tokens) = (String::new(), Vec::new());
    let finished = loop {
        match answer.next().await.unwrap().unwrap() {
            opengpu_exec::proxy::Event::Piece(piece) => {
                text.push_str(&piece.text);
                tokens.extend(piece.logprobs);
            }
            opengpu_exec::proxy::Event::Finished(finished) => break finished,
        }
    };
    assert_eq!((text.as_str(), tokens.len(), tokens[0].top.len()), ("one two ", 2, 2));
    assert_eq!(finished.reason, FinishReason::Length);
    assert_eq!((finished.usage.prompt_tokens, finished.usage.completion_tokens), (3, 2));
    let inputs = vec![Prompt::Text("abc".into()), Prompt::Tokens(vec![1, 2])];
    for input in inputs {
        let request = EmbeddingRequest { model: MODEL.into(), inputs: vec![input] };
        assert_eq!(client.embed(&request).await.unwrap().vectors[0][1..], [0.5, -1.25]);
    }
}

#[tokio::test]
async fn failures_keep_their_meaning_through_two_servers() {
    use opengpu_exec::proxy::{Breach, ProxyError};
    let (_inner, _outer, client, _) = chain().await;
    let failure = async |model: &str, text: &str| {
        client.chat(&saying(model, text)).await.map(drop).unwrap_err()
    };
    assert!(matches!(failure("other", "hi").await, ProxyError::NoModel { .. }));
    assert_eq!(failure(MODEL, "busy").await, ProxyError::Busy { retry_after: Some(9) });
    let broken = ProxyError::Broken(Breach::Status { status: 500 });
    assert_eq!(failure(MODEL, "broken").await, broken);
    let unable = failure(MODEL, "unable").await;
    assert!(matches!(unable, ProxyError::Refused { status: 422, .. }), "{unable}");
    let long = failure(MODEL, "long").await;
    assert!(matches!(long, ProxyError::Refused { status: 400, .. }), "{long}");
}

#[tokio::test]
async fn a_client_that_goes_ends_the_work_behind_two_servers() {
    let (_inner, outer, _, mut seen) = chain().await;
    let body = format!(
        r#"{{"model":"{}","stream":true,"messages":[{{"role":"user","content":"hang"}}]}}"#,
        MODEL
    );
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(outer.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(stream.read(&mut [0; 64]).await.unwrap(), 64);
    assert_eq!(seen.recv().await, Some(Seen::Began));
    drop(stream);
    let next = tokio::time::timeout(LONG, seen.recv()).await;
    assert_eq!(next.expect("the work goes on for nobody"), Some(Seen::Cancelled));
}

#[tokio::test]
async fn a_server_whose_server_is_gone_lives_and_is_not_ready() {
    let (mut inner, outer, client, _) = chain().await;
    inner.finish();
    inner.task.await.unwrap().unwrap();
    let get = async |route: &str| {
        let mut stream = TcpStream::connect(outer.address).await.unwrap();
        let head = format!("GET {route} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    assert!(get("/healthz").await.starts_with("HTTP/1.1 200"));
    assert!(get("/readyz").await.starts_with("HTTP/1.1 503"));
    let error = client.chat(&saying(MODEL, "hi")).await.map(drop).unwrap_err();
    assert_eq!(error, opengpu_exec::proxy::ProxyError::Busy { retry_after: None });
}

/// An engine on a thread of its own, as those are that compute.
struct Threaded {
    thread: Mutex<Option<std::thread::JoinHandle<u64>>>,
}

impl Engine for Threaded {
    fn models(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<ModelCard>, Failed>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn chat(
        self: Arc<Self>,
        _: ChatRequest,
        sink: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>> {
        let thread = std::thread::spawn(move || {
            let mut sent = 0;
            let piece =
                || opengpu_gateway::engine::Piece { text: "x".into(), ..Default::default() };
            while sink.send_blocking(piece()).is_ok() {
                sent += 1;
            }
            sent
        });
        *self.thread.lock().unwrap() = Some(thread);
        Box::pin(std::future::pending())
    }

    fn complete(
        self: Arc<Self>,
        _: CompletionRequest,
        _: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>> {
        Box::pin(async { Err(Failed::Slow) })
    }

    fn embed(
        self: Arc<Self>,
        _: EmbeddingRequest,
    ) -> BoxFuture<'static, Result<Embeddings, Failed>> {
        Box::pin(async { Err(Failed::Slow) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_on_a_thread_notices_that_nobody_reads() {
    let engine = Arc::new(Threaded { thread: Mutex::new(None) });
    let server = Server::start(engine.clone(), Settings::default()).await;
    let client = client(server.address);
    let mut request = saying("any", "hi");
    request.sampling = Sampling::default();
    let mut answer = client.chat(&request).await.unwrap();
    assert!(answer.next().await.unwrap().is_some());
    drop(answer);
    let thread = engine.thread.lock().unwrap().take().unwrap();
    let sent = tokio::task::spawn_blocking(move || thread.join().unwrap());
    assert!(tokio::time::timeout(LONG, sent).await.expect("the thread goes on").unwrap() > 0);
}
