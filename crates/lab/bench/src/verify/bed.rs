//! A network of real processes on which tasks are run one by one, with what everybody spent on each.

use super::{
    shares::{Audited, Spent, count},
    story::Story,
    work::Work,
};
use crate::{
    error::BenchError,
    machine,
    network::{Cast, Member, Scene},
    process,
    tasks::client::{BUDGET, Settled, Submitter},
};
use opengpu_crypto::Keypair;
use opengpu_sdk::{Check, Wishes};
use opengpu_types::{
    Address, Allocating, Amount, AuditPhase, Entry, Finding, Height, Key, List, Measure, Millis,
    Money, Permille, TaskId, Trust, Work as Amounts,
};
use rand::{SeedableRng as _, rngs::StdRng};
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Stake of each provider: no newcomer's, and more than all pledges.
const STAKE: Amount = Amount::whole(500);
/// After a task, until executors that ended are waited for.
const REST: Duration = Duration::from_millis(300);
/// Longest time of a lease.
const LONGEST: Millis = Millis(180_000);
/// How much work a task says that it is: as little for short as for long runs, so that none is thought to take
/// too long when one before it was slower than predicted.
const LITTLE: Amounts = Amounts { amount: 1_000, measure: Measure::Integers };
/// How long the client objects: nobody does here, and every task waits for it.
const OBJECTION: Millis = Millis(300);

/// The network, and one client.
pub(super) struct Bed {
    pub(super) scene: Scene,
    pub(super) submitter: Submitter,
    begun: Instant,
    inputs: u64,
}

/// How a task is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// By this provider, and audited as its record says.
    Checked(usize),
    /// By this provider, and not audited.
    Fast(usize),
    /// By this provider, with the example's own predicate, which decides on chain.
    Judged(usize),
    /// By two providers, whoever they are.
    Copies,
}

/// A task that was run.
pub(super) struct Ran {
    pub(super) spent: Spent,
    pub(super) story: Story,
}

impl Bed {
    /// Starts a network with so many providers; the last one is another program if one is named.
    pub(super) fn start(
        opengpu: &Path,
        folder: &Path,
        providers: usize,
        liar: Option<&Path>,
    ) -> Result<Self, BenchError> {
        let mut rng = StdRng::seed_from_u64(machine::now());
        let keypair = Keypair::generate_ed25519(&mut rng);
        let clients = [keypair.clone()];
        let cast = Cast { providers, stake: STAKE, clients: &clients };
        let change = |parameters: &mut opengpu_types::Parameters| {
            parameters.market.objection = OBJECTION;
        };
        let mut scene = Scene::make_with(opengpu, folder, &cast, change, &mut rng)?;
        if let Some(liar) = liar {
            let last = scene.providers.pop();
            scene.providers.extend(last.map(|last| last.played_by(liar.to_owned())));
        }
        scene.start()?;
        let submitter = Submitter::open(&scene, &folder.join("client"), keypair)?;
        Ok(Self { scene, submitter, begun: Instant::now(), inputs: 0 })
    }

    /// What everybody has spent so far.
    pub(super) fn spent(&self) -> Spent {
        let parts = |members: &[Member]| {
            let all = members.iter().map(|it| it.parts().unwrap_or_default());
            all.map(|it| (it.below.as_secs_f64(), it.own.as_secs_f64())).unzip()
        };
        let whole =
            |member: &Member| member.usage().map_or(0.0, |usage| usage.processor.as_secs_f64());
        let (executors, agents) = parts(&self.scene.providers);
        Spent {
            executors,
            agents,
            nodes: self.scene.nodes.iter().map(whole).sum(),
            relay: whole(&self.scene.relay),
            client: process::own_usage().processor.as_secs_f64(),
            wall: self.begun.elapsed().as_secs_f64(),
        }
    }

    /// What an idle network spends in so long.
    pub(super) fn idle(&self, time: Duration) -> Spent {
        let before = self.spent();
        thread::sleep(time);
        self.spent().since(&before)
    }

    /// Runs a task to its settlement, and reads its story back.
    pub(super) fn run(&mut self, work: &Work, way: Way) -> Result<Ran, BenchError> {
        let (input, check) = self.next_input(work, way)?;
        let rpc = self.scene.rpcs.first().ok_or(BenchError::Nothing("no node"))?.clone();
        let from = rpc.status()?.height;
        let before = self.spent();
        let wishes = self.wishes(way)?;
        let id = self.submitter.submit(&work.program, &input, check.as_ref(), &wishes)?;
        let settled = self.submitter.attend(id)?;
        thread::sleep(REST);
        let spent = self.spent().since(&before);
        let story = self.story(settled.id, from)?;
        self.expect(&settled, &story, way)?;
        Ok(Ran { spent, story })
    }

    /// An input that nobody has seen, and what judges its output.
    pub(super) fn next_input(
        &mut self,
        work: &Work,
        way: Way,
    ) -> Result<(Vec<u8>, Option<Check>), BenchError> {
        self.inputs = self.inputs.saturating_add(1);
        let check = matches!(way, Way::Judged(_)).then(super::work::check).transpose()?;
        Ok((work.input(self.inputs), check))
    }

