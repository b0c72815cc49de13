//! Sessions: two endpoints that know each other's key ask each other things.
//!
//! ```text
//!   asker                                  answerer
//!     |-- frame: kind (2) | body ------------>|      one stream per request, both ways alike
//!     |<------------- frame: status | body ---|      0, or why it was refused
//!     |<-- frames and bare bytes, as the kind says -->|
//! ```
//!
//! Both ends ask and both answer, whoever dialled; so a provider behind a router, which only dials
//! out, can be asked, and whoever sends something lets the other end fetch it on the same link.
//!
//! Invariants:
//! - The other end of a session has proven the key that is its id; what it may do is for whoever
//!   answers to decide by that id. An id that the [`Gate`] does not admit gets no stream at all.
//! - Every frame, every number of streams and sessions, and every wait has a limit ([`Limits`]).
//! - A refusal is one byte. The reason in words stays in the own log.

mod frame;
mod router;

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use iroh::endpoint::{Connection, ReadExactError, RecvStream, SendStream};
use tokio::time::timeout;

pub use frame::{FrameError, MAX_FRAME};
pub(crate) use router::serve;
pub use router::{Answering, Exchange, Handler, Router};

use crate::EndpointId;

/// The name of the protocol between two endpoints.
pub const ALPN: &[u8] = b"opengpu/session/1";

/// What is asked. Kinds below 256 belong to this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(pub u16);

/// Limits of sessions.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Requests that one session may have open towards us.
    pub streams: u32,
    /// Sessions that all others may have open towards us.
    pub sessions: usize,
    /// Of these, sessions of one endpoint.
    pub sessions_each: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long the other end may do nothing while we wait for it.
    pub idle: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            streams: 64,
            sessions: 1024,
            sessions_each: 4,
            handshake: Duration::from_secs(10),
            idle: Duration::from_secs(20),
        }
    }
}

/// Why the other end does not do what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It does not know the kind of request.
    #[error("unknown kind of request")]
    Unknown,
    /// It does not do this for us.
    #[error("not allowed")]
    Denied,
    /// It does not have it.
    #[error("not there")]
    Missing,
    /// It has no room or no time now.
    #[error("no room or no time now")]
    Busy,
    /// The request makes no sense.
    #[error("not a valid request")]
    Invalid,
    /// It tried and failed.
    #[error("failed at the other end")]
    Failed,
}

/// A status and its byte; zero is none of them.
const REFUSALS: [(u8, Refusal); 6] = [
    (1, Refusal::Unknown),
    (2, Refusal::Denied),
    (3, Refusal::Missing),
    (4, Refusal::Busy),
    (5, Refusal::Invalid),
    (6, Refusal::Failed),
];

impl Refusal {
    /// A byte that is no status is a failure of the other end.
    fn of(byte: u8) -> Self {
        REFUSALS
            .iter()
            .find(|(code, _)| *code == byte)
            .map_or(Self::Failed, |(_, refusal)| *refusal)
    }

    fn byte(self) -> u8 {
        REFUSALS.iter().find(|(_, refusal)| *refusal == self).map_or(6, |(code, _)| *code)
    }
}

/// Why a request came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The other end said no.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It did nothing for too long.
    #[error("the other end did nothing for {} s", .0.as_secs())]
    Stalled(Duration),
    /// It said what makes no sense here.
    #[error("the other end broke the protocol: {0}")]
    Broken(&'static str),
    /// The link is gone.
    #[error("the session is lost")]
    Lost(#[source] std::io::Error),
}

impl From<FrameError> for SessionError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::TooLong { .. } => Self::Broken("a frame over the limit"),
            FrameError::Stream(error) => Self::Lost(error),
        }
    }
}

