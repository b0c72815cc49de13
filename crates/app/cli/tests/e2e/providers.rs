//! Providers with real processes: offered on chain, wished of over their socket, stopped and started.

use crate::{
    dev::{opengpu, run, start, start_arguments, stop, text},
    network::free_ports,
};
use opengpu_client::{Keystore, Passphrase, Rpc, send};
use opengpu_crypto::SealKeypair;
use opengpu_types::{
    Address, Allocating, Amount, ArtifactId, Class, Contact, Digest, Entry, Eyes, Key, List,
    MarketOperation, Measure, Millis, Money, Operation, Permille, ProgramId, ProgramKind,
    Requirements, SessionKey, Set, Spec, Text, Trust, Weights, Work,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(180);

/// A process that does not outlive its test.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) const fn new(child: Child) -> Self {
        Self(Some(child))
    }

    /// Ends it as Ctrl-C would.
    pub(crate) fn stop(mut self) {
        stop(self.0.take().unwrap());
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.0.as_ref().unwrap()), signal).unwrap();
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    /// Waits until it ends by itself: what it said, and its exit code.
    pub(crate) fn ended(mut self) -> Output {
        self.0.take().unwrap().wait_with_output().unwrap()
    }

    /// Ends it as a loss of power would.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// What a command prints for programs.
