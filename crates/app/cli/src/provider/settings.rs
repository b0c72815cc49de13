//! `provider.toml`: what the owner allows, in words, and the policy that follows from it.

use crate::{
    exit::Complaint,
    output,
    provider::values::{hours, money},
    values::{percent, span},
};
use anyhow::{Context as _, Result};
use opengpu_agent::{
    hours::Hours,
    policy::{Floor, Policy},
};
use opengpu_link::RelayUrl;
use opengpu_types::{
    Address, List, Member, Millis, Money, Permille, ProgramKind, Region, Set, Text, Trust,
};
use serde::Deserialize;
use std::{fmt::Write as _, net::SocketAddr, str::FromStr};

/// The lines of the file: name, meaning, and an example where nothing need be said.
const ABOUT: [(&str, &str, &str); 18] = [
    ("devices", "Devices that are offered, of those in device.json; all of them if empty.", ""),
    ("rate", "Least for a second of a device.", "\"0.001 oGPU\""),
    ("kilowatt-hour", "Or: what a kilowatt-hour costs you.", "\"0.30 USD\""),
    ("margin", "What you want beside it, as a part of it.", "\"50%\""),
    ("kinds", "Programs that may run here: wasm, gpu, llm, native, onnx, train.", ""),
    ("trusts", "How far clients may have the work checked.", ""),
    ("longest", "Longest lease.", ""),
    (
        "most-leases",
        "Most leases at once that are bid for; what is awarded at once takes any free device.",
        "",
    ),
    ("hours", "When leases are taken, such as \"mon-fri 18-24\"; always if empty.", ""),
    ("clock-ahead-minutes", "Minutes by which your clock is ahead of UTC, for the hours.", ""),
    ("idle-only", "Work only while nobody is at this machine.", ""),
    ("region", "Where the devices are, such as \"eu\".", ""),
    ("denied", "Clients for which it does not work.", ""),
    ("reliability", "Least reliability of a client.", ""),
    ("relay", "Relay through which clients reach it.", "\"https://relay.example\""),
    ("direct", "UDP socket for direct links.", "\"0.0.0.0:0\""),
    ("quota-gib", "GiB that inputs, programs, states and outputs may take together.", ""),
    ("hold-gib", "GiB that it holds, unread, for leases of other providers; 0 for none.", ""),
];

/// GiB that are held for others unless something else is said.
pub(crate) const HOLD_GIB: u64 = 4;

const fn usual_hold() -> u64 {
    HOLD_GIB
}

/// Settings of a provider, as they stand in the file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Settings {
    #[serde(default)]
    pub(crate) devices: Vec<String>,
    pub(crate) rate: Option<String>,
    pub(crate) kilowatt_hour: Option<String>,
    pub(crate) margin: Option<String>,
    pub(crate) kinds: Vec<String>,
    pub(crate) trusts: Vec<String>,
    pub(crate) longest: String,
    pub(crate) most_leases: usize,
    #[serde(default)]
    pub(crate) hours: Vec<String>,
    #[serde(default)]
    pub(crate) clock_ahead_minutes: i16,
    pub(crate) idle_only: bool,
    #[serde(default)]
    pub(crate) region: String,
    #[serde(default)]
    pub(crate) denied: Vec<String>,
    pub(crate) reliability: String,
    pub(crate) relay: Option<String>,
    pub(crate) direct: Option<SocketAddr>,
    pub(crate) quota_gib: u64,
    #[serde(default = "usual_hold")]
    pub(crate) hold_gib: u64,
}

impl Settings {
    /// Reads the text of the file.
    pub(crate) fn read(text: &str) -> Result<Self> {
        Ok(toml::from_str(text)?)
    }

