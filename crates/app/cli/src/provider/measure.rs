//! The device that a provider offers: chosen, measured, and kept as it was measured.
//!
//! One provider offers one device, because its executors use one; whoever has two runs two providers,
//! each in its own folder.

use crate::{
    context::Context,
    exit::{Complaint, Exit},
};
use anyhow::{Context as _, Result};
use opengpu_agent::policy;
use opengpu_crypto::Seed;
use opengpu_exec::{
    device::{self, Device, DeviceId},
    gpu::Kind,
};
use opengpu_types::{DeviceClass, Precision, ProgramKind, Rating, Runtime, Set};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is assumed of a device's power if nobody tells.
const PROCESSOR_WATTS: u32 = 65;
const CARD_WATTS: u32 = 250;
/// MiB of a gigabyte.
const MEBIBYTES: f64 = 953.674_316_406_25;
/// Longest name of a class.
const CLASS_LENGTH: usize = 48;

/// A device as it was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measured {
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
    /// The device in the words of the market.
    pub(crate) fn device(&self) -> Result<policy::Device> {
        let runtimes = [Some(Runtime::Cpu), self.kernels.then_some(Runtime::Wgpu)];
        let mut precisions = Set::of(&[Precision::F32]);
        if self.device.is_none() {
            precisions = precisions.with(Precision::F64).with(Precision::Int8);
        }
        Ok(policy::Device {
            class: DeviceClass::new(self.class.as_str()).context("the class of the device")?,
            count: 1,
            memory: self.memory_mib,
            rating: Rating {
                floats: self.floats,
                integers: self.integers,
                products: self.products,
                memory: self.memory_mib_per_second,
            },
            precisions,
            runtimes: runtimes.into_iter().flatten().fold(Set::NONE, Set::with),
            watts: self.watts,
        })
    }

    /// Kinds of programs that harm nobody and run on it: what a new provider allows.
    pub(crate) fn kinds(&self) -> Vec<ProgramKind> {
        let gpu = self.device.is_some().then_some(ProgramKind::Gpu);
        std::iter::once(ProgramKind::Wasm).chain(gpu).collect()
    }
}

/// Measures the device that is named, or the first GPU, or the processor.
pub(crate) fn measure(
    context: &Context,
    wanted: Option<&str>,
    budget: Duration,
    watts: Option<u32>,
) -> Result<Measured> {
    let devices = device::list();
    let found = choose(&devices, wanted).ok_or_else(|| {
        let ids: Vec<_> = devices.iter().map(|device| device.id.to_string()).collect();
        let told = format!("there is no device `{}`", wanted.unwrap_or_default());
        Complaint::usage(told).hint(format!("this machine has: {}", ids.join(", ")))
    })?;
    context.output.note(format!(
        "Measuring {} ({}), {} s at most.",
        found.id,
        found.name,
        budget.as_secs()
    ));
    let seed = Seed(rand::random());
    let rating = device::bench(found, &seed, budget).map_err(|error| {
        Complaint::new(Exit::Failed, error.to_string()).hint("see `opengpu doctor`")
    })?;
    if !device::check(&seed, &rating) {
        let told = "the integers that the device computed are wrong";
        return Err(Complaint::new(Exit::Verification, told).into());
    }
    let kernels = devices.iter().any(|device| device.id != DeviceId::Cpu);
    Ok(measured(found, &rating, watts, kernels))
}

/// The device that is named, or the first that is no software, or the processor.
fn choose<'a>(devices: &'a [Device], wanted: Option<&str>) -> Option<&'a Device> {
    match wanted {
        Some(id) => devices.iter().find(|device| device.id.to_string() == id),
        None => devices.iter().find(|device| device.kind != Kind::Software),
    }
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

    #[test]
    fn a_class_is_a_plain_word() {
        assert_eq!(class("NVIDIA GeForce RTX 4090"), "nvidia-geforce-rtx-4090");
        assert_eq!(class("Some CPU @ 2.00GHz"), "some-cpu-2-00ghz");
        assert_eq!(class("(TM)"), "tm");
        assert_eq!(class("日本"), "device");
        assert!(DeviceClass::new(class(&"long ".repeat(40))).is_ok());
    }

    #[test]
    fn a_measured_device_says_what_runs_on_it() {
        let processor = sample();
        let device = processor.device().unwrap();
        assert!(!device.runtimes.has(Runtime::Wgpu));
        assert_eq!(processor.kinds(), [ProgramKind::Wasm]);
        let card = Measured { device: Some("vulkan-0".to_owned()), kernels: true, ..sample() };
        assert!(card.device().unwrap().runtimes.has(Runtime::Wgpu));
        assert_eq!(card.kinds(), [ProgramKind::Wasm, ProgramKind::Gpu]);
        assert_eq!(whole(1.5, 1e3), 1_500);
        assert_eq!(whole(f64::NAN, 1e3), 0);
    }
}
