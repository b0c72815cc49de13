//! Guests in the sandbox, through its public face: what they get, what they use up, how they end.
//!
//! The binary of this test is also the first program inside, so it has its own `main`.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::arithmetic_side_effects,
    reason = "a test stops where it fails"
)]

use libtest_mimic::{Arguments, Trial};
use opengpu_exec::native::image::{self, ImageError, ImageLimits};
use opengpu_exec::native::measure;
use opengpu_exec::native::python::{
    self, Environment, LayerError, Layers, Requirements, Span, Wheels,
};
use opengpu_exec::native::{
    Cgroup, Finished, How, Input, Limits, Network, Refusal, Rental, Root, Sandbox, SandboxError,
    Secret, Size, Spec, Work, inner_main,
};
use sha2::{Digest as _, Sha256};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

fn main() -> ExitCode {
    if let Some(code) = inner_main(std::env::args_os().skip(1)) {
        return code;
    }
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    let sandbox = Sandbox::new();
    // Without a sandbox there is nothing to test, and the list says so.
    let ignored = sandbox.is_err();
    if let Err(error) = &sandbox
        && !arguments.list
    {
        println!("ignored: {error}");
    }
    for (name, case) in CASES {
        let sandbox = sandbox.as_ref().ok().cloned();
        let run = move || {
            case(&sandbox.unwrap());
            Ok(())
        };
        trials.push(Trial::test(*name, run).with_ignored_flag(ignored));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

type Case = fn(&Sandbox);

macro_rules! cases {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name as Case)),*] };
}

const CASES: &[(&str, Case)] = cases![
    a_guest_runs_and_its_streams_and_usage_come_back,
    a_guest_is_nobody_and_sees_a_system_of_its_own,
    the_environment_holds_what_is_set_and_nothing_of_ours,
    a_secret_is_a_file_on_memory_and_stays_out_of_the_environment,
    outputs_are_read_from_the_work_folder_after_the_end,
    a_work_folder_on_disk_is_measured,
    a_work_folder_in_memory_is_bounded_by_the_kernel,
    a_deadline_ends_everything,
    cancelling_ends_everything,
    dropping_ends_everything,
    processor_time_is_added_up_over_all_processes,
    memory_is_bounded_over_all_processes,
    a_flood_is_cut_at_the_limit,
    a_guest_that_reads_gets_what_is_written,
    a_command_that_does_not_exist_is_the_fault_of_the_task,
    what_a_task_may_not_ask_for_is_refused_before_anything_starts,
    a_guest_survives_the_thread_that_asked_for_it,
    the_probe_tells_what_stands,
    a_guest_does_not_learn_where_its_inputs_came_from,
    an_image_without_our_libraries_runs_on_its_own_files_alone,
    an_image_is_the_same_however_its_layers_are_packed,
    an_image_of_an_engine_runs_in_our_sandbox,
    a_training_loop_in_two_spans_ends_in_the_same_bytes,
    a_checkpoint_that_was_changed_changes_the_end,
    packages_of_a_task_are_unpacked_inside_and_found_by_its_script,
    a_start_is_measured_beside_bubblewrap_alone,
    a_grant_reaches_what_is_far_and_nothing_near,
    a_rental_is_bytes_in_and_bytes_out,
];

fn run(sandbox: &Sandbox, spec: Spec) -> Finished {
    sandbox.start(spec).unwrap().output().unwrap()
}

fn shell(script: &str) -> Spec {
    Spec::new("sh", &["-c", script])
}

fn said(finished: &Finished) -> String {
    String::from_utf8_lossy(&finished.stdout).into_owned()
}