pub(crate) fn json(home: &Path, arguments: &[&str]) -> Value {
    let output = run(home, &[arguments, &["-o", "json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "it never came: {what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// A provider without a token of its own, until it says that it is ready.
fn start_poor(home: &Path, node: &str, sponsor: &[&str]) -> Running {
    let arguments = ["--home", "dev", "--node", node, "provider", "start", "--data", "poor"];
    let mut child = opengpu(home, &[&arguments[..], &["--wallet", "poor"], sponsor].concat())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(std::fs::File::create(home.join("poor.log")).unwrap())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.any(|line| line.unwrap().starts_with("Ready: "));
    let running = Running::new(child);
    assert!(ready, "{}", std::fs::read_to_string(home.join("poor.log")).unwrap());
    running
}

#[test]
fn e2e_providers_offer_pause_and_come_back() {
    let place = tempfile::tempdir().unwrap();
    let home = place.path();
    let rpc = free_ports(3);
    let mut arguments = start_arguments(rpc, rpc + 1, rpc + 2);
    arguments.extend(["--validators", "1", "--providers", "1"].map(str::to_owned));
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let network = Running::new(start(home, &arguments));
    let node = format!("http://127.0.0.1:{rpc}");
    let offers = || json(home, &["offers", "--node", &node]).as_array().unwrap().clone();

    // The provider of the network is on a shelf, with its rate, for whoever looks.
    let status = |verb: &str| json(home, &["provider", verb, "--data", "dev/providers/0"]);
    let account = status("status")["account"].as_str().unwrap().to_owned();
    let found = offers();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["provider"], account.as_str());
    assert_eq!(found[0]["rate_per_second"], "0.001 oGPU");
    assert_eq!(found[0]["free"], 1);
    let shown = run(home, &["offers", "--node", &node]);
    assert!(
        ["3.6 oGPU/h", &account].iter().all(|it| text(&shown).contains(it)),
        "{}",
        text(&shown)
    );
    assert!(
        [" s ago ", " just now "].iter().any(|it| text(&shown).contains(it)),
        "{}",
        text(&shown)
    );
    let relay = format!("http://127.0.0.1:{}/", rpc + 2);
    assert_eq!(status("status")["relay"], relay.as_str());

    // It bids in an auction, and wins it where nobody else does.
    let own = account.parse().unwrap();
    submit(home, &Rpc::new(&node), Spec { allocating: Allocating::Auction, ..spec(own) });
    until("it has won", || status("status")["leases"][0]["stage"] == "waiting for its client");
    assert_eq!(offers()[0]["free"], 0);
    shown_again_and_again(home);
    assert_eq!(status("drain")["wish"], "drain");
    until("it takes no leases", || status("status")["on_chain"] == "draining");
    assert_eq!(status("status")["leases"].as_array().unwrap().len(), 1, "what is open goes on");

    // A pause gives everything back, and it comes back.
    assert_eq!(status("pause")["wish"], "pause");
    until("all is given back", || status("status")["leases"].as_array().unwrap().is_empty());
    assert!(offers().is_empty());
    let standing = status("status")["standing"].as_str().unwrap().to_owned();
    assert!(standing.contains("paused"), "{standing}");
    assert_eq!(status("resume")["wish"], "work");
    until("it takes leases", || status("status")["on_chain"] == "active");
    assert_eq!(offers().len(), 1);

    // A pause outlives a restart of everything.
    status("pause");
    until("it takes no leases", || status("status")["on_chain"] == "draining");
    network.stop();
    let gone = run(home, &["provider", "status", "--data", "dev/providers/0"]);
    assert_eq!(gone.status.code(), Some(1), "{}", text(&gone));
    assert!(text(&gone).contains("opengpu provider start"), "{}", text(&gone));
    let network = Running::new(start(home, &arguments));
    assert_eq!(status("status")["wish"], "pause");
    assert_eq!(status("status")["account"], account.as_str());
    status("resume");
    until("it takes leases", || status("status")["on_chain"] == "active");

    one_without_tokens(home, &node, &offers);
    network.stop();
}

/// `top` shows it, and once more after a second.
fn shown_again_and_again(home: &Path) {
    let arguments = ["provider", "top", "--data", "dev/providers/0", "-o", "json"];
    let mut command = opengpu(home, &arguments);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let _top = Running(Some(child));
    for line in lines.take(2) {
        let report: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert_eq!(report["leases"].as_array().unwrap().len(), 1, "{report}");
    }
}

/// Whoever has no token registers at the expense of a sponsor.
fn one_without_tokens(home: &Path, node: &str, offers: &dyn Fn() -> Vec<Value>) {
    let init = ["provider", "init", "--data", "poor", "--rate", "0.002 oGPU", "--seconds", "1"];
    let asked = run(home, &init);
    assert_eq!(asked.status.code(), Some(2), "nothing is written without a yes: {}", text(&asked));
    let made = run(home, &[&init[..], &["--yes"]].concat());
    assert_eq!(made.status.code(), Some(0), "{}", text(&made));
    let settings = std::fs::read_to_string(home.join("poor/provider.toml")).unwrap();
    assert!(settings.contains("\nrate = \"0.002 oGPU\"\n"), "{settings}");
    assert!(!settings.contains("native\""), "only what harms nobody: {settings}");
    let again = run(home, &[&init[..], &["--yes"]].concat());
    assert_eq!(again.status.code(), Some(2), "{}", text(&again));
    assert!(text(&again).contains("--force"), "{}", text(&again));

    let wallet = ["wallet", "new", "poor", "--no-passphrase", "--show-phrase", "--home", "dev"];
    let wallet = run(home, &wallet);
    assert_eq!(wallet.status.code(), Some(0), "{}", text(&wallet));
    let alone = ["--home", "dev", "--node", node, "provider", "start", "--data", "poor"];
    let alone = run(home, &[&alone[..], &["--wallet", "poor"]].concat());
    assert_eq!(alone.status.code(), Some(1), "{}", text(&alone));
    assert!(text(&alone).contains("--sponsor"), "{}", text(&alone));
    let poor = start_poor(home, node, &["--sponsor", "faucet"]);
    assert_eq!(offers().len(), 2);
    let second = ["--home", "dev", "--node", node, "provider", "start", "--data", "poor"];
    let second = run(home, &[&second[..], &["--wallet", "poor"]].concat());
    assert!(text(&second).contains("runs already"), "{}", text(&second));

    // What others offer says what this machine would bring.
    let look = ["provider", "estimate", "--seconds", "1", "--kilowatt-hour", "0.3 USD"];
    let seen = json(home, &[&look[..], &["--node", node]].concat());
    assert_eq!(seen["offers"], 2, "{seen}");
    // As now, half and all; what it gave back it may have taken again, and then now is half.
    assert!((2..=3).contains(&seen["days"].as_array().unwrap().len()), "{seen}");
    let nowhere = run(home, &[&look[..], &["--node", "http://127.0.0.1:9"]].concat());
    assert_eq!(nowhere.status.code(), Some(0), "{}", text(&nowhere));
    assert!(text(&nowhere).contains("no market to look at"), "{}", text(&nowhere));

    poor.stop();
    let earned = json(home, &["provider", "earnings", "--data", "poor"]);
    assert_eq!(earned["paid_ogpu"], "0");
    // The chain knows it when it comes back, so that nobody has to pay for it.
    let poor = start_poor(home, node, &[]);
    assert_eq!(offers().len(), 2);
    a_lease_of_one_without_tokens(home, node);
    poor.stop();
    let lines = || std::fs::read_to_string(home.join("poor/earnings.csv")).unwrap();
    let before = lines();
    start_poor(home, node, &[]).stop();
    assert_eq!(lines(), before, "a lease has one line");
    let shown = run(home, &["-o", "csv", "provider", "earnings", "--data", "poor"]);
    assert_eq!(String::from_utf8(shown.stdout).unwrap(), before);
}

/// Nobody tells it what the lease is about: it lives on heartbeats until the owner wants the device.
fn a_lease_of_one_without_tokens(home: &Path, node: &str) {
    let report = |verb: &str| json(home, &["provider", verb, "--data", "poor"]);
    let account: Address = report("status")["account"].as_str().unwrap().parse().unwrap();
    let rpc = Rpc::new(node);
    assert_eq!(rpc.account(account).unwrap().balance, Amount::ZERO);
    submit(home, &rpc, spec(account));
    until("it has the lease", || {
        report("status")["leases"][0]["stage"] == "waiting for its client"
    });
    let heard = || match rpc.entry(&Key::Provider(account)).unwrap() {
        Some(Entry::Provider(provider)) => Some(provider.heard),
        _ => None,
    };
    let begun = heard();
    assert!(begun.is_some(), "the chain knows it");
    until("a heartbeat, free of fees", || heard() > begun);
    report("pause");
    until("the lease is given back", || report("status")["leases"].as_array().unwrap().is_empty());
    let earned = || json(home, &["provider", "earnings", "--data", "poor"])["leases"].clone();
    until("a line for it", || earned()[0]["reason"] == "released");
    assert_eq!(rpc.account(account).unwrap().balance, Amount::ZERO);
}

/// Submits a task of one of the network's users.
pub(crate) fn submit(home: &Path, rpc: &Rpc, spec: Spec) {
    let alice = Keystore::new(&home.join("dev")).unlock("alice", &Passphrase::default()).unwrap();
    let submit = MarketOperation::SubmitTask {
        spec: spec.into(),
        budget: Money::tokens(Amount::whole(1)),
        escrow: Amount::whole(1),
        contact: Contact {
            session: SessionKey([1; 32]),
            sealing: SealKeypair::from_seed([1; 32]).public_key(),
            relay: Text::default(),
        },
    };
    send(rpc, &alice, vec![Operation::Market(submit)], PATIENCE).unwrap();
}

/// Work for this provider alone, which nobody will tell it more about.
pub(crate) fn spec(provider: Address) -> Spec {
    let none = Permille::new(0).unwrap();
    Spec {
        program: ProgramId(Digest([1; 32])),
        input: ArtifactId::of(b"nothing"),
        segments: 4,
        work: Work { amount: 10_000, measure: Measure::Integers },
        requirements: Requirements {
            kind: ProgramKind::Wasm,
            devices: 1,
            memory: 1,
            classes: List::empty(),
            precisions: Set::NONE,
            runtimes: Set::NONE,
            regions: List::empty(),
            reliability: none,
            trust: Trust::Checked,
            longest: Millis(120_000),
            cap: Money::tokens(Amount::whole(1)),
            allowed: List::new(vec![provider]).unwrap(),
            denied: List::empty(),
        },
        class: Class::Exact,
        eyes: Eyes::Anyone,
        allocating: Allocating::Spot,
        weights: Weights { time: none, reliability: none, proximity: none },
        region: Text::default(),
        patience: Millis(10_000),
    }
}