fn lost(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SessionError {
    SessionError::Lost(std::io::Error::other(error))
}

/// A link to one other endpoint. Clones share it; with the last clone of whoever dialled, it ends.
#[derive(Clone, Debug)]
pub struct Session {
    connection: Connection,
    idle: Duration,
    _closer: Option<Arc<Closer>>,
}

#[derive(Debug)]
struct Closer(Connection);

impl Drop for Closer {
    fn drop(&mut self) {
        self.0.close(0_u8.into(), b"done");
    }
}

impl Session {
    /// The link of whoever dialled.
    pub(crate) fn dialled(connection: Connection, limits: &Limits) -> Self {
        let closer = Some(Arc::new(Closer(connection.clone())));
        Self { connection, idle: limits.idle, _closer: closer }
    }

    /// The link as those see it who answer on it.
    pub(crate) const fn answering(connection: Connection, limits: &Limits) -> Self {
        Self { connection, idle: limits.idle, _closer: None }
    }

    /// Who is at the other end.
    pub fn remote(&self) -> EndpointId {
        self.connection.remote_id().into()
    }

    /// Asks, and returns the answer with the stream, on which more may follow.
    pub async fn ask(&self, kind: Kind, body: &[u8]) -> Result<(Bytes, Stream), SessionError> {
        let opened = within(self.idle, async { self.connection.open_bi().await.map_err(lost) });
        let (send, receive) = opened.await?;
        let mut stream = Stream { send, receive, idle: self.idle };
        stream.write(&[&kind.0.to_be_bytes(), body]).await?;
        let mut answer = stream.next().await?.ok_or(SessionError::Broken("no answer"))?;
        if answer.is_empty() {
            return Err(SessionError::Broken("an answer without a status"));
        }
        match answer.get_u8() {
            0 => Ok((answer, stream)),
            byte => Err(Refusal::of(byte).into()),
        }
    }

    /// Asks what one frame answers.
    pub async fn call(&self, kind: Kind, body: &[u8]) -> Result<Bytes, SessionError> {
        let (answer, mut stream) = self.ask(kind, body).await?;
        stream.finish();
        Ok(answer)
    }

    /// Ends the session for both.
    pub fn close(&self) {
        self.connection.close(0_u8.into(), b"closed");
    }

    /// Waits until the session has ended.
    pub async fn closed(&self) {
        self.connection.closed().await;
    }
}

/// One request on its way: frames and bare bytes in both directions.
#[derive(Debug)]
pub struct Stream {
    send: SendStream,
    receive: RecvStream,
    idle: Duration,
}

impl Stream {
    /// Waits so long for the other end from now on: longer, as for the lines of a quiet log, or not so
    /// long, where others wait for their turn.
    #[must_use]
    pub fn patient(mut self, idle: Duration) -> Self {
        self.idle = idle;
        self
    }

    /// The next frame; none when the other end has finished.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SessionError> {
        let frame = frame::read(&mut self.receive);
        within(self.idle, async { Ok(frame.await?) }).await
    }

    /// Sends a frame.
    pub async fn send(&mut self, frame: &[u8]) -> Result<(), SessionError> {
        self.write(&[frame]).await
    }

    async fn write(&mut self, parts: &[&[u8]]) -> Result<(), SessionError> {
        let written = frame::write(&mut self.send, parts);
        within(self.idle, async { Ok(written.await?) }).await
    }

    /// Sends bytes without a frame, whose number both know.
    pub async fn send_bytes(&mut self, bytes: Bytes) -> Result<(), SessionError> {
        let written = self.send.write_chunk(bytes);
        within(self.idle, async { written.await.map_err(lost) }).await
    }

    /// Fills `bytes` with what comes without a frame.
    pub async fn read_bytes(&mut self, bytes: &mut [u8]) -> Result<(), SessionError> {
        let read = self.receive.read_exact(bytes);
        within(self.idle, async {
            read.await.map_err(|error| match error {
                ReadExactError::FinishedEarly(_) => SessionError::Broken("fewer bytes than agreed"),
                ReadExactError::ReadError(error) => lost(error),
            })
        })
        .await
    }

    /// Says that nothing more is sent.
    pub fn finish(&mut self) {
        // It fails only if the other end does not listen any more.
        let _ = self.send.finish();
    }
}

async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, SessionError>>,
) -> Result<T, SessionError> {
    timeout(limit, work).await.unwrap_or(Err(SessionError::Stalled(limit)))
}

/// Who may open a session with us. Ids come from the keys on chain.
pub trait Gate: Send + Sync + 'static {
    /// Whether this endpoint may.
    fn admits(&self, remote: EndpointId) -> bool;
}

impl<F: Fn(EndpointId) -> bool + Send + Sync + 'static> Gate for F {
    fn admits(&self, remote: EndpointId) -> bool {
        self(remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_byte_of_its_own_and_other_bytes_are_failures() {
        for (byte, refusal) in REFUSALS {
            assert_eq!((refusal.byte(), Refusal::of(byte)), (byte, refusal));
        }
        assert_eq!(Refusal::of(99), Refusal::Failed);
        assert!(REFUSALS.iter().all(|(byte, _)| *byte != 0));
    }
}
