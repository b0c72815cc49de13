//! Final blocks as they come, as server-sent events.
//!
//! A reader begins now, or behind the height in `Last-Event-ID`; blocks of the past are read one by
//! one as the reader takes them, so that catching up costs no memory. Events come in the order of
//! heights without gaps. A reader that is further behind than the feed's buffer loses the stream,
//! and comes back with the last height it saw.

use super::{
    Api,
    problem::{Answer, Refused},
    view::parse,
};
use crate::feed::{Feed, StreamEvent};
use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse,
        sse::{Event, KeepAlive, Sse},
    },
};
use commonware_runtime::telemetry::metrics::Gauge;
use opengpu_client::api::BlockEvent;
use opengpu_types::Height;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::sync::{OwnedSemaphorePermit, broadcast, watch};

/// A silent connection is shown to live this often.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) async fn stream(
    State(api): State<Api>,
    headers: HeaderMap,
) -> Answer<impl IntoResponse> {
    let Ok(room) = api.0.subscribers.clone().try_acquire_owned() else {
        return Err(Refused::busy("the stream has as many readers as it can"));
    };
    let feed = api.0.feed.clone();
    // Subscribed before the look at the newest block, so that none is missed between the two.
    let events = feed.subscribe();
    let newest = api.view().await?.height();
    let next = match headers.get("last-event-id") {
        None => newest.next(),
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            Height(parse(text, "a height")?).next()
        }
    };
    let kept = feed.recorded(move |records| records.header(next)).await?;
    if next <= newest && kept.is_none() {
        return Err(Refused::not_kept(format!("this node does not keep block {next}")));
    }
    let subscribers = feed.metrics().subscribers.clone();
    subscribers.inc();
    let ending = api.0.ending.clone();
    let reader = Reader {
        feed,
        events,
        next,
        held: None,
        ending,
        counted: Counted(subscribers),
        _room: room,
    };
    let stream = futures::stream::unfold(reader, |mut reader| async move {
        let event = reader.read().await?;
        let event = Event::default()
            .id(event.height.to_string())
            .event(BlockEvent::NAME)
            .data(event.data.as_str());
        Some((Ok::<_, Infallible>(event), reader))
    });
    Ok(Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)))
}

/// One reader of the stream.
struct Reader {
    feed: Feed,
    events: broadcast::Receiver<Arc<StreamEvent>>,
    next: Height,
    /// A newer block that came while older ones were read.
    held: Option<Arc<StreamEvent>>,
    ending: watch::Receiver<()>,
    #[expect(dead_code, reason = "counts the reader until it leaves")]
    counted: Counted,
    _room: OwnedSemaphorePermit,
}

impl Reader {
    /// The next block in order; `None` ends the stream.
    async fn read(&mut self) -> Option<Arc<StreamEvent>> {
        loop {
            let newer = match self.held.take() {
                Some(event) => event,
                None => match self.feed.past(self.next).await.ok()? {
                    Some(event) => Arc::new(event),
                    None => self.receive().await?,
                },
            };
            if newer.height > self.next {
                // The feed is ahead: what lies between is read from the records.
                let past = self.feed.past(self.next).await.ok()??;
                self.held = Some(newer);
                self.next = self.next.next();
                return Some(Arc::new(past));
            }
            if newer.height == self.next {
                self.next = self.next.next();
                return Some(newer);
            }
        }
    }

    async fn receive(&mut self) -> Option<Arc<StreamEvent>> {
        tokio::select! {
            event = self.events.recv() => event.ok(),
            // The sender is dropped when the RPC ends.
            _ = self.ending.changed() => None,
        }
    }
}

/// Counts a reader as long as it is there.
struct Counted(Gauge);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.dec();
    }
}
