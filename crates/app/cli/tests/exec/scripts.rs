//! The scripts beside the examples: what is missing is told in words.

use super::example;
use std::process::Command;

/// Scripts that read what they are given.
const SCRIPTS: [&str; 9] = [
    "picture.py",
    "sha256-search/check.py",
    "word-count/check.py",
    "mandelbrot/check.py",
    "heat/check.py",
    "nbody/check.py",
    "heat-gpu/check.py",
    "embeddings/nearest.py",
    "text-detection/draw.py",
];

#[test]
fn a_script_without_its_files_says_which_and_ends_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let target = folder.path().join("target");
    for script in SCRIPTS {
        let path = example(script);
        let two = matches!(script, "picture.py" | "text-detection/draw.py");
        let mut files = vec![missing.as_path()];
        files.extend(two.then_some(target.as_path()));
        for (arguments, wanted) in [(&[][..], "required"), (&files, "No such file")] {
            let output = Command::new("python3").arg(&path).args(arguments).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{script}: {said}");
            assert!(said.contains(wanted) && !said.contains("Traceback"), "{script}: {said}");
        }
    }
}
