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
        // What is no answer adds no evidence, so it must not hide among others.
        let window = |reads: &[Read]| {
            let sum = Evidence::default();
            let sum = reads.iter().fold(sum, |sum, read| sum.plus(&read.evidence()));
            reads.iter().all(|read| read.tokens.is_some()).then(|| bounds.judge(&sum))
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

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "a test stops where it fails")]
mod tests {
    use super::*;
    use opengpu_verify::compare::likelihood::{LEAST, Surprise, Token};

    const LONG: usize = 20;

    fn bounds() -> Bounds {
        let bound = Bound { mean: 1_000, deviation: 1_000, width: 4_000 };
        Bounds { gap: bound, off: bound }
    }

    fn read(tokens: usize, gap: u32, off: u32) -> Read {
        let (claimed, found) = (Surprise(3_000_000), Surprise(3_000_000 + gap));
        Read { tokens: Some(vec![Token { claimed, found, off }; tokens]), made: 2.0, read: 0.5 }
    }

    fn honest() -> Read {
        read(LONG, 0, 0)
    }

    /// Another model: what it claims is not what the right one finds, and its tokens are others.
    fn coarser() -> Read {
        read(LONG, 1_000_000, 100_000)
    }

    fn nothing() -> Read {
        Read { tokens: None, made: 2.0, read: 0.5 }
    }

    fn judged(name: &'static str, all: Vec<Read>) -> Judged {
        Judged::of(name, &bounds(), all)
    }

    fn times(count: usize, read: fn() -> Read) -> Vec<Read> {
        (0..count).map(|_| read()).collect()
    }

    #[test]
    fn every_answer_is_accepted_or_refused_and_of_none_there_is_no_rate() {
        let mixed = [times(3, honest), times(1, coarser)].concat();
        let findings = judged("Q8_0", mixed).findings();
        assert_eq!((accepted(&findings), refused(&findings)), (Ok(75.0), Ok(25.0)));
        assert_eq!(accepted(&[]), Err("not measured".to_owned()));
        assert_eq!(refused(&[]), Err("not measured".to_owned()));
    }

    #[test]
    fn what_no_model_can_have_answered_is_refused_and_what_is_too_short_is_not_judged() {
        let least = usize::try_from(LEAST).unwrap();
        let all = vec![honest(), nothing(), read(least - 1, 0, 0), read(least, 0, 0)];
        let judged = judged("Q8_0", all);
        assert_eq!(judged.findings(), [Some(Finding::Agrees), None, Some(Finding::Agrees)]);
        assert_eq!(judged.short, 1);
        // Whoever is too short was made and read nevertheless.
        assert_eq!((judged.made, judged.read), (8.0, 2.0));
    }

    #[test]
    fn who_claims_by_the_right_model_is_found_by_his_tokens_alone() {
        let caught = judged("Q4_0", times(1, coarser));
        assert!(matches!(caught.findings()[..], [Some(Finding::Gap { .. })]));
        assert!(matches!(caught.forged[..], [Some(Finding::Off { .. })]));
        // Tokens that the right model would draw as well tell nothing.
        let lucky = judged("Q4_0", vec![read(LONG, 1_000_000, 0)]);
        assert_eq!(lucky.forged, [Some(Finding::Agrees)]);
    }

    #[test]
    fn evidence_of_ten_answers_is_added_up_and_the_rest_is_no_window() {
        // Each is as far off as honest ones may be, and all together are not.
        let little = read(LONG, 0, 2_500);
        let all: Vec<Read> = (0..15).map(|_| little.clone()).collect();
        let judged = judged("Q4_0", all);
        assert!(judged.findings().iter().all(|it| *it == Some(Finding::Agrees)));
        assert_eq!(judged.windows.len(), 1);
        assert!(matches!(judged.windows[..], [Some(Finding::Off { .. })]));
        assert!(matches!(judged.forged_windows[..], [Some(Finding::Off { .. })]));
    }

    #[test]
    fn what_is_no_answer_does_not_hide_in_a_window() {
        let judged = judged("Q8_0", [times(9, honest), times(1, nothing)].concat());
        assert_eq!(judged.windows, [None]);
        assert_eq!(refused(&judged.windows), Ok(100.0));
    }

    fn all() -> Vec<Judged> {
        vec![
            judged("Q8_0", times(10, honest)),
            judged("floats", [times(3, honest), times(1, coarser)].concat()),
            judged("Q4_0", times(10, coarser)),
        ]
    }

    #[test]
    fn every_wanted_figure_appears_and_a_provider_that_is_missing_has_none() {
        let report = report(0, &bounds(), &all());
        let lines: Vec<String> = report.wants.iter().map(ToString::to_string).collect();
        assert_eq!(
            lines,
            [
                "want likelihood honest Q8_0 accepted, %: 100.0 (wanted >= 99) ok",
                "want likelihood honest by other arithmetic accepted, %: 75.0 (wanted >= 99) short",
                "want likelihood Q4_0 passed off as Q8_0 refused, %: 100.0 (wanted >= 99) ok",
                "want likelihood a smaller model refused, %: no peer (not measured) short",
            ]
        );
    }

    #[test]
    fn the_table_has_what_was_measured_and_nothing_else() {
        let report = report(0, &bounds(), &all());
        let row = |part: &str| {
            let found = report.rows.iter().find(|(name, _)| name.contains(part));
            found.map(|(_, value)| *value)
        };
        assert_eq!(row("reading an answer"), Some(25.0));
        assert_eq!(row("with claims of Q8_0: refused alone"), Some(100.0));
        assert_eq!(row("with claims of Q8_0: windows refused"), Some(100.0));
        assert_eq!(row("honest Q8_0: windows accepted"), Some(100.0));
        assert_eq!(row("Q5_0"), None, "nobody had that one");
    }

    #[test]
    fn the_words_and_the_file_have_every_answer_and_why_it_was_refused() {
        let mut all = all();
        all.push(judged("Q5_0", vec![honest(), nothing(), read(1, 0, 0), read(LONG, 0, 600_000)]));
        let report = report(0, &bounds(), &all);
        assert_eq!(
            report.notes[3],
            "Q5_0: 3 answers, 1 agree, 0 by gap, 1 by choices, 0 by one token, 1 no answer; 1 more \
             were too short"
        );
        assert!(report.notes[2].contains("0 agree, 10 by gap"), "{}", report.notes[2]);
        let answers = &report.more["answers (tokens, gap, off, worst)"];
        assert_eq!(answers["Q8_0"].as_array().unwrap().len(), 10);
        assert_eq!(answers["floats"][3], json!([20, 20_000_000, 2_000_000, 100_000]));
        assert_eq!(report.more["bounds"]["gap"]["width"], 4_000);
    }
}
