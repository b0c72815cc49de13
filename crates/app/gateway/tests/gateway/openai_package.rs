//! The server as OpenAI's own Python package sees it. `openai_package.py` holds the checks; this
//! file starts the server and gives it to them.

use crate::parrot::{MODEL, Parrot, Seen, Server};
use opengpu_gateway::{Keys, Limits, Settings};
use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

/// Another version may send other fields, so this one is fixed.
const PACKAGE: &str = "pip:openai==3.49.0";
const KEY: &str = "ogpu_a_key_for_the_package";

/// The Python that has the package.
fn python() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).unwrap();
    let output = std::process::Command::new(env!("CARGO"))
        .args(["xtask", "packages", PACKAGE])
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let folder = text.trim().strip_prefix(PACKAGE).expect("xtask names the folder").trim();
    Path::new(folder).join("python")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn e2e_the_openai_package_works_unchanged() {
    let python = tokio::task::spawn_blocking(python).await.unwrap();
    let (engine, mut seen) = Parrot::new();
    let limits = Limits { running: 1, waiting: 0, ..Limits::default() };
    let keys = Keys::new([KEY]).unwrap();
    let server = Server::start(engine, Settings { keys, limits, ..Settings::default() }).await;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openai_package.py");
    let output = tokio::process::Command::new(python)
        .arg(script)
        .arg(format!("http://{}/v1", server.address))
        .arg(KEY)
        .arg(MODEL)
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    let (told, wrong) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}\n{wrong}");
    assert!(told.trim_end().ends_with("all checks passed"), "{told}\n{wrong}");
    // The last check leaves in the middle of a stream.
    let mut last = None;
    while let Ok(next) = seen.try_recv() {
        last = Some(next);
    }
    if last != Some(Seen::Cancelled) {
        assert_eq!(seen.recv().await, Some(Seen::Cancelled));
    }
}
