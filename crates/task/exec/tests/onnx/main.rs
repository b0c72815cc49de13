//! Networks in ONNX files with the real library and real models, in executors as real processes: this
//! binary is its own executor. They need what `cargo xtask models` fetches.

#![cfg(all(feature = "onnx", target_os = "linux"))]
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test stops where it fails"
)]

mod models;
#[path = "../models/mod.rs"]
mod places;

use libtest_mimic::{Arguments, Trial};
use models::{Field, POLYGLOT, endless, number, text};
use opengpu_exec::{
    Data, Errand, Fault, Launch, Outcome, Program, Refusal, StartError, Supervisor,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tempfile::TempDir;

const TESTS: &[(&str, fn())] = &[
    ("text_is_found_where_it_stands", text_is_found_where_it_stands),
    ("a_line_that_stands_on_its_head_is_told", a_line_that_stands_on_its_head_is_told),
    ("floats_are_the_networks_own_numbers", floats_are_the_networks_own_numbers),
    ("what_is_no_picture_does_not_end_the_run", what_is_no_picture_does_not_end_the_run),
    ("a_model_that_points_elsewhere_is_refused", a_model_that_points_elsewhere_is_refused),
    ("a_model_is_read_as_onnx_and_nothing_else", a_model_is_read_as_onnx_and_nothing_else),
    ("a_view_that_does_not_fit_is_refused", a_view_that_does_not_fit_is_refused),
    ("a_model_that_never_ends_is_stopped", a_model_that_never_ends_is_stopped),
    ("broken_models_are_errors_and_the_next_one_works", broken_models_are_errors),
];

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("executor") {
        opengpu_exec::child::serve().unwrap();
        return ExitCode::SUCCESS;
    }
    let trials = TESTS.iter().map(|(name, test)| {
        Trial::test(*name, move || {
            test();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

fn supervisor() -> Supervisor {
    let program = std::env::current_exe().unwrap();
    let arguments = vec!["executor".into()];
    Supervisor::new(Launch {
        program,
        arguments,
        threads: None,
        device: None,
        reads: Vec::new(),
        writes: Vec::new(),
    })
}

/// What the model for the direction of text wants to see.
const VIEW: &str = "width = 192\nheight = 48\nfit = 'pad'\nchannels = 'bgr'\n\
                    mean = [0.5, 0.5, 0.5]\ndeviation = [0.5, 0.5, 0.5]";
const LABELS: &str = "[onnx.output.labels]\nnames = ['upright', 'turned']";

/// A program in a folder of its own with this model.
fn program(model: &[u8], class: &str, view: &str, output: &str) -> (TempDir, Program) {
    let folder = tempfile::tempdir().unwrap();
    let manifest = format!(
        "name = 'test'\nkind = 'onnx'\ncode = 'a.onnx'\nclass = '{class}'\n\
         [limits]\nseconds = 20\nmemory = '1 GiB'\n[onnx]\n{output}\n[onnx.view]\n{view}\n"
    );
    fs::write(folder.path().join("a.onnx"), model).unwrap();
    fs::write(folder.path().join("program.toml"), manifest).unwrap();
    let program = Program::open(folder.path()).unwrap();
    (folder, program)
}

fn direction() -> Vec<u8> {
    fs::read(places::path("ppocr/direction.onnx")).unwrap()
}

fn run(program: &Program, input: Vec<u8>) -> Result<Outcome, Fault> {
    let supervisor = supervisor();
    let ticket = supervisor.run(program, Errand::new(Data::Inline(input))).unwrap();
    ticket.wait(|_| {}).map_err(|(fault, _)| fault)
}

fn refusal(program: &Program) -> Refusal {
    match supervisor().prepare(program) {
        Err(StartError::Refused(refusal)) => refusal,
        other => panic!("it should be refused: {other:?}"),
    }
}

fn lines(outcome: &Outcome) -> Vec<Value> {
    let text = std::str::from_utf8(&outcome.output).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Rows of five points for letters that look otherwise when they are turned.
const LETTERS: [[u8; 7]; 6] = [
    [0x1f, 0x10, 0x10, 0x1e, 0x10, 0x10, 0x10],
    [0x0e, 0x11, 0x11, 0x1f, 0x11, 0x11, 0x11],
    [0x1e, 0x11, 0x11, 0x1e, 0x14, 0x12, 0x11],
    [0x1f, 0x04, 0x04, 0x04, 0x04, 0x04, 0x04],
    [0x11, 0x11, 0x0a, 0x04, 0x04, 0x04, 0x04],
    [0x1e, 0x11, 0x11, 0x1e, 0x10, 0x10, 0x10],
];

/// A line of dark text on a light ground, 192 by 48 points, as a PGM picture.
fn painted(turned: bool) -> Vec<u8> {
    let dark = |x: usize, y: usize| {
        let (column, row) = (x.checked_sub(6)? / 5, y.checked_sub(6)? / 5);
        let letter = LETTERS.get(column / 6)?.get(row)?;
        (column % 6 < 5 && letter >> (4 - column % 6) & 1 == 1).then_some(40)
    };
    let mut points: Vec<u8> =
        (0..48 * 192).map(|at| dark(at % 192, at / 192).unwrap_or(230)).collect();
    if turned {
        points.reverse();
    }
    [b"P5 192 48 255\n", &points[..]].concat()
}

fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(u64::try_from(bytes.len()).unwrap());
        archive.append_data(&mut header, name, *bytes).unwrap();
    }
    archive.into_inner().unwrap()
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/text-detection")
}

/// Where the words of two pictures of the example were painted.
const SIGN: [[i64; 4]; 2] = [[160, 100, 488, 156], [240, 185, 414, 227]];
const POSTER: [[i64; 4]; 3] = [[50, 60, 311, 123], [50, 150, 311, 213], [60, 400, 608, 428]];

fn text_is_found_where_it_stands() {
    let program = Program::open(&example()).unwrap();
    let outcome = run(&program, fs::read(example().join("pictures.tar")).unwrap()).unwrap();
    assert_eq!((outcome.part.extent.steps, outcome.segments.len()), (4, 5));
    let found = lines(&outcome);
    let names: Vec<&str> = found.iter().map(|line| line["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["sign.png", "receipt.png", "poster.png", "landscape.png"]);
    for (line, painted) in [(&found[0], &SIGN[..]), (&found[2], &POSTER[..])] {
        let boxes = line["boxes"].as_array().unwrap();
        assert_eq!(boxes.len(), painted.len(), "{line}");
        for (found, painted) in boxes.iter().zip(painted) {
            let sides = ["left", "top", "right", "bottom"];
            let found = sides.map(|side| found[side].as_i64().unwrap());
            let off = found.iter().zip(painted).map(|(found, painted)| (found - painted).abs());
            assert!(off.max().unwrap() <= 16, "{found:?} for {painted:?}");
        }
    }
    assert_eq!(found[1]["boxes"].as_array().unwrap().len(), 11, "one for each word of the receipt");
    assert_eq!(found[3]["boxes"].as_array().unwrap().len(), 0, "hills and a sun are no text");
}

fn a_line_that_stands_on_its_head_is_told() {
    let (_folder, program) = program(&direction(), "exact", VIEW, LABELS);
    let input = archive(&[("a", &painted(false)), ("b", &painted(true))]);
    let found = lines(&run(&program, input).unwrap());
    assert_eq!((&found[0]["label"], &found[1]["label"]), (&"upright".into(), &"turned".into()));
    assert!(found.iter().all(|line| line["confidence"].as_f64().unwrap() > 0.8), "{found:?}");
}

fn floats_are_the_networks_own_numbers() {
    let (_folder, program) = program(&direction(), "tolerance", VIEW, "output = 'floats'");
    let outcome = run(&program, painted(true)).unwrap();
    let numbers: Vec<f32> =
        outcome.output.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let [upright, turned] = numbers[..] else { panic!("two numbers: {numbers:?}") };
    assert!(turned > 0.8 && (0.0..0.2).contains(&upright), "{numbers:?}");
    let fault = run(&program, b"no picture".to_vec()).unwrap_err();
    assert!(matches!(fault, Fault::Input { .. }), "{fault}");
    let (_folder, program) = self::program(&direction(), "tolerance", VIEW, LABELS);
    assert!(refusal(&program).to_string().contains("tolerance"), "text is not compared as floats");
}

fn what_is_no_picture_does_not_end_the_run() {
    let (_folder, program) = program(&direction(), "exact", VIEW, LABELS);
    let input = archive(&[("a", b"\x89PNG\r\n\x1a\n"), ("b", b"text"), ("c", &painted(true))]);
    let found = lines(&run(&program, input).unwrap());
    assert!(found[..2].iter().all(|line| line["refused"].is_string()), "{found:?}");
    assert_eq!(found[2]["label"], "turned");
}

fn a_model_that_points_elsewhere_is_refused() {
    // What follows a message is merged into it: a graph with one more tensor, or one more node.
    let place = [text(1, "location"), text(2, "/etc/hostname")].concat();
    let float = [number(1, 1), number(2, 1)].concat();
    let tensor = [float, text(8, "t"), number(14, 1), Field(13, place).bytes()].concat();
    let outside = Field(7, Field(5, tensor).bytes()).bytes();
    let node = [text(4, "Gelu"), text(7, "com.microsoft")].concat();
    let foreign = Field(7, Field(1, node).bytes()).bytes();
    for (more, word) in [(outside, "another file"), (foreign, "com.microsoft")] {
        let (_folder, program) = program(&[direction(), more].concat(), "exact", VIEW, LABELS);
        let refusal = refusal(&program);
        assert!(matches!(refusal, Refusal::Program { .. }), "{refusal}");
        assert!(refusal.to_string().contains(word), "{refusal}");
    }
}

fn a_model_is_read_as_onnx_and_nothing_else() {
    let (_folder, program) = program(&[POLYGLOT, &direction()].concat(), "exact", VIEW, LABELS);
    assert_eq!(lines(&run(&program, painted(true)).unwrap())[0]["label"], "turned");
}

fn a_view_that_does_not_fit_is_refused() {
    let grey = "width = 192\nheight = 48\nchannels = 'grey'";
    let (_folder, program) = program(&direction(), "exact", grey, LABELS);
    assert!(refusal(&program).to_string().contains("[1, 1, 48, 192]"));
    let wrong = LABELS.replace("'upright', ", "");
    let (_folder, program) = self::program(&direction(), "exact", VIEW, &wrong);
    let fault = run(&program, painted(true)).unwrap_err();
    assert!(fault.to_string().contains("2 numbers for 1 labels"), "{fault}");
}

fn a_model_that_never_ends_is_stopped() {
    let view = "width = 4\nheight = 4\nchannels = 'grey'";
    let (_folder, program) = program(&endless(), "exact", view, "output = 'floats'");
    let supervisor = supervisor();
    let mut errand = Errand::new(Data::Inline(painted(false)));
    supervisor.prepare(&program).unwrap();
    let process = supervisor.process_id();
    errand.time = Some(std::time::Duration::from_millis(500));
    let (fault, _) = supervisor.run(&program, errand).unwrap().wait(|_| {}).unwrap_err();
    assert_eq!(fault, Fault::Deadline { milliseconds: 500 });
    supervisor.prepare(&program).unwrap();
    assert_eq!(supervisor.process_id(), process, "the library heard it, and its process lives on");
}

fn broken_models_are_errors() {
    let whole = direction();
    let supervisor = supervisor();
    let attempt = |model: &[u8]| {
        let (_folder, program) = program(model, "exact", VIEW, LABELS);
        let ticket = supervisor.run(&program, Errand::new(Data::Inline(painted(true))))?;
        Ok::<_, StartError>(ticket.wait(|_| {}).map_err(|(fault, _)| fault))
    };
    for part in 0..16 {
        let cut = whole.len() * part / 16;
        assert!(!matches!(attempt(&whole[..cut]), Ok(Ok(_))), "{cut} bytes are no model");
    }
    // The head byte by byte, and places all over the file: most of them are weights.
    let places = (0..64).chain((1..48).map(|part| whole.len() * part / 48 + part * 7));
    for place in places.filter(|place| *place < whole.len()) {
        let mut model = whole.clone();
        model[place] ^= 1 << (place % 8);
        match attempt(&model) {
            Ok(_) | Err(StartError::Refused(_) | StartError::Died(_)) => {}
            Err(error) => panic!("byte {place}: {error}"),
        }
    }
    let found = lines(&attempt(&whole).unwrap().unwrap());
    assert_eq!(found[0]["label"], "turned", "the next model works");
}
