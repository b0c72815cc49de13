//! The proxy against a server that follows a script on a real socket: as good servers do, and as
//! none should.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test stops where it fails, and its numbers are small"
)]

use opengpu_exec::proxy::{
    Answer, Breach, ChatRequest, CompletionRequest, EmbeddingRequest, Event, FinishReason,
    Finished, Key, Limits, Message, Origin, Phase, Prompt, ProxyError, Reach, Role, Sampling,
    SetupError, Upstream, Usage,
};
use std::{io::Write as _, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

/// Long enough for any machine; only a failing test waits for it.
const LONG: Duration = Duration::from_secs(60);
/// How long a server that is tested for its silence may be silent.
const MOMENT: Duration = Duration::from_millis(100);

/// What the server does after it has read a request.
#[derive(Clone)]
enum Act {
    /// Sends these bytes.
    Send(String),
    /// Sends these bytes one by one.
    Trickle(String),
    /// Sends these bytes until nobody reads.
    Endless(String),
    /// Says nothing until the link is closed.
    Hold,
}

/// A server that follows a script, once for each link.
struct Fake {
    address: SocketAddr,
    requests: mpsc::UnboundedReceiver<String>,
    /// Tells when the other side has closed the link.
    closed: mpsc::UnboundedReceiver<()>,
}

impl Fake {
    async fn start(script: Vec<Act>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (heard, requests) = mpsc::unbounded_channel();
        let (close, closed) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(follow(stream, script.clone(), heard.clone(), close.clone()));
            }
        });
        Self { address, requests, closed }
    }

    fn upstream(&self, limits: Limits) -> Upstream {
        let origin = Origin::parse(&format!("http://{}/v1", self.address), Reach::Loopback);
        Upstream::new(origin.unwrap(), None, limits).unwrap()
    }

    async fn is_told_of_the_end(&mut self) {
        let told = tokio::time::timeout(LONG, self.closed.recv()).await;
        assert_eq!(told.expect("the link stayed open"), Some(()));
    }
}

async fn follow(
    mut stream: TcpStream,
    script: Vec<Act>,
    heard: mpsc::UnboundedSender<String>,
    close: mpsc::UnboundedSender<()>,
) {
    let mut request = Vec::new();
    let mut byte = [0];
    while !request.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).await.unwrap();
        request.push(byte[0]);
    }
    let head = String::from_utf8(request.clone()).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.unwrap();
    request.extend(body);
    heard.send(String::from_utf8(request).unwrap()).unwrap();
    for act in script {
        match act {
            Act::Send(text) => stream.write_all(text.as_bytes()).await.unwrap(),
            Act::Trickle(text) => {
                for byte in text.bytes() {
                    stream.write_all(&[byte]).await.unwrap();
                    tokio::task::yield_now().await;
                }
            }
            Act::Endless(text) => {
                while stream.write_all(text.as_bytes()).await.is_ok() {}
                let _ = close.send(());
            }
            Act::Hold => {
                let _ = stream.read(&mut byte).await;
                let _ = close.send(());
            }
        }
    }
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";

fn ok() -> Act {
    Act::Send(OK.into())
}

fn piece(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

fn end(reason: &str) -> String {
    format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}\n\n"
    )
}

fn usage(prompt: u64, completion: u64) -> String {
    format!(
        "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt},\
         \"completion_tokens\":{completion}}}}}\n\n"
    )
}

const DONE: &str = "data: [DONE]\n\n";

fn request(max_tokens: Option<u32>) -> ChatRequest {
    ChatRequest {
        model: "m".into(),
        messages: vec![Message { role: Role::User, text: "hello there".into(), name: None }],
        sampling: Sampling { max_tokens, ..Sampling::default() },
    }
}

fn limits() -> Limits {
    Limits { connect: LONG, head: LONG, silence: LONG, total: LONG, ..Limits::default() }
}

/// Everything that comes until the end.
async fn read(mut answer: Answer) -> (String, Result<Finished, ProxyError>) {
    let mut text = String::new();
    loop {
        match answer.next().await {
            Ok(Some(Event::Piece(piece))) => text.push_str(&piece.text),
            Ok(Some(Event::Finished(finished))) => {
                assert_eq!(answer.next().await, Ok(None), "something follows the end");
                return (text, Ok(finished));
            }
            Ok(None) => panic!("the answer has no end"),
            Err(error) => return (text, Err(error)),
        }
    }
}

/// Chats once with a server that follows the script.
async fn chat(script: Vec<Act>, limits: Limits) -> (String, Result<Finished, ProxyError>) {
    let fake = Fake::start(script).await;
    match fake.upstream(limits).chat(&request(Some(8))).await {
        Ok(answer) => read(answer).await,
        Err(error) => (String::new(), Err(error)),
    }
}

