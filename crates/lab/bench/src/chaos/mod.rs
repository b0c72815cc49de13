//! Processes of all roles are killed under load, and nothing may be lost, paid twice or forked.
//!
//! ```text
//!   [ network starts ] [ clients submit; a kill every few seconds, of a role with work in flight ]
//!   [ all come back, every task ends ] [ all blocks of all nodes are read ]
//! ```
//!
//! - A kill is SIGKILL for one process. It is started again a second later, on the same folder.
//! - A validator is killed while tasks are open and all four are at the head, a provider while it runs
//!   a lease, a client while its task is open, the relay while a lease runs.
//! - Lost is a task on chain that does not complete with the output that the same program gives on
//!   this machine undisturbed.
//! - Paid twice is a task or a lease that was closed twice, or whose escrow did not move exactly once.
//! - A fork is a height at which two nodes have different blocks.

mod books;
mod client;
mod tally;

use crate::{
    error::BenchError,
    machine,
    network::{Cast, Role, Scene, short, wait},
    process, tell,
};
use books::{Books, Verdicts, forks};
use clap::Parser;
use client::Client;
use opengpu_client::{Rpc, market};
use opengpu_crypto::Keypair;
use opengpu_types::{Address, Amount, Height, Outcome, TaskId};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
use tally::{Goal, Tally};

/// Between two kills: some more are tried than are wanted.
const PACE: Duration = Duration::from_millis(2_300);
/// Kills that are wanted in a minute, and of each role.
const WANTED: f64 = 20.0;
const WANTED_EACH: f64 = 10.0 / 3.0;
/// Between two kills even if some are late.
const LEAST_GAP: Duration = Duration::from_millis(800);
/// How long the members of a role must have been there before one of them is killed.
const SETTLED: Duration = Duration::from_secs(2);
/// Blocks by which nodes that are at the head may differ.
const HEAD: u64 = 3;
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PROVIDERS: usize = 4;
/// How often is told what is waited for.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Kills processes of all roles under load.
#[derive(Clone, Debug, Parser)]
#[command(name = "chaos")]
pub struct Program {
    /// The product's binary.
    #[arg(long, value_name = "PATH")]
    opengpu: PathBuf,
    /// Folder of the program that tasks run.
    #[arg(long, value_name = "FOLDER")]
    program: PathBuf,
    /// For how long processes are killed.
    #[arg(long, default_value_t = 3.0)]
    minutes: f64,
    /// Clients, each with a task at a time; with more than the four providers some wait for one.
    #[arg(long, default_value_t = 5)]
    clients: u8,
    /// For how many seconds tasks may come to their end after that.
    #[arg(long, default_value_t = 180)]
    drain: u64,
    /// Keep the folder of the network with all logs, also if all is well.
    #[arg(long)]
    keep: bool,
    /// Decides who is killed; drawn and printed if absent.
    #[arg(long)]
    seed: Option<u64>,
}

/// Kills, waits and reads the books; whether all is well.
#[expect(clippy::print_stdout, reason = "a program that reports")]
pub fn run(program: &Program) -> Result<bool, BenchError> {
    process::end_with_us()?;
    let seed = program.seed.unwrap_or_else(machine::now);
    tell(format!("seed {seed}, load average {:.2}", machine::load_average()));
    let place = tempfile::tempdir().map_err(BenchError::system("making a folder"))?;
    let span = Duration::try_from_secs_f64(program.minutes.max(0.0) * 60.0)
        .map_err(|_| BenchError::Nothing("so many minutes"))?;
    let mut chaos = match Chaos::begin(program, place.path(), seed) {
        Ok(chaos) => chaos,
        Err(error) => {
            tell(format!("all logs are in {}", place.keep().display()));
            return Err(error);
        }
    };
    let verdicts = chaos.go(span, Duration::from_secs(program.drain));
    chaos.stop();
    let clean = verdicts.as_ref().is_ok_and(Verdicts::is_clean);
    let goal = goal(program.minutes);
    let enough = chaos.tally.reaches(goal);
    if !clean || program.keep {
        tell(format!("all logs are in {}", place.keep().display()));
    }
    let verdicts = verdicts?;
    let Verdicts { lost, paid_twice, forks } = &verdicts;
    for (kind, found) in [("lost", lost), ("paid twice", paid_twice), ("fork", forks)] {
        found.iter().for_each(|what| println!("{kind}: {what}"));
    }
    println!("\n{}", chaos.tally.table());
    println!("load average {:.2}, {}", machine::load_average(), chaos.seen);
    if !enough {
        println!("wanted: {} kills, {} of each role", goal.kills, goal.each);
    }
    println!("{}", chaos.tally.last_line(&verdicts));
    Ok(clean && enough)
}

/// What must be killed in so many minutes. Less than a minute only shows that all of it works: whether
/// every role was met then is chance.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "small numbers that are not negative"
)]
fn goal(minutes: f64) -> Goal {
    if minutes < 1.0 {
        return Goal { kills: 1, each: 0 };
    }
    let kills = (minutes * WANTED).floor() as u32;
    Goal { kills, each: ((minutes * WANTED_EACH).floor() as u32).max(1) }
}

