//! The answer to one request for text: pieces as they come, then one end.
//!
//! ```text
//!   pieces ──► reason ──► usage ──► [DONE]
//!      │          └── nothing more for a moment: our own count is the usage
//!      └── over the cap: the answer ends here, and the server is told by closing the link
//! ```
//!
//! Dropping the answer cancels the work at the server.

use super::{
    answer::{Event, FinishReason, Finished, Usage},
    error::{Breach, ProxyError},
    http::Bytestream,
    meter::{Allowed, Meter},
    sse::Reader,
    wire,
};
use std::time::Duration;

/// How long the usage may follow the reason.
const SETTLE: Duration = Duration::from_secs(2);
/// The event that ends a stream.
const DONE: &[u8] = b"[DONE]";

/// An answer that is being written.
#[derive(Debug)]
pub struct Answer {
    /// Dropped, and so closed, at the end.
    bytes: Option<Bytestream>,
    reader: Reader,
    meter: Meter,
    reason: Option<FinishReason>,
    declared: Option<Usage>,
}

/// What reading on gave.
enum Read {
    Event(Vec<u8>),
    End,
}

impl Answer {
    pub(super) const fn new(bytes: Bytestream, reader: Reader, meter: Meter) -> Self {
        Self { bytes: Some(bytes), reader, meter, reason: None, declared: None }
    }

    /// The next event; `None` after the end. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Result<Option<Event>, ProxyError> {
        if self.bytes.is_none() {
            return Ok(None);
        }
        let next = self.advance().await;
        if !matches!(next, Ok(Event::Piece(_))) {
            self.bytes = None;
        }
        next.map(Some)
    }

    async fn advance(&mut self) -> Result<Event, ProxyError> {
        loop {
            let event = match self.read().await? {
                Read::Event(event) if event == DONE => return self.finish(),
                Read::Event(event) => event,
                Read::End => return self.finish(),
            };
            let step = wire::step(&event)?;
            self.declared = step.usage.or(self.declared);
            let allowed = self.meter.take(&step.piece, step.hidden);
            if allowed == Allowed::Enough {
                // The server goes on beyond what was allowed. What it says later is not waited for.
                self.reason = Some(FinishReason::Length);
                return self.finish();
            }
            if allowed == Allowed::Flood {
                return Err(Breach::TooLong { what: "the text", limit: self.meter.most() }.into());
            }
            self.reason = step.reason.or(self.reason);
            if !step.piece.text.is_empty() || !step.piece.logprobs.is_empty() {
                return Ok(Event::Piece(step.piece));
            }
        }
    }

    /// The next whole event of the stream.
    async fn read(&mut self) -> Result<Read, ProxyError> {
        loop {
            if let Some(event) = self.reader.next() {
                return Ok(Read::Event(event));
            }
            let Some(bytes) = &mut self.bytes else { return Ok(Read::End) };
            let bytes = if self.reason.is_some() {
                // The text is there; a server that says nothing more only loses its word on usage.
                match tokio::time::timeout(SETTLE.min(bytes.silence()), bytes.next()).await {
                    Ok(Ok(bytes)) => bytes,
                    Ok(Err(_)) | Err(_) => None,
                }
            } else {
                bytes.next().await?
            };
            let Some(bytes) = bytes else { return Ok(Read::End) };
            self.reader.push(&bytes)?;
        }
    }

    fn finish(&self) -> Result<Event, ProxyError> {
        let reason = self.reason.ok_or(Breach::Cut)?;
        Ok(Event::Finished(Finished { reason, usage: self.meter.usage(self.declared) }))
    }
}
