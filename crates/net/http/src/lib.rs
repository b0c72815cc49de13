//! Connections of HTTP servers: a bounded number of them, none of which may hold its place by doing
//! nothing.
//!
//! - One over the limit waits in the system's queue until another has ended.
//! - A head that does not arrive in time, and a connection on which no request follows, are closed.
//! - So is one whose reader does not take what is sent to it.
//! - A client that still sends when it is answered gets to read the answer: it is not cut off at once.
//! - When a client closes its connection, what was being done for it is dropped with it.
//! - At the end, running requests are answered and everything else is closed.
//!
//! What it is not: it knows no routes, no keys and no bodies; those are the router's.

mod linger;
mod patient;

pub use linger::Linger;

use axum::{Router, extract::ConnectInfo};
use hyper::{
    Request,
    body::Incoming,
    server::conn::http1,
    service::{Service as _, service_fn},
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use linger::linger;
use patient::Patient;
use std::{future::Future, net::SocketAddr, pin::pin, sync::Arc, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
};

/// Pause after the system has refused a connection, for example for want of file handles.
const PAUSE: Duration = Duration::from_millis(200);

/// What connections may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sockets at once.
    pub sockets: usize,
    /// How long the head of a request may take, counted from when the last one was answered.
    pub head: Duration,
    /// How long a reader may take nothing while there is something to send.
    pub stall: Duration,
    /// What is still read of a client that has its last answer.
    pub linger: Linger,
    /// Bytes of a head.
    pub head_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sockets: 512,
            head: Duration::from_secs(20),
            stall: Duration::from_secs(20),
            linger: Linger::default(),
            head_bytes: 64 << 10,
            headers: 64,
        }
    }
}

/// Connections on which something is still being answered; dropping it cuts them off.
#[derive(Debug)]
pub struct Unfinished(JoinSet<()>);

