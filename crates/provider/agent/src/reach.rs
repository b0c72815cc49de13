//! The way to another provider, by what the chain says of it.

use crate::chain::{Chain, ChainError};
use opengpu_link::{Address, DialError, Endpoint, EndpointId, RelayUrl, Session};
use opengpu_types::{Address as Account, Entry, Key};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// How long one of them may take to be reached.
const DIAL: Duration = Duration::from_millis(1_500);

/// Why a provider is not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreached {
    /// The chain does not answer.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// It has left.
    #[error("it is not on chain")]
    Gone,
    /// The chain does not say where it is.
    #[error("it names no relay")]
    NoRelay,
    /// It is away.
    #[error("it does not answer")]
    Silent,
    /// It does not want us.
    #[error(transparent)]
    Dial(#[from] DialError),
}

/// Dials a provider.
pub(crate) async fn dial(
    endpoint: &Endpoint,
    chain: &Arc<dyn Chain>,
    account: Account,
) -> Result<Session, Unreached> {
    let chain = Arc::clone(chain);
    let found = spawn_blocking(move || chain.entry(&Key::Provider(account))).await;
    let Some(Entry::Provider(provider)) = found.map_err(|_| Unreached::Gone)?? else {
        return Err(Unreached::Gone);
    };
    let relay = provider.contact.relay.as_str();
    let relay: RelayUrl = relay.parse().map_err(|_| Unreached::NoRelay)?;
    let address = Address::on_relay(EndpointId(provider.contact.session.0), relay);
    Ok(timeout(DIAL, endpoint.dial(&address)).await.map_err(|_| Unreached::Silent)??)
}
