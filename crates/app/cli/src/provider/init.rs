//! `opengpu provider init`: measures the device and writes down what its owner allows.

use super::{
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
    output::facts,
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
    /// Least for a second of the device, such as "0.001 oGPU".
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
    /// Most leases at once.
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    most_leases: u8,
    /// When leases are taken, such as "mon-fri 18-24"; may be repeated [default: always].
    #[arg(long, value_name = "SPAN")]
    hours: Vec<String>,
    /// Minutes by which your clock is ahead of UTC, for the hours.
    #[arg(long, value_name = "MINUTES", default_value_t = 0, allow_negative_numbers = true)]
    clock_ahead: i16,
    /// Work only while nobody is at this machine.
    #[arg(long)]
    idle_only: bool,
    /// Where the device is, such as eu.
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

/// How a device is measured.
#[derive(Debug, Args)]
pub(crate) struct Measuring {
    /// Id of the device, as `opengpu device list` shows it [default: the first GPU, else the processor].
    #[arg(long, value_name = "ID")]
    device: Option<String>,
    /// What the device draws at work [default: 250 for a card, 65 for a processor].
    #[arg(long, value_name = "WATTS")]
    watts: Option<u32>,
    /// Seconds that measuring may take.
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
}

impl Measuring {
    pub(crate) fn measure(&self, context: &Context) -> Result<Measured> {
        let budget = Duration::from_secs(self.seconds);
        measure::measure(context, self.device.as_deref(), budget, self.watts)
    }
}

impl Arguments {
    fn settings(&self, measured: &Measured) -> Settings {
        let kinds = if self.kinds.is_empty() { measured.kinds() } else { self.kinds.clone() };
        let margin = self.kilowatt_hour.is_some().then(|| settings::part_text(self.margin));
        Settings {
            rate: self.rate.map(settings::money_text),
            kilowatt_hour: self.kilowatt_hour.map(settings::money_text),
            margin,
            kinds: kinds.iter().map(ToString::to_string).collect(),
            trusts: Trust::ALL.iter().map(ToString::to_string).collect(),
            longest: settings::span_text(self.longest),
            most_leases: usize::from(self.most_leases),
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
    let settings = arguments.settings(&measured);
    // What would be refused at the start is refused here.
    let (policy, device) = (settings.policy()?, measured.device()?);
    settings.link([0; 32])?;
    let offers = policy.offers(std::slice::from_ref(&device))?;
    context.confirm(&format!(
        "Write a provider to {} that allows programs of the kinds {}?",
        folder.path().display(),
        policy.kinds
    ))?;
    folder.create(&settings, &measured)?;
    let rate = offers.iter().next().map_or_else(String::new, |offer| offer.rate.to_string());
    let data = json!({
        "folder": folder.path().display().to_string(),
        "device": measured.name,
        "class": measured.class,
        "rate_per_second": rate,
        "kinds": settings.kinds,
    });
    context.output.show(&data, |_| {
        facts([
            ("folder", folder.path().display().to_string()),
            ("device", measured.name.clone()),
            ("class", measured.class.clone()),
            ("least rate", format!("{rate}/s")),
            ("runs", settings.kinds.join(" ")),
        ])
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
