//! Tasks with real processes: run, fetched, checked offline, and gone on with when a provider dies.

use crate::{
    dev::{run, text},
    providers::{Running, until},
    scene::{LONG, LONGER, SHORT, Scene, example},
};
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

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
    assert!(ended["leaves"].as_u64().unwrap() > 1, "each segment is covered by the root: {ended}");
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
    let foreign = run(home, &["--home", "elsewhere", "--node", &scene.node, "pull", task]);
    assert_eq!(foreign.status.code(), Some(2), "{}", text(&foreign));
}

#[test]
fn e2e_how_a_task_was_audited_is_told_in_words_and_checked_offline() {
    let scene = Scene::new("3");
    let (program, home) = (example("sha256-search"), scene.home());
    scene.write("short.txt", SHORT);
    let wanted = ["run", &program, "--from", "alice", "--input", "short.txt", "--out", "there.txt"];
    let ended = scene.json(&wanted);
    assert_eq!(ended["ended"], "completed", "{ended}");
    let task = ended["task"].as_str().unwrap();
    let receipt = text(&scene.run(&["receipt", "show", task]));
    assert!(receipt.contains(&format!("opengpu audit show {task} --lease 0")), "{receipt}");

    let shown = scene.json(&["audit", "show", task, "--out", "audit.bin"]);
    let audit = &shown["audits"][0];
    assert_eq!((&audit["finding"], &audit["lease"]), (&"upheld".into(), &0.into()), "{audit}");
    // Both others repeat something; there is nobody left who could look again.
    let course = audit["course"].as_array().unwrap();
    let events: Vec<_> = course.iter().map(|it| it["event"].as_str().unwrap()).collect();
    let count = |name: &str| events.iter().filter(|event| **event == name).count();
    assert_eq!((events[0], events.last()), ("drawn", Some(&"passed")), "{audit}");
    assert_eq!((count("answered"), count("revealed")), (2, 2), "{audit}");

    // It is true without a node, to whoever has the genesis.
    let offline = |options: &[&str]| {
        let verify = ["audit", "verify", "audit.bin", "--genesis", "dev/genesis.json"];
        run(home, &[&verify[..], options].concat())
    };
    let checked = offline(&["-o", "json"]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked));
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(&checked, audit);
    let words = text(&offline(&[]));
    assert!(
        words.contains("repeated: sealed") && words.contains("upheld: what was drawn was repeated"),
        "{words}"
    );
    let mut damaged = std::fs::read(home.join("audit.bin")).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(home.join("audit.bin"), damaged).unwrap();
    assert_eq!(offline(&[]).status.code(), Some(6), "{}", text(&offline(&[])));

    let unknown = scene.run(&["audit", "show", &task.replace(['1', '2', '3'], "4")]);
    assert_eq!(unknown.status.code(), Some(2), "{}", text(&unknown));
    let other = scene.run(&["audit", "show", task, "--lease", "7"]);
    assert_eq!(other.status.code(), Some(2), "{}", text(&other));
    // What was not audited says why.
    scene.write("sum.py", "print(6)\n");
    let ended = scene.json(&["run", "sum.py", "--from", "alice", "--out", "sum.txt"]);
    let unaudited = scene.run(&["audit", "show", ended["task"].as_str().unwrap()]);
    assert_eq!(unaudited.status.code(), Some(1), "{}", text(&unaudited));
    assert!(text(&unaudited).contains("the task is not audited"), "{}", text(&unaudited));
}