fn a_guest_runs_and_its_streams_and_usage_come_back(sandbox: &Sandbox) {
    let finished = run(sandbox, shell("echo out; echo err >&2; exit 7"));
    assert_eq!(finished.ended.how, How::Exited(7));
    assert_eq!(
        (finished.stdout.as_slice(), finished.stderr.as_slice()),
        (&b"out\n"[..], &b"err\n"[..])
    );
    let usage = finished.ended.usage;
    assert_eq!(usage.streams, 8);
    assert!(usage.wall > Duration::ZERO && usage.wall < Duration::from_secs(30), "{usage:?}");
    let finished = run(sandbox, shell("kill -9 $$"));
    assert_eq!(finished.ended.how, How::Signalled(9));
}

fn a_guest_is_nobody_and_sees_a_system_of_its_own(sandbox: &Sandbox) {
    let script = "id -u; hostname; ls /home /root /sys 2>/dev/null; grep -E \
                  '^(NoNewPrivs|Seccomp|CapEff|CapBnd)' /proc/self/status; ps -e 2>/dev/null | wc -l; \
                  ulimit -c; pwd; touch /usr/x /etc/x /dev/x /x 2>/dev/null; ls -d /usr/x /etc/x /dev/x /x";
    let said = said(&run(sandbox, shell(script)));
    let lines: Vec<_> = said.lines().map(|line| line.replace('\t', " ")).collect();
    assert_eq!(lines[..2], ["65534", "opengpu"]);
    assert!(
        lines.contains(&"NoNewPrivs: 1".into()) && lines.contains(&"Seccomp: 2".into()),
        "{said}"
    );
    assert!(lines.contains(&"CapEff: 0000000000000000".into()), "{said}");
    assert!(lines.contains(&"CapBnd: 0000000000000000".into()), "{said}");
    assert!(said.ends_with("\n0\n/work\n"), "{said}");
}

fn the_environment_holds_what_is_set_and_nothing_of_ours(sandbox: &Sandbox) {
    let mut spec = Spec::new("env", &[]);
    spec.environment.insert("TASK_SEED".into(), "7".into());
    let said = said(&run(sandbox, spec));
    let mut names: Vec<_> = said.lines().filter_map(|line| line.split('=').next()).collect();
    names.sort_unstable();
    // The tool itself says where it is.
    names.retain(|&name| name != "PWD");
    assert_eq!(names, ["HOME", "LANG", "PATH", "TASK_SEED", "TMPDIR", "USER"]);
}

fn a_secret_is_a_file_on_memory_and_stays_out_of_the_environment(sandbox: &Sandbox) {
    let mut spec = shell(
        "cat /run/secrets/token; stat -c ' %a %u' /run/secrets/token; stat -f -c %T /run/secrets; \
         cat /proc/*/environ /proc/*/cmdline | grep -c 'hunte[r]2'; \
         echo x 2>/dev/null > /run/secrets/token || echo kept",
    );
    spec.secrets.push(Secret { name: "token".into(), bytes: b"hunter2".to_vec() });
    assert_eq!(said(&run(sandbox, spec)), "hunter2 400 65534\ntmpfs\n0\nkept\n");
}

fn outputs_are_read_from_the_work_folder_after_the_end(sandbox: &Sandbox) {
    let finished =
        run(sandbox, shell("mkdir a; echo hello > a/b; ln -s /etc/passwd link; mkfifo p"));
    let listed = finished.outputs.list(100).unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].path.as_path(), listed[0].size), (Path::new("a/b"), 6));
    assert_eq!(finished.outputs.read(Path::new("a/b"), 100).unwrap(), b"hello\n");
    assert!(finished.outputs.read(Path::new("link"), 100_000).is_err());
}

fn a_work_folder_on_disk_is_measured(sandbox: &Sandbox) {
    let folder = work_folder();
    let limits = Limits { disk: 8 << 20, file: 64 << 20, files: 100, ..Limits::default() };
    let spec = |script: &str| Spec {
        work: Work::Folder(folder.path().join("work")),
        limits,
        ..shell(script)
    };
    let finished = run(sandbox, spec("echo kept > file"));
    assert_eq!(finished.ended.how, How::Exited(0));
    assert_eq!(std::fs::read(folder.path().join("work/file")).unwrap(), b"kept\n");
    let finished =
        run(sandbox, spec("while :; do head -c 4000000 /dev/zero >> large; sleep 0.01; done"));
    assert_eq!(finished.ended.how, How::Disk);
    std::fs::remove_file(folder.path().join("work/large")).unwrap();
    let finished = run(sandbox, spec("i=0; while :; do : > f$i; i=$((i+1)); done"));
    assert_eq!(finished.ended.how, How::Disk);
}

