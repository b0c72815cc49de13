//! What would happen, before it does: the task, what it costs, who sees it, who would run it.

use super::{many, wanted::Wanted};
use crate::{
    context::Context,
    exit::{Complaint, Exit},
    output::{counted, lines, percent, span, table},
};
use anyhow::Result;
use opengpu_client::{Facts, market};
use opengpu_exec::Program;
use opengpu_sdk::{
    Check, Wishes,
    quote::{Quote, quote as quoted},
    tiers::{self, Tiers},
};
use opengpu_types::{
    Address, Allocating, Amount, ArtifactId, Class, Eyes, MarketParameters, Measure, Money, Spec,
    Trust, Work,
};
use opengpu_verify::audit::covers;
use serde_json::{Value, json};

/// Offers that are shown.
const SHOWN: usize = 5;

/// A task that is not submitted yet, or the first of several that differ in their input alone.
pub(super) struct Plan {
    pub(super) program: Program,
    pub(super) input: Vec<u8>,
    /// So many tasks.
    count: usize,
    /// Most that each may cost.
    pub(super) budget: Money,
    /// What judges the output.
    pub(super) check: Option<Check>,
    /// Where it comes from, in words.
    from: String,
    pub(super) spec: Spec,
    /// Tokens that the budget is now.
    pub(super) escrow: Amount,
    /// Tokens that are held beside it.
    lock: Amount,
    /// Who pays, if that is known.
    purse: Option<Purse>,
    quote: Quote,
    /// What it costs by the index, if somebody would run it.
    tiers: Option<Tiers>,
}

/// The account that pays.
struct Purse {
    account: Address,
    /// What it has.
    balance: Amount,
    /// What the chain takes of it for all tasks: budgets, trust locks, reserves and fees.
    needed: Amount,
}

impl Purse {
    fn is_empty(&self) -> bool {
        self.balance < self.needed
    }
}

impl Plan {
    pub(super) fn make(context: &Context, wanted: &Wanted, client: Address) -> Result<Self> {
        let program = wanted.open(&context.home)?;
        let input = crate::input::read(&program, wanted.input.as_deref())?;
        Self::of(context, wanted, client, (program, input, 1))
    }

    /// The plan for so many tasks of a program, with the input of the first one.
    pub(super) fn of(
        context: &Context,
        wanted: &Wanted,
        client: Address,
        (program, input, count): (Program, Vec<u8>, usize),
    ) -> Result<Self> {
        let check = wanted.check()?;
        if let Some(check) = &check {
            check.takes(&input).map_err(|error| Complaint::usage(error.to_string()))?;
        }
        let budget = many::share(wanted.budget(), count)?;
        let mut wishes = Wishes { budget, ..wanted.wishes()? };
        wishes.suit(&program).map_err(|error| {
            let hint = "leave --devices out; --split runs a program over several providers";
            Complaint::usage(error.to_string()).hint(hint)
        })?;
        let chain = context.rpc.parameters()?.parameters;
        let parameters: MarketParameters = chain.market;
        let id = ArtifactId::of(&input);
        let mut spec = wishes.spec(&program, id, parameters.dollar);
        let large = || Complaint::usage("the budget is larger than money can be");
        let escrow = budget.in_tokens(parameters.dollar).ok_or_else(large)?;
        let lock = parameters.client_lock.of(escrow);
        let offers = market::offers(&context.rpc)?;
        let payer = (&client, market::reliability(&context.rpc, client)?);
        let mut quote = quoted(&spec, escrow, payer, &offers, parameters.dollar);
        let fee = tiers::fee(&Facts::ask(&context.rpc)?, client, &spec, budget, escrow)?;
        let each = [escrow, lock, chain.entry_reserve, fee];
        let purse = purse(context, client, in_all(sum(each), count))?;
        let tiers = by_index(context, (&spec, &parameters), &quote, fee)?;
        if let Some(tier) = wanted.tier() {
            let nobody = || {
                let told = "there is no index of a tier: no standing offer fits";
                Complaint::new(Exit::NoCapacity, told).hint("look at `opengpu offers`")
            };
            wishes.cap = tiers.as_ref().ok_or_else(nobody)?.cap(tier);
            spec = wishes.spec(&program, id, parameters.dollar);
            quote = quoted(&spec, escrow, payer, &offers, parameters.dollar);
        }
        let from =
            wanted.input.as_deref().map(|given| format!(" of {}", crate::input::shown(given)));
        let from = from.unwrap_or_default();
        Ok(Self {
            program,
            input,
            count,
            budget,
            check,
            from,
            spec,
            escrow,
            lock,
            purse,
            quote,
            tiers,
        })
    }

