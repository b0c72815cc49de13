//! Where a provider stands, as it is told over the socket and shown to its owner.

use super::devices::{Offering, Shown};
use crate::output::{ago, lines, percent, table};
use opengpu_agent::{
    Status,
    core::{BidStage, BidStatus, Devices, Failing, Stage, Wish},
    presence::Sight,
};
use opengpu_types::{Address, Millis, Permille, ProviderStatus};
use serde::{Deserialize, Serialize};

/// Where a provider stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Its account.
    pub(crate) account: String,
    /// What the owner wishes: work, drain or pause.
    pub(crate) wish: String,
    /// Earning now, or idle because of something.
    pub(crate) standing: String,
    /// What the chain says of it: active, draining, leaving, or nothing.
    pub(crate) on_chain: Option<String>,
    /// What trials of its devices have shown.
    #[serde(default)]
    pub(crate) devices_shown: Option<String>,
    /// Its stake.
    pub(crate) stake: Option<String>,
    /// How reliable it was, by the chain's record of it.
    pub(crate) reliability_permille: Option<u16>,
    /// In how much of its time it was not silent.
    pub(crate) uptime_permille: Option<u16>,
    /// Its relay.
    pub(crate) relay: String,
    /// Whether clients can reach it now.
    pub(crate) reachable: bool,
    /// How it notices its owner, if it works only while nobody is there.
    pub(crate) owner: Option<String>,
    /// Its devices.
    #[serde(default)]
    pub(crate) devices: Vec<Shown>,
    /// Its open leases.
    pub(crate) leases: Vec<Held>,
    /// Its open bids.
    pub(crate) bids: Vec<Placed>,
    /// Bytes of inputs and outputs.
    pub(crate) stored_bytes: u64,
    /// Bytes that are held for leases of other providers.
    pub(crate) held_bytes: u64,
    /// Leases that ended since it was started.
    pub(crate) ended_leases: u64,
    /// What was paid for them.
    pub(crate) paid: String,
}

/// An open lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) lease: String,
    pub(crate) stage: String,
    /// Its devices.
    #[serde(default)]
    pub(crate) devices: Vec<String>,
    pub(crate) segment: Option<u32>,
    /// Until which segment another provider holds what it made.
    pub(crate) held_until: Option<u32>,
}

/// A bid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placed {
    pub(crate) task: String,
    /// Which offer.
    pub(crate) offer: u8,
    pub(crate) rate_per_second: String,
    /// Whether the owner has bid, and not the policy.
    pub(crate) by_hand: bool,
    pub(crate) stage: String,
}

/// What else decides whether it earns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// Whether leases are taken at this hour.
    pub(crate) open: bool,
    /// Whether clients can reach it.
    pub(crate) reachable: bool,
    /// Whether it works only while the owner is away.
    pub(crate) idle_only: bool,
    /// What can be seen of the owner, if that counts.
    pub(crate) sight: Option<Sight>,
    /// The time.
    pub(crate) now: Millis,
}

impl Report {
    /// Of an agent.
    pub(crate) fn new(
        account: Address,
        relay: String,
        (status, offering): (&Status, &Offering),
        around: Around,
    ) -> Self {
        let provider = status.provider.as_ref();
        let leases = status.leases.iter().map(|held| Held {
            lease: held.lease.to_string(),
            stage: stage(held.stage).to_owned(),
            devices: held.devices.map_or_else(Vec::new, |(offer, it)| offering.ids(offer, &it)),
            segment: held.segment.map(|segment| segment.0),
            held_until: held.held.map(|segment| segment.0),
        });
        let leases: Vec<_> = leases.collect();
        let lease_of = |id: &str| {
            let held = leases.iter().find(|held| held.devices.iter().any(|it| it == id));
            held.map(|held| held.lease.clone())
        };
        let on_chain = provider.map(|provider| match provider.status {
            ProviderStatus::Active => "active",
            ProviderStatus::Draining => "draining",
            ProviderStatus::Leaving { .. } => "leaving",
            ProviderStatus::Silent { .. } => "silent",
            ProviderStatus::Unproven { .. } => "unproven",
        });
        let record = status.record;
        Self {
            account: account.to_string(),
            wish: word(status.wish).to_owned(),
            standing: standing(status, around),
            on_chain: on_chain.map(str::to_owned),
            devices_shown: provider.map(|it| {
                let proven = it.proven.map(|at| around.now.since(at));
                shown(it.status, it.in_trial, proven)
            }),
            stake: provider.map(|provider| provider.stake.to_string()),
            reliability_permille: record.map(|(reliability, _)| reliability.get()),
            uptime_permille: record.map(|(_, uptime)| uptime.get()),
            relay,
            reachable: around.reachable,
            owner: around.sight.map(|sight| noticed(sight).to_owned()),
            devices: offering.shown(lease_of, |id| trouble(status, offering, id)),
            leases,
            bids: status.bids.iter().map(Placed::new).collect(),
            stored_bytes: status.stored,
            held_bytes: status.holding,
            ended_leases: status.earned.leases,
            paid: status.earned.paid.to_string(),
        }
    }

