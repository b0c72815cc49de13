//! Whether the GPUs can be used.

use std::{fs, io::ErrorKind};

use super::{Check, Machine, Packages};
use crate::{
    device::facts::{self, Nvidia},
    gpu::{Adapter, AdapterInfo, Api, Kind},
};

/// NVIDIA's number.
const NVIDIA: u32 = 0x10de;

/// All checks about GPUs.
pub(super) fn checks(machine: &Machine, adapters: &[Adapter]) -> Vec<Check> {
    let infos: Vec<_> = adapters.iter().map(|adapter| adapter.info().clone()).collect();
    let nvidia = Nvidia::open().driver();
    let mut checks = Vec::new();
    if cfg!(target_os = "linux") {
        checks.push(vulkan(machine, &infos));
    }
    checks.push(adapter(machine, &infos));
    checks.push(nvidia_driver(machine, nvidia));
    if cfg!(target_os = "linux") {
        checks.push(render_nodes(machine));
    }
    checks
}

fn vulkan(machine: &Machine, infos: &[AdapterInfo]) -> Check {
    let name = "Vulkan";
    let shown: Vec<_> = infos.iter().filter(|info| info.api == Api::Vulkan).collect();
    if let Some(first) = shown.first() {
        let word = if shown.len() == 1 { "adapter" } else { "adapters" };
        return Check::ok(name, format!("{} {word}, {}", shown.len(), first.driver));
    }
    let found = if !loader(machine) {
        "the loader libvulkan.so.1 is not where it usually is"
    } else if drivers(machine).is_empty() {
        "no driver is installed"
    } else {
        "drivers are installed, but none shows an adapter"
    };
    let packages = Packages {
        debian: "libvulkan1 mesa-vulkan-drivers",
        fedora: "vulkan-loader mesa-vulkan-drivers",
        arch: "vulkan-icd-loader vulkan-swrast",
        suse: "libvulkan1 Mesa-vulkan-drivers",
    };
    Check::failed(name, found, machine.install(packages))
}

