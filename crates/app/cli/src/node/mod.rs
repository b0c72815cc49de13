//! `opengpu node`: a node's folder, its keys, and the node itself.

mod folder;
mod run;
mod state;

pub(crate) use folder::{Folder, KEY_FILE, Settings, read_genesis};
pub(crate) use run::{end_with_stdin, log};

use crate::{context::Context, exit::Complaint, output::facts};
use anyhow::Result;
use clap::{Args, Subcommand};
use opengpu_client::{NodeKeys, api::hex_text};
use opengpu_types::Genesis;
use serde_json::json;
use std::{net::SocketAddr, path::PathBuf};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make the folder of a node: its keys, the genesis, its settings.
    Init(Init),
    /// Run the node of a folder until Ctrl-C.
    Run {
        /// Folder of the node.
        #[arg(long, value_name = "FOLDER")]
        data: PathBuf,
        /// Key of the validator's account: with it the node confirms its seats and reports
        /// conflicting votes by itself.
        #[arg(long, value_name = "NAME")]
        operator: Option<String>,
        /// Also end when stdin ends: whoever started the node holds its other end, and the system
        /// closes it when he dies, however he dies.
        #[arg(long, hide = true)]
        until_stdin_ends: bool,
    },
    /// Show who a node is: its public keys and addresses.
    Keys {
        /// Folder of the node.
        #[arg(long, value_name = "FOLDER")]
        data: PathBuf,
    },
    /// Check the whole state of a stopped node: entries, invariants, root.
    VerifyState {
        /// Folder of the node, which must not run.
        #[arg(long, value_name = "FOLDER")]
        data: PathBuf,
    },
    /// Write the state of a stopped node to a file that proves itself.
    Export(state::Copy),
    /// Begin a node with a state that was exported, instead of fetching it.
    Import(state::Copy),
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Folder of the node; it must not hold one already.
    #[arg(long, value_name = "FOLDER")]
    data: PathBuf,
    /// The network's genesis, as JSON or canonical bytes.
    #[arg(long, value_name = "FILE")]
    genesis: PathBuf,
    /// Where it listens for other nodes.
    #[arg(long, value_name = "IP:PORT", default_value = "0.0.0.0:26700")]
    listen: SocketAddr,
    /// Where it serves its RPC.
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:26600")]
    rpc: SocketAddr,
    /// Let others than this machine ask.
    #[arg(long)]
    rpc_public: bool,
    /// Keep only so many blocks, instead of all.
    #[arg(long, value_name = "COUNT")]
    keep_blocks: Option<u64>,
}

pub(crate) fn run(context: &Context, command: Command) -> Result<()> {
    match command {
        Command::Init(arguments) => init(context, &arguments),
        Command::Run { data, operator, until_stdin_ends } => {
            if until_stdin_ends {
                run::end_with_stdin()?;
            }
            run::run(context, data, operator.as_deref())
        }
        Command::Keys { data } => {
            let folder = Folder::new(data);
            show(context, &folder.keys()?, &folder.genesis()?, &folder.settings()?)
        }
        Command::VerifyState { data } => state::verify(context, data),
        Command::Export(copy) => state::export(context, &copy),
        Command::Import(copy) => state::import(context, &copy),
    }
}

fn init(context: &Context, arguments: &Init) -> Result<()> {
    let folder = Folder::new(&arguments.data);
    if folder.is_taken() {
        let path = folder.path().display();
        let complaint = Complaint::usage(format!("{path} holds a node already"));
        return Err(complaint.hint("two nodes with the same keys would be slashed").into());
    }
    let genesis = read_genesis(&arguments.genesis)?;
    let keys = NodeKeys::generate(&mut rand::rng());
    let settings = Settings {
        listen: arguments.listen,
        rpc: arguments.rpc,
        rpc_public: arguments.rpc_public,
        metrics_public: false,
        keep_blocks: arguments.keep_blocks,
        followers: Vec::new(),
    };
    folder.create(&keys, &genesis, &settings)?;
    context.output.note(format!("Made a node in {}.", folder.path().display()));
    show(context, &keys, &genesis, &settings)
}

fn show(context: &Context, keys: &NodeKeys, genesis: &Genesis, settings: &Settings) -> Result<()> {
    let consensus = hex_text(&keys.consensus_key().0);
    let beacon = hex_text(&keys.beacon_key().0);
    let digest = hex_text(genesis.digest().as_ref());
    let json = json!({
        "chain": genesis.chain.0,
        "genesis": digest,
        "consensus": consensus,
        "beacon": beacon,
        "listen": settings.listen.to_string(),
        "rpc": settings.rpc.to_string(),
    });
    context.output.show(&json, |_| {
        facts([
            ("chain", format!("{} ({})", genesis.name, genesis.chain)),
            ("genesis", digest),
            ("consensus key", consensus),
            ("beacon key", beacon),
            ("listens", settings.listen.to_string()),
            ("rpc", format!("http://{}", settings.rpc)),
        ])
    })
}