    /// The same for people.
    pub(crate) fn text(&self) -> String {
        let stake = self.stake.as_ref().map_or_else(|| "-".to_owned(), |it| format!("{it} oGPU"));
        let part = |permille: Option<u16>| permille.and_then(Permille::new).map(percent);
        let record = part(self.reliability_permille).zip(part(self.uptime_permille));
        let record = record.map_or_else(
            || "-".to_owned(),
            |(reliable, up)| format!("{reliable} reliable, up for {up} of its time"),
        );
        let head = lines([
            ("account", self.account.clone()),
            ("standing", self.standing.clone()),
            ("wish", self.wish.clone()),
            ("on chain", self.on_chain.clone().unwrap_or_else(|| "not registered".to_owned())),
            ("proven", self.devices_shown.clone().unwrap_or_else(|| "-".to_owned())),
            ("stake", stake),
            ("record", record),
            ("relay", self.relay.clone()),
            ("owner", self.owner.clone().unwrap_or_else(|| "is not looked for".to_owned())),
            ("stored", format!("{} MiB", self.stored_bytes >> 20)),
            ("for others", format!("{} MiB", self.held_bytes >> 20)),
            ("since start", format!("{} leases, {} oGPU", self.ended_leases, self.paid)),
        ]);
        let mut text = head;
        if self.owner.as_ref().is_some_and(|it| *it != noticed(Sight::Inputs)) {
            text.push_str(&format!("\n\n{UNSEEN}"));
        }
        if !self.devices.is_empty() {
            let rows = self.devices.iter().map(|it| {
                let lease = it.lease.clone().unwrap_or_else(|| "-".to_owned());
                let state = it.trouble.clone().unwrap_or_else(|| "works".to_owned());
                let Shown { device, name, class, offer, watts, .. } = it.clone();
                [device, name, class, offer.to_string(), format!("{watts} W"), state, lease]
            });
            let head = ["device", "name", "class", "offer", "draws", "state", "lease"];
            text.push_str(&format!("\n\n{}", table(head, rows)));
            if self.devices.iter().any(|it| it.trouble.is_some()) {
                text.push_str(&format!("\n{MEND}"));
            }
        }
        if !self.leases.is_empty() {
            let rows = self.leases.iter().map(|held| {
                let segment = held.segment.map_or_else(|| "-".to_owned(), |it| it.to_string());
                let until = held.held_until.map(|it| format!("until {it}"));
                let elsewhere = until.unwrap_or_else(|| "nothing".to_owned());
                let devices = held.devices.join(" ");
                [held.lease.clone(), held.stage.clone(), devices, segment, elsewhere]
            });
            let head = ["lease", "stage", "devices", "segment", "held elsewhere"];
            text.push_str(&format!("\n\n{}", table(head, rows)));
        }
        if !self.bids.is_empty() {
            let rows = self.bids.iter().map(|it| {
                let by = if it.by_hand { "you" } else { "policy" };
                [it.task.clone(), it.rate_per_second.clone(), by.to_owned(), it.stage.clone()]
            });
            text.push_str(&format!("\n\n{}", table(["bid for", "rate/s", "by", "stage"], rows)));
        }
        text
    }
}

impl Placed {
    pub(crate) fn new(bid: &BidStatus) -> Self {
        let stage = match bid.stage {
            BidStage::Sent => "on its way",
            BidStage::Sealed => "sealed",
            BidStage::Opened => "opened",
        };
        Self {
            task: bid.task.to_string(),
            offer: bid.offer,
            rate_per_second: bid.rate.to_string(),
            by_hand: bid.by_hand,
            stage: stage.to_owned(),
        }
    }
}

