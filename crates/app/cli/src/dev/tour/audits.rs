//! Audits on the tour: an honest task that others repeat in part, and one whose provider runs nothing, which
//! is narrowed to one step, executed by all validators, and slashed. The evidence of both is a file that is
//! checked against the genesis alone.

use super::{
    Tour,
    market::{Done, PROVIDERS},
};
use crate::{
    dev::providers,
    examples::SHA256_SEARCH,
    exit::{Complaint, Exit},
    task::audit,
};
use anyhow::Result;
use opengpu_light::Report;
use opengpu_types::{Allocating, Fault, Finding, LeaseId, Permille, Verdict, Weights};

/// At once, to whoever costs least, whatever its record is: so the one that cheats gets its task.
const CHEAPEST: (Allocating, Weights) = (
    Allocating::Spot,
    Weights { time: Permille::ZERO, reliability: Permille::ZERO, proximity: Permille::ZERO },
);

impl Tour<'_> {
    pub(super) fn audits(&mut self) -> Result<()> {
        let honest = self.trade(&SHA256_SEARCH, CHEAPEST)?;
        let (report, told) = self.evidence(&honest)?;
        if report.finding != Finding::Upheld || report.closing.certificate.draws == 0 {
            return Err(wrong("others should have repeated the search and agreed", &report));
        }
        let text = format!("{}\n{told}", honest.text);
        self.tell(11, "An audit: others repeat parts of a task, and agree", &text)?;
        let Some(liar) = self.liar else {
            let text = "a build that lies is not here; `cargo xtask up --tour` has one";
            return self.tell(12, "A provider that cheats", text);
        };
        let place = (self.context, &*self.network);
        providers::start_liar(place, PROVIDERS, liar, self.processes, self.stop)?;
        let cheated = self.trade(&SHA256_SEARCH, CHEAPEST)?;
        let (report, told) = self.evidence(&cheated)?;
        let is_found = matches!(report.finding, Finding::Refuted(Fault::Wrong { .. }));
        if !is_found || report.closing.slash.is_none() {
            return Err(wrong("the cheater should have been found and slashed", &report));
        }
        let paid = cheated.task.leases.iter().filter(|lease| !lease.paid.is_zero());
        let others = paid.map(|lease| (lease.provider != report.facts.provider, lease.verdict));
        if others.collect::<Vec<_>>() != [(true, Some(Verdict::Upheld))] {
            return Err(wrong(
                "another provider should have been paid for work that holds",
                &report,
            ));
        }
        let text = format!(
            "it took the least, and ran nothing\n{told}\nanother provider did the work: {}",
            cheated.text
        );
        self.tell(12, "A provider that cheats is caught, narrowed to one step, and slashed", &text)
    }

    /// What the evidence of a task's first lease says, once it was checked as somebody would who has only the
    /// genesis, and the same in words.
    fn evidence(&self, done: &Done) -> Result<(Report, String)> {
        let lease = LeaseId { task: done.id, number: 0 };
        let evidence = audit::evidence(&self.rpc, &done.task, lease)?;
        let path = self.network.path().join(format!("{}.evidence", done.id));
        let bytes = evidence.to_bytes();
        std::fs::write(&path, &bytes)?;
        let report = audit::check(&bytes, &self.network.genesis)?;
        let told = format!(
            "{}\nthe evidence in {} is true: {} bytes, checked offline against the genesis",
            audit::words(&report),
            path.display(),
            bytes.len()
        );
        Ok((report, told))
    }
}

fn wrong(told: &str, report: &Report) -> anyhow::Error {
    let found = format!("{told}:\n{}", audit::words(report));
    Complaint::new(Exit::Verification, found).into()
}
