//! What this machine has for keeping guests apart, and what is missing.

use super::cgroup::Cgroup;
use super::error::SandboxError;
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
    /// What is missing for a way to the internet that can be granted, if something is.
    pub network: Option<String>,
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

/// The oldest version whose options are all there, as its first two numbers.
const OLDEST: (u32, u32) = (0, 8);

/// Whether bubblewrap, which says `bubblewrap 0.8.0`, is new enough.
pub(super) fn check_version(said: &str) -> Result<(), SandboxError> {
    let version = said.trim().rsplit(' ').next().unwrap_or_default();
    let mut numbers = version.split('.').map(|number| number.parse().unwrap_or_default());
    let found = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    if found >= OLDEST {
        return Ok(());
    }
    let (major, minor) = OLDEST;
    let why = format!("bubblewrap {major}.{minor} or newer is needed, and this is {version}");
    Err(SandboxError::Unavailable { why })
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
    use super::{advice, check_version, tool};

    #[test]
    fn a_tool_is_found_only_where_the_system_keeps_tools() {
        assert!(tool("sh").is_some());
        assert!(tool("no-such-tool").is_none());
    }

    #[test]
    fn an_old_bubblewrap_is_told_and_not_tried() {
        assert!(check_version("bubblewrap 0.8.0\n").is_ok());
        assert!(check_version("bubblewrap 0.11.0").is_ok());
        assert!(check_version("bubblewrap 1.0").is_ok());
        let error = check_version("bubblewrap 0.6.1\n").unwrap_err().to_string();
        assert!(error.contains("0.8") && error.contains("0.6.1"), "{error}");
        assert!(check_version("").is_err());
    }

    #[test]
    fn advice_names_the_setting_that_helps() {
        assert!(advice("bwrap: No permissions to create new namespace").contains("sysctl"));
        assert!(advice("bwrap: Can't mount proc on /newroot/proc").contains("masked"));
        assert_eq!(advice("something else"), "something else");
    }
}