struct Chaos {
    scene: Scene,
    clients: Vec<Client>,
    tally: Tally,
    rng: StdRng,
    begin: Instant,
    /// What was read at the end, in words.
    seen: String,
}

impl Chaos {
    fn begin(program: &Program, folder: &std::path::Path, seed: u64) -> Result<Self, BenchError> {
        let mut rng = StdRng::seed_from_u64(seed);
        let wallets: Vec<_> =
            (0..program.clients).map(|_| Keypair::generate_ed25519(&mut rng)).collect();
        let opengpu = std::path::absolute(&program.opengpu);
        let opengpu = opengpu.map_err(BenchError::system("finding the product"))?;
        let mut scene = {
            let cast = Cast { providers: PROVIDERS, stake: Amount::ZERO, clients: &wallets };
            Scene::make(&opengpu, folder, &cast, &mut rng)?
        };
        scene.start()?;
        let mut clients = Vec::new();
        for (number, keypair) in wallets.iter().enumerate() {
            clients.push(Client::new(&scene, number, keypair, &program.program, &mut rng)?);
        }
        let (tally, begin) = (Tally::default(), Instant::now());
        Ok(Self { scene, clients, tally, rng, begin, seen: String::new() })
    }

    /// All of it, with what went wrong.
    fn go(&mut self, span: Duration, drain: Duration) -> Result<Verdicts, BenchError> {
        let mut next = Duration::from_secs(3);
        let mut last = Duration::ZERO;
        self.begin = Instant::now();
        while self.begin.elapsed() < span {
            self.tend(true)?;
            let now = self.begin.elapsed();
            if now >= next && now.saturating_sub(last) >= LEAST_GAP && self.strike()? {
                next = next.saturating_add(PACE);
                last = now;
            }
            thread::sleep(LOOK_EVERY);
        }
        self.say("no more kills; all come back");
        self.drain(drain)?;
        self.read()
    }

    fn say(&self, what: impl std::fmt::Display) {
        tell(format!("{:6.1} s  {what}", self.begin.elapsed().as_secs_f64()));
    }

    /// A node that answers.
    fn rpc(&self) -> Option<Rpc> {
        self.scene.rpcs.iter().find(|rpc| rpc.is_ready()).cloned()
    }

    /// Starts again what is dead.
    fn tend(&mut self, more: bool) -> Result<(), BenchError> {
        let mut ended = Vec::new();
        for member in self.scene.members() {
            if member.tend()? {
                ended.push((member.role, member.name.clone()));
            }
        }
        let rpc = self.rpc();
        for client in &mut self.clients {
            if client.tend(rpc.as_ref(), more)? {
                self.tally.ended_by_itself(Role::Client);
            }
        }
        for (role, name) in ended {
            self.tally.ended_by_itself(role);
            self.say(format!("{name} ended by itself"));
        }
        Ok(())
    }

