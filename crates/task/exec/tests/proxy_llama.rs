//! The proxy in front of a real server: llama.cpp's own, with a small real model.

#![expect(
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    reason = "a test stops where it fails, and its numbers are small"
)]

use opengpu_exec::proxy::{
    ChatRequest, CompletionRequest, Event, FinishReason, Finished, Limits, Message, Origin, Prompt,
    ProxyError, Reach, Role, Sampling, Upstream,
};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Child,
};

const SERVER: &str = "pip:xllamacpp==2026.10.11549";
const MODEL: &str = "smollm2-135m-instruct.gguf";

fn xtask(arguments: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    let mut command = Command::new(env!("CARGO"));
    command.arg("xtask").args(arguments).current_dir(root).stderr(Stdio::inherit());
    let output = command.output().unwrap();
    assert!(output.status.success(), "xtask {arguments:?} failed");
    String::from_utf8(output.stdout).unwrap()
}

fn python() -> PathBuf {
    let told = xtask(&["packages", SERVER]);
    let folder = told.trim().strip_prefix(SERVER).expect("xtask names the folder").trim();
    Path::new(folder).join("python")
}

fn model() -> PathBuf {
    match std::env::var_os("OPENGPU_MODELS") {
        Some(folder) => Path::new(&folder).join(MODEL),
        None => {
            let told = xtask(&["models"]);
            let found = told.lines().find(|line| line.ends_with(MODEL));
            PathBuf::from(found.expect("xtask names the model"))
        }
    }
}

/// Starts the server; it ends when its input does, at the latest when the child is dropped.
async fn start() -> (Child, Upstream) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/llama_server.py");
    let mut child = tokio::process::Command::new(python())
        .arg(script)
        .arg(model())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut address = String::new();
    let mut told = BufReader::new(child.stdout.take().unwrap());
    told.read_line(&mut address).await.unwrap();
    let origin = Origin::parse(address.trim(), Reach::Loopback).unwrap();
    let long = Duration::from_secs(300);
    let limits = Limits { head: long, silence: long, ..Limits::default() };
    (child, Upstream::new(origin, None, limits).unwrap())
}

fn greedy(max_tokens: u32) -> Sampling {
    Sampling {
        temperature: Some(0.0),
        seed: Some(1),
        max_tokens: Some(max_tokens),
        ..Sampling::default()
    }
}

fn chat(text: &str, sampling: Sampling) -> ChatRequest {
    let message = Message { role: Role::User, text: text.into(), name: None };
    ChatRequest { model: "smollm2".into(), messages: vec![message], sampling }
}

async fn read(mut answer: opengpu_exec::proxy::Answer) -> (String, usize, Finished) {
    let (mut text, mut listed) = (String::new(), 0);
    loop {
        match answer.next().await.unwrap().expect("an answer has an end") {
            Event::Piece(piece) => {
                text.push_str(&piece.text);
                listed += piece.logprobs.len();
            }
            Event::Finished(finished) => return (text, listed, finished),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2e_a_real_server_is_counted_capped_and_stopped() {
    let (_child, upstream) = start().await;
    let models = upstream.models().await.unwrap();
    assert_eq!(models.iter().map(|model| model.id.as_str()).collect::<Vec<_>>(), ["smollm2"]);

    // A server that answers one request at a time is free again as soon as an answer is dropped.
    let endless = chat("Count from 1 to 1000.", Sampling::default());
    let mut answer = upstream.chat(&endless).await.unwrap();
    assert!(matches!(answer.next().await, Ok(Some(Event::Piece(_)))));
    drop(answer);

    let request = chat("Name a colour.", Sampling { top_logprobs: Some(2), ..greedy(4) });
    let (text, listed, finished) = read(upstream.chat(&request).await.unwrap()).await;
    assert!(!text.is_empty());
    assert_eq!(finished.usage.completion_tokens, 4, "the count of both sides: {finished:?}");
    assert_eq!((listed, finished.reason), (4, FinishReason::Length));
    assert!((5..100).contains(&finished.usage.prompt_tokens), "{finished:?}");
    let (again, _, _) = read(upstream.chat(&request).await.unwrap()).await;
    assert_eq!(again, text, "greedy text is the same every time");

    let request = CompletionRequest {
        model: "smollm2".into(),
        prompt: Prompt::Text("One, two, three,".into()),
        sampling: greedy(3),
    };
    let (text, _, finished) = read(upstream.complete(&request).await.unwrap()).await;
    assert!(!text.is_empty());
    assert_eq!(finished.usage.completion_tokens, 3);

    let long = chat(&"word ".repeat(4_000), greedy(3));
    let refused = upstream.chat(&long).await.map(drop).unwrap_err();
    assert!(matches!(refused, ProxyError::Refused { status: 400, .. }), "{refused}");
}