    /// The text of the file, with what each line means.
    pub(crate) fn write(&self) -> String {
        let mut text = String::from(
            "# What this provider allows; `opengpu provider start` reads it.\n\
             # After a change: end it and start it again; open leases go on.\n",
        );
        for ((name, about, example), value) in ABOUT.into_iter().zip(self.values()) {
            let set = match value {
                Some(value) => format!("{name} = {value}"),
                None => format!("# {name} = {example}"),
            };
            // A text takes everything that is written to it.
            let _ = write!(text, "\n# {about}\n{set}\n");
        }
        text
    }

    /// What stands in the file, in the sequence of [`ABOUT`].
    fn values(&self) -> [Option<String>; 18] {
        let quoted = |value: &Option<String>| value.as_deref().map(toml_text);
        [
            Some(list(&self.devices)),
            quoted(&self.rate),
            quoted(&self.kilowatt_hour),
            quoted(&self.margin),
            Some(list(&self.kinds)),
            Some(list(&self.trusts)),
            Some(toml_text(&self.longest)),
            Some(self.most_leases.to_string()),
            Some(list(&self.hours)),
            Some(self.clock_ahead_minutes.to_string()),
            Some(self.idle_only.to_string()),
            Some(toml_text(&self.region)),
            Some(list(&self.denied)),
            Some(toml_text(&self.reliability)),
            quoted(&self.relay),
            self.direct.map(|it| toml_text(&it.to_string())),
            Some(self.quota_gib.to_string()),
            Some(self.hold_gib.to_string()),
        ]
    }

    /// The least rate.
    pub(crate) fn floor(&self) -> Result<Floor> {
        let read = |text: &str| money(text).map_err(Complaint::usage);
        match (&self.rate, &self.kilowatt_hour) {
            (Some(rate), None) => Ok(Floor::Rate(read(rate)?)),
            (None, Some(power)) => {
                let margin = self.margin.as_deref().unwrap_or("0%");
                let margin = percent(margin).map_err(Complaint::usage)?;
                Ok(Floor::Power { kilowatt_hour: read(power)?, margin })
            }
            _ => Err(Complaint::usage("the floor is either `rate` or `kilowatt-hour`")
                .hint("name exactly one of them")
                .into()),
        }
    }

    /// The policy of the agent.
    pub(crate) fn policy(&self) -> Result<Policy> {
        let denied = self.denied.iter().map(|it| it.parse::<Address>());
        let denied = denied.collect::<Result<Vec<_>, _>>().context("in `denied`")?;
        Ok(Policy {
            floor: self.floor()?,
            longest: span(&self.longest).map_err(Complaint::usage)?,
            kinds: set::<ProgramKind>(&self.kinds).context("in `kinds`")?,
            trusts: set::<Trust>(&self.trusts).context("in `trusts`")?,
            most_leases: self.most_leases,
            hours: self.hours()?,
            idle_only: self.idle_only,
            denied: List::new(denied).context("in `denied`")?,
            reliability: percent(&self.reliability).map_err(Complaint::usage)?,
            region: Region::new(self.region.as_str()).context("in `region`")?,
        })
    }

    fn hours(&self) -> Result<Hours> {
        let read = hours(&self.hours, self.clock_ahead_minutes);
        read.map_err(|error| Complaint::usage(error).into())
    }

    /// How it is reached.
    pub(crate) fn link(&self, seed: [u8; 32]) -> Result<opengpu_link::Config> {
        let relay = self.relay.as_deref().map(RelayUrl::from_str).transpose();
        let relay = relay.context("in `relay`")?;
        if let Some(relay) = &relay {
            Text::<128>::new(relay.to_string()).context("in `relay`")?;
        }
        let mut link = opengpu_link::Config::nearby(seed, ([0, 0, 0, 0], 0).into());
        (link.relay, link.direct) = (relay, self.direct);
        if link.relay.is_none() && link.direct.is_none() {
            let complaint = Complaint::usage("clients cannot reach a provider without an address");
            return Err(complaint.hint("set `relay` or `direct` in provider.toml").into());
        }
        Ok(link)
    }
}

