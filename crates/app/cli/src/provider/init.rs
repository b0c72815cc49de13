//! `opengpu provider init`: measures the devices and writes down what their owner allows.

use super::{
    devices::Offering,
    folder::Folder,
    measure::{self, Measured},
    report,
    settings::{self, Settings},
    start,
    values::money,
};
use crate::{
    context::Context,
    exit::Complaint,
    output::table,
    values::{percent, span},
};
use anyhow::Result;
use clap::Args;
use opengpu_agent::presence::Sight;
use opengpu_types::{Address, Member as _, Millis, Money, Permille, ProgramKind, Trust};
use serde_json::json;
use std::{net::SocketAddr, time::Duration};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Least for a second of a device, such as "0.001 oGPU".
    #[arg(long, value_name = "MONEY", value_parser = money, conflicts_with = "kilowatt_hour",
          required_unless_present = "kilowatt_hour")]
    rate: Option<Money>,
    /// What a kilowatt-hour costs you, such as "0.30 USD": the least rate follows from it.
    #[arg(long, value_name = "MONEY", value_parser = money)]
    kilowatt_hour: Option<Money>,
    /// What you want beside the cost of power, as a part of it.
    #[arg(long, value_name = "PART", value_parser = percent, default_value = "50%",
          requires = "kilowatt_hour")]
    margin: Permille,
    /// Kinds of programs that may run here: wasm, gpu, llm, native, onnx, train
    /// [default: wasm, and gpu with a GPU].
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<ProgramKind>,
    /// Longest lease.
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "12h")]
    longest: Millis,
    /// Most leases at once [default: as many as devices].
    #[arg(long, value_name = "COUNT")]
    most_leases: Option<u8>,
    /// When leases are taken, such as "mon-fri 18-24"; may be repeated [default: always].
    #[arg(long, value_name = "SPAN")]
    hours: Vec<String>,
    /// Minutes by which your clock is ahead of UTC, for the hours.
    #[arg(long, value_name = "MINUTES", default_value_t = 0, allow_negative_numbers = true)]
    clock_ahead: i16,
    /// Work only while nobody is at this machine.
    #[arg(long)]
    idle_only: bool,
    /// Where the devices are, such as eu.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    region: String,
    /// A client for which it does not work; may be repeated.
    #[arg(long, value_name = "ADDRESS")]
    denied: Vec<Address>,
    /// Least reliability of a client.
    #[arg(long, value_name = "PART", value_parser = percent, default_value = "0%")]
    reliability: Permille,
    /// Relay through which clients reach it.
    #[arg(long, value_name = "URL")]
    relay: Option<String>,
    /// UDP socket for direct links.
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:0")]
    direct: SocketAddr,
    /// GiB that inputs, programs, states and outputs may take together.
    #[arg(long, value_name = "GIB", default_value_t = 64,
          value_parser = clap::value_parser!(u64).range(1..=1_048_576))]
    quota: u64,
    /// GiB that it holds for leases of other providers, which cannot be read here: so states and outputs
    /// survive their provider. With 0 it holds nothing.
    #[arg(long, value_name = "GIB", default_value_t = settings::HOLD_GIB,
          value_parser = clap::value_parser!(u64).range(0..=1_048_576))]
    hold: u64,
    #[command(flatten)]
    measuring: Measuring,
    /// Replace the settings that are there; its identity stays.
    #[arg(long)]
    force: bool,
}

