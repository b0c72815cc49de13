//! The API over real sockets: what it answers, what it refuses, and that nothing goes on for a
//! client that went away.

use crate::parrot::{MODEL, Parrot, Seen, Server};
use opengpu_gateway::{Keys, Limits, Settings};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::mpsc,
};

const LONG: Duration = Duration::from_secs(60);
const MOMENT: Duration = Duration::from_millis(100);
const CHAT: &str = "/v1/chat/completions";

/// Limits that no test meets by accident.
fn patient() -> Limits {
    Limits {
        head: LONG,
        body_time: LONG,
        wait: LONG,
        total: LONG,
        stall: LONG,
        keep_alive: LONG,
        grace: LONG,
        ..Limits::default()
    }
}

fn settings(limits: Limits) -> Settings {
    Settings { limits, ..Settings::default() }
}

async fn start(limits: Limits) -> (Server, mpsc::UnboundedReceiver<Seen>) {
    let (engine, seen) = Parrot::new();
    (Server::start(engine, settings(limits)).await, seen)
}

/// An answer, taken apart.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.body))
    }

    fn code(&self) -> (u16, Value) {
        (self.status, self.json()["error"]["code"].clone())
    }

    /// The data of each event.
    fn events(&self) -> Vec<String> {
        let data = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        data.map(str::to_owned).collect()
    }
}

async fn open(address: SocketAddr, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let host = if head.contains("host:") { "" } else { "host: localhost\r\n" };
    let request = format!("{head}{host}connection: close\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn finish(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(LONG, stream.read_to_end(&mut bytes)).await;
    read.expect("no answer").unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
    let status = head.split(' ').nth(1).map_or(0, |status| status.parse().unwrap());
    let chunked = head.contains("transfer-encoding: chunked");
    let body = if chunked { unchunk(body) } else { body.to_owned() };
    Answer { status, head: head.to_owned(), body }
}

fn unchunk(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = body.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        whole.push_str(&rest[..length]);
        body = &rest[length + 2..];
    }
    whole
}

async fn get(address: SocketAddr, route: &str) -> Answer {
    finish(open(address, &format!("GET {route} HTTP/1.1\r\n"), "").await).await
}

fn head(route: &str, length: usize) -> String {
    format!(
        "POST {route} HTTP/1.1\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n"
    )
}

async fn post(address: SocketAddr, route: &str, body: &Value) -> Answer {
    let body = body.to_string();
    finish(open(address, &head(route, body.len()), &body).await).await
}

fn saying(text: &str) -> Value {
    json!({"model": MODEL, "messages": [{"role": "user", "content": text}]})
}

fn streaming(text: &str) -> Value {
    let mut body = saying(text);
    body["stream"] = true.into();
    body
}

