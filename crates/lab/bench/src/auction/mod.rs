//! Many auctions that close at once: how long it takes beside sorting, and what it saves beside the
//! most that is possible.
//!
//! - Large markets are cleared and the same costs are sorted, in turns; the middle of the ratios counts.
//! - Small markets are given to HiGHS as well, which finds the most that clients can save.
//! - How fast sealed bids come onto a chain of four validators is measured with real nodes.

mod bids;
mod market;
mod optimum;

use crate::{
    error::BenchError,
    figures::median,
    machine, process,
    report::Report,
    tell,
    told::Told,
    want::{Sense, Want},
};
use clap::Parser;
use market::Market;
use opengpu_crypto::Seed;
use opengpu_market::clearing::clear;
use rand::{SeedableRng as _, rngs::StdRng};
use serde_json::{Map, json};
use std::{hint::black_box, time::Instant};

/// Of which benchmark the figures are.
const ID: &str = "B5";

/// Measures the clearing of auctions.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-auction")]
pub struct Program {
    #[command(flatten)]
    told: Told,
    /// Turns of each side.
    #[arg(long, default_value_t = 21)]
    rounds: u32,
    /// Tasks that are open at once.
    #[arg(long, default_value_t = 1_000)]
    tasks: usize,
    /// Bids for each.
    #[arg(long, default_value_t = 100)]
    bids: usize,
    /// Small markets.
    #[arg(long, default_value_t = 200)]
    small: usize,
    /// Tasks for which providers bid on chain, a hundred each.
    #[arg(long, default_value_t = 100)]
    on_chain: u64,
    /// Decides every market.
    #[arg(long, default_value_t = 7)]
    seed: u64,
}

/// Measures everything and says so.
pub fn run(mut program: Program) -> Result<(), BenchError> {
    if program.told.quick {
        (program.rounds, program.small) = (program.rounds.min(3), program.small.min(10));
        program.on_chain = program.on_chain.min(5);
    }
    process::end_with_us()?;
    let begun = machine::now();
    tell(format!("load average {:.2}", machine::load_average()));
    let mut random = StdRng::seed_from_u64(program.seed);
    let mut ratios = Vec::new();
    let (mut clearings, mut sorts) = (Vec::new(), Vec::new());
    for round in 0..=program.rounds {
        let bidders = program.bids.saturating_mul(3);
        let market = Market::draw(&mut random, program.tasks, program.bids, bidders);
        let (cleared, sorted) = (clearing(&market), sorting(&market));
        // The first turn warms up.
        if round > 0 {
            ratios.push(cleared / sorted);
            clearings.push(cleared);
            sorts.push(sorted);
        }
    }
    tell(format!("{} large markets cleared", program.rounds));
    let small: Vec<_> = (0..program.small).map(|_| Market::draw(&mut random, 12, 6, 8)).collect();
    let place = tempfile::tempdir().map_err(BenchError::system("making a folder"))?;
    let told = &program.told;
    let bids = bids::per_second(&told.opengpu, place.path(), program.on_chain, &mut random)?;
    tell(format!("{bids:.0} bids a second on chain"));
    let shares = optimum::shares(&program.told, &small);
    let worst = shares.as_ref().map(|shares| shares.iter().copied().fold(f64::MAX, f64::min));
    let middle = |all: &[f64]| median(all).unwrap_or_default();
    let mut rows =
        vec![("clearing, us", middle(&clearings)), ("sorting the same costs, us", middle(&sorts))];
    rows.push(("bids accepted on chain, per second", bids));
    if let Ok(shares) = &shares {
        rows.push(("small markets, % of the most, middle", middle(shares)));
    }
    let wants = vec![
        Want {
            id: ID,
            name: "clearing, x sorting the same costs",
            measured: median(&ratios).ok_or_else(|| "not measured".to_owned()),
            sense: Sense::AtMost,
            wanted: 5.0,
        },
        Want {
            id: ID,
            name: "saved in small markets, % of the most, the worst",
            measured: worst.map_err(Clone::clone),
            sense: Sense::AtLeast,
            wanted: 98.0,
        },
    ];
    let more: Map<_, _> = [("ratios".to_owned(), json!(ratios))].into_iter().collect();
    Report { bench: "auction", begun, rows, notes: Vec::new(), wants, more }.publish(&program.told)
}

/// Microseconds of one clearing.
fn clearing(market: &Market) -> f64 {
    let begun = Instant::now();
    black_box(clear(black_box(&market.lots), &market.bidders, &Seed([1; 32])));
    begun.elapsed().as_secs_f64() * 1e6
}

/// Microseconds of sorting the costs of all bids.
fn sorting(market: &Market) -> f64 {
    let bids = market.lots.iter().flat_map(|lot| &lot.bids);
    let mut costs: Vec<u64> =
        bids.map(|(_, cost)| u64::try_from(cost.0).unwrap_or(u64::MAX)).collect();
    let begun = Instant::now();
    black_box(&mut costs).sort_unstable();
    begun.elapsed().as_secs_f64() * 1e6
}
