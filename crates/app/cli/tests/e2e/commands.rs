//! Commands for tasks that are under way: looked at, paid more for, ended, left, split, cut short.

use crate::{
    dev::{opengpu, run, text},
    providers::{Running, until},
    scene::{LONG, Scene, example},
};
use opengpu_types::{CloseReason, LeasePhase, Millis, TaskPhase};
use rustix::process::Signal;
use serde_json::Value;
use std::{collections::BTreeSet, fs, process::Stdio};

#[test]
fn e2e_an_open_task_is_shown_paid_more_for_and_stopped() {
    let scene = Scene::new("1");
    scene.write("long.txt", LONG);
    let task = scene.detached("long.txt", &[]);
    until("a checkpoint", || scene.reached(&task) > 0);
    let open = || scene.json(&["ps", "--from", "alice"]);
    let shown = open();
    assert_eq!(shown.as_array().unwrap().len(), 1, "{shown}");
    assert_eq!((&shown[0]["task"], &shown[0]["escrow"]), (&task.as_str().into(), &"1".into()));
    assert!(shown[0]["standing"].as_str().unwrap().contains(" of 64"), "{shown}");
    let provider = scene.json(&["provider", "status", "--data", "dev/providers/0"]);
    assert_eq!(shown[0]["leases"][0]["provider"], provider["account"], "{shown}");
    let table = text(&scene.run(&["ps", "--from", "alice"]));
    assert!(table.contains("segment ") && table.contains(&task), "{table}");

    // Whose task it is needs no word: its key is here.
    let more = scene.run(&["top-up", &task, "0.5"]);
    assert_eq!(more.status.code(), Some(0), "{}", text(&more));
    assert_eq!(open()[0]["escrow"], "1.5");
    let stopped = scene.run(&["stop", &task]);
    assert_eq!(stopped.status.code(), Some(0), "{}", text(&stopped));
    until("its end", || scene.on_chain(&task).is_closed());
    let entry = scene.on_chain(&task);
    assert!(matches!(entry.phase, TaskPhase::Closed { reason: CloseReason::Cancelled, .. }));
    assert!(!entry.paid.is_zero(), "what was done is paid: {entry:?}");
    assert_eq!(entry.paid.plus(entry.refunded), Some(entry.deposited));
    assert_eq!(entry.deposited.to_string(), "1.5");
    assert!(open().as_array().unwrap().is_empty());

    let again = scene.run(&["stop", &task]);
    assert_eq!(again.status.code(), Some(2), "{}", text(&again));
    assert!(
        text(&again).contains("the task ended ") && text(&again).contains(": cancelled"),
        "{}",
        text(&again)
    );
    let pulled = scene.run(&["pull", &task]);
    assert_eq!(pulled.status.code(), Some(1), "{}", text(&pulled));
    let refund = format!("{} oGPU of 1.5 came back", entry.refunded);
    assert!(text(&pulled).contains("(cancelled)") && text(&pulled).contains(&refund), "{refund}");
}

/// A search that is left with Ctrl-C once it runs: its id, its exit code, and all that it said.
fn left(scene: &Scene, more: &[&str]) -> (String, Option<i32>, String) {
    let program = example("sha256-search");
    let wanted = ["run", &program, "--from", "alice", "--input", "long.txt"];
    let mut command = scene.command(&[&wanted[..], more].concat());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let before = tasks(scene);
    let client = Running::new(command.spawn().unwrap());
    let new = || tasks(scene).difference(&before).next().cloned();
    until("the run to begin", || new().is_some_and(|it| scene.journal(&it).contains("begun")));
    client.signal(Signal::INT);
    let ended = client.ended();
    (new().unwrap(), ended.status.code(), text(&ended))
}

fn tasks(scene: &Scene) -> BTreeSet<String> {
    let found = fs::read_dir(scene.home().join("dev/tasks")).into_iter().flatten().flatten();
    found.map(|it| it.file_name().into_string().unwrap()).collect()
}

/// Runs a command as it was printed, by somebody who has named home and node once for all.
fn as_printed(scene: &Scene, told: &str, verb: &str, more: &[&str]) -> std::process::Output {
    let begin = told.find(&format!("opengpu {verb} ")).unwrap_or_else(|| unreachable!("{told}"));
    let line = told[begin..].split([';', '\n']).next().unwrap();
    let words: Vec<_> = line.split_whitespace().skip(1).chain(more.iter().copied()).collect();
    let mut command = opengpu(scene.home(), &words);
    command.env("OPENGPU_HOME", scene.home().join("dev")).env("OPENGPU_NODE", &scene.node);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn e2e_ctrl_c_leaves_a_task_and_what_it_prints_leads_back() {
    let scene = Scene::new("1");
    scene.write("long.txt", LONG);
    let (task, code, told) = left(&scene, &[]);
    assert_eq!(code, Some(0), "{told}");
    assert!(told.contains("The task goes on."), "{told}");
    assert!(!scene.on_chain(&task).is_closed());
    let followed = as_printed(&scene, &told, "logs -f", &[]);
    assert_eq!(followed.status.code(), Some(0), "{}", text(&followed));
    assert!(text(&followed).contains("ended: completed"), "{}", text(&followed));
    let pulled = as_printed(&scene, &told, "pull", &["--out", "-"]);
    assert_eq!(pulled.stdout, scene.undisturbed("long.txt"), "{}", text(&pulled));
    scene.assert_paid_once(&task);

    // Whoever waits for a file does not take it for there.
    let (task, code, told) = left(&scene, &["--out", "never.txt"]);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("without its output"), "{told}");
    let stopped = as_printed(&scene, &told, "stop", &["--yes"]);
    assert_eq!(stopped.status.code(), Some(0), "{}", text(&stopped));
    until("its end", || scene.on_chain(&task).is_closed());
    assert!(!scene.home().join("never.txt").exists());
}