#[tokio::test]
async fn a_chat_is_answered_whole() {
    let (server, _) = start(patient()).await;
    let answer = post(server.address, CHAT, &saying("hello world")).await;
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("x-request-id: req-"), "{}", answer.head);
    let json = answer.json();
    assert_eq!(json["object"], "chat.completion");
    assert_eq!(json["choices"][0]["message"]["content"], "hello world");
    assert_eq!(json["choices"][0]["finish_reason"], "stop");
    let usage = json!({"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4});
    assert_eq!(json["usage"], usage);
}

#[tokio::test]
async fn a_chat_is_streamed_with_its_usage_only_if_wanted() {
    let (server, _) = start(patient()).await;
    let mut body = streaming("hello world");
    let events = post(server.address, CHAT, &body).await.events();
    assert_eq!(events.last().unwrap(), "[DONE]");
    assert!(!events.concat().contains("usage"));
    body["stream_options"] = json!({"include_usage": true});
    let answer = post(server.address, CHAT, &body).await;
    assert!(answer.head.contains("content-type: text/event-stream"), "{}", answer.head);
    let events = answer.events();
    let parsed: Vec<Value> = events[..events.len() - 1]
        .iter()
        .map(|event| serde_json::from_str(event).unwrap())
        .collect();
    assert_eq!(parsed[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    let text = parsed.iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str());
    assert_eq!(text.collect::<String>(), "hello world");
    let [.., end, usage] = parsed.as_slice() else { panic!("{events:?}") };
    assert_eq!(end["choices"][0]["finish_reason"], "stop");
    assert!(end["usage"].is_null());
    assert_eq!(usage["choices"], json!([]));
    assert_eq!(usage["usage"]["total_tokens"], 4);
    let ids: std::collections::BTreeSet<_> =
        parsed.iter().map(|event| event["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), 1, "one answer has one id");
}

#[tokio::test]
async fn completions_and_vectors_have_their_own_shapes() {
    let (server, _) = start(patient()).await;
    let body = json!({"model": MODEL, "prompt": "a b c", "max_tokens": 2, "logprobs": 1});
    let json = post(server.address, "/v1/completions", &body).await.json();
    assert_eq!(json["object"], "text_completion");
    assert_eq!(json["choices"][0]["text"], "a b ");
    assert_eq!(json["choices"][0]["finish_reason"], "length");
    let logprobs = json!({"tokens": ["a ", "b "], "token_logprobs": [-0.5, -0.5],
        "top_logprobs": [{"other0": -1.5}, {"other0": -1.5}], "text_offset": [0, 2]});
    assert_eq!(json["choices"][0]["logprobs"], logprobs);
    let body = json!({"model": MODEL, "input": ["ab", "c"]});
    let json = post(server.address, "/v1/embeddings", &body).await.json();
    assert_eq!(json["data"][0]["embedding"], json!([2.0, 0.5, -1.25]));
    assert_eq!(json["data"][1]["index"], 1);
    assert_eq!(json["usage"], json!({"prompt_tokens": 3, "total_tokens": 3}));
}

#[tokio::test]
async fn models_are_listed_and_found_by_a_name_with_a_slash() {
    let (server, _) = start(patient()).await;
    let list = get(server.address, "/v1/models").await.json();
    assert_eq!(list["data"][0]["id"], MODEL);
    for route in ["/v1/models/house/parrot", "/v1/models/house%2Fparrot"] {
        assert_eq!(get(server.address, route).await.json()["owned_by"], "tests", "{route}");
    }
    let missing = get(server.address, "/v1/models/other").await;
    assert_eq!(missing.code(), (404, json!("model_not_found")));
}

#[tokio::test]
async fn each_problem_has_its_status_and_its_code() {
    let (server, _) = start(patient()).await;
    for (text, status, code) in [
        ("busy", 503, "no_capacity"),
        ("broken", 500, "engine_failed"),
        ("long", 400, "context_length_exceeded"),
        ("unable", 422, "unsupported"),
    ] {
        for body in [saying(text), streaming(text)] {
            let answer = post(server.address, CHAT, &body).await;
            assert_eq!(answer.code(), (status, json!(code)), "{text}");
            assert!(!answer.body.contains("secret"), "the client sees what is for the owner");
        }
    }
    let busy = post(server.address, CHAT, &saying("busy")).await;
    assert!(busy.head.contains("retry-after: 9"), "{}", busy.head);
    let mut other = saying("hi");
    other["model"] = "other".into();
    assert_eq!(post(server.address, CHAT, &other).await.code(), (404, json!("model_not_found")));
    assert_eq!(get(server.address, "/v1/nothing").await.code(), (404, json!("unknown_url")));
    assert_eq!(get(server.address, CHAT).await.status, 405);
    let plain =
        "POST /v1/completions HTTP/1.1\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n";
    assert_eq!(finish(open(server.address, plain, "{}").await).await.status, 415);
}

#[tokio::test]
async fn a_fault_in_the_middle_of_a_stream_is_an_event_and_not_an_end() {
    let (server, _) = start(patient()).await;
    let answer = post(server.address, CHAT, &streaming("break")).await;
    let events = answer.events();
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "engine_failed");
    assert!(!answer.body.contains("[DONE]") && !answer.body.contains("secret"));
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_it_says_its_size_or_not() {
    let (server, _) = start(Limits { body: 1_000, ..patient() }).await;
    let said = finish(open(server.address, &head(CHAT, 1_000_000_000), "").await).await;
    assert_eq!(said.status, 413);
    let chunked = format!(
        "POST {CHAT} HTTP/1.1\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n"
    );
    let body = format!("{:x}\r\n{}\r\n0\r\n\r\n", 1_001, " ".repeat(1_001));
    assert_eq!(finish(open(server.address, &chunked, &body).await).await.status, 413);
}

#[tokio::test]
async fn a_client_that_sends_all_of_a_huge_body_still_reads_why_it_is_refused() {
    let (server, _) = start(patient()).await;
    let body = " ".repeat(20_000_000);
    let mut stream = open(server.address, &head(CHAT, body.len()), "").await;
    stream.write_all(body.as_bytes()).await.unwrap();
    let answer = finish(stream).await;
    assert_eq!(answer.status, 413);
    assert_eq!(answer.json()["error"]["type"], "invalid_request_error");
}

#[tokio::test]
async fn half_a_head_and_half_a_body_do_not_hold_a_place() {
    let (server, _) =
        start(Limits { sockets: 1, head: MOMENT, body_time: MOMENT, ..patient() }).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    silent.write_all(b"POST /v1/chat HT").await.unwrap();
    let half = open(server.address, &head(CHAT, 100), "{").await;
    assert_eq!(get(server.address, "/healthz").await.status, 200);
    assert_eq!(finish(half).await.status, 408);
}

#[tokio::test]
async fn whoever_does_not_read_loses_its_place_and_its_work() {
    let (server, mut seen) = start(Limits { sockets: 1, stall: MOMENT, ..patient() }).await;
    let body = streaming("forever").to_string();
    let deaf = open(server.address, &head(CHAT, body.len()), &body).await;
    assert_eq!(get(server.address, "/healthz").await.status, 200);
    assert_eq!(seen.recv().await, Some(Seen::Began));
    assert_eq!(seen.recv().await, Some(Seen::Cancelled));
    drop(deaf);
}

#[tokio::test]
async fn a_client_that_goes_ends_its_work_streamed_or_not() {
    let (server, mut seen) = start(patient()).await;
    for body in [streaming("hang"), saying("hang"), streaming("mute"), saying("mute")] {
        let text = body.to_string();
        let stream = open(server.address, &head(CHAT, text.len()), &text).await;
        assert_eq!(seen.recv().await, Some(Seen::Began));
        drop(stream);
        let next = tokio::time::timeout(LONG, seen.recv()).await;
        assert_eq!(next.expect("the work goes on for nobody"), Some(Seen::Cancelled), "{body}");
    }
    let metrics = get(server.address, "/metrics").await.body;
    assert!(metrics.contains("opengpu_gateway_cancelled_total 4\n"), "{metrics}");
    assert!(metrics.contains("vllm:num_requests_running 0\n"), "{metrics}");
}

#[tokio::test]
async fn one_too_many_is_told_when_to_come_back() {
    let (server, mut seen) = start(Limits { running: 1, waiting: 0, ..patient() }).await;
    let body = streaming("hang").to_string();
    let first = open(server.address, &head(CHAT, body.len()), &body).await;
    assert_eq!(seen.recv().await, Some(Seen::Began));
    let second = post(server.address, CHAT, &saying("hi")).await;
    assert_eq!(second.code(), (429, json!("rate_limit_exceeded")));
    assert!(second.head.contains("retry-after: 2"), "{}", second.head);
    drop(first);
    assert_eq!(seen.recv().await, Some(Seen::Cancelled));
    assert_eq!(post(server.address, CHAT, &saying("hi")).await.status, 200);
}

#[tokio::test]
async fn a_request_has_a_deadline_streamed_or_not() {
    let (server, mut seen) = start(Limits { total: MOMENT, ..patient() }).await;
    let whole = post(server.address, CHAT, &saying("hang")).await;
    assert_eq!(whole.code(), (504, json!("deadline_exceeded")));
    for text in ["hang", "forever"] {
        let events = post(server.address, CHAT, &streaming(text)).await.events();
        let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
        assert_eq!(last["error"]["code"], "deadline_exceeded", "{text}");
    }
    for wanted in [Seen::Began, Seen::Cancelled].repeat(3) {
        assert_eq!(seen.recv().await, Some(wanted));
    }
}

#[tokio::test]
async fn silence_is_filled_with_comments_before_and_within_the_text() {
    let (server, _) = start(Limits { keep_alive: Duration::from_millis(10), ..patient() }).await;
    for text in ["mute", "hang"] {
        let body = streaming(text).to_string();
        let mut stream = open(server.address, &head(CHAT, body.len()), &body).await;
        let mut read = String::new();
        let mut bytes = [0; 1024];
        while read.matches(": keep-alive\n\n").count() < 3 {
            let count = tokio::time::timeout(LONG, stream.read(&mut bytes)).await.unwrap().unwrap();
            assert!(count > 0, "the stream ended");
            read.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
    }
}

#[tokio::test]
async fn a_key_is_needed_everywhere_but_for_health() {
    let (engine, _) = Parrot::new();
    let keys = Keys::new(["ogpu_0123456789abcdef"]).unwrap();
    let server = Server::start(engine, Settings { keys, ..settings(patient()) }).await;
    for route in ["/v1/models", "/v1/models/x", "/metrics", "/v1/nothing", "/", CHAT] {
        let answer = get(server.address, route).await;
        assert_eq!(answer.code(), (401, json!("invalid_api_key")), "{route}");
    }
    assert_eq!(post(server.address, CHAT, &saying("hi")).await.status, 401);
    for route in ["/healthz", "/readyz"] {
        assert_eq!(get(server.address, route).await.status, 200, "{route}");
    }
    let shown = "GET /v1/models HTTP/1.1\r\nauthorization: Bearer ogpu_0123456789abcdef\r\n";
    assert_eq!(finish(open(server.address, shown, "").await).await.status, 200);
}

#[tokio::test]
async fn a_web_page_cannot_reach_a_server_without_a_key() {
    let (server, _) = start(patient()).await;
    let rebound =
        "GET /v1/models HTTP/1.1\r\nhost: evil.example\r\norigin: http://evil.example\r\n";
    let answer = finish(open(server.address, rebound, "").await).await;
    assert_eq!(answer.code(), (403, json!("foreign_host")));
    let preflight = format!("OPTIONS {CHAT} HTTP/1.1\r\norigin: http://evil.example\r\n");
    let answer = finish(open(server.address, &preflight, "").await).await;
    assert!(!answer.head.contains("access-control"), "{}", answer.head);
}

#[tokio::test]
async fn at_the_end_answers_are_finished_and_nothing_new_is_taken() {
    let (mut server, mut seen) = start(patient()).await;
    let body = streaming("hang").to_string();
    let running = open(server.address, &head(CHAT, body.len()), &body).await;
    let idle = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(seen.recv().await, Some(Seen::Began));
    server.finish();
    let refused = async {
        while let Ok(mut stream) = TcpStream::connect(server.address).await {
            let mut byte = [0];
            if matches!(stream.read(&mut byte).await, Ok(0) | Err(_)) {
                break;
            }
        }
    };
    tokio::time::timeout(LONG, refused).await.expect("it still listens");
    assert!(seen.try_recv().is_err(), "what runs may finish");
    drop((running, idle));
    tokio::time::timeout(LONG, server.task).await.expect("it does not end").unwrap().unwrap();
}

#[tokio::test]
async fn after_the_grace_what_still_runs_is_told_that_it_is_over() {
    let (mut server, mut seen) = start(Limits { grace: MOMENT, ..patient() }).await;
    let body = streaming("hang").to_string();
    let running = open(server.address, &head(CHAT, body.len()), &body).await;
    assert_eq!(seen.recv().await, Some(Seen::Began));
    server.finish();
    let events = finish(running).await.events();
    let last: Value = serde_json::from_str(events.last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "shutting_down");
    assert_eq!(seen.recv().await, Some(Seen::Cancelled));
    server.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn metrics_count_answers_tokens_and_times() {
    let (server, _) = start(patient()).await;
    post(server.address, CHAT, &saying("hello world")).await;
    post(server.address, CHAT, &json!({})).await;
    let metrics = get(server.address, "/metrics").await;
    assert!(metrics.head.contains("content-type: text/plain; version=0.0.4"), "{}", metrics.head);
    for line in [
        "opengpu_gateway_answers_total{route=\"/v1/chat/completions\",status=\"200\"} 1\n",
        "opengpu_gateway_answers_total{route=\"/v1/chat/completions\",status=\"400\"} 1\n",
        "vllm:prompt_tokens_total{model_name=\"house/parrot\"} 2\n",
        "vllm:generation_tokens_total{model_name=\"house/parrot\"} 2\n",
        "vllm:request_success_total{model_name=\"house/parrot\",finished_reason=\"stop\"} 1\n",
        "vllm:time_to_first_token_seconds_count{model_name=\"house/parrot\"} 1\n",
        "vllm:e2e_request_latency_seconds_count{model_name=\"house/parrot\"} 1\n",
    ] {
        assert!(metrics.body.contains(line), "{line} is not in\n{}", metrics.body);
    }
}
