//! `opengpu relay`: a meeting point for clients and providers that cannot reach each other directly.
//!
//! It passes on what it cannot read. Everybody may use it; a limit of the rate keeps one of them from
//! taking it all.

use crate::{context::Context, exit::Complaint, node};
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use opengpu_link::{Relay, RelaySetup, RelayTls};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf};

/// What is logged unless told otherwise.
const DEFAULT_LOG: &str = "warn,opengpu=info";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a relay until Ctrl-C.
    Run(Run),
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Where it listens for HTTP; without TLS only on this machine.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:26800")]
    listen: SocketAddr,
    /// Where it listens for HTTPS, and for UDP that tells endpoints from where they come.
    #[arg(long, value_name = "IP:PORT", requires_all = ["host", "certificates", "key"])]
    tls: Option<SocketAddr>,
    /// The host that the certificate names.
    #[arg(long, value_name = "NAME", requires = "tls")]
    host: Option<String>,
    /// Certificates, as PEM; read again when they change.
    #[arg(long, value_name = "FILE", requires = "tls")]
    certificates: Option<PathBuf>,
    /// Their key, as PEM.
    #[arg(long, value_name = "FILE", requires = "tls")]
    key: Option<PathBuf>,
    /// Bytes a second that one endpoint may send through it [default: no limit].
    #[arg(long, value_name = "BYTES")]
    rate: Option<NonZeroU32>,
    /// Also end when stdin ends.
    #[arg(long, hide = true)]
    until_stdin_ends: bool,
}

impl Run {
    fn setup(&self) -> RelaySetup {
        let both = self.certificates.clone().zip(self.key.clone());
        let tls = self.tls.zip(self.host.clone()).zip(both);
        let tls = tls.map(|((listen, host), (certificates, key))| RelayTls {
            listen,
            host,
            certificates,
            key,
        });
        RelaySetup { listen: self.listen, tls, rate: self.rate }
    }
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    let Command::Run(arguments) = command;
    // Before anything else, so that no signal is missed.
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])
        .context("watching for signals")?;
    if arguments.until_stdin_ends {
        node::end_with_stdin()?;
    }
    node::log(DEFAULT_LOG);
    let runtime = tokio::runtime::Runtime::new()?;
    let relay = runtime.block_on(Relay::start(arguments.setup(), |_| true)).map_err(|error| {
        let complaint = Complaint::usage(error.to_string());
        complaint.hint("for others than this machine, name --tls with its certificates")
    })?;
    let url = relay.url().to_string();
    context.output.show_line(&json!({ "ready": true, "relay": url }), |_| {
        format!("Ready: relay at {url}. Press Ctrl-C to stop.")
    })?;
    signals.forever().next();
    Ok(runtime.block_on(relay.stop())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        run: Run,
    }

    fn read(words: &[&str]) -> Result<Run, clap::Error> {
        Line::try_parse_from([&["relay"], words].concat()).map(|line| line.run)
    }

    #[test]
    fn tls_is_whole_or_not_there() {
        assert!(read(&[]).unwrap().setup().tls.is_none());
        assert!(read(&["--tls", "0.0.0.0:443"]).is_err());
        assert!(read(&["--host", "relay.example"]).is_err());
        let whole = ["--tls", "0.0.0.0:443", "--host", "a", "--certificates", "b", "--key", "c"];
        assert_eq!(read(&whole).unwrap().setup().tls.unwrap().host, "a");
    }
}
