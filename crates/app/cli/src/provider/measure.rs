//! The devices that a provider offers: chosen, measured, and kept as they were measured.

use crate::{
    context::Context,
    exit::{Complaint, Exit},
};
use anyhow::Result;
use opengpu_crypto::Seed;
use opengpu_exec::{
    device::{self, Device, DeviceId},
    gpu::Kind,
};
use opengpu_types::Rating;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, time::Duration};

/// What is assumed of a device's power if nobody tells.
const PROCESSOR_WATTS: u32 = 65;
const CARD_WATTS: u32 = 250;
/// MiB of a gigabyte.
const MEBIBYTES: f64 = 953.674_316_406_25;
/// What the processor is called.
const PROCESSOR: &str = "cpu";
/// Longest name of a class.
const CLASS_LENGTH: usize = 48;

/// A device as it was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
    /// Which share of a device it is, where several leases at once are to run on one: then each share
    /// counts as a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) share: Option<u8>,
    /// Its id on this machine; none for the processor.
    pub(crate) device: Option<String>,
    /// Its name, as the driver has it.
    pub(crate) name: String,
    /// Its name in the market.
    pub(crate) class: String,
    pub(crate) memory_mib: u32,
    pub(crate) floats: u64,
    pub(crate) integers: u64,
    pub(crate) products: u64,
    pub(crate) memory_mib_per_second: u64,
    pub(crate) watts: u32,
    /// Whether kernels run on it, if only in software.
    pub(crate) kernels: bool,
}

impl Measured {
    /// What it is called in `provider.toml`.
    pub(crate) fn id(&self) -> Cow<'_, str> {
        let device = self.device.as_deref().unwrap_or(PROCESSOR);
        match self.share {
            Some(share) => Cow::Owned(format!("{device}/{share}")),
            None => Cow::Borrowed(device),
        }
    }

    /// What it was measured to do.
    pub(crate) const fn rating(&self) -> Rating {
        Rating {
            floats: self.floats,
            integers: self.integers,
            products: self.products,
            memory: self.memory_mib_per_second,
        }
    }

    /// What its executors are told to use: a processor that runs kernels in software names nothing, as
    /// the software is the only one that there is.
    pub(crate) fn for_executors(&self) -> Option<String> {
        match &self.device {
            Some(device) => Some(device.clone()),
            None if self.kernels => None,
            None => Some(PROCESSOR.to_owned()),
        }
    }
}

/// Measures the devices that are named, or all GPUs, or the processor where there is none.
pub(crate) fn measure(
    context: &Context,
    wanted: &[String],
    budget: Duration,
    watts: Option<u32>,
) -> Result<Vec<Measured>> {
    let devices = device::list();
    let chosen = choose(&devices, wanted)?;
    let count = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
    let each = budget.checked_div(count).unwrap_or(budget);
    let measure = |found: &Device| {
        context.output.note(format!(
            "Measuring {} ({}), {} s at most.",
            found.id,
            found.name,
            each.as_secs_f32().ceil()
        ));
        let seed = Seed(rand::random());
        let rating = device::bench(found, &seed, each).map_err(|error| {
            let told = format!("{}: {error}", found.id);
            Complaint::new(Exit::Failed, told)
                .hint("see `opengpu doctor`, or leave it out: `--devices` names the others")
        })?;
        if !device::check(&seed, &rating) {
            let told = format!("the integers that {} computed are wrong", found.id);
            let hint = "leave it out: `--devices` names the others";
            return Err(Complaint::new(Exit::Verification, told).hint(hint).into());
        }
        let kernels = found.id != DeviceId::Cpu || chosen.len() == 1 && in_software(&devices);
        Ok(measured(found, &rating, watts, kernels))
    };
    chosen.iter().map(|found| measure(found)).collect()
}

/// Whether kernels run here in software alone: then the processor can run them beside everything else.
fn in_software(devices: &[Device]) -> bool {
    let mut others = devices.iter().filter(|device| device.id != DeviceId::Cpu).peekable();
    others.peek().is_some() && others.all(|device| device.kind == Kind::Software)
}

/// The devices that are named, or all that are no software, and of those the processor only if there is
/// no other.
fn choose<'a>(devices: &'a [Device], wanted: &[String]) -> Result<Vec<&'a Device>, Complaint> {
    if wanted.is_empty() {
        let cards = devices.iter().filter(|it| !matches!(it.kind, Kind::Software | Kind::Cpu));
        let cards: Vec<_> = cards.collect();
        let processor = devices.iter().filter(|device| device.id == DeviceId::Cpu);
        return Ok(if cards.is_empty() { processor.collect() } else { cards });
    }
    let mut chosen: Vec<&Device> = Vec::new();
    for id in wanted {
        let found = devices.iter().find(|device| device.id.to_string() == *id);
        let found = found.ok_or_else(|| {
            let ids: Vec<_> = devices.iter().map(|device| device.id.to_string()).collect();
            let hint = format!("this machine has: {}", ids.join(", "));
            Complaint::usage(format!("there is no device `{id}`")).hint(hint)
        })?;
        if chosen.iter().any(|other| other.id == found.id) {
            let told = format!("the device `{id}` is named twice");
            return Err(Complaint::usage(told).hint("name each device once"));
        }
        chosen.push(found);
    }
    Ok(chosen)
}

