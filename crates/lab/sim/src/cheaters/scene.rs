//! A network in which one strategy is followed, wave by wave of tasks.

use super::chain::{Act, CHAIN, Chain, Fault};
use super::conduct::{Conduct, Manner, Strategy};
use super::hall::Hall;
use super::work::{Run, SEGMENTS, Work, extent};
use super::{COST, Measured};
use crate::goods;
use crate::soak::cast::Party;
use opengpu_crypto::{Digest, seed};
use opengpu_ledger::Overlay;
use opengpu_ledger::tables::{Accounts, Audits, Params, Providers, Tasks};
use opengpu_types::{
    Address, Allocating, Amount, ArtifactId, Audit as Stored, AuditPhase, BeaconSignature, Class,
    Commitment, Ending, Event, Eyes, Finding, LeaseId, List, MarketOperation, Millis, Money,
    Permille, ProgramKind, Provider, SegmentIndex, Set, Spec, TaskId, Text, Trust, Usage, Verdict,
};
use opengpu_verify::{
    audit::{Audit, Phase, Subject, Times},
    bounds::Sampling,
    draw::{self, Occasion},
    trace::{Owner, Part, Trace},
};
use std::collections::BTreeMap;

/// Verifiers that are honest.
const VERIFIERS: usize = 24;
/// Accounts that can become providers of the tasks.
const SUBJECTS: usize = 400;
/// Tasks of a wave, of a provider with stake and of newcomers.
const WAVE: usize = 16;
/// Segments of an audit.
const DRAWN: u8 = 12;
/// What a second costs: a token for a run.
const RATE: Amount = Amount(100_000_000_000_000_000);
/// What a run is paid, in billionths of a token.
const AGREED: i128 = 1_000_000_000;
/// How long a run takes.
const RUN: Millis = Millis(10_000);
/// Stake of providers that have any.
const STAKE: Amount = Amount::whole(200);
/// Below it, a new account goes on.
const LEAST: Amount = Amount::whole(150);
/// From one block to the next while audits run.
const STEP: Millis = Millis(300);
/// From one block to the next while a leader that grinds has each commitment in a block of its own.
const APART: Millis = Millis(50);
/// No wave has more blocks.
const MOST_BLOCKS: u32 = 2_000;

/// A lease that is played out.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) provider: Party,
    pub(super) conduct: Conduct,
    pub(super) run: Run,
    pub(super) trace: Trace,
    /// What each verifier of the first audit is promised if it is upheld, in billionths of a token.
    bribe: Option<i128>,
}

/// The network.
#[derive(Debug)]
pub(super) struct Scene {
    strategy: Strategy,
    chain: Chain,
    work: Work,
    /// Verifiers that follow the strategy.
    others: Vec<Address>,
    subjects: Vec<Party>,
    next_subject: usize,
    played: BTreeMap<LeaseId, Played>,
    measured: Measured,
}

impl Scene {
    /// Before the first wave.
    pub(super) fn new(strategy: Strategy, audits: bool, seed: u64) -> Result<Self, Fault> {
        let segments = if audits { DRAWN } else { 0 };
        let others = strategy.verifiers(VERIFIERS);
        let fixed = VERIFIERS.saturating_add(others).saturating_add(1);
        let mut chain =
            Chain::new(fixed.saturating_add(SUBJECTS), strategy.market(segments), seed)?;
        let mut acts = Vec::new();
        for number in 1..fixed {
            acts.push(register(chain.party(number)?, STAKE)?);
        }
        chain.block(STEP, Vec::new())?;
        chain.block(STEP, acts)?;
        let first = VERIFIERS.saturating_add(1);
        let others = (first..fixed).map(|number| Ok(chain.party(number)?.address));
        Ok(Self {
            strategy,
            others: others.collect::<Result<_, Fault>>()?,
            work: Work::new()?,
            chain,
            subjects: Vec::new(),
            next_subject: fixed,
            played: BTreeMap::new(),
            measured: Measured::default(),
        })
    }

    pub(super) const fn measured(&self) -> Measured {
        self.measured
    }

