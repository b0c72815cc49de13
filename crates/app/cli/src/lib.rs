//! `opengpu` as a library: the network on the command line.
//!
//! Arguments and printing only: keys, transactions and the node's contract are `opengpu-client`'s,
//! the node itself is `opengpu-node`'s. One file for each noun.
//!
//! Manners: data goes to stdout and everything else to stderr; a question is asked only on a
//! terminal; an error is one line `error:` and, where it helps, one line `hint:`; the exit code
//! says what kind of error it was.
//!
//! It is a library so that tests can build the same command line around executors that lie.

mod arguments;
mod chain;
mod checkpoint;
mod completions;
mod config;
mod context;
mod csv;
mod dev;
mod device;
mod examples;
mod exec;
mod exit;
mod init;
mod input;
mod made;
mod market;
mod model;
mod node;
mod output;
mod project;
mod provider;
#[cfg(target_os = "linux")]
mod quiet;
mod relay;
mod stake;
mod submit;
mod task;
mod tx;
mod values;
mod verify;
mod wallet;

use arguments::{Arguments, EXECUTOR, Noun};
use clap::Parser as _;
use context::Context;
use std::{io, process::ExitCode};

/// Does what the command line says. `serve` is what makes the process an executor, if it says that.
pub fn main(serve: impl FnOnce() -> io::Result<()>) -> ExitCode {
    // Inside a sandbox this binary is the first program, and nothing of a command line.
    #[cfg(target_os = "linux")]
    if let Some(code) = opengpu_exec::native::inner_main(std::env::args_os().skip(1)) {
        return code;
    }
    #[cfg(target_os = "linux")]
    quiet::without_a_desktop();
    let ended = if std::env::args_os().nth(1).is_some_and(|word| word == EXECUTOR) {
        serve().map_err(anyhow::Error::from)
    } else {
        run(Arguments::parse())
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::report(&error),
    }
}

fn run(arguments: Arguments) -> anyhow::Result<()> {
    let context = Context::new(arguments.global.or(|name| std::env::var_os(name))?)?;
    match arguments.noun {
        Noun::Wallet(command) => wallet::run(&context, command),
        Noun::Tx(command) => tx::run(&context, command),
        Noun::Stake(command) => stake::run(&context, command),
        Noun::Quote(arguments) => task::quote::run(&context, *arguments),
        Noun::Init(arguments) => init::run(&context, &arguments),
        Noun::Run(arguments) => task::run::run(&context, *arguments),
        Noun::Sweep(arguments) => task::sweep::run(&context, *arguments),
        Noun::Logs(arguments) => task::logs::run(&context, &arguments),
        Noun::Pull(arguments) => task::pull::run(&context, &arguments),
        Noun::Receipt(command) => task::receipt::run(&context, command),
        Noun::Audit(command) => task::audit::run(&context, command),
        Noun::Offers(wanted) => market::offers(&context, &wanted),
        Noun::Ps(wanted) => market::ps(&context, &wanted),
        Noun::Stop(stop) => market::stop(&context, &stop),
        Noun::TopUp(top_up) => market::top_up(&context, &top_up),
        Noun::Chain(command) => chain::run(&context, command),
        Noun::Node(command) => node::run(&context, command),
        Noun::Provider(command) => provider::run(&context, command),
        Noun::Relay(command) => relay::run(&context, command),
        Noun::Exec(command) => exec::run(&context, command),
        Noun::Device(command) => device::run(&context, command),
        Noun::Doctor => device::doctor(&context),
        Noun::Serve(arguments) => {
            context.make_home()?;
            model::serve::run(&context, &arguments)
        }
        Noun::Chat(arguments) => {
            context.make_home()?;
            model::chat::run(&context, &arguments)
        }
        Noun::Dev(command) => dev::run(&context, command),
        Noun::Completions { shell } => completions::run(shell),
    }
}
