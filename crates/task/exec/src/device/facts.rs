//! Facts that the operating system and the makers' libraries tell.
//!
//! Every file is looked for below a root that is an argument, so that tests can show machines that
//! are not there.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    thread,
};

use nvml_wrapper::Nvml;

use super::{Device, DeviceId, Memory, MemoryWitness};
use crate::gpu::Kind;

/// The most bytes that are read of a file of facts.
const FILE_MAX: u64 = 1 << 20;

/// NVIDIA's management library, if it is there.
#[derive(Debug)]
pub(super) struct Nvidia(Option<Nvml>);

impl Nvidia {
    pub(super) fn open() -> Self {
        Self(Nvml::init().ok())
    }

    /// Bytes of the card at a place on the bus.
    pub(super) fn memory(&self, pci: &str) -> Option<u64> {
        let card = self.0.as_ref()?.device_by_pci_bus_id(pci).ok()?;
        Some(card.memory_info().ok()?.total)
    }

    /// Version of the driver.
    pub(super) fn driver(&self) -> Option<String> {
        self.0.as_ref()?.sys_driver_version().ok()
    }
}

/// The beginning of a text file; none if it cannot be read.
pub(super) fn text(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(FILE_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Bytes of the card at a place on the bus, as the kernel's driver knows them.
pub(super) fn video_memory(root: &Path, pci: &str) -> Option<u64> {
    // The place comes from a driver. It is a name here and must not lead anywhere else.
    if !pci.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':' || byte == b'.') {
        return None;
    }
    let folder = root.join("sys/bus/pci/devices").join(pci);
    text(&folder.join("mem_info_vram_total"))?.trim().parse().ok()
}

/// The makers' numbers of all display devices on the bus.
pub(super) fn display_makers(root: &Path) -> Vec<u32> {
    let Ok(folders) = std::fs::read_dir(root.join("sys/bus/pci/devices")) else {
        return Vec::new();
    };
    let number = |path: PathBuf| {
        let text = text(&path)?;
        u32::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
    };
    let maker = |folder: PathBuf| {
        // Class 3: what draws, or computes like what draws.
        let display = number(folder.join("class"))? >> 16 == 3;
        display.then(|| number(folder.join("vendor"))).flatten()
    };
    let folders = folders.filter_map(Result::ok).map(|folder| folder.path());
    let mut makers: Vec<_> = folders.filter_map(maker).collect();
    makers.sort_unstable();
    makers
}

/// A number of kibibytes out of `/proc/meminfo`, in bytes.
pub(super) fn main_memory(root: &Path, name: &str) -> Option<u64> {
    let text = text(&root.join("proc/meminfo"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The processor.
pub(super) fn cpu(root: &Path) -> Device {
    let info = text(&root.join("proc/cpuinfo")).unwrap_or_default();
    let model = |line: &str| {
        let (name, value) = line.split_once(':')?;
        matches!(name.trim(), "model name" | "Model" | "Hardware").then(|| value.trim().to_owned())
    };
    let name = info.lines().find_map(model).filter(|name| !name.is_empty());
    let threads = thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok());
    let memory = main_memory(root, "MemTotal");
    Device {
        id: DeviceId::Cpu,
        name: name.unwrap_or_else(|| format!("{} processor", std::env::consts::ARCH)),
        kind: Kind::Cpu,
        api: None,
        driver: String::new(),
        vendor: 0,
        model: 0,
        pci: None,
        memory: memory.map(|bytes| Memory { bytes, source: MemoryWitness::System }),
        threads,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_place_on_the_bus_is_a_name_and_no_path() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/bus/pci/devices");
        fs::create_dir_all(folder.join("0000:03:00.0")).unwrap();
        fs::write(folder.join("0000:03:00.0/mem_info_vram_total"), "4096").unwrap();
        fs::write(root.path().join("sys/bus/pci/mem_info_vram_total"), "1").unwrap();
        assert_eq!(video_memory(root.path(), "0000:03:00.0"), Some(4096));
        assert_eq!(video_memory(root.path(), "../"), None);
        assert_eq!(video_memory(root.path(), "0000:04:00.0"), None);
    }

    #[test]
    fn the_processor_is_a_device() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        let nameless = cpu(root.path());
        assert!(nameless.name.ends_with("processor"), "{}", nameless.name);
        assert_eq!(nameless.memory, None);
        fs::write(root.path().join("proc/cpuinfo"), "processor\t: 0\nmodel name\t: Z9\n").unwrap();
        fs::write(root.path().join("proc/meminfo"), "MemTotal:       16 kB\nMemFree: 1 kB\n")
            .unwrap();
        let cpu = cpu(root.path());
        assert_eq!((cpu.name.as_str(), cpu.kind), ("Z9", Kind::Cpu));
        assert_eq!(cpu.memory, Some(Memory { bytes: 16384, source: MemoryWitness::System }));
        assert!(cpu.threads.is_some_and(|threads| threads > 0));
    }

    #[test]
    fn only_what_draws_counts_as_a_display_device() {
        let root = tempfile::tempdir().unwrap();
        for (name, class, maker) in
            [("0000:00:00.0", "0x060000", "0x8086"), ("0000:01:00.0", "0x030200", "0x10de")]
        {
            let folder = root.path().join("sys/bus/pci/devices").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("class"), format!("{class}\n")).unwrap();
            fs::write(folder.join("vendor"), format!("{maker}\n")).unwrap();
        }
        assert_eq!(display_makers(root.path()), [0x10de]);
        assert!(display_makers(Path::new("/nowhere")).is_empty());
    }
}
