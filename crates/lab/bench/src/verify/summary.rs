//! The table, the wanted figures and the words of a run.

use super::{
    court::{Blocks, Costs},
    liar::Lie,
    shares::{at_rate, percent},
    trusted::{RECORD, Trusted},
};
use crate::{
    figures::{Figures, float},
    machine,
    report::Report,
    want::{Sense, Want},
};
use serde_json::{Map, json};

/// Of which benchmark the figures are.
const ID: &str = "B8";
/// Milliseconds of a segment from which the bound is published.
const LEAST: f64 = 50.0;

/// Names of figures.
pub(super) mod name {
    pub(crate) const EXTRA: &str = "audited run: verifiers' executors, %";
    pub(crate) const TWELVE: &str = "audited run: derived for 12 verifiers, %";
    pub(crate) const FIXED: &str = "audited run: verifier beside its segments, ms";
    pub(crate) const OWN: &str = "audited run: executor of the provider, s";
    pub(crate) const CHECKING: &str = "audited run: executors of verifiers, s";
    pub(crate) const SEGMENT: &str = "audited run: a segment, ms";
    pub(crate) const DRAWN: &str = "audited run: segments drawn";
    pub(crate) const WALL: &str = "audited run: submit to settled, clock, s";
    pub(crate) const VERDICT: &str = "audited run: commitment to verdict, s";
    pub(crate) const VERDICT_BLOCKS: &str = "audited run: commitment to verdict, blocks";
    pub(crate) const SAID: &str = "audit on chain: transactions";
    pub(crate) const BYTES: &str = "audit on chain: bytes of transactions";
    pub(crate) const RECEIPTS: &str = "audit on chain: bytes of receipts and events";
    pub(crate) const COPY: &str = "two copies: the second one, %";
    pub(crate) const COPIES_WALL: &str = "two copies: submit to settled, clock, s";
    pub(crate) const IDLE: &str = "idle network: all processes, ms a second";
    pub(crate) const REST: &str = "beside executors: an audit, net of idling, s";
    pub(crate) const REST_AGENTS: &str = "beside executors: agents with transfer, s";
    pub(crate) const REST_NODES: &str = "beside executors: validators, s";
    pub(crate) const REST_RELAY: &str = "beside executors: relay, s";
    pub(crate) const REST_CLIENT: &str = "beside executors: client, s";
    pub(crate) const LONGER: &str = "beside executors: an audit takes, clock, s";
    pub(crate) const RATE: &str = "trusted: rate of the chain, %";
    pub(crate) const LOTS: &str = "trusted: commitments audited, %";
    pub(crate) const SHORT: &str = "trusted: verifiers, % of short segments";

    /// All that are measured on the network, in the sequence of the table.
    pub(crate) const ALL: [&str; 25] = [
        EXTRA,
        TWELVE,
        FIXED,
        OWN,
        CHECKING,
        SEGMENT,
        DRAWN,
        WALL,
        VERDICT,
        VERDICT_BLOCKS,
        COPY,
        COPIES_WALL,
        SAID,
        BYTES,
        RECEIPTS,
        IDLE,
        REST,
        REST_AGENTS,
        REST_NODES,
        REST_RELAY,
        REST_CLIENT,
        LONGER,
        RATE,
        LOTS,
        SHORT,
    ];
}

/// Everything that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) figures: Figures,
    pub(super) trusted: Trusted,
    pub(super) costs: Costs,
    pub(super) blocks: Blocks,
    pub(super) lie: Option<Lie>,
    pub(super) providers: usize,
}

/// What a run says.
pub(super) fn report(begun: u64, load: f64, found: &Found) -> Report {
    let mut more = Map::new();
    more.insert("rounds".to_owned(), json!(found.figures.0));
    more.insert("load".to_owned(), json!([load, machine::load_average()]));
    let (rows, notes) = (rows(found), notes(found, load));
    Report { bench: "verify", begun, rows, notes, wants: wants(found), more }
}

