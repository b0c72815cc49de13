//! Encrypted sessions between endpoints, and artifacts that travel over them.
//!
//! What it is: client, gateway and provider find each other by key and relay, ask each other things
//! over sessions that nobody on the way can read, and move artifacts that are verified while they
//! arrive. An artifact is encrypted once under a key of its own and addressed by the hash of its
//! ciphertext; holders and relays pass on what they cannot open.
//!
//! What it is not: it does not know the chain. Which keys may talk to us, what they may fetch and
//! what they may leave is asked of whoever uses it ([`session::Gate`], [`transfer::Policy`]). It
//! decides nothing about leases and tasks, and runs nothing.
//!
//! | module | holds |
//! |---|---|
//! | [`Endpoint`], [`Address`] | an endpoint with our configuration, and how it is reached |
//! | [`Relay`] | the relay as a role of our own binary |
//! | [`session`] | requests and answers, frames and bare bytes, limits |
//! | [`artifact`] | address, outline, cipher and grants; pure |
//! | [`Store`] | artifacts on disk, within a quota, whole or in part |
//! | [`transfer`] | fetching from several holders, having something kept elsewhere |
//! | [`folder`] | folders as artifacts |
//! | [`lease`] | what client and provider of one lease say to each other |
//!
//! Invariants of absence: no relay, name server or directory of others; no address of a home in
//! anything that is published; no path that comes from outside; no byte that counts unchecked.

pub mod artifact;
mod endpoint;
pub mod folder;
mod id;
pub mod lease;
mod relay;
pub mod session;
mod store;
pub mod transfer;

pub use endpoint::{BindError, Config, DialError, Endpoint};
pub use id::{Address, AddressError, EndpointId};
pub use iroh::RelayUrl;
pub use relay::{Relay, RelayError, RelaySetup, RelayTls};
pub use session::Session;
pub use store::{Content, Pinned, Quota, Reader, Store, StoreError};
