//! Models with the real binary: chat, serving with OpenAI's own client, training. They need what
//! `cargo xtask models` fetches.

use crate::{Machine, example, repeats};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// OpenAI's own client, through the cache of xtask.
const PACKAGE: &str = "pip:openai==3.49.0";

#[test]
fn answers_of_a_model_repeat() {
    repeats("chat");
}

#[test]
fn embeddings_repeat() {
    repeats("embeddings");
}

#[test]
fn detection_in_pictures_repeats() {
    repeats("text-detection");
}

#[test]
fn training_repeats() {
    repeats("train-digits");
}

#[test]
fn the_library_for_networks_is_the_pinned_one_or_none() {
    let models = |name: &str| opengpu_exec::program::models().unwrap().join(name);
    let library = "onnxruntime/libonnxruntime.so.1.31.1";
    let machine = Machine::new();
    let (program, folder) = (machine.0.path().join("program"), machine.0.path().join("models"));
    for place in [&program, &folder] {
        fs::create_dir_all(place.join("ppocr")).unwrap();
        fs::create_dir_all(place.join("onnxruntime")).unwrap();
    }
    for name in ["program.toml", "pictures.tar"] {
        fs::copy(example("text-detection").join(name), program.join(name)).unwrap();
    }
    fs::copy(models("ppocr/detect.onnx"), folder.join("ppocr/detect.onnx")).unwrap();
    // A program cannot bring it along.
    fs::copy(models(library), program.join(library)).unwrap();
    let run = || {
        let mut command = machine.command(&["exec", "run", program.to_str().unwrap()]);
        let output = command.env("OPENGPU_MODELS", &folder).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, error) = run();
    assert!(code == 2 && error.contains("cargo xtask models"), "{code} {error}");
    let mut bytes = fs::read(models(library)).unwrap();
    fs::write(folder.join(library), &bytes).unwrap();
    assert_eq!(run().0, 0, "all that was missing was the library");
    // One bit in the middle.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(folder.join(library), &bytes).unwrap();
    let (code, error) = run();
    assert!(code == 2 && error.contains("SHA-256"), "{code} {error}");
}

#[test]
fn a_question_on_standard_input_is_answered_on_standard_output() {
    let machine = Machine::new();
    let mut child = machine
        .command(&["chat", "smollm2-135m-instruct", "--temperature", "0", "--max-tokens", "24"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"Write one sentence about the sea.").unwrap();
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("sea"));
}

/// A server that ends with the test.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(machine: &Machine) -> Self {
        let arguments = ["serve", "smollm2-135m-instruct", "--listen", "127.0.0.1:0"];
        let mut child = machine.command(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        let mut words = BufReader::new(child.stderr.take().unwrap()).lines();
        let line = words.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("serving")));
        let line = line.expect("it says where it serves").unwrap();
        let url = line.split_whitespace().last().unwrap().to_owned();
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const SCRIPT: &str = r#"
import sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
model = client.models.list().data[0].id
question = [{"role": "user", "content": "Write one sentence about the sea."}]
wishes = dict(model=model, messages=question, temperature=0, max_tokens=24)
whole = client.chat.completions.create(**wishes)
assert "sea" in whole.choices[0].message.content, whole
assert whole.usage.prompt_tokens > 5 and whole.usage.completion_tokens > 2, whole.usage
pieces, usage = [], None
for chunk in client.chat.completions.create(
    stream=True, stream_options={"include_usage": True}, **wishes
):
    if chunk.choices and chunk.choices[0].delta.content:
        pieces.append(chunk.choices[0].delta.content)
    usage = chunk.usage or usage
assert len(pieces) > 3, pieces
assert "".join(pieces) == whole.choices[0].message.content, pieces
assert usage == whole.usage, (usage, whole.usage)
print("equal")
"#;

#[test]
fn openais_own_client_chats_and_streams() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let told = Command::new(env!("CARGO"))
        .args(["xtask", "packages", PACKAGE])
        .current_dir(root)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    let folder = told.trim().strip_prefix(PACKAGE).expect("xtask names the folder").trim();
    let machine = Machine::new();
    let server = Server::start(&machine);
    let python = PathBuf::from(folder).join("python");
    let output = Command::new(python).args(["-c", SCRIPT, &server.url]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "equal");
}

#[test]
fn the_doctor_says_which_programs_this_machine_runs_and_what_brings_the_rest() {
    let machine = Machine::new();
    let empty = machine.0.path().join("no models");
    fs::create_dir(&empty).unwrap();
    let states = |models: Option<&std::path::Path>| {
        let mut command = machine.command(&["doctor", "-o", "json"]);
        if let Some(models) = models {
            command.env("OPENGPU_MODELS", models);
        }
        let output = command.output().unwrap();
        let checks: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = checks.as_array().unwrap().clone();
        move |kind: &str| {
            let name = format!("programs: {kind}");
            let found = checks.iter().find(|check| check["name"] == name.as_str()).cloned();
            found.unwrap_or_else(|| panic!("nothing about {kind}"))
        }
    };
    let here = states(None);
    for kind in ["wasm", "gpu", "llm", "onnx", "train", "native"] {
        assert_eq!(here(kind)["state"], "ok", "{kind}: {}", here(kind));
    }
    let found = here("llm")["found"].as_str().unwrap().to_owned();
    assert!(found.contains("none is built in") && found.contains("opengpu chat"), "{found}");
    let without = states(Some(&empty))("onnx");
    assert_eq!(
        (without["state"].as_str(), without["fix"].as_str()),
        (Some("warn"), Some("cargo xtask models"))
    );
}
