//! What a predicate judges and never sees whole: a run that fails or is halted has made a part of it.

use crate::{SHORT, Scene};
use opengpu_exec::Program;
use opengpu_link::Session;
use opengpu_link::session::{Refusal, SessionError};
use opengpu_types::{ArtifactId, Class, CloseReason, LeaseId, MarketOperation, Outcome};
use std::path::Path;
use tempfile::TempDir;

/// What each step adds to the output.
const PART: &[u8] = b"found;";

/// A program of 64 steps, each of which does this and adds a part to the output.
fn program(step: &str) -> TempDir {
    let text = format!(
        r#"(module (memory (export "memory") 2) (data (i32.const 0) "found;")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "init") (param i32 i32) (result i64) (i64.const 1))
  (func (export "steps") (param i32 i32) (result i64) (i64.const 64))
  (func (export "step") (param i32 i32) (param $number i64) (result i64)
    (local $left i64) {step} (i64.const 1))
  (func (export "emitted") (result i64) (i64.const 6))
  (func (export "finish") (param i32 i32) (result i64) (i64.const 0)))"#
    );
    let manifest = "name = 'a'\nkind = 'wasm'\ncode = 'a.wasm'\nclass = 'exact'\nsegments = 64\n\
                    [limits]\nmemory = '1 MiB'\nseconds = 60\nfuel = 900_000_000_000\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.wasm"), wat::parse_str(text).unwrap()).unwrap();
    std::fs::write(folder.path().join("program.toml"), manifest).unwrap();
    folder
}

/// Fails in the middle.
const FAILS: &str = "(if (i64.eq (local.get $number) (i64.const 32)) (then unreachable))";
/// Takes some tenths of a second.
const SLOW: &str = "(local.set $left (i64.const 40000000))
    (loop $on (br_if $on (i64.gt_u
      (local.tee $left (i64.sub (local.get $left) (i64.const 1))) (i64.const 0))))";

/// A predicate that accepts anything, also a part of an output.
const ANYTHING: &str = r#"(module (memory (export "memory") 1) (data (i32.const 0) "\01")
  (func (export "alloc") (param i32) (result i32) (i32.const 1024))
  (func (export "init") (param i32 i32) (result i64) (i64.const 1))
  (func (export "steps") (param i32 i32) (result i64) (i64.const 1))
  (func (export "step") (param i32 i32 i64) (result i64) (i64.const 1))
  (func (export "finish") (param i32 i32) (result i64) (i64.const 1)))"#;

/// A lease of the program that runs, judged by a predicate or by nobody.
fn begun(scene: &Scene, folder: &Path, judged: bool) -> (LeaseId, Session) {
    let predicate = wat::parse_str(ANYTHING).unwrap();
    let program = Program::open(folder).unwrap();
    let task = scene.client.submit(scene.village(), &program, SHORT, |spec| {
        if judged {
            spec.class = Class::Predicate(ArtifactId::of(&predicate));
        }
    });
    let lease = scene.lease(task);
    let session = scene.client.dial(&scene.agent().nearby());
    scene.client.put(&session, &predicate);
    let reader = scene.agent().contact().sealing;
    scene.client.deliver(&session, reader, lease, (folder, SHORT), None).unwrap();
    (lease, session)
}

/// What came out of a program that fails: so much that its client gets, or a refusal.
fn failed(scene: &Scene, judged: bool) -> Result<Vec<u8>, SessionError> {
    let folder = program(FAILS);
    let (lease, session) = begun(scene, folder.path(), judged);
    scene.client.follow(&session, lease, 0);
    assert_eq!(scene.closed(lease).0, CloseReason::Failed);
    if judged {
        return Err(scene.client.refused(&session, lease));
    }
    Ok(scene.client.output(&session, lease))
}

/// The same of one whose client cancels while it runs.
fn halted(scene: &Scene, judged: bool) -> Result<Vec<u8>, SessionError> {
    let folder = program(SLOW);
    let (lease, session) = begun(scene, folder.path(), judged);
    let output = format!("records/leases/{}-0/output", lease.task);
    let output = scene.folder.path().join(output);
    scene.village().until("a part of the output", || {
        std::fs::read(&output).is_ok_and(|bytes| bytes.starts_with(PART)).then_some(())
    });
    let cancel = MarketOperation::CancelTask { task: lease.task };
    let (_, outcome) = scene.village().act(&scene.client.key, cancel).unwrap();
    assert_eq!(outcome, Outcome::Applied);
    scene.client.follow(&session, lease, 0);
    assert_eq!(scene.closed(lease).0, CloseReason::Cancelled);
    if judged {
        return Err(scene.client.refused(&session, lease));
    }
    Ok(scene.client.output(&session, lease))
}

pub(crate) fn what_a_predicate_would_have_judged_is_nobodys_when_the_run_fails_or_is_halted() {
    let scene = Scene::new();
    for (how, run) in [("fails", failed as fn(&Scene, bool) -> _), ("is halted", halted)] {
        let open = run(&scene, false).unwrap();
        assert!(open.starts_with(PART), "there is something to hold back when it {how}");
        let judged = run(&scene, true).unwrap_err();
        let missing = matches!(judged, SessionError::Refused(Refusal::Missing));
        assert!(missing, "it {how}: {judged}");
    }
}