#[test]
fn e2e_a_script_with_a_folder_as_its_input_runs_on_the_network() {
    let scene = Scene::new("1");
    let folder = scene.home().join("data");
    std::fs::create_dir_all(folder.join("b")).unwrap();
    std::fs::write(folder.join("b/two"), "2\n").unwrap();
    std::fs::write(folder.join("one"), "1\n").unwrap();
    scene
        .write("sum.py", "import helper, sys\nprint(sys.argv[1], helper.total('/inputs/input'))\n");
    let helper = "import pathlib\ndef total(f):\n    \
                  return sum(int(p.read_text()) for p in pathlib.Path(f).rglob('*') if p.is_file())\n";
    scene.write("helper.py", helper);
    let task = "[tasks.sum]\nprogram = 'sum.py'\nfile = 'helper.py'\ninput = 'data'\n\
                budget = '0.5'\narguments = ['total']\nout = 'sum.txt'\n";
    scene.write("opengpu.toml", task);

    // Nobody is told that a script is checked.
    let plan = text(&scene.run(&["run", "sum", "--from", "alice", "--dry-run"]));
    assert!(plan.contains("so nobody checks it") && plan.contains("--copies 2"), "{plan}");
    let quote = scene.json(&["quote", "sum", "--from", "alice"]);
    assert_eq!((&quote["comparable"], &quote["escrow"]), (&false.into(), &"0.5".into()), "{quote}");

    let ended = scene.json(&["run", "sum", "--from", "alice"]);
    assert_eq!(ended["ended"], "completed", "{ended}");
    assert_eq!(std::fs::read_to_string(scene.home().join("sum.txt")).unwrap(), "total 3\n");
    let local = scene.run(&["run", "sum", "--local", "--out", "-"]);
    assert_eq!(local.stdout, b"total 3\n", "{}", text(&local));
}

#[cfg(target_os = "linux")]
#[test]
fn e2e_an_image_runs_on_the_network() {
    use std::os::unix::fs::PermissionsExt as _;
    let scene = Scene::new("1");
    // Whoever is nobody behind the walls looks into it.
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scene.home(), open).unwrap();
    let folder = scene.home().join("image");
    let mut layout = std::process::Command::new("python3");
    layout.args(["-c", include_str!("../exec/layout.py")]).arg(&folder).arg("/bin/sh");
    assert!(layout.output().unwrap().status.success());
    scene.write("input", "abc\n");
    let image = folder.to_str().unwrap();
    let shell = ["--", "-c", "read x < /inputs/input; echo \"it read $x\""];
    let run = ["run", image, "--from", "alice", "--input", "input", "--out", "said"];
    let ended = scene.run(&[&run[..], &shell].concat());
    let said = std::fs::read_to_string(scene.home().join("said")).unwrap_or_default();
    assert_eq!(said, "it read abc\n", "{}", text(&ended));
}

