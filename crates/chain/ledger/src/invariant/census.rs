//! One walk over the whole state that gathers what the invariants ask about.
//!
//! Keys are sorted, owners before what they own: accounts before limits, validators before
//! delegations, pools before unbonding entries. So the walk fills sorted tables and looks each
//! owner up in them, and no invariant needs a walk of its own.

use super::{fits, held};
use crate::state::Memory;
use opengpu_types::{
    Address, Agenda, Alarm, Amount, Audit, ChainState, ClassIndex, Client, ConsensusKey,
    Delegation, Digest, Entry, Epoch, Key, KeyHolder, LeaseId, Parameters, Past, Provider, SeatSet,
    Shares, Shelf, Supply, Task, TaskId, Tick, Treasury, Trial, Unbonding, UnbondingId,
    UnbondingPool, Urgency, Validator,
};
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

/// What was found in a state.
#[derive(Debug, Default)]
pub struct Census<'a> {
    pub(super) chain: Option<&'a ChainState>,
    pub(super) parameters: Option<&'a Parameters>,
    pub(super) supply: Option<&'a Supply>,
    treasury: Option<&'a Treasury>,
    /// Tokens held by entries.
    pub(super) sums: Supply,
    /// An entry of another kind than its key, or out of range.
    pub(super) unsound: Option<&'a Key>,
    /// Keys of entries that end with an epoch.
    pub(super) dated: Vec<&'a Key>,
    /// In the order of consensus keys.
    pub(super) holders: Vec<(ConsensusKey, &'a KeyHolder)>,
    /// In the order of epochs.
    pub(super) seats: Vec<&'a SeatSet>,
    /// Number of the next unbonding entry.
    next_unbonding: UnbondingId,
    /// In the order of addresses.
    pub(super) accounts: Vec<Owner>,
    /// In the order of addresses.
    pub(super) validators: Vec<Bonded<'a>>,
    /// In the order of validator and epoch.
    pub(super) pools: Vec<Leaving<'a>>,
    /// In the order of addresses.
    pub(super) providers: Vec<(Address, &'a Provider)>,
    pub(super) pasts: Vec<(Address, &'a Past)>,
    /// How many shelves there should be.
    pub(super) shelf_count: u16,
    pub(super) shelves: BTreeMap<u16, &'a Shelf>,
    pub(super) classes: Vec<(Digest, &'a ClassIndex)>,
    /// In the order of addresses.
    pub(super) clients: Vec<(Address, &'a Client)>,
    /// In the order of their names.
    pub(super) tasks: Vec<(TaskId, &'a Task)>,
    /// In the order of tasks.
    pub(super) auctions: Vec<TaskId>,
    /// In the order of leases.
    pub(super) audits: Vec<(LeaseId, &'a Audit)>,
    /// In the order of addresses.
    pub(super) trials: Vec<(Address, &'a Trial)>,
    /// Where to go on with alarms that a block could not see to.
    pub(super) agendas: BTreeMap<Urgency, &'a Agenda>,
    /// All alarms that were set.
    pub(super) alarms: BTreeSet<(Alarm, Urgency, Tick)>,
    /// Something owned by nobody.
    pub(super) orphan: Option<&'a Key>,
    /// Where a sum of tokens or shares overflows.
    pub(super) overflow: Option<&'a Key>,
    /// Where the last account, validator and pool were found.
    owner: usize,
    bonded: usize,
    pool: usize,
}

/// An account: the entries it says it has, and those that were found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    pub(super) address: Address,
    pub(super) stated: u32,
    pub(super) found: u32,
}

/// A validator and the shares of its delegations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bonded<'a> {
    pub(super) address: Address,
    pub(super) validator: &'a Validator,
    pub(super) owned: Shares,
}

/// A pool of unbonding stake and the shares of its entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving<'a> {
    pub(super) validator: Address,
    pub(super) epoch: Epoch,
    pub(super) pool: &'a UnbondingPool,
    pub(super) owned: Shares,
}

impl<'a> Census<'a> {
    /// Walks over the state.
    pub fn of(state: &'a Memory) -> Self {
        let mut census = Self::default();
        for (key, entry) in state.iter() {
            census.count(key, entry);
        }
        if let Some(treasury) = census.treasury {
            census.own(&Key::Treasury, treasury.account);
        }
        census
    }

    fn count(&mut self, key: &'a Key, entry: &'a Entry) {
        if !fits(key, entry) {
            self.unsound = Some(key);
            return;
        }
        match (key, entry) {
            (Key::Chain, Entry::Chain(chain)) => self.chain = Some(chain),
            (Key::Parameters, Entry::Parameters(parameters)) => self.parameters = Some(parameters),
            (Key::Supply, Entry::Supply(supply)) => self.supply = Some(supply),
            (Key::Seats(_), Entry::Seats(seats)) => {
                self.dated.push(key);
                self.seats.push(seats);
            }
            (Key::Offences(_) | Key::Duty { .. }, _) => self.dated.push(key),
            (Key::NextUnbonding, Entry::NextUnbonding(next)) => self.next_unbonding = *next,
            (Key::ConsensusKey(consensus), Entry::KeyHolder(holder)) => {
                self.holders.push((*consensus, holder));
            }
            (Key::Account(address), Entry::Account(account)) => {
                let (address, stated) = (*address, account.entries);
                self.accounts.push(Owner { address, stated, found: 0 });
                self.hold(key, entry, true);
            }
            (Key::SpendingLimit { account, .. }, _) => {
                self.own(key, *account);
                self.hold(key, entry, true);
            }
            (Key::Vesting(account), Entry::Vesting(vesting)) => {
                self.own(key, *account);
                self.hold(key, entry, vesting.released <= vesting.total);
            }
            (_, Entry::Treasury(treasury)) => {
                self.treasury = Some(treasury);
                self.hold(key, entry, treasury.released <= treasury.total);
            }
            (Key::Validator(address), Entry::Validator(validator)) => {
                let (address, owned) = (*address, Shares(0));
                self.validators.push(Bonded { address, validator, owned });
                self.own(key, address);
                self.hold(key, entry, validator.commission_due <= validator.rewards);
            }
            (Key::Delegation { delegator, validator }, Entry::Delegation(delegation)) => {
                self.own(key, *delegator);
                self.delegated(key, *validator, delegation);
                self.hold(key, entry, true);
            }
            (Key::UnbondingPool { validator, epoch }, Entry::UnbondingPool(pool)) => {
                let (validator, epoch, owned) = (*validator, *epoch, Shares(0));
                self.pools.push(Leaving { validator, epoch, pool, owned });
                self.hold(key, entry, true);
            }
            (Key::Unbonding(id), Entry::Unbonding(unbonding)) => {
                self.own(key, unbonding.delegator);
                self.leaving(key, unbonding);
                self.hold(key, entry, *id < self.next_unbonding);
            }
            _ => self.count_market(key, entry),
        }
    }

    fn count_market(&mut self, key: &'a Key, entry: &'a Entry) {
        match (key, entry) {
            (Key::Provider(address), Entry::Provider(provider)) => {
                self.providers.push((*address, provider));
                self.own(key, *address);
                self.hold(key, entry, true);
            }
            (Key::Past(address), Entry::Past(past)) => {
                self.pasts.push((*address, past));
                self.own(key, *address);
                self.hold(key, entry, true);
            }
            (Key::Shelves, Entry::Shelves(count)) => self.shelf_count = *count,
            (Key::Shelf(number), Entry::Shelf(shelf)) => {
                self.shelves.insert(*number, shelf);
            }
            (Key::ClassIndex(id), Entry::ClassIndex(index)) => self.classes.push((*id, index)),
            (Key::Client(address), Entry::Client(client)) => {
                self.clients.push((*address, client));
                self.own(key, *address);
                self.hold(key, entry, true);
            }
            (Key::Task(id), Entry::Task(task)) => {
                self.tasks.push((*id, task));
                self.own(key, task.client);
                let spent = task.paid.plus(task.refunded);
                self.hold(key, entry, spent.is_some_and(|spent| spent <= task.deposited));
            }
            (Key::Auction(id), Entry::Auction(_)) => {
                self.auctions.push(*id);
                self.hold(key, entry, true);
            }
            (Key::Audit(id), Entry::Audit(audit)) => {
                self.audits.push((*id, audit));
                self.hold(key, entry, true);
            }
            (Key::Trial(address), Entry::Trial(trial)) => self.trials.push((*address, trial)),
            (Key::Agenda(urgency), Entry::Agenda(agenda)) => {
                self.agendas.insert(*urgency, agenda);
            }
            (Key::AgendaPage { urgency, tick, .. }, Entry::AgendaPage(page)) => {
                self.alarms.extend(page.alarms.iter().map(|alarm| (*alarm, *urgency, *tick)));
            }
            _ => {}
        }
    }

    /// Adds an entry's tokens to the sums and checks their range.
    fn hold(&mut self, key: &'a Key, entry: &Entry, sound: bool) {
        let (mut sound, mut fits) = (sound, true);
        held(entry, |part, amount| {
            sound &= amount <= Amount::CAP;
            let sum = part.of(&mut self.sums);
            match sum.plus(amount) {
                Some(more) => *sum = more,
                None => fits = false,
            }
        });
        self.overflow = if fits { self.overflow } else { Some(key) };
        self.unsound = if sound { self.unsound } else { Some(key) };
    }

    fn own(&mut self, key: &'a Key, address: Address) {
        let order = |owner: &Owner| owner.address.cmp(&address);
        match locate(&mut self.accounts, &mut self.owner, order) {
            Some(owner) => owner.found = owner.found.saturating_add(1),
            None => self.orphan = Some(key),
        }
    }

    fn delegated(&mut self, key: &'a Key, validator: Address, delegation: &Delegation) {
        let order = |bonded: &Bonded<'_>| bonded.address.cmp(&validator);
        match locate(&mut self.validators, &mut self.bonded, order) {
            Some(bonded) => {
                let fits = add(&mut bonded.owned, delegation.shares);
                self.overflow = if fits { self.overflow } else { Some(key) };
            }
            None => self.orphan = Some(key),
        }
    }

    fn leaving(&mut self, key: &'a Key, entry: &Unbonding) {
        let id = (entry.validator, entry.epoch);
        let order = |pool: &Leaving<'_>| (pool.validator, pool.epoch).cmp(&id);
        match locate(&mut self.pools, &mut self.pool, order) {
            Some(pool) => {
                let fits = add(&mut pool.owned, entry.shares);
                self.overflow = if fits { self.overflow } else { Some(key) };
            }
            None => self.orphan = Some(key),
        }
    }

    /// Whose a consensus key is.
    pub(super) fn holder(&self, key: &ConsensusKey) -> Option<&'a KeyHolder> {
        let place = self.holders.binary_search_by(|(held, _)| held.cmp(key)).ok()?;
        self.holders.get(place).map(|(_, holder)| *holder)
    }

    /// The validator of an address.
    pub(super) fn validator(&self, address: &Address) -> Option<&'a Validator> {
        let place = self.validators.binary_search_by(|bonded| bonded.address.cmp(address)).ok()?;
        self.validators.get(place).map(|bonded| bonded.validator)
    }
}

/// Adds shares to a sum; says whether they fit.
const fn add(sum: &mut Shares, more: Shares) -> bool {
    match sum.0.checked_add(more.0) {
        Some(total) => {
            sum.0 = total;
            true
        }
        None => false,
    }
}

/// Finds an item of a sorted table, first at the place of the last one and a little after it: what
/// is owned is sorted too, so most of the time that is where the owner is.
fn locate<'t, T>(
    table: &'t mut [T],
    place: &mut usize,
    order: impl Fn(&T) -> Ordering,
) -> Option<&'t mut T> {
    const NEAR: usize = 6;
    for at in *place..place.saturating_add(NEAR) {
        match table.get(at).map(&order) {
            Some(Ordering::Less) => {}
            Some(Ordering::Equal) => {
                *place = at;
                return table.get_mut(at);
            }
            Some(Ordering::Greater) | None => break,
        }
    }
    *place = table.binary_search_by(order).ok()?;
    table.get_mut(*place)
}
