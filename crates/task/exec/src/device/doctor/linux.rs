//! Whether programs can be locked in: namespaces, control groups, filters.

use std::{fs, path::PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    Scope,
};

use super::{Check, Machine, Packages, said};

/// The version of Landlock from which on truncating is covered.
const LANDLOCK_WANTED: u32 = 3;

/// All checks about locking in.
pub(super) fn checks(machine: &Machine) -> Vec<Check> {
    vec![
        bubblewrap(machine),
        namespaces(machine),
        cgroups(machine),
        judge_landlock(landlock()),
        seccomp(machine),
        engine(machine),
        network(machine),
    ]
}

fn bubblewrap(machine: &Machine) -> Check {
    let name = "bubblewrap";
    let packages = Packages {
        debian: "bubblewrap",
        fedora: "bubblewrap",
        arch: "bubblewrap",
        suse: "bubblewrap",
    };
    match machine.program("bwrap") {
        None => Check::failed(
            name,
            "not found: scripts and containers have no sandbox",
            machine.install(packages),
        ),
        Some(program) if machine.real => match said(&program, &["--version"]) {
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

fn namespaces(machine: &Machine) -> Check {
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
    // What the settings promise is tried, too: a profile or an outer sandbox may still forbid it.
    let tried = machine.program("bwrap").filter(|_| machine.real);
    let arguments = ["--unshare-all", "--ro-bind", "/", "/", "--", "true"];
    if tried.is_some_and(|program| said(&program, &arguments).is_none()) {
        if number("proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1) {
            return Check::failed(
                name,
                "AppArmor forbids them",
                "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
            );
        }
        return Check::failed(
            name,
            "allowed, but bubblewrap could not make them",
            "bwrap --unshare-all --ro-bind / / -- true",
        );
    }
    Check::ok(name, "allowed")
}

fn cgroups(machine: &Machine) -> Check {
    let name = "control groups";
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
    let writable = rustix::fs::access(folder.as_path(), rustix::fs::Access::WRITE_OK).is_ok();
    if writable {
        Check::ok(name, "version 2, delegated")
    } else {
        Check::warn(name, "version 2, not delegated to this user", delegate)
    }
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
fn engine(machine: &Machine) -> Check {
    let name = "container images";
    let has = |program: &str| machine.program(program).is_some();
    match (["podman", "docker"].into_iter().find(|engine| has(engine)), has("bwrap")) {
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

/// Without these a guest can be granted no way to the internet; most need none.
fn network(machine: &Machine) -> Check {
    let name = "network of guests";
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
    Check::ok(name, "can be granted, without a way to this machine or what is near")
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

    #[test]
    fn without_a_sandbox_the_package_is_named() {
        let root = tempfile::tempdir().unwrap();
        let check = bubblewrap(&machine(root.path()));
        assert_eq!(check.state, State::Failed);
        assert_eq!(check.fix.as_deref(), Some("sudo apt install bubblewrap"));
        write(root.path(), "bin/bwrap", "");
        let path = root.path().join("bin").into_os_string();
        let machine = Machine { path, ..machine(root.path()) };
        assert_eq!(bubblewrap(&machine).state, State::Ok);
    }

    #[test]
    fn each_way_to_forbid_namespaces_has_its_own_setting() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        assert!(namespaces(&machine).fix.unwrap().contains("user.max_user_namespaces"));
        write(root.path(), "proc/sys/user/max_user_namespaces", "1000\n");
        assert_eq!(namespaces(&machine).state, State::Ok);
        write(root.path(), "proc/sys/kernel/unprivileged_userns_clone", "0\n");
        assert!(namespaces(&machine).fix.unwrap().contains("unprivileged_userns_clone=1"));
    }

    #[test]
    fn control_groups_are_judged_by_version_and_delegation() {
        let root = tempfile::tempdir().unwrap();
        let machine = machine(root.path());
        assert!(cgroups(&machine).found.starts_with("none"));
        write(root.path(), "sys/fs/cgroup/memory/tasks", "");
        assert!(cgroups(&machine).found.starts_with("version 1"));
        write(root.path(), "sys/fs/cgroup/cgroup.controllers", "cpu memory pids");
        write(root.path(), "proc/self/cgroup", "0::/user.slice/me\n");
        assert!(cgroups(&machine).found.contains("without cpu, memory, pids"));
        let own = "sys/fs/cgroup/user.slice/me/cgroup.controllers";
        write(root.path(), own, "cpuset cpu io memory pids\n");
        assert_eq!(cgroups(&machine).found, "version 2, delegated");
    }

    #[test]
    fn an_engine_alone_runs_no_images() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "bin/docker", "");
        let path = root.path().join("bin").into_os_string();
        let machine = Machine { path, ..machine(root.path()) };
        let check = engine(&machine);
        assert_eq!(check.state, State::Failed);
        assert!(check.found.contains("docker is here, but"), "{}", check.found);
        write(root.path(), "bin/bwrap", "");
        assert_eq!(engine(&machine).state, State::Ok);
        assert!(engine(&machine).found.contains("docker"));
    }

    #[test]
    fn a_network_for_guests_needs_its_tool_and_its_device() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("bin").into_os_string();
        let machine = Machine { path, ..machine(root.path()) };
        assert_eq!(network(&machine).fix.as_deref(), Some("sudo apt install slirp4netns"));
        write(root.path(), "bin/slirp4netns", "");
        assert!(network(&machine).fix.unwrap().contains("modprobe tun"));
        write(root.path(), "dev/net/tun", "");
        assert_eq!(network(&machine).state, State::Ok);
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