#[test]
fn e2e_what_a_script_says_is_seen_while_it_runs_and_why_it_failed() {
    let scene = Scene::new("1");
    // It waits for longer than the test until somebody has seen its first words.
    let slow = "import sys, time\nprint('epoch 1', file=sys.stderr)\ntime.sleep(15)\n\
                print('epoch 2', file=sys.stderr)\nprint('done')\n";
    scene.write("slow.py", slow);
    let detached = scene.json(&["run", "slow.py", "--from", "alice", "--detach"]);
    let task = detached["task"].as_str().unwrap();
    let mut command = scene.command(&["logs", "-f", task]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let said = lines.find(|line| line.contains("lease 0 | ")).unwrap();
    assert!(said.ends_with("lease 0 | epoch 1"), "{said}");
    assert!(!scene.on_chain(task).is_closed(), "it still runs");
    let rest: Vec<_> = lines.collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
    let told = rest.join("\n");
    assert!(told.contains("lease 0 | epoch 2") && told.contains("ended: completed"), "{told}");
    assert_eq!(scene.run(&["pull", task, "--out", "-"]).stdout, b"done\n");
    assert_eq!(scene.journal(task).matches("epoch 1").count(), 1, "{}", scene.journal(task));
    let since = |time: &str| text(&scene.run(&["logs", task, "--since", time]));
    assert!(since("1h").contains("epoch 1"), "{}", since("1h"));
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(!since("1s").contains("epoch"), "it was before: {}", since("1s"));

    scene.write("broken.py", "def deep():\n    return {}['missing']\nprint('half')\ndeep()\n");
    let failed = scene.run(&["run", "broken.py", "--from", "alice"]);
    assert_eq!(failed.status.code(), Some(1), "{}", text(&failed));
    let error = String::from_utf8(failed.stderr).unwrap();
    let (before, reason) = error.split_once("error: ").unwrap();
    assert!(before.contains("lease 0 | KeyError: 'missing'"), "as it comes: {before}");
    assert!(reason.contains("the program failed: it ended with code 1"), "{reason}");
    assert!(reason.contains("in deep") && reason.contains("KeyError: 'missing'"), "{reason}");
    let task = before.lines().find_map(|line| line.strip_prefix("task ")).unwrap();
    for verb in ["pull", "logs"] {
        let told = text(&scene.run(&[verb, task]));
        assert!(told.contains("it ended with code 1") && told.contains("KeyError"), "{told}");
    }
}

#[test]
fn e2e_a_terminal_shows_what_is_sent_and_what_a_run_costs() {
    let scene = Scene::new("1");
    scene.write("large.txt", &"0123456789abcdef".repeat(6 << 20));
    scene.write("wait.py", "import time\ntime.sleep(3)\nprint('done')\n");
    let wanted = ["run", "wait.py", "--input", "large.txt", "--from", "alice", "--max-duration"];
    let arguments = scene.arguments(&[&wanted[..], &["1m"]].concat());
    let mut command = std::process::Command::new("python3");
    let spawn = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)";
    command.args(["-c", spawn, env!("CARGO_BIN_EXE_opengpu")]).args(arguments);
    let shown = command.current_dir(scene.home()).stdin(Stdio::null()).output().unwrap();
    assert!(shown.status.success(), "{}", text(&shown));
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("sending ") && shown.contains(" of 96.0 MiB"), "{shown}");
    assert!(shown.contains(" of 1 oGPU, segment 0 of 1"), "{shown}");
    assert!(shown.contains("\r\x1b[K2 s, about 0.00"), "time goes on by itself: {shown}");
}

#[test]
fn e2e_several_tasks_have_one_plan_and_can_be_left() {
    let scene = Scene::new("1");
    scene.write("same.py", "print(open('/inputs/input').read(), end='')\n");
    let wanted = ["--from", "alice", "--budget", "0.4"];
    let values = ["--value", "one", "--value", "two"];
    let sweep = [&["sweep", "same.py"][..], &wanted, &values, &["--dry-run"]].concat();
    let plan = scene.json(&sweep);
    assert_eq!((&plan["tasks"], &plan["in_all"]), (&2.into(), &"0.4".into()), "{plan}");
    assert_eq!((&plan["escrow"], plan["fitting"].as_array().unwrap().len()), (&"0.2".into(), 1));
    let shown = text(&scene.run(&sweep));
    assert!(shown.contains("2, at most 0.4 oGPU in all; about "), "{shown}");
    assert!(shown.contains("0.2 oGPU each") && shown.contains("who sees it"), "{shown}");

    scene.write("lines.txt", "one\ntwo\n");
    let split = [&["run", "same.py", "--input", "lines.txt", "--split", "2"][..], &wanted].concat();
    let dry = text(&scene.run(&[&split[..], &["--dry-run"]].concat()));
    assert!(dry.contains("2, at most 0.4 oGPU in all"), "{dry}");
    assert_eq!(scene.json(&["ps", "--from", "alice"]).as_array().unwrap().len(), 0);
    let poor = scene.run(&[&split[..], &["--cap", "0.0000001"]].concat());
    assert_eq!(poor.status.code(), Some(4), "nobody runs it for that: {}", text(&poor));
    let left = scene.run(&[&split[..], &["--detach", "-o", "json"]].concat());
    assert!(String::from_utf8_lossy(&left.stderr).contains("trust"), "the plan comes first");
    let left: Value = serde_json::from_slice(&left.stdout).unwrap();
    let tasks = left["tasks"].as_array().unwrap().iter().map(|task| task.as_str().unwrap());
    let outputs = tasks.map(|task| scene.run(&["pull", task, "--out", "-"]).stdout);
    assert_eq!(outputs.collect::<Vec<_>>(), [b"one\n", b"two\n"]);
}

