//! Devices on the command line: what is listed, what may be chosen, and what drivers say meanwhile.

use super::{Machine, example};
use serde_json::Value;

/// Ids of the GPUs of this machine, real or in software.
fn gpus(machine: &Machine) -> Vec<String> {
    let listed = machine.json(&["device", "list"]);
    let listed = listed.as_array().unwrap().iter();
    let gpus = listed.filter(|device| device["kind"] != "cpu");
    gpus.map(|device| device["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_device_that_no_machine_has_is_refused_with_those_that_there_are() {
    let machine = Machine::new();
    let gpus = gpus(&machine);
    let refused = |name: &str, device: &str| {
        let folder = example(name);
        let arguments = ["exec", "run", folder.to_str().unwrap(), "--device", device];
        let (code, error) = machine.failure(&arguments);
        assert_eq!(code, 2, "{name} on {device}: {error}");
        error
    };
    for (name, device) in [("heat-gpu", "nope"), ("heat-gpu", "cpu"), ("sha256-search", "nope")] {
        let error = refused(name, device);
        assert!(error.contains(&format!("there is no GPU `{device}`")), "{error}");
        assert!(gpus.iter().all(|id| error.contains(id)), "{error}");
    }
    for device in ["nope", &gpus[0]] {
        let error = refused("python-numpy", device);
        assert!(error.contains("programs of kind `native` use no GPU"), "{error}");
    }
    machine.run("sha256-search", &["--device", &gpus[0]]);
    machine.run("python-numpy", &["--device", "cpu"]);
}

/// The tests know of no desktop, so a driver that looks for one would say so.
#[test]
fn drivers_do_not_ask_for_a_desktop() {
    let machine = Machine::new();
    for arguments in [vec!["device", "list"], vec!["doctor"]] {
        let output = machine.output(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("XDG_RUNTIME_DIR"), "{said}");
    }
}

#[test]
fn a_machine_without_a_gpu_is_told_what_still_runs_kernels() {
    let machine = Machine::new();
    let listed = machine.json(&["device", "list"]);
    let kinds: Vec<&Value> = listed.as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    if kinds.iter().any(|kind| !matches!(kind.as_str(), Some("cpu" | "software"))) {
        return;
    }
    let output = machine.output(&["device", "list"]);
    let said = String::from_utf8_lossy(&output.stderr);
    let software = format!("in software on {}", listed[0]["id"].as_str().unwrap());
    let kernels =
        if listed[0]["kind"] == "software" { software.as_str() } else { "no software that runs" };
    assert!(said.contains(kernels), "{said}");
}
