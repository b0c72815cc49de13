//! The server: OpenAI's API on a socket, and its end.
//!
//! At the end running requests may finish for a while; then they are told that it is over.

use crate::{
    engine::Engine,
    metrics::{Gauge, Metrics},
    openai::{self, Ending},
    settings::{ServeError, Settings},
};
use std::{future::Future, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::watch, time::timeout};

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
    let connections = opengpu_http::Limits {
        sockets: limits.sockets,
        head: limits.head,
        stall: limits.stall,
        ..opengpu_http::Limits::default()
    };
    let raise = || metrics.raise(Gauge::Sockets);
    let mut open = opengpu_http::serve(&listener, router, connections, end, raise).await;
    drop(listener);
    phase.send_replace(Ending::Soon);
    if timeout(limits.grace, open.finish()).await.is_err() {
        phase.send_replace(Ending::Now);
        let _ = timeout(FAREWELL, open.finish()).await;
    }
    // Whoever still does not read is cut off now.
    Ok(())
}