    /// Some tasks, from their submission to the end of their audits.
    pub(super) fn wave(&mut self) -> Result<(), Fault> {
        // What has ended is collected.
        for _ in 0..8 {
            self.chain.block(Millis(9_000), Vec::new())?;
        }
        self.recruit()?;
        let ready = self.is_ready();
        let before = self.worth()?;
        let tasks = self.submit()?;
        self.chain.block(Millis(5_000), Vec::new())?;
        self.commit(&tasks, ready)?;
        let events = self.play()?;
        if ready {
            let gained = self.worth()?.saturating_sub(before);
            self.count(&events, gained);
        }
        self.played.clear();
        Ok(())
    }

    /// Whether those who keep to the rules at first have done so for long enough.
    fn is_ready(&self) -> bool {
        let clean = |party: &Party| {
            let provider = self.provider(party.address);
            provider.is_some_and(|it| it.reputation.clean >= self.strategy.patience())
        };
        self.strategy.patience() == 0 || self.subjects.iter().all(clean)
    }

    fn provider(&self, address: Address) -> Option<Provider> {
        Overlay::new(&self.chain.state).find::<Providers>(address).ok().flatten()
    }

    /// The providers of the next wave; new accounts where others have lost too much, or hide what they did.
    fn recruit(&mut self) -> Result<(), Fault> {
        let newcomers = self.strategy.is_of_newcomers();
        let (wanted, stake) = if newcomers { (WAVE, Amount::ZERO) } else { (1, STAKE) };
        let has = |party: &Party| {
            self.provider(party.address).is_some_and(|it| newcomers || it.stake >= LEAST)
        };
        let mut kept: Vec<Party> = self.subjects.iter().copied().filter(has).collect();
        if self.strategy == Strategy::Sybil {
            kept.clear();
        }
        let mut acts = Vec::new();
        while kept.len() < wanted {
            let party = self.chain.party(self.next_subject)?;
            self.next_subject = self.next_subject.saturating_add(1);
            kept.push(party);
            acts.push(register(party, stake)?);
        }
        self.subjects = kept;
        self.chain.block(STEP, acts)?;
        let beats = (1..VERIFIERS.saturating_add(self.others.len()).saturating_add(1)).map(|it| {
            let by = self.chain.party(it)?;
            Ok(Act { by, operation: MarketOperation::Heartbeat, free: false })
        });
        let beats = beats.collect::<Result<_, Fault>>()?;
        self.chain.block(STEP, beats)?;
        Ok(())
    }

    /// Accounts of those who follow the strategy.
    fn strategists(&self) -> Result<Vec<Address>, Fault> {
        let mut all = self.others.clone();
        match self.strategy {
            Strategy::Disputer => all.push(self.chain.party(0)?.address),
            it if it.is_of_verifiers() => {}
            _ => all.extend(self.subjects.iter().map(|it| it.address)),
        }
        Ok(all)
    }

    /// What the strategists own, in billionths of a token.
    fn worth(&self) -> Result<i128, Fault> {
        let state = Overlay::new(&self.chain.state);
        let mut worth = Amount::ZERO;
        for address in self.strategists()? {
            let account = state.find::<Accounts>(address)?.map(|it| it.balance);
            let provider = self.provider(address);
            let parts =
                [account, provider.as_ref().map(|it| it.stake), provider.map(|it| it.locked)];
            for part in parts.into_iter().flatten() {
                worth = worth.plus(part).ok_or(Fault::Missing("room for what somebody owns"))?;
            }
        }
        Ok(billionths(worth))
    }

    fn submit(&mut self) -> Result<Vec<(TaskId, Party)>, Fault> {
        let client = self.chain.party(0)?;
        let budget = RATE.mul_div(12, 1).unwrap_or_default();
        let mut acts = Vec::new();
        let mut chosen = Vec::new();
        for number in 0..WAVE {
            let place = number.checked_rem(self.subjects.len()).unwrap_or(0);
            let subject = *self.subjects.get(place).ok_or(Fault::Missing("subject"))?;
            let spec = self.spec(subject.address)?;
            acts.push(Act {
                by: client,
                operation: MarketOperation::SubmitTask {
                    spec: spec.into(),
                    budget: Money::tokens(budget),
                    escrow: budget,
                    contact: goods::contact(),
                },
                free: false,
            });
            chosen.push(subject);
        }
        let events = self.chain.block(STEP, acts)?;
        let opened = events.iter().filter_map(|event| match event {
            Event::LeaseOpened { lease, provider, .. } => Some((lease.task, *provider)),
            _ => None,
        });
        let opened: Vec<(TaskId, Address)> = opened.collect();
        if opened.len() != WAVE {
            return Err(Fault::Missing("lease for each task"));
        }
        let party = |address| chosen.iter().find(|it| it.address == address).copied();
        let found = opened.into_iter().map(|(task, who)| Some((task, party(who)?)));
        found.collect::<Option<_>>().ok_or(Fault::Missing("provider"))
    }

