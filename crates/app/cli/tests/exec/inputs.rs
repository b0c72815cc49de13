//! Inputs from folders, the web and S3, and programs that are a script or an image, with the real binary.

use super::Machine;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Output;
use std::sync::{Arc, Mutex};

const SECRET: &str = "wJalr-very-secret";
const TOKEN: &str = "session+token/of=me";
const WORDS: &str = "words from far away\n";

/// What the text of a script gives on this machine, with this input.
fn local(machine: &Machine, program: &Path, more: &[&str]) -> Output {
    let line = ["run", program.to_str().unwrap(), "--local", "--out", "-"];
    machine.output(&[&line[..], more].concat())
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn write(machine: &Machine, name: &str, text: &str) -> std::path::PathBuf {
    let path = machine.0.path().join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

fn cat(machine: &Machine) -> std::path::PathBuf {
    write(machine, "cat.sh", "cat /inputs/input\n")
}

/// A server of the web and of one bucket, which answers a request by its line and its host.
fn server(answer: fn(&str, &str) -> (u16, String)) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let asked = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines().map(Result::unwrap);
            let head: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
            let path = head[0].split(' ').nth(1).unwrap().to_owned();
            let host = head
                .iter()
                .find_map(|line| line.to_lowercase().strip_prefix("host: ").map(str::to_owned));
            let (status, body) = answer(&path, &host.unwrap());
            asked.lock().unwrap().push(path);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
            );
            stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        }
    });
    (place, seen)
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// Amazon's rule for signed addresses (Signature Version 4), written down once more.
fn is_signed(path: &str, host: &str) -> bool {
    let Some((path, query)) = path.split_once('?') else { return false };
    let mut fields: Vec<_> = query.split('&').filter_map(|field| field.split_once('=')).collect();
    let find =
        |name: &str| fields.iter().find(|field| field.0 == name).map(|field| field.1.to_owned());
    let (Some(signature), Some(date)) = (find("X-Amz-Signature"), find("X-Amz-Date")) else {
        return false;
    };
    let token = find("X-Amz-Security-Token");
    let scope = find("X-Amz-Credential").unwrap().replace("%2F", "/");
    let scope = scope.strip_prefix("AKID/").unwrap().to_owned();
    assert_eq!(token.as_deref(), Some("session%2Btoken%2Fof%3Dme"));
    fields.retain(|field| field.0 != "X-Amz-Signature");
    fields.sort_unstable();
    let query: Vec<_> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let request =
        format!("GET\n{path}\n{}\nhost:{host}\n\nhost\nUNSIGNED-PAYLOAD", query.join("&"));
    let hash = hex::encode(Sha256::digest(request));
    let text = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{hash}");
    let mut key = format!("AWS4{SECRET}").into_bytes();
    for part in scope.split('/') {
        key = hmac(&key, part);
    }
    hex::encode(hmac(&key, &text)) == signature
}

fn bucket(path: &str, host: &str) -> (u16, String) {
    let error = |code: &str| format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code></Error>");
    match path.split('?').next().unwrap() {
        "/my-bucket/a%20folder/words%2B.txt" if is_signed(path, host) => (200, WORDS.to_owned()),
        "/my-bucket/a%20folder/words%2B.txt" => (403, error("SignatureDoesNotMatch")),
        "/public/words.txt" if !path.contains('?') => (200, WORDS.to_owned()),
        "/moved/words.txt" => (301, error("PermanentRedirect")),
        _ => (404, error("NoSuchKey")),
    }
}

#[test]
fn an_input_is_fetched_from_s3_with_a_signature_of_whoever_asks() {
    let (machine, (place, seen)) = (Machine::new(), server(bucket));
    let program = cat(&machine);
    let run = |input: &str, secret: Option<&str>| {
        let line = ["run", program.to_str().unwrap(), "--local", "--out", "-", "--input", input];
        let mut command = machine.command(&line);
        command.env("AWS_ENDPOINT_URL", format!("http://{place}")).env("AWS_REGION", "eu-west-1");
        if let Some(secret) = secret {
            command.env("AWS_ACCESS_KEY_ID", "AKID").env("AWS_SECRET_ACCESS_KEY", secret);
            command.env("AWS_SESSION_TOKEN", TOKEN);
        }
        command.output().unwrap()
    };
    assert_eq!(said(&run("s3://my-bucket/a folder/words+.txt", Some(SECRET))), WORDS);
    assert!(seen.lock().unwrap()[0].contains("eu-west-1"), "{seen:?}");
    assert_eq!(said(&run("s3://public/words.txt", None)), WORDS);

    for (input, secret, code, words) in [
        ("s3://my-bucket/a folder/words+.txt", Some("wrong-secret"), 3, "AWS_SECRET_ACCESS_KEY"),
        ("s3://my-bucket/a folder/words+.txt", None, 3, "only public buckets"),
        ("s3://my-bucket/nothing", Some(SECRET), 1, "NoSuchKey"),
        ("s3://moved/words.txt", Some(SECRET), 1, "set AWS_REGION"),
    ] {
        let output = run(input, secret);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{input}: {error}");
        assert!(error.contains(words) && error.contains(input), "{error}");
        for hidden in [SECRET, "wrong-secret", TOKEN, "X-Amz", "AKID"] {
            assert!(!error.contains(hidden), "{error}");
        }
    }
}