fn finished(reason: FinishReason, prompt_tokens: u64, completion_tokens: u64) -> Finished {
    Finished { reason, usage: Usage { prompt_tokens, completion_tokens } }
}

#[tokio::test]
async fn text_streams_with_its_usage_however_the_bytes_come() {
    let whole = [piece("Hel"), piece("lo"), end("stop"), usage(12, 3), DONE.into()].concat();
    for act in [Act::Send(whole.clone()), Act::Trickle(whole)] {
        let (text, end) = chat(vec![ok(), act], limits()).await;
        assert_eq!(text, "Hello");
        assert_eq!(end, Ok(finished(FinishReason::Stop, 12, 3)));
    }
}

#[tokio::test]
async fn the_server_is_asked_for_a_stream_with_usage_and_shown_the_key() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"sk-canary-0123456789").unwrap();
    let mut fake = Fake::start(vec![Act::Send("HTTP/1.1 500 no\r\n\r\n".into())]).await;
    let origin = Origin::parse(&format!("http://{}", fake.address), Reach::Loopback).unwrap();
    let upstream = Upstream::new(origin, Some(Key::read(file.path()).unwrap()), limits()).unwrap();
    let error = upstream.chat(&request(Some(8))).await.unwrap_err();
    assert!(!format!("{upstream:?} {error:?} {error}").contains("canary"));
    let sent = fake.requests.recv().await.unwrap();
    assert!(sent.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{sent}");
    for part in [
        "authorization: Bearer sk-canary-0123456789\r\n",
        "\"stream\":true,\"stream_options\":{\"include_usage\":true}",
        "\"max_tokens\":8",
    ] {
        assert!(sent.contains(part), "{part} is not in {sent}");
    }
}

#[test]
fn a_key_does_not_cross_a_network_in_the_clear() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"sk-canary-0123456789").unwrap();
    let key = Key::read(file.path()).unwrap();
    let origin = Origin::parse("http://192.0.2.1", Reach::Anywhere).unwrap();
    let refused = Upstream::new(origin, Some(key), limits());
    assert!(matches!(refused, Err(SetupError::KeyInTheClear { .. })));
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_no_answer() {
    let half = piece("lo");
    let half = half[..half.len() / 2].to_owned();
    let sized = "HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n".to_owned();
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_owned();
    let first = piece("Hel");
    let chunk = format!("{:x}\r\n{first}\r\n", first.len());
    for script in [
        vec![ok(), Act::Send(first.clone()), Act::Send(half.clone())],
        vec![ok(), Act::Send(first.clone())],
        vec![Act::Send(sized), Act::Send(first.clone())],
        vec![Act::Send(chunked.clone()), Act::Send(chunk.clone())],
        vec![Act::Send(chunked), Act::Send(chunk), Act::Send(format!("40\r\n{half}"))],
    ] {
        let (text, end) = chat(script, limits()).await;
        assert_eq!((text.as_str(), end), ("Hel", Err(Breach::Cut.into())));
    }
    let nothing = chat(vec![], limits()).await;
    assert_eq!(nothing.1, Err(Breach::Cut.into()));
}

#[tokio::test]
async fn a_wrong_usage_is_not_believed() {
    for said in [usage(12, 1_000_000), usage(12, 0), usage(12, 7)] {
        let text = [piece("a"), piece("b"), end("stop"), said.clone(), DONE.into()].concat();
        let script = vec![ok(), Act::Send(text)];
        let (_, end) = chat(script, limits()).await;
        assert_eq!(end, Ok(finished(FinishReason::Stop, 12, 2)), "{said}");
    }
}

#[tokio::test]
async fn without_usage_the_pieces_are_counted_and_an_open_end_is_not_waited_for() {
    let text = [piece("a"), piece("b"), end("length")].concat();
    let brief = Limits { silence: MOMENT, ..limits() };
    for script in [vec![ok(), Act::Send(text.clone())], vec![ok(), Act::Send(text), Act::Hold]] {
        let (_, end) = chat(script, brief).await;
        assert_eq!(end, Ok(finished(FinishReason::Length, 0, 2)));
    }
}

#[tokio::test]
async fn an_endless_stream_ends_at_the_cap_and_the_server_is_told() {
    let mut fake = Fake::start(vec![ok(), Act::Endless(piece("x"))]).await;
    let answer = fake.upstream(limits()).chat(&request(Some(5))).await.unwrap();
    let (text, end) = read(answer).await;
    assert_eq!(text, "xxxxx");
    assert_eq!(end, Ok(finished(FinishReason::Length, 0, 5)));
    fake.is_told_of_the_end().await;
    // Without a wish of the client our own cap holds.
    let capped = Limits { tokens: 3, ..limits() };
    let answer = fake.upstream(capped).chat(&request(None)).await.unwrap();
    assert_eq!(read(answer).await.0, "xxx");
    fake.is_told_of_the_end().await;
}

