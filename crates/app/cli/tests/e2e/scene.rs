//! A network with real processes for tests of tasks, what names it on a command line, and what the
//! chain says of a task and its money.

use crate::{
    dev::{opengpu, run, start, start_arguments, text},
    network::{Network, copy_folder, free_ports, import},
    providers::{Running, json, until},
};
use opengpu_client::{Rpc, devnet, market};
use opengpu_types::{Amount, Event, Height, Outcome, Task, TaskId};
use serde_json::Value;
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader},
    net::TcpStream,
    path::Path,
    process::{Command, Output, Stdio},
};

/// Runs for a moment.
pub(crate) const SHORT: &str = "opengpu:\n65536\n";
/// Runs for some seconds: as long as the fuel of its segments allows.
pub(crate) const LONG: &str = "opengpu:\n12000000\n";

/// What the search of half a minute gives.
pub(crate) const LONGER: &str = "bits 26\ntext opengpu:00000000030ca154\n\
    sha-256 000000212eff1f7eb59b7a117b47b0117b2aed145cabb67dbeb78ecd8dfcf035\n";

/// Lines of each log that a failed test shows.
const SHOWN_LINES: usize = 25;

pub(crate) fn example(name: &str) -> String {
    format!("{}/../../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Leaves a test out where the machine does not let it run; where all of them must run, that is a failure.
pub(crate) fn leave_out(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "CI must run this test and cannot: {why}");
    eprintln!("skipped: {why}");
}

/// A network, and what names it on a command line.
pub(crate) struct Scene {
    place: tempfile::TempDir,
    /// The node that is asked.
    pub(crate) node: String,
    relay: String,
    /// What ends with it: a whole network, or the relay of one.
    process: Option<Running>,
}

impl Scene {
    /// A network with one validator.
    pub(crate) fn new(providers: &str) -> Self {
        let (place, rpc) = (tempfile::tempdir().unwrap(), free_ports(3));
        let mut arguments = start_arguments(rpc, rpc + 1, rpc + 2);
        arguments.extend(["--validators", "1", "--providers", providers].map(str::to_owned));
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let process = Some(Running::new(start(place.path(), &arguments)));
        let [node, relay] = [rpc, rpc + 2].map(|port| format!("http://127.0.0.1:{port}"));
        Self { place, node, relay, process }
    }

    /// A relay and the wallets of users beside nodes that are there, of which the first is asked.
    pub(crate) fn beside(network: &Network) -> Self {
        let (place, port) = (tempfile::tempdir().unwrap(), free_ports(1));
        for name in [devnet::FAUCET].into_iter().chain(devnet::USERS) {
            import(&place.path().join("dev"), name, &network.wallet(name));
        }
        let listen = format!("127.0.0.1:{port}");
        let relay = opengpu(place.path(), &["relay", "run", "--listen", &listen])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = Some(Running::new(relay));
        until("the relay listens", || TcpStream::connect(&listen).is_ok());
        let node = network.nodes[0].rpc.url().to_owned();
        Self { place, node, relay: format!("http://{listen}"), process }
    }

    pub(crate) fn home(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn rpc(&self) -> Rpc {
        Rpc::new(&self.node)
    }

    pub(crate) fn arguments(&self, command: &[&str]) -> Vec<String> {
        let flags = ["--home", "dev", "--node", &self.node, "--yes"].map(str::to_owned);
        flags.into_iter().chain(command.iter().map(|word| (*word).to_owned())).collect()
    }

    /// A command that is not started yet.
    pub(crate) fn command(&self, command: &[&str]) -> Command {
        let arguments = self.arguments(command);
        opengpu(self.home(), &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn run(&self, command: &[&str]) -> Output {
        let arguments = self.arguments(command);
        run(self.home(), &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// What a command that succeeds prints for programs.
    pub(crate) fn json(&self, command: &[&str]) -> Value {
        let arguments = self.arguments(command);
        json(self.home(), &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.home().join(name), text).unwrap();
    }

    /// What the same program makes of the same input on this machine.
    pub(crate) fn undisturbed(&self, input: &str) -> Vec<u8> {
        let program = example("sha256-search");
        let ran = self.run(&["run", &program, "--local", "--input", input, "--out", "here.txt"]);
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran));
        fs::read(self.home().join("here.txt")).unwrap()
    }

    /// A search of alice that a process in the background attends, by its id.
    pub(crate) fn detached(&self, input: &str, more: &[&str]) -> String {
        self.detached_of(&example("sha256-search"), input, more)
    }

    fn detached_of(&self, program: &str, input: &str, more: &[&str]) -> String {
        let wanted = ["run", program, "--from", "alice", "--input", input, "--detach"];
        let detached = self.json(&[&wanted[..], more].concat());
        detached["task"].as_str().unwrap().to_owned()
    }

    /// The same of the search of [`Self::write_longer`].
    pub(crate) fn detached_longer(&self) -> String {
        self.write_longer();
        self.detached_of("longer", "longer/input.txt", &[])
    }

    /// A search in more segments with its input, which runs for half a minute and has the output
    /// [`LONGER`] on a machine that nobody disturbs.
    pub(crate) fn write_longer(&self) {
        let folder = self.home().join("longer");
        copy_folder(Path::new(&example("sha256-search")), &folder);
        let manifest = fs::read_to_string(folder.join("program.toml")).unwrap();
        let manifest = manifest.replace("segments = 64", "segments = 512");
        let manifest = manifest.replace("seconds = 60", "seconds = 600");
        fs::write(folder.join("program.toml"), manifest).unwrap();
        fs::write(folder.join("input.txt"), "opengpu:\n96000000\n").unwrap();
    }

    /// Waits for a task that completes, and gives its output.
    pub(crate) fn pulled(&self, task: &str) -> Vec<u8> {
        let pulled = self.json(&["pull", task]);
        assert_eq!(pulled["ended"], "completed", "{pulled}");
        fs::read(self.home().join(pulled["output_file"].as_str().unwrap())).unwrap()
    }

    /// A provider that is no part of the network's own processes.
    pub(crate) fn provider(&self, name: &str) -> Running {
        self.init_provider(name);
        self.start_provider(name, &["--sponsor", "faucet"])
    }

    /// The folder and the wallet of a provider.
    pub(crate) fn init_provider(&self, name: &str) {
        self.init_provider_with(name, &[]);
    }

    /// The same with more that is said about it.
    pub(crate) fn init_provider_with(&self, name: &str, more: &[&str]) {
        self.init_provider_at(name, "0.001 oGPU", more);
    }

    /// The same for another rate.
    pub(crate) fn init_provider_at(&self, name: &str, rate: &str, more: &[&str]) {
        let init = ["provider", "init", "--data", name, "--rate", rate, "--seconds", "1"];
        let made = self.run(&[&init[..], &["--relay", &self.relay], more].concat());
        assert_eq!(made.status.code(), Some(0), "{}", text(&made));
        let wallet = ["wallet", "new", name, "--no-passphrase", "--show-phrase"];
        assert_eq!(self.run(&wallet).status.code(), Some(0));
    }

    /// Starts a provider on its folder, and waits until it offers its device.
    pub(crate) fn start_provider(&self, name: &str, more: &[&str]) -> Running {
        let start = ["provider", "start", "--data", name, "--wallet", name];
        self.start_as_provider(name, &mut self.command(&[&start[..], more].concat()))
    }

    /// The same with a command that is more than that.
    pub(crate) fn start_as_provider(&self, name: &str, command: &mut Command) -> Running {
        let path = self.home().join(format!("{name}.log"));
        let log = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let running = Running::new(child);
        let ready = lines.any(|line| line.unwrap().starts_with("Ready: "));
        assert!(ready, "{name} did not start: {}", fs::read_to_string(path).unwrap());
        running
    }

    pub(crate) fn account(&self, name: &str) -> String {
        let wallets = self.json(&["wallet", "list"]);
        let wallet = wallets.as_array().unwrap().iter().find(|it| it["name"] == name);
        wallet.unwrap()["address"].as_str().unwrap().to_owned()
    }

    pub(crate) fn journal(&self, task: &str) -> String {
        let path = self.home().join("dev/tasks").join(task).join("journal");
        fs::read_to_string(path).unwrap_or_default()
    }

    /// The task on chain.
    pub(crate) fn on_chain(&self, task: &str) -> Task {
        market::task(&self.rpc(), task.parse().unwrap()).unwrap().unwrap()
    }

    /// The segment that the newest lease of a task has committed to; zero if it has none.
    pub(crate) fn reached(&self, task: &str) -> u32 {
        let task = self.on_chain(task);
        let commitment = task.leases.iter().filter_map(|lease| lease.commitment).next_back();
        commitment.map_or(0, |commitment| commitment.reached.index.0)
    }

    /// Reads all blocks: a task that completed has ended once, each of its leases has ended once, all
    /// its money has moved, and no segment was paid twice.
    pub(crate) fn assert_paid_once(&self, task: &str) -> Task {
        let (rpc, id, entry) = (self.rpc(), task.parse().unwrap(), self.on_chain(task));
        let (ends, leases) = closings(&rpc, id);
        assert_eq!(ends, [(entry.paid, entry.refunded)], "it ends once");
        assert_eq!(entry.paid.plus(entry.refunded), Some(entry.deposited), "{entry:?}");
        assert_eq!(leases.len(), entry.leases.len(), "{leases:?}");
        let (mut sum, mut done) = (Amount::ZERO, 0);
        for (number, lease) in (0..).zip(entry.leases.iter()) {
            assert_eq!(leases[&number], [lease.paid], "lease {number} ends once: {entry:?}");
            sum = sum.plus(lease.paid).unwrap();
            let Some(commitment) = lease.commitment else {
                assert_eq!(lease.paid, Amount::ZERO, "for nothing: {lease:?}");
                continue;
            };
            let from = lease.from.map_or(0, |from| from.index.0);
            assert_eq!(from, done, "it goes on where the one before ended: {:?}", entry.leases);
            done = commitment.reached.index.0;
        }
        assert_eq!((sum, done), (entry.paid, entry.spec.segments), "{entry:?}");
        assert!(!entry.paid.is_zero(), "{entry:?}");
        entry
    }
}

/// What was paid at every end of each lease.
type LeaseEnds = BTreeMap<u8, Vec<Amount>>;

/// Paid and refunded of every end of a task, and the ends of its leases.
fn closings(rpc: &Rpc, id: TaskId) -> (Vec<(Amount, Amount)>, LeaseEnds) {
    let (mut ends, mut leases) = (Vec::new(), LeaseEnds::new());
    for height in 1..=rpc.status().unwrap().height.0 {
        let receipts = rpc.receipts(Height(height)).unwrap();
        let applied = receipts.iter().filter(|receipt| receipt.outcome == Outcome::Applied);
        for event in applied.flat_map(|receipt| &receipt.events) {
            match event {
                Event::LeaseClosed { lease, paid, .. } if lease.task == id => {
                    leases.entry(lease.number).or_default().push(*paid);
                }
                Event::TaskClosed { task, paid, refunded, .. } if *task == id => {
                    ends.push((*paid, *refunded));
                }
                _ => {}
            }
        }
    }
    (ends, leases)
}

impl Drop for Scene {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.process.take().unwrap().stop();
            return;
        }
        // What providers said, and what happened to tasks.
        let logs = fs::read_dir(self.home()).into_iter().flatten().flatten().map(|it| it.path());
        let logs = logs.filter(|path| path.extension().is_some_and(|it| it == "log"));
        let tasks = fs::read_dir(self.home().join("dev/tasks")).into_iter().flatten().flatten();
        for path in logs.chain(tasks.map(|it| it.path().join("journal"))) {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let shown = &lines[lines.len().saturating_sub(SHOWN_LINES)..];
            eprintln!("the end of {}:\n{}\n", path.display(), shown.join("\n"));
        }
    }
}
