//! Trials in the soak: providers that are asked for what their devices compute, and mostly say it; the rest is
//! false, late, of others or not asked for.

use super::{View, author::Author, draft::Draft};
use opengpu_crypto::{Digest, merkle};
use opengpu_ledger::{
    BlockContext,
    tables::{Params, Trials},
};
use opengpu_types::{Address, Amount, List, MarketOperation, Millis, Trial, TrialPhase};
use opengpu_verify::trial::{self, Device, Drawn};

/// What the devices of a trial compute; of a false one the last device has computed nothing.
struct Made {
    devices: Vec<Device>,
    leaves: Vec<Vec<Digest>>,
}

impl Made {
    fn of(trial: &Trial, work: Millis, is_false: bool) -> Self {
        let devices = trial::devices(&trial.seed, &trial.tried, work);
        let nothing = trial::leaf(&[0; Trial::BLOCK_BYTES]);
        let last = devices.len().saturating_sub(1);
        let of = |(place, device): (usize, &Device)| {
            let skips = is_false && place == last;
            let leaf = |at| if skips { nothing } else { trial::leaf(&trial::block(device, at)) };
            (0..device.work.blocks()).map(leaf).collect()
        };
        let leaves = devices.iter().enumerate().map(of).collect();
        Self { devices, leaves }
    }

    fn roots(&self) -> Vec<Digest> {
        self.leaves.iter().map(|leaves| merkle::root(leaves)).collect()
    }

    /// What is drawn, as it was committed to.
    fn open(&self, drawn: &[Drawn], is_false: bool) -> Option<MarketOperation> {
        let (roots, last) = (self.roots(), self.devices.len().saturating_sub(1));
        let open = |drawn: &Drawn| {
            let place = usize::try_from(drawn.device).ok()?;
            let (device, leaves) = (self.devices.get(place)?, self.leaves.get(place)?);
            let mut block = trial::open(device, *drawn, leaves, &roots)?;
            if is_false && place == last {
                block.values = [0; Trial::BLOCK_BYTES];
            }
            Some(block)
        };
        let blocks: Option<Vec<_>> = drawn.iter().map(open).collect();
        let rounds = trial::most_rounds(&self.devices);
        Some(MarketOperation::OpenTrial { rounds, blocks: List::new(blocks?).ok()?.into() })
    }
}

/// Whether the devices of a provider are not all there, this time.
fn is_false(trial: &Trial) -> bool {
    trial.seed.0.first().is_some_and(|byte| byte.trailing_zeros() > 1)
}

impl Author {
    /// What comes next in some trial, or a wish for one.
    pub(crate) fn try_devices(&mut self, state: &View<'_>, context: &BlockContext) -> Draft {
        let work = state.find::<Params>(()).ok().flatten().map(|it| it.market.trials.work);
        let open: Vec<(Address, Trial)> = self
            .providers()
            .iter()
            .filter_map(|it| Some((*it, state.find::<Trials>(*it).ok().flatten()?)))
            .collect();
        let found = self.dice.pick(&open).cloned();
        let (Some((provider, trial)), Some(work)) = (found, work) else {
            let party = self.some_provider();
            return Self::market(party, context, MarketOperation::RequestTrial);
        };
        let party = if self.dice.one_in(12) { self.anyone() } else { self.party_of(&provider) };
        let lies = is_false(&trial);
        let said = match trial.phase {
            _ if self.dice.one_in(8) => Some(MarketOperation::RequestTrial),
            _ if self.dice.one_in(12) => {
                Some(MarketOperation::OpenTrial { rounds: 1, blocks: List::empty().into() })
            }
            TrialPhase::Running => {
                let roots = Made::of(&trial, work, lies).roots();
                Some(MarketOperation::CommitTrial { root: trial::root(&roots) })
            }
            TrialPhase::Opening { draw, .. } => {
                let made = Made::of(&trial, work, lies);
                made.open(&trial::drawn(&draw, &made.devices), lies)
            }
            TrialPhase::Requested | TrialPhase::Committed { .. } => None,
        };
        let said = said.unwrap_or(MarketOperation::CommitTrial { root: Digest([7; 32]) });
        let mut draft = Self::market(party, context, said);
        if self.dice.one_in(2) {
            draft.max_fee = Amount::ZERO;
        }
        draft
    }
}