#[tokio::test]
async fn a_flood_of_text_a_huge_line_and_endless_comments_are_cut_off() {
    let narrow = Limits { text: 1_000, event: 4_096, total: LONG, ..limits() };
    for (endless, breach) in [
        (piece(&"x".repeat(600)), Breach::TooLong { what: "the text", limit: 1_000 }),
        ("x".repeat(999), Breach::TooLong { what: "a line", limit: 4_096 }),
        ("data: 0123456789\n".into(), Breach::TooLong { what: "an event", limit: 4_096 }),
    ] {
        let mut fake = Fake::start(vec![ok(), Act::Endless(endless)]).await;
        let answer = fake.upstream(narrow).chat(&request(None)).await.unwrap();
        assert_eq!(read(answer).await.1, Err(breach.into()));
        fake.is_told_of_the_end().await;
    }
    // Long enough that the head arrives on a busy machine too.
    let total = Duration::from_secs(3);
    let brief = Limits { total, ..limits() };
    let (_, end) = chat(vec![ok(), Act::Endless(": still here\n\n".into())], brief).await;
    assert_eq!(end, Err(ProxyError::Slow { phase: Phase::Total, limit: total }));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let mut other = Fake::start(vec![ok()]).await;
    for status in [301, 302, 307, 308] {
        let head = format!("HTTP/1.1 {status} x\r\nlocation: http://{}/\r\n\r\n", other.address);
        let (_, end) = chat(vec![Act::Send(head)], limits()).await;
        assert_eq!(end, Err(Breach::Redirect.into()));
    }
    assert!(other.requests.try_recv().is_err(), "the redirect was followed");
}

#[tokio::test]
async fn each_refusal_tells_whose_fault_it_is() {
    let body = "{\"error\":{\"message\":\"because\"}}";
    let message = || "because".to_owned();
    for (status, extra, wanted) in [
        (400, "", ProxyError::Refused { status: 400, message: message() }),
        (404, "", ProxyError::NoModel { message: message() }),
        (401, "", ProxyError::Unauthorized { status: 401 }),
        (429, "retry-after: 7\r\n", ProxyError::Busy { retry_after: Some(7) }),
        (503, "retry-after: soon\r\n", ProxyError::Busy { retry_after: None }),
        (500, "", Breach::Status { status: 500 }.into()),
        (204, "", Breach::Status { status: 204 }.into()),
    ] {
        let head = format!("HTTP/1.1 {status} x\r\n{extra}\r\n{body}");
        let (_, end) = chat(vec![Act::Send(head)], limits()).await;
        assert_eq!(end, Err(wanted), "{status}");
    }
}

#[tokio::test]
async fn what_is_not_the_protocol_is_refused() {
    let (_, end) = chat(vec![Act::Send("SSH-2.0-nonsense\r\n\r\n".into())], limits()).await;
    assert_eq!(end, Err(Breach::Unreadable { what: "the head of an answer" }.into()));
    let (_, end) = chat(vec![ok(), Act::Send("data: {nonsense\n\n".into())], limits()).await;
    assert_eq!(end, Err(Breach::Unreadable { what: "an event of the stream" }.into()));
    let head = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(100));
    let (_, end) = chat(vec![Act::Send(head)], limits()).await;
    assert_eq!(end, Err(Breach::Unreadable { what: "the head of an answer" }.into()));
    let gave_up = "data: {\"error\":{\"message\":\"out of memory\"}}\n\n".to_owned();
    let (text, end) = chat(vec![ok(), Act::Send(piece("Hel")), Act::Send(gave_up)], limits()).await;
    let breach = Breach::GaveUp { message: "out of memory".into() };
    assert_eq!((text.as_str(), end), ("Hel", Err(breach.into())));
}