#[test]
fn e2e_a_task_that_nobody_takes_says_why() {
    let scene = Scene::new("1");
    scene.write("same.py", "print('done')\n");
    let wanted = ["run", "same.py", "--from", "alice", "--auction", "--seek", "3s"];
    let ended = scene.run(&[&wanted[..], &["--cap", "0.0000001"]].concat());
    assert_eq!(ended.status.code(), Some(4), "{}", text(&ended));
    let error = String::from_utf8(ended.stderr).unwrap();
    let (before, reason) = error.split_once("error: ").unwrap();
    let (_, after) = before.split_once("task ").unwrap();
    let provider = scene.json(&["offers"])[0]["provider"].as_str().unwrap().to_owned();
    let why = format!("{provider}: a second may cost 0.0000001");
    assert!(after.contains("providers may bid\n") && after.contains(&why), "{after}");
    assert!(reason.contains("(no-provider)") && reason.contains(&why), "{reason}");
}

#[test]
fn e2e_a_quote_shows_the_index_and_a_tier_is_a_cap() {
    let scene = Scene::new("2");
    scene.write("same.py", "print('done')\n");
    let wanted = ["--from", "alice"];
    let quote = scene.json(&[&["quote", "same.py"][..], &wanted].concat());
    let number = |value: &Value| value.as_str().unwrap().parse::<f64>().unwrap();
    let index = number(&quote["index"]["rate_per_second"]);
    let tiers = quote["tiers"].as_array().unwrap();
    let (names, factors) = (["economy", "standard", "priority", "verified"], [0.7, 1.0, 1.4, 1.0]);
    assert_eq!(tiers.len(), names.len(), "{quote}");
    let shown = text(&scene.run(&[&["quote", "same.py"][..], &wanted].concat()));
    for ((tier, name), factor) in tiers.iter().zip(names).zip(factors) {
        assert_eq!(tier["tier"], name);
        let rate = number(&tier["rate_per_second"]);
        assert!((rate / index - factor).abs() < 1e-6, "{tier}");
        let sum: f64 = ["compute", "audits", "fees"].map(|line| number(&tier[line])).iter().sum();
        assert!((sum - number(&tier["total"])).abs() < 1e-12, "{tier}");
        assert!(number(&tier["fees"]) > 0.0 && shown.contains(name), "{tier} {shown}");
        // Whoever takes more than the tier pays does not fit.
        let in_tier = scene.json(&[&["quote", "same.py", "--tier", name][..], &wanted].concat());
        let fits = |it: &&Value| number(&it["rate_per_second"]) <= rate;
        let expected = quote["fitting"].as_array().unwrap().iter().filter(fits).count();
        assert_eq!(in_tier["fitting"].as_array().unwrap().len(), expected, "{in_tier}");
        assert_eq!(in_tier["trust"], if name == "verified" { "replicated" } else { "checked" });
    }
}

#[test]
fn e2e_another_provider_goes_on_when_the_first_one_is_killed() {
    let scene = Scene::new("0");
    let first = scene.provider("first");
    let task = &scene.detached_longer();
    until("a checkpoint", || scene.journal(task).contains("kept here"));
    first.kill();
    let second = scene.provider("second");

    let pulled = scene.json(&["pull", task]);
    assert_eq!(pulled["ended"], "completed", "{pulled}");
    let providers = pulled["providers"].as_array().unwrap();
    let names = ["first", "second"].map(|name| scene.account(name));
    assert_eq!(*providers, names.map(Value::from), "each had it once");
    let output = std::fs::read(scene.home().join(pulled["output_file"].as_str().unwrap()));
    assert_eq!(String::from_utf8_lossy(&output.unwrap()), LONGER, "as if nobody had died");
    let journal = scene.journal(task);
    assert!(
        ["lease 0: begun", "lease 1: begun"].iter().all(|it| journal.contains(it)),
        "{journal}"
    );
    let entry = scene.assert_paid_once(task);
    let paid: Vec<_> = entry.leases.iter().map(|lease| lease.paid.to_string()).collect();
    assert!(paid.iter().all(|paid| paid != "0"), "each is paid for what it did: {paid:?}");
    second.stop();
}