    fn spec(&self, provider: Address) -> Result<Spec, Fault> {
        let mut spec = goods::spec(&mut crate::dice::Dice::new(1), &[]);
        spec.program = self.work.program();
        spec.input = Work::input();
        spec.segments = SEGMENTS;
        spec.class = Class::Exact;
        spec.eyes = Eyes::Anyone;
        spec.allocating = Allocating::Spot;
        spec.patience = Millis(10_000);
        let requirements = &mut spec.requirements;
        requirements.kind = ProgramKind::Wasm;
        requirements.devices = 1;
        requirements.trust = Trust::Checked;
        requirements.longest = Millis(12_000);
        requirements.cap = Money::tokens(RATE);
        let only = List::new(vec![provider]);
        requirements.allowed = only.map_err(|_| Fault::Missing("room for a name"))?;
        Ok(spec)
    }

    /// The next block. A leader that grinds withholds a beacon by which a commitment of its friend would be
    /// found, and must take the next one as it comes. What the turn that it gives up costs is not counted.
    fn block(&mut self, step: Millis, acts: Vec<Act>) -> Result<Vec<Event>, Fault> {
        let mut beacon = self.chain.beacon();
        for _ in 0..self.strategy.rerolls() {
            if self.is_found_by(&beacon)? {
                beacon = self.chain.beacon();
            }
        }
        self.chain.block_with(beacon, step, acts)
    }

