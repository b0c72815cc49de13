//! Connections: a bounded number of them, none of which may hold its place by doing nothing.
//!
//! - One over the limit waits in the system's queue until another has ended.
//! - A head that does not arrive in time, and a connection on which no request follows, are closed.
//! - So is one whose reader does not take what is sent to it.
//! - At the end, running requests are answered and everything else is closed.

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
use std::{
    future::Future as _,
    io,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::Sleep,
};

/// Pause after the system has refused a connection, for example for want of file handles.
const PAUSE: Duration = Duration::from_millis(200);

/// What connections may do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Connections at once.
    pub(super) connections: usize,
    /// How long the head of a request may take, counted from when the last one was answered.
    pub(super) head: Duration,
    /// How long a reader may take nothing while there is something to send.
    pub(super) stall: Duration,
}

/// Serves until the sender of `ending` is dropped, and what is being answered then.
pub(super) async fn serve(
    listener: &TcpListener,
    router: Router,
    limits: Limits,
    mut ending: watch::Receiver<()>,
) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(limits.connections));
    let mut open = JoinSet::new();
    loop {
        let (stream, peer, room) = tokio::select! {
            _ = ending.changed() => break,
            Some(_) = open.join_next() => continue,
            accepted = accept(listener, &room) => accepted,
        };
        open.spawn(answer(stream, peer, router.clone(), limits, ending.clone(), room));
    }
    while open.join_next().await.is_some() {}
    Ok(())
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

/// Answers one connection's requests; its room is free when it ends.
async fn answer(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    limits: Limits,
    mut ending: watch::Receiver<()>,
    _room: OwnedSemaphorePermit,
) {
    // Answers are small and waited for.
    let _ = stream.set_nodelay(true);
    let router = TowerToHyperService::new(router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(ConnectInfo(peer));
        router.call(request)
    });
    let io = TokioIo::new(Patient::new(stream, limits.stall));
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .serve_connection(io, service)
    );
    tokio::select! {
        // A client that breaks off is not our fault.
        _ = connection.as_mut() => return,
        _ = ending.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// A stream that fails when its reader takes nothing for too long.
struct Patient<S> {
    stream: S,
    stall: Duration,
    /// Runs while there is something to send and no room for it.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    const fn new(stream: S, stall: Duration) -> Self {
        Self { stream, stall, stalled: None }
    }

    /// Lets a result through; one that is not there yet is waited for only so long.
    fn judge<T>(
        &mut self,
        sent: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if sent.is_ready() {
            self.stalled = None;
            return sent;
        }
        let stall = self.stall;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(stall)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(sent, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(sent, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    const FOREVER: Duration = Duration::from_secs(3_600);
    const MOMENT: Duration = Duration::from_millis(50);
    const REQUEST: &[u8] = b"GET /large HTTP/1.1\r\nhost: x\r\n\r\n";
    const LARGE: usize = 32 * 1024 * 1024;

    struct Server {
        address: SocketAddr,
        end: watch::Sender<()>,
        task: tokio::task::JoinHandle<io::Result<()>>,
    }

    /// A server with room for one connection.
    async fn server(head: Duration, stall: Duration) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/large", get(|| async { vec![0_u8; LARGE] }));
        let (end, ending) = watch::channel(());
        let limits = Limits { connections: 1, head, stall };
        let task = tokio::spawn(async move { serve(&listener, router, limits, ending).await });
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
        server.task.await.unwrap().unwrap();
    }
}
