//! What a run of the chain says.

use super::{
    anvil::Mined,
    round::{Idle, Loaded},
};
use crate::{
    figures::{median, percentile},
    machine, report,
    want::{Sense, Want},
};
use serde_json::{Map, Value, json};

const ID: &str = "B11";

const FRESH: [&str; 6] = [
    "fresh: empty-block finality p50, ms",
    "fresh: empty-block finality p99, ms",
    "fresh: block time, ms",
    "fresh: memory per node, MiB",
    "fresh: CPU, % of a core",
    "fresh: disk per node, MiB",
];
const IDLE: [&str; 6] = [
    "idle after load: empty-block finality p50, ms",
    "idle after load: empty-block finality p99, ms",
    "idle after load: block time, ms",
    "idle after load: memory per node, MiB",
    "idle after load: CPU, % of a core",
    "idle after load: disk per node, MiB",
];

/// Of a span without load, in the sequence of the names above.
fn figures(idle: &Idle) -> [f64; 6] {
    let part = |part| percentile(&idle.finality, part).unwrap_or(f64::NAN);
    let block = idle.block_seconds * 1e3;
    [part(0.5), part(0.99), block, idle.resident, idle.processor, idle.disk]
}

/// One turn of everything.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) ours: Loaded,
    /// The signature limit, in transfers per second.
    pub(super) limit: f64,
    pub(super) theirs: Option<Mined>,
}

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Report {
    begun: u64,
    pub(super) fresh: Option<Idle>,
    pub(super) rounds: Vec<Round>,
    pub(super) idle: Option<Idle>,
    pub(super) no_peer: Option<String>,
}

impl Report {
    pub(super) fn new() -> Self {
        let (rounds, begun) = (Vec::new(), machine::now());
        Self { begun, fresh: None, rounds, idle: None, no_peer: None }
    }

    /// The middle of a figure over the rounds that have it.
    fn middle(&self, figure: impl Fn(&Round) -> Option<f64>) -> Option<f64> {
        median(&self.rounds.iter().filter_map(figure).collect::<Vec<_>>())
    }

    /// The middle of a figure of ours.
    fn ours(&self, figure: impl Fn(&Loaded) -> f64) -> f64 {
        self.middle(|round| Some(figure(&round.ours))).unwrap_or(f64::NAN)
    }

    /// The middle of the rounds' own shares of the signature limit, in percent.
    fn share(&self) -> f64 {
        let share = self.middle(|round| Some(round.ours.pace.per_second / round.limit));
        share.unwrap_or(f64::NAN) * 100.0
    }

    /// How much cheaper a transfer is than the peer's, round by round; none without a peer.
    fn advantage(&self, ours: impl Fn(&Loaded) -> f64) -> Option<f64> {
        self.middle(|round| Some(round.theirs.as_ref()?.cost / ours(&round.ours)))
    }

    /// A part of the finality of all rounds, in milliseconds.
    fn finality(&self, part: f64) -> f64 {
        let all = self.rounds.iter().flat_map(|round| round.ours.finality.iter().copied());
        percentile(&all.collect::<Vec<_>>(), part).unwrap_or(f64::NAN)
    }

    /// The wanted figures.
    pub(super) fn wants(&self) -> Vec<Want> {
        let nothing = f64::NAN;
        let idle = |figure: &dyn Fn(&Idle) -> f64| self.idle.as_ref().map_or(nothing, figure);
        let empty = |idle: &Idle| percentile(&idle.finality, 0.5).unwrap_or(nothing);
        let advantage = self.advantage(|ours| ours.node_cost);
        let missing = || self.no_peer.clone().unwrap_or_else(|| "not measured".to_owned());
        let want = |name, measured, sense, wanted| Want { id: ID, name, measured, sense, wanted };
        vec![
            want("transfers, % of the signature limit", Ok(self.share()), Sense::AtLeast, 60.0),
            want("finality p50 under load, ms", Ok(self.finality(0.5)), Sense::AtMost, 400.0),
            want(
                "transfers per CPU-second of one validator, x anvil",
                advantage.ok_or_else(missing),
                Sense::AtLeast,
                10.0,
            ),
            want("empty-block finality p50, ms", Ok(idle(&empty)), Sense::AtMost, 35.0),
            want("idle memory, MiB", Ok(idle(&|idle| idle.resident)), Sense::AtMost, 160.0),
            want("idle CPU, % of a core", Ok(idle(&|idle| idle.processor)), Sense::AtMost, 2.0),
        ]
    }