/// How devices are measured.
#[derive(Debug, Args)]
pub(crate) struct Measuring {
    /// Ids of the devices, as `opengpu device list` shows them; others are left out [default: every GPU,
    /// or the processor where there is none].
    #[arg(long, alias = "device", value_name = "ID", value_delimiter = ',')]
    devices: Vec<String>,
    /// What each device draws at work [default: 250 for a card, 65 for a processor].
    #[arg(long, value_name = "WATTS")]
    watts: Option<u32>,
    /// Seconds that measuring all of them may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

impl Measuring {
    pub(crate) fn measure(&self, context: &Context) -> Result<Vec<Measured>> {
        let budget = Duration::from_secs(self.seconds);
        measure::measure(context, &self.devices, budget, self.watts)
    }
}

impl Arguments {
    fn settings(&self, offering: &Offering) -> Settings {
        let kinds = if self.kinds.is_empty() { offering.kinds() } else { self.kinds.clone() };
        let margin = self.kilowatt_hour.is_some().then(|| settings::part_text(self.margin));
        Settings {
            devices: offering.members().map(|(_, it)| it.id().into_owned()).collect(),
            rate: self.rate.map(settings::money_text),
            kilowatt_hour: self.kilowatt_hour.map(settings::money_text),
            margin,
            kinds: kinds.iter().map(ToString::to_string).collect(),
            trusts: Trust::ALL.iter().map(ToString::to_string).collect(),
            longest: settings::span_text(self.longest),
            most_leases: self.most_leases.map_or_else(|| offering.count(), usize::from),
            hours: self.hours.clone(),
            clock_ahead_minutes: self.clock_ahead,
            idle_only: self.idle_only,
            region: self.region.clone(),
            denied: self.denied.iter().map(ToString::to_string).collect(),
            reliability: settings::part_text(self.reliability),
            relay: self.relay.clone(),
            direct: Some(self.direct),
            quota_gib: self.quota,
            hold_gib: self.hold,
        }
    }
}

pub(crate) fn run(context: &Context, folder: &Folder, arguments: &Arguments) -> Result<()> {
    if folder.is_taken() && !arguments.force {
        let told = format!("{} holds a provider already", folder.path().display());
        let hint = "edit its provider.toml, or write it anew with --force; its identity stays";
        return Err(Complaint::usage(told).hint(hint).into());
    }
    context.make_home()?;
    let measured = arguments.measuring.measure(context)?;
    let offering = Offering::new(&measured, &[])?;
    let settings = arguments.settings(&offering);
    // What would be refused at the start is refused here.
    let policy = settings.policy()?;
    settings.link([0; 32])?;
    let offers = policy.offers(&offering.devices())?;
    context.confirm(&format!(
        "Write a provider to {} that allows programs of the kinds {}?",
        folder.path().display(),
        policy.kinds
    ))?;
    folder.create(&settings, &measured)?;
    let offers = offering.0.iter().zip(&offers).map(|(alike, offer)| {
        let names: Vec<_> = alike.members.iter().map(Measured::id).collect();
        let name = alike.members.first().map(|it| it.name.clone()).unwrap_or_default();
        json!({
            "device": name,
            "devices": names,
            "class": offer.class.as_str(),
            "count": offer.devices,
            "rate_per_second": offer.rate.to_string(),
            "kinds": offer.kinds.iter().map(|kind| kind.to_string()).collect::<Vec<_>>(),
        })
    });
    let offers: Vec<_> = offers.collect();
    let data = json!({ "folder": folder.path().display().to_string(), "offers": offers });
    context.output.show(&data, |_| {
        let text = |offer: &serde_json::Value, name: &str| match &offer[name] {
            serde_json::Value::String(text) => text.clone(),
            serde_json::Value::Array(words) => {
                words.iter().filter_map(|it| it.as_str()).collect::<Vec<_>>().join(" ")
            }
            other => other.to_string(),
        };
        let rows = offers.iter().map(|offer| {
            let columns = ["device", "devices", "class", "count", "rate_per_second", "kinds"];
            columns.map(|name| text(offer, name))
        });
        let titles = ["device", "ids", "class", "count", "least rate/s", "runs"];
        format!("{}\n\n{}", folder.path().display(), table(titles, rows))
    })?;
    if settings.idle_only {
        let sight = start::sight();
        context.output.note(format!("The owner {}.", report::noticed(sight)));
        if sight != Sight::Inputs {
            context.output.note(format!("Warning: {}.", report::UNSEEN));
        }
    }
    context.output.note("Read its provider.toml, then `opengpu provider start --wallet NAME`.");
    Ok(())
}
