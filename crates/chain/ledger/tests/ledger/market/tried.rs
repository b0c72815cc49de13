//! A network that tries devices, and providers that compute what they are asked, or not.

use super::bazaar::{Bazaar, RATE, offer, provider, spec};
use crate::support::Network;
use opengpu_crypto::{Digest, merkle};
use opengpu_ledger::tables::Trials;
use opengpu_types::{
    Allocation, Amount, CloseReason, Event, List, MarketOperation, Measure, Millis, Offer, Rating,
    Spec, Trial, TrialBlock, TrialParameters, TrialPhase, Work,
};
use opengpu_verify::trial::{self, Device};

/// Nobody is drawn, but everybody can ask.
pub(crate) const ASKED: TrialParameters = TrialParameters {
    period: Millis(100_000_000_000),
    work: Millis(1_600),
    slack: 1_250,
    allowance: Millis(600),
    opening: Millis(2_000),
};

/// How long a trial may take by these parameters.
pub(crate) const LIMIT: u64 = 2_600;

/// So many devices that are as slow as can be told.
pub(crate) fn slow(devices: u8) -> Offer {
    let rating = Rating { integers: 1, ..offer(RATE).rating };
    Offer { devices, rating, ..offer(RATE) }
}

/// A task that takes ten seconds on them.
pub(crate) fn easy() -> Spec {
    Spec { work: Work { amount: 10_000, measure: Measure::Products }, ..spec() }
}

pub(crate) fn trying(trials: TrialParameters) -> Bazaar {
    let network = Network::recorded(|genesis| {
        genesis.parameters.market.trials = trials;
        for number in 0..18 {
            let (account, amount) = (provider(number).address(), Amount::whole(1_000));
            genesis.allocations.push(Allocation { account, amount, vesting: None }).unwrap();
        }
    });
    Bazaar::of(network)
}

/// What the devices of a trial computed.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) devices: Vec<Device>,
    leaves: Vec<Vec<Digest>>,
    roots: Vec<Digest>,
    /// Blocks that were not computed.
    skipped: fn(u32, u32) -> bool,
}

impl Made {
    pub(crate) fn of(trial: &Trial) -> Self {
        Self::without(trial, |_, _| false)
    }

    /// Without some blocks of some devices.
    pub(crate) fn without(trial: &Trial, skipped: fn(u32, u32) -> bool) -> Self {
        let devices = trial::devices(&trial.seed, &trial.tried, ASKED.work);
        let of = |(index, device): (u32, &Device)| {
            let values = |at| value(skipped, (index, device), at);
            (0..device.work.blocks()).map(|at| trial::leaf(&values(at))).collect::<Vec<_>>()
        };
        let leaves: Vec<Vec<Digest>> = (0..).zip(&devices).map(of).collect();
        let roots = leaves.iter().map(|leaves| merkle::root(leaves)).collect();
        Self { devices, leaves, roots, skipped }
    }

    pub(crate) fn commit(&self) -> MarketOperation {
        MarketOperation::CommitTrial { root: trial::root(&self.roots) }
    }

    /// Opens what was drawn.
    pub(crate) fn open(&self, trial: &Trial) -> MarketOperation {
        let TrialPhase::Opening { draw, .. } = trial.phase else { panic!("{trial:?}") };
        let open = |drawn: trial::Drawn| {
            let place = drawn.device as usize;
            let device = &self.devices[place];
            let opened = trial::open(device, drawn, &self.leaves[place], &self.roots).unwrap();
            let values = value(self.skipped, (drawn.device, device), drawn.block());
            TrialBlock { values, ..opened }
        };
        let blocks: Vec<_> = trial::drawn(&draw, &self.devices).into_iter().map(open).collect();
        let rounds = trial::most_rounds(&self.devices);
        MarketOperation::OpenTrial { rounds, blocks: List::new(blocks).unwrap().into() }
    }
}

fn value(
    skipped: fn(u32, u32) -> bool,
    (index, device): (u32, &Device),
    block: u32,
) -> [u8; Trial::BLOCK_BYTES] {
    if skipped(index, block) { [0; Trial::BLOCK_BYTES] } else { trial::block(device, block) }
}

/// How trials ended, in the last block.
pub(crate) fn ended(bazaar: &Bazaar) -> Vec<CloseReason> {
    let ended = bazaar.network.events().filter_map(|event| match event {
        Event::TrialClosed { reason, .. } => Some(*reason),
        _ => None,
    });
    ended.collect()
}

impl Bazaar {
    pub(crate) fn trial(&self, number: u8) -> Option<Trial> {
        self.network.find::<Trials>(provider(number).address())
    }

    /// A provider asks for a trial, which begins.
    pub(crate) fn ask(&mut self, number: u8) -> Trial {
        self.act(&provider(number), MarketOperation::RequestTrial);
        self.until(number, |trial| trial.phase == TrialPhase::Running)
    }

    /// Blocks until a trial stands so.
    pub(crate) fn until(&mut self, number: u8, wanted: fn(&Trial) -> bool) -> Trial {
        for _ in 0..32 {
            if let Some(trial) = self.trial(number).filter(wanted) {
                return trial;
            }
            self.network.idle(1);
        }
        panic!("{:?}", self.trial(number));
    }

    /// Blocks until what is drawn is to be opened.
    pub(crate) fn drawn(&mut self, number: u8) -> Trial {
        self.until(number, |trial| matches!(trial.phase, TrialPhase::Opening { .. }))
    }

    /// A provider shows what it has.
    pub(crate) fn pass(&mut self, number: u8) {
        let made = Made::of(&self.ask(number));
        self.act_free(&provider(number), made.commit()).unwrap();
        let drawn = self.drawn(number);
        self.act_free(&provider(number), made.open(&drawn)).unwrap();
    }

    /// A provider says nothing in a trial.
    pub(crate) fn miss_trial(&mut self, number: u8) {
        self.ask(number);
        while self.trial(number).is_some() {
            self.network.idle(1);
        }
    }
}
