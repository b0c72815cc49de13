//! The real binary: what it prints where, what it refuses, and how it exits.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed"
)]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::Path,
    process::{Command, Output, Stdio},
    sync::mpsc,
    thread,
};
use tempfile::TempDir;

/// A home folder and the binary in it, deaf to the environment of whoever runs the tests.
struct Cli {
    home: TempDir,
    node: String,
}

impl Cli {
    fn new() -> Self {
        // Nobody listens on the discard port of a test machine.
        Self { home: tempfile::tempdir().unwrap(), node: "http://127.0.0.1:9".to_owned() }
    }

    fn run(&self, arguments: &[&str]) -> Ended {
        self.run_with(arguments, "")
    }

    fn run_with(&self, arguments: &[&str], input: &str) -> Ended {
        let mut child = Command::new(env!("CARGO_BIN_EXE_opengpu"))
            .args(arguments)
            .current_dir(self.home.path())
            .env_clear()
            .env("OPENGPU_HOME", self.home.path().join("home"))
            .env("OPENGPU_NODE", &self.node)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that reads nothing may be gone already.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ended::of(child.wait_with_output().unwrap())
    }

    /// A key without a passphrase.
    fn key(&self, name: &str, secret: u8) -> String {
        let secret = format!("{secret:02x}").repeat(32);
        let arguments = ["wallet", "import", name, "--kind", "ed25519", "--no-passphrase"];
        let ended = self.run_with(&[&arguments[..], &["-o", "json"]].concat(), &secret);
        assert_eq!(ended.code, 0, "{}", ended.err);
        ended.json()["address"].as_str().unwrap().to_owned()
    }
}

struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

/// Answers like a node of which nothing is known but an account, and hands out what it was sent.
fn node(submission: &'static str) -> (String, mpsc::Receiver<(String, Vec<u8>)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (sender, seen) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut first, mut length) = (String::new(), 0);
            reader.read_line(&mut first).unwrap();
            let mut line = String::new();
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            let path = first.split(' ').nth(1).unwrap().to_owned();
            let (status, answer) = answer(&path, submission);
            let length = answer.len();
            let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n");
            let answer = format!("{head}content-length: {length}\r\n\r\n{answer}");
            stream.write_all(answer.as_bytes()).unwrap();
            // A test that does not look at what was sent has let go of the other end.
            let _ = sender.send((path, body));
        }
    });
    (url, seen)
}