#[test]
fn e2e_an_input_is_split_over_two_providers_and_the_outputs_are_joined() {
    let scene = Scene::new("2");
    let lines: String = (0..40).map(|number| format!("line {number}\n")).collect();
    scene.write("lines.txt", &lines);
    // Long enough that both are at work.
    scene.write("loud.sh", "sleep 3\ntr a-z A-Z < /inputs/input\n");
    let wanted = ["run", "loud.sh", "--input", "lines.txt", "--out"];
    let more = ["--from", "alice", "--split", "2"];
    let ended = scene.json(&[&wanted[..], &["joined.txt"], &more].concat());
    let joined = fs::read_to_string(scene.home().join("joined.txt")).unwrap();
    assert_eq!(joined, lines.to_uppercase());
    let local = scene.run(&[&wanted[..], &["here.txt", "--local"]].concat());
    assert_eq!(local.status.code(), Some(0), "{}", text(&local));
    assert_eq!(joined, fs::read_to_string(scene.home().join("here.txt")).unwrap());
    let parts = ended["tasks"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let parts: Vec<_> = parts.map(|task| scene.assert_paid_once(task)).collect();
    assert_eq!(parts.len(), 2, "{ended}");
    let providers: BTreeSet<_> =
        parts.iter().flat_map(|it| it.leases.iter().map(|lease| lease.provider)).collect();
    assert_eq!(providers.len(), 2, "each has a part: {parts:?}");
    let paid = parts[0].paid.plus(parts[1].paid).unwrap();
    assert_eq!(ended["paid"], paid.to_string(), "{ended}");
}

#[test]
fn e2e_what_takes_longer_than_it_may_ends_with_a_reason() {
    let scene = Scene::new("1");
    scene.write("slow.sh", "sleep 60\n");
    let wanted = ["run", "slow.sh", "--from", "alice", "--work", "1", "--seek", "5s"];
    let ran = scene.run(&[&wanted[..], &["--max-duration", "3s"]].concat());
    assert_eq!(ran.status.code(), Some(1), "{}", text(&ran));
    assert!(text(&ran).contains("without an output"), "{}", text(&ran));
    for told in ["took all of its time, 3 s", "--max-duration 12s"] {
        assert!(text(&ran).contains(told), "{}", text(&ran));
    }
    let task = tasks(&scene).first().unwrap().clone();
    let entry = scene.on_chain(&task);
    assert!(matches!(entry.phase, TaskPhase::Closed { reason: CloseReason::NoProvider, .. }));
    assert_eq!(entry.spec.requirements.longest, Millis(3_000));
    let reasons: Vec<_> = entry.leases.iter().map(|lease| lease.phase).collect();
    let pulled = scene.run(&["pull", &task]);
    assert_eq!(pulled.status.code(), Some(1), "{}", text(&pulled));
    assert!(text(&pulled).contains("--max-duration 12s"), "{}", text(&pulled));
    let logged = scene.run(&["logs", &task]);
    assert!(text(&logged).contains("it took all of its time"), "{}", text(&logged));
    // The provider leaves before the chain ends it, and loses nothing; a busy machine may be late.
    let over = |reason| matches!(reason, CloseReason::Late | CloseReason::Released);
    let ended = |phase| matches!(phase, LeasePhase::Closed { reason } if over(reason));
    assert!(reasons.iter().copied().all(ended), "{reasons:?}");
    // What it had committed to when it began is paid, a moment of each try.
    assert!(entry.paid < "0.01".parse().unwrap(), "{}", entry.paid);
    assert_eq!(entry.paid.plus(entry.refunded), Some(entry.deposited));
}

#[test]
fn e2e_a_rate_follows_from_the_price_of_power_and_is_offered() {
    let scene = Scene::new("0");
    let init = ["provider", "init", "--data", "power", "--seconds", "1", "--watts", "100"];
    let power = ["--kilowatt-hour", "0.36 USD", "--margin", "100%"];
    let made = scene.json(&[&init[..], &power].concat());
    // A tenth of a kilowatt for a second is 0.00001 USD; twice that, and a unit more.
    let rate = "0.000020000000000001 USD";
    assert_eq!(made["offers"][0]["rate_per_second"], rate, "{made}");
    let both = run(scene.home(), &[&init[..], &power, &["--rate", "1 oGPU"]].concat());
    assert_eq!(both.status.code(), Some(2), "{}", text(&both));
    let wallet = ["wallet", "new", "power", "--no-passphrase", "--show-phrase"];
    assert_eq!(scene.run(&wallet).status.code(), Some(0));
    let provider = scene.start_provider("power", &["--sponsor", "faucet"]);
    let offers = scene.json(&["offers"]);
    let offered: Vec<_> =
        offers.as_array().unwrap().iter().map(|it| &it["rate_per_second"]).collect();
    assert_eq!(offered, [&Value::from(rate)], "{offers}");
    provider.stop();
}
