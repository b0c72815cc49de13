//! The whole product: a network of real processes, walked through, stopped and started again.

use crate::network::free_ports;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

pub(crate) fn opengpu(home: &Path, arguments: &[&str]) -> Command {
    started(Path::new(env!("CARGO_BIN_EXE_opengpu")), home, arguments)
}

/// The same command line around executors that lie, in the way of this name.
pub(crate) fn liar(home: &Path, name: &str, arguments: &[&str]) -> Command {
    let path = home.join(name).with_extension("bin");
    if !path.exists() {
        std::fs::copy(liar_path(), &path).unwrap();
    }
    started(&path, home, arguments)
}

/// Cargo builds it with the tests.
pub(crate) fn liar_path() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_opengpu")).with_file_name("examples").join("liar")
}

fn started(program: &Path, home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("OPENGPU_HOME", home).current_dir(home);
    // The data of examples is where it is for all tests.
    if let Some(models) = opengpu_exec::program::models() {
        command.env(opengpu_exec::program::MODELS, models);
    }
    command
}

pub(crate) fn run(home: &Path, arguments: &[&str]) -> Output {
    opengpu(home, arguments).stdin(Stdio::null()).output().unwrap()
}

pub(crate) fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}\n{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

pub(crate) fn start_arguments(rpc: u16, port: u16, relay: u16) -> Vec<String> {
    let (rpc, port, relay) = (rpc.to_string(), port.to_string(), relay.to_string());
    let flags = ["dev", "--first-rpc", &rpc, "--first-port", &port, "--relay-port", &relay];
    flags.map(str::to_owned).to_vec()
}

/// Runs `opengpu dev` until it says that the network runs.
pub(crate) fn start(home: &Path, arguments: &[&str]) -> Child {
    let mut child = opengpu(home, arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("Running.")), "the network did not start");
    child
}

