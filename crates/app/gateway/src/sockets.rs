//! Sockets: a bounded number of them, none of which may hold its place by doing nothing.
//!
//! - One over the limit waits in the system's queue until another has ended.
//! - A head that does not arrive in time, and a socket on which no request follows, are closed.
//! - So is one whose reader does not take what is sent to it.
//! - When the client closes its socket, what was being done for it is dropped with it.
//! - At the end running requests may finish for a while; then they are told that it is over.

use crate::{
    engine::Engine,
    metrics::{Gauge, Metrics, Raised},
    openai::{self, Ending},
    settings::{Limits, ServeError, Settings},
};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use std::{
    future::Future,
    io,
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
    time::{Sleep, timeout},
};

/// Pause after the system has refused a socket, for example for want of file handles.
const PAUSE: Duration = Duration::from_millis(200);
/// Bytes of a request's head.
const MAX_HEAD: usize = 64 * 1024;
/// Headers of a request.
const MAX_HEADERS: usize = 64;
/// How long requests may take to say that it is over.
const FAREWELL: Duration = Duration::from_secs(1);

/// Serves OpenAI's API until `end` resolves, and for a while what is being answered then.
pub async fn serve(
    listener: TcpListener,
    engine: Arc<dyn Engine>,
    settings: Settings,
    end: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    let address = listener.local_addr().map_err(|source| ServeError::Listener { source })?;
    settings.check(address)?;
    let limits = settings.limits;
    let metrics = Arc::new(Metrics::default());
    let (phase, ending) = watch::channel(Ending::NotYet);
    let router = openai::router(engine, settings, metrics.clone(), ending.clone());
    let mut open = JoinSet::new();
    let room = Arc::new(Semaphore::new(limits.sockets));
    let mut end = pin!(end);
    loop {
        let (stream, room) = tokio::select! {
            () = &mut end => break,
            Some(_) = open.join_next() => continue,
            accepted = accept(&listener, &room) => accepted,
        };
        let raised = metrics.raise(Gauge::Sockets);
        open.spawn(answer(stream, router.clone(), limits, ending.clone(), (room, raised)));
    }
    drop(listener);
    phase.send_replace(Ending::Soon);
    let all = async { while open.join_next().await.is_some() {} };
    if timeout(limits.grace, all).await.is_err() {
        phase.send_replace(Ending::Now);
        let all = async { while open.join_next().await.is_some() {} };
        let _ = timeout(FAREWELL, all).await;
    }
    // Whoever still does not read is cut off when the set is dropped.
    Ok(())
}

async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> (TcpStream, OwnedSemaphorePermit) {
    let room = room.clone().acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, room),
            Err(error) => {
                tracing::debug!(%error, "a socket was not accepted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers one socket's requests; its room is free when it ends.
async fn answer(
    stream: TcpStream,
    router: Router,
    limits: Limits,
    mut ending: watch::Receiver<Ending>,
    _room: (OwnedSemaphorePermit, Raised),
) {
    // Pieces are small and waited for.
    let _ = stream.set_nodelay(true);
    let service = TowerToHyperService::new(router);
    let io = TokioIo::new(Patient::new(stream, limits.stall));
    let mut link = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(MAX_HEAD)
            .max_headers(MAX_HEADERS)
            .serve_connection(io, service)
    );
    tokio::select! {
        // A client that breaks off is not our fault.
        _ = link.as_mut() => return,
        _ = ending.changed() => link.as_mut().graceful_shutdown(),
    }
    let _ = link.await;
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

    /// Lets an outcome through; one that is not there yet is waited for only so long.
    fn allow<T>(
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
        self.allow(sent, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.allow(sent, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let sent = Pin::new(&mut self.stream).poll_flush(context);
        self.allow(sent, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