    /// So much for all tasks.
    pub(super) fn in_all(&self, each: Amount) -> Amount {
        in_all(each, self.count)
    }

    /// What several tasks cost together; nothing for one.
    fn together(&self) -> Option<(&'static str, String)> {
        if self.count == 1 {
            return None;
        }
        let all = format!("{}, at most {} oGPU in all", self.count, self.in_all(self.escrow));
        let best = self.quote.fitting.first().map(|best| {
            format!("; about {} each and {} in all", best.cost, self.in_all(best.cost))
        });
        Some(("tasks", all + &best.unwrap_or_default()))
    }

    pub(super) fn json(&self) -> Value {
        let fitting = self.quote.fitting.iter().map(|it| {
            json!({
                "provider": it.provider.to_string(),
                "rate_per_second": it.rate.to_string(),
                "predicted_ms": it.predicted.0,
                "cost": it.cost.to_string(),
                "reliability_permille": it.reliability.get(),
                "region": it.region.as_str(),
            })
        });
        let others = self.quote.others.iter();
        let others = others.map(|(who, why)| json!({ "provider": who.to_string(), "why": why }));
        json!({
            "program": self.spec.program.to_string(),
            "name": self.program.manifest.name,
            "input": self.spec.input.to_string(),
            "tasks": self.count,
            "in_all": self.in_all(self.escrow).to_string(),
            "escrow": self.escrow.to_string(),
            "lock": self.lock.to_string(),
            "trust": self.spec.requirements.trust.to_string(),
            "check": self.check.as_ref().map(|check| check.id().to_string()),
            "cap": self.spec.requirements.cap.to_string(),
            "index": self.tiers.as_ref().map(|tiers| json!({
                "class": tiers.class.as_str(),
                "rate_per_second": tiers.index.to_string(),
            })),
            "tiers": self.tiers.as_ref().map_or_else(Vec::new, in_json),
            "comparable": self.spec.class != Class::Nothing,
            "fitting": fitting.collect::<Vec<_>>(),
            "others": others.collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self) -> String {
        let Spec { requirements, segments, work, .. } = &self.spec;
        let finding = match self.spec.allocating {
            Allocating::Spot => "the best standing offer, at once",
            Allocating::Auction => "a sealed auction; the second best bid sets what is paid",
        };
        let manifest = &self.program.manifest;
        let segments = counted(*segments, "segment");
        let (several, first) = match self.count {
            1 => ("", ""),
            _ => (" each", ", for the first task"),
        };
        let told = [
            ("program", format!("{} ({}), {segments}", manifest.name, manifest.kind)),
            ("input", format!("{} bytes{}{first}", self.input.len(), self.from)),
            ("work", effort(work)),
            (
                "at most",
                format!("{} oGPU{several}, and {} held until the end", self.escrow, self.lock),
            ),
            ("at longest", span(requirements.longest)),
            ("found by", finding.to_owned()),
            ("trust", format!("{}: {}", requirements.trust, checked(&self.spec))),
            ("compared", compared(self.spec.class).to_owned()),
            ("who sees it", seen(&self.spec).to_owned()),
        ];
        let poor = self.purse.as_ref().filter(|purse| purse.is_empty()).map(|purse| {
            let Purse { balance, needed, .. } = purse;
            ("account", format!("has {balance} oGPU, which is too little: {needed} are needed"))
        });
        let told = lines(self.together().into_iter().chain(told).chain(poor));
        format!("{told}\n\n{}", self.offers())
    }

    /// The same, with what it costs in each tier.
    pub(super) fn text_with_tiers(&self) -> String {
        let Some(Tiers { class, index, quotes }) = &self.tiers else { return self.text() };
        let rows = quotes.iter().map(|(tier, it)| {
            let lines = [it.compute, it.audits, it.fees, it.total].map(|line| line.to_string());
            let [compute, audits, fees, total] = lines;
            [tier.name().to_owned(), format!("{}/s", it.rate), compute, audits, fees, total]
        });
        let tiers = table(["tier", "at most", "compute", "audits", "fees", "total"], rows);
        format!("{}\n\nIndex of {class}: {index} oGPU/s\n{tiers}", self.text())
    }

    fn offers(&self) -> String {
        if self.quote.fitting.is_empty() {
            return nobody(&self.quote).join("\n  ");
        }
        let rows = self.quote.fitting.iter().take(SHOWN).map(|it| {
            [
                it.provider.to_string(),
                format!("{}/s", it.rate),
                span(it.predicted),
                it.cost.to_string(),
                percent(it.reliability),
                if it.region.as_str().is_empty() { "-".to_owned() } else { it.region.to_string() },
            ]
        });
        table(["would run it", "rate", "predicted", "costs", "reliable", "region"], rows)
    }

    /// Whoever has too little is told so, and a spot task that nobody would take is not worth a fee.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(purse) = self.purse.as_ref().filter(|purse| purse.is_empty()) {
            return Err(self.too_little(purse).into());
        }
        if self.spec.allocating == Allocating::Auction || !self.quote.fitting.is_empty() {
            return Ok(());
        }
        let complaint = Complaint::new(Exit::NoCapacity, "no standing offer fits this task");
        let hint = "look at `opengpu offers`, allow more (--budget, --max-duration), or hold an \
                    auction with --auction";
        Err(complaint.hint(hint).into())
    }

