//! Every kind of program goes on in another process from where it stopped: the examples, cut in two.
//! Models and data are those that `cargo xtask models` fetches.

#[cfg(feature = "gpu")]
use crate::guests::launch;
use crate::guests::supervisor;
use crate::parts::joins;
#[cfg(feature = "gpu")]
use opengpu_exec::Supervisor;
use opengpu_exec::{Data, Errand, Fault, News, Program, Standing};
use opengpu_types::{ArtifactId, Checkpoint, SegmentIndex};
use opengpu_verify::trace::{Emitted, Extent};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The tests of this file.
pub(crate) const TESTS: &[(&str, fn())] = &[
    ("a_module_goes_on_elsewhere", || example("nbody", 8, &[0, 3, 8])),
    #[cfg(feature = "gpu")]
    ("a_kernel_goes_on_elsewhere", || example("heat-gpu", 8, &[0, 3, 8])),
    #[cfg(feature = "gpu")]
    (
        "a_kernel_without_a_state_is_the_same_on_two_devices",
        a_kernel_without_a_state_is_the_same_on_two_devices,
    ),
    #[cfg(feature = "gpu")]
    ("a_kernel_with_a_state_is_refused_on_two_devices", a_state_is_not_shared),
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
    #[cfg(target_os = "linux")]
    ("what_a_script_says_is_heard_while_it_runs", what_a_script_says_is_heard_while_it_runs),
    #[cfg(target_os = "linux")]
    ("a_script_that_fails_is_heard_to_its_end", a_script_that_fails_is_heard_to_its_end),
];

fn example(name: &str, segments: u32, cuts: &[u32]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name);
    let program = Program::open(&folder).unwrap();
    let input: Option<PathBuf> =
        program.manifest.input.as_deref().map(|input| program.path(input).unwrap());
    let input = input.map(|path| fs::read(path).unwrap()).unwrap_or_default();
    joins(&program, &input, segments, cuts);
}

/// An executor on so many devices: the first one of this machine, again and again.
#[cfg(feature = "gpu")]
fn on_devices(count: usize) -> Supervisor {
    let first = opengpu_exec::gpu::adapters().into_iter().next().unwrap();
    let ids = vec![first.info().id.to_string(); count];
    Supervisor::new(launch("executor").on(&ids))
}

#[cfg(feature = "gpu")]
fn a_kernel_without_a_state_is_the_same_on_two_devices() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/path-tracer");
    let program = Program::open(&folder).unwrap();
    // As many segments as steps, and fewer: a share of a segment, and whole ones ahead.
    for segments in [64, 5] {
        let run = |devices| {
            let errand =
                Errand { segments: Some(segments), ..Errand::new(Data::Inline(Vec::new())) };
            let mut trace = Vec::new();
            let supervisor = on_devices(devices);
            let outcome = supervisor.run(&program, errand).unwrap().wait(|news| {
                if let News::Segment(segment) = news {
                    trace.push((segment.index, segment.state, segment.emitted));
                }
            });
            (outcome.unwrap().output, trace)
        };
        let (one, trace) = run(1);
        assert_eq!(one.len(), 64 * 4096);
        assert_eq!(run(2), (one, trace), "{segments} segments");
    }
}

#[cfg(feature = "gpu")]
fn a_state_is_not_shared() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/heat-gpu");
    let refused = on_devices(2).prepare(&Program::open(&folder).unwrap()).unwrap_err();
    assert!(refused.to_string().contains("ask for one"), "{refused}");
}

/// A program that is this script.
#[cfg(target_os = "linux")]
fn script(text: &str) -> (tempfile::TempDir, Program) {
    let folder = tempfile::tempdir().unwrap();
    let manifest = "name = 'a'\nkind = 'native'\ncode = 'a.py'\nclass = 'none'\n";
    fs::write(folder.path().join("program.toml"), manifest).unwrap();
    fs::write(folder.path().join("a.py"), text).unwrap();
    let program = Program::open(folder.path()).unwrap();
    (folder, program)
}

/// What an executor says of lines, one after the other.
#[cfg(target_os = "linux")]
fn hear(news: &News, heard: &mut Vec<String>) {
    if let News::Logged(line) = news {
        heard.push(String::from_utf8(line.clone()).unwrap());
    }
}

#[cfg(target_os = "linux")]
fn what_a_script_says_is_heard_while_it_runs() {
    let text = "import sys, time\nprint('begun', file=sys.stderr)\nprint('printed')\n\
                time.sleep(2)\nprint('over', file=sys.stderr)\n";
    let (_folder, program) = script(text);
    let supervisor = supervisor("executor");
    let ticket = supervisor.run(&program, Errand::new(Data::Inline(Vec::new()))).unwrap();
    let (mut heard, mut times) = (Vec::new(), Vec::new());
    let outcome = ticket.wait(|news| {
        hear(news, &mut heard);
        times.resize(heard.len(), Instant::now());
    });
    assert_eq!(outcome.unwrap().output, b"printed\n", "words are no output");
    assert_eq!(heard.last().unwrap(), "over\n");
    heard.sort();
    assert_eq!(heard, ["begun\n", "over\n", "printed\n"]);
    assert!(times[2] - times[1] > Duration::from_secs(1), "as they come: {times:?}");
}

#[cfg(target_os = "linux")]
fn a_script_that_fails_is_heard_to_its_end() {
    let text = "import sys\nfor i in range(1000):\n    print(i, file=sys.stderr)\n\
                def broken():\n    return 1 // 0\nbroken()\n";
    let (_folder, program) = script(text);
    let supervisor = supervisor("executor");
    let ticket = supervisor.run(&program, Errand::new(Data::Inline(Vec::new()))).unwrap();
    let mut heard = Vec::new();
    let (fault, _) = ticket.wait(|news| hear(news, &mut heard)).unwrap_err();
    assert_eq!(fault, Fault::Program { reason: "it ended with code 1".to_owned() });
    assert_eq!(heard[0], "0\n");
    assert!(heard.iter().any(|line| line.contains("lines left out")), "{heard:?}");
    let end = heard[heard.len() - 12..].concat();
    assert!(end.contains("Traceback") && end.contains("in broken"), "{end}");
    assert!(heard.last().unwrap().starts_with("ZeroDivisionError"), "{end}");
}

#[cfg(target_os = "linux")]
fn a_script_without_checkpoints_says_so() {
    let (_folder, program) = script("print('all of it')\n");
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