/// A least rate in the words of the file.
pub(crate) fn money_text(money: Money) -> String {
    money.to_string()
}

/// A span in the words of the file.
pub(crate) fn span_text(span: Millis) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m")];
    let whole = units.into_iter().find(|(unit, _)| span.0.is_multiple_of(*unit));
    let (unit, letter) = whole.unwrap_or((1_000, "s"));
    format!("{}{letter}", span.0.checked_div(unit).unwrap_or(0))
}

/// A part in the words of the file.
pub(crate) fn part_text(part: Permille) -> String {
    output::percent(part)
}

/// Members by their words.
pub(crate) fn set<T>(words: &[String]) -> Result<Set<T>>
where
    T: Member + FromStr,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    let mut set = Set::NONE;
    for word in words {
        set = set.with(word.parse()?);
    }
    Ok(set)
}

fn toml_text(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn list(words: &[String]) -> String {
    toml::Value::from(words.to_vec()).to_string()
}

#[cfg(test)]
pub(crate) fn sample() -> Settings {
    Settings {
        devices: vec!["cpu".to_owned()],
        rate: Some("0.001 oGPU".to_owned()),
        kilowatt_hour: None,
        margin: None,
        kinds: vec!["wasm".to_owned()],
        trusts: vec!["fast".to_owned(), "checked".to_owned()],
        longest: "12h".to_owned(),
        most_leases: 1,
        hours: vec!["mon-fri 18-24".to_owned()],
        clock_ahead_minutes: 60,
        idle_only: true,
        region: "eu".to_owned(),
        denied: vec![Address::ZERO.to_string()],
        reliability: "10%".to_owned(),
        relay: Some("http://127.0.0.1:26800".to_owned()),
        direct: Some("0.0.0.0:0".parse().unwrap()),
        quota_gib: 64,
        hold_gib: 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_survive_their_file_and_become_a_policy() {
        let settings = sample();
        assert_eq!(Settings::read(&settings.write()).unwrap(), settings);
        let policy = settings.policy().unwrap();
        assert!(policy.kinds.has(ProgramKind::Wasm) && !policy.kinds.has(ProgramKind::Native));
        assert_eq!(policy.longest, Millis(12 * 3_600_000));
        assert!(policy.idle_only);
        assert_eq!(policy.denied.len(), 1);
        assert_eq!(
            settings.link([1; 32]).unwrap().relay.unwrap().to_string(),
            "http://127.0.0.1:26800/"
        );
        let power = Settings {
            rate: None,
            kilowatt_hour: Some("0.3 USD".to_owned()),
            margin: Some("50%".to_owned()),
            ..sample()
        };
        assert_eq!(Settings::read(&power.write()).unwrap(), power);
        assert!(matches!(power.floor().unwrap(), Floor::Power { .. }));
        // A file from before says nothing of it.
        let text = settings.write().replace("hold-gib = 2", "");
        let older = Settings::read(&text.replace("devices = [\"cpu\"]", "")).unwrap();
        assert_eq!(older, Settings { hold_gib: HOLD_GIB, devices: Vec::new(), ..settings });
    }

    #[test]
    fn spans_are_written_as_they_are_read() {
        for text in ["3d", "12h", "90m", "45s"] {
            assert_eq!(span_text(span(text).unwrap()), text);
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let none = Settings { rate: None, ..sample() };
        assert!(none.floor().is_err());
        let both = Settings { kilowatt_hour: Some("1 USD".to_owned()), ..sample() };
        assert!(both.floor().is_err());
        let kind = Settings { kinds: vec!["spreadsheet".to_owned()], ..sample() };
        assert!(kind.policy().is_err());
        let nowhere = Settings { relay: None, direct: None, ..sample() };
        assert!(nowhere.link([1; 32]).is_err());
        assert!(Settings::read(&sample().write().replace("idle-only", "idle-olny")).is_err());
    }
}