fn wants(found: &Found) -> Vec<Want> {
    let extra = found.figures.middle(name::EXTRA);
    let want =
        |name, measured, wanted| Want { id: ID, name, measured, sense: Sense::AtMost, wanted };
    vec![want("extra-new", extra.clone(), 5.0), want("extra-trusted", trusted(found, extra), 0.5)]
}

/// What the audits of a trusted provider take: derived from an audit of everything and the rate of the chain.
fn trusted(found: &Found, extra: Result<f64, String>) -> Result<f64, String> {
    let record = found.trusted.record;
    if record < RECORD {
        return Err(format!("no trusted provider, {record} of {RECORD} commitments were upheld"));
    }
    let rate = found.trusted.rate().ok_or_else(|| "no lot was drawn".to_owned())?;
    Ok(at_rate(extra?, rate))
}

fn rows(found: &Found) -> Vec<(&'static str, f64)> {
    let figures = &found.figures;
    let mut rows: Vec<_> =
        name::ALL.iter().filter_map(|name| Some((*name, figures.middle(name).ok()?))).collect();
    let mut add = |name, value: Option<f64>| rows.extend(value.map(|value| (name, value)));
    if let (Ok(rest), Ok(own)) = (figures.middle(name::REST), figures.middle(name::OWN)) {
        add("beside executors: derived share of a run, %", percent(rest, own));
    }
    let costs = &found.costs;
    let transfer = costs.transfer.each();
    add("ledger in memory: an audit, us", costs.audit());
    add("ledger in memory: its alarms, us", Some(costs.alarms / f64::from(costs.tasks.max(1))));
    add("ledger in memory: one statement, us", costs.statements.each());
    add("ledger in memory: a transfer, us", transfer);
    let ratio = costs.audit().zip(transfer).map(|(audit, transfer)| audit / transfer);
    add("ledger in memory: an audit, x transfers", ratio);
    let size = |size: usize| Some(super::shares::count(size));
    add("ledger in memory: transactions, 12 verifiers", size(costs.count));
    add("ledger in memory: bytes of transactions", size(costs.transactions));
    add("ledger in memory: bytes of receipts and events", size(costs.receipts));
    let Blocks { steps, committed, objected } = found.blocks;
    add("dispute: steps of the segment", Some(float(steps)));
    add("dispute: commitment to verdict, least blocks", Some(float(committed)));
    add("dispute: objection to verdict, least blocks", Some(float(objected)));
    if let Some(pace) = pace(figures) {
        add("dispute: derived commitment to verdict, least s", Some(float(committed) * pace));
        add("dispute: derived objection to verdict, least s", Some(float(objected) * pace));
    }
    if let Some(lie) = found.lie {
        add("liar: commitment to verdict, blocks", Some(lie.committed.0));
        add("liar: commitment to verdict, s", Some(lie.committed.1));
        add("liar: objection to verdict, blocks", Some(lie.objected.0));
        add("liar: objection to verdict, s", Some(lie.objected.1));
    }
    rows
}

/// Seconds from block to block while audits run on the network.
fn pace(figures: &Figures) -> Option<f64> {
    let (seconds, blocks) = (figures.middle(name::VERDICT), figures.middle(name::VERDICT_BLOCKS));
    let (seconds, blocks) = (seconds.ok()?, blocks.ok()?);
    (blocks > 0.0).then(|| seconds / blocks)
}

