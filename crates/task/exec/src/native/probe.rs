//! What this machine has for keeping guests apart, and what is missing.

use super::cgroup::Cgroup;
use std::path::PathBuf;

/// What was found. Tools are named where they are; whether the walls stand was tried with a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The tool that guests are run with.
    pub bwrap: Option<PathBuf>,
    /// Tools for named images.
    pub podman: Option<PathBuf>,
    /// The same.
    pub docker: Option<PathBuf>,
    /// The same.
    pub runc: Option<PathBuf>,
    /// User namespaces, the list of system calls and all mounts: a guest ran behind them.
    pub isolates: bool,
    /// The version of the second wall around files, zero where the kernel has none.
    pub landlock: u8,
    /// How the kernel counts what a guest uses.
    pub cgroup: Cgroup,
    /// What is missing and what helps, in words for the owner.
    pub missing: Vec<String>,
}

/// Where tools are looked for, whatever the environment says.
const FOLDERS: [&str; 5] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/bin"];

/// The place of a tool.
pub(super) fn tool(name: &str) -> Option<PathBuf> {
    FOLDERS.iter().map(|folder| PathBuf::from(folder).join(name)).find(|path| path.is_file())
}

/// What helps when the walls do not stand.
pub(super) fn advice(said: &str) -> String {
    if said.contains("namespace") || said.contains("uid map") {
        format!(
            "{said}; this kernel keeps user namespaces from ordinary users: allow them \
                 (sysctl kernel.unprivileged_userns_clone=1 or user.max_user_namespaces, and on \
                 Ubuntu an AppArmor profile for bwrap)"
        )
    } else if said.contains("proc") {
        format!("{said}; inside a container /proc must not be masked")
    } else {
        said.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{advice, tool};

    #[test]
    fn a_tool_is_found_only_where_the_system_keeps_tools() {
        assert!(tool("sh").is_some());
        assert!(tool("no-such-tool").is_none());
    }

    #[test]
    fn advice_names_the_setting_that_helps() {
        assert!(advice("bwrap: No permissions to create new namespace").contains("sysctl"));
        assert!(advice("bwrap: Can't mount proc on /newroot/proc").contains("masked"));
        assert_eq!(advice("something else"), "something else");
    }
}