    fn too_little(&self, Purse { account, balance, needed }: &Purse) -> Complaint {
        let (budget, several) = (self.in_all(self.escrow), if self.count == 1 { "" } else { "s" });
        let told = format!(
            "the account has {balance} oGPU, and a budget of {budget} needs {needed} with trust \
             lock{several}, reserve{several} and fee{several}"
        );
        Complaint::new(Exit::Budget, told).hint(format!(
            "give a smaller --budget, or fund the account {account} (`opengpu tx transfer`; on a \
             local network `opengpu dev faucet {account} AMOUNT`)"
        ))
    }
}

/// So much for so many tasks.
fn in_all(each: Amount, count: usize) -> Amount {
    let count = u128::try_from(count).unwrap_or(u128::MAX);
    each.mul_div(count, 1).unwrap_or(Amount::CAP)
}

fn sum(amounts: impl IntoIterator<Item = Amount>) -> Amount {
    amounts.into_iter().fold(Amount::ZERO, |sum, it| sum.plus(it).unwrap_or(Amount::CAP))
}

/// What the client has beside what is needed; nothing is known of whoever only looks.
fn purse(context: &Context, account: Address, needed: Amount) -> Result<Option<Purse>> {
    if account == Address::ZERO {
        return Ok(None);
    }
    let balance = context.rpc.account(account)?.balance;
    Ok(Some(Purse { account, balance, needed }))
}

/// What a task costs by the index of the class of devices that would run it.
fn by_index(
    context: &Context,
    (spec, market): (&Spec, &MarketParameters),
    quote: &Quote,
    fee: Amount,
) -> Result<Option<Tiers>> {
    let Some(best) = quote.fitting.first() else { return Ok(None) };
    let index = tiers::index(&context.rpc, &best.class, market)?;
    let devices = spec.requirements.devices;
    Ok(index.map(|index| Tiers::new(&index, best.predicted, devices, fee)))
}

fn in_json(tiers: &Tiers) -> Vec<Value> {
    let quotes = tiers.quotes.iter().map(|(tier, it)| {
        json!({
            "tier": tier.name(),
            "rate_per_second": it.rate.to_string(),
            "compute": it.compute.to_string(),
            "audits": it.audits.to_string(),
            "fees": it.fees.to_string(),
            "total": it.total.to_string(),
        })
    });
    quotes.collect()
}

/// Why nobody takes a task, line by line.
pub(super) fn nobody(quote: &Quote) -> Vec<String> {
    let others = quote.others.iter().take(SHOWN);
    let others = others.map(|(provider, why)| format!("{provider}: {}", why.join("; ")));
    let head = match (quote.fitting.len(), quote.others.len()) {
        (0, 0) => "No standing offer fits: nobody offers anything now.".to_owned(),
        (0, _) => "No standing offer fits:".to_owned(),
        (1, _) => return vec!["1 standing offer fits".to_owned()],
        (count, _) => return vec![format!("{count} standing offers fit")],
    };
    [head].into_iter().chain(others).collect()
}

/// How much work it is, in words.
fn effort(work: &Work) -> String {
    let of = match work.measure {
        Measure::Floats => "million float operations",
        Measure::Integers => "million integer operations",
        Measure::Products => "million operations of matrix products",
        Measure::Memory => "MiB read and written",
    };
    format!("{} {of}", work.amount)
}

