//! What became of the answers: rates, their bounds, and what the check costs.

use super::Read;
use crate::{
    figures::float,
    machine,
    report::Report,
    want::{Sense, Want},
};
use opengpu_verify::compare::likelihood::{Bound, Bounds, Evidence, Finding};
use serde_json::{Map, Value, json};

/// Of which benchmark the figures are.
const ID: &str = "likelihood";
/// Answers of a window whose evidence is added up.
const WINDOW: usize = 10;

/// The answers of one provider, judged.
#[derive(Debug)]
pub(super) struct Judged {
    name: &'static str,
    /// Of each answer that is long enough: its evidence, and the finding; none if it is no answer.
    each: Vec<(Evidence, Option<Finding>)>,
    /// Of windows of answers together.
    windows: Vec<Option<Finding>>,
    /// What would be found with claims by the right model: of each answer, and of windows.
    forged: Vec<Option<Finding>>,
    forged_windows: Vec<Option<Finding>>,
    short: usize,
    made: f64,
    read: f64,
}

impl Judged {
    pub(super) fn of(name: &'static str, bounds: &Bounds, all: Vec<Read>) -> Self {
        let (made, read) =
            all.iter().fold((0.0, 0.0), |(made, read), it| (made + it.made, read + it.read));
        let count = all.len();
        let long: Vec<Read> = all.into_iter().filter(|read| !read.is_short()).collect();
        let judge = |read: &Read| read.tokens.is_some().then(|| bounds.judge(&read.evidence()));
        let each = long.iter().map(|read| (read.evidence(), judge(read))).collect();
        let forged: Vec<Read> = long.iter().map(Read::with_right_claims).collect();
        let window = |reads: &[Read]| {
            let sum = Evidence::default();
            let sum = reads.iter().fold(sum, |sum, read| sum.plus(&read.evidence()));
            Some(bounds.judge(&sum))
        };
        Self {
            name,
            each,
            windows: long.chunks_exact(WINDOW).map(window).collect(),
            forged_windows: forged.chunks_exact(WINDOW).map(window).collect(),
            forged: forged.iter().map(judge).collect(),
            short: count.saturating_sub(long.len()),
            made,
            read,
        }
    }

    fn findings(&self) -> Vec<Option<Finding>> {
        self.each.iter().map(|(_, finding)| *finding).collect()
    }
}

/// The share of answers that agree, in percent; none of no answers.
fn accepted(findings: &[Option<Finding>]) -> Result<f64, String> {
    let agree = findings.iter().filter(|it| **it == Some(Finding::Agrees)).count();
    let [agree, all] = [agree, findings.len()].map(|it| float(u64::try_from(it).unwrap_or(0)));
    (all > 0.0).then(|| 100.0 * agree / all).ok_or_else(|| "not measured".to_owned())
}

fn refused(findings: &[Option<Finding>]) -> Result<f64, String> {
    accepted(findings).map(|accepted| 100.0 - accepted)
}

/// The table, the wanted figures, and every finding for whoever wants to look.
pub(super) fn report(begun: u64, bounds: &Bounds, all: &[Judged]) -> Report {
    let of = |name: &str| all.iter().find(|judged| judged.name == name);
    let rate = |name: &str, rate: fn(&[Option<Finding>]) -> Result<f64, String>| {
        of(name).map_or_else(|| Err("not measured".to_owned()), |it| rate(&it.findings()))
    };
    let want =
        |name, measured| Want { id: ID, name, measured, sense: Sense::AtLeast, wanted: 99.0 };
    let wants = vec![
        want("honest Q8_0 accepted, %", rate("Q8_0", accepted)),
        want("honest by other arithmetic accepted, %", rate("floats", accepted)),
        want("Q4_0 passed off as Q8_0 refused, %", rate("Q4_0", refused)),
        want("a smaller model refused, %", rate("smaller", refused)),
    ];
    let mut rows = Vec::new();
    if let Some(honest) = of("Q8_0") {
        rows.push((
            "reading an answer, % of the time to make it",
            100.0 * honest.read / honest.made,
        ));
    }
    let mut add = |name, found: Result<f64, String>| rows.extend(found.ok().map(|it| (name, it)));
    if let Some(coarser) = of("Q4_0") {
        add("Q4_0 with claims of Q8_0: refused alone, %", refused(&coarser.forged));
        add("Q4_0 with claims of Q8_0: windows refused, %", refused(&coarser.forged_windows));
    }
    if let Some(finer) = of("Q5_0") {
        add("Q5_0 passed off as Q8_0: refused, %", refused(&finer.findings()));
    }
    if let Some(honest) = of("Q8_0") {
        add("honest Q8_0: windows accepted, %", accepted(&honest.windows));
    }
    Report { bench: "likelihood", begun, rows, notes: notes(all), wants, more: more(bounds, all) }
}

/// One line for each provider: how many answers, and why they were refused.
fn notes(all: &[Judged]) -> Vec<String> {
    let line = |judged: &Judged| {
        let findings = judged.findings();
        let count =
            |is: fn(&Finding) -> bool| findings.iter().flatten().filter(|it| is(it)).count();
        format!(
            "{}: {} answers, {} agree, {} by gap, {} by choices, {} by one token, {} no answer; \
             {} more were too short",
            judged.name,
            findings.len(),
            count(|it| *it == Finding::Agrees),
            count(|it| matches!(it, Finding::Gap { .. })),
            count(|it| matches!(it, Finding::Off { .. })),
            count(|it| matches!(it, Finding::Token { .. })),
            findings.iter().filter(|it| it.is_none()).count(),
            judged.short,
        )
    };
    all.iter().map(line).collect()
}

fn more(bounds: &Bounds, all: &[Judged]) -> Map<String, Value> {
    let evidence = |judged: &Judged| {
        let each = judged.each.iter().map(|(it, _)| json!([it.tokens, it.gap, it.off, it.worst]));
        (judged.name.to_owned(), Value::Array(each.collect()))
    };
    let bound = |it: &Bound| {
        let Bound { mean, deviation, width } = it;
        json!({"mean": mean, "deviation": deviation, "width": width})
    };
    let answers = Value::Object(all.iter().map(evidence).collect());
    Map::from_iter([
        ("bounds".to_owned(), json!({"gap": bound(&bounds.gap), "off": bound(&bounds.off)})),
        ("answers (tokens, gap, off, worst)".to_owned(), answers),
        ("load".to_owned(), json!(machine::load_average())),
    ])
}
