//! Every kind of program goes on in another process from where it stopped: the examples, cut in two.
//! Models and data are those that `cargo xtask models` fetches.

use crate::guests::supervisor;
use crate::parts::joins;
use opengpu_exec::{Data, Errand, Fault, Program, Standing};
use opengpu_types::{ArtifactId, Checkpoint, SegmentIndex};
use opengpu_verify::trace::{Emitted, Extent};
use std::fs;
use std::path::{Path, PathBuf};

/// The tests of this file.
pub(crate) const TESTS: &[(&str, fn())] = &[
    ("a_module_goes_on_elsewhere", || example("nbody", 8, &[0, 3, 8])),
    #[cfg(feature = "gpu")]
    ("a_kernel_goes_on_elsewhere", || example("heat-gpu", 8, &[0, 3, 8])),
    #[cfg(feature = "llm")]
    ("a_model_goes_on_elsewhere", || example("chat", 3, &[0, 1, 3])),
    #[cfg(feature = "llm")]
    ("embeddings_go_on_elsewhere", || example("embeddings", 2, &[1])),
    #[cfg(feature = "llm")]
    ("training_goes_on_elsewhere", || example("train-digits", 4, &[0, 1, 4])),
    #[cfg(all(feature = "onnx", target_os = "linux"))]
    ("a_network_goes_on_elsewhere", || example("text-detection", 3, &[1])),
    #[cfg(target_os = "linux")]
    ("a_script_with_checkpoints_goes_on_elsewhere", || example("python-numpy", 5, &[0, 2, 5])),
    #[cfg(target_os = "linux")]
    ("a_script_without_checkpoints_says_so", a_script_without_checkpoints_says_so),
];

fn example(name: &str, segments: u32, cuts: &[u32]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name);
    let program = Program::open(&folder).unwrap();
    let input: Option<PathBuf> =
        program.manifest.input.as_deref().map(|input| program.path(input).unwrap());
    let input = input.map(|path| fs::read(path).unwrap()).unwrap_or_default();
    joins(&program, &input, segments, cuts);
}

#[cfg(target_os = "linux")]
fn a_script_without_checkpoints_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "name = 'a'\nkind = 'native'\ncode = 'a.py'\nclass = 'none'\n";
    fs::write(folder.path().join("program.toml"), manifest).unwrap();
    fs::write(folder.path().join("a.py"), "print('all of it')\n").unwrap();
    let program = Program::open(folder.path()).unwrap();
    joins(&program, b"", 1, &[0, 1]);
    let checkpoint = Checkpoint {
        index: SegmentIndex(1),
        state: ArtifactId::of(b""),
        emitted: Emitted::NOTHING.0,
        bytes_out: 0,
    };
    let (extent, state) = (Extent { steps: 2, segments: 2 }, Data::Inline(Vec::new()));
    let from = Some(Standing { checkpoint, extent, state });
    let errand = Errand { from, ..Errand::new(Data::Inline(Vec::new())) };
    let ended = supervisor("executor").run(&program, errand).unwrap().wait(|_| {});
    let (fault, _) = ended.unwrap_err();
    assert!(matches!(fault, Fault::Program { .. }), "{fault}");
    assert!(fault.to_string().contains("keeps no checkpoints"), "{fault}");
}