impl Unfinished {
    /// Waits until everything is answered.
    pub async fn finish(&mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

/// Serves until `end` resolves. For as long as a connection is open, it holds what `opened` gave.
pub async fn serve<H: Send + 'static>(
    listener: &TcpListener,
    router: Router,
    limits: Limits,
    end: impl Future<Output = ()>,
    opened: impl Fn() -> H,
) -> Unfinished {
    let room = Arc::new(Semaphore::new(limits.sockets));
    let (over, ending) = watch::channel(());
    let mut open = JoinSet::new();
    let mut end = pin!(end);
    loop {
        let (stream, peer, room) = tokio::select! {
            () = &mut end => break,
            Some(_) = open.join_next() => continue,
            accepted = accept(listener, &room) => accepted,
        };
        let held = (room, opened());
        let (router, ending) = (router.clone(), ending.clone());
        open.spawn(async move {
            answer(stream, peer, router, limits, ending).await;
            drop(held);
        });
    }
    drop(over);
    Unfinished(open)
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let room = room.clone().acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, room),
            Err(error) => {
                tracing::debug!(%error, "a connection was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers one connection's requests.
async fn answer(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: Limits,
    mut ending: watch::Receiver<()>,
) {
    // Answers are small and waited for.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.call(request)
    });
    let mut io = TokioIo::new(Patient::new(stream, limits.stall));
    let ended = {
        let mut connection = pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(limits.head)
                .max_buf_size(limits.head_bytes)
                .max_headers(limits.headers)
                .serve_connection(&mut io, service)
        );
        tokio::select! {
            ended = connection.as_mut() => Some(ended),
            _ = ending.changed() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
                None
            }
        }
    };
    // A client that breaks off is not our fault, and at the end nobody is waited for.
    if let Some(Ok(())) = ended {
        tokio::select! {
            () = linger(io.into_inner(), limits.linger) => {}
            _ = ending.changed() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        sync::oneshot,
    };

    const FOREVER: Duration = Duration::from_secs(3_600);
    const MOMENT: Duration = Duration::from_millis(50);
    const REQUEST: &[u8] = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
    const HALF: &[u8] = b"POST /large HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n1";
    const LARGE: usize = 32 * 1024 * 1024;

    struct Server {
        address: SocketAddr,
        end: oneshot::Sender<()>,
        task: tokio::task::JoinHandle<()>,
    }

    async fn server(head: Duration, stall: Duration) -> Server {
        serve_with(Limits { head, stall, ..Limits::default() }).await
    }

    /// A server with room for one connection.
    async fn serve_with(limits: Limits) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/large", get(|| async { vec![0_u8; LARGE] }));
        let (end, ending) = oneshot::channel();
        let limits = Limits { sockets: 1, ..limits };
        let end_called = async move { drop(ending.await) };
        let task = tokio::spawn(async move {
            serve(&listener, router, limits, end_called, || ()).await.finish().await;
        });
        Server { address, end, task }
    }

    /// Asks and reads everything, if there is room for another connection within reason.
    async fn ask(address: SocketAddr) -> usize {
        let asked = tokio::time::timeout(Duration::from_secs(20), ask_patiently(address));
        asked.await.expect("the place is held")
    }

    async fn ask_patiently(address: SocketAddr) -> usize {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = String::from_utf8(REQUEST.to_vec()).unwrap();
        let head = head.replace("host", "connection: close\r\nhost");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        answer.len()
    }

    #[tokio::test]
    async fn half_a_head_and_silence_do_not_hold_a_place() {
        let server = server(MOMENT, FOREVER).await;
        let mut slow = TcpStream::connect(server.address).await.unwrap();
        slow.write_all(b"GET /large HT").await.unwrap();
        let mut silent = TcpStream::connect(server.address).await.unwrap();
        assert!(ask(server.address).await > LARGE);
        for stream in [&mut slow, &mut silent] {
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).await.unwrap();
            assert!(rest.is_empty() || rest.starts_with(b"HTTP/1.1 408"), "{rest:?}");
        }
    }

    #[tokio::test]
    async fn whoever_does_not_read_its_answer_loses_its_place() {
        let server = server(FOREVER, MOMENT).await;
        let mut deaf = TcpStream::connect(server.address).await.unwrap();
        deaf.write_all(REQUEST).await.unwrap();
        assert!(ask(server.address).await > LARGE);
        drop(deaf);
    }

    /// Sends all of a body that the server does not want, and then reads the answer.
    async fn push(address: SocketAddr, bytes: usize) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address).await?;
        let head = format!("POST /large HTTP/1.1\r\nhost: x\r\ncontent-length: {bytes}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(&vec![0; bytes]).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    #[tokio::test]
    async fn an_early_answer_reaches_a_client_that_still_sends() {
        let server = server(FOREVER, FOREVER).await;
        let answer = push(server.address, LARGE).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    }

    #[tokio::test]
    async fn what_nobody_wants_is_read_within_bounds() {
        let patient = Linger { silence: FOREVER, total: FOREVER, ..Linger::default() };
        let with = |linger| serve_with(Limits { linger, ..Limits::default() });
        let server = with(Linger { bytes: 1 << 20, ..patient }).await;
        assert!(push(server.address, LARGE).await.is_err(), "all of it was read");
        for linger in [Linger { silence: MOMENT, ..patient }, Linger { total: MOMENT, ..patient }] {
            let server = with(linger).await;
            let mut half = TcpStream::connect(server.address).await.unwrap();
            half.write_all(HALF).await.unwrap();
            assert!(ask(server.address).await > LARGE, "half a body holds a place");
        }
    }

    #[tokio::test]
    async fn the_end_does_not_wait_for_a_client_that_still_sends() {
        let linger = Linger { silence: FOREVER, total: FOREVER, ..Linger::default() };
        let server = serve_with(Limits { linger, ..Limits::default() }).await;
        let mut half = TcpStream::connect(server.address).await.unwrap();
        half.write_all(HALF).await.unwrap();
        let mut first = [0; 12];
        half.read_exact(&mut first).await.unwrap();
        // The answer was sent, so by now the server waits for the rest of the body.
        tokio::time::sleep(MOMENT).await;
        drop(server.end);
        let ended = tokio::time::timeout(Duration::from_secs(20), server.task).await;
        ended.expect("it waits for the client").unwrap();
    }

    #[tokio::test]
    async fn the_end_waits_for_answers_and_not_for_idle_connections() {
        let server = server(FOREVER, FOREVER).await;
        let mut reader = TcpStream::connect(server.address).await.unwrap();
        reader.write_all(REQUEST).await.unwrap();
        let mut first = [0; 12];
        reader.read_exact(&mut first).await.unwrap();
        drop(server.end);
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() > LARGE, "the answer was cut off");
        server.task.await.unwrap();
    }
}
