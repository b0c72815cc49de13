//! Whether programs can be locked in: namespaces, control groups, filters.
//!
//! Whether a guest has its walls is looked at in one place, which is the sandbox's own
//! ([`Sandbox::probe`]); here it is said in words, with what helps. What only executors need is looked
//! at here.

use std::{fs, path::PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    Scope,
};

use super::{Check, Machine, Packages, said};
use crate::native::{Cgroup, Probe, Sandbox, image::docker_answers};

/// The version of Landlock from which on truncating is covered.
const LANDLOCK_WANTED: u32 = 3;

/// All checks about locking in.
pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    let probe = Sandbox::probe();
    vec![
        bubblewrap(machine, &probe),
        namespaces(machine, &probe),
        cgroups(machine, &probe),
        judge_landlock(landlock()),
        seccomp(machine),
        engine(machine, &probe),
        network(machine, &probe),
    ]
}

fn bubblewrap(machine: &Machine, probe: &Probe) -> Check {
    let name = "bubblewrap";
    let packages = Packages {
        debian: "bubblewrap",
        fedora: "bubblewrap",
        arch: "bubblewrap",
        suse: "bubblewrap",
    };
    match &probe.bwrap {
        None => Check::failed(
            name,
            "not found: scripts and containers have no sandbox",
            machine.install(packages),
        ),
        Some(program) if machine.real => match said(program, &["--version"]) {
            Some(version) => Check::ok(name, version),
            None => Check::failed(
                name,
                format!("{} does not start", program.display()),
                machine.install(packages),
            ),
        },
        Some(program) => Check::ok(name, program.display().to_string()),
    }
}

fn namespaces(machine: &Machine, probe: &Probe) -> Check {
    let name = "user namespaces";
    let number = |path: &str| machine.text(path)?.trim().parse::<u64>().ok();
    if number("proc/sys/user/max_user_namespaces").unwrap_or(0) == 0 {
        return Check::failed(
            name,
            "the kernel allows none",
            "sudo sysctl -w user.max_user_namespaces=28633",
        );
    }
    if number("proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
        return Check::failed(
            name,
            "only the administrator may make them",
            "sudo sysctl -w kernel.unprivileged_userns_clone=1",
        );
    }
    // What the settings promise was tried, too: a profile or an outer sandbox may still forbid it.
    if probe.bwrap.is_some() && !probe.isolates {
        if number("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
            return Check::failed(
                name,
                "AppArmor forbids them",
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            );
        }
        let found = format!("allowed, but no guest started: {}", probe.missing.join("; "));
        return Check::failed(name, found, "bwrap --unshare-all --ro-bind / / -- true");
    }
    Check::ok(name, "allowed")
}

fn cgroups(machine: &Machine, probe: &Probe) -> Check {
    let name = "control groups";
    let why = match &probe.cgroup {
        Cgroup::V2 => return Check::ok(name, "version 2, count what guests use"),
        Cgroup::V1 => return Check::ok(name, "version 1, count what guests use"),
        Cgroup::None { why } => why,
    };
    let delegate = "sudo systemctl edit user@.service, add [Service] and Delegate=yes, \
                    then log in again";
    if !machine.has("sys/fs/cgroup/cgroup.controllers") {
        return if machine.has("sys/fs/cgroup/memory") {
            let fix = "add systemd.unified_cgroup_hierarchy=1 to the kernel's command line";
            Check::warn(name, "version 1: limits need the administrator", fix)
        } else {
            let fix = "sudo mount -t cgroup2 none /sys/fs/cgroup";
            Check::warn(name, "none: memory is limited for each process only", fix)
        };
    }
    let own = machine.text("proc/self/cgroup").unwrap_or_default();
    let own = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let folder: PathBuf = machine.root.join("sys/fs/cgroup").join(own);
    let controllers = fs::read_to_string(folder.join("cgroup.controllers")).unwrap_or_default();
    let missing: Vec<_> = ["cpu", "memory", "pids"]
        .into_iter()
        .filter(|wanted| !controllers.split_whitespace().any(|found| found == *wanted))
        .collect();
    if !missing.is_empty() {
        let found = format!("version 2, without {}", missing.join(", "));
        return Check::warn(name, found, delegate);
    }
    Check::warn(name, format!("version 2, not delegated to this user: {why}"), delegate)
}

/// The version of Landlock that the kernel has, at most the newest that is known here.
///
/// The kernel is asked for everything of a version, from the newest down. A ruleset that is made
/// and dropped restricts nobody.
fn landlock() -> u32 {
    let has = |abi: ABI| {
        let rules = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        let rules = rules.handle_access(AccessFs::from_all(abi));
        let rules = rules.and_then(|rules| match AccessNet::from_all(abi) {
            none if none.is_empty() => Ok(rules),
            all => rules.handle_access(all),
        });
        let rules = rules.and_then(|rules| match Scope::from_all(abi) {
            none if none.is_empty() => Ok(rules),
            all => rules.scope(all),
        });
        rules.and_then(Ruleset::create).is_ok()
    };
    let versions =
        [(6, ABI::V6), (5, ABI::V5), (4, ABI::V4), (3, ABI::V3), (2, ABI::V2), (1, ABI::V1)];
    versions.into_iter().find(|(_, abi)| has(*abi)).map_or(0, |(version, _)| version)
}