/// How far a task is checked.
fn checked(spec: &Spec) -> &'static str {
    match spec.class {
        Class::Predicate(_) => "your check decides, in the block that takes the output",
        Class::Nothing if matches!(spec.requirements.trust, Trust::Checked) => {
            "the provider commits to its output on chain, and nobody can check that it is right"
        }
        _ if matches!(spec.requirements.trust, Trust::Checked) => audited(spec),
        _ => trust(spec.requirements.trust),
    }
}

/// Whether others are drawn to repeat a part of a checked task.
fn audited(spec: &Spec) -> &'static str {
    if covers(spec) {
        "other providers are drawn to repeat parts of it; a lie that they find is narrowed to one step, \
         executed by all validators, and costs the provider its pay and a part of its stake"
    } else if spec.eyes == Eyes::Anyone {
        "the provider commits to every segment on chain; only programs of kind wasm and class exact are \
         repeated by others, but you can run any segment again yourself"
    } else {
        "the provider commits to every segment on chain; nobody else may see it, so nobody else repeats \
         it, but you can run any segment again yourself"
    }
}

/// Who sees the data of a task.
fn seen(spec: &Spec) -> &'static str {
    match spec.class {
        Class::Predicate(_) => {
            "everybody: the chain shows input and output of what it judges; the program only its provider"
        }
        _ if covers(spec) => {
            "whichever provider runs it, and any provider that is drawn to repeat a part; if they quarrel \
             about it, everybody: the input and one state are shown on chain"
        }
        _ => eyes(spec.eyes),
    }
}

/// What a trust level means here and now.
const fn trust(trust: Trust) -> &'static str {
    match trust {
        Trust::Fast => "nobody checks it, unless its provider is new; its record is all there is",
        Trust::Checked => "the provider commits to every segment on chain",
        Trust::Replicated => "several providers run it, and their outputs are compared on chain",
        Trust::Confidential => "only attested devices run it",
    }
}

const fn compared(class: Class) -> &'static str {
    match class {
        Class::Nothing => {
            "not at all: it may do anything, so nobody checks it; --copies 2 has two providers run it, \
             and compares their outputs"
        }
        Class::Exact => "every byte is the same wherever it runs",
        Class::Tolerance => "numbers may differ a little",
        Class::Likelihood => "words may differ as the model allows",
        Class::Perceptual => "pictures that look the same are the same",
        Class::Replicate(_) => "outputs of several providers must be equal",
        Class::Predicate(_) => {
            "paid only if your check accepts the output, on chain; nobody repeats the work"
        }
        Class::Attested => "the device vouches for it",
    }
}

const fn eyes(eyes: Eyes) -> &'static str {
    match eyes {
        Eyes::Anyone => {
            "whichever provider runs it, and any provider that runs a part again to check it; nobody \
             else, on the way or on chain"
        }
        Eyes::Allowed => "the providers that you named; nobody else, on the way or on chain",
        Eyes::Attested => "attested devices alone",
        Eyes::Client => "you alone",
        Eyes::Nobody => "nobody",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples;
    use std::path::Path;

    fn spec(example: &str, wishes: &Wishes) -> Spec {
        let home = tempfile::tempdir().unwrap();
        let program = examples::open(home.path(), Path::new(example)).unwrap();
        wishes.spec(&program, ArtifactId::of(b""), Amount::ONE)
    }

    #[test]
    fn a_plan_promises_audits_only_for_what_is_audited_and_says_what_they_show() {
        let wishes = Wishes::new(Money::tokens(Amount::ONE));
        let audited = spec("sha256-search", &wishes);
        assert!(checked(&audited).contains("drawn to repeat"), "{}", checked(&audited));
        assert!(seen(&audited).contains("everybody"), "{}", seen(&audited));
        let hidden = Wishes { eyes: Eyes::Allowed, ..wishes.clone() };
        for unaudited in [spec("sha256-search", &hidden), spec("path-tracer", &wishes)] {
            assert!(checked(&unaudited).contains("run any segment again yourself"));
            assert!(!seen(&unaudited).contains("everybody"), "{}", seen(&unaudited));
        }
        let fast = Wishes { trust: Trust::Fast, ..wishes };
        assert!(checked(&spec("sha256-search", &fast)).starts_with("nobody"));
    }
}
