//! The market on the tour: three providers, a picture and a training, each quoted, auctioned, run,
//! fetched and checked without the network.

use super::Tour;
use crate::{
    dev::{PATIENCE, providers},
    examples::{Example, PATH_TRACER, TRAIN_DIGITS},
    exit::{Complaint, Exit},
    input,
    task::{picture, receipt},
    verify,
};
use anyhow::{Context as _, Result};
use opengpu_client::{devnet, market};
use opengpu_sdk::{Attended, Client, Wishes, quote::quote};
use opengpu_types::{Allocating, Amount, ArtifactId, Money, Task, TaskId, TaskPhase, Weights};
use std::{sync::atomic::AtomicBool, time::Instant};

/// Honest providers of the tour.
pub(super) const PROVIDERS: u8 = 3;
/// What each task may cost.
const BUDGET: Amount = Amount::whole(1);
/// By sealed bids, as a client weighs them that wishes nothing else.
const AUCTION: (Allocating, Weights) = (Allocating::Auction, Wishes::WEIGHTS);

/// A task that has ended.
pub(super) struct Done {
    pub(super) id: TaskId,
    pub(super) task: Box<Task>,
    pub(super) output: Vec<u8>,
    pub(super) text: String,
}

impl Tour<'_> {
    pub(super) fn market(&mut self) -> Result<()> {
        self.providers()?;
        let rendered = self.trade(&PATH_TRACER, AUCTION)?;
        let program = PATH_TRACER.unpack(self.network.path())?;
        let shape = program.manifest.picture.context("the program paints no picture")?;
        let path = self.network.path().join("picture.png");
        std::fs::write(&path, picture::png(shape, &rendered.output)?)?;
        self.tell(8, "A picture", &format!("{}\nlook at {}", rendered.text, path.display()))?;
        let trained = self.trade(&TRAIN_DIGITS, AUCTION)?;
        self.tell(9, "A training", &trained.text)?;
        let checked = [&rendered, &trained].map(|done| self.check(done));
        let lines: Vec<_> = checked.into_iter().collect::<Result<_>>()?;
        self.tell(10, "Receipts of both, checked offline against the genesis", &lines.join("\n"))
    }

    fn providers(&mut self) -> Result<()> {
        providers::start(self.context, self.network, PROVIDERS, self.processes, self.stop)?;
        let mut lines = Vec::new();
        for standing in market::offers(&self.rpc)? {
            let (offer, rating) = (&standing.offer, &standing.offer.rating);
            lines.push(format!(
                "{} offers {} x {} for {}/s, rated at {} million integer operations a second",
                standing.provider, standing.free, offer.class, offer.rate, rating.integers
            ));
        }
        self.tell(7, "Three providers register and are rated", &lines.join("\n"))
    }

    /// Quotes a program, has it awarded and run, and fetches its output.
    pub(super) fn trade(
        &self,
        example: &Example,
        (allocating, weights): (Allocating, Weights),
    ) -> Result<Done> {
        let client = Client::open(self.network.path(), &self.rpc, self.network.genesis.chain)?;
        let [from, _] = devnet::USERS;
        let program = example.unpack(self.network.path())?;
        let input = input::read(&program, None)?;
        let allocating = Some(allocating);
        let wishes = Wishes { allocating, weights, ..Wishes::new(Money::tokens(BUDGET)) };
        let dollar = self.rpc.parameters()?.parameters.market.dollar;
        let spec = wishes.spec(&program, ArtifactId::of(&input), dollar);
        let offers = market::offers(&self.rpc)?;
        let payer = self.address(from)?;
        let reliability = market::reliability(&self.rpc, payer)?;
        let quote = quote(&spec, BUDGET, (&payer, reliability), &offers, dollar);
        let best = quote.fitting.first().with_context(|| format!("nobody runs it: {quote:?}"))?;
        let quoted =
            format!("{} offers fit, the cheapest would be {} oGPU", quote.fitting.len(), best.cost);
        let packed = client.pack(&program, &input, None, spec)?;
        let begin = Instant::now();
        let signatory = self.network.unlock(from)?;
        let id = client.submit(&signatory, &packed, wishes.budget, BUDGET)?;
        let (task, output) = self.attend(&client, id)?;
        let lease = task.leases.iter().find(|lease| !lease.paid.is_zero());
        let lease = lease.context("nobody was paid")?;
        let text = format!(
            "{}: {quoted}\nwon by {} for {} oGPU/s, settled after {} ms\n\
             {} bytes of output, paid {} of {BUDGET} oGPU, {} came back",
            example.name,
            lease.provider,
            lease.rate,
            begin.elapsed().as_millis(),
            output.len(),
            task.paid,
            task.refunded,
        );
        Ok(Done { id, task, output, text })
    }

    fn attend(&self, client: &Client, id: TaskId) -> Result<(Box<Task>, Vec<u8>)> {
        let (begin, left) = (Instant::now(), AtomicBool::new(false));
        let attended = client.attend(id, &left, &mut |_, _| {
            if self.stop.is_requested() || begin.elapsed() > PATIENCE.saturating_mul(3) {
                left.store(true, std::sync::atomic::Ordering::SeqCst);
            }
        })?;
        match attended {
            Attended::Ended { task, output } => Ok((task, output?)),
            Attended::Left => Err(Complaint::new(Exit::Failed, "the task did not end").into()),
        }
    }

    /// Checks the receipt of a task as somebody would who has only the genesis and the output.
    fn check(&self, done: &Done) -> Result<String> {
        let TaskPhase::Closed { at, .. } = done.task.phase else {
            return Err(Complaint::new(Exit::Failed, "the task has not ended").into());
        };
        let (_, bytes) = receipt::settled(&self.rpc, done.id, at)?;
        let path = self.network.path().join(format!("{}.receipt", done.id));
        std::fs::write(&path, &bytes)?;
        let receipt = verify::receipt(&bytes, verify::trust(&self.network.genesis)?)?;
        if !receipt::names(&receipt, &done.output) {
            let told = "the receipt names another output than the one that came";
            return Err(Complaint::new(Exit::Verification, told).into());
        }
        Ok(format!("{} is true: block {}, and names this output", path.display(), receipt.height))
    }
}
