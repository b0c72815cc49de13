//! Devices that are lent to a guest: device files of GPUs, by path or by their registered name
//! (CDI).
//!
//! Of a vendor's registration only device files and read-only mounts are taken. Its hooks, which
//! would be programs run outside of the sandbox, and its environment are not.

use super::error::Refusal;
use super::spec::Device;
use serde::Deserialize;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Component, Path, PathBuf};

/// What is mounted for the devices of one guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lent {
    pub(super) nodes: Vec<PathBuf>,
    pub(super) mounts: Vec<(PathBuf, PathBuf)>,
}

/// Where vendors register devices.
const REGISTRIES: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];
/// Bytes of one registration.
const LARGEST: u64 = 1 << 20;
/// Files of one registry that are looked at.
const MOST_FILES: usize = 64;
/// What device files of GPUs start with.
const NODES: [&str; 4] = ["/dev/dri/renderD", "/dev/nvidia", "/dev/kfd", "/dev/dxg"];

/// Finds what belongs to the devices of a task.
pub(super) fn lend(devices: &[Device]) -> Result<Lent, Refusal> {
    let registries = REGISTRIES.map(Path::new);
    let mut lent = Lent::default();
    for device in devices {
        match device {
            Device::Node(path) => lent.nodes.push(node(path)?),
            Device::Named(name) => {
                let found = named(name, &registries);
                let found = found.ok_or_else(|| Refusal::Device { name: name.clone() })?;
                for path in &found.nodes {
                    lent.nodes.push(node(path)?);
                }
                lent.mounts.extend(found.mounts);
            }
        }
    }
    Ok(lent)
}

/// A device file that work is done on, and nothing else that looks like one.
fn node(path: &Path) -> Result<PathBuf, Refusal> {
    let name = path.to_string_lossy();
    let plain =
        path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let known = NODES.iter().any(|prefix| name.starts_with(prefix));
    let is_device = || {
        let kind = fs::symlink_metadata(path).map(|metadata| metadata.file_type());
        kind.is_ok_and(|kind| kind.is_char_device())
    };
    if plain && known && is_device() {
        Ok(path.to_owned())
    } else {
        Err(Refusal::Device { name: name.into_owned() })
    }
}

#[derive(Deserialize)]
struct Registration {
    kind: String,
    devices: Vec<Registered>,
    #[serde(default, rename = "containerEdits")]
    edits: Edits,
}

#[derive(Deserialize)]
struct Registered {
    name: String,
    #[serde(default, rename = "containerEdits")]
    edits: Edits,
}

#[derive(Default, Deserialize)]
struct Edits {
    #[serde(default, rename = "deviceNodes")]
    nodes: Vec<Node>,
    #[serde(default)]
    mounts: Vec<Mount>,
}

#[derive(Deserialize)]
struct Node {
    path: PathBuf,
}

#[derive(Deserialize)]
struct Mount {
    #[serde(rename = "hostPath")]
    source: PathBuf,
    #[serde(rename = "containerPath")]
    place: PathBuf,
}

/// The registration of `vendor/class=name`, written as JSON or YAML.
fn named(name: &str, registries: &[&Path]) -> Option<Lent> {
    let (kind, name) = name.split_once('=')?;
    for registry in registries {
        let entries = fs::read_dir(registry).into_iter().flatten().flatten().take(MOST_FILES);
        let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
        paths.retain(|path| form(path).is_some());
        paths.sort();
        for path in paths {
            let Some(registration) = read(&path).filter(|found| found.kind == kind) else {
                continue;
            };
            let Registration { devices, edits, .. } = registration;
            if let Some(device) = devices.into_iter().find(|device| device.name == name) {
                let nodes = edits.nodes.into_iter().chain(device.edits.nodes);
                let mounts = edits.mounts.into_iter().chain(device.edits.mounts);
                return Some(Lent {
                    nodes: nodes.map(|node| node.path).collect(),
                    mounts: mounts.map(|mount| (mount.source, mount.place)).collect(),
                });
            }
        }
    }
    None
}