fn web(path: &str, _: &str) -> (u16, String) {
    match path {
        "/words.txt?token=secret" => (200, WORDS.to_owned()),
        "/large" => (200, "x".repeat(2_000)),
        _ => (404, String::new()),
    }
}

#[test]
fn an_input_is_fetched_from_the_web_within_the_limit_of_the_program() {
    let (machine, (place, _)) = (Machine::new(), server(web));
    let script = cat(&machine);
    let input = |path: &str| format!("http://{place}{path}");
    let output = local(&machine, &script, &["--input", &input("/words.txt?token=secret")]);
    assert_eq!(said(&output), WORDS);

    let small = "name = 'small'\nkind = 'native'\ncode = 'cat.sh'\nclass = 'none'\n\
                 [limits]\ninput = '1 KiB'\n[native]\ncommand = 'sh'\n";
    write(&machine, "program.toml", small);
    let folder = machine.0.path();
    for command in [&["exec", "run"][..], &["run", "--local"]] {
        let line = |path: &str| {
            let program = folder.to_str().unwrap();
            let words =
                [&command[..1], &command[1..2], &[program, "--out", "-", "--input"]].concat();
            machine.failure(&[&words[..], &[&input(path)]].concat())
        };
        let (code, error) = line("/large");
        assert!(code == 2 && error.contains("1024 bytes") && error.contains("[limits]"), "{error}");
        let (code, error) = line("/nothing?token=secret");
        assert!(
            code == 1 && error.contains("404") && error.contains("nothing is there"),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
    let (code, error) = machine.failure(&[
        "run",
        script.to_str().unwrap(),
        "--local",
        "--input",
        "http://127.0.0.1:9/x",
    ]);
    assert!(code == 1 && error.contains("not reached") && error.contains("hint:"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_folder_is_unpacked_for_a_script_and_is_an_archive_for_other_programs() {
    let machine = Machine::new();
    write(&machine, "data/b/two.txt", "2\n");
    write(&machine, "data/one.txt", "1\n");
    write(&machine, "data/left.out", "out\n");
    write(&machine, "data/.gitignore", "*.out\n");
    let data = machine.0.path().join("data");
    let data = data.to_str().unwrap();
    let list =
        write(&machine, "list.sh", "cd /inputs/input && find . -type f | sort && cat one.txt\n");
    let listed = "./.gitignore\n./b/two.txt\n./one.txt\n1\n";
    assert_eq!(said(&local(&machine, &list, &["--input", data])), listed);

    // Other programs read the archive itself, which any tool can.
    let manifest = "name = 'raw'\nkind = 'native'\ncode = 'raw.py'\nclass = 'exact'\n";
    write(&machine, "raw/program.toml", manifest);
    let text = "import tarfile\nfor m in tarfile.open('/inputs/input'):\n    print(m.name, m.size, m.mtime, m.uid)\n";
    write(&machine, "raw/raw.py", text);
    let raw = machine.0.path().join("raw");
    let names = ".gitignore 6 0 0\nb/two.txt 2 0 0\none.txt 2 0 0\n";
    assert_eq!(said(&local(&machine, &raw, &["--input", data])), names);

    // One that wants a folder takes nothing else, and says so before it runs.
    write(&machine, "raw/program.toml", &format!("{manifest}[native]\ninput = 'folder'\n"));
    let (code, error) = machine.failure(&[
        "run",
        raw.to_str().unwrap(),
        "--local",
        "--input",
        list.to_str().unwrap(),
    ]);
    assert!(code == 2 && error.contains("takes a folder") && error.contains("--input"), "{error}");
    std::os::unix::fs::symlink("/etc/passwd", machine.0.path().join("data/link")).unwrap();
    let (code, error) =
        machine.failure(&["run", list.to_str().unwrap(), "--local", "--input", data]);
    assert!(code == 2 && error.contains("links are not packed"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_script_runs_with_the_files_and_arguments_that_are_named() {
    let machine = Machine::new();
    let text = "import sys, os, helper\nprint(helper.X, sys.argv[1:], sorted(os.listdir(sys.path[0])))\n\
                print(open(os.path.dirname(__file__) + '/more.txt').read())\n";
    let script = write(&machine, "own/train.py", text);
    write(&machine, "own/secret.txt", "not mine to give");
    let helper = write(&machine, "lib/helper.py", "X = 7\n");
    let more = write(&machine, "lib/more.txt", "more");
    let files = ["--file", helper.to_str().unwrap(), "--file", more.to_str().unwrap()];
    let line = [&files[..], &["--", "--epochs", "3"]].concat();
    let expected = "7 ['--epochs', '3'] ['helper.py', 'more.txt', 'train.py']\nmore\n";
    assert_eq!(said(&local(&machine, &script, &line)), expected);

    // Whatever its first line names runs it.
    let shell = write(&machine, "any", "#!/bin/sh -e\necho \"$1\"; false; echo no\n");
    let (code, error) = machine.failure(&["run", shell.to_str().unwrap(), "--local"]);
    assert!(code == 1 && error.contains("ended with code 1"), "{error}");
    let shell = write(&machine, "any", "#!/usr/bin/env sh\necho \"<$1>\"\n");
    assert_eq!(said(&local(&machine, &shell, &["--", "a b"])), "<a b>\n");
    // A run that was kept can be repeated: its program stays.
    let kept = machine.json(&["exec", "list"]);
    let run = kept.as_array().unwrap().last().unwrap()["run"].as_str().unwrap().to_owned();
    assert_eq!(machine.json(&["exec", "segment", &run, "1"])["verdict"], "equal");

    let program = super::example("word-count");
    let wrong = ["run", program.to_str().unwrap(), "--local", "--", "x"];
    let (code, error) = machine.failure(&wrong);
    assert!(code == 2 && error.contains("for scripts and images"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn an_image_runs_without_a_manifest() {
    let machine = super::shell::open_machine();
    let folder = machine.0.path().join("image");
    super::shell::image(&folder, &["/bin/sh"]);
    let archive = machine.0.path().join("image.tar");
    let tar = ["-cf", archive.to_str().unwrap(), "-C", folder.to_str().unwrap(), "."];
    assert!(std::process::Command::new("tar").args(tar).status().unwrap().success());
    write(&machine, "input", "abc\n");
    let more = write(&machine, "more", "def\n");
    let input = machine.0.path().join("input");
    for image in [&folder, &archive] {
        let line = [
            "--input",
            input.to_str().unwrap(),
            "--file",
            more.to_str().unwrap(),
            "--",
            "-c",
            "read x < /inputs/input; read y < /inputs/program/more; echo $x$y; echo /inputs/program/*",
        ];
        let output = local(&machine, image, &line);
        assert_eq!(said(&output), "abcdef\n/inputs/program/more\n", "{}", image.display());
    }
    let (code, error) = machine.failure(&["run", "image:no.such/image:1", "--local"]);
    assert!(code == 2 && error.contains("no.such/image:1"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_task_of_the_project_runs_by_its_name_and_flags_come_first() {
    let machine = Machine::new();
    let project = machine.0.path().join("project");
    write(&machine, "project/say.sh", "echo \"$1\"; cat /inputs/input/*\n");
    write(&machine, "project/data/a", "a\n");
    write(&machine, "project/other/b", "b\n");
    write(&machine, "project/say/program.toml", "not what is meant");
    let tasks =
        "[tasks.say]\nprogram = 'say.sh'\ninput = 'data'\nout = 'said.txt'\narguments = ['x']\n";
    write(&machine, "project/opengpu.toml", tasks);
    let run = |words: &[&str]| machine.command(words).current_dir(&project).output().unwrap();
    let told = |words: &[&str]| {
        said(&run(words));
        fs::read_to_string(project.join("said.txt")).unwrap()
    };
    assert_eq!(told(&["run", "say", "--local"]), "x\na\n");
    assert_eq!(told(&["run", "say", "--local", "--input", "other", "--", "y"]), "y\nb\n");
    // The path of that name is still there, and is something else.
    let path = run(&["run", "./say", "--local"]);
    assert_eq!(path.status.code(), Some(2), "{path:?}");
    let listed = run(&["run", "-o", "json"]);
    assert!(said(&listed).contains("\"say.sh\""), "{listed:?}");
    // What the file of a stranger leads to is not sent away.
    fs::remove_file(project.join("data/a")).unwrap();
    fs::remove_dir(project.join("data")).unwrap();
    std::os::unix::fs::symlink("/etc", project.join("data")).unwrap();
    let away = run(&["run", "say", "--local"]);
    let error = String::from_utf8_lossy(&away.stderr);
    assert!(away.status.code() == Some(2) && error.contains("leads out of the folder"), "{error}");
}
