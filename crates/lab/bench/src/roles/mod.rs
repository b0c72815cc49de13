//! What each role costs before it does anything: memory at rest, and how soon the first task is done.
//!
//! ```text
//!   [ network starts ]
//!   [ provider: start, first task, rest | start, rest ] [ gateway ] [ NATS ] [ Ray ]  x rounds
//!   [ validators, relay ] [ a client that waits for its provider ]
//! ```
//!
//! - Memory is what is resident of a process and everything below it, after some seconds of rest.
//! - A provider that was here before is started again; the clock begins with its process. As soon as it
//!   says that it stands on chain a task that does nothing is submitted by spot, and the clock stops when
//!   that is settled and its output is here.
//! - A peer's first task is its own: a call of Ray that is answered, a reply through NATS.

mod alone;

use crate::{
    error::BenchError,
    figures::{Figures, float},
    machine,
    network::{Cast, Member, Scene},
    peer::{Nats, Script},
    process::{self, Usage},
    report::{Report, absent},
    tasks::{client::Submitter, items},
    tell,
    told::Told,
    want::{Sense, Want},
};
use alone::{attending, gateway};
use clap::Parser;
use opengpu_crypto::Keypair;
use opengpu_types::{Amount, Trust};
use rand::{SeedableRng as _, rngs::StdRng};
use serde_json::{Map, Value, json};
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Of which benchmark the figures are.
const ID: &str = "B10";
/// Names of the figures.
const PROVIDER: &str = "idle provider, MiB";
const WORKED: &str = "provider after a task, MiB";
const READY: &str = "provider, start to standing on chain, ms";
const FIRST: &str = "provider, start to first task settled, ms";
const WARM: &str = "provider, the task after that, ms";
const VALIDATOR: &str = "idle validator, MiB";
const RELAY: &str = "idle relay, MiB";
const CLIENT: &str = "client that waits for its provider, MiB";
const GATEWAY: &str = "idle gateway, MiB";
const GATEWAY_READY: &str = "gateway, start to first answer, ms";
const NATS: &str = "idle NATS server, MiB";
const NATS_FIRST: &str = "NATS server, start to first reply, ms";
const RAY: &str = "idle Ray, MiB";
const RAY_FIRST: &str = "Ray, start to first task, ms";

const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Measures roles at rest.
#[derive(Clone, Debug, Parser)]
#[command(name = "bench-roles")]
pub struct Program {
    #[command(flatten)]
    told: Told,
    /// Starts of each.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of rest before memory is looked at.
    #[arg(long, default_value_t = 5)]
    rest: u64,
    /// Keep the folder of the network with all logs.
    #[arg(long)]
    keep: bool,
}

/// Measures everything and says so.
pub fn run(mut program: Program) -> Result<(), BenchError> {
    if program.told.quick {
        (program.rounds, program.rest) = (program.rounds.min(1), program.rest.min(2));
    }
    process::end_with_us()?;
    let begun = machine::now();
    tell(format!("load average {:.2}", machine::load_average()));
    let place = tempfile::tempdir().map_err(BenchError::system("making a folder"))?;
    let measured = Measuring::start(&program, place.path()).and_then(|mut it| {
        it.measure(&program)?;
        Ok((it.figures, it.missing))
    });
    if program.keep || measured.is_err() {
        tell(format!("all logs are in {}", place.keep().display()));
    }
    let (figures, missing) = measured?;
    let notes = absent(&missing);
    let mut more = Map::new();
    more.insert("rounds".to_owned(), json!(figures.0));
    more.insert("load".to_owned(), json!(machine::load_average()));
    more.insert("no_peer".to_owned(), Value::Object(missing));
    let (rows, wants) = (figures.rows(), wants(&figures));
    Report { bench: "roles", begun, rows, notes, wants, more }.publish(&program.told)
}

fn wants(figures: &Figures) -> Vec<Want> {
    let want = |name, wanted| {
        let measured = figures.middle(name);
        Want { id: ID, name, measured, sense: Sense::AtMost, wanted }
    };
    vec![want(PROVIDER, 32.0), want(GATEWAY, 64.0), want(FIRST, 300.0)]
}

/// Everything that runs.
struct Measuring {
    scene: Scene,
    submitter: Submitter,
    nothing: opengpu_exec::Program,
    client: Keypair,
    figures: Figures,
    missing: Map<String, Value>,
    rest: Duration,
}