fn read(path: &Path) -> Option<Registration> {
    let mut text = String::new();
    File::open(path).ok()?.take(LARGEST).read_to_string(&mut text).ok()?;
    match form(path)? {
        Form::Json => serde_json::from_str(&text).ok(),
        // With its own limits on depth and repetition.
        Form::Yaml => serde_saphyr::from_str(&text).ok(),
    }
}

/// How a registration is written.
enum Form {
    Json,
    Yaml,
}

fn form(path: &Path) -> Option<Form> {
    match path.extension()?.to_str()? {
        "json" => Some(Form::Json),
        "yaml" | "yml" => Some(Form::Yaml),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Lent, lend, named};
    use crate::native::{Device, Refusal};

    #[test]
    fn only_device_files_of_gpus_are_lent() {
        let paths =
            ["/dev/null", "/dev/kmsg", "/dev/mem", "/dev/sda", "/etc/passwd", "/dev/kfd/../mem"];
        for path in paths.into_iter().chain(["/dev/nvidia-no-such-device"]) {
            let refusal = Refusal::Device { name: path.into() };
            assert_eq!(lend(&[Device::Node(path.into())]), Err(refusal));
        }
        assert_eq!(lend(&[]), Ok(Lent::default()));
    }

    #[test]
    fn a_registered_device_brings_its_files_and_no_hooks() {
        let folder = tempfile::tempdir().unwrap();
        let text = r#"{"cdiVersion": "0.6.0", "kind": "vendor.com/gpu",
          "containerEdits": {"env": ["LD_PRELOAD=/x.so"],
            "hooks": [{"hookName": "createContainer", "path": "/usr/bin/evil"}],
            "mounts": [{"hostPath": "/usr/lib/gpu.so", "containerPath": "/usr/lib/gpu.so"}]},
          "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}},
                      {"name": "1", "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia1"}]}}]}"#;
        std::fs::write(folder.path().join("vendor.json"), text).unwrap();
        std::fs::write(folder.path().join("broken.json"), "{").unwrap();
        let wanted = Lent {
            nodes: vec!["/dev/nvidia1".into()],
            mounts: vec![("/usr/lib/gpu.so".into(), "/usr/lib/gpu.so".into())],
        };
        assert_eq!(named("vendor.com/gpu=1", &[folder.path()]), Some(wanted));
        assert_eq!(named("vendor.com/gpu=2", &[folder.path()]), None);
        assert_eq!(named("vendor.com/gpu", &[folder.path()]), None);
    }

    #[test]
    fn a_registration_may_be_written_as_yaml() {
        let folder = tempfile::tempdir().unwrap();
        // As the vendor's own tool writes it.
        let text = "---\ncdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n  \
                    containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia0\n\
                    containerEdits:\n  deviceNodes:\n  - path: /dev/nvidiactl\n  hooks:\n  \
                    - hookName: createContainer\n    path: /usr/bin/nvidia-ctk\n  mounts:\n  \
                    - hostPath: /usr/lib/libcuda.so.1\n    containerPath: /usr/lib/libcuda.so.1\n    \
                    options:\n    - ro\n    - bind\n";
        std::fs::write(folder.path().join("nvidia.yaml"), text).unwrap();
        let bomb = "a: &a [x, x, x, x, x, x, x, x, x]\nb: &b [*a, *a, *a, *a, *a, *a, *a, *a]\n\
                    c: &c [*b, *b, *b, *b, *b, *b, *b, *b]\nd: &d [*c, *c, *c, *c, *c, *c, *c]\n\
                    e: &e [*d, *d, *d, *d, *d, *d, *d, *d]\nf: &f [*e, *e, *e, *e, *e, *e, *e]\n";
        std::fs::write(folder.path().join("bomb.yml"), bomb).unwrap();
        std::fs::write(folder.path().join("deep.yml"), "[".repeat(100_000)).unwrap();
        let wanted = Lent {
            nodes: vec!["/dev/nvidiactl".into(), "/dev/nvidia0".into()],
            mounts: vec![("/usr/lib/libcuda.so.1".into(), "/usr/lib/libcuda.so.1".into())],
        };
        assert_eq!(named("nvidia.com/gpu=0", &[folder.path()]), Some(wanted));
        assert_eq!(named("nvidia.com/gpu=1", &[folder.path()]), None);
    }
}