    /// Kills one process of the role that was killed least and has something in flight.
    fn strike(&mut self) -> Result<bool, BenchError> {
        let mut roles = Role::ALL;
        roles.sort_by_key(|role| self.tally.kills_of(*role));
        for role in roles {
            let struck = match role {
                Role::Validator => self.strike_validator()?,
                Role::Provider => self.strike_provider()?,
                Role::Client => self.strike_client()?,
                Role::Relay => self.strike_relay()?,
            };
            if let Some(what) = struck {
                self.tally.kill(role);
                self.say(format!("kill {:>3}: {what}", self.tally.kills()));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many tasks are open.
    fn open_tasks(&self) -> usize {
        let Some(rpc) = self.rpc() else { return 0 };
        self.clients.iter().filter(|client| client.open_task(&rpc).is_some()).count()
    }

    fn strike_validator(&mut self) -> Result<Option<String>, BenchError> {
        if !self.scene.nodes.iter().all(|node| node.is_up_for(SETTLED)) {
            return Ok(None);
        }
        let heights: Vec<_> = self.heights().collect();
        let (least, most) = (heights.iter().min().copied(), heights.iter().max().copied());
        let (Some(least), Some(most)) = (least, most) else { return Ok(None) };
        let open = self.open_tasks();
        if least == 0 || most.saturating_sub(least) > HEAD || open == 0 {
            return Ok(None);
        }
        let place = self.rng.random_range(0..self.scene.nodes.len());
        let Some(node) = self.scene.nodes.get_mut(place) else { return Ok(None) };
        node.kill()?;
        Ok(Some(format!("{} at height {most}, {open} tasks open", node.name)))
    }

    fn strike_provider(&mut self) -> Result<Option<String>, BenchError> {
        if !self.scene.providers.iter().all(|provider| provider.is_up_for(SETTLED)) {
            return Ok(None);
        }
        let running = |index| Some((index, self.scene.running_lease(index)?));
        let mut busy: Vec<_> = (0..self.scene.providers.len()).filter_map(running).collect();
        if busy.is_empty() {
            return Ok(None);
        }
        let (index, what) = busy.swap_remove(self.rng.random_range(0..busy.len()));
        let Some(provider) = self.scene.providers.get_mut(index) else { return Ok(None) };
        provider.kill()?;
        Ok(Some(format!("{}, {what}", provider.name)))
    }

    fn strike_client(&mut self) -> Result<Option<String>, BenchError> {
        let Some(rpc) = self.rpc() else { return Ok(None) };
        let open = |(index, client): (usize, &Client)| Some((index, client.open_task(&rpc)?));
        let mut open: Vec<_> = self.clients.iter().enumerate().filter_map(open).collect();
        if open.is_empty() {
            return Ok(None);
        }
        let (index, (id, task)) = open.swap_remove(self.rng.random_range(0..open.len()));
        let Some(client) = self.clients.get_mut(index) else { return Ok(None) };
        client.kill()?;
        let (id, leases) = (short(&id.to_string()), task.leases.len());
        Ok(Some(format!("{}, task {id} open with {leases} leases", client.name)))
    }

    fn strike_relay(&mut self) -> Result<Option<String>, BenchError> {
        let places = 0..self.scene.providers.len();
        let running = places.filter(|index| self.scene.running_lease(*index).is_some()).count();
        if running == 0 || !self.scene.relay.is_up_for(SETTLED) {
            return Ok(None);
        }
        self.scene.relay.kill()?;
        Ok(Some(format!("relay, {running} leases running")))
    }

    /// Lets every task end.
    fn drain(&mut self, patience: Duration) -> Result<(), BenchError> {
        let (begin, mut told) = (Instant::now(), Instant::now());
        while begin.elapsed() < patience {
            self.tend(false)?;
            if told.elapsed() >= TELL_EVERY {
                told = Instant::now();
                let left = self.clients.iter().filter_map(Client::newest);
                left.for_each(|newest| self.say(newest));
            }
            let expected = self.clients.iter_mut().all(Client::is_expected_known);
            if expected && self.clients.iter().all(Client::is_idle) && !self.take_up() {
                self.say("every task has ended");
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        // The block in which the last task ended is read from all nodes.
        let ended = self.heights().max().unwrap_or(0);
        wait("all nodes at the head", || {
            self.tend(false)?;
            Ok(self.heights().all(|height| height >= ended.max(1)))
        })
    }

    /// The height of each node, zero where it does not answer.
    fn heights(&self) -> impl Iterator<Item = u64> {
        self.scene.rpcs.iter().map(height)
    }

    /// Takes up tasks that are open on chain and that their clients gave up; whether there are any.
    fn take_up(&mut self) -> bool {
        let Some(rpc) = self.rpc() else { return true };
        let mut any = false;
        for client in &mut self.clients {
            let Ok(open) = market::open_tasks(&rpc, client.address) else { return true };
            for (id, _) in open {
                client.take_up(id);
                any = true;
            }
        }
        any
    }

    /// Reads all blocks of all nodes.
    fn read(&mut self) -> Result<Verdicts, BenchError> {
        let head = self.heights().min().unwrap_or(0);
        let (mut books, mut blocks) = (Books::default(), BTreeMap::new());
        for height in (1..=head).map(Height) {
            let digests = self.scene.rpcs.iter().enumerate();
            let digests = digests
                .filter_map(|(index, rpc)| Some((index, rpc.block(Some(height)).ok()?.digest)));
            blocks.insert(height, digests.collect::<BTreeMap<_, _>>());
            let receipts = self.scene.rpcs.iter().find_map(|rpc| rpc.receipts(height).ok());
            let receipts = receipts.ok_or(BenchError::Nothing("no node has all receipts"))?;
            let applied = receipts.iter().filter(|it| it.outcome == Outcome::Applied);
            applied.flat_map(|it| &it.events).for_each(|event| books.take(event));
        }
        let alone = blocks.values().filter(|digests| digests.len() < self.scene.rpcs.len()).count();
        self.seen = format!(
            "{} tasks with {} leases in {head} blocks; {alone} blocks are not on every node",
            books.len(),
            books.leases()
        );
        let is_right = |client: Address, id: TaskId| {
            self.clients.iter().any(|it| it.address == client && it.is_right(id))
        };
        let (lost, paid_twice) = (books.lost(is_right), books.paid_twice());
        Ok(Verdicts { lost, paid_twice, forks: forks(&blocks) })
    }

    /// Ends every process.
    fn stop(&mut self) {
        for client in &mut self.clients {
            let _ = client.kill();
        }
        self.clients.clear();
        self.scene.providers.clear();
        self.scene.nodes.clear();
    }
}

/// The height of a node that answers, else zero.
fn height(rpc: &Rpc) -> u64 {
    rpc.status().map_or(0, |status| status.height.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_grows_with_the_minutes() {
        assert_eq!(goal(3.0), Goal { kills: 60, each: 10 });
        assert_eq!(goal(1.0), Goal { kills: 20, each: 3 });
        assert_eq!(goal(0.25), Goal { kills: 1, each: 0 });
    }
}