pub(crate) fn stop(mut child: Child) {
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn e2e_the_tour_ends_with_0_and_stops_everything() {
    let home = tempfile::tempdir().unwrap();
    let rpc = free_ports(12);
    let port = rpc + 6;
    let relay = rpc + 11;
    let mut arguments = start_arguments(rpc, port, relay);
    let liar = liar_path().into_os_string().into_string().unwrap();
    arguments.extend(["--tour", "--liar", &liar, "--exit"].map(str::to_owned));
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let output = run(home.path(), &arguments);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for step in [
        "1. Balances",
        "2. A transfer",
        "3. Stake",
        "4. A new validator",
        "5. A new validator takes its seat",
        "6. A receipt, checked offline against the genesis",
        "7. Three providers register and are rated",
        "8. A picture",
        "9. A training",
        "10. Receipts of both",
        "11. An audit",
        "12. A provider that cheats is caught, narrowed to one step, and slashed",
        "13. Done",
    ] {
        assert!(text.contains(step), "{step}\n{text}");
    }
    for number in (rpc..rpc + 5).chain(port..port + 5).chain([relay]) {
        assert!(TcpListener::bind(("127.0.0.1", number)).is_ok(), "port {number} is still used");
    }

    // The evidence of the cheater is checked by the command as well, and any damage is refused.
    assert_eq!(text.matches("checked offline against the genesis").count(), 4, "{text}");
    let evidence = text.split_whitespace().filter(|word| word.ends_with(".evidence"));
    let evidence: Vec<_> = evidence.collect();
    let check = |file: &str| {
        let output = run(home.path(), &["audit", "verify", file, "--genesis", "dev/genesis.json"]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let [honest, cheated] = evidence.as_slice() else { unreachable!("{text}") };
    let ((code, upheld), (other, refuted)) = (check(honest), check(cheated));
    assert_eq!((code, other), (Some(0), Some(0)), "{upheld}{refuted}");
    assert!(upheld.contains("upheld") && refuted.contains("refuted: segment"), "{upheld}{refuted}");
    assert!(refuted.contains("the referee executed the unit after"), "{refuted}");
    let mut bytes = std::fs::read(cheated).unwrap();
    let middle = bytes.len() / 2;
    *bytes.get_mut(middle).unwrap() ^= 1;
    std::fs::write(home.path().join("damaged.evidence"), bytes).unwrap();
    assert_eq!(check("damaged.evidence").0, Some(6));

    let picture = std::fs::read(home.path().join("dev/picture.png")).unwrap();
    assert!(picture.starts_with(b"\x89PNG"));

    // The exported receipt is checked by the command, and any damage is refused with its own code.
    let receipt = home.path().join("dev/receipt.bin");
    let verify =
        |file: &str| run(home.path(), &["chain", "verify", file, "--genesis", "dev/genesis.json"]);
    assert_eq!(verify("dev/receipt.bin").status.code(), Some(0));
    let mut bytes = std::fs::read(receipt).unwrap();
    let middle = bytes.len() / 2;
    *bytes.get_mut(middle).unwrap() ^= 1;
    std::fs::write(home.path().join("damaged.bin"), bytes).unwrap();
    assert_eq!(verify("damaged.bin").status.code(), Some(6));
}

#[test]
fn e2e_a_network_stops_on_a_signal_and_goes_on_where_it_was() {
    let home = tempfile::tempdir().unwrap();
    let rpc = free_ports(9);
    let port = rpc + 4;
    let arguments = start_arguments(rpc, port, rpc + 8);
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let network = start(home.path(), &arguments);
    let address = "0x00000000000000000000000000000000000000AA";
    let funded = run(home.path(), &["dev", "faucet", address, "7.5"]);
    assert_eq!(funded.status.code(), Some(0), "{}", text(&funded));
    stop(network);

    let network = start(home.path(), &arguments);
    let node = format!("http://127.0.0.1:{rpc}");
    let account = run(home.path(), &["chain", "account", address, "--node", &node]);
    assert!(text(&account).contains("7.49 oGPU"), "{}", text(&account));

    // Equal payments one right after the other are as many payments.
    let pay = |more: &[&str]| {
        let payment = ["tx", "transfer", "--from", "alice", "--to", address, "--amount", "1"];
        let output = run(
            home.path(),
            &[&["--home", "dev", "-y", "--node", &node], &payment[..], more].concat(),
        );
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    };
    pay(&["--no-wait"]);
    pay(&["--no-wait"]);
    pay(&[]);
    let account = run(home.path(), &["chain", "account", address, "--node", &node]);
    assert!(text(&account).contains("10.49 oGPU"), "{}", text(&account));
    let unknown = format!("0x{}", "11".repeat(32));
    let status = run(home.path(), &["tx", "status", &unknown, "--node", &node]);
    assert_eq!(status.status.code(), Some(1), "{}", text(&status));

    // The ports of a network stay as they are.
    let moved = run(home.path(), &["dev", "--first-rpc", "1", "--exit"]);
    assert_eq!(moved.status.code(), Some(2), "{}", text(&moved));

    // A checkpoint made from the genesis serves in its place, for what is asked with it.
    let ask = |arguments: &[&str]| {
        let output = run(home.path(), &[arguments, &["--node", &node]].concat());
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output));
    };
    ask(&["chain", "checkpoint", "--genesis", "dev/genesis.json", "--file", "here.json"]);
    ask(&["chain", "checkpoint", "--checkpoint", "here.json", "--file", "later.json"]);
    ask(&["chain", "state", "supply", "--file", "supply.bin", "--checkpoint", "later.json"]);
    ask(&["chain", "verify", "supply.bin", "--checkpoint", "later.json"]);
    stop(network);
}

#[test]
fn e2e_nodes_do_not_outlive_a_parent_that_was_killed() {
    let home = tempfile::tempdir().unwrap();
    let rpc = free_ports(3);
    let port = rpc + 1;
    let mut arguments = start_arguments(rpc, port, rpc + 2);
    arguments.extend(["--validators", "1"].map(str::to_owned));
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let mut network = start(home.path(), &arguments);
    network.kill().unwrap();
    network.wait().unwrap();
    // A node holds its folder until the very end of its process.
    let lock = File::open(home.path().join("dev/nodes/0/state/lock")).unwrap();
    let begin = Instant::now();
    while lock.try_lock().is_err() {
        assert!(begin.elapsed() < Duration::from_secs(30), "the node still runs");
        thread::sleep(Duration::from_millis(50));
    }
    drop(lock);
    // It ended by itself and in order, so the same network starts again.
    stop(start(home.path(), &arguments));
}