#[tokio::test]
async fn silence_has_a_limit_before_the_head_and_within_the_text() {
    let brief = Limits { head: MOMENT, ..limits() };
    let (_, end) = chat(vec![Act::Hold], brief).await;
    assert_eq!(end, Err(ProxyError::Slow { phase: Phase::Head, limit: MOMENT }));
    let brief = Limits { silence: MOMENT, ..limits() };
    let chat = chat(vec![ok(), Act::Send(piece("Hel")), Act::Hold], brief);
    // Well before the limit for all of it, which would end the answer too.
    let (text, end) = tokio::time::timeout(LONG / 4, chat).await.expect("silence has no limit");
    assert_eq!(text, "Hel");
    assert_eq!(end, Err(ProxyError::Slow { phase: Phase::Silence, limit: MOMENT }));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_unreachable() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let origin = Origin::parse(&format!("http://{address}"), Reach::Loopback).unwrap();
    let upstream = Upstream::new(origin, None, limits()).unwrap();
    let error = upstream.models().await.unwrap_err();
    assert!(matches!(error, ProxyError::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn whoever_drops_an_answer_stops_the_server() {
    let mut fake = Fake::start(vec![ok(), Act::Send(piece("Hel")), Act::Hold]).await;
    let mut answer = fake.upstream(limits()).chat(&request(None)).await.unwrap();
    assert!(matches!(answer.next().await, Ok(Some(Event::Piece(_)))));
    assert!(fake.closed.try_recv().is_err());
    drop(answer);
    fake.is_told_of_the_end().await;
}

#[tokio::test]
async fn whoever_gives_up_before_the_head_stops_the_server_too() {
    let mut fake = Fake::start(vec![Act::Hold]).await;
    let upstream = fake.upstream(limits());
    let waiting = tokio::spawn(async move { upstream.chat(&request(None)).await.map(drop) });
    fake.requests.recv().await.unwrap();
    waiting.abort();
    fake.is_told_of_the_end().await;
}

#[tokio::test]
async fn a_completion_is_asked_for_in_its_own_shape() {
    let text = "data: {\"choices\":[{\"index\":0,\"text\":\" world\",\"finish_reason\":\"stop\"}],\
                \"usage\":{\"prompt_tokens\":2,\"completion_tokens\":1}}\n\n";
    let mut fake = Fake::start(vec![ok(), Act::Send(text.into())]).await;
    let request = CompletionRequest {
        model: "m".into(),
        prompt: Prompt::Tokens(vec![1, 2]),
        sampling: Sampling { top_logprobs: Some(2), ..Sampling::default() },
    };
    let answer = fake.upstream(limits()).complete(&request).await.unwrap();
    let (text, end) = read(answer).await;
    assert_eq!(text, " world");
    assert_eq!(end, Ok(finished(FinishReason::Stop, 2, 1)));
    let sent = fake.requests.recv().await.unwrap();
    assert!(sent.starts_with("POST /v1/completions"), "{sent}");
    assert!(sent.contains("\"prompt\":[1,2]") && sent.contains("\"logprobs\":2"), "{sent}");
}

fn json(body: &str) -> Vec<Act> {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    vec![Act::Send(head), Act::Send(body.into())]
}

#[tokio::test]
async fn models_are_listed_and_names_that_are_none_are_left_out() {
    let body =
        r#"{"object":"list","data":[{"id":"a","created":7,"owned_by":"me"},{"id":""},{"id":"b"}]}"#;
    let models = Fake::start(json(body)).await.upstream(limits()).models().await.unwrap();
    let names: Vec<_> = models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!((models[0].created, models[0].owner.as_deref()), (Some(7), Some("me")));
}

#[tokio::test]
async fn an_answer_that_is_not_streamed_has_a_limit_too() {
    let narrow = Limits { body: 1_000, ..limits() };
    let mut fake = Fake::start(vec![ok(), Act::Endless(" ".repeat(100))]).await;
    let request = EmbeddingRequest { model: "m".into(), inputs: vec![Prompt::Text("a".into())] };
    let error = fake.upstream(narrow).embed(&request).await.unwrap_err();
    assert_eq!(error, Breach::TooLong { what: "an answer", limit: 1_000 }.into());
    fake.is_told_of_the_end().await;
}

#[tokio::test]
async fn vectors_come_in_the_order_of_the_texts_or_not_at_all() {
    let inputs = vec![Prompt::Text("a".into()), Prompt::Text("b".into())];
    let request = EmbeddingRequest { model: "m".into(), inputs };
    let embed = async |body: &str| {
        let fake = Fake::start(json(body)).await;
        fake.upstream(limits()).embed(&request).await
    };
    let turned = r#"{"data":[{"index":1,"embedding":[3,4]},{"index":0,"embedding":[1,2]}],"usage":{"prompt_tokens":99999}}"#;
    let embeddings = embed(turned).await.unwrap();
    assert_eq!(embeddings.vectors, [[1.0, 2.0], [3.0, 4.0]]);
    assert_eq!(embeddings.prompt_tokens, 18, "two bytes, and the signs around two texts");
    for wrong in [
        r#"{"data":[{"index":0,"embedding":[1]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1]},{"index":2,"embedding":[1]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1,2]}]}"#,
        r#"{"data":[{"index":0,"embedding":[1]},{"index":1,"embedding":[1e39]}]}"#,
        r#"{"data":[{"index":0,"embedding":[]},{"index":1,"embedding":[]}]}"#,
        "{}",
        "[",
    ] {
        let error = embed(wrong).await.unwrap_err();
        assert_eq!(error, Breach::Unreadable { what: "a list of vectors" }.into(), "{wrong}");
    }
}
