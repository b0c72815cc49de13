//! A way out for a guest that was granted one: the internet, and nothing near.
//!
//! ```text
//!   guest ──► its own network, one interface ──► slirp4netns ──► ordinary connections of a user
//!                     │
//!                     └── no route: this machine, its loopback, private and special ranges
//! ```
//!
//! The guest's network is its own as without a grant. slirp4netns, an ordinary program of an ordinary
//! user, stands at the other end of its one interface. Before the guest's first instruction the
//! routes to everything near are closed, and the guest has no right to open them. There is only
//! version 4 of the internet protocol in there.

use super::bubblewrap::NOBODY;
use super::error::SandboxError;
use super::hand;
use super::probe::tool;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, set_parent_process_death_signal};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Whom a guest asks for addresses of names: slirp4netns, which asks as this machine does.
pub(super) const RESOLVER: &str = "nameserver 10.0.2.3\n";
/// The one name that a guest knows without asking.
pub(super) const HOSTS: &str = "127.0.0.1 localhost\n";

/// What is never reached: this network, private ranges, providers' inner ranges, links, tests of
/// devices, groups, and what is reserved. Own addresses of the machine are added.
const NEAR: [&str; 10] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "224.0.0.0/4",
    "240.0.0.0/4",
];
/// The device file behind every interface of this kind.
const TUN: &str = "/dev/net/tun";
/// How long the way may take to open.
const PATIENCE: Timespec = Timespec { tv_sec: 10, tv_nsec: 0 };

/// The tools that make a way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tools {
    slirp: PathBuf,
    nsenter: PathBuf,
    ip: PathBuf,
}

/// A way out; it closes when this is dropped.
#[derive(Debug)]
pub(super) struct Way {
    child: Child,
}

