//! Who could run a task, and what the rules of the market say of it.

use super::Market;
use crate::{error::Halt, state::State, table::tables::Providers};
use opengpu_market::{
    auction::Bid,
    demand,
    fit::{Candidate, Demand, may_return, mismatches},
    score::Terms,
};
use opengpu_types::{Address, Amount, Provider, ProviderStatus, Task};
use opengpu_verify::ladder::{self, Rung};

impl<S: State> Market<'_, S> {
    /// Copies on which nobody works.
    pub(super) fn missing(task: &Task) -> usize {
        demand::missing(task)
    }

    /// What one more copy may cost: its part of what no other lease can claim.
    pub(super) fn share(&self, task: &Task) -> Amount {
        demand::share(task, &self.parameters)
    }

    /// What the client demands of a bid for one device.
    pub(super) fn terms(&self, task: &Task) -> Terms {
        demand::terms(task, &self.parameters)
    }

    /// The bid of an offer for a task: at its own rate, or at the one that was opened. None if the offer
    /// does not fit, or its provider may not take it now.
    pub(super) fn candidate(
        &self,
        task: &Task,
        (address, place): (Address, u8),
        rate: Option<Amount>,
    ) -> Result<Option<Bid>, Halt> {
        let Some(provider) = self.state.view::<Providers>(address)? else { return Ok(None) };
        let Some(offered) = provider.offers.get(usize::from(place)) else { return Ok(None) };
        if provider.status != ProviderStatus::Active
            || provider.in_trial
            || task.client == address
            || !may_return(task, &address)
            || !ladder::bears(provider, &self.parameters, self.share(task))
        {
            return Ok(None);
        }
        let standing =
            demand::standing(task, offered, provider.reputation, self.now(), &self.parameters);
        let demand = Demand {
            client: &task.client,
            requirements: &task.spec.requirements,
            reliability: self.client_reliability(task.client)?,
            dollar: self.parameters.dollar,
        };
        let free = offered.offer.devices.saturating_sub(offered.leased);
        let offer = &offered.offer;
        let reliability = standing.reliability;
        let candidate = Candidate { provider: &address, offer, free, reliability };
        if !mismatches(&demand, &candidate).is_empty() {
            return Ok(None);
        }
        let own = offer.rate.in_tokens(self.parameters.dollar);
        let Some(rate) = rate.or(own) else { return Ok(None) };
        Ok(Some(Bid { provider: address, rate, standing }))
    }

    /// What further leases of a provider may be paid.
    pub(super) fn room(&self, provider: &Provider) -> Amount {
        ladder::room(provider, &self.parameters)
    }

    /// Where a provider stands on the ladder.
    pub(super) fn rung(&self, provider: &Provider) -> Rung {
        Rung::of(provider, &self.parameters)
    }
}