fn a_work_folder_in_memory_is_bounded_by_the_kernel(sandbox: &Sandbox) {
    let mut spec =
        shell("head -c 9000000 /dev/zero > large 2>/dev/null && echo too much; wc -c < large");
    spec.limits.disk = 4 << 20;
    let finished = run(sandbox, spec);
    assert_eq!(said(&finished), "4194304\n");
    assert_eq!(finished.ended.usage.disk, 4 << 20);
}

fn a_deadline_ends_everything(sandbox: &Sandbox) {
    let mut spec = shell("trap '' TERM INT HUP; setsid sleep 1000 & (sleep 1001 &) ; sleep 1002");
    spec.limits.wall = Duration::from_secs(3);
    let finished = run(sandbox, spec);
    assert_eq!(finished.ended.how, How::Deadline);
    assert!(finished.ended.usage.wall < Duration::from_secs(10));
    assert_eq!(processes_with(&["1000", "1001", "1002"]), 0);
}

fn cancelling_ends_everything(sandbox: &Sandbox) {
    let mut guest = sandbox.start(shell("setsid sleep 1003 & echo go; sleep 1004")).unwrap();
    let mut stdout = guest.take_stdout().unwrap();
    let mut word = [0; 3];
    stdout.read_exact(&mut word).unwrap();
    guest.cancel();
    assert_eq!(guest.wait().unwrap().0.how, How::Cancelled);
    assert_eq!(processes_with(&["1003", "1004"]), 0);
}

fn dropping_ends_everything(sandbox: &Sandbox) {
    drop(sandbox.start(shell("sleep 1005")).unwrap());
    assert_eq!(processes_with(&["1005"]), 0);
}

fn processor_time_is_added_up_over_all_processes(sandbox: &Sandbox) {
    let mut spec = shell("for i in 1 2 3; do (while :; do :; done) & done; wait");
    spec.limits.cpu = Duration::from_secs(1);
    let finished = run(sandbox, spec);
    assert_eq!(finished.ended.how, How::Cpu);
    assert!(finished.ended.usage.cpu >= Duration::from_secs(1));
}

fn memory_is_bounded_over_all_processes(sandbox: &Sandbox) {
    let script = "python3 -c 'x = bytearray(40 << 20); import time; time.sleep(100)'";
    let mut spec = shell(&format!("for i in 1 2 3 4 5; do {script} & done; wait; sleep 100"));
    spec.limits.memory = 96 << 20;
    spec.limits.wall = Duration::from_secs(30);
    let finished = run(sandbox, spec);
    assert_eq!(finished.ended.how, How::Memory, "{finished:?}");
}

fn a_flood_is_cut_at_the_limit(sandbox: &Sandbox) {
    let mut spec = Spec::new("yes", &[]);
    spec.limits.streams = 100_000;
    let finished = run(sandbox, spec);
    assert_eq!(finished.ended.how, How::Flood);
    assert_eq!(finished.stdout.len(), 100_000);
}

fn a_guest_that_reads_gets_what_is_written(sandbox: &Sandbox) {
    let mut guest = sandbox.start(Spec::new("cat", &[])).unwrap();
    let mut stdin = guest.take_stdin().unwrap();
    stdin.write_all(b"to and fro").unwrap();
    drop(stdin);
    let finished = guest.output().unwrap();
    assert_eq!(finished.stdout, b"to and fro");
}

