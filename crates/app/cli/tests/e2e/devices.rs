//! A provider with two devices: two leases at once, and one lease of both.

use crate::{
    dev::{run, text},
    providers::{json, until},
    scene::{LONG, Scene, example},
};
use opengpu_types::{Amount, Event, Height, LeaseId, Millis};
use serde_json::Value;
use std::{fs, path::Path};

/// The software that behaves like a GPU.
fn software(home: &Path) -> String {
    let devices = json(home, &["device", "list"]);
    let found = devices.as_array().unwrap().iter().find(|it| it["kind"] == "software");
    found.expect("Mesa's software driver")["id"].as_str().unwrap().to_owned()
}

/// Gives the device that was measured a second share: what two equal cards would be.
fn double(folder: &Path, id: &str) {
    let path = folder.join("device.json");
    let measured: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let mut second = measured[0].clone();
    assert_eq!(second["device"], id, "{measured}");
    second["share"] = 2.into();
    fs::write(&path, Value::from(vec![measured[0].clone(), second]).to_string()).unwrap();
    let path = folder.join("provider.toml");
    let settings = fs::read_to_string(&path).unwrap();
    let one = format!("devices = [\"{id}\"]");
    assert!(settings.contains(&one), "{settings}");
    fs::write(&path, settings.replace(&one, &format!("devices = [\"{id}\", \"{id}/2\"]"))).unwrap();
}

/// How long a lease was paid for, and how much.
fn paid(scene: &Scene, lease: LeaseId) -> (Millis, Amount) {
    let rpc = scene.rpc();
    let heights = 1..=rpc.status().unwrap().height.0;
    let mut receipts = heights.flat_map(|height| rpc.receipts(Height(height)).unwrap());
    let found = receipts.find_map(|receipt| {
        receipt.events.iter().find_map(|event| match event {
            Event::LeaseClosed { lease: closed, time, paid, .. } if *closed == lease => {
                Some((*time, *paid))
            }
            _ => None,
        })
    });
    found.unwrap()
}

#[test]
fn e2e_a_provider_with_two_devices_runs_two_leases_at_once_and_one_lease_of_both() {
    let scene = Scene::new("0");
    let id = software(scene.home());
    let unknown = ["provider", "init", "--data", "two", "--rate", "1 oGPU", "--devices", "none"];
    let unknown = scene.run(&unknown);
    assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown));
    assert!(text(&unknown).contains("this machine has: ") && text(&unknown).contains(&id));

    scene.init_provider_with("two", &["--devices", &id]);
    double(&scene.home().join("two"), &id);
    let funded = run(scene.home(), &["dev", "faucet", &scene.account("two"), "300"]);
    assert_eq!(funded.status.code(), Some(0), "{}", text(&funded));
    let provider = scene.start_provider("two", &["--stake", "200"]);
    let status = || scene.json(&["provider", "status", "--data", "two"]);
    let shown = status()["devices"].as_array().unwrap().clone();
    let names: Vec<_> = shown.iter().map(|it| it["device"].as_str().unwrap()).collect();
    let second = format!("{id}/2");
    assert_eq!(names, [&id, &second], "{shown:?}");
    assert_eq!(scene.json(&["offers"])[0]["free"], 2);

    // Two leases of one device, at the same time.
    scene.write("long.txt", LONG);
    let tasks = [scene.detached("long.txt", &[]), scene.detached("long.txt", &[])];
    let devices_at_once = || {
        let report = status();
        let leases = report["leases"].as_array().unwrap().iter();
        let running = leases.filter(|held| held["stage"] == "running");
        let mut found: Vec<_> = running.map(|held| held["devices"].to_string()).collect();
        found.sort();
        found
    };
    let both = [format!("[\"{id}\"]"), format!("[\"{second}\"]")];
    until("both devices at work", || devices_at_once() == both);
    assert_eq!(scene.json(&["offers"])[0]["free"], 0);
    let expected = scene.undisturbed("long.txt");
    for task in &tasks {
        assert_eq!(scene.pulled(task), expected);
        scene.assert_paid_once(task);
    }

    // One lease of both, paid for the seconds of each.
    let program = example("path-tracer");
    let wanted = ["run", &program, "--from", "alice", "--detach", "--devices", "2"];
    let task = scene.json(&wanted)["task"].as_str().unwrap().to_owned();
    let held = || status()["leases"][0]["devices"].as_array().map_or(0, Vec::len);
    until("a lease of both", || held() == 2);
    let picture = scene.pulled(&task);
    let here = scene.run(&["run", &program, "--local", "--out", "here.bin"]);
    assert_eq!(here.status.code(), Some(0), "{}", text(&here));
    assert_eq!(picture, fs::read(scene.home().join("here.bin")).unwrap());
    let entry = scene.assert_paid_once(&task);
    let lease = LeaseId { task: task.parse().unwrap(), number: 0 };
    let (time, amount) = paid(&scene, lease);
    let rate = entry.leases[0].rate;
    assert_eq!(Some(amount), rate.mul_div(2 * u128::from(time.0), 1_000), "of both devices");

    // What cannot use two devices is not submitted.
    for (command, name, why) in [
        ("quote", "sha256-search", "kind `wasm` use one"),
        ("run", "sha256-search", "kind `wasm` use one"),
        ("run", "heat-gpu", "a kernel with a state uses one"),
    ] {
        let refused = scene.run(&[command, &example(name), "--from", "alice", "--devices", "2"]);
        assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
        assert!(text(&refused).contains(why), "{}", text(&refused));
        assert!(text(&refused).contains("hint: leave --devices out"), "{}", text(&refused));
    }
    provider.stop();
}
