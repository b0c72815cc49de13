//! The market as a node shows it: standing offers and an account's tasks.

use crate::{Rpc, RpcError};
use opengpu_market::reputation;
use opengpu_types::{
    Address, Amount, Entry, Key, Millis, Offer, Permille, Reputation, Shelved, Task, TaskId,
};
use opengpu_verify::ladder;

/// An offer that stands on a shelf, with what the chain knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingOffer {
    /// Whose.
    pub provider: Address,
    /// Which of its offers.
    pub place: u8,
    /// What is offered.
    pub offer: Offer,
    /// Devices that are not leased.
    pub free: u8,
    /// How fast its provider was beside what its rating promises, in thousandths.
    pub pace: u16,
    /// How reliable its provider was.
    pub reliability: Permille,
    /// In how much of its time its provider was not silent.
    pub uptime: Permille,
    /// How long ago its provider was heard of on chain; while it has no lease it need not be.
    pub quiet: Millis,
    /// How long ago a trial showed the devices of its provider, if one did.
    pub proven: Option<Millis>,
    /// Most that one more lease of its provider may be paid.
    pub room: Amount,
}

/// All standing offers, in the sequence of shelves.
pub fn offers(rpc: &Rpc) -> Result<Vec<StandingOffer>, RpcError> {
    let parameters = rpc.parameters()?.parameters.market;
    let now = now(rpc)?;
    let count = match rpc.entry(&Key::Shelves)? {
        Some(Entry::Shelves(count)) => count,
        _ => 0,
    };
    let mut offers = Vec::new();
    for shelf in 0..count {
        let Some(Entry::Shelf(shelf)) = rpc.entry(&Key::Shelf(shelf))? else { continue };
        for Shelved { provider, offer: place, .. } in &shelf.offers {
            let Some(Entry::Provider(entry)) = rpc.entry(&Key::Provider(*provider))? else {
                continue;
            };
            let Some(offered) = entry.offers.get(usize::from(*place)) else { continue };
            let mut record = entry.reputation;
            reputation::refresh(&mut record, now, parameters.half_life);
            let room = ladder::room(&entry, &parameters);
            let bears = ladder::bears(&entry, &parameters, room);
            offers.push(StandingOffer {
                provider: *provider,
                place: *place,
                offer: offered.offer.clone(),
                free: offered.offer.devices.saturating_sub(offered.leased),
                pace: offered.pace,
                reliability: reputation::reliability(&record),
                uptime: reputation::uptime(&record),
                quiet: now.since(entry.heard),
                proven: entry.proven.map(|at| now.since(at)),
                room: if bears { room } else { Amount::ZERO },
            });
        }
    }
    Ok(offers)
}

/// How reliable a client was, as the chain counts it.
pub fn reliability(rpc: &Rpc, client: Address) -> Result<Permille, RpcError> {
    let half_life = rpc.parameters()?.parameters.market.half_life;
    let mut record = match rpc.entry(&Key::Client(client))? {
        Some(Entry::Client(client)) => client.reputation,
        _ => Reputation::default(),
    };
    reputation::refresh(&mut record, now(rpc)?, half_life);
    Ok(reputation::reliability(&record))
}

/// The time of the chain.
pub fn now(rpc: &Rpc) -> Result<Millis, RpcError> {
    Ok(match rpc.entry(&Key::Chain)? {
        Some(Entry::Chain(chain)) => chain.time,
        _ => Millis(0),
    })
}

/// The open tasks of an account.
pub fn open_tasks(rpc: &Rpc, client: Address) -> Result<Vec<(TaskId, Task)>, RpcError> {
    let Some(Entry::Client(client)) = rpc.entry(&Key::Client(client))? else {
        return Ok(Vec::new());
    };
    let mut tasks = Vec::new();
    for id in &client.tasks {
        tasks.extend(task(rpc, *id)?.map(|task| (*id, task)));
    }
    Ok(tasks)
}

/// A task, while the chain keeps it.
pub fn task(rpc: &Rpc, id: TaskId) -> Result<Option<Task>, RpcError> {
    Ok(match rpc.entry(&Key::Task(id))? {
        Some(Entry::Task(task)) => Some(task.into_inner()),
        _ => None,
    })
}