fn measured(
    device: &Device,
    rating: &device::Rating,
    watts: Option<u32>,
    kernels: bool,
) -> Measured {
    let is_card = device.id != DeviceId::Cpu;
    let assumed = if is_card { CARD_WATTS } else { PROCESSOR_WATTS };
    let mebibytes = device.memory.map_or(0, |memory| memory.bytes >> 20);
    Measured {
        share: None,
        device: is_card.then(|| device.id.to_string()),
        name: device.name.clone(),
        class: class(&device.name),
        memory_mib: u32::try_from(mebibytes).unwrap_or(u32::MAX),
        floats: whole(rating.compute_gflops, 1e3),
        integers: whole(rating.integer_gops, 1e3),
        products: whole(rating.matmul_gflops, 1e3),
        memory_mib_per_second: whole(rating.bandwidth_gbs, MEBIBYTES),
        watts: watts.unwrap_or(assumed),
        kernels,
    }
}

/// A figure in another unit, without its fraction.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_arithmetic,
    reason = "a benchmark measures in floats, and a cast of one ends at the bounds of the number"
)]
fn whole(figure: f64, factor: f64) -> u64 {
    (figure * factor) as u64
}

/// A name as the market has it: small letters and digits, with dashes between words.
fn class(name: &str) -> String {
    let mut class = String::new();
    for letter in name.chars() {
        if letter.is_ascii_alphanumeric() {
            class.push(letter.to_ascii_lowercase());
        } else if !class.is_empty() && !class.ends_with('-') {
            class.push('-');
        }
    }
    class.truncate(CLASS_LENGTH);
    let class = class.trim_end_matches('-');
    if class.is_empty() { "device".to_owned() } else { class.to_owned() }
}

#[cfg(test)]
pub(crate) fn sample() -> Measured {
    Measured {
        share: None,
        device: None,
        name: "Some CPU @ 2.00GHz".to_owned(),
        class: "some-cpu".to_owned(),
        memory_mib: 1_024,
        floats: 1_000,
        integers: 1_000,
        products: 1_000,
        memory_mib_per_second: 1_000,
        watts: 65,
        kernels: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_exec::gpu::AdapterId;
    use opengpu_types::DeviceClass;

    #[test]
    fn a_class_is_a_plain_word() {
        assert_eq!(class("NVIDIA GeForce RTX 4090"), "nvidia-geforce-rtx-4090");
        assert_eq!(class("Some CPU @ 2.00GHz"), "some-cpu-2-00ghz");
        assert_eq!(class("(TM)"), "tm");
        assert_eq!(class("日本"), "device");
        assert!(DeviceClass::new(class(&"long ".repeat(40))).is_ok());
    }

    fn found(id: DeviceId, kind: Kind) -> Device {
        Device {
            id,
            name: "some".to_owned(),
            kind,
            api: None,
            driver: String::new(),
            vendor: 0,
            model: 0,
            pci: None,
            memory: None,
            threads: None,
        }
    }

    #[test]
    fn every_gpu_is_offered_and_the_processor_where_there_is_none() {
        let gpu = |id: &str, kind| found(DeviceId::Gpu(AdapterId::new(id)), kind);
        let software = gpu("soft", Kind::Software);
        let processor = found(DeviceId::Cpu, Kind::Cpu);
        let ids = |devices: &[Device], wanted: &[&str]| {
            let wanted: Vec<_> = wanted.iter().map(|id| (*id).to_owned()).collect();
            let chosen = choose(devices, &wanted).map_err(|complaint| complaint.to_string());
            chosen.map(|all| all.iter().map(|it| it.id.to_string()).collect::<Vec<_>>())
        };
        let cards = [gpu("a", Kind::Discrete), gpu("b", Kind::Integrated)];
        let all = [&cards[..], &[software.clone(), processor.clone()]].concat();
        assert_eq!(ids(&all, &[]).unwrap(), ["a", "b"]);
        assert_eq!(ids(&all, &["cpu", "b"]).unwrap(), ["cpu", "b"]);
        let plain = [software, processor];
        assert_eq!(ids(&plain, &[]).unwrap(), ["cpu"]);
        assert!(ids(&plain, &["a"]).unwrap_err().contains("no device `a`"));
        assert!(ids(&all, &["a", "a"]).unwrap_err().contains("twice"));
        assert!(in_software(&plain) && !in_software(&all) && !in_software(&plain[1..]));
    }

    #[test]
    fn executors_of_the_processor_use_no_gpu_unless_there_is_only_software() {
        assert_eq!(sample().for_executors(), Some("cpu".to_owned()));
        assert_eq!(Measured { kernels: true, ..sample() }.for_executors(), None);
        let card = Measured { device: Some("a".to_owned()), kernels: true, ..sample() };
        assert_eq!((&*card.id(), card.for_executors()), ("a", Some("a".to_owned())));
        let share = Measured { share: Some(2), ..card };
        assert_eq!((&*share.id(), share.for_executors()), ("a/2", Some("a".to_owned())));
        assert_eq!(whole(1.5, 1e3), 1_500);
        assert_eq!(whole(f64::NAN, 1e3), 0);
    }
}
