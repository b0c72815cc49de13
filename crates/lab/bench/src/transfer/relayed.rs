//! Our transfer through our own relay, as clients and providers at home have it today: a process of the
//! product, and two endpoints that know no other way.

use super::{
    cost,
    ours::{Anything, Ours, failed, store},
    rate,
};
use crate::{
    error::BenchError,
    figures::Figures,
    network::words,
    process::{Process, Usage, own_usage},
};
use opengpu_link::{
    Config, Endpoint, RelayUrl, Store,
    session::Router,
    transfer::{Holder, get},
};
use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// Names of the figures.
pub(super) const RELAYED: &str = "ours, cold, through our relay, MiB/s";
const COST: &str = "ours, cold, through our relay, CPU-us per MiB";

const PATIENCE: Duration = Duration::from_secs(10);

/// The relay, and whoever sends.
#[derive(Debug)]
pub(super) struct Relayed {
    url: RelayUrl,
    sender: Endpoint,
    relay: Process,
}

impl Relayed {
    pub(super) async fn start(
        opengpu: &Path,
        scratch: &Path,
        ours: &Ours,
    ) -> Result<Self, BenchError> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let listen = free.map_err(BenchError::system("looking for a free port"))?;
        let mut command = Command::new(opengpu);
        command.args(words(["relay", "run", "--listen", &listen.to_string()]));
        command.arg("--until-stdin-ends");
        let mut relay =
            Process::start_bound("the relay", &mut command, &scratch.join("relay.log"))?;
        let begun = Instant::now();
        while TcpStream::connect(listen).is_err() {
            relay.check()?;
            if begun.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(BenchError::Slow { what: "starting the relay", seconds });
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let url: RelayUrl = format!("http://{listen}").parse().map_err(failed)?;
        let sender = endpoint(4, &ours.store, &url).await?;
        Ok(Self { url, sender, relay })
    }

    /// One round.
    pub(super) async fn turn(
        &self,
        figures: &mut Figures,
        ours: &Ours,
        size: u64,
    ) -> Result<(), BenchError> {
        let folder =
            tempfile::tempdir_in(&ours.scratch).map_err(BenchError::system("making a folder"))?;
        let receiver = store(folder.path())?;
        let endpoint = endpoint(5, &receiver, &self.url).await?;
        let session = endpoint.dial(&self.sender.address()).await.map_err(failed)?;
        let (before, begun) = (self.usage(), Instant::now());
        let holders = std::slice::from_ref(&session);
        get(&receiver, ours.artifact, holders, |_| {}).await.map_err(failed)?;
        figures.add(RELAYED, rate(size, begun));
        figures.add(COST, cost(&before, &self.usage(), size));
        endpoint.close().await;
        Ok(())
    }

    fn usage(&self) -> Usage {
        [own_usage(), self.relay.usage()].into_iter().sum()
    }
}

/// An endpoint that its relay knows.
async fn endpoint(seed: u8, store: &Store, relay: &RelayUrl) -> Result<Endpoint, BenchError> {
    let router = Holder::new(store.clone(), Anything).answer_on(Router::default());
    let config = Config::on_relay([seed; 32], relay.clone());
    let endpoint = Endpoint::bind(config, router, |_| true).await.map_err(failed)?;
    let online = tokio::time::timeout(PATIENCE, endpoint.online()).await;
    let slow = BenchError::Slow { what: "the way to the relay", seconds: PATIENCE.as_secs() };
    online.map(|()| endpoint).map_err(|_| slow)
}
