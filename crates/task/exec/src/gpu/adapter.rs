//! The GPUs of this machine, each once.
//!
//! One GPU is often shown by several APIs. It is listed once, by the best API that shows it, so
//! that nobody rents out the same silicon twice.
//!
//! Invariant: an id does not name the API. The same GPU keeps its id when a better driver appears.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::GpuError;

/// The APIs that make sense on this system.
const BACKENDS: wgpu::Backends = if cfg!(target_vendor = "apple") {
    wgpu::Backends::METAL
} else if cfg!(windows) {
    wgpu::Backends::DX12.union(wgpu::Backends::VULKAN)
} else {
    wgpu::Backends::VULKAN.union(wgpu::Backends::GL)
};

/// Percent of the device's memory above which nothing more is made, where the driver tells.
const MEMORY_PERCENT: u8 = 95;

/// Names one GPU of this machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AdapterId(String);

impl AdapterId {
    /// The id that somebody wrote; whether it exists shows when it is looked for.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for AdapterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a device is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A card with its own memory.
    Discrete,
    /// A GPU that shares the processor's memory.
    Integrated,
    /// A GPU that a hypervisor shows.
    Virtual,
    /// Nobody says; it is measured like any other.
    Unknown,
    /// A program that behaves like a GPU. Slow, and good for tests.
    Software,
    /// The processor itself, without any graphics API.
    Cpu,
}

/// How a GPU is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Api {
    /// Vulkan.
    Vulkan,
    /// Metal.
    Metal,
    /// Direct3D 12.
    Dx12,
    /// OpenGL or OpenGL ES.
    Gl,
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Vulkan => "Vulkan",
            Self::Metal => "Metal",
            Self::Dx12 => "DX12",
            Self::Gl => "GL",
        })
    }
}

/// What is known of an adapter without opening it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// Its id on this machine.
    pub id: AdapterId,
    /// Its name, as the driver has it.
    pub name: String,
    /// What it is made of.
    pub kind: Kind,
    /// How it is reached.
    pub api: Api,
    /// Name and version of the driver.
    pub driver: String,
    /// The maker's number.
    pub vendor: u32,
    /// The maker's number of this model; zero if the API does not tell.
    pub device: u32,
    /// Its place on the bus, as in `0000:01:00.0`.
    pub pci: Option<String>,
    /// Bytes of the largest buffer.
    pub buffer_max: u64,
}

/// A GPU of this machine that can be opened.
#[derive(Clone, Debug)]
pub struct Adapter {
    info: AdapterInfo,
    inner: wgpu::Adapter,
}

impl Adapter {
    /// What is known of it.
    pub const fn info(&self) -> &AdapterInfo {
        &self.info
    }

    /// The adapter with this id.
    pub fn find(id: &AdapterId) -> Result<Self, GpuError> {
        let mut all = adapters();
        match all.iter().position(|adapter| adapter.info.id == *id) {
            Some(place) => Ok(all.swap_remove(place)),
            None => {
                let others = all.into_iter().map(|adapter| adapter.info.id).collect();
                Err(GpuError::NoAdapter { id: id.clone(), others })
            }
        }
    }

    pub(super) const fn inner(&self) -> &wgpu::Adapter {
        &self.inner
    }
}

/// All GPUs of this machine, the ones with their own memory first and software last.
pub fn adapters() -> Vec<Adapter> {
    let mut wanted = wgpu::InstanceDescriptor::new_without_display_handle();
    wanted.backends = BACKENDS;
    // The checks of debug builds need layers that a user has not installed.
    wanted.flags = wgpu::InstanceFlags::empty();
    wanted.memory_budget_thresholds.for_resource_creation = Some(MEMORY_PERCENT);
    let entry = wgpu::Instance::new(wanted);
    let found = pollster::block_on(entry.enumerate_adapters(BACKENDS));
    let seen = found.into_iter().filter_map(|inner| Some((info(&inner)?, inner)));
    let mut seen: Vec<_> = seen.collect();
    // A stable sort: equal cards stay in the order of the driver, which their ids count.
    seen.sort_by_key(|(info, _)| (info.kind, info.api));
    let (infos, inners): (Vec<_>, Vec<_>) = seen.into_iter().unzip();
    let kept = distinct(&infos);
    let adapters = infos.into_iter().zip(inners).zip(kept).filter(|(_, kept)| *kept);
    let mut adapters: Vec<_> = adapters.map(|((info, inner), _)| Adapter { info, inner }).collect();
    name(adapters.iter_mut().map(|adapter| &mut adapter.info));
    adapters
}

/// What an adapter says of itself; none if it is reached in a way that is not used here.
fn info(inner: &wgpu::Adapter) -> Option<AdapterInfo> {
    let said = inner.get_info();
    let api = match said.backend {
        wgpu::Backend::Vulkan => Api::Vulkan,
        wgpu::Backend::Metal => Api::Metal,
        wgpu::Backend::Dx12 => Api::Dx12,
        wgpu::Backend::Gl => Api::Gl,
        wgpu::Backend::Noop | wgpu::Backend::BrowserWebGpu => return None,
    };
    let kind = match said.device_type {
        wgpu::DeviceType::DiscreteGpu => Kind::Discrete,
        wgpu::DeviceType::IntegratedGpu => Kind::Integrated,
        wgpu::DeviceType::VirtualGpu => Kind::Virtual,
        wgpu::DeviceType::Cpu => Kind::Software,
        wgpu::DeviceType::Other => Kind::Unknown,
    };
    let driver = format!("{} {}", said.driver, said.driver_info).trim().to_owned();
    Some(AdapterInfo {
        id: AdapterId(String::new()),
        name: said.name,
        kind,
        api,
        driver,
        vendor: said.vendor,
        device: said.device,
        pci: Some(said.device_pci_bus_id).filter(|place| !place.is_empty()),
        buffer_max: inner.limits().max_buffer_size,
    })
}

