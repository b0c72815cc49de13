//! llama.cpp's own server, by its Python package.

use crate::{error::BenchError, process::Process};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// Starts the server and writes where it listens; it ends with its group.
const SCRIPT: &str = include_str!("llama.py");
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(super) struct Llama {
    process: Process,
    address: String,
}

impl Llama {
    pub(super) fn start(python: &Path, model: &Path, folder: &Path) -> Result<Self, BenchError> {
        let (script, told) = (folder.join("llama.py"), folder.join("address"));
        fs::write(&script, SCRIPT).map_err(BenchError::system("writing a script"))?;
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut command = Command::new(python);
        command.arg(script).arg(model).arg(&told).arg(threads.to_string());
        let mut process = Process::start("llama.cpp", &mut command, &folder.join("llama.log"))?;
        let begun = Instant::now();
        loop {
            process.check()?;
            match fs::read_to_string(&told) {
                Ok(text) if text.ends_with('\n') => {
                    return Ok(Self { process, address: text.trim().to_owned() });
                }
                _ if begun.elapsed() > PATIENCE => {
                    return Err(BenchError::Slow {
                        what: "starting llama.cpp",
                        seconds: PATIENCE.as_secs(),
                    });
                }
                _ => thread::sleep(LOOK),
            }
        }
    }

    /// Tokens per second after the first, as the server itself measures them.
    pub(super) fn answer(&mut self, prompt: &[u32], tokens: u32) -> Result<f64, BenchError> {
        self.process.check()?;
        let failed = |error: String| BenchError::Peer(error);
        let body = json!({
            "prompt": prompt,
            "n_predict": tokens,
            "temperature": 0,
            "ignore_eos": true,
            "cache_prompt": false,
        });
        let mut answer = ureq::post(format!("{}/completion", self.address))
            .send_json(body)
            .map_err(|error| failed(error.to_string()))?;
        let answer: Value =
            answer.body_mut().read_json().map_err(|error| failed(error.to_string()))?;
        let timing = |name: &str| answer.pointer(&format!("/timings/{name}"));
        let count = timing("predicted_n").and_then(Value::as_u64);
        let time = timing("predicted_ms").and_then(Value::as_f64);
        match (count, time) {
            (Some(count), Some(time)) if count == u64::from(tokens) && time > 0.0 => {
                Ok(f64::from(tokens.saturating_sub(1)) * 1e3 / time)
            }
            _ => Err(failed(format!("it measured {count:?} tokens in {time:?} ms"))),
        }
    }
}