fn a_command_that_does_not_exist_is_the_fault_of_the_task(sandbox: &Sandbox) {
    let guest = sandbox.start(Spec::new("/no/such/program", &[])).unwrap();
    match guest.output() {
        Err(SandboxError::Command { name, .. }) => assert_eq!(name, "/no/such/program"),
        other => panic!("{other:?}"),
    }
}

fn what_a_task_may_not_ask_for_is_refused_before_anything_starts(sandbox: &Sandbox) {
    let mut spec = Spec::new("true", &[]);
    spec.environment.insert("LD_PRELOAD".into(), "/work/x.so".into());
    let refused = sandbox.start(spec);
    assert!(matches!(refused, Err(SandboxError::Refused(Refusal::Variable { .. }))));
}

fn a_guest_survives_the_thread_that_asked_for_it(sandbox: &Sandbox) {
    let sandbox = sandbox.clone();
    let guest = std::thread::spawn(move || sandbox.start(shell("read x; echo $x")).unwrap());
    let mut guest = guest.join().unwrap();
    guest.take_stdin().unwrap().write_all(b"alive\n").unwrap();
    let finished = guest.output().unwrap();
    assert_eq!((finished.ended.how, finished.stdout.as_slice()), (How::Exited(0), &b"alive\n"[..]));
}

fn the_probe_tells_what_stands(_: &Sandbox) {
    let probe = Sandbox::probe();
    assert!(probe.isolates && probe.bwrap.is_some(), "{probe:?}");
    assert_eq!(
        matches!(probe.cgroup, Cgroup::None { .. }) || probe.landlock == 0,
        !probe.missing.is_empty()
    );
}

fn a_guest_does_not_learn_where_its_inputs_came_from(sandbox: &Sandbox) {
    let folder = work_folder();
    let name = folder.path().file_name().unwrap().to_str().unwrap().to_owned();
    let mut spec = shell("ls /inputs; cat /proc/*/cmdline | tr '\\0' ' '");
    let place = "/inputs/data".into();
    spec.inputs.push(Input { source: folder.path().to_owned(), place });
    let said = said(&run(sandbox, spec));
    assert!(said.starts_with("data\n") && !said.contains(&name), "{said}");
}

/// An image with a shell, the one library that it needs, and nothing else.
fn layer_with_a_shell(sandbox: &Sandbox) -> Vec<u8> {
    let maps = "cat /proc/self/maps | grep -o '/.*' | sort -u";
    let loaded = String::from_utf8(run(sandbox, shell(maps)).stdout).unwrap();
    let mut layer = tar::Builder::new(Vec::new());
    for path in loaded.lines().filter(|path| path.contains("/libc.so") || path.contains("/ld-")) {
        let name = Path::new(path).file_name().unwrap();
        let place = if path.contains("/ld-") { loader_folder() } else { "lib" };
        layer.append_path_with_name(path, Path::new(place).join(name)).unwrap();
    }
    layer.append_path_with_name(std::fs::canonicalize("/bin/sh").unwrap(), "bin/sh").unwrap();
    layer.into_inner().unwrap()
}

fn an_image_without_our_libraries_runs_on_its_own_files_alone(sandbox: &Sandbox) {
    let folder = work_folder();
    let layout = folder.path().join("layout");
    let address = layout_of(&layout, &layer_with_a_shell(sandbox), "tar");
    let image =
        image::unpack(&layout, &folder.path().join("cache"), ImageLimits::default()).unwrap();
    assert_eq!(image.command, ["/bin/sh"]);
    assert!(image.is(&address) && image.is(&format!("sha256:{}", image.id)));
    assert!(!image.is(&image.id) && !image.is("sha256:00"));
    assert_eq!(
        image::unpack(&layout, &folder.path().join("cache"), ImageLimits::default()).unwrap(),
        image
    );
    let script = "test -e /usr && echo usr; test -e /etc/passwd && echo etc; echo /*; \
                  echo x > /bin/y || echo kept";
    let mut spec = Spec::new("/bin/sh", &["-c", script]);
    spec.root = Root::Image(image.root);
    let finished = run(sandbox, spec);
    let said = said(&finished);
    assert!(said.starts_with("/bin /dev /inputs /lib") && said.ends_with("kept\n"), "{finished:?}");
    assert!(!said.contains("usr") && !said.contains("etc"), "{said}");
}