pub(crate) const fn word(wish: Wish) -> &'static str {
    match wish {
        Wish::Work => "work",
        Wish::Drain => "drain",
        Wish::Pause => "pause",
    }
}

/// How an owner is noticed.
pub(crate) const fn noticed(sight: Sight) -> &'static str {
    match sight {
        Sight::Inputs => "is noticed by keyboard, mouse and terminals",
        Sight::Terminals => "is noticed by terminals alone, not at a desktop",
        Sight::Nothing => "is never noticed",
    }
}

/// What to do so that an owner is noticed.
pub(crate) const UNSEEN: &str = "no input device can be read, so nobody at a desktop is noticed: add the \
     user of the provider to the group `input` (`sudo usermod -aG input USER`), log in again, and see \
     `opengpu provider status`";

/// What to do about a device that fails.
const MEND: &str = "a device that fails again and again is out of service for some time and gets no \
     lease: `opengpu doctor` says what is wrong, `opengpu provider resume` puts it back at once, and `devices` in \
     provider.toml leaves it out";

/// What trials have shown of the devices of a provider: whether they are in one, and when they were proven.
fn shown(status: ProviderStatus, in_trial: bool, since: Option<Millis>) -> String {
    match (status, in_trial, since) {
        (_, true, _) => "its devices are in a trial now".to_owned(),
        (ProviderStatus::Unproven { .. }, ..) => {
            "no: a trial did not show the devices that it offers".to_owned()
        }
        (_, _, Some(time)) => ago(time),
        _ => "not yet: the chain has not tried its devices".to_owned(),
    }
}

/// What is wrong with a device, if anything is.
fn trouble(status: &Status, offering: &Offering, id: &str) -> Option<String> {
    let is_it = |it: &&Failing| {
        let ids = offering.ids(it.offer, &Devices::NONE.with(it.device));
        ids.iter().any(|found| found == id)
    };
    let Failing { failures, out, .. } = *status.failing.iter().find(is_it)?;
    let told = format!("failed {failures} x in a row");
    Some(match out {
        Some(time) => format!("out of service for {} min, {told}", time.0.div_ceil(60_000)),
        None => told,
    })
}

/// Whether every device is out of service.
fn is_out_of_service(status: &Status) -> bool {
    let offers = status.provider.iter().flat_map(|provider| &provider.offers);
    let all = offers.map(|offered| usize::from(offered.offer.devices)).sum::<usize>();
    all > 0 && status.failing.iter().filter(|it| it.out.is_some()).count() >= all
}

const fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Awarded { .. } => "waiting for its client",
        Stage::Restored => "found on disk",
        Stage::Running => "running",
        Stage::Halting { .. } => "running to its next checkpoint",
        Stage::Leaving { .. } => "being given back",
        Stage::Closing => "being committed to",
        Stage::Settling => "being settled",
    }
}

