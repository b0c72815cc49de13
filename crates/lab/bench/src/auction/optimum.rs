//! The most that clients can save, by HiGHS.

use super::market::Market;
use crate::{error::BenchError, told::Told};
use opengpu_crypto::Seed;
use opengpu_market::clearing::clear;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Reads markets and writes the optimum of each.
const SCRIPT: &str = include_str!("optimum.py");

/// What is saved in each market, as a share of the most, in per cent; or why nobody can tell.
pub(super) fn shares(told: &Told, markets: &[Market]) -> Result<Vec<f64>, String> {
    let python = told.peer("highs")?;
    let asked: Vec<_> = markets.iter().map(form).collect();
    let found = solve(&python, &json!(asked)).map_err(|error| error.to_string())?;
    let most = found.as_array().map(Vec::as_slice).unwrap_or_default();
    if most.len() != markets.len() {
        return Err("HiGHS solved another number of markets".to_owned());
    }
    let share = |(market, most): (&Market, &Value)| {
        let most = most.as_f64().filter(|most| *most > 0.0);
        most.map_or(100.0, |most| saved(market) / most * 100.0)
    };
    Ok(markets.iter().zip(most).map(share).collect())
}

/// What every bid saves, and the devices of every bidder.
fn form(market: &Market) -> Value {
    let bids = market.lots.iter().enumerate().flat_map(|(lot, it)| {
        it.bids.iter().filter_map(move |(bidder, cost)| {
            let saves = it.most.0.checked_sub(cost.0)?;
            Some(json!([lot, bidder, u64::try_from(saves).ok()?]))
        })
    });
    let free: Vec<_> = market.bidders.iter().map(|bidder| bidder.free).collect();
    json!({ "bids": bids.collect::<Vec<_>>(), "free": free, "lots": market.lots.len() })
}

#[expect(clippy::cast_precision_loss, reason = "shares for people")]
fn saved(market: &Market) -> f64 {
    let placed = clear(&market.lots, &market.bidders, &Seed([1; 32]));
    let saved = market.lots.iter().zip(placed).filter_map(|(lot, placed)| {
        let (_, cost) = lot.bids.get(placed?.bid)?;
        Some(lot.most.0.saturating_sub(cost.0) as f64)
    });
    saved.sum()
}

fn solve(python: &std::path::Path, asked: &Value) -> Result<Value, BenchError> {
    let failed = |error: std::io::Error| BenchError::Peer(error.to_string());
    let mut command = Command::new(python);
    command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(asked.to_string().as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(BenchError::Peer(format!("HiGHS ended with {}", output.status)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| BenchError::Peer(error.to_string()))
}
