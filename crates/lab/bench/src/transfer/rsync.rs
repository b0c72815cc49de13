//! rsync beside ours: from a daemon, and over ssh. Both servers are our own, on loopback.

use super::{cost, rate};
use crate::{
    error::BenchError,
    figures::Figures,
    process::{Process, Usage, own_usage},
};
use std::{
    fs, io,
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Names of the figures.
pub(super) const DAEMON: &str = "rsync daemon, MiB/s";
pub(super) const SSH: &str = "rsync over ssh, MiB/s";
const DAEMON_COST: &str = "rsync daemon, CPU-us per MiB";
const SSH_COST: &str = "rsync over ssh, CPU-us per MiB";

const SSHD: &str = "/usr/sbin/sshd";
/// Where sshd wants an empty folder.
const SSHD_FOLDER: &str = "/run/sshd";
const PATIENCE: Duration = Duration::from_secs(10);

/// Both servers.
#[derive(Debug)]
pub(super) struct Rsync {
    program: PathBuf,
    scratch: PathBuf,
    file: PathBuf,
    daemon: u16,
    sshd: u16,
    servers: [Process; 2],
}

impl Rsync {
    /// Starts both servers and waits until they listen.
    pub(super) fn start(program: &Path, scratch: &Path, file: &Path) -> Result<Self, BenchError> {
        let writing = || BenchError::system("setting up rsync and sshd");
        let (daemon, sshd) = (free_port().map_err(writing())?, free_port().map_err(writing())?);
        let settings = scratch.join("rsyncd.conf");
        let user = rustix::process::getuid().as_raw();
        let text = format!(
            "use chroot = no\nuid = {user}\ngid = {}\nreverse lookup = no\n[file]\npath = {}\n",
            rustix::process::getgid().as_raw(),
            scratch.display()
        );
        fs::write(&settings, text).map_err(writing())?;
        let mut rsyncd = Command::new(program);
        rsyncd.args(["--daemon", "--no-detach", "--address=127.0.0.1"]);
        rsyncd.arg(format!("--port={daemon}")).arg(format!("--config={}", settings.display()));
        let rsyncd = Process::start("rsync", &mut rsyncd, &scratch.join("rsyncd.log"))?;
        let config = ssh_files(scratch, sshd)?;
        let mut server = Command::new(SSHD);
        server.args(["-D", "-e", "-f"]).arg(config);
        let server = Process::start("sshd", &mut server, &scratch.join("sshd.log"))?;
        wait_for(daemon)?;
        wait_for(sshd)?;
        Ok(Self {
            program: program.to_owned(),
            scratch: scratch.to_owned(),
            file: file.to_owned(),
            daemon,
            sshd,
            servers: [rsyncd, server],
        })
    }

    /// One round of both.
    pub(super) fn turn(&self, figures: &mut Figures, size: u64) -> Result<(), BenchError> {
        let url = format!("rsync://127.0.0.1:{}/file/file", self.daemon);
        let before = self.usage();
        figures.add(DAEMON, self.fetch(&url, None, size)?);
        figures.add(DAEMON_COST, cost(&before, &self.usage(), size));
        let shell = format!(
            "ssh -p {} -i {} -o BatchMode=yes -o StrictHostKeyChecking=no \
             -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -F none",
            self.sshd,
            self.scratch.join("user").display()
        );
        let place = format!("127.0.0.1:{}", self.file.display());
        let before = self.usage();
        figures.add(SSH, self.fetch(&place, Some(&shell), size)?);
        figures.add(SSH_COST, cost(&before, &self.usage(), size));
        Ok(())
    }

    /// Of the servers, and of this process, whose time holds that of rsync once it has ended.
    fn usage(&self) -> Usage {
        self.servers.iter().map(Process::usage).chain([own_usage()]).sum()
    }

    fn fetch(&self, from: &str, shell: Option<&str>, size: u64) -> Result<f64, BenchError> {
        let folder =
            tempfile::tempdir_in(&self.scratch).map_err(BenchError::system("making a folder"))?;
        let mut command = Command::new(&self.program);
        command.args(["--whole-file", "--no-compress"]);
        if let Some(shell) = shell {
            command.args(["-e", shell]);
        }
        command.arg(from).arg(folder.path().join("copy")).stdin(Stdio::null());
        let begun = Instant::now();
        let ended = command.output().map_err(BenchError::system("starting rsync"))?;
        let rate = rate(size, begun);
        if !ended.status.success() {
            return Err(BenchError::Peer(String::from_utf8_lossy(&ended.stderr).into_owned()));
        }
        Ok(rate)
    }
}

/// Keys of server and user, and the settings of the server; returns their file.
fn ssh_files(scratch: &Path, port: u16) -> Result<PathBuf, BenchError> {
    let writing = || BenchError::system("setting up sshd");
    for name in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(scratch.join(name))
            .status()
            .map_err(BenchError::system("starting ssh-keygen"))?;
        if !made.success() {
            return Err(BenchError::Peer("ssh-keygen made no key".into()));
        }
    }
    if rustix::process::getuid().is_root() {
        fs::create_dir_all(SSHD_FOLDER).map_err(writing())?;
    }
    let settings = format!(
        "ListenAddress 127.0.0.1:{port}\nHostKey {0}/host\nAuthorizedKeysFile {0}/user.pub\n\
         PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin yes\n",
        scratch.display()
    );
    let config = scratch.join("sshd_config");
    fs::write(&config, settings).map_err(writing())?;
    Ok(config)
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

fn wait_for(port: u16) -> Result<(), BenchError> {
    let begun = Instant::now();
    while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        if begun.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(BenchError::Slow { what: "the start of rsync and sshd", seconds });
        }
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