fn judge_landlock(version: u32) -> Check {
    let name = "Landlock";
    let fix = "add landlock to lsm= on the kernel's command line (cat /sys/kernel/security/lsm), \
               or take a newer kernel";
    match version {
        0 => Check::failed(name, "the kernel has none: executors can touch the owner's files", fix),
        old if old < LANDLOCK_WANTED => {
            Check::warn(name, format!("version {old}, {LANDLOCK_WANTED} is wanted"), fix)
        }
        version => Check::ok(name, format!("version {version} or newer")),
    }
}

/// Images are handed out by an engine and run in our own sandbox, never by the engine.
fn engine(machine: &Machine, probe: &Probe) -> Check {
    let name = "container images";
    let engines = [("podman", &probe.podman), ("docker", &probe.docker)];
    let engine = engines.into_iter().find(|(_, place)| place.is_some()).map(|(name, _)| name);
    // Only docker needs somebody else who runs.
    let docker = probe.docker.as_ref().filter(|_| engine == Some("docker"));
    if let Some(Err(said)) = docker.filter(|_| probe.bwrap.is_some()).map(|it| docker_answers(it)) {
        return no_daemon(name, &said);
    }
    match (engine, probe.bwrap.is_some()) {
        (Some(engine), true) => Check::ok(name, format!("by name from {engine}, in our sandbox")),
        (None, true) => Check::ok(name, "from folders and files; by name with podman or docker"),
        (engine, false) => {
            let engine = engine.map_or_else(String::new, |engine| {
                format!(" ({engine} is here, but is never handed the work itself)")
            });
            let packages = Packages {
                debian: "bubblewrap",
                fedora: "bubblewrap",
                arch: "bubblewrap",
                suse: "bubblewrap",
            };
            Check::failed(
                name,
                format!("not without bubblewrap{engine}"),
                machine.install(packages),
            )
        }
    }
}

/// Docker is there, and does nothing.
fn no_daemon(name: &'static str, said: &str) -> Check {
    if said.contains("permission denied") {
        let found = "docker is installed, but its daemon does not answer this user";
        return Check::warn(name, found, "sudo usermod -aG docker $USER, and log in again");
    }
    let found = "docker is installed, but its daemon does not answer";
    Check::warn(name, found, "sudo systemctl start docker, or install podman, which needs none")
}

/// Without these a guest can be granted no way to the internet; most need none.
fn network(machine: &Machine, probe: &Probe) -> Check {
    let name = "network of guests";
    let Some(why) = &probe.network else {
        return Check::ok(name, "can be granted, without a way to this machine or what is near");
    };
    let packages = Packages {
        debian: "slirp4netns",
        fedora: "slirp4netns",
        arch: "slirp4netns",
        suse: "slirp4netns",
    };
    if machine.program("slirp4netns").is_none() {
        let found = "none can be granted: slirp4netns is missing";
        return Check::warn(name, found, machine.install(packages));
    }
    if !machine.has("dev/net/tun") {
        let found = "none can be granted: the kernel has no /dev/net/tun";
        return Check::warn(name, found, "sudo modprobe tun");
    }
    Check::warn(name, "none can be granted", why)
}