fn notes(found: &Found, load: f64) -> Vec<String> {
    let Found { trusted, providers, lie, figures, .. } = found;
    let verifiers = providers.saturating_sub(1);
    let mut notes = vec![
        format!("load average {load:.2} before and {:.2} after", machine::load_average()),
        format!(
            "extra-new is measured: middle of rounds of executors' processor time, {verifiers} verifiers on \
             one machine with the provider"
        ),
        format!(
            "extra-trusted is derived: extra-new at the rate by which the chain drew lots for the provider; \
             measured are that rate, with {} upheld commitments, and that {} of {} commitments were \
             audited",
            trusted.record,
            trusted.audited,
            trusted.rates.len()
        ),
        "what is beside executors was measured with short segments: it does not depend on their length; \
         objections are waited for 0.3 s instead of 1 s"
            .to_owned(),
        "on the ledger in memory no signature is checked, neither of audits nor of transfers".to_owned(),
        "blocks of a dispute are a lower bound: everybody speaks in the next block; seconds are derived by \
         the pace of blocks in the audits of this run"
            .to_owned(),
    ];
    if lie.is_none() {
        notes.push("liar: not measured, no program was named with --liar".to_owned());
    }
    if figures.middle(name::SEGMENT).is_ok_and(|segment| segment < LEAST) {
        notes.push(format!(
            "segments took less than {LEAST} ms: extra-new is not what the bound is about"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rates: Vec<f64>) -> Found {
        let mut figures = Figures::default();
        for extra in [4.5, 4.9, 9.0] {
            figures.add(name::EXTRA, extra);
        }
        let all = [(name::OWN, 15.0), (name::REST, 0.3), (name::SEGMENT, 58.0)];
        for (name, value) in all.into_iter().chain([(name::VERDICT, 4.0)]) {
            figures.add(name, value);
        }
        figures.add(name::VERDICT_BLOCKS, 20.0);
        Found {
            figures,
            trusted: Trusted { record: 200, rates, ..Trusted::default() },
            costs: Costs::default(),
            blocks: Blocks { steps: 64, committed: 12, objected: 5 },
            lie: None,
            providers: 4,
        }
    }

    fn lines(found: &Found) -> Vec<String> {
        wants(found).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_wanted_figures_appear_and_the_middle_of_the_rounds_counts() {
        assert_eq!(
            lines(&found(vec![100.0])),
            [
                "want B8 extra-new: 4.9 (wanted <= 5) ok",
                "want B8 extra-trusted: 0.49 (wanted <= 0.5) ok"
            ]
        );
        assert_eq!(
            lines(&found(vec![100.0, 110.0]))[1],
            "want B8 extra-trusted: 0.51 (wanted <= 0.5) short"
        );
    }

    #[test]
    fn what_was_not_measured_is_no_figure() {
        let all = lines(&found(Vec::new()));
        assert!(all[1].contains("no lot was drawn") && all[1].ends_with("short"), "{all:?}");
        let mut newcomer = found(vec![1_000.0]);
        newcomer.trusted.record = 4;
        assert!(lines(&newcomer)[1].contains("4 of 200 commitments were upheld"));
        let nothing = Found { figures: Figures::default(), ..found(vec![100.0]) };
        assert!(lines(&nothing).iter().all(|line| line.contains("not measured")));
        assert!(rows(&nothing).iter().all(|(name, _)| !name.contains("derived")));
    }

    #[test]
    fn what_is_derived_says_so_and_what_is_missing_too() {
        let found = found(vec![100.0]);
        let rows = rows(&found);
        let row = |name| rows.iter().find(|(it, _)| *it == name).map(|(_, value)| *value);
        assert_eq!(row("beside executors: derived share of a run, %"), Some(2.0));
        assert_eq!(row("dispute: derived objection to verdict, least s"), Some(1.0));
        assert_eq!(row("liar: objection to verdict, s"), None);
        let notes = notes(&found, 1.0);
        assert!(notes.iter().any(|note| note.starts_with("extra-trusted is derived")));
        assert!(notes.iter().any(|note| note.starts_with("liar: not measured")));
        assert!(notes.iter().all(|note| !note.contains("less than 50 ms")));
    }

    #[test]
    fn segments_that_are_too_short_are_told() {
        let mut found = found(vec![100.0]);
        found.figures.0.insert(name::SEGMENT, vec![14.0]);
        assert!(notes(&found, 1.0).iter().any(|note| note.contains("less than 50 ms")));
    }

    #[test]
    fn no_two_figures_have_one_name() {
        let all: std::collections::BTreeSet<_> = name::ALL.into_iter().collect();
        assert_eq!(all.len(), name::ALL.len());
        assert!(all.iter().all(|name| name.len() <= 52), "the table has so much room");
    }
}
