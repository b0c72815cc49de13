//! The devices of this machine: what they are, how fast they are, and what hinders them.
//!
//! | part | says |
//! |---|---|
//! | [`list`] | every GPU once, and the processor itself |
//! | [`bench`](bench()) | the rating of one device, seeded by a challenge |
//! | [`check`] | whether the integer part of a rating was really computed |
//! | [`doctor`] | what is missing on this machine, and the command that brings it |
//!
//! What it is not: no allow-list. A device that nobody knows is measured like any other. It prints
//! nothing.

mod bench;
mod challenge;
pub mod doctor;
mod facts;
mod on_cpu;
mod on_gpu;

use std::{fmt, path::Path};

use serde::{Deserialize, Serialize};

pub use bench::{BenchError, Rating, bench};
pub use challenge::{Evidence, LANES, Opened, ROUNDS_MAX, SAMPLES, check};

use crate::gpu::{Adapter, AdapterId, AdapterInfo, Api, Kind, adapters};
use facts::Nvidia;

/// Names one device of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceId {
    /// The processor.
    Cpu,
    /// A GPU.
    #[serde(untagged)]
    Gpu(AdapterId),
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Gpu(id) => id.fmt(f),
        }
    }
}

/// How much memory a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes.
    pub bytes: u64,
    /// Who says so.
    pub source: MemoryWitness,
}

/// Who says how much memory a device has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryWitness {
    /// NVIDIA's management library.
    Nvml,
    /// The kernel's driver.
    Sysfs,
    /// The operating system, of its main memory.
    System,
    /// Nobody: this is the largest buffer, so the device has at least about that much.
    Guess,
}

/// One device of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Its id on this machine.
    pub id: DeviceId,
    /// Its name, as the driver has it.
    pub name: String,
    /// What it is made of. Software is marked here.
    pub kind: Kind,
    /// How it is reached; the processor is reached directly.
    pub api: Option<Api>,
    /// Name and version of the driver.
    pub driver: String,
    /// The maker's number.
    pub vendor: u32,
    /// The maker's number of this model; zero if nobody tells.
    pub model: u32,
    /// Its place on the bus.
    pub pci: Option<String>,
    /// Its memory, if anybody can tell.
    pub memory: Option<Memory>,
    /// Threads that run at the same time, of a processor.
    pub threads: Option<u32>,
}

/// All devices of this machine, GPUs first and the processor last.
pub fn list() -> Vec<Device> {
    let root = Path::new("/");
    let nvidia = Nvidia::open();
    let gpus = adapters();
    let gpus = gpus.iter().map(Adapter::info).map(|info| of_adapter(info, &nvidia, root));
    gpus.chain([facts::cpu(root)]).collect()
}

fn of_adapter(info: &AdapterInfo, nvidia: &Nvidia, root: &Path) -> Device {
    let measured = info.pci.as_deref().and_then(|pci| {
        let nvml = nvidia.memory(pci).map(|bytes| (bytes, MemoryWitness::Nvml));
        nvml.or_else(|| Some((facts::video_memory(root, pci)?, MemoryWitness::Sysfs)))
    });
    let (bytes, source) = measured.unwrap_or((info.buffer_max, MemoryWitness::Guess));
    Device {
        id: DeviceId::Gpu(info.id.clone()),
        name: info.name.clone(),
        kind: info.kind,
        api: Some(info.api),
        driver: info.driver.clone(),
        vendor: info.vendor,
        model: info.device,
        pci: info.pci.clone(),
        memory: Some(Memory { bytes, source }),
        threads: None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn memory_comes_from_the_kernel_or_is_called_an_estimate() {
        let root = tempfile::tempdir().unwrap();
        let info = AdapterInfo {
            id: AdapterId::new("1002-744c-0000:03:00.0"),
            name: "AMD Radeon RX 7900 XTX".to_owned(),
            kind: Kind::Discrete,
            api: Api::Vulkan,
            driver: "radv".to_owned(),
            vendor: 0x1002,
            device: 0x744c,
            pci: Some("0000:03:00.0".to_owned()),
            buffer_max: 1 << 31,
        };
        let device = of_adapter(&info, &Nvidia::open(), root.path());
        let estimate = Memory { bytes: 1 << 31, source: MemoryWitness::Guess };
        assert_eq!(device.memory, Some(estimate));
        let folder = root.path().join("sys/bus/pci/devices/0000:03:00.0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("mem_info_vram_total"), "25753026560\n").unwrap();
        let device = of_adapter(&info, &Nvidia::open(), root.path());
        let sysfs = Memory { bytes: 25_753_026_560, source: MemoryWitness::Sysfs };
        assert_eq!(device.memory, Some(sysfs));
    }

    #[test]
    fn an_id_is_one_word_for_people_and_files() {
        let gpu = DeviceId::Gpu(AdapterId::new("10de-2684-0"));
        assert_eq!(
            serde_json::to_string(&[DeviceId::Cpu, gpu.clone()]).unwrap(),
            r#"["cpu","10de-2684-0"]"#
        );
        let back: Vec<DeviceId> = serde_json::from_str(r#"["cpu","10de-2684-0"]"#).unwrap();
        assert_eq!(back, [DeviceId::Cpu, gpu]);
    }
}
