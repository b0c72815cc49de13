//! Raises the walls: limits first, then files, then system calls, each of which the next needs open.

use super::folders::{self, Tcp};
use super::{Grant, filter};
use landlock::{AccessFs, BitFlags};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use std::fs::File;
use std::io;
use std::path::PathBuf;

/// Files that an executor has open at once.
const OPEN: u64 = 1024;

/// Libraries and data of the system: what drivers, their loaders and the C library look for.
const SYSTEM: [&str; 33] = [
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/opt/amdgpu",
    "/opt/rocm",
    "/run/opengl-driver",
    "/etc/OpenCL",
    "/etc/drirc",
    "/etc/egl",
    "/etc/glvnd",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nvidia",
    "/etc/vulkan",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/driver",
    "/proc/filesystems",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/stat",
    "/proc/sys/vm/mmap_min_addr",
    "/proc/sys/vm/overcommit_memory",
    "/proc/version",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/sys/module",
    OWN,
];
/// What the kernel tells a process about itself.
const OWN: &str = "/proc/self";

/// Files of devices that everything may use.
const PLAIN: [&str; 5] = ["/dev/full", "/dev/null", "/dev/random", "/dev/urandom", "/dev/zero"];
/// Files of devices that compute.
const DEVICES: [&str; 3] = ["/dev/dri", "/dev/dxg", "/dev/kfd"];

pub(super) fn raise(grant: &Grant) -> io::Result<()> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::other("walls can only be raised while there is one thread"));
    }
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Msgqueue, 0),
        (Resource::Rtprio, 0),
        (Resource::Fsize, grant.file),
        (Resource::Nofile, OPEN),
    ] {
        lower(resource, most)?;
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    // The kernel finds a rule by the file that it was made for, and may make another one for this
    // folder as soon as nobody holds the first: so it stays open as long as the process lives.
    std::mem::forget(File::open(OWN)?);
    restrict(grant).map_err(io::Error::other)?;
    drop_capabilities()?;
    let filter =
        filter::executor(std::process::id(), grant.memory_files).map_err(io::Error::other)?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)
}

/// Lowers a limit for good; one that is lower stays.
fn lower(resource: Resource, most: u64) -> io::Result<()> {
    let maximum = rustix::process::getrlimit(resource).maximum;
    let most = Some(maximum.map_or(most, |maximum| maximum.min(most)));
    Ok(setrlimit(resource, Rlimit { current: most, maximum: most })?)
}

/// Nobody but the administrator's own processes have any; then they are gone.
fn drop_capabilities() -> io::Result<()> {
    // The third version of the call, about this thread; effective, permitted and inheritable, twice.
    let (header, none) = ([0x2008_0522_u32, 0], [0_u32; 6]);
    // SAFETY: both are as long as the kernel reads for this version, and outlive the call.
    #[expect(unsafe_code, reason = "the C library has no form of this call")]
    let outcome = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), none.as_ptr()) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn restrict(grant: &Grant) -> Result<u8, landlock::RulesetError> {
    use AccessFs::{
        IoctlDev, MakeDir, MakeReg, ReadDir, ReadFile, RemoveFile, Truncate, WriteFile,
    };
    // Nothing is executed: a library is read and mapped.
    let read: BitFlags<_> = ReadFile | ReadDir;
    let write = read | WriteFile | Truncate | MakeDir | MakeReg | RemoveFile;
    let device = read | WriteFile | IoctlDev;
    let mut system: Vec<_> = SYSTEM.into_iter().map(PathBuf::from).collect();
    for name in ["VK_ICD_FILENAMES", "VK_DRIVER_FILES"] {
        system.extend(std::env::var_os(name).iter().flat_map(std::env::split_paths));
    }
    let devices = if grant.devices { devices() } else { Vec::new() };
    let plain = PLAIN.map(PathBuf::from);
    let rules: [(&[PathBuf], _); 5] = [
        (&system, read),
        (&grant.reads, read),
        (&grant.writes, write),
        (&plain, read | WriteFile),
        (&devices, device),
    ];
    folders::restrict(Tcp::Closed, rules)
}

/// The files of this machine's GPUs.
fn devices() -> Vec<PathBuf> {
    let mut devices: Vec<_> = DEVICES.into_iter().map(PathBuf::from).collect();
    let entries = std::fs::read_dir("/dev").into_iter().flatten().filter_map(Result::ok);
    let nvidia = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("nvidia"));
    devices.extend(nvidia.map(|entry| entry.path()));
    devices
}
