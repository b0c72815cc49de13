//! What a task costs in each tier, by the index of a class of devices.

use crate::client::ClientError;
use opengpu_client::{BuildError, Facts, Rpc, Signer, TransactionBuilder, market};
use opengpu_crypto::{KeyKind, SealPublicKey};
use opengpu_market::index;
pub use opengpu_market::index::Tier;
use opengpu_types::{
    Address, Amount, ClassIndex, Contact, DeviceClass, Entry, Key, MarketOperation,
    MarketParameters, Millis, Money, Nonce, Operation, SessionKey, Spec, Text,
};

/// All tiers for one task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tiers {
    /// For this class of devices.
    pub class: DeviceClass,
    /// What a second of one costs by supply and demand.
    pub index: Amount,
    /// What the task costs in each tier.
    pub quotes: Vec<(Tier, index::Quote)>,
}

impl Tiers {
    /// The tiers of a task that is predicted to take so long on so many devices of this class. One that
    /// costs more than money can express is left out.
    pub fn new(class: &ClassIndex, predicted: Millis, devices: u8, fees: Amount) -> Self {
        let quote = |tier| Some((tier, index::quote(class.rate, tier, predicted, devices, fees)?));
        let quotes = Tier::ALL.into_iter().filter_map(quote).collect();
        Self { class: class.class.clone(), index: class.rate, quotes }
    }

    /// Most that a second of one device may cost in a tier.
    pub fn cap(&self, tier: Tier) -> Option<Money> {
        tier.rate(self.index).map(Money::tokens)
    }
}

/// The index of a class of devices as it is now; none while nobody offers any. The chain moves it when
/// devices of the class are leased or freed, and what happened since then counts as well.
pub fn index(
    rpc: &Rpc,
    class: &DeviceClass,
    parameters: &MarketParameters,
) -> Result<Option<ClassIndex>, ClientError> {
    let Some(Entry::ClassIndex(index)) = rpc.entry(&Key::ClassIndex(ClassIndex::id(class)))? else {
        return Ok(None);
    };
    let mut index = index.into_inner();
    index::accrue(&mut index, market::now(rpc)?, parameters);
    Ok(Some(index))
}

/// What the chain takes for submitting a task, as fees are now; signed by an ordinary key.
pub fn fee(
    facts: &Facts,
    client: Address,
    spec: &Spec,
    budget: Money,
    escrow: Amount,
) -> Result<Amount, BuildError> {
    let (session, sealing) = (SessionKey([0; 32]), SealPublicKey([0; 32]));
    let contact = Contact { session, sealing, relay: Text::default() };
    let spec = spec.clone().into();
    let submit = MarketOperation::SubmitTask { spec, budget, escrow, contact };
    let builder = TransactionBuilder::new(client).operation(Operation::Market(submit));
    let signer = Signer { account: client, address: client, kind: KeyKind::Ed25519 };
    builder.draft(facts, signer, Some(Nonce(0))).map(|(_, fee)| fee.expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tier_is_a_share_of_the_index_and_verified_is_run_twice() {
        let rate = Amount::whole(10);
        let index = ClassIndex {
            class: Text::new("test").unwrap(),
            rate,
            offered: 1,
            leased: 0,
            offered_time: 0,
            leased_time: 0,
            counted: Millis(0),
            began: Millis(0),
            used: true,
            alarm: Millis(0),
        };
        let tiers = Tiers::new(&index, Millis(2_000), 3, Amount(5));
        let lines = |tier: Tier| tiers.quotes.iter().find(|(it, _)| *it == tier).unwrap().1;
        let cap = |tier| tiers.cap(tier).unwrap().amount;
        assert_eq!(
            (cap(Tier::Economy), cap(Tier::Priority)),
            (Amount::whole(7), Amount::whole(14))
        );
        let (standard, verified) = (lines(Tier::Standard), lines(Tier::Verified));
        assert_eq!((standard.compute, standard.audits), (Amount::whole(60), Amount::ZERO));
        assert_eq!((verified.compute, verified.audits), (Amount::whole(60), Amount::whole(60)));
        assert_eq!(cap(Tier::Verified), rate, "each of the two copies");
        assert_eq!(verified.total, Amount::whole(120).plus(Amount(5)).unwrap());
    }
}
