//! Providers of a local network: real ones, each with its own folder and account, that take whatever
//! they can run for little money.
//!
//! The device of this machine is measured once, and briefly: all of them offer the same one.

use super::{
    START_PATIENCE,
    network::{Network, PROVIDER},
    processes::{Processes, Stop},
    transfer, wait_until,
};
use crate::{
    context::Context,
    provider::{Folder, Measured, Settings, Wanted, measure, tell},
};
use anyhow::Result;
use opengpu_client::devnet;
use opengpu_exec::Registry;
use opengpu_types::{Amount, Member as _, ProgramKind, Trust};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

/// Most providers of a network on one machine.
pub(super) const MOST: u8 = 8;
/// What measuring may take.
const BUDGET: Duration = Duration::from_secs(2);
/// Tokens with which a provider begins.
const FUNDS: Amount = Amount::whole(100);
/// What each has staked of them: who has nothing to pledge verifies nothing.
const STAKE: Amount = Amount::whole(10);
/// Least for a second.
const RATE: &str = "0.001 oGPU";
/// What a liar takes: it wins, also against those who were faster than they had said.
const LIARS_RATE: &str = "0.00002 oGPU";

/// A provider of the network.
#[derive(Clone, Debug)]
pub(super) struct DevProvider {
    pub(super) name: String,
    /// Key of its account.
    pub(super) wallet: String,
    pub(super) folder: Folder,
}

impl DevProvider {
    fn new(network: &Network, index: u8) -> Self {
        let folder = network.path().join("providers").join(index.to_string());
        Self {
            name: format!("provider {index}"),
            wallet: format!("{PROVIDER}{index}"),
            folder: Folder::new(folder),
        }
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("provider.log")
    }

    fn arguments(&self, network: &Network) -> Result<Vec<OsString>> {
        let words: [OsString; 13] = [
            "provider".into(),
            "start".into(),
            "--data".into(),
            self.folder.path().into(),
            "--home".into(),
            network.path().into(),
            "--node".into(),
            network.rpc_url()?.into(),
            "--wallet".into(),
            self.wallet.clone().into(),
            "--stake".into(),
            STAKE.to_string().into(),
            "--until-stdin-ends".into(),
        ];
        Ok(words.to_vec())
    }

    /// Makes its folder, its key and its account, unless they are there. What is measured for one is known
    /// for the next.
    fn create(
        &self,
        context: &Context,
        network: &Network,
        rate: &str,
        measured: &mut Option<Vec<Measured>>,
    ) -> Result<()> {
        if !self.folder.is_taken() {
            let known = measured.take().map_or_else(
                || measure(context, &[], BUDGET, None),
                Ok::<Vec<Measured>, anyhow::Error>,
            )?;
            // They share this machine, so each has one device of it.
            let one = known.get(..1).unwrap_or(&[]);
            self.folder.create(&settings(network, rate, one), one)?;
            *measured = Some(known);
        }
        fund(network, self)
    }

    /// Waits until it stands on the chain and answers its owner.
    fn wait(&self, processes: &mut Processes, stop: &Stop) -> Result<()> {
        let what = format!("{} to be ready", self.name);
        wait_until(&what, START_PATIENCE, processes, stop, || {
            let report = tell(&self.folder.socket(), &Wanted::Status);
            Ok(report.is_ok_and(|report| report.on_chain.is_some()))
        })
    }
}

/// Starts so many providers in a network whose nodes answer, and waits until all are ready.
pub(super) fn start(
    context: &Context,
    network: &Network,
    count: u8,
    processes: &mut Processes,
    stop: &Stop,
) -> Result<Vec<DevProvider>> {
    let providers: Vec<_> = (0..count).map(|index| DevProvider::new(network, index)).collect();
    let mut measured = None;
    for provider in &providers {
        provider.create(context, network, RATE, &mut measured)?;
        processes.run(&provider.name, provider.log(), provider.arguments(network)?)?;
    }
    for provider in &providers {
        provider.wait(processes, stop)?;
    }
    Ok(providers)
}

/// Starts one more that is another build of this binary, takes less than the others, and does not do what
/// it says.
pub(super) fn start_liar(
    (context, network): (&Context, &Network),
    index: u8,
    binary: &Path,
    processes: &mut Processes,
    stop: &Stop,
) -> Result<DevProvider> {
    let liar = DevProvider { name: "the liar".to_owned(), ..DevProvider::new(network, index) };
    // It says of its device what the others say.
    let mut measured = Some(DevProvider::new(network, 0).folder.measured()?);
    liar.create(context, network, LIARS_RATE, &mut measured)?;
    processes.run_build(binary, &liar.name, liar.log(), liar.arguments(network)?)?;
    liar.wait(processes, stop)?;
    Ok(liar)
}

/// Makes its account, with some tokens, unless it is there.
fn fund(network: &Network, provider: &DevProvider) -> Result<()> {
    let owner = network.wallet_or_new(&provider.wallet)?;
    let rpc = network.rpc()?;
    if !rpc.account(owner.account)?.exists {
        transfer(network, &rpc, devnet::FAUCET, owner.account, FUNDS)?;
    }
    Ok(())
}

fn settings(network: &Network, rate: &str, measured: &[Measured]) -> Settings {
    Settings {
        devices: measured.iter().map(|it| it.id().into_owned()).collect(),
        rate: Some(rate.to_owned()),
        kilowatt_hour: None,
        margin: None,
        kinds: kinds(measured).iter().map(ToString::to_string).collect(),
        trusts: Trust::ALL.iter().map(ToString::to_string).collect(),
        longest: "12h".to_owned(),
        most_leases: 1,
        hours: Vec::new(),
        clock_ahead_minutes: 0,
        idle_only: false,
        region: "local".to_owned(),
        denied: Vec::new(),
        reliability: "0%".to_owned(),
        relay: Some(network.relay_url()),
        direct: Some(([127, 0, 0, 1], 0).into()),
        quota_gib: 16,
        hold_gib: 4,
    }
}

/// Everything that runs on this machine.
fn kinds(measured: &[Measured]) -> Vec<ProgramKind> {
    let probed = Registry::default().probe().into_iter();
    let runs = probed.filter(|(_, found)| found.is_ok());
    let kinds = runs.filter_map(|(kind, _)| kind.to_string().parse::<ProgramKind>().ok());
    kinds.filter(|kind| *kind != ProgramKind::Gpu || measured.iter().any(|it| it.kernels)).collect()
}
