//! `opengpu provider auctions`: open auctions as this provider sees them.
//!
//! What a bid costs the client is computed by the rules by which the ledger awards. What others bid is
//! sealed, so nobody can say which bid is the best.

use super::{
    control::{Wanted, ask},
    folder::Folder,
    report::Placed,
};
use crate::{
    context::Context,
    output::{span, table},
};
use anyhow::Result;
use clap::Args;
use opengpu_agent::{
    Agent,
    core::{Prospect, Sighting},
};
use opengpu_types::{Amount, Millis, TaskId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only the auction of this task.
    task: Option<TaskId>,
    /// As this offer of yours sees them, counted from 0 [default: the one that fits best].
    #[arg(long, value_name = "NUMBER")]
    offer: Option<u8>,
}

/// An open auction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) task: String,
    client: String,
    kind: String,
    /// Any, if none is named.
    classes: Vec<String>,
    memory_mib: u32,
    pub(crate) devices: u8,
    longest_ms: u64,
    trust: String,
    /// What one lease may be paid.
    left: String,
    /// Until bids are closed; none once they are opened.
    closes_ms: Option<u64>,
    /// Bids so far, of everybody.
    bids: Option<usize>,
    pub(crate) own: Option<Own>,
    /// Our bid.
    bid: Option<Placed>,
    /// Why the policy does not bid.
    declined: Option<String>,
    /// Why the chain did not take our last bid.
    refused: Option<String>,
}

/// What an offer of this provider is to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Own {
    offer: u8,
    pub(crate) predicted_ms: u64,
    pub(crate) floor_per_second: String,
    /// The highest rate that can win.
    pub(crate) most_per_second: Option<String>,
    pub(crate) cost_at_floor: Option<Cost>,
}

/// What a bid costs the client, all things considered; the lowest wins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cost {
    total: String,
    rate: String,
    pub(crate) time: String,
    pub(crate) reliability: String,
    pub(crate) proximity: String,
}

/// The auctions that an agent has in sight; none if the task is not the name of one.
pub(crate) fn seen(agent: &Agent, task: Option<&str>, offer: Option<u8>) -> Vec<Seen> {
    match task.map(str::parse).transpose() {
        Ok(only) => agent.auctions(only, offer).iter().map(Seen::new).collect(),
        Err(_) => Vec::new(),
    }
}

impl Seen {
    fn new(found: &Sighting) -> Self {
        let wanted = &found.task.spec.requirements;
        Self {
            task: found.id.to_string(),
            client: found.task.client.to_string(),
            kind: wanted.kind.to_string(),
            classes: wanted.classes.iter().map(ToString::to_string).collect(),
            memory_mib: wanted.memory,
            devices: wanted.devices,
            longest_ms: wanted.longest.0,
            trust: wanted.trust.to_string(),
            left: found.left.to_string(),
            closes_ms: found.closes.map(|closes| closes.0),
            bids: found.bids,
            own: found.prospect.as_ref().map(Own::new),
            bid: found.bid.as_ref().map(Placed::new),
            declined: found.why.as_ref().map(ToString::to_string),
            refused: found.failure.map(|failure| failure.to_string()),
        }
    }

    fn wants(&self) -> String {
        let classes = match self.classes.as_slice() {
            [] => "any class".to_owned(),
            classes => classes.join("|"),
        };
        let longest = span(Millis(self.longest_ms));
        let devices = self.devices;
        format!("{devices} x {classes}, {} MiB, {}, {longest}", self.memory_mib, self.kind)
    }

    fn decided(&self) -> String {
        match (&self.bid, &self.refused, &self.declined) {
            (Some(bid), ..) => {
                let by = if bid.by_hand { " by hand" } else { "" };
                format!("bid {}{by}, {}", bid.rate_per_second, bid.stage)
            }
            (None, Some(refused), _) => format!("the chain refused the bid: {refused}"),
            (None, None, Some(why)) => format!("declined: {why}"),
            (None, None, None) => "not decided".to_owned(),
        }
    }