fn seccomp(machine: &Machine) -> Check {
    let name = "seccomp";
    let actions = machine.text("proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if actions.split_whitespace().any(|action| action == "kill_process") {
        Check::ok(name, "filters work")
    } else {
        let fix =
            "take a kernel with CONFIG_SECCOMP_FILTER (grep SECCOMP /boot/config-$(uname -r))";
        Check::failed(name, "the kernel has no filters", fix)
    }
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, path::Path};

    use super::*;
    use crate::device::doctor::State;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn machine(root: &Path) -> Machine {
        Machine { root: root.to_owned(), path: OsString::new(), real: false }
    }

    /// A machine without anything for guests.
    fn nothing() -> Probe {
        Probe {
            bwrap: None,
            podman: None,
            docker: None,
            runc: None,
            isolates: false,
            network: Some("a network for a guest needs something".to_owned()),
            landlock: 0,
            cgroup: Cgroup::None { why: "none are mounted".to_owned() },
            missing: vec!["bubblewrap is not installed".to_owned()],
        }
    }

    /// One on which guests have their walls.
    fn walled() -> Probe {
        let bwrap = Some(PathBuf::from("/usr/bin/bwrap"));
        Probe { bwrap, isolates: true, missing: Vec::new(), ..nothing() }
    }

    #[test]
    fn without_a_sandbox_the_package_is_named() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let check = bubblewrap(&machine, &nothing());
        assert_eq!(check.state, State::Failed);
        assert_eq!(check.fix.as_deref(), Some("sudo apt install bubblewrap"));
        assert_eq!(bubblewrap(&machine, &walled()).state, State::Ok);
    }

    #[test]
    fn each_way_to_forbid_namespaces_has_its_own_setting() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let fix = |probe: &Probe| namespaces(&machine, probe).fix.unwrap();
        assert!(fix(&walled()).contains("user.max_user_namespaces"));
        write(root.path(), "proc/sys/user/max_user_namespaces", "1000\n");
        assert_eq!(namespaces(&machine, &walled()).state, State::Ok);
        let told = vec!["the tool says why".to_owned()];
        let tried = Probe { isolates: false, missing: told, ..walled() };
        let check = namespaces(&machine, &tried);
        assert_eq!(check.state, State::Failed);
        assert!(check.found.contains("the tool says why"), "{}", check.found);
        write(root.path(), "proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n");
        assert!(fix(&tried).contains("apparmor_restrict_unprivileged_userns=0"));
        write(root.path(), "proc/sys/kernel/unprivileged_userns_clone", "0\n");
        assert!(fix(&walled()).contains("unprivileged_userns_clone=1"));
    }

    #[test]
    fn control_groups_that_do_not_count_are_judged_by_version_and_delegation() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let found = || cgroups(&machine, &nothing()).found;
        assert!(found().starts_with("none"));
        write(root.path(), "sys/fs/cgroup/memory/tasks", "");
        assert!(found().starts_with("version 1: limits need the administrator"));
        write(root.path(), "sys/fs/cgroup/cgroup.controllers", "cpu memory pids");
        write(root.path(), "proc/self/cgroup", "0::/user.slice/me\n");
        assert!(found().contains("without cpu, memory, pids"));
        let own = "sys/fs/cgroup/user.slice/me/cgroup.controllers";
        write(root.path(), own, "cpuset cpu io memory pids\n");
        assert!(found().starts_with("version 2, not delegated"));
    }

    #[test]
    fn control_groups_that_count_are_well_whatever_their_version() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        write(root.path(), "sys/fs/cgroup/memory/tasks", "");
        for cgroup in [Cgroup::V1, Cgroup::V2] {
            let probe = Probe { cgroup, ..walled() };
            assert_eq!(cgroups(&machine, &probe).state, State::Ok);
        }
    }

    #[test]
    fn an_engine_alone_runs_no_images() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        // It says yes to everything.
        let docker = || Some(PathBuf::from("/bin/true"));
        let check = engine(&machine, &Probe { docker: docker(), ..nothing() });
        assert_eq!(check.state, State::Failed);
        assert!(check.found.contains("docker is here, but"), "{}", check.found);
        let check = engine(&machine, &Probe { docker: docker(), ..walled() });
        assert_eq!(check.state, State::Ok);
        assert!(check.found.contains("docker"), "{}", check.found);
    }

    #[test]
    fn docker_without_its_daemon_hands_out_no_images() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        let docker = || Some(PathBuf::from("/bin/false"));
        let check = engine(&machine, &Probe { docker: docker(), ..walled() });
        assert_eq!(check.state, State::Warn);
        assert!(check.found.contains("installed, but its daemon does not answer"));
        assert!(check.fix.unwrap().contains("systemctl start docker"));
        let denied = no_daemon("x", "permission denied while trying to connect");
        assert!(denied.fix.unwrap().contains("usermod"));
        let podman = Some(PathBuf::from("/usr/bin/podman"));
        let both = Probe { podman, docker: docker(), ..walled() };
        assert_eq!(engine(&machine, &both).state, State::Ok);
    }

    #[test]
    fn a_network_for_guests_needs_its_tool_and_its_device() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("bin").into_os_string();
        let machine = Machine { path, ..machine(root.path()) };
        let fix = || network(&machine, &walled()).fix.unwrap();
        assert_eq!(fix(), "sudo apt install slirp4netns");
        write(root.path(), "bin/slirp4netns", "");
        assert!(fix().contains("modprobe tun"));
        write(root.path(), "dev/net/tun", "");
        assert_eq!(fix(), "a network for a guest needs something");
        let granted = Probe { network: None, ..walled() };
        assert_eq!(network(&machine, &granted).state, State::Ok);
    }

    #[test]
    fn an_old_kernel_is_told() {
        assert_eq!(judge_landlock(0).state, State::Failed);
        assert_eq!(judge_landlock(2).state, State::Warn);
        assert_eq!(judge_landlock(6).state, State::Ok);
        let root = tempfile::tempdir().unwrap();
        assert_eq!(seccomp(&machine(root.path())).state, State::Failed);
        write(root.path(), "proc/sys/kernel/seccomp/actions_avail", "kill_process errno allow\n");
        assert_eq!(seccomp(&machine(root.path())).state, State::Ok);
    }
}