/// Earning, or why not.
fn standing(status: &Status, around: Around) -> String {
    if status.leases.iter().any(|held| matches!(held.stage, Stage::Running)) {
        return "earning now".to_owned();
    }
    if !status.leases.is_empty() {
        return "busy with a lease that begins or ends".to_owned();
    }
    let because = match (&status.provider, status.wish) {
        _ if status.full => "the disk is full",
        _ if is_out_of_service(status) => {
            "all of its devices failed: see `opengpu doctor`, then `opengpu provider resume`"
        }
        (_, Wish::Pause) => "it is paused: `opengpu provider resume`",
        (_, Wish::Drain) => "it takes no more leases: `opengpu provider resume`",
        _ if !around.open => "it takes no leases at this hour",
        _ if !around.reachable => "its relay does not answer, so no client reaches it",
        (None, _) => "the chain does not know it yet",
        _ if status.refused.is_some() => {
            let why = status.refused.map_or_else(String::new, |failure| failure.to_string());
            return format!(
                "idle because the chain refuses its offers ({why}): change them with \
                 `opengpu provider init`, then start it again"
            );
        }
        _ if status.unannounced => {
            "the chain has other offers of it, which are brought up to date as soon as no lease is in \
             the way"
        }
        (Some(provider), _) if provider.status == ProviderStatus::Active => {
            "nobody has leased it yet"
        }
        (Some(provider), _) if matches!(provider.status, ProviderStatus::Silent { .. }) => {
            "it was not heard of during a lease, and reports back"
        }
        (Some(provider), _) if matches!(provider.status, ProviderStatus::Unproven { .. }) => {
            "a trial did not show the devices that it offers, and it asks for another one: if one is \
             shared or slower than it was measured, `opengpu provider init --force` measures again"
        }
        _ if around.idle_only => "somebody is at the machine",
        _ => "the chain has not made it active yet",
    };
    format!("idle because {because}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::measure::{Measured, sample};
    use opengpu_agent::LeaseStatus;
    use opengpu_types::{Amount, Digest, LeaseId, SegmentIndex, TaskId};

    const AROUND: Around =
        Around { open: true, reachable: true, idle_only: false, sight: None, now: Millis(0) };

    #[test]
    fn it_says_whether_and_when_devices_were_proven() {
        let (active, failed) =
            (ProviderStatus::Active, ProviderStatus::Unproven { draining: false });
        let proven = Some(Millis(5_000));
        assert_eq!(shown(active, false, proven), "5 s ago");
        assert!(shown(active, false, None).starts_with("not yet"));
        assert!(shown(active, true, proven).contains("in a trial now"));
        assert!(shown(failed, false, None).starts_with("no:"));
    }

    #[test]
    fn it_says_what_it_does_or_why_it_does_nothing() {
        let mut status = Status::default();
        assert!(standing(&status, AROUND).contains("does not know it yet"));
        let unreachable = Around { reachable: false, ..AROUND };
        assert!(standing(&status, unreachable).contains("its relay does not answer"));
        let full = Status { full: true, ..Status::default() };
        assert_eq!(standing(&full, AROUND), "idle because the disk is full");
        let lease = LeaseId { task: TaskId(Digest([1; 32])), number: 0 };
        let devices = Some((0, Devices::NONE.with(1)));
        let segment = Some(SegmentIndex(3));
        let held = |stage| LeaseStatus { lease, stage, devices, segment, held: None };
        status.leases = vec![held(Stage::Settling)];
        assert!(standing(&status, AROUND).contains("begins or ends"));
        status.leases = vec![held(Stage::Settling), held(Stage::Running)];
        assert_eq!(standing(&status, AROUND), "earning now");
        let bid = BidStatus {
            task: lease.task,
            offer: 0,
            rate: Amount::whole(2),
            by_hand: true,
            stage: BidStage::Sealed,
        };
        status.bids = vec![bid, BidStatus { by_hand: false, ..bid }];
        let second = Measured { share: Some(2), ..sample() };
        let offering = Offering::new(&[sample(), second], &[]).unwrap();
        let new = |status: &Status, around| {
            Report::new(Address::ZERO, String::new(), (status, &offering), around)
        };
        let report = new(&status, AROUND);
        assert_eq!(report.devices[0].lease, None, "{report:?}");
        assert_eq!(report.devices[1].lease, Some(lease.to_string()), "{report:?}");
        assert_eq!(report.leases[0].devices, ["cpu/2"]);
        let told = report.text();
        assert!(told.contains("you") && told.contains("policy"), "who bids is told: {told}");
        assert!(report.text().contains("being settled"), "{}", report.text());
        assert!(report.text().contains("nothing"), "that nothing is held is told");
        status.leases = vec![LeaseStatus { held: Some(SegmentIndex(2)), ..held(Stage::Running) }];
        let until = new(&status, AROUND);
        assert!(until.text().contains("until 2"), "{}", until.text());
        let blind = Around { sight: Some(Sight::Nothing), ..AROUND };
        let blind = new(&status, blind).text();
        assert!(blind.contains("never noticed") && blind.contains("usermod"), "{blind}");
        let failing = |device, failures, out| Failing { offer: 0, device, failures, out };
        status.failing = vec![failing(0, 1, None), failing(1, 3, Some(Millis(540_001)))];
        let mended = new(&status, AROUND);
        let states = mended.devices.iter().map(|it| it.trouble.as_deref().unwrap());
        let expected = ["failed 1 x in a row", "out of service for 10 min, failed 3 x in a row"];
        assert_eq!(states.collect::<Vec<_>>(), expected);
        assert!(mended.text().contains("opengpu provider resume"), "{}", mended.text());
        assert!(!report.text().contains("opengpu provider resume"), "{}", report.text());
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    }
}
