//! Tasks with real processes: run, fetched, checked offline, and gone on with when a provider dies.

use crate::{
    dev::{opengpu, run, start, start_arguments, text},
    network::free_ports,
    providers::{Running, json, until},
};
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Output, Stdio},
};

/// Runs for a moment.
const SHORT: &str = "opengpu:\n65536\n";
/// Runs for some ten seconds.
const LONG: &str = "opengpu:\n12000000\n";

fn example(name: &str) -> String {
    format!("{}/../../../examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// A network, and what names it on a command line.
struct Scene {
    place: tempfile::TempDir,
    rpc: u16,
    network: Option<Running>,
}

impl Scene {
    fn new(providers: &str) -> Self {
        let (place, rpc) = (tempfile::tempdir().unwrap(), free_ports(3));
        let mut arguments = start_arguments(rpc, rpc + 1, rpc + 2);
        arguments.extend(["--validators", "1", "--providers", providers].map(str::to_owned));
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let network = Some(Running::new(start(place.path(), &arguments)));
        Self { place, rpc, network }
    }

    fn home(&self) -> &Path {
        self.place.path()
    }

    fn arguments(&self, command: &[&str]) -> Vec<String> {
        let node = format!("http://127.0.0.1:{}", self.rpc);
        let flags = ["--home", "dev", "--node", &node, "--yes"].map(str::to_owned);
        flags.into_iter().chain(command.iter().map(|word| (*word).to_owned())).collect()
    }

    fn run(&self, command: &[&str]) -> Output {
        let arguments = self.arguments(command);
        run(self.home(), &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn json(&self, command: &[&str]) -> Value {
        let arguments = self.arguments(command);
        json(self.home(), &arguments.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.home().join(name), text).unwrap();
    }

    /// What the same program makes of the same input on this machine.
    fn undisturbed(&self, input: &str) -> Vec<u8> {
        let program = example("sha256-search");
        let ran = self.run(&["run", &program, "--local", "--input", input, "--out", "here.txt"]);
        assert_eq!(ran.status.code(), Some(0), "{}", text(&ran));
        std::fs::read(self.home().join("here.txt")).unwrap()
    }

    /// A provider that is no part of the network's own processes.
    fn provider(&self, name: &str) -> Running {
        let relay = format!("http://127.0.0.1:{}", self.rpc + 2);
        let init = ["provider", "init", "--data", name, "--rate", "0.001 oGPU", "--seconds", "1"];
        let made = self.run(&[&init[..], &["--relay", &relay]].concat());
        assert_eq!(made.status.code(), Some(0), "{}", text(&made));
        let wallet = ["wallet", "new", name, "--no-passphrase", "--show-phrase"];
        assert_eq!(self.run(&wallet).status.code(), Some(0));
        let start = ["provider", "start", "--data", name, "--wallet", name, "--sponsor", "faucet"];
        let arguments = self.arguments(&start);
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let log = std::fs::File::create(self.home().join(format!("{name}.log"))).unwrap();
        let mut child = opengpu(self.home(), &arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("Ready: ")), "{name} did not start");
        Running::new(child)
    }

    fn account(&self, name: &str) -> String {
        let wallets = self.json(&["wallet", "list"]);
        let wallet = wallets.as_array().unwrap().iter().find(|it| it["name"] == name);
        wallet.unwrap()["address"].as_str().unwrap().to_owned()
    }

    fn journal(&self, task: &str) -> String {
        let path = self.home().join("dev/tasks").join(task).join("journal");
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if let Some(network) = self.network.take()
            && !std::thread::panicking()
        {
            network.stop();
        }
    }
}

#[test]
fn e2e_a_program_runs_on_the_network_and_its_receipt_is_checked_offline() {
    let scene = Scene::new("1");
    let (program, home) = (example("sha256-search"), scene.home());
    scene.write("short.txt", SHORT);
    let wanted = ["--from", "alice", "--input", "short.txt"];
    let with = |verb: &'static str, last: &[&'static str]| {
        [&[verb, program.as_str()][..], &wanted, last].concat()
    };

    // What would happen is told before anything does.
    let quote = scene.json(&with("quote", &[]));
    assert_eq!(quote["fitting"].as_array().unwrap().len(), 1, "{quote}");
    assert_eq!(quote["escrow"], "1");
    let dry = scene.run(&with("run", &["--dry-run"]));
    assert!(text(&dry).contains("who sees it"), "{}", text(&dry));
    assert_eq!(scene.json(&["ps", "--from", "alice"]).as_array().unwrap().len(), 0);
    let poor = scene.run(&with("run", &["--cap", "0.0000001"]));
    assert_eq!(poor.status.code(), Some(4), "nobody runs it for that: {}", text(&poor));

    let ended = scene.json(&with("run", &["--out", "there.txt"]));
    assert_eq!(ended["ended"], "completed", "{ended}");
    let output = std::fs::read(home.join("there.txt")).unwrap();
    assert_eq!(output, scene.undisturbed("short.txt"));
    let tokens = |name: &str| ended[name].as_str().unwrap().parse::<f64>().unwrap();
    assert!(tokens("paid") > 0.0 && tokens("paid") < 0.1, "{ended}");
    assert!((tokens("paid") + tokens("refunded") - 1.0).abs() < 1e-9, "{ended}");

    // The output can be fetched again, and what happened is told again.
    let task = ended["task"].as_str().unwrap();
    let pulled = scene.run(&["pull", task, "--out", "-"]);
    assert_eq!(pulled.stdout, output, "{}", text(&pulled));
    let told = text(&scene.run(&["logs", task]));
    assert!(told.contains("begun") && told.contains("ended: completed"), "{told}");

    // The receipt is true without a node, for this output alone.
    let shown = scene.run(&["receipt", "show", task, "--out", "receipt.bin"]);
    assert!(text(&shown).contains("lease-closed"), "{}", text(&shown));
    let check = ["receipt", "verify", "receipt.bin", "--genesis", "dev/genesis.json", "--matches"];
    let offline = |file: &str| run(home, &[&check[..], &[file]].concat());
    assert_eq!(offline("there.txt").status.code(), Some(0), "{}", text(&offline("there.txt")));
    scene.write("other.txt", "other");
    assert_eq!(offline("other.txt").status.code(), Some(6));
    let mut damaged = std::fs::read(home.join("receipt.bin")).unwrap();
    *damaged.last_mut().unwrap() ^= 1;
    std::fs::write(home.join("receipt.bin"), damaged).unwrap();
    assert_eq!(offline("there.txt").status.code(), Some(6));

    // One that nobody watches ends all the same.
    let detached = scene.json(&with("run", &["--detach"]));
    let task = detached["task"].as_str().unwrap();
    let pulled = scene.run(&["pull", task, "--out", "-"]);
    assert_eq!(pulled.stdout, output, "{}", text(&pulled));
    // Several at once stay under one budget.
    let wanted = ["--from", "alice", "--budget", "0.4", "--out", "swept"];
    let values = ["--value", "one:\n65536\n", "--value", "two:\n65536\n"];
    let swept = scene.json(&[&["sweep", &program][..], &wanted, &values].concat());
    let paid = swept["paid"].as_str().unwrap().parse::<f64>().unwrap();
    assert!(paid > 0.0 && paid <= 0.4, "{swept}");
    let one = std::fs::read_to_string(home.join("swept/0")).unwrap();
    assert!(one.contains("text one:"), "{one}");
    // Who was not there has nothing of it.
    let node = format!("http://127.0.0.1:{}", scene.rpc);
    let foreign = run(home, &["--home", "elsewhere", "--node", &node, "pull", task]);
    assert_eq!(foreign.status.code(), Some(2), "{}", text(&foreign));
}

#[test]
fn e2e_another_provider_goes_on_when_the_first_one_is_killed() {
    let scene = Scene::new("0");
    scene.write("long.txt", LONG);
    let first = scene.provider("first");
    let program = example("sha256-search");
    let wanted = ["run", &program, "--from", "alice", "--input", "long.txt", "--detach"];
    let detached = scene.json(&wanted);
    let task = detached["task"].as_str().unwrap();
    until("a checkpoint", || scene.journal(task).contains("kept here"));
    first.kill();
    let second = scene.provider("second");

    let pulled = scene.json(&["pull", task]);
    assert_eq!(pulled["ended"], "completed", "{pulled}");
    let providers = pulled["providers"].as_array().unwrap();
    let names = ["first", "second"].map(|name| scene.account(name));
    assert_eq!(*providers, names.map(Value::from), "each had it once");
    let output = std::fs::read(pulled["output_file"].as_str().unwrap());
    let output = output
        .or_else(|_| std::fs::read(scene.home().join(pulled["output_file"].as_str().unwrap())));
    assert_eq!(output.unwrap(), scene.undisturbed("long.txt"));
    let begun = scene.journal(task).matches("begun").count();
    assert_eq!(begun, 2, "{}", scene.journal(task));
    second.stop();
}
