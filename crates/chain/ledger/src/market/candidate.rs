//! Who could run a task, and what the rules of the market say of it.

use super::Market;
use crate::{error::Halt, state::State, table::tables::Providers};
use opengpu_market::{
    auction::Bid,
    fit::{Candidate, Demand, mismatches},
    reputation,
    score::{Standing, Terms, distance, predicted},
};
use opengpu_types::{Address, Amount, Class, Lease, Provider, ProviderStatus, Spec, Task};
use opengpu_verify::ladder::{self, Rung};

/// Copies of a task that run at once.
pub(super) const fn copies(spec: &Spec) -> usize {
    match spec.class {
        Class::Replicate(copies) => copies as usize,
        _ => 1,
    }
}

impl<S: State> Market<'_, S> {
    /// Copies on which nobody works.
    pub(super) fn missing(task: &Task) -> usize {
        let working = task.leases.iter().filter(|lease| lease.is_working()).count();
        copies(&task.spec).saturating_sub(working)
    }

    /// What one more copy may cost: its part of what no other lease can claim.
    pub(super) fn share(&self, task: &Task) -> Amount {
        let open = task.leases.iter().filter(|lease| !lease.is_closed());
        let promised = open.map(|lease| lease.most).try_fold(Amount::ZERO, Amount::plus);
        let dollar = self.parameters.dollar;
        let budget = task.budget.in_tokens(dollar).and_then(|budget| budget.minus(task.paid));
        let most = budget.map_or(Amount::ZERO, |budget| budget.min(task.escrow()));
        let free = promised.and_then(|promised| most.minus(promised)).unwrap_or_default();
        let copies = u128::try_from(Self::missing(task).max(1)).unwrap_or(1);
        free.mul_div(1, copies).unwrap_or_default()
    }

    /// What the client demands of a bid for one device.
    pub(super) fn terms(&self, task: &Task) -> Terms {
        let requirements = &task.spec.requirements;
        let devices = u128::from(requirements.devices.max(1));
        Terms {
            budget: self.share(task).mul_div(1, devices).unwrap_or_default(),
            cap: requirements.cap.in_tokens(self.parameters.dollar).unwrap_or_default(),
            longest: requirements.longest,
            weights: task.spec.weights,
        }
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
        let known = |lease: &Lease| lease.provider == address;
        if provider.status != ProviderStatus::Active
            || task.client == address
            || task.leases.iter().any(known)
            || !ladder::bears(provider, &self.parameters, self.share(task))
        {
            return Ok(None);
        }
        let mut record = provider.reputation;
        reputation::refresh(&mut record, self.now(), self.parameters.half_life);
        let reliability = reputation::reliability(&record);
        let demand = Demand {
            client: &task.client,
            requirements: &task.spec.requirements,
            reliability: self.client_reliability(task.client)?,
            dollar: self.parameters.dollar,
        };
        let free = offered.offer.devices.saturating_sub(offered.leased);
        let offer = &offered.offer;
        let candidate = Candidate { provider: &address, offer, free, reliability };
        if !mismatches(&demand, &candidate).is_empty() {
            return Ok(None);
        }
        let own = offer.rate.in_tokens(self.parameters.dollar);
        let Some(rate) = rate.or(own) else { return Ok(None) };
        let predicted = predicted(&task.spec, task.checkpoint.as_ref(), offered);
        let distance = distance(&task.spec.region, &offer.region);
        let standing = Standing { predicted, reliability, distance };
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
