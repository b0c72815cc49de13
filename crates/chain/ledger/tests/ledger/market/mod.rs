//! The market: providers, tasks, auctions, leases and what they are paid.

mod again;
mod agenda;
mod auction;
mod audit;
pub(crate) mod audited;
pub(crate) mod bazaar;
pub(crate) mod lease;
mod provider;
mod settlement;
mod size;
mod task;
pub(crate) mod trial;
pub(crate) mod tried;
mod verdict;