impl Measuring {
    fn start(program: &Program, folder: &Path) -> Result<Self, BenchError> {
        let mut rng = StdRng::seed_from_u64(machine::now());
        let clients = [Keypair::generate_ed25519(&mut rng), Keypair::generate_ed25519(&mut rng)];
        let cast = Cast { providers: 1, stake: Amount::whole(500), clients: &clients };
        let mut scene = Scene::make(&program.told.opengpu, folder, &cast, &mut rng)?;
        scene.start()?;
        let [keypair, client] = clients;
        let submitter = Submitter::open(&scene, &folder.join("client"), keypair)?;
        let nothing = items::program(&folder.join("nothing"), 1)?;
        let (figures, missing) = (Figures::default(), Map::new());
        let rest = Duration::from_secs(program.rest);
        let mut it = Self { scene, submitter, nothing, client, figures, missing, rest };
        // What everybody fetches once is not part of a start.
        it.task()?;
        Ok(it)
    }

    fn measure(&mut self, program: &Program) -> Result<(), BenchError> {
        for round in 1..=program.rounds {
            self.provider()?;
            gateway(&self.scene, self.rest, &mut self.figures)?;
            self.peers(&program.told)?;
            tell(format!("round {round}, load {:.2}", machine::load_average()));
        }
        let (nodes, relay) = (&self.scene.nodes, &self.scene.relay);
        for node in nodes.iter().filter_map(Member::usage) {
            self.figures.add(VALIDATOR, mebibytes(node));
        }
        self.figures.add(RELAY, mebibytes(relay.usage().unwrap_or_default()));
        // Nobody answers the client, so it attends for as long as it takes to look.
        self.stop();
        attending(&self.scene, &self.client, self.nothing.folder(), self.rest, &mut self.figures)
    }

    /// A provider that does a task at once, and one that does nothing.
    fn provider(&mut self) -> Result<(), BenchError> {
        self.stop();
        let begun = Instant::now();
        self.begin(begun)?;
        self.figures.add(READY, milliseconds(begun));
        self.task()?;
        self.figures.add(FIRST, milliseconds(begun));
        let begun = Instant::now();
        self.task()?;
        self.figures.add(WARM, milliseconds(begun));
        self.settle(WORKED);
        self.stop();
        self.begin(Instant::now())?;
        self.settle(PROVIDER);
        Ok(())
    }

    fn stop(&mut self) {
        self.scene.providers.iter_mut().for_each(Member::stop);
    }

    /// Starts the provider and waits until it says that it stands on chain.
    fn begin(&mut self, begun: Instant) -> Result<(), BenchError> {
        self.scene.providers.iter_mut().try_for_each(Member::start)?;
        while !self.scene.stands(0) {
            if begun.elapsed() > PATIENCE {
                let seconds = PATIENCE.as_secs();
                return Err(BenchError::Slow { what: "starting the provider", seconds });
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn task(&mut self) -> Result<(), BenchError> {
        self.submitter.run(&self.nothing, &items::input(1), Trust::Fast).map(drop)
    }

    /// Lets the provider rest, and looks at its memory.
    fn settle(&mut self, name: &'static str) {
        thread::sleep(self.rest);
        let usage = self.scene.providers.iter().find_map(Member::usage);
        self.figures.add(name, mebibytes(usage.unwrap_or_default()));
    }

    fn peers(&mut self, told: &Told) -> Result<(), BenchError> {
        let folder = self.scene.folder.clone();
        match told.peer("nats") {
            Ok(program) => {
                let nats = Nats::start(&program, &folder)?;
                thread::sleep(self.rest);
                self.figures.add(NATS_FIRST, nats.first.as_secs_f64() * 1e3);
                self.figures.add(NATS, mebibytes(nats.usage()));
            }
            Err(why) => drop(self.missing.insert("nats".to_owned(), json!(why))),
        }
        match told.peer("ray") {
            Ok(python) => {
                let ray = Script::ray(&python, &folder)?;
                thread::sleep(self.rest);
                self.figures.add(RAY_FIRST, ray.first.as_secs_f64() * 1e3);
                self.figures.add(RAY, mebibytes(ray.usage()));
            }
            Err(why) => drop(self.missing.insert("ray".to_owned(), json!(why))),
        }
        Ok(())
    }
}

fn mebibytes(usage: Usage) -> f64 {
    float(usage.resident) / f64::from(1 << 20)
}

fn milliseconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}
