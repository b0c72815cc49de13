//! The whole product: a network of real processes, walked through, stopped and started again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    io::{BufRead as _, BufReader},
    net::TcpListener,
    path::Path,
    process::{Child, Command, Output, Stdio},
};

fn opengpu(home: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opengpu"));
    command.args(arguments).env_clear().env("OPENGPU_HOME", home).current_dir(home);
    command
}

fn run(home: &Path, arguments: &[&str]) -> Output {
    opengpu(home, arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}\n{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// The first of so many neighbouring ports that are free now.
fn free_ports(count: u16) -> u16 {
    loop {
        let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if first.checked_add(count).is_some_and(|end| (first..end).all(free)) {
            return first;
        }
    }
}

fn start_arguments(rpc: u16, port: u16) -> Vec<String> {
    let flags = ["dev", "--first-rpc", &rpc.to_string(), "--first-port", &port.to_string()];
    flags.map(str::to_owned).to_vec()
}

/// Runs `opengpu dev` until it says that the network runs.
fn start(home: &Path, arguments: &[&str]) -> Child {
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

fn stop(mut child: Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn e2e_the_tour_ends_with_0_and_stops_everything() {
    let home = tempfile::tempdir().unwrap();
    let (rpc, port) = (free_ports(6), free_ports(6));
    let mut arguments = start_arguments(rpc, port);
    arguments.extend(["--tour", "--exit"].map(str::to_owned));
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let output = run(home.path(), &arguments);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for step in [
        "1. Balances",
        "2. A transfer",
        "3. Stake",
        "4. A new validator takes its seat",
        "5. A receipt, checked offline against the genesis",
        "6. Done",
    ] {
        assert!(text.contains(step), "{step}\n{text}");
    }
    for number in (rpc..rpc.saturating_add(5)).chain(port..port.saturating_add(5)) {
        assert!(TcpListener::bind(("127.0.0.1", number)).is_ok(), "port {number} is still used");
    }

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
    let (rpc, port) = (free_ports(4), free_ports(4));
    let arguments = start_arguments(rpc, port);
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
    stop(network);
}
