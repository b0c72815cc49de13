//! `opengpu provider bid`: a bid by the owner's hand.
//!
//! The running agent sends it: it keeps the secret of the seal, and opens the bid in time.

use super::{
    auctions::{Own, Seen, took},
    control::{Wanted, ask},
    folder::Folder,
    report::Placed,
};
use crate::{
    context::Context,
    exit::{Complaint, Exit},
    output::lines,
};
use anyhow::Result;
use clap::Args;
use opengpu_agent::{
    Agent,
    core::{Hand, NoHand},
    policy::Why,
};
use opengpu_types::{Amount, TaskId};
use serde::{Deserialize, Serialize};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The task, as `opengpu provider auctions` names it.
    task: TaskId,
    /// What a second of one device is to bring, in oGPU; below your floor you are asked first.
    #[arg(long, value_name = "AMOUNT")]
    rate: Amount,
    /// By which of your offers, counted from 0 [default: the one that fits best].
    #[arg(long, value_name = "NUMBER")]
    offer: Option<u8>,
}

/// What became of a bid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Outcome {
    /// The bid, if it was sent.
    bid: Option<Placed>,
    /// Why it was not.
    refused: Option<String>,
    /// What to do about that.
    hint: Option<String>,
}

/// Has an agent bid.
pub(crate) fn place(agent: &Agent, task: &str, rate: &str, offer: Option<u8>) -> Outcome {
    let hand = match (task.parse(), rate.parse()) {
        (Ok(task), Ok(rate)) => Hand { task, rate, offer },
        _ => {
            let refused = Some("these are no task and no rate".to_owned());
            return Outcome { bid: None, refused, hint: None };
        }
    };
    match agent.bid(hand) {
        Ok(bid) => Outcome { bid: Some(Placed::new(&bid)), refused: None, hint: None },
        Err(why) => {
            let hint = hint(&why).map(str::to_owned);
            Outcome { bid: None, refused: Some(why.to_string()), hint }
        }
    }
}

const fn hint(why: &NoHand) -> Option<&'static str> {
    Some(match why {
        NoHand::Unseen | NoHand::Closed => "`opengpu provider auctions` shows those that are open",
        NoHand::NoOffer => "offers are counted from 0; `opengpu offers` shows yours",
        NoHand::TooDear { .. } => "bid less",
        NoHand::Against(Why::NotActive) => "take leases again with `opengpu provider resume`",
        NoHand::Against(Why::TooLarge) => {
            "more stake bears larger leases: `opengpu provider start --stake` for a new provider"
        }
        NoHand::Silent => "look at the log of `opengpu provider start`",
        NoHand::Placed { .. } | NoHand::Against(_) | NoHand::Refused(_) => return None,
    })
}

pub(crate) fn run(context: &Context, folder: &Folder, arguments: &Arguments) -> Result<()> {
    let Arguments { task, rate, offer } = *arguments;
    let named = task.to_string();
    let wanted = Wanted::Auctions { task: Some(named.clone()), offer };
    let seen: Vec<Seen> = ask(&folder.socket(), &wanted)?;
    let Some(seen) = seen.into_iter().next() else {
        let complaint = Complaint::usage(NoHand::Unseen.to_string());
        return Err(complaint.hint("`opengpu provider auctions` shows those that are open").into());
    };
    if let Some(own) = &seen.own {
        context.output.note(plan(own, rate, seen.devices));
        let floor: Amount = own.floor_per_second.parse().unwrap_or_default();
        if rate < floor {
            let question = format!("{rate} is below your floor of {floor} oGPU. Bid all the same?");
            context.confirm(&question)?;
        }
    }
    let wanted = Wanted::Bid { task: named, rate: rate.to_string(), offer };
    let outcome: Outcome = ask(&folder.socket(), &wanted)?;
    let Some(bid) = &outcome.bid else {
        let told = outcome.refused.unwrap_or_else(|| "the bid was not sent".to_owned());
        let complaint = Complaint::new(Exit::Failed, format!("no bid: {told}"));
        return Err(match outcome.hint {
            Some(hint) => complaint.hint(hint).into(),
            None => complaint.into(),
        });
    };
    context.output.show(bid, |bid| {
        format!("Bid {} oGPU a second for {task}: {}.", bid.rate_per_second, bid.stage)
    })?;
    context.output.note("The running provider opens it in time; keep it running until then.");
    Ok(())
}

/// What the bid means.
fn plan(own: &Own, rate: Amount, devices: u8) -> String {
    let whole = |rate: Amount| {
        let time = u128::from(own.predicted_ms).saturating_mul(u128::from(devices));
        rate.mul_div(time, 1_000).unwrap_or(Amount::CAP)
    };
    let mut rows = vec![
        ("predicted", took(own.predicted_ms)),
        ("brings", format!("{} oGPU at least, if you win and it takes so long", whole(rate))),
    ];
    if let Some(most) = &own.most_per_second {
        rows.push(("paid", format!("by the next bid, from {rate} to {most} oGPU a second")));
    }
    if let Some(cost) = &own.cost_at_floor {
        let told = format!(
            "time {}, reliability {}, proximity {}",
            cost.time, cost.reliability, cost.proximity
        );
        rows.push(("counts beside", told));
    }
    lines(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_owner_can_change_has_a_hint() {
        let dear = NoHand::TooDear { most: Amount::whole(3) };
        assert!(dear.to_string().contains("3 oGPU a second at most"), "{dear}");
        assert_eq!(hint(&dear), Some("bid less"));
        let paused = NoHand::Against(Why::NotActive);
        assert!(hint(&paused).unwrap().contains("provider resume"));
        assert_eq!(hint(&NoHand::Against(Why::Known)), None);
    }
}