    fn rows(&self) -> Vec<(&'static str, f64)> {
        let mut rows = vec![
            ("finalized transfers per second", self.ours(|ours| ours.pace.per_second)),
            ("share of the signature limit, %", self.share()),
            ("transfers per block", self.ours(|ours| ours.pace.per_block)),
            ("block time, ms", self.ours(|ours| ours.pace.block_seconds) * 1e3),
            ("finality p50, ms", self.finality(0.5)),
            ("finality p99, ms", self.finality(0.99)),
            ("CPU-us per transfer, all four nodes", self.ours(|ours| ours.cost)),
            ("CPU-us per transfer, one validator", self.ours(|ours| ours.node_cost)),
            ("memory per node under load, MiB", self.ours(|ours| ours.resident)),
            ("load average under load", self.ours(|ours| ours.load)),
        ];
        let theirs = |figure: fn(&Mined) -> f64| self.middle(|it| it.theirs.as_ref().map(figure));
        let some = [
            ("signature limit, transfers per second", self.middle(|round| Some(round.limit))),
            ("anvil: transfers per second", theirs(|it| it.per_second)),
            ("anvil: CPU-us per transfer", theirs(|it| it.cost)),
            ("anvil: memory, MiB", theirs(|it| it.resident)),
            ("one validator per CPU-second, x anvil", self.advantage(|ours| ours.node_cost)),
            ("all four nodes per CPU-second, x anvil", self.advantage(|ours| ours.cost)),
        ];
        rows.extend(some.into_iter().filter_map(|(name, value)| Some((name, value?))));
        for (idle, names) in [(&self.fresh, FRESH), (&self.idle, IDLE)] {
            rows.extend(idle.iter().flat_map(|idle| names.into_iter().zip(figures(idle))));
        }
        rows
    }

    /// What is told of it.
    pub(super) fn finish(&self) -> report::Report {
        let (rows, wants, more) = (self.rows(), self.wants(), self.more());
        report::Report { bench: "chain", begun: self.begun, rows, notes: Vec::new(), wants, more }
    }

    fn more(&self) -> Map<String, Value> {
        let mined = |it: &Mined| {
            json!({
                "transfers_per_second": it.per_second,
                "cpu_us": it.cost,
                "resident_mib": it.resident,
                "load": it.load,
            })
        };
        let rounds = self.rounds.iter().map(|Round { ours, limit, theirs }| {
            json!({
                "transfers_per_second": ours.pace.per_second,
                "block_ms": ours.pace.block_seconds * 1e3,
                "finality_p50_ms": percentile(&ours.finality, 0.5),
                "finality_p99_ms": percentile(&ours.finality, 0.99),
                "cpu_us_all": ours.cost,
                "cpu_us_one": ours.node_cost,
                "resident_mib": ours.resident,
                "load": ours.load,
                "signature_limit": limit,
                "anvil": theirs.as_ref().map(mined),
            })
        });
        let load = json!({
            "fresh": self.fresh.as_ref().map(|idle| idle.load),
            "idle": self.idle.as_ref().map(|idle| idle.load),
        });
        let rounds = json!(rounds.collect::<Vec<_>>());
        let parts = [("load", load), ("no_peer", json!(self.no_peer)), ("rounds", rounds)];
        parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::Pace;

    fn ours(per_second: f64, node_cost: f64) -> Loaded {
        let pace = Pace { per_second, block_seconds: 0.3, per_block: 1.0 };
        let (cost, resident, load) = (4.0 * node_cost, 100.0, 1.0);
        Loaded { pace, finality: vec![300.0], cost, node_cost, resident, load }
    }

    fn round(per_second: f64, node_cost: f64, limit: f64, cost: f64) -> Round {
        let theirs = Mined { per_second: 1_000.0, cost, resident: 90.0, load: 1.0 };
        Round { ours: ours(per_second, node_cost), limit, theirs: Some(theirs) }
    }

    #[test]
    fn ratios_are_taken_round_by_round_before_the_middle() {
        let mut report = Report::new();
        // A busy machine halves everything in the second round; the ratios stay.
        report.rounds = vec![
            round(20_000.0, 30.0, 25_000.0, 360.0),
            round(10_000.0, 60.0, 12_500.0, 720.0),
            round(20_000.0, 30.0, 25_000.0, 360.0),
        ];
        assert_eq!(report.share(), 80.0);
        assert_eq!(report.advantage(|ours| ours.node_cost), Some(12.0));
        assert_eq!(report.advantage(|ours| ours.cost), Some(3.0));
    }

    #[test]
    fn a_missing_peer_is_short_and_says_why() {
        let mut report = Report::new();
        report.rounds = vec![Round { theirs: None, ..round(20_000.0, 30.0, 25_000.0, 1.0) }];
        report.no_peer = Some("no npm".into());
        let lines: Vec<_> = report.wants().iter().map(ToString::to_string).collect();
        assert_eq!(lines.len(), 6);
        assert!(lines[2].ends_with("x anvil: no peer (no npm) short"), "{}", lines[2]);
        assert!(lines[0].ends_with("80.0 (wanted >= 60) ok"), "{}", lines[0]);
        // What was not measured is never good.
        assert!(lines[4].ends_with("short"), "{}", lines[4]);
    }
}