#[test]
fn e2e_a_task_that_pays_less_than_the_floor_is_bid_for_by_hand() {
    let scene = Scene::new("0");
    let none = scene.run(&["provider", "auctions", "--data", "hand"]);
    assert_eq!(none.status.code(), Some(1), "nobody runs: {}", text(&none));
    assert!(text(&none).contains("opengpu provider start"), "{}", text(&none));
    let provider = scene.provider("hand");
    // It has no tokens: its sponsor pays the pledge of the bid, and gets it back.
    scene.write("short.txt", SHORT);
    let program = example("sha256-search");
    let wanted = ["run", &program, "--from", "alice", "--input", "short.txt", "--detach"];
    let cheap = ["--auction", "--budget", "0.000001", "--cap", "1"];
    let detached = scene.json(&[&wanted[..], &cheap].concat());
    let task = detached["task"].as_str().unwrap();

    // The policy declines it, and says why.
    let auctions = || scene.json(&["provider", "auctions", "--data", "hand"]);
    let declined =
        |it: &Value| it["declined"].as_str().is_some_and(|why| why.contains("the floor"));
    until("it is declined", || declined(&auctions()[0]));
    let seen = auctions()[0].clone();
    assert_eq!(seen["task"], task, "{seen}");
    assert_eq!((&seen["bids"], &seen["left"]), (&Value::from(0), &Value::from("0.000001")));
    let cost = &seen["own"]["cost_at_floor"];
    for term in ["total", "rate", "time", "reliability", "proximity"] {
        assert!(cost[term].is_string(), "{seen}");
    }
    let shown = text(&scene.run(&["provider", "auctions", "--data", "hand"]));
    assert!(shown.contains("declined: ") && shown.contains("sealed"), "{shown}");

    // Below the floor nothing is sent without a yes, and nothing that could not win.
    let most = seen["own"]["most_per_second"].as_str().unwrap();
    let bid = ["provider", "bid", task, "--data", "hand", "--rate"];
    let asked = run(scene.home(), &[&bid[..], &[most]].concat());
    assert_eq!(asked.status.code(), Some(2), "{}", text(&asked));
    let dear = scene.run(&[&bid[..], &["0.0009"]].concat());
    assert!(text(&dear).contains("could not win"), "{}", text(&dear));
    assert_eq!(auctions()[0]["bids"], 0);
    let placed = scene.json(&[&bid[..], &[most]].concat());
    assert_eq!((&placed["by_hand"], &placed["stage"]), (&Value::from(true), &"sealed".into()));
    let status = scene.json(&["provider", "status", "--data", "hand"]);
    assert_eq!(status["bids"][0]["by_hand"], true, "{status}");
    let again = scene.run(&[&bid[..], &[most]].concat());
    assert!(text(&again).contains("there is a bid"), "{}", text(&again));

    let pulled = scene.json(&["pull", task]);
    assert_eq!(pulled["ended"], "completed", "{pulled}");
    assert_eq!(pulled["providers"], Value::from(vec![scene.account("hand")]), "{pulled}");
    let paid = pulled["paid"].as_str().unwrap().parse::<f64>().unwrap();
    assert!(paid > 0.0 && paid <= 0.000_001, "{pulled}");
    assert!(auctions().as_array().unwrap().is_empty(), "it is over");
    provider.stop();
}

