//! What an audit leaves to be paid: fees, pledges of objections, and who found what is wrong.

use std::collections::BTreeMap;

use opengpu_types::{Address, Amount, AuditParameters, Challenger, Fault, Finding, Said};

use super::seats::BEGINNING;
use super::{Audit, Seat};

/// What a verifier has to get when an audit is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Segments that it has checked, and is paid for.
    pub checked: u32,
    /// Objections whose pledges go back: nobody knows that they were wrong.
    pub returned: u32,
    /// Objections that were wrong.
    pub forfeited: u32,
    /// Whether it found what is wrong, and shares in the slash.
    pub finder: bool,
}

/// What each checked segment earns if a lease with so much pay executed so many: in proportion to what
/// executing one was paid, and all that were checked together no more than a part of the pay.
pub fn fee(parameters: &AuditParameters, pay: Amount, executed: u32, checked: u32) -> Amount {
    let segment = pay.mul_div(1, u128::from(executed.max(1))).unwrap_or_default();
    let most = parameters.fees.of(pay).mul_div(1, u128::from(checked)).unwrap_or_default();
    parameters.fee.of(segment).min(most)
}

impl Audit {
    /// Whether the pledge of a seat is lost: its verifier objected to what is right, or agreed to a beginning
    /// that is false. About the beginning the referee needs nobody's word; of a segment it executes one unit,
    /// from a point that a provider may have agreed to with a friend, which proves nothing against others.
    pub fn is_forfeited(&self, seat: &Seat) -> bool {
        let false_beginning =
            matches!(self.finding(), Some(Finding::Refuted(Fault::Wrong { index: BEGINNING, .. })));
        seat.duties.iter().any(|duty| match duty.said {
            Said::Dismissed => true,
            Said::Agreed => false_beginning && duty.index == BEGINNING,
            _ => false,
        })
    }

    /// What each verifier has to get. A fee is earned by a segment that was sealed before its leaf was open;
    /// who has lost a dispute earns none.
    pub fn tally(&self) -> BTreeMap<Address, Tally> {
        let mut tallies = BTreeMap::<Address, Tally>::new();
        for seat in &self.seats {
            let tally = tallies.entry(seat.verifier).or_default();
            for duty in &seat.duties {
                let counter = match duty.said {
                    Said::Agreed if duty.paid => &mut tally.checked,
                    Said::Objected(_) => &mut tally.returned,
                    Said::Dismissed => &mut tally.forfeited,
                    Said::Nothing | Said::Unserved | Said::Sealed(_) | Said::Agreed => continue,
                };
                *counter = counter.saturating_add(1);
            }
        }
        tallies.values_mut().filter(|it| it.forfeited > 0).for_each(|it| it.checked = 0);
        if let Some(Finding::Refuted(Fault::Wrong { finder: Challenger::Verifier(finder), .. })) =
            self.finding()
            && let Some(tally) = tallies.get_mut(&finder)
        {
            tally.finder = true;
        }
        tallies
    }
}