fn an_image_is_the_same_however_its_layers_are_packed(sandbox: &Sandbox) {
    let folder = work_folder();
    let layer = layer_with_a_shell(sandbox);
    let unpacked = |packing: &str| {
        let layout = folder.path().join(packing);
        layout_of(&layout, &layer, packing);
        image::unpack(&layout, &folder.path().join("cache"), ImageLimits::default()).unwrap()
    };
    let packed = unpacked("zstd");
    let finished = run(sandbox, in_image(&packed, "echo $((6 * 7))"));
    assert_eq!(said(&finished), "42\n", "{finished:?}");
    let plain = unpacked("tar");
    assert_eq!((&plain.id, &plain.root), (&packed.id, &packed.root));
    assert_ne!(plain.digest, packed.digest);
}

fn in_image(image: &image::Image, script: &str) -> Spec {
    let root = Root::Image(image.root.clone());
    Spec { root, ..Spec::new("/bin/sh", &["-c", script]) }
}

/// An image that podman keeps under a name, run behind our walls and not by podman.
fn an_image_of_an_engine_runs_in_our_sandbox(sandbox: &Sandbox) {
    // Podman makes a name of the path, and names are in small letters.
    let suffix = format!("engine-{}", std::process::id());
    let folder =
        tempfile::Builder::new().prefix("opengpu-").suffix(&suffix).rand_bytes(0).tempdir();
    let folder = folder.unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let layout = folder.path().join("layout");
    layout_of(&layout, &layer_with_a_shell(sandbox), "tar");
    let name = format!("localhost/opengpu-test:{}", std::process::id());
    let podman = |arguments: &[&str]| Command::new("podman").args(arguments).output();
    let from = format!("oci:{}", layout.display());
    let Ok(pulled) = podman(&["pull", "--quiet", &from]) else {
        println!("skipped: podman is not installed");
        return;
    };
    let id = String::from_utf8_lossy(&pulled.stdout).trim().to_owned();
    if !pulled.status.success() || !podman(&["tag", &id, &name]).unwrap().status.success() {
        println!("skipped: podman does not work: {}", String::from_utf8_lossy(&pulled.stderr));
        return;
    }
    let cache = folder.path().join("cache");
    let image = image::named(&name, &cache, ImageLimits::default());
    let again = image::named(&name, &cache, ImageLimits::default());
    let small = ImageLimits { bytes: 1000, ..ImageLimits::default() };
    let too_large = image::named(&name, &cache, small);
    let saved = folder.path().join("saved");
    let saving = image::save(&name, &saved, ImageLimits::default());
    podman(&["rmi", "--force", &name]).unwrap();
    let image = image.unwrap();
    assert_eq!((&again.unwrap(), &image.id), (&image, &id));
    saving.unwrap();
    let other = image::unpack(&saved, &folder.path().join("elsewhere"), ImageLimits::default());
    assert_eq!(other.unwrap().id, id);
    assert!(matches!(too_large, Err(ImageError::TooMany { .. })), "{too_large:?}");
    let finished = run(sandbox, in_image(&image, "echo $((6 * 7)); test -e /usr || echo own"));
    assert_eq!(said(&finished), "42\nown\n", "{finished:?}");
    let gone = image::named(&name, &folder.path().join("other"), ImageLimits::default());
    assert!(matches!(gone, Err(ImageError::Unknown { .. })), "{gone:?}");
}

const fn loader_folder() -> &'static str {
    if cfg!(target_arch = "x86_64") { "lib64" } else { "lib" }
}