/// Which adapters stay: all but those that a better API shows as well.
fn distinct(seen: &[AdapterInfo]) -> Vec<bool> {
    let better = |one: &AdapterInfo, other: &AdapterInfo| {
        rank(other.api) < rank(one.api) && same(one, other)
    };
    seen.iter().map(|one| !seen.iter().any(|other| better(one, other))).collect()
}

/// The lower, the better an API is for computing.
const fn rank(api: Api) -> u8 {
    match api {
        Api::Vulkan | Api::Metal => 0,
        Api::Dx12 => 1,
        Api::Gl => 2,
    }
}

/// Whether two APIs may be showing the same GPU. OpenGL tells no model and often no maker.
fn same(one: &AdapterInfo, other: &AdapterInfo) -> bool {
    if one.kind == Kind::Software || other.kind == Kind::Software {
        return one.kind == other.kind;
    }
    let maker = one.vendor != 0 && one.vendor == other.vendor;
    let model = one.device == other.device || one.device == 0 || other.device == 0;
    let name = one.name.contains(&other.name) || other.name.contains(&one.name);
    (maker && model) || (!one.name.is_empty() && !other.name.is_empty() && name)
}

/// Gives ids: maker and model, and the place on the bus or else a number.
fn name<'a>(infos: impl Iterator<Item = &'a mut AdapterInfo>) {
    let mut given: Vec<(u32, u32)> = Vec::new();
    for info in infos {
        let model = (info.vendor, info.device);
        let before = given.iter().filter(|other| **other == model).count();
        given.push(model);
        let place = info.pci.clone().unwrap_or_else(|| before.to_string());
        info.id = AdapterId(format!("{:04x}-{:04x}-{place}", info.vendor, info.device));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, kind: Kind, api: Api, vendor: u32, device: u32) -> AdapterInfo {
        AdapterInfo {
            id: AdapterId::new(""),
            name: name.to_owned(),
            kind,
            api,
            driver: String::new(),
            vendor,
            device,
            pci: None,
            buffer_max: 0,
        }
    }

    #[test]
    fn a_gpu_that_two_apis_show_is_one_gpu() {
        let seen = [
            seen("NVIDIA GeForce RTX 4090", Kind::Discrete, Api::Vulkan, 0x10de, 0x2684),
            seen("NVIDIA GeForce RTX 4090", Kind::Discrete, Api::Vulkan, 0x10de, 0x2684),
            seen("Intel(R) UHD Graphics", Kind::Integrated, Api::Vulkan, 0x8086, 0x9a60),
            // OpenGL shows one of the cards, without its model.
            seen("NVIDIA GeForce RTX 4090/PCIe/SSE2", Kind::Unknown, Api::Gl, 0x10de, 0),
            seen("llvmpipe (LLVM 15.0.6, 256 bits)", Kind::Software, Api::Vulkan, 0x10005, 0),
            seen("llvmpipe (LLVM 15.0.6, 256 bits)", Kind::Software, Api::Gl, 0, 0),
        ];
        assert_eq!(distinct(&seen), [true, true, true, false, true, false]);
    }

    #[test]
    fn a_maker_that_is_not_told_is_recognised_by_the_name() {
        let vulkan = seen("AMD Radeon RX 7900 XTX", Kind::Discrete, Api::Vulkan, 0x1002, 0x744c);
        let gl = seen("AMD Radeon RX 7900 XTX (radeonsi)", Kind::Unknown, Api::Gl, 0, 0);
        assert_eq!(distinct(&[vulkan.clone(), gl]), [true, false]);
        let other = seen("Mali-G610", Kind::Unknown, Api::Gl, 0, 0);
        assert_eq!(distinct(&[vulkan, other]), [true, true], "another one stays");
    }

    #[test]
    fn an_adapter_that_only_a_lesser_api_shows_stays() {
        let seen = [
            seen("llvmpipe", Kind::Software, Api::Vulkan, 0x10005, 0),
            seen("V3D 7.1", Kind::Integrated, Api::Gl, 0x14e4, 0),
        ];
        assert_eq!(distinct(&seen), [true, true]);
    }

    #[test]
    fn equal_cards_have_different_ids() {
        let card = seen("card", Kind::Discrete, Api::Vulkan, 0x10de, 0x2684);
        let placed = AdapterInfo { pci: Some("0000:01:00.0".to_owned()), ..card.clone() };
        let mut infos = [card.clone(), card, placed];
        name(infos.iter_mut());
        let ids = infos.map(|info| info.id.to_string());
        assert_eq!(ids, ["10de-2684-0", "10de-2684-1", "10de-2684-0000:01:00.0"]);
    }
}