#[test]
fn e2e_only_what_the_clients_check_accepts_is_paid() {
    let scene = Scene::new("1");
    scene.write("short.txt", SHORT);
    let wanted = ["--from", "alice", "--input", "short.txt", "--check", "sha256-search"];
    let search = [&["run", "sha256-search"][..], &wanted].concat();
    let plan = text(&scene.run(&[&search[..], &["--dry-run"]].concat()));
    assert!(plan.contains("paid only if your check accepts the output"), "{plan}");
    assert!(plan.contains("the chain shows input and output"), "{plan}");
    scene.write("no.wasm", "no module");
    let broken = scene.run(&["run", "sha256-search", "--from", "alice", "--check", "no.wasm"]);
    assert_eq!(broken.status.code(), Some(2), "{}", text(&broken));
    assert!(text(&broken).contains("it is no predicate"), "{}", text(&broken));
    scene.write("large.txt", &"x".repeat(4_000));
    let check = ["--check", "sha256-search", "--from", "alice", "--input", "large.txt"];
    let large = scene.run(&[&["run", "sha256-search"][..], &check].concat());
    assert_eq!(large.status.code(), Some(2), "{}", text(&large));

    let ended = scene.json(&[&search[..], &["--out", "there.txt"]].concat());
    assert_eq!(ended["ended"], "completed", "{ended}");
    let output = std::fs::read(scene.home().join("there.txt")).unwrap();
    assert_eq!(output, scene.undisturbed("short.txt"));
    let tokens = |json: &Value, name: &str| json[name].as_str().unwrap().parse::<f64>().unwrap();
    assert!(tokens(&ended, "paid") > 0.0, "{ended}");
    let receipt = text(&scene.run(&["receipt", "show", ended["task"].as_str().unwrap()]));
    assert!(receipt.contains("upheld"), "{receipt}");

    // Of another program it accepts nothing: the provider gets nothing, and the client all.
    let other = example("word-count");
    let refused = [&["run", &other][..], &wanted, &["--seek", "3s", "--detach"]].concat();
    let detached = scene.json(&refused);
    let task = detached["task"].as_str().unwrap();
    let pulled = scene.run(&["pull", task]);
    assert_eq!(pulled.status.code(), Some(4), "{}", text(&pulled));
    assert!(text(&pulled).contains("1 oGPU of 1 came back"), "{}", text(&pulled));
    let told = text(&scene.run(&["logs", task]));
    assert!(told.contains("begun"), "it was run: {told}");
    let earned = || scene.json(&["provider", "earnings", "--data", "dev/providers/0"]);
    until("both leases are in the book", || earned()["leases"].as_array().unwrap().len() == 2);
    let last = earned()["leases"][1].clone();
    assert_eq!((&last["reason"], &last["paid_ogpu"]), (&"released".into(), &"0".into()), "{last}");
    assert_eq!(scene.json(&["ps", "--from", "alice"]).as_array().unwrap().len(), 0);
}

#[test]
fn e2e_a_provider_and_its_client_change_the_keys_of_their_accounts_while_a_lease_is_open() {
    let scene = Scene::new("0");
    scene.write("long.txt", LONG);
    let provider = scene.provider("one");
    let program = example("sha256-search");
    let run = ["run", &program, "--from", "alice", "--input", "long.txt", "--detach"];
    let task = scene.json(&run)["task"].as_str().unwrap().to_owned();
    until("the run to begin", || scene.journal(&task).contains("begun"));
    let rotate = |name: &str| {
        let rotate = ["wallet", "rotate", name, "--no-passphrase", "--show-phrase"];
        scene.json(&[&rotate[..], &["--sponsor", "faucet"]].concat())
    };
    for name in ["one", "alice"] {
        let before = scene.account(name);
        let rotated = rotate(name);
        assert_eq!(rotated["address"], before.as_str(), "{rotated}");
        assert_ne!(rotated["key"], rotated["address"], "{rotated}");
        assert_eq!(scene.json(&["chain", "account", name])["key"], rotated["key"]);
    }
    // The process that has the old key can say nothing more; the next one goes on.
    provider.kill();
    let provider = scene.start_provider("one", &[]);
    let pulled = scene.json(&["pull", &task]);
    assert_eq!(pulled["ended"], "completed", "{pulled}");
    assert_eq!(pulled["providers"][0], scene.account("one").as_str());
    let output = std::fs::read(scene.home().join(pulled["output_file"].as_str().unwrap())).unwrap();
    assert_eq!(output, scene.undisturbed("long.txt"));
    // Both act by their new keys.
    let again = rotate("alice");
    assert_eq!(again["address"], scene.account("alice").as_str());
    scene.write("short.txt", SHORT);
    let run = ["run", &program, "--from", "alice", "--input", "short.txt"];
    assert_eq!(scene.json(&run)["ended"], "completed");
    provider.stop();
}