    fn row(&self) -> [String; 13] {
        let unknown = || "-".to_owned();
        let own = self.own.as_ref();
        let cost = own.and_then(|own| own.cost_at_floor.clone());
        let [total, rate, time, reliability, proximity] = cost.map_or_else(
            || [(); 5].map(|()| unknown()),
            |cost| [cost.total, cost.rate, cost.time, cost.reliability, cost.proximity],
        );
        [
            self.task.clone(),
            self.wants(),
            self.left.clone(),
            self.closes_ms.map_or_else(|| "closed".to_owned(), |it| span(Millis(it))),
            self.bids.map_or_else(unknown, |bids| bids.to_string()),
            own.map_or_else(unknown, |own| took(own.predicted_ms)),
            own.and_then(|own| own.most_per_second.clone()).unwrap_or_else(unknown),
            total,
            rate,
            time,
            reliability,
            proximity,
            self.decided(),
        ]
    }
}

impl Own {
    fn new(prospect: &Prospect) -> Self {
        let cost = prospect.cost.map(|cost| {
            let parts = [cost.rate, cost.time, cost.reliability, cost.proximity];
            let total = parts.iter().try_fold(Amount::ZERO, |sum, part| sum.plus(*part));
            Cost {
                total: total.unwrap_or(Amount::CAP).to_string(),
                rate: cost.rate.to_string(),
                time: cost.time.to_string(),
                reliability: cost.reliability.to_string(),
                proximity: cost.proximity.to_string(),
            }
        });
        Self {
            offer: prospect.offer,
            predicted_ms: prospect.predicted.0,
            floor_per_second: prospect.floor.to_string(),
            most_per_second: prospect.most.map(|most| most.to_string()),
            cost_at_floor: cost,
        }
    }
}

/// A predicted time; a device that was not rated for the work takes for ever.
pub(crate) fn took(predicted: u64) -> String {
    if predicted == u64::MAX { "for ever".to_owned() } else { span(Millis(predicted)) }
}

const TITLES: [&str; 13] = [
    "task",
    "wants",
    "left",
    "closes in",
    "bids",
    "predicted",
    "most/s",
    "cost",
    "= rate",
    "+ time",
    "+ reliability",
    "+ proximity",
    "decided",
];

pub(crate) fn run(context: &Context, folder: &Folder, arguments: &Arguments) -> Result<()> {
    let task = arguments.task.map(|task| task.to_string());
    let wanted = Wanted::Auctions { task, offer: arguments.offer };
    let seen: Vec<Seen> = ask(&folder.socket(), &wanted)?;
    context.output.show(&seen, |seen| table(TITLES, seen.iter().map(Seen::row)))?;
    context.output.note(match seen.len() {
        0 => "No auction is open that the provider has seen.",
        _ => {
            "Money is in oGPU. The cost is that of a bid at your floor, to the client and all things \
             considered; the lowest wins. What others bid is sealed until bids are closed, so nobody \
             knows yet whose is the lowest. Bid yourself: opengpu provider bid TASK --rate R"
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auction() -> Seen {
        let cost = Cost {
            total: "10".to_owned(),
            rate: "4".to_owned(),
            time: "3".to_owned(),
            reliability: "2".to_owned(),
            proximity: "1".to_owned(),
        };
        let own = Own {
            offer: 0,
            predicted_ms: 2_000,
            floor_per_second: "2".to_owned(),
            most_per_second: Some("1".to_owned()),
            cost_at_floor: Some(cost),
        };
        Seen {
            task: "t".to_owned(),
            client: "c".to_owned(),
            kind: "wasm".to_owned(),
            classes: Vec::new(),
            memory_mib: 64,
            devices: 1,
            longest_ms: 60_000,
            trust: "checked".to_owned(),
            left: "2".to_owned(),
            closes_ms: Some(1_000),
            bids: Some(3),
            own: Some(own),
            bid: None,
            declined: Some("the client pays less than the floor".to_owned()),
            refused: None,
        }
    }

    #[test]
    fn a_row_shows_every_term_and_what_was_decided() {
        let row = auction().row();
        assert_eq!(row[1], "1 x any class, 64 MiB, wasm, 1 min");
        assert_eq!(row[5..12], ["2 s", "1", "10", "4", "3", "2", "1"]);
        assert_eq!(row[12], "declined: the client pays less than the floor");
        let placed = Placed {
            task: "t".to_owned(),
            offer: 0,
            rate_per_second: "1".to_owned(),
            by_hand: true,
            stage: "sealed".to_owned(),
        };
        let bid = Seen { bid: Some(placed), own: None, ..auction() };
        assert_eq!(bid.row()[12], "bid 1 by hand, sealed");
        assert_eq!(bid.row()[5], "-");
    }
}
