//! `opengpu provider unit`: a unit of systemd that keeps a provider running.
//!
//! What executors need stays possible: they build their own walls, so namespaces and devices are not
//! taken away here, and control groups are theirs (`Delegate`). The manager of a user has no
//! capabilities to give away and no mounts of its own, so what needs them stands in units of the system alone.

use super::folder::Folder;
use crate::{context::Context, exit::Complaint};
use anyhow::Result;
use clap::Args;
use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Key of the provider's account, without a passphrase: nobody is there to type one.
    #[arg(long, value_name = "NAME")]
    wallet: String,
    /// User who runs it [default: a user unit, without one].
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
}

pub(crate) fn run(context: &Context, folder: &Folder, arguments: &Arguments) -> Result<()> {
    let absolute = |path: &Path| std::path::absolute(path);
    let unit = Unit {
        binary: std::env::current_exe()?,
        home: absolute(&context.home)?,
        data: absolute(folder.path())?,
        node: context.rpc.url().to_owned(),
        wallet: arguments.wallet.clone(),
        user: arguments.user.clone(),
    };
    let text = unit.text()?;
    io::stdout().lock().write_all(text.as_bytes())?;
    let place = match arguments.user {
        Some(_) => "/etc/systemd/system/opengpu-provider.service",
        None => "~/.config/systemd/user/opengpu-provider.service",
    };
    let enable = match arguments.user {
        Some(_) => "systemctl enable --now opengpu-provider",
        // Without this the units of a user end when the user leaves.
        None => "loginctl enable-linger && systemctl --user enable --now opengpu-provider",
    };
    context.output.note(format!("Save it as {place}, then: {enable}"));
    Ok(())
}

/// What only the manager of the system knows.
const NETWORK: &str = "Wants=network-online.target\nAfter=network-online.target\n";

/// What only the manager of the system can do.
const SYSTEM: &str = "\
ProtectSystem=strict
PrivateTmp=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectClock=yes
ProtectHostname=yes
CapabilityBoundingSet=
";

struct Unit {
    binary: PathBuf,
    home: PathBuf,
    data: PathBuf,
    node: String,
    wallet: String,
    user: Option<String>,
}

impl Unit {
    fn text(&self) -> Result<String> {
        let path = |path: &Path| {
            let text = path.to_str().map(str::to_owned);
            quoted(text.ok_or_else(|| Complaint::usage("a path is not UTF-8"))?.as_str())
        };
        let (binary, home, data) = (path(&self.binary)?, path(&self.home)?, path(&self.data)?);
        let (node, wallet) = (quoted(&self.node)?, quoted(&self.wallet)?);
        let user = match &self.user {
            Some(user) => format!("User={}\n", plain(user)?),
            None => String::new(),
        };
        let (target, network, more) = match self.user {
            Some(_) => ("multi-user", NETWORK, format!("{SYSTEM}ReadWritePaths={home} {data}\n")),
            None => ("default", "", String::new()),
        };
        Ok(format!(
            "[Unit]\n\
             Description=OpenGPU provider\n\
             {network}\
             \n\
             [Service]\n\
             {user}\
             ExecStart={binary} provider start --home {home} --data {data} --node {node} \
             --wallet {wallet}\n\
             Restart=always\n\
             RestartSec=5\n\
             # The provider ends its executors itself; what is left after that is ended for it.\n\
             KillMode=mixed\n\
             TimeoutStopSec=60\n\
             Delegate=yes\n\
             UMask=0077\n\
             NoNewPrivileges=yes\n\
             {more}\
             RestrictRealtime=yes\n\
             RestrictSUIDSGID=yes\n\
             LockPersonality=yes\n\
             RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\n\
             LimitCORE=0\n\
             \n\
             [Install]\n\
             WantedBy={target}.target\n"
        ))
    }
}

/// A word of a command in a unit.
fn quoted(text: &str) -> Result<String> {
    if text.contains(['"', '\\', '\n']) {
        return Err(Complaint::usage(format!("`{text}` cannot stand in a unit")).into());
    }
    // Both signs have a meaning of their own in a unit.
    Ok(format!("\"{}\"", text.replace('%', "%%").replace('$', "$$")))
}

/// The name of a user.
fn plain(name: &str) -> Result<&str> {
    let fits = |it: char| it.is_ascii_alphanumeric() || "-_.".contains(it);
    if name.is_empty() || !name.chars().all(fits) {
        return Err(Complaint::usage(format!("`{name}` is no name of a user")).into());
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> Unit {
        Unit {
            binary: "/usr/bin/opengpu".into(),
            home: "/home/ann smith/.opengpu".into(),
            data: "/home/ann smith/.opengpu/provider".into(),
            node: "http://127.0.0.1:26600".to_owned(),
            wallet: "provider".to_owned(),
            user: Some("opengpu".to_owned()),
        }
    }

    #[test]
    fn a_unit_names_everything_that_the_command_needs() {
        let text = unit().text().unwrap();
        assert!(text.contains("--home \"/home/ann smith/.opengpu\" --data"), "{text}");
        assert!(text.contains("User=opengpu\n") && text.contains("multi-user.target"), "{text}");
        assert!(text.contains("NoNewPrivileges=yes"), "{text}");
        assert!(text.contains("CapabilityBoundingSet=\n"), "{text}");
        let own = Unit { user: None, ..unit() }.text().unwrap();
        assert!(!own.contains("User=") && own.contains("default.target"), "{own}");
        for text in [&text, &own] {
            assert!(
                text.contains("Delegate=yes\n") && !text.contains("ProtectControlGroups"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_unit_of_a_user_wants_nothing_that_its_manager_has_not() {
        let own = Unit { user: None, ..unit() }.text().unwrap();
        for needs in SYSTEM.lines().filter_map(|line| line.split('=').next()) {
            assert!(!own.contains(needs), "{needs}");
        }
    }

    #[test]
    fn systemd_takes_both_forms() {
        let folder = tempfile::tempdir().unwrap();
        // Its own check wants programs and users that are there.
        let there = Unit { binary: "/bin/true".into(), user: Some("root".to_owned()), ..unit() };
        let own = Unit { user: None, binary: "/bin/true".into(), ..unit() };
        for (unit, manager) in [(there, "--system"), (own, "--user")] {
            let path = folder.path().join("opengpu-provider.service");
            std::fs::write(&path, unit.text().unwrap()).unwrap();
            let mut verify = std::process::Command::new("systemd-analyze");
            // Where there is no systemd nobody can say.
            let Ok(found) = verify.args([manager, "verify"]).arg(&path).output() else { return };
            let told = String::from_utf8_lossy(&found.stderr).into_owned();
            assert!(!told.contains("opengpu-provider.service"), "{manager}: {told}");
        }
    }

    #[test]
    fn nothing_can_be_smuggled_into_a_unit() {
        let lines = Unit { wallet: "a\nExecStartPre=/bin/sh".to_owned(), ..unit() };
        assert!(lines.text().is_err());
        let user = Unit { user: Some("a\nb".to_owned()), ..unit() };
        assert!(user.text().is_err());
        let percent = Unit { wallet: "50%".to_owned(), ..unit() };
        assert!(percent.text().unwrap().contains("\"50%%\""));
    }
}
