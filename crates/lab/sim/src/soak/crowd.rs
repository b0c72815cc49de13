//! A state with as many validators as there can be. Growing it by registration would take longer
//! than the rest of a soak, so it is made from a copy, and it must pass every invariant first.

use super::{author::Author, draft::Draft, world};
use opengpu_ledger::{BlockContext, Memory, Overlay, State as _};
use opengpu_types::{
    Account, Address, Amount, ConsensusKey, Entry, Key, KeyHolder, List, Operation, Permille,
    Shares, SignedTransaction, Validator, ValidatorStatus,
};

/// A copy of `state` without room for a validator, and a registration; `None` before genesis or
/// when nobody could register anyway.
pub(super) fn prepare(
    state: &Memory,
    author: &mut Author,
    context: &BlockContext,
) -> Option<(Memory, SignedTransaction)> {
    let Ok(Some(Entry::Candidates(candidates))) = state.get(&Key::Candidates) else { return None };
    let Ok(Some(Entry::Validator(model))) =
        state.get(&Key::Validator(*candidates.validators.first()?))
    else {
        return None;
    };
    let filler = Validator {
        status: ValidatorStatus::Active,
        stake: Amount::ZERO,
        shares: Shares(0),
        rewards: Amount::ZERO,
        commission_due: Amount::ZERO,
        unbonding_epochs: List::empty(),
        reserve: Amount::ZERO,
        ..(**model).clone()
    };
    let mut candidates = candidates.clone();
    let mut crowded = state.clone();
    for number in 0u16.. {
        let [high, low] = number.to_be_bytes();
        let mut bytes = [0xee; 20];
        [bytes[0], bytes[1]] = [high, low];
        let address = Address::new(bytes);
        if candidates.validators.insert_sorted(address).is_err() {
            break;
        }
        let account = Account { entries: 1, ..Account::default() };
        let mut filler = filler.clone();
        filler.keys.consensus = ConsensusKey([0xee; 32]);
        let [one, other, ..] = &mut filler.keys.consensus.0;
        (*one, *other) = (high, low);
        let holder = KeyHolder { operator: address, seated: None, released: false };
        let key = Key::ConsensusKey(filler.keys.consensus);
        crowded.commit([
            (Key::Account(address), Some(Entry::Account(account))),
            (Key::Validator(address), Some(Entry::Validator(filler.into()))),
            (key, Some(Entry::KeyHolder(holder))),
        ]);
    }
    crowded.commit([(Key::Candidates, Some(Entry::Candidates(candidates)))]);

    let view = Overlay::new(state);
    let (host, commission, stake) = (world::host(1), Permille::ZERO, Amount::whole(100));
    let party = (0..64).find_map(|_| {
        let (party, balance) = author.payer(&view);
        let idle = matches!(state.get(&Key::Validator(party.address)), Ok(None));
        (idle && balance > Amount::whole(200)).then_some(party)
    })?;
    let keys = author.free_keys(&view, &party.address);
    let register = Operation::RegisterValidator { keys, host, commission, stake };
    Some((crowded, Draft::of(party, context, register).sign(&view)))
}