/// A task that one of two providers has begun, while its client was killed and has nothing of it.
struct Abandoned {
    task: String,
    /// The provider that has the lease, with its folder.
    first: (Running, &'static str),
    /// The other one.
    holder: (Running, &'static str),
}

fn abandoned(scene: &Scene) -> Abandoned {
    // It runs on well after its first checkpoint, also on a fast machine.
    scene.write_longer();
    let mut providers = Vec::from(["one", "two"].map(|name| (scene.provider(name), name)));
    let wanted = ["run", "longer", "--from", "alice", "--input", "longer/input.txt"];
    let mut command = scene.command(&wanted);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let client = Running::new(command.spawn().unwrap());
    let tasks = scene.home().join("dev/tasks");
    let task = || {
        let mut found = std::fs::read_dir(&tasks).ok()?.flatten();
        found.next().map(|it| it.file_name().into_string().unwrap())
    };
    until("the run to begin", || task().is_some_and(|task| scene.journal(&task).contains("begun")));
    client.kill();
    let task = task().unwrap();
    let journal = scene.journal(&task);
    assert!(!journal.contains("fetched") && !journal.contains("kept here"), "{journal}");
    // Which one it is depends on how fast each was measured.
    let lessee = scene.on_chain(&task).leases.first().unwrap().provider.to_string();
    let is_lessee = |(_, name): &(Running, &str)| scene.account(name) == lessee;
    let first = providers.remove(providers.iter().position(is_lessee).unwrap());
    Abandoned { task, first, holder: providers.remove(0) }
}

/// Pulls a task that these providers had, and looks at its output.
fn pulled_from(scene: &Scene, task: &str, providers: &[&str]) {
    let pulled = scene.json(&["pull", task]);
    assert_eq!(pulled["ended"], "completed", "{pulled}");
    let names: Vec<_> = providers.iter().map(|name| Value::from(scene.account(name))).collect();
    assert_eq!(*pulled["providers"].as_array().unwrap(), names);
    let output = std::fs::read(scene.home().join(pulled["output_file"].as_str().unwrap()));
    assert_eq!(String::from_utf8_lossy(&output.unwrap()), LONGER);
    let journal = scene.journal(task);
    assert!(journal.contains("from another holder"), "{journal}");
}

#[test]
fn e2e_an_output_survives_its_provider_while_its_client_was_away() {
    let scene = Scene::new("0");
    let Abandoned { task, first: (first, name), holder: (holder, _) } = abandoned(&scene);
    // It ends without its client, and then its provider is gone for good.
    until("the end of the task", || scene.on_chain(&task).is_closed());
    first.kill();
    std::fs::remove_dir_all(scene.home().join(name)).unwrap();
    pulled_from(&scene, &task, &[name]);
    holder.stop();
}

#[test]
fn e2e_a_task_goes_on_from_the_state_that_a_holder_has() {
    let scene = Scene::new("0");
    let Abandoned { task, first: (first, name), holder: (holder, other) } = abandoned(&scene);
    until("a checkpoint that is held and on chain", || {
        let status = scene.json(&["provider", "status", "--data", name]);
        let held = status["leases"][0]["held_until"].as_u64();
        let lease = scene.on_chain(&task).leases.first().cloned();
        let reached = lease.and_then(|lease| lease.commitment).map(|it| it.reached.index.0);
        held.is_some_and(|held| reached.is_some_and(|reached| u64::from(reached) >= held))
    });
    first.kill();
    std::fs::remove_dir_all(scene.home().join(name)).unwrap();
    pulled_from(&scene, &task, &[name, other]);
    holder.stop();
}
