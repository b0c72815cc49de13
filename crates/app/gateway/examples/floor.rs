//! What the server costs above the bare HTTP library: the same requests, answered by the router
//! with an engine that does nothing, and by hyper with bytes that are ready. Both run as processes
//! of their own with one thread, in turns, so that a busy machine is busy for both.
//!
//! `cargo run --release -p opengpu-gateway --example floor [REQUESTS PER TURN]`

#![expect(clippy::print_stdout, reason = "a measurement prints its figures")]
#![expect(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::float_arithmetic,
    clippy::indexing_slicing,
    clippy::cast_precision_loss,
    reason = "a measurement that cannot go on ends"
)]

use bytes::Bytes;
use futures::{future::BoxFuture, stream};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::{Request, Response, body::Frame, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use opengpu_gateway::{
    Limits, Settings,
    engine::{
        ChatRequest, CompletionRequest, EmbeddingRequest, Embeddings, Engine, Failed, FinishReason,
        Finished, ModelCard, Piece, Sink, Usage,
    },
    serve,
};
use std::{
    convert::Infallible,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

/// Tokens of a streamed answer.
const TOKENS: usize = 64;
const TURNS: usize = 5;

/// The bytes of an answer.
const WHOLE: &str = concat!(
    r#"{"id":"chatcmpl-00000000000000000000000000000000","object":"chat.completion","#,
    r#""created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","#,
    r#""content":" token","refusal":null},"logprobs":null,"finish_reason":"stop"}],"#,
    r#""usage":{"prompt_tokens":8,"completion_tokens":1,"total_tokens":9}}"#,
);
/// The bytes of one event of a stream.
const EVENT: &str = concat!(
    r#"data: {"id":"chatcmpl-00000000000000000000000000000000","object":"chat.completion.chunk","#,
    r#""created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" token"},"#,
    r#""logprobs":null,"finish_reason":null}]}"#,
    "\n\n",
);

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some("bare") => run(bare()),
        Some("router") => run(router()),
        number => measure(number.map_or(4_000, |number| number.parse().unwrap())),
    }
}

fn run(server: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(server);
}

/// An engine that gives the same at once.
struct Idle;

impl Idle {
    fn finish(tokens: usize) -> Finished {
        let usage = Usage { prompt_tokens: 8, completion_tokens: tokens as u64 };
        Finished { reason: FinishReason::Stop, usage }
    }
}

impl Engine for Idle {
    fn models(self: Arc<Self>) -> BoxFuture<'static, Result<Vec<ModelCard>, Failed>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn chat(
        self: Arc<Self>,
        request: ChatRequest,
        sink: Sink,
    ) -> BoxFuture<'static, Result<Finished, Failed>> {
        let tokens = if request.sampling.max_tokens == Some(1) { 1 } else { TOKENS };
        Box::pin(async move {
            for _ in 0..tokens {
                let _ = sink.send(Piece { text: " token".into(), ..Piece::default() }).await;
                // As an engine does that computes each of them.
                tokio::task::yield_now().await;
            }
            Ok(Self::finish(tokens))
        })
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

async fn listen() -> tokio::net::TcpListener {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap());
    listener
}

async fn router() {
    let settings = Settings { limits: Limits::default(), ..Settings::default() };
    serve(listen().await, Arc::new(Idle), settings, std::future::pending()).await.unwrap();
}

/// Reads the request and answers with bytes that were ready before.
async fn bare() {
    let listener = listen().await;
    let (whole, event) = (Bytes::from(WHOLE), Bytes::from(EVENT));
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (whole, event) = (whole.clone(), event.clone());
        let service = service_fn(move |request: Request<hyper::body::Incoming>| {
            let (whole, event) = (whole.clone(), event.clone());
            async move {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                let streamed = body.ends_with(b"\"stream\":true}");
                let body = if streamed {
                    let frames = stream::unfold(0, move |sent| {
                        let event = event.clone();
                        async move {
                            tokio::task::yield_now().await;
                            let frame = || Ok::<_, Infallible>(Frame::data(event));
                            (sent < TOKENS + 3).then(|| (frame(), sent + 1))
                        }
                    });
                    StreamBody::new(frames).boxed_unsync()
                } else {
                    http_body_util::Full::new(whole).boxed_unsync()
                };
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        let builder = http1::Builder::new().timer(TokioTimer::new()).clone();
        tokio::spawn(async move {
            let _ = builder.serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

/// A server in a process of its own.
struct Served {
    child: Child,
    socket: BufReader<TcpStream>,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What one turn took.
#[derive(Default)]
struct Turn {
    cpu: Duration,
    times: Vec<Duration>,
}

impl Served {
    fn start(which: &str) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child = Command::new(program).arg(which).stdout(Stdio::piped()).spawn().unwrap();
        let mut address = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
        let socket = TcpStream::connect(address.trim()).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { child, socket: BufReader::new(socket) }
    }

    /// Time on a processor so far, of the one thread that there is.
    fn cpu(&self) -> Duration {
        let path = format!("/proc/{}/schedstat", self.child.id());
        let text = std::fs::read_to_string(path).unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }

    fn turn(&mut self, request: &[u8], count: usize, into: &mut Turn) {
        let before = self.cpu();
        for _ in 0..count {
            let start = Instant::now();
            self.exchange(request);
            into.times.push(start.elapsed());
        }
        into.cpu += self.cpu() - before;
    }

    fn exchange(&mut self, request: &[u8]) {
        self.socket.get_mut().write_all(request).unwrap();
        let (mut line, mut length) = (String::new(), None);
        loop {
            line.clear();
            self.socket.read_line(&mut line).unwrap();
            if line.starts_with("HTTP/") {
                assert!(line.contains("200"), "{line}");
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = Some(value.trim().parse::<usize>().unwrap());
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = Vec::new();
        if let Some(length) = length {
            body.resize(length, 0);
            return self.socket.read_exact(&mut body).unwrap();
        }
        loop {
            line.clear();
            self.socket.read_line(&mut line).unwrap();
            let length = usize::from_str_radix(line.trim(), 16).unwrap();
            body.resize(length + 2, 0);
            self.socket.read_exact(&mut body).unwrap();
            if length == 0 {
                return;
            }
        }
    }
}

fn measure(count: usize) {
    for (name, fields, count) in
        [("whole", r#""max_tokens":1"#, count), ("streamed", r#""stream":true"#, count / 8)]
    {
        let message = r#"{"role":"user","content":"Tell me something about the sea."}"#;
        let body = format!(r#"{{"model":"m","messages":[{message}],{fields}}}"#);
        let request = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: \
             application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut servers = [Served::start("bare"), Served::start("router")];
        let mut turns = [Turn::default(), Turn::default()];
        for server in &mut servers {
            server.turn(request.as_bytes(), count / 4, &mut Turn::default());
        }
        for _ in 0..TURNS {
            for (server, turn) in servers.iter_mut().zip(&mut turns) {
                server.turn(request.as_bytes(), count, turn);
            }
        }
        for (server, turn) in ["bare", "router"].iter().zip(&mut turns) {
            turn.times.sort_unstable();
            let at = |share: usize| turn.times[turn.times.len() * share / 100].as_secs_f64() * 1e6;
            let cpu = turn.cpu.as_secs_f64() * 1e6 / turn.times.len() as f64;
            println!(
                "{name:>8} {server:>6}: {cpu:>6.1} us CPU, p50 {:>6.1} us, p99 {:>6.1} us",
                at(50),
                at(99)
            );
        }
    }
}