/// Names of the drivers that are registered.
fn drivers(machine: &Machine) -> Vec<String> {
    let folders = ["usr/share/vulkan/icd.d", "etc/vulkan/icd.d", "usr/local/share/vulkan/icd.d"];
    let list = |folder: &str| fs::read_dir(machine.root.join(folder)).ok();
    let files = folders.into_iter().filter_map(list).flatten().filter_map(Result::ok);
    let mut names: Vec<_> =
        files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn loader(machine: &Machine) -> bool {
    let arch = std::env::consts::ARCH;
    let near = format!("usr/lib/{arch}-linux-gnu/libvulkan.so.1");
    [near.as_str(), "usr/lib64/libvulkan.so.1", "usr/lib/libvulkan.so.1"]
        .into_iter()
        .any(|path| machine.has(path))
}

fn adapter(machine: &Machine, infos: &[AdapterInfo]) -> Check {
    let name = "GPU";
    let real: Vec<_> = infos.iter().filter(|info| info.kind != Kind::Software).collect();
    if let Some(first) = real.first() {
        return Check::ok(
            name,
            format!("{} found, first {} ({})", real.len(), first.name, first.api),
        );
    }
    let makers = facts::display_makers(&machine.root);
    let found = match infos.first() {
        Some(software) => format!("only software: {}", software.name),
        None => "none".to_owned(),
    };
    match makers.first() {
        Some(&NVIDIA) => Check::failed(
            name,
            format!("{found}; the bus has a card of NVIDIA"),
            nvidia_packages(machine),
        ),
        Some(maker) => Check::failed(
            name,
            format!("{found}; the bus has a display device of maker {maker:04x}"),
            machine.install(Packages {
                debian: "mesa-vulkan-drivers",
                fedora: "mesa-vulkan-drivers",
                arch: "vulkan-radeon vulkan-intel",
                suse: "Mesa-vulkan-drivers",
            }),
        ),
        None => Check::warn(
            name,
            format!("{found}; the bus has no display device"),
            "put in a GPU, or pass one to this machine; until then tasks run on the processor",
        ),
    }
}

fn nvidia_packages(machine: &Machine) -> String {
    let release = machine.text("etc/os-release").unwrap_or_default();
    if release.lines().any(|line| line == "ID=ubuntu") {
        return "sudo ubuntu-drivers install".to_owned();
    }
    machine.install(Packages {
        debian: "nvidia-driver libnvidia-ml1",
        fedora: "akmod-nvidia xorg-x11-drv-nvidia-cuda",
        arch: "nvidia nvidia-utils",
        suse: "nvidia-driver-G06-kmp-default nvidia-compute-utils-G06",
    })
}

/// `driver` is what the management library says, if it is there.
fn nvidia_driver(machine: &Machine, driver: Option<String>) -> Check {
    let name = "NVIDIA driver";
    if let Some(version) = driver {
        return Check::ok(name, format!("version {version}, NVML works"));
    }
    if !facts::display_makers(&machine.root).contains(&NVIDIA) {
        return Check::ok(name, "not needed: no card of NVIDIA on the bus");
    }
    let found = match machine.text("proc/driver/nvidia/version") {
        Some(_) => "the kernel's driver is loaded, but NVML (libnvidia-ml.so.1) is missing",
        None => "a card is on the bus, but its driver is not loaded",
    };
    Check::failed(name, found, nvidia_packages(machine))
}

fn render_nodes(machine: &Machine) -> Check {
    let name = "/dev/dri";
    let list = fs::read_dir(machine.root.join("dev/dri")).into_iter().flatten();
    let mut nodes: Vec<_> = list
        .filter_map(Result::ok)
        .map(|file| file.path())
        .filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("renderD"))
        })
        .collect();
    nodes.sort();
    let open = |path| fs::OpenOptions::new().read(true).write(true).open(path);
    for node in &nodes {
        match open(node) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                let found = format!("{} must not be opened by this user", node.display());
                let fix = "sudo usermod -aG render,video $USER, then log in again";
                return Check::failed(name, found, fix);
            }
            _ => {}
        }
    }
    match nodes.len() {
        0 if facts::display_makers(&machine.root).is_empty() => {
            Check::ok(name, "not needed: no display device on the bus")
        }
        0 => Check::warn(
            name,
            "no render node: the kernel has no driver for the display device",
            "sudo dmesg | grep -iE 'drm|amdgpu|i915|nouveau|nvidia'",
        ),
        count => Check::ok(name, format!("{count} render nodes can be opened")),
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, path::Path};

    use super::*;
    use crate::{device::doctor::State, gpu::AdapterId};

    fn machine(root: &Path) -> Machine {
        Machine { root: root.to_owned(), path: OsString::new(), real: false }
    }

    fn show_card(root: &Path, maker: &str) {
        let folder = root.join("sys/bus/pci/devices/0000:01:00.0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("class"), "0x030000").unwrap();
        fs::write(folder.join("vendor"), maker).unwrap();
    }

    fn info(kind: Kind) -> AdapterInfo {
        AdapterInfo {
            id: AdapterId::new("x"),
            name: "card".to_owned(),
            kind,
            api: Api::Vulkan,
            driver: "driver 1.2".to_owned(),
            vendor: 0,
            device: 0,
            pci: None,
            buffer_max: 0,
        }
    }

    #[test]
    fn a_machine_without_vulkan_is_told_what_to_install() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let check = vulkan(&machine, &[]);
        assert_eq!(check.state, State::Failed);
        assert!(check.found.contains("loader"), "{}", check.found);
        assert_eq!(check.fix.as_deref(), Some("sudo apt install libvulkan1 mesa-vulkan-drivers"));
        fs::create_dir_all(root.path().join("usr/share/vulkan/icd.d")).unwrap();
        fs::create_dir_all(root.path().join("usr/lib64")).unwrap();
        fs::write(root.path().join("usr/lib64/libvulkan.so.1"), "").unwrap();
        assert_eq!(vulkan(&machine, &[]).found, "no driver is installed");
        fs::write(root.path().join("usr/share/vulkan/icd.d/lvp.json"), "").unwrap();
        assert!(vulkan(&machine, &[]).found.contains("none shows an adapter"));
        assert_eq!(vulkan(&machine, &[info(Kind::Software)]).state, State::Ok);
    }

    #[test]
    fn software_is_no_gpu() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        assert_eq!(adapter(&machine, &[info(Kind::Software)]).state, State::Warn);
        assert_eq!(adapter(&machine, &[info(Kind::Discrete)]).state, State::Ok);
        show_card(root.path(), "0x1002");
        let check = adapter(&machine, &[info(Kind::Software)]);
        assert_eq!(check.state, State::Failed);
        assert_eq!(check.fix.as_deref(), Some("sudo apt install mesa-vulkan-drivers"));
    }

    #[test]
    fn a_card_of_nvidia_needs_its_driver_and_its_library() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        assert_eq!(nvidia_driver(&machine, None).state, State::Ok);
        show_card(root.path(), "0x10de");
        let check = nvidia_driver(&machine, None);
        assert_eq!(check.state, State::Failed);
        assert!(check.found.contains("not loaded"), "{}", check.found);
        fs::create_dir_all(root.path().join("proc/driver/nvidia")).unwrap();
        fs::write(root.path().join("proc/driver/nvidia/version"), "NVRM 550").unwrap();
        assert!(nvidia_driver(&machine, None).found.contains("NVML"));
        assert_eq!(nvidia_driver(&machine, Some("550".to_owned())).state, State::Ok);
        assert!(adapter(&machine, &[]).fix.unwrap().contains("apt install nvidia-driver"));
        fs::create_dir(root.path().join("etc")).unwrap();
        fs::write(root.path().join("etc/os-release"), "ID=ubuntu\nID_LIKE=debian\n").unwrap();
        assert_eq!(adapter(&machine, &[]).fix.unwrap(), "sudo ubuntu-drivers install");
    }

    #[test]
    fn a_card_without_a_render_node_is_told() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        assert_eq!(render_nodes(&machine).state, State::Ok);
        show_card(root.path(), "0x1002");
        assert_eq!(render_nodes(&machine).state, State::Warn);
        fs::create_dir_all(root.path().join("dev/dri")).unwrap();
        fs::write(root.path().join("dev/dri/card0"), "").unwrap();
        assert_eq!(render_nodes(&machine).state, State::Warn);
        fs::write(root.path().join("dev/dri/renderD128"), "").unwrap();
        assert_eq!(render_nodes(&machine).state, State::Ok);
    }
}