/// Writes the layout of an image with one layer, and gives the address of its manifest.
fn layout_of(folder: &Path, layer: &[u8], packing: &str) -> String {
    std::fs::create_dir_all(folder.join("blobs/sha256")).unwrap();
    let part = |kind: &str, bytes: &[u8]| {
        let digest = hex::encode(Sha256::digest(bytes));
        std::fs::write(folder.join("blobs/sha256").join(&digest), bytes).unwrap();
        format!(
            r#"{{"mediaType": "{kind}", "digest": "sha256:{digest}", "size": {}}}"#,
            bytes.len()
        )
    };
    let settings = format!(
        r#"{{"architecture": "amd64", "os": "linux", "config": {{"Cmd": ["/bin/sh"]}},
            "rootfs": {{"type": "layers", "diff_ids": ["sha256:{}"]}}}}"#,
        hex::encode(Sha256::digest(layer))
    );
    let settings = part("application/vnd.oci.image.config.v1+json", settings.as_bytes());
    let layer = match packing {
        "zstd" => {
            let packed = zstd::encode_all(layer, 3).unwrap();
            part("application/vnd.oci.image.layer.v1.tar+zstd", &packed)
        }
        _ => part("application/vnd.oci.image.layer.v1.tar", layer),
    };
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = format!(
        r#"{{"schemaVersion": 2, "mediaType": "{kind}", "config": {settings}, "layers": [{layer}]}}"#
    );
    let address = format!("sha256:{}", hex::encode(Sha256::digest(&manifest)));
    let manifest = part(kind, manifest.as_bytes());
    let index = format!(r#"{{"schemaVersion": 2, "manifests": [{manifest}]}}"#);
    std::fs::write(folder.join("index.json"), index).unwrap();
    std::fs::write(folder.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).unwrap();
    address
}

/// Linear regression by stochastic descent, with numpy where it is installed.
const TRAINING: &[u8] = include_bytes!("training.py");

/// Runs the steps of a span, and gives the checkpoints after these.
fn train(sandbox: &Sandbox, span: &Span, wanted: [u64; 2]) -> [Vec<(PathBuf, Vec<u8>)>; 2] {
    let mut spec = Environment::default().spec(TRAINING, &[], None);
    span.apply(&mut spec);
    let finished = run(sandbox, spec);
    assert_eq!(finished.ended.how, How::Exited(0), "{finished:?}");
    wanted.map(|step| python::checkpoint(&finished.outputs, step, 1 << 20).unwrap())
}

/// Puts a checkpoint into a folder, from which another run begins.
fn keep(folder: &Path, files: &[(PathBuf, Vec<u8>)]) -> PathBuf {
    let folder = folder.join("checkpoint");
    std::fs::create_dir(&folder).unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    folder
}

fn a_training_loop_in_two_spans_ends_in_the_same_bytes(sandbox: &Sandbox) {
    let whole = Span { from: 0, until: 40, every: 20, checkpoint: None };
    let [middle, end] = train(sandbox, &whole, [20, 40]);
    assert!(middle.len() >= 2 && end.len() >= 2 && middle != end, "{middle:?}");
    let folder = work_folder();
    let checkpoint = Some(keep(folder.path(), &middle));
    let rest = Span { from: 20, until: 40, every: 20, checkpoint };
    assert_eq!(train(sandbox, &rest, [20, 40]), [Vec::new(), end]);
}

fn a_checkpoint_that_was_changed_changes_the_end(sandbox: &Sandbox) {
    let whole = Span { from: 0, until: 4, every: 2, checkpoint: None };
    let [mut middle, end] = train(sandbox, &whole, [2, 4]);
    let array = middle.iter_mut().find(|(name, _)| name.ends_with("0000.npy")).unwrap();
    *array.1.last_mut().unwrap() ^= 1;
    let folder = work_folder();
    let checkpoint = Some(keep(folder.path(), &middle));
    let [_, other] = train(sandbox, &Span { from: 2, checkpoint, ..whole }, [2, 4]);
    assert_ne!(other, end);
}