fn answer(path: &str, submission: &str) -> (u16, String) {
    let zero = format!("0x{}", "0".repeat(64));
    let parameters = concat!(
        r#"{"epoch_blocks":64,"seats":8,"minimum_stake":"100","unbonding":60000,"#,
        r#""evidence_epochs":64,"block_weight":8000000,"minimum_base_fee":"0.000000001","#,
        r#""burned_fee":500,"account_reserve":"0.01","entry_reserve":"0.02","#,
        r#""conflict_slash":50,"missed_slash":1,"missed_limit":500,"jail":10000,"#,
        r#""reporter_share":50,"emission":{"first_year":"1000000","kept":850},"#,
        r#""market":{"provider_stake":"100","newcomer":"2","exposure":4,"client_lock":20,"#,
        r#""provider_lock":100,"bid_pledge":"0.1","bidding":2000,"opening":1000,"#,
        r#""silence":15000,"grace":5000,"objection":1000,"retention":60000,"#,
        r#""half_life":2592000000,"index":"0.001","least_index":"0.00001","most_index":"10","#,
        r#""index_period":60000,"dollar":"2","audits":{"segments":0,"answering":5000,"posting":3000,"opening":3000,"revealing":3000,"clock":10000,"showing":5000,"lately":60000,"fee":1000,"fees":200,"pledge":"0.1","again":20},"trials":{"period":0,"work":8000,"slack":1250,"allowance":3000,"opening":15000}}}"#
    );
    let answer = match path {
        path if path.starts_with("/v1/status") => format!(
            concat!(
                r#"{{"chain":7,"name":"test","genesis":"{zero}","height":100,"recorded_from":1,"#,
                r#""time":1700000000000,"epoch":5,"node":"{zero}","role":"follower","seats":4,"#,
                r#""connected_nodes":3,"mempool":0,"syncing":false,"version":"0.1.0"}}"#
            ),
            zero = zero
        ),
        "/v1/parameters" => {
            format!(r#"{{"height":100,"base_fee":"0.000000001","parameters":{parameters}}}"#)
        }
        "/v1/transactions" => format!("[{}]", submission.replace("ID", &zero)),
        path if path.starts_with("/v1/accounts/") => {
            let address = path.trim_start_matches("/v1/accounts/");
            let (name, key) = (
                format!(r#""address":"{address}","exists":{}"#, submission != NOBODY),
                format!(r#""key":"{address}""#),
            );
            let numbers = r#""balance":"50","reserve":"0.01","nonce":2,"next_nonce":3,"entries":0"#;
            format!(r#"{{{name},{numbers},{key},"height":100}}"#)
        }
        // Nothing stands anywhere in its state.
        path if path.starts_with("/v1/state/") => r#"{"height":100}"#.to_owned(),
        path if path.starts_with("/v1/transactions/") => format!(
            concat!(
                r#"{{"id":"{}","status":"finalized","height":101,"index":1,"#,
                r#""outcome":"applied","fee":"0.0000003"}}"#
            ),
            zero
        ),
        _ => {
            let problem = concat!(
                r#"{"type":"urn:opengpu:problem:not-found","title":"Not found","#,
                r#""status":404,"detail":"no such path","code":"not-found"}"#
            );
            return (404, problem.to_owned());
        }
    };
    (200, answer)
}

const ACCEPTED: &str = r#"{"id":"ID","status":"accepted"}"#;
const POOR: &str =
    r#"{"id":"ID","status":"refused","code":"cannot-pay","reason":"the payer has 0 oGPU"}"#;

/// Instead of an answer to a submission: no account is on chain.
const NOBODY: &str = "nobody";

#[test]
fn help_names_every_noun_and_goes_to_stdout() {
    let ended = Cli::new().run(&["--help"]);
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
    for noun in ["wallet", "tx", "stake", "chain", "node", "dev", "completions"] {
        assert!(ended.out.contains(&format!("\n  {noun} ")), "{noun}\n{}", ended.out);
    }
    assert!(ended.out.contains("Exit codes: 0 done, 1 failed, 2 usage"), "{}", ended.out);
}

#[test]
fn every_command_of_every_noun_has_help() {
    let cli = Cli::new();
    for noun in ["wallet", "tx", "stake", "chain", "node"] {
        let help = cli.run(&[noun, "--help"]).out;
        let (_, commands) = help.split_once("Commands:\n").unwrap();
        let (commands, _) = commands.split_once("\n\n").unwrap();
        let verbs: Vec<_> =
            commands.lines().filter_map(|line| line.split_whitespace().next()).collect();
        let verbs: Vec<&str> = verbs.into_iter().filter(|verb| *verb != "help").collect();
        assert!(verbs.len() > 1, "{noun}");
        for verb in verbs {
            assert_eq!(cli.run(&[noun, verb, "--help"]).code, 0, "{noun} {verb}");
        }
    }
}

#[test]
fn bad_usage_ends_with_2_and_leaves_stdout_empty() {
    let cli = Cli::new();
    let transfer = ["tx", "transfer", "--from", "alice"];
    for bad in [
        vec!["wat"],
        vec![],
        vec!["wallet", "new"],
        [&transfer[..], &["--to", "0x0", "--amount", "1e3"]].concat(),
        vec!["stake", "edit", "--host", "nowhere", "--commission", "5%"],
        vec!["chain", "state", "nothing"],
        vec!["tx", "status", "0x12"],
        vec!["wallet", "show", "../key"],
    ] {
        let ended = cli.run(&bad);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{bad:?}: {}", ended.err);
        assert!(!ended.err.is_empty(), "{bad:?}");
    }
}

#[test]
fn an_error_is_one_line_with_a_hint() {
    let ended = Cli::new().run(&["chain", "status"]);
    assert_eq!((ended.code, ended.out.as_str()), (1, ""));
    let lines: Vec<_> = ended.err.lines().collect();
    assert!(lines[0].starts_with("error: no node answers at http://127.0.0.1:9"), "{}", ended.err);
    assert!(lines[1].starts_with("hint: start a network with `opengpu dev`"), "{}", ended.err);
}

#[test]
fn only_commands_for_people_are_suggested() {
    let ended = Cli::new().run(&["exe"]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("'exec'"), "{}", ended.err);
    assert!(!ended.err.contains("executor"), "{}", ended.err);
}

#[test]
fn a_variable_that_is_set_is_not_shown_as_required() {
    let ended = Cli::new().run(&["exec", "run"]);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("Usage: opengpu exec run <PROGRAM>\n"), "{}", ended.err);
}

#[test]
fn a_wallet_lives_from_import_to_removal() {
    let cli = Cli::new();
    assert_eq!(cli.run(&["wallet", "list", "-o", "json"]).json(), serde_json::json!([]));
    let address = cli.key("alice", 1);
    let listed = cli.run(&["wallet", "list", "-o", "json"]).json();
    assert_eq!(listed[0]["name"], "alice");
    assert_eq!(listed[0]["address"], address.as_str());
    let exported = cli.run(&["wallet", "export", "alice", "--yes"]);
    assert_eq!(exported.out.trim(), format!("0x{}", "01".repeat(32)));
    assert_eq!(cli.run(&["wallet", "remove", "alice"]).code, 2, "asks, and nobody answers");
    assert_eq!(cli.run(&["wallet", "remove", "alice", "-y"]).code, 0);
    let gone = cli.run(&["wallet", "show", "alice"]);
    assert_eq!(gone.code, 1);
    assert!(gone.err.contains("hint: `opengpu wallet list`"), "{}", gone.err);
}

#[test]
fn a_missing_key_is_looked_for_in_the_local_network_if_there_is_one() {
    let cli = Cli::new();
    let local = cli.home.path().join("home/dev");
    let asked = || {
        let run = ["run", "sha256-search"];
        let with_key = [&run[..], &["--from", "alice"]].concat();
        [cli.run(&with_key), cli.run(&run), cli.run(&["wallet", "list"])].map(|it| it.err)
    };
    let [missing, unnamed, none] = asked();
    assert!(missing.contains("there is no key `alice`"), "{missing}");
    assert!(missing.contains("`opengpu wallet new NAME` makes one\n"), "{missing}");
    assert!(unnamed.contains("which key acts?") && none.contains("no keys"), "{unnamed}{none}");
    std::fs::create_dir_all(&local).unwrap();
    for name in [".opengpu-dev", "genesis.json"] {
        std::fs::write(local.join(name), "").unwrap();
    }
    for told in asked() {
        let named = format!("local network are used with --home {}", local.display());
        assert!(told.contains(&named), "{told}");
    }
}

#[test]
fn a_phrase_gives_the_account_that_ethereum_wallets_show() {
    let phrase = "test test test test test test test test test test test junk";
    let import = ["wallet", "import", "eth", "--kind", "secp256k1", "--no-passphrase"];
    let ended = Cli::new().run_with(&[&import[..], &["-o", "json"]].concat(), phrase);
    assert_eq!(ended.json()["address"], "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266");
}

#[test]
fn a_new_phrase_is_not_lost_in_a_pipe() {
    let cli = Cli::new();
    let new = ["wallet", "new", "alice", "--no-passphrase"];
    let refused = cli.run(&new);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("--show-phrase"), "{}", refused.err);
    let made = cli.run(&[&new[..], &["--show-phrase", "--words", "12"]].concat());
    assert_eq!(made.code, 0, "{}", made.err);
    let words = made.err.lines().find(|line| line.starts_with("  ")).unwrap();
    assert_eq!(words.split_whitespace().count(), 12);
    assert!(!made.out.contains(words.trim()));
}

#[cfg(unix)]
#[test]
fn a_wrong_passphrase_and_an_open_file_end_with_3() {
    use std::os::unix::fs::PermissionsExt as _;
    let cli = Cli::new();
    let write = |name: &str, text: &str, mode| {
        let path = cli.home.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (right, wrong) = (write("right", "horse\n", 0o600), write("wrong", "cow\n", 0o600));
    let import = ["wallet", "import", "alice", "--kind", "ed25519", "--passphrase-file", &right];
    let secret = "11".repeat(32);
    assert_eq!(cli.run_with(&import, &secret).code, 0);
    let export =
        |file: &str| cli.run(&["wallet", "export", "alice", "--yes", "--passphrase-file", file]);
    assert_eq!(export(&right).out.trim(), format!("0x{secret}"));
    let refused = export(&wrong);
    assert_eq!(refused.code, 3, "{}", refused.err);
    assert!(refused.out.is_empty());
    let open = write("open", "horse\n", 0o644);
    let refused = export(&open);
    assert_eq!(refused.code, 3, "{}", refused.err);
    assert!(refused.err.contains("hint: run `chmod 600"), "{}", refused.err);
    let unasked = cli.run(&["wallet", "export", "alice", "--yes"]);
    assert_eq!(unasked.code, 3, "{}", unasked.err);
}

const TRANSFER: [&str; 8] = [
    "tx",
    "transfer",
    "--from",
    "alice",
    "--to",
    "0x00000000000000000000000000000000000000AA",
    "--amount",
    "12.5",
];

#[test]
fn a_dry_run_shows_action_and_fee_and_sends_nothing() {
    let mut cli = Cli::new();
    let address = cli.key("alice", 1);
    let (url, seen) = node(ACCEPTED);
    cli.node = url;
    let ended = cli.run(&[&TRANSFER[..], &["--dry-run", "-o", "json"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
    let json = ended.json();
    let summary = json["summary"].as_str().unwrap();
    assert!(summary.starts_with("OpenGPU transaction on chain 7\n"), "{summary}");
    assert!(summary.contains(&format!("Account: {address}")), "{summary}");
    assert!(summary.contains("Transfer 12.5 oGPU to 0x"), "{summary}");
    assert_eq!(json["nonce"], 3);
    assert_eq!(json["valid_until"], 700);
    assert!(seen.try_iter().all(|(path, _)| path != "/v1/transactions"));
}

#[test]
fn a_transfer_is_previewed_on_stderr_and_its_receipt_is_the_data() {
    let mut cli = Cli::new();
    cli.key("alice", 1);
    let (url, seen) = node(ACCEPTED);
    cli.node = url;
    let ended = cli.run(&[&TRANSFER[..], &["--yes", "-o", "json"]].concat());
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.err.contains("Transfer 12.5 oGPU to 0x"), "{}", ended.err);
    assert_eq!(ended.json()["outcome"], "applied");
    let sent: Vec<_> = seen.try_iter().filter(|(path, _)| path == "/v1/transactions").collect();
    assert_eq!(sent.len(), 1);
    assert!(!sent[0].1.is_empty());
}

#[test]
fn money_is_not_moved_without_a_yes() {
    let mut cli = Cli::new();
    cli.key("alice", 1);
    let (url, seen) = node(ACCEPTED);
    cli.node = url;
    let ended = cli.run(&TRANSFER);
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("hint: add --yes"), "{}", ended.err);
    assert!(seen.try_iter().all(|(path, _)| path != "/v1/transactions"));
}

#[test]
fn too_little_money_ends_with_5() {
    let mut cli = Cli::new();
    cli.key("alice", 1);
    cli.node = node(POOR).0;
    let ended = cli.run(&[&TRANSFER[..], &["-y"]].concat());
    assert_eq!((ended.code, ended.out.as_str()), (5, ""), "{}", ended.err);
    assert!(ended.err.contains("the payer has 0 oGPU"), "{}", ended.err);
}

#[test]
fn a_budget_that_the_account_does_not_have_is_told_before_anything_is_asked_or_sent() {
    let mut cli = Cli::new();
    let address = cli.key("alice", 1);
    let (url, seen) = node(ACCEPTED);
    cli.node = url;
    let task = ["sha256-search", "--from", "alice", "--budget", "100000000"];
    for command in [&["run"][..], &["sweep", "--value", "a", "--value", "b", "--out", "out"]] {
        // Nobody answers a question here, and none is asked.
        let ended = cli.run(&[command, &task].concat());
        assert_eq!((ended.code, ended.out.as_str()), (5, ""), "{}", ended.err);
        let told = "error: the account has 50 oGPU, and a budget of 100000000 needs 102000000.0";
        assert!(ended.err.contains(told), "{}", ended.err);
        assert!(ended.err.contains("hint: give a smaller --budget, or fund"), "{}", ended.err);
        assert!(ended.err.contains(&format!("faucet {address} AMOUNT")), "{}", ended.err);
    }
    assert!(seen.try_iter().all(|(path, _)| path != "/v1/transactions"));
    // Whoever looks only is told as well, and whoever has enough is not.
    let quoted = cli.run(&[&["quote"][..], &task].concat());
    assert_eq!(quoted.code, 0, "{}", quoted.err);
    assert!(quoted.out.contains("has 50 oGPU, which is too little"), "{}", quoted.out);
    let enough = cli.run(&["run", "sha256-search", "--from", "alice", "--budget", "48"]);
    assert!(enough.code == 2 && enough.err.contains("not confirmed"), "{}", enough.err);
}

#[test]
fn another_key_is_made_only_for_an_account_that_is_there_and_told_when_it_is_taken_again() {
    let mut cli = Cli::new();
    cli.key("alice", 1);
    let rotate = ["wallet", "rotate", "alice", "--no-passphrase", "--show-phrase", "-y"];
    cli.node = node(NOBODY).0;
    let ended = cli.run(&rotate);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.err.contains("is not on chain yet"), "{}", ended.err);
    assert!(!ended.err.contains("Recovery phrase"), "{}", ended.err);
    assert!(!cli.run(&["wallet", "list"]).out.contains("alice-next"));

    cli.node = node(POOR).0;
    let first = cli.run(&rotate);
    assert!(first.code == 5 && first.err.contains("Recovery phrase"), "{}", first.err);
    let second = cli.run(&rotate);
    assert!(second.code == 5 && !second.err.contains("Recovery phrase"), "{}", second.err);
    assert!(second.err.contains("`alice-next` is there from an earlier try"), "{}", second.err);
}

#[test]
fn a_market_without_anything_says_so_and_a_task_that_is_not_there_is_not_touched() {
    let mut cli = Cli::new();
    cli.key("alice", 1);
    cli.node = node(ACCEPTED).0;
    let offers = cli.run(&["offers", "-o", "json"]);
    assert_eq!((offers.code, offers.out.trim()), (0, "[]"), "{}", offers.err);
    assert!(offers.err.contains("Nobody offers anything"), "{}", offers.err);
    let tasks = cli.run(&["ps", "--from", "alice", "-o", "json"]);
    assert_eq!((tasks.code, tasks.out.trim()), (0, "[]"), "{}", tasks.err);
    assert!(tasks.err.contains("No task is open"), "{}", tasks.err);
    let task = "07".repeat(32);
    let sent = ["--from", "alice", "-y"];
    for command in [&["stop", &task][..], &["top-up", &task, "1"]] {
        let ended = cli.run(&[command, &sent].concat());
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{}", ended.err);
        assert!(ended.err.contains("knows no task"), "{}", ended.err);
        assert!(ended.err.contains("hint: "), "{}", ended.err);
    }
    let wrong = cli.run(&["stop", "7"]);
    assert_eq!(wrong.code, 2, "{}", wrong.err);
}

#[test]
fn a_transaction_travels_unsigned_is_signed_elsewhere_and_submitted() {
    let mut cli = Cli::new();
    cli.key("alice", 1);
    cli.node = node(ACCEPTED).0;
    let written = cli.run(&[&TRANSFER[..], &["--unsigned", "transfer.json"]].concat());
    assert_eq!(written.code, 0, "{}", written.err);
    let early = cli.run(&["tx", "submit", "transfer.json", "--yes"]);
    assert_eq!(early.code, 3, "{}", early.err);
    let typed = cli.run(&["tx", "sign", "transfer.json", "--typed-data"]);
    assert!(typed.out.contains("EIP712Domain"), "{}", typed.err);
    let signed = cli.run(&["tx", "sign", "transfer.json", "--from", "alice", "-y", "-o", "json"]);
    assert_eq!(signed.json()["complete"], true, "{}", signed.err);
    let sent = cli.run(&["tx", "submit", "transfer.json", "--yes"]);
    assert_eq!(sent.code, 0, "{}", sent.err);
    assert!(sent.out.contains("final, applied"), "{}", sent.out);
}

#[test]
fn a_project_file_sets_what_flags_and_variables_leave_open() {
    let cli = Cli::new();
    cli.key("alice", 1);
    std::fs::write(cli.home.path().join("opengpu.toml"), "output = \"json\"").unwrap();
    assert!(cli.run(&["wallet", "list"]).out.starts_with('['));
    assert!(cli.run(&["wallet", "list", "-o", "table"]).out.starts_with("NAME"));
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let ended = Cli::new().run(&["completions", shell]);
        assert_eq!(ended.code, 0);
        assert!(ended.out.contains("undelegate"), "{shell}");
    }
}

#[test]
fn a_node_folder_needs_a_genesis_that_holds() {
    let cli = Cli::new();
    std::fs::write(cli.home.path().join("genesis.json"), "{}").unwrap();
    let init = ["node", "init", "--data", "node", "--genesis", "genesis.json"];
    let ended = cli.run(&init);
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("genesis.json"), "{}", ended.err);
    assert!(!Path::new(cli.home.path()).join("node").exists());
}

#[test]
fn a_folder_cannot_choose_the_node_or_the_passphrase() {
    let cli = Cli::new();
    cli.key("alice", 1);
    for setting in ["node = \"http://127.0.0.1:1\"", "passphrase-file = \"/etc/hostname\""] {
        std::fs::write(cli.home.path().join("opengpu.toml"), setting).unwrap();
        let ended = cli.run(&["wallet", "list"]);
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{}", ended.err);
        assert!(ended.err.contains("hint: a folder's opengpu.toml may set"), "{}", ended.err);
    }
}

#[test]
fn a_project_lists_its_tasks_and_says_nothing_that_is_the_users() {
    let cli = Cli::new();
    let nothing = cli.run(&["run"]);
    assert_eq!(nothing.code, 2);
    assert!(nothing.err.contains("which program?"), "{}", nothing.err);
    let init = cli.run(&["init"]);
    assert_eq!(init.code, 0, "{}", init.err);
    assert_eq!(cli.run(&["init"]).code, 2, "what is there is not overwritten");
    let listed = cli.run(&["run"]);
    assert!(listed.code == 0 && listed.out.contains("sha256-search"), "{}", listed.err);
    let unnamed = cli.run(&["quote"]);
    assert!(unnamed.code == 2 && unnamed.err.contains("hello"), "{}", unnamed.err);
    let task = "[tasks.a]\nprogram = 'sha256-search'\n";
    for (more, words) in [
        ("from = 'savings'", "`from` is no key of a task"),
        ("yes = true", "`yes` is no key of a task"),
        ("provider = '0x00'", "`provider` is no key of a task"),
        ("input = 's3://bucket/key'", "--input s3://bucket/key"),
        ("input = '../secret'", "`input` is a path of the folder"),
    ] {
        std::fs::write(cli.home.path().join("opengpu.toml"), format!("{task}{more}\n")).unwrap();
        for command in ["run", "quote"] {
            let ended = cli.run(&[command, "a"]);
            assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{}", ended.err);
            assert!(ended.err.contains(words), "{}", ended.err);
        }
        assert_eq!(cli.run(&["wallet", "list"]).code, 0, "others do not mind");
    }
    assert!(cli.run(&["run", "a"]).err.contains("task `a`"));
}

#[test]
fn several_devices_are_refused_before_a_node_is_asked_where_a_program_uses_one() {
    let cli = Cli::new();
    let heat = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/heat-gpu");
    for (name, words) in
        [("sha256-search", "kind `wasm` use one"), (heat, "a kernel with a state uses one")]
    {
        let ended = cli.run(&["quote", name, "--devices", "2"]);
        assert_eq!(ended.code, 2, "{}", ended.err);
        assert!(ended.err.contains(words), "{}", ended.err);
        assert!(ended.err.contains("hint: leave --devices out"), "{}", ended.err);
    }
    assert!(cli.run(&["quote", "path-tracer", "--devices", "2"]).err.contains("no node answers"));
}

#[test]
fn watching_goes_on_behind_the_last_block_and_fails_when_it_cannot() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut cli = Cli::new();
    cli.node = format!("http://{}", listener.local_addr().unwrap());
    let served = thread::spawn(move || {
        let block = |height: u64| {
            let digest = "00".repeat(32);
            format!(
                "id: {height}\nevent: block\ndata: {{\"height\":{height},\"digest\":\"0x{digest}\",\
                 \"time\":9,\"transactions\":0,\"header\":\"0x\"}}\n\n"
            )
        };
        let gone = answer("/v1/nothing", "").1;
        let mut seen = Vec::new();
        for (status, body) in [(200, block(5)), (200, block(6)), (404, gone)] {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
            let head = lines.take_while(|line| !line.is_empty());
            seen.extend(head.filter(|line| line.starts_with("last-event-id")));
            let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n\r\n");
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
        seen
    });
    let ended = cli.run(&["chain", "watch", "--after", "4", "-o", "json"]);
    assert_eq!(ended.code, 1, "{}", ended.err);
    assert!(ended.err.starts_with("error: no such path"), "{}", ended.err);
    let heights: Vec<_> = ended.out.lines().map(|line| &line[..line.find(',').unwrap()]).collect();
    assert_eq!(heights, ["{\"height\":5", "{\"height\":6"]);
    let asked = ["last-event-id: 4", "last-event-id: 5", "last-event-id: 6"];
    assert_eq!(served.join().unwrap(), asked);
}
