//! Others that are measured beside ours in more than one bench, each started and ended by us.

mod nats;
mod script;

pub(crate) use nats::Nats;
pub(crate) use script::Script;