fn packages_of_a_task_are_unpacked_inside_and_found_by_its_script(sandbox: &Sandbox) {
    let folder = work_folder();
    let wheels = folder.path().join("wheels");
    std::fs::create_dir(&wheels).unwrap();
    let made =
        Command::new("python3").arg("-c").arg(include_str!("wheel.py")).arg(&wheels).status();
    if !made.unwrap().success() {
        println!("this Python has no wheel of pip to unpack others with");
        return;
    }
    let layers = Layers::new(folder.path().join("layers"), Wheels::Folder(wheels));
    let environment = Environment::default();
    let requirements = Requirements::parse("tiny==1.0").unwrap();
    let layer = layers.provide(sandbox, &environment, &requirements).unwrap();
    assert_eq!(layers.provide(sandbox, &environment, &requirements).unwrap(), layer);
    let finished =
        run(sandbox, environment.spec(b"import tiny; print(tiny.WORD)", &[], Some(&layer)));
    assert_eq!(said(&finished), "found\n", "{finished:?}");
    let missing = Requirements::parse("missing==1.0").unwrap();
    let refused = layers.provide(sandbox, &environment, &missing);
    assert!(matches!(refused, Err(LayerError::Unpack { .. })), "{refused:?}");
    assert_eq!(std::fs::read_dir(folder.path().join("layers")).unwrap().count(), 1);
}

fn a_start_is_measured_beside_bubblewrap_alone(sandbox: &Sandbox) {
    let turns = measure::starts(sandbox, 20).unwrap();
    let median = |pick: fn(&measure::Turn) -> Duration| {
        let mut all: Vec<_> = turns.iter().map(pick).collect();
        all.sort_unstable();
        all[all.len() / 2]
    };
    let (ours, bare) = (median(|turn| turn.ours), median(|turn| turn.bare));
    println!("a start takes {ours:?}, {bare:?} with bubblewrap alone");
    // What it should be depends on the machine; this is what no machine should see.
    assert!(turns.len() == 20 && ours < bare * 20, "{ours:?} {bare:?}");
}

/// A machine that is far away: a network of its own, at an address that nobody has.
struct Far {
    name: String,
    server: Option<std::process::Child>,
}

/// Of a range that is kept for examples.
const FAR: &str = "203.0.113.2";
/// This machine's end of the way there.
const HERE: &str = "203.0.113.1";

impl Far {
    fn make() -> Option<Self> {
        let name = format!("ogpu{}", std::process::id());
        let mut far = Self { name: name.clone(), server: None };
        let (here, there) = (format!("{name}a"), format!("{name}b"));
        for line in [
            format!("netns add {name}"),
            format!("link add {here} type veth peer name {there} netns {name}"),
            format!("addr add {HERE}/30 dev {here}"),
            format!("link set {here} up"),
            format!("-n {name} addr add {FAR}/30 dev {there}"),
            format!("-n {name} link set {there} up"),
        ] {
            let done = Command::new("ip").args(line.split(' ')).stderr(Stdio::null()).status();
            done.ok().filter(std::process::ExitStatus::success)?;
        }
        let script = "import socket; s = socket.create_server(('', 7777)); print('up', flush=True)\n\
                      while True: s.accept()[0].sendall(b'far')";
        let mut server = Command::new("ip");
        server.args(["netns", "exec", &name, "python3", "-c", script]).stdout(Stdio::piped());
        let mut server = server.spawn().ok()?;
        server.stdout.take()?.read_exact(&mut [0; 3]).ok()?;
        far.server = Some(server);
        Some(far)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
        // Its end of the way goes with it.
        let _ =
            Command::new("ip").args(["netns", "del", &self.name]).stderr(Stdio::null()).status();
    }
}

