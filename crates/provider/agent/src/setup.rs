//! What an agent is put together from: its threads of sessions and of its owner, and how others reach it.

use crate::agent::Config;
use crate::chain::{Chain, ChainError};
use crate::core::Settings;
use crate::delivery::Depot;
use crate::desk::{Inbox, spawn};
use crate::door::Door;
use crate::offering::Range;
use crate::presence::{self, Presence};
use crate::reception::Reception;
use crate::record::Records;
use opengpu_crypto::SealKeypair;
use opengpu_link::Endpoint;
use opengpu_link::session::Router;
use opengpu_link::transfer::Holder;
use opengpu_types::{Contact, Millis, SessionKey, Text};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Runtime;

/// What the core is set up with.
pub(crate) fn settings(
    config: &Config,
    (range, contact): (&Range, &Contact),
    chain: &dyn Chain,
) -> Result<Settings, ChainError> {
    Ok(Settings {
        chain: chain.id(),
        account: chain.account(),
        policy: config.policy.clone(),
        contact: contact.clone(),
        offers: range.offers.clone(),
        market: chain.parameters()?,
        brief: config.brief,
        boundary: Millis(4_000),
    })
}

/// The thread that looks for the owner.
pub(crate) fn watch_owner(
    mut presence: Box<dyn Presence>,
    away: Duration,
    inbox: Inbox,
    stop: Arc<AtomicBool>,
) -> io::Result<JoinHandle<()>> {
    spawn("agent-owner", move || presence::watch(&mut *presence, away, &inbox, &stop))
}

/// The threads of sessions.
pub(crate) fn runtime() -> io::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().thread_name("agent-link").build()
}

/// Everything that is answered in sessions.
pub(crate) fn router(door: &Door, depot: &Depot, records: &Records, inbox: &Inbox) -> Router {
    let reception = Reception {
        board: door.board.clone(),
        depot: depot.clone(),
        records: records.clone(),
        inbox: inbox.clone(),
        taking: Arc::default(),
    };
    let custody = &door.custody;
    let holder = Holder::new(depot.store.clone(), door.clone()).beside(custody.store());
    let router = custody.clone().answer_on(holder.answer_on(Router::default()));
    reception.answer_on(router)
}

/// How others reach this endpoint and seal to it.
pub(crate) fn contact(endpoint: &Endpoint, sealing: &SealKeypair) -> Contact {
    Contact {
        session: SessionKey(endpoint.id().0),
        sealing: sealing.public_key(),
        relay: relay_text(endpoint).unwrap_or_default(),
    }
}

/// The relay of an endpoint as the chain has it; none if it is too long.
pub(crate) fn relay_text(endpoint: &Endpoint) -> Option<Text<128>> {
    let relay = endpoint.address().relay.map(|relay| relay.to_string());
    Text::new(relay.unwrap_or_default()).ok()
}
