//! `opengpu serve`: an OpenAI-compatible server for one model, or for a server that already runs.

use super::Which;
use crate::{
    context::Context,
    exit::{Complaint, Exit},
};
use anyhow::{Context as _, Result};
use clap::Args;
use opengpu_client::wallet::read_private;
use opengpu_exec::{Supervisor, proxy};
use opengpu_gateway::{Keys, Limits, Settings, engine::Engine, local::Local};
use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  opengpu serve smollm2.gguf\n  \
    opengpu serve --upstream http://127.0.0.1:11434")]
pub(crate) struct Arguments {
    #[command(flatten)]
    which: Which,
    /// Serve what another OpenAI-compatible server has (vLLM, Ollama, llama.cpp).
    #[arg(long, value_name = "URL",
          conflicts_with_all = ["model", "context", "threads", "device"])]
    upstream: Option<String>,
    /// File with the key for that server, readable by you alone.
    // A conflict of what is required lifts the requirement, so a model is refused here, too.
    #[arg(long, value_name = "FILE", requires = "upstream", conflicts_with = "model")]
    upstream_key: Option<PathBuf>,
    /// Where to listen.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// File with API keys, one per line; without it everybody on this machine may come in.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// A TLS proxy stands in front, so that other machines may come in with a key.
    #[arg(long)]
    behind_tls: bool,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<()> {
    let keys = match &arguments.keys {
        Some(path) => keys(path)?,
        None => Keys::default(),
    };
    let settings = Settings { keys, behind_tls: arguments.behind_tls, limits: Limits::default() };
    // Before a model is loaded for nothing.
    settings.check(arguments.listen).map_err(|error| {
        let hint =
            "--keys names a file of API keys, and --behind-tls says that a proxy is in front";
        Complaint::usage(error.to_string()).hint(hint)
    })?;
    match &arguments.upstream {
        // The owner wrote the address, so it may lead anywhere.
        Some(url) => {
            let origin = proxy::Origin::parse(url, proxy::Reach::Anywhere)?;
            let key = arguments.upstream_key.as_deref().map(proxy::Key::read).transpose()?;
            let upstream = proxy::Upstream::new(origin, key, proxy::Limits::default())?;
            listen(context, arguments.listen, Arc::new(upstream), settings, url)
        }
        None => {
            let which = &arguments.which;
            let (program, name) = which.program(context)?;
            let supervisor = Supervisor::new(crate::exec::launch(&which.machine)?);
            let local = Local::new(supervisor, program, name.clone());
            context.output.note(format!("loading {name}"));
            local.warm()?;
            // One executor answers one request at a time; the others wait in the queue.
            let settings =
                Settings { limits: Limits { running: 1, ..settings.limits }, ..settings };
            listen(context, arguments.listen, Arc::new(local), settings, &name)
        }
    }
}

fn keys(path: &Path) -> Result<Keys> {
    if path.is_dir() {
        let complaint = Complaint::usage(format!("{} is a folder", path.display()));
        return Err(complaint.hint("--keys names a file with one API key per line").into());
    }
    let text = String::from_utf8(read_private(path)?)
        .map_err(|_| Complaint::usage(format!("{}: not UTF-8", path.display())))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(Keys::new(lines)?)
}

fn listen(
    context: &Context,
    address: SocketAddr,
    engine: Arc<dyn Engine>,
    settings: Settings,
    what: &str,
) -> Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind(address).await.with_context(|| {
            Complaint::new(Exit::Failed, format!("cannot listen on {address}"))
                .hint("another program may use the port: choose one with --listen")
        })?;
        let address = listener.local_addr()?;
        context.output.note(format!("serving {what} on http://{address}/v1"));
        context.output.note("stop with ctrl-C");
        let end = async {
            let _ = tokio::signal::ctrl_c().await;
        };
        opengpu_gateway::serve(listener, engine, settings, end).await?;
        Ok(())
    })
}