    pub(super) fn wishes(&self, way: Way) -> Result<Wishes, BenchError> {
        let (by, trust) = match way {
            Way::Checked(by) | Way::Judged(by) => (Some(by), Trust::Checked),
            Way::Fast(by) => (Some(by), Trust::Fast),
            Way::Copies => (None, Trust::Replicated),
        };
        let allowed = by.map(|by| self.account(by)).transpose()?;
        let check = matches!(way, Way::Judged(_)).then(super::work::check).transpose()?;
        Ok(Wishes {
            trust,
            copies: (way == Way::Copies).then_some(2),
            check: check.map(|check| check.id()),
            allowed: List::new(allowed.into_iter().collect()).unwrap_or_default(),
            allocating: Some(Allocating::Spot),
            longest: Some(LONGEST),
            work: Some(LITTLE),
            ..Wishes::new(Money::tokens(BUDGET))
        })
    }

    pub(super) fn account(&self, provider: usize) -> Result<Address, BenchError> {
        self.scene.accounts.get(provider).copied().ok_or(BenchError::Nothing("no such provider"))
    }

    /// What the chain says of a task that was submitted after a block.
    pub(super) fn story(&self, task: TaskId, after: Height) -> Result<Story, BenchError> {
        let rpc = self.scene.rpcs.first().ok_or(BenchError::Nothing("no node"))?;
        let status = rpc.status()?;
        let mut story = Story::new(status.chain, task);
        for height in (after.0.saturating_add(1)..=status.height.0).map(Height) {
            let receipts = rpc.receipts(height)?;
            // Most blocks are empty but for their own receipt.
            let filled = receipts.iter().any(|receipt| receipt.transaction.is_some());
            let transactions = if filled { rpc.transactions(height)? } else { Vec::new() };
            story.read(height, &receipts, &transactions);
        }
        Ok(story)
    }

    /// Seconds of block time between two blocks.
    pub(super) fn between(&self, from: Height, to: Height) -> Result<f64, BenchError> {
        let rpc = self.scene.rpcs.first().ok_or(BenchError::Nothing("no node"))?;
        let (from, to) = (rpc.block(Some(from))?.time, rpc.block(Some(to))?.time);
        Ok(crate::figures::float(to.since(from).0) / 1e3)
    }

    /// Commitments of a provider that were upheld.
    pub(super) fn record(&self, provider: usize) -> Result<u32, BenchError> {
        let rpc = self.scene.rpcs.first().ok_or(BenchError::Nothing("no node"))?;
        match rpc.entry(&Key::Provider(self.account(provider)?))? {
            Some(Entry::Provider(provider)) => Ok(provider.reputation.clean),
            _ => Err(BenchError::Nothing("a provider that is not on chain")),
        }
    }

    /// An error if the task did not go as it was meant to: no figure is taken of it then.
    fn expect(&self, settled: &Settled, story: &Story, way: Way) -> Result<(), BenchError> {
        let wrong = |why: String| Err(BenchError::Audit(why));
        if settled.output.is_empty() {
            return wrong("a task has no output".to_owned());
        }
        match way {
            Way::Copies if story.providers.len() == 2 => Ok(()),
            Way::Copies => {
                wrong(format!("a task of two copies had {} leases", story.providers.len()))
            }
            Way::Checked(by) | Way::Fast(by) | Way::Judged(by) => {
                let wanted = self.account(by)?;
                match story.providers.as_slice() {
                    [only] if *only == wanted => Ok(()),
                    others => wrong(format!("provider {by} should have won alone, not {others:?}")),
                }
            }
        }
    }
}

/// An audit of a run that was upheld at this rate by all that it drew; an error otherwise.
pub(super) fn upheld(
    ran: &Ran,
    provider: usize,
    work: &Work,
    rate: Permille,
) -> Result<Audited, BenchError> {
    let wrong = |why: String| Err(BenchError::Audit(why));
    let Some(audit) = &ran.story.audit else { return wrong("nothing was audited".to_owned()) };
    if audit.phase != AuditPhase::Decided(Finding::Upheld) {
        return wrong(format!("it ended as {:?}", audit.phase));
    }
    if audit.rate != rate {
        return wrong(format!("it was done at the rate {:?}, not {rate:?}", audit.rate));
    }
    if audit.draws != 1 || ran.story.verifiers.is_empty() {
        return wrong(format!("it took {} draws", audit.draws));
    }
    let audited = Audited {
        own: ran.spent.executor(provider),
        checking: ran.spent.executors_beside(provider),
        segments: usize::try_from(work.segments).unwrap_or(0),
        drawn: ran.story.segments(),
        verifiers: ran.story.verifiers.len(),
    };
    if audited.own <= 0.0 || audited.checking <= 0.0 {
        return wrong(format!("executors took {:.2} s and {:.2} s", audited.own, audited.checking));
    }
    Ok(audited)
}

/// What a task of two copies spent beside one run of the same work, in percent of it.
pub(super) fn second_copy(copies: &Spent, own: f64) -> Option<f64> {
    let all: f64 = copies.executors.iter().sum();
    super::shares::percent(all - own, own)
}

/// Milliseconds of a segment.
pub(super) fn milliseconds(audited: &Audited) -> f64 {
    1e3 * audited.own / count(audited.segments.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_copy_is_what_both_took_beside_one_run() {
        let copies = Spent { executors: vec![10.5, 0.0, 9.5], ..Spent::default() };
        assert_eq!(second_copy(&copies, 10.0), Some(100.0));
        assert_eq!(second_copy(&copies, 8.0), Some(150.0));
        assert_eq!(second_copy(&copies, 0.0), None);
    }
}