    /// Whether something false would be drawn by this beacon of the next block.
    fn is_found_by(&self, beacon: &BeaconSignature) -> Result<bool, Fault> {
        let state = Overlay::new(&self.chain.state);
        let waiting = AuditPhase::Waiting { height: self.chain.next() };
        for (lease, Played { conduct, trace, .. }) in &self.played {
            let audit = state.find::<Audits>(*lease)?.filter(|audit| audit.phase == waiting);
            let Some(audit) = audit else { continue };
            let seed = draw::seed(CHAIN, &seed(beacon), lease, &trace.root(), Occasion::Audit);
            let drawn = draw::segments(&seed, &Part::whole(extent()), DRAWN.into());
            let is_false = |index: &SegmentIndex| conduct.faked.contains(&index.0);
            if draw::is_audited(&seed, audit.rate) && drawn.iter().any(is_false) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// All providers commit, when they have run for as long as they say.
    fn commit(&mut self, tasks: &[(TaskId, Party)], ready: bool) -> Result<(), Fault> {
        let mut acts = Vec::new();
        for (task, provider) in tasks {
            let lease = LeaseId { task: *task, number: 0 };
            let conduct = match ready {
                true => self.strategy.conduct(self.chain.dice()),
                false => Conduct::default(),
            };
            let run = self.work.run(conduct.faked.clone());
            let owner = Owner { task: task.0, provider: provider.address };
            let trace = Trace::new(&owner, extent(), None, run.segments.clone());
            let trace = trace.map_err(|_| Fault::Missing("trace"))?;
            let reached = trace.checkpoint(SegmentIndex(SEGMENTS));
            let copied = conduct.copies.then_some(Digest([7; 32]));
            let commitment = Commitment {
                root: copied.unwrap_or_else(|| trace.root()),
                steps: extent().steps,
                segments: extent().segments,
                reached: reached.ok_or(Fault::Missing("end of a run"))?,
                output: ArtifactId(Digest([9; 32])),
                usage: Usage { time: RUN, fuel: 1 << 50 },
                ending: Ending::Completed,
            };
            let operation = MarketOperation::CommitTrace { lease, commitment, witness: None };
            acts.push(Act { by: *provider, operation, free: true });
            self.played
                .insert(lease, Played { provider: *provider, conduct, run, trace, bribe: None });
        }
        // Whoever grinds wants a beacon for each, and cannot have several replaced by one turn.
        let each = if self.strategy.rerolls() > 0 { 1 } else { acts.len().max(1) };
        let mut step = Millis(5_000);
        for some in acts.chunks(each) {
            self.block(step, some.to_vec())?;
            step = APART;
        }
        Ok(())
    }

    /// Everybody says what it has to say, until all leases are closed.
    fn play(&mut self) -> Result<Vec<Event>, Fault> {
        let mut events = Vec::new();
        for _ in 0..MOST_BLOCKS {
            let open = self.played.keys().filter(|lease| self.is_open(**lease));
            let open: Vec<LeaseId> = open.copied().collect();
            if open.is_empty() {
                return Ok(events);
            }
            let mut acts = Vec::new();
            for lease in open {
                acts.extend(self.acts(lease)?);
            }
            events.extend(self.block(STEP, acts)?);
        }
        Err(Fault::Missing("end of the audits"))
    }

    fn is_open(&self, lease: LeaseId) -> bool {
        let task = Overlay::new(&self.chain.state).find::<Tasks>(lease.task).ok().flatten();
        task.is_some_and(|task| task.leases.iter().any(|it| !it.is_closed()))
    }

    /// What is said about a lease in the next block.
    fn acts(&mut self, lease: LeaseId) -> Result<Vec<Act>, Fault> {
        let state = Overlay::new(&self.chain.state);
        let Some(stored) = state.find::<Audits>(lease)? else { return Ok(Vec::new()) };
        if self.strategy.bribes() && matches!(stored.phase, AuditPhase::Waiting { .. }) {
            let bribe = self.bribe(lease, &stored)?;
            let played = self.played.get_mut(&lease);
            played.ok_or(Fault::Missing("lease"))?.bribe = bribe;
            return Ok(Vec::new());
        }
        let market = state.must_view::<Params>(())?.market;
        let subject = Subject { chain: CHAIN, lease, part: Part::whole(extent()) };
        let times = Times::of(&market.audits, market.objection);
        let Some(audit) = Audit::of(&stored, (subject, times)) else { return Ok(Vec::new()) };
        // What comes too late is not said.
        let next = self.chain.time.plus(STEP);
        if audit.deadline().is_none_or(|due| due <= next) {
            return Ok(Vec::new());
        }
        let Some(played) = self.played.get(&lease) else { return Ok(Vec::new()) };
        let hall = Hall {
            cast: &self.chain.cast,
            client: self.chain.party(0)?,
            work: &self.work,
            disputes: self.strategy == Strategy::Disputer,
            // Who audits again was not known when bribes were promised.
            manner: &|verifier| match played.bribe.is_some() && !stored.again {
                true => Manner::Friend,
                false => self.manner(verifier),
            },
            lease,
            stored: &stored,
            audit: &audit,
            played,
        };
        let acts = match &audit.phase {
            Phase::Answering => hall.answers(),
            Phase::Opening => hall.openings(),
            Phase::Posting => hall.posts(),
            Phase::Revealing => hall.reveals(),
            Phase::Disputing(dispute) => hall.turn(dispute),
            Phase::Objecting => hall.objection(),
            Phase::Drawing | Phase::Again | Phase::Decided(_) => Some(Vec::new()),
        };
        acts.ok_or(Fault::Missing("part of an audit"))
    }

    /// What each verifier is promised: as much as it would win by an objection, a quarter of the slash, less
    /// the fee that it gets. Nothing if being found costs less.
    fn bribe(&self, lease: LeaseId, stored: &Stored) -> Result<Option<i128>, Fault> {
        let task = Overlay::new(&self.chain.state).find::<Tasks>(lease.task)?;
        let task = task.ok_or(Fault::Missing("task"))?;
        let lease = task.leases.get(usize::from(lease.number)).ok_or(Fault::Missing("lease"))?;
        let stake = self.provider(lease.provider).map_or(0, |it| billionths(it.stake));
        let (most, rate) = (billionths(lease.most), i128::from(stored.rate.get()).max(1));
        let exposed = most.saturating_mul(1_000_i128.saturating_sub(rate)).checked_div(rate);
        let slash = billionths(lease.lock).saturating_add(exposed.unwrap_or(stake).min(stake));
        let fee = AGREED.checked_div(i128::from(SEGMENTS)).unwrap_or(0);
        let each = (slash / 4).saturating_sub(fee).max(0);
        let all = each.saturating_mul(i128::from(DRAWN));
        Ok((all < slash.saturating_add(AGREED)).then_some(each))
    }

    fn manner(&self, verifier: &Address) -> Manner {
        if self.others.contains(verifier) { self.strategy.manner() } else { Manner::Honest }
    }

    /// Adds a wave to what was measured.
    fn count(&mut self, events: &[Event], gained: i128) {
        let segment = AGREED.checked_div(i128::from(SEGMENTS)).unwrap_or(0);
        let costs = |segments: i128| {
            segment.saturating_mul(segments).saturating_mul(COST).checked_div(1_000).unwrap_or(0)
        };
        let measured = &mut self.measured;
        measured.gained = measured.gained.saturating_add(gained);
        let is_false = self.strategy.faked().is_some();
        for event in events {
            match event {
                Event::LeaseClosed { lease, verdict, paid, .. } => {
                    let Some(played) = self.played.get(lease) else { continue };
                    measured.tasks = measured.tasks.saturating_add(1);
                    measured.agreed = measured.agreed.saturating_add(AGREED);
                    measured.false_ones = measured.false_ones.saturating_add(u64::from(is_false));
                    let counter = match verdict {
                        Some(Verdict::Refuted) if is_false => Some(&mut measured.refuted),
                        Some(Verdict::Refuted) => Some(&mut measured.wrongly),
                        Some(Verdict::Inconclusive) => Some(&mut measured.unknown),
                        _ if is_false => Some(&mut measured.accepted),
                        _ => None,
                    };
                    if let Some(counter) = counter {
                        *counter = counter.saturating_add(1);
                    }
                    // A client has what it paid for; a provider has worked for what it did not fake.
                    if self.strategy == Strategy::Disputer {
                        measured.gained = measured.gained.saturating_add(billionths(*paid));
                    } else if !self.strategy.is_of_verifiers() && !played.conduct.copies {
                        let faked = i128::try_from(played.conduct.faked.len()).unwrap_or(0);
                        let ran = i128::from(SEGMENTS).saturating_sub(faked);
                        measured.cost = measured.cost.saturating_add(costs(ran));
                    }
                }
                Event::AuditClosed { lease, audit, .. } => {
                    let bribe = self.played.get(lease).and_then(|played| played.bribe);
                    if let (Some(each), AuditPhase::Decided(Finding::Upheld)) =
                        (bribe, &audit.phase)
                    {
                        let bought = audit.seats.iter().filter(|seat| seat.draw == 1).count();
                        let all = each.saturating_mul(i128::try_from(bought).unwrap_or(0));
                        measured.cost = measured.cost.saturating_add(all);
                    }
                    if let Some(faked) = self.strategy.faked() {
                        let sampling = Sampling {
                            rate: audit.rate,
                            segments: DRAWN.into(),
                            byzantine: self.strategy.covered(),
                            rerolls: self.strategy.rerolls(),
                        };
                        let found = sampling.detection(faked).get() / 1_000_000_000;
                        // Where the first verifiers are bribed, those find it who look again.
                        let again = self.strategy.market(DRAWN).audits.again;
                        let found = match bribe {
                            Some(_) => found.saturating_mul(again.get().into()) / 1_000,
                            None => found,
                        };
                        measured.expected = measured.expected.saturating_add(found);
                    }
                    if self.strategy.repeats() {
                        let own =
                            audit.seats.iter().filter(|it| self.others.contains(&it.verifier));
                        let duties = own.map(|seat| seat.duties.len()).sum::<usize>();
                        let duties = i128::try_from(duties).unwrap_or(0);
                        measured.cost = measured.cost.saturating_add(costs(duties));
                    }
                }
                _ => {}
            }
        }
    }
}

/// An amount in billionths of a token.
fn billionths(amount: Amount) -> i128 {
    i128::try_from(amount.0 / 1_000_000_000).unwrap_or(i128::MAX)
}

/// Becomes a provider with one device and room for many leases.
fn register(by: Party, stake: Amount) -> Result<Act, Fault> {
    let mut offer = goods::offer(&mut crate::dice::Dice::new(1));
    offer.class = Text::new("device").map_err(|_| Fault::Missing("class"))?;
    offer.devices = 64;
    offer.kinds = Set::all();
    offer.longest = Millis(3_600_000);
    offer.rate = Money::tokens(RATE);
    offer.reliability = Permille::ZERO;
    let offers = List::new(vec![offer]).map_err(|_| Fault::Missing("room for an offer"))?;
    let contact = goods::contact();
    let operation = MarketOperation::RegisterProvider { contact, offers, stake };
    Ok(Act { by, operation, free: false })
}