fn a_grant_reaches_what_is_far_and_nothing_near(sandbox: &Sandbox) {
    if let Some(missing) = Sandbox::probe().network {
        println!("skipped: {missing}");
        let mut spec = shell("true");
        spec.network = Network::Granted;
        assert!(matches!(sandbox.start(spec), Err(SandboxError::Unavailable { .. })));
        return;
    }
    let Some(_far) = Far::make() else {
        println!("skipped: no network can be made here");
        return;
    };
    let near = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let port = near.local_addr().unwrap().port().to_string();
    let script = format!(
        "import socket, sys\n\
         for place in [('{FAR}', 7777), ('127.0.0.1', {port}), ('10.0.2.2', {port}), ('{HERE}', {port})]:\n\
         \x20   try:\n\
         \x20       s = socket.create_connection(place, 5); s.settimeout(5); print('yes', s.recv(3))\n\
         \x20   except OSError as e: print('no', file=sys.stdout); print(place, e, file=sys.stderr)\n"
    );
    let mut spec = Spec::new("python3", &["-c", &script]);
    let refused = run(sandbox, spec.clone());
    assert_eq!(said(&refused), "no\nno\nno\nno\n", "{refused:?}");
    spec.network = Network::Granted;
    let granted = run(sandbox, spec);
    assert_eq!(said(&granted), "yes b'far'\nno\nno\nno\n", "{granted:?}");
    near.set_nonblocking(true).unwrap();
    assert!(near.accept().is_err(), "somebody reached this machine");
}

fn a_rental_is_bytes_in_and_bytes_out(sandbox: &Sandbox) {
    let size = Size { rows: 7, columns: 33 };
    let mut rental = Rental::start(sandbox, Spec::new("sh", &[]), size).unwrap();
    let mut keys = rental.input();
    rental.control().resize(Size { rows: 8, columns: 44 }).unwrap();
    keys.write_all(b"stty size; cat /proc/self/fd/0 & sleep 1006 & exit 9\n").unwrap();
    let mut shown = String::new();
    rental.output().unwrap().read_to_string(&mut shown).unwrap();
    assert!(shown.contains("8 44\r\n"), "{shown}");
    assert_eq!(rental.wait().unwrap().0.how, How::Exited(9));
    assert_eq!(processes_with(&["1006"]), 0);
    // Nobody types to a terminal that is gone, and nobody waits for it for ever.
    assert!(keys.write_all(b"x").is_err());
    let mut spec = shell("stty raw; echo go; sleep 1008");
    spec.limits.wall = Duration::from_secs(3);
    let rental = Rental::start(sandbox, spec, size).unwrap();
    let mut keys = rental.input();
    let typing = std::thread::spawn(move || keys.write_all(&vec![b'x'; 1 << 20]));
    assert_eq!(rental.wait().unwrap().0.how, How::Deadline);
    assert!(typing.join().unwrap().is_err());

    let mut spec = shell("echo go; sleep 1007");
    spec.limits.wall = Duration::from_secs(60);
    let mut rental = Rental::start(sandbox, spec, size).unwrap();
    rental.output().unwrap().read_exact(&mut [0; 2]).unwrap();
    rental.control().stopper().stop();
    assert_eq!(rental.wait().unwrap().0.how, How::Cancelled);
    assert_eq!(processes_with(&["1007"]), 0);
}

/// A folder with a `work` in it that the user of the sandbox can reach.
fn work_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::create_dir(folder.path().join("work")).unwrap();
    folder
}

/// How many processes of this machine sleep for one of these numbers of seconds.
fn processes_with(seconds: &[&str]) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let read = |path: std::path::PathBuf| std::fs::read_to_string(path.join("cmdline")).ok();
    let lines = entries.filter_map(|entry| read(entry.path()));
    let sleeps = |line: &String| {
        let number = line.trim_end_matches('\0').strip_prefix("sleep\0");
        number.is_some_and(|number| seconds.contains(&number))
    };
    lines.filter(sleeps).count()
}