impl Drop for Way {
    fn drop(&mut self) {
        // It ends with the guest's network by itself, and may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tools {
    /// Finds them, or says what helps.
    pub(super) fn find() -> Result<Self, SandboxError> {
        let need = |name: &str, package: &str| {
            let why = format!(
                "a network for a guest needs {name} (Debian and Fedora: the package {package})"
            );
            tool(name).ok_or(SandboxError::Unavailable { why })
        };
        let tools = Self {
            slirp: need("slirp4netns", "slirp4netns")?,
            nsenter: need("nsenter", "util-linux")?,
            ip: need("ip", "iproute2")?,
        };
        let as_guest =
            |mode: u32| if rustix::process::getuid().is_root() { mode & 6 == 6 } else { true };
        let mode = fs::metadata(TUN).map(|found| std::os::unix::fs::MetadataExt::mode(&found));
        if !mode.is_ok_and(as_guest) {
            let why = format!("a network for a guest needs {TUN} for everybody (chmod 0666 {TUN})");
            return Err(SandboxError::Unavailable { why });
        }
        Ok(tools)
    }

    /// Opens a way for the network of a process that waits.
    pub(super) fn open(&self, first: Pid) -> Result<Way, SandboxError> {
        let network = File::open(format!("/proc/{}/ns/net", first.as_raw_nonzero()));
        let network = network.map_err(SandboxError::system("finding the network of a guest"))?;
        let owner = owner(&network).map_err(SandboxError::system("finding its owner"))?;
        let (ready, told) =
            pipe_with(PipeFlags::CLOEXEC).map_err(SandboxError::system("a pipe"))?;
        let path = |file: RawFd| format!("/proc/self/fd/{file}");
        let (network_path, owner_path) = (path(network.as_raw_fd()), path(owner.as_raw_fd()));

        let mut slirp = Command::new(&self.slirp);
        slirp.args(["--configure", "--mtu=65520", "--disable-host-loopback", "--netns-type=path"]);
        // `--enable-sandbox` fails beside a path: it becomes root without entering the namespace.
        slirp.arg("--enable-seccomp");
        slirp.arg(format!("--userns-path={owner_path}"));
        slirp.arg(format!("--ready-fd={}", told.as_raw_fd()));
        slirp.args([&network_path, "tap0"]).stdin(Stdio::null()).stdout(Stdio::null());
        slirp.stderr(Stdio::piped());
        let files = [network.as_raw_fd(), owner.as_raw_fd(), told.as_raw_fd()];
        let child = as_nobody(&mut slirp, files.into()).spawn();
        let mut way = Way { child: child.map_err(SandboxError::system("starting slirp4netns"))? };
        drop(told);
        let waited = poll(&mut [PollFd::new(&ready, PollFlags::IN)], Some(&PATIENCE));
        let opened = waited.is_ok_and(|count| count > 0)
            && rustix::io::read(&ready, &mut [0; 1][..]).is_ok_and(|count| count > 0);
        if !opened {
            let _ = way.child.kill();
            return Err(said("the way out did not open", way.child.stderr.take()));
        }

        let mut routes = Command::new(&self.nsenter);
        routes.arg(format!("--user={owner_path}")).arg(format!("--net={network_path}"));
        routes.args(["--preserve-credentials", "--"]).arg(&self.ip).args(["-batch", "-"]);
        routes.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let files = vec![network.as_raw_fd(), owner.as_raw_fd()];
        let mut child = as_nobody(&mut routes, files)
            .spawn()
            .map_err(SandboxError::system("closing routes of a guest"))?;
        let own = own_addresses(&fs::read_to_string("/proc/net/fib_trie").unwrap_or_default());
        let closed = child.stdin.take().map(|mut stdin| stdin.write_all(script(&own).as_bytes()));
        let status = child.wait().map_err(SandboxError::system("closing routes of a guest"))?;
        // Without them the guest would reach what is near, so it does not start.
        if !status.success() || closed.is_none_or(|written| written.is_err()) {
            return Err(said("the routes to what is near did not close", child.stderr.take()));
        }
        Ok(way)
    }
}

fn said(what: &str, stderr: Option<impl std::io::Read>) -> SandboxError {
    let mut text = String::new();
    if let Some(stderr) = stderr {
        // What cannot be read is not said.
        let _ = stderr.take(4096).read_to_string(&mut text);
    }
    SandboxError::Setup { stage: "network", said: format!("{what}: {}", text.trim()) }
}

/// A tool as an ordinary user with an empty environment, with these files, dying with us.
fn as_nobody(command: &mut Command, files: Vec<RawFd>) -> &mut Command {
    command.env_clear().current_dir("/");
    if rustix::process::getuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    hand::over(command, files, || Ok(set_parent_process_death_signal(Some(Signal::KILL))?))
}

/// The user namespace to which a network belongs; the guest itself is in one below it.
fn owner(network: &File) -> std::io::Result<OwnedFd> {
    /// `NS_GET_USERNS`
    const OWNER: libc::c_ulong = 0xb701;
    // SAFETY: the request takes no argument and gives a new open file, which nobody else has.
    #[expect(unsafe_code, reason = "there is no safe form of this request")]
    unsafe {
        match libc::ioctl(network.as_raw_fd(), OWNER as _) {
            -1 => Err(std::io::Error::last_os_error()),
            file => Ok(OwnedFd::from_raw_fd(file)),
        }
    }
}

/// Addresses that the kernel takes for this machine itself.
fn own_addresses(table: &str) -> Vec<Ipv4Addr> {
    let mut found = Vec::new();
    let mut last = None;
    for line in table.lines() {
        if let Some((_, address)) = line.split_once("|-- ") {
            last = address.trim().parse().ok();
        } else if line.trim() == "/32 host LOCAL" {
            found.extend(last.filter(|address: &Ipv4Addr| !address.is_loopback()));
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// What closes the routes, in the words of `ip`.
fn script(own: &[Ipv4Addr]) -> String {
    let mut text = String::new();
    let near = NEAR.iter().map(ToString::to_string);
    for range in near.chain(own.iter().map(|address| format!("{address}/32"))) {
        // Writing into a text does not fail.
        let _ = writeln!(text, "route add unreachable {range}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{own_addresses, script};

    #[test]
    fn own_addresses_are_closed_beside_the_ranges() {
        let table = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n\
                     Local:\n     |-- 127.0.0.1\n        /32 host LOCAL\n     |-- 203.0.113.7\n        \
                     /32 host LOCAL\n     |-- 203.0.113.255\n        /32 link BROADCAST\n\
                     |-- 203.0.113.7\n        /32 host LOCAL\n";
        let own = own_addresses(table);
        assert_eq!(own, ["203.0.113.7".parse::<std::net::Ipv4Addr>().unwrap()]);
        let script = script(&own);
        assert!(script.ends_with("route add unreachable 203.0.113.7/32\n"), "{script}");
        assert!(script.contains("169.254.0.0/16\n") && script.lines().count() == 11);
    }
}
