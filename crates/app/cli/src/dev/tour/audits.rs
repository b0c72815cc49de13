//! Audits on the tour: an honest task that others repeat in part, and one whose provider runs nothing, which
//! is narrowed to one step, executed by all validators, and slashed.

use super::{Tour, market::Done, market::PROVIDERS};
use crate::{
    dev::providers,
    examples::SHA256_SEARCH,
    exit::{Complaint, Exit},
};
use anyhow::{Context as _, Result};
use opengpu_types::{
    Address, Allocating, Amount, Audit, AuditPhase, AuditSeat, Challenger, Event, Fault, Finding,
    Height, Outcome, Verdict,
};

/// What audits of a task have told.
#[derive(Default)]
struct Told {
    audits: Vec<(Box<Audit>, Amount)>,
    slash: Option<(Address, [Amount; 4])>,
}

impl Tour<'_> {
    pub(super) fn audits(&mut self) -> Result<()> {
        let (honest, told) = self.search()?;
        let (audit, fees) = told.audits.first().context("nobody has audited the search")?;
        let text = format!("{}\n{}\nverifiers were paid {fees} of it", honest.text, drawn(audit));
        self.tell(11, "An audit: others repeat parts of a task, and agree", &text)?;
        let Some(liar) = self.liar else {
            let text = "a build that lies is not here; `cargo xtask up --tour` has one";
            return self.tell(12, "A provider that cheats", text);
        };
        let lies = (self.context, &*self.network);
        providers::start_liar(lies, PROVIDERS, liar, self.processes, self.stop)?;
        let (cheated, told) = self.search()?;
        let (audit, _) = told.audits.first().context("nobody has audited the cheater")?;
        let (cheater, amounts) = told.slash.context("nobody was slashed")?;
        let [amount, burned, client, finder] = amounts;
        let text = format!(
            "{cheater} took the least, and ran nothing\n{}\n{}\n\
             it lost {amount} oGPU: {burned} burned, {client} to the client, {finder} to the finder\n\
             another provider did the work: {}",
            drawn(audit),
            refuted(audit)?,
            cheated.text,
        );
        self.tell(12, "A provider that cheats is caught, narrowed to one step, and slashed", &text)
    }

    /// Has the search run by whoever takes the least.
    fn search(&self) -> Result<(Done, Told)> {
        let first = self.rpc.status()?.height;
        let done = self.trade(&SHA256_SEARCH, Allocating::Spot)?;
        let mut told = Told::default();
        for height in first.0..=self.rpc.status()?.height.0 {
            let receipts = self.rpc.receipts(Height(height))?;
            let applied = receipts.into_iter().filter(|it| it.outcome == Outcome::Applied);
            for event in applied.flat_map(|receipt| receipt.events.into_vec()) {
                match event {
                    Event::AuditClosed { lease, audit, fees, .. } if lease.task == done.id => {
                        told.audits.push((Box::new(audit.into_inner()), fees));
                    }
                    Event::ProviderSlashed { provider, lease, amount, burned, client, finder }
                        if lease.task == done.id =>
                    {
                        told.slash = Some((provider, [amount, burned, client, finder]));
                    }
                    _ => {}
                }
            }
        }
        let upheld = done.task.leases.iter().filter(|lease| !lease.paid.is_zero());
        let all = upheld.map(|lease| lease.verdict).collect::<Vec<_>>();
        if all != [Some(Verdict::Upheld)] {
            return Err(wrong(format!("what was paid was not upheld: {all:?}")));
        }
        Ok((done, told))
    }
}

/// Who repeated what.
fn drawn(audit: &Audit) -> String {
    let seat = |seat: &AuditSeat| {
        let segments: Vec<_> = seat.duties.iter().map(|duty| duty.index.to_string()).collect();
        format!("{} repeated segments {}", seat.verifier, segments.join(", "))
    };
    audit.seats.iter().map(seat).collect::<Vec<_>>().join("\n")
}

/// How a dispute was lost.
fn refuted(audit: &Audit) -> Result<String> {
    match audit.phase {
        AuditPhase::Decided(Finding::Refuted(Fault::Wrong {
            finder: Challenger::Verifier(finder),
            index,
        })) => Ok(format!(
            "{finder} found another end of segment {index}; both narrowed it to one step, \
             and every validator executed that"
        )),
        ref phase => Err(wrong(format!("the cheater was not refuted in a dispute: {phase:?}"))),
    }
}

fn wrong(told: String) -> anyhow::Error {
    Complaint::new(Exit::Verification, told).into()
}
