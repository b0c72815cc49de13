//! The list of jobs: which attack, with what, and what must come of it.

use crate::archives;
use crate::machine::Machine;
use crate::observe;
use opengpu_exec::native::{
    File, Finished, How, Limits, Network, Refusal, Rental, Sandbox, SandboxError, Size, Spec,
};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

/// The wall without which a job is run once more, and must find a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// None of them alone.
    Everything,
    /// The list of system calls.
    Filter,
    /// A network of its own.
    Network,
    /// Read-only folders.
    ReadOnly,
    /// A control group; without one the watcher must do, which is slower.
    Counting,
}

impl Needs {
    /// Whether every wall stands.
    pub(crate) const fn is_whole(self) -> bool {
        matches!(self, Self::Everything | Self::Counting)
    }
}

/// One hostile job.
pub(crate) struct Attack {
    /// Jobs of one kind.
    pub(crate) family: &'static str,
    /// Its own name.
    pub(crate) name: &'static str,
    /// The wall that stops it.
    pub(crate) needs: Needs,
    kind: Kind,
}

enum Kind {
    /// A function of a script.
    Script {
        /// How it may end; any way when empty.
        ends: &'static [How],
    },
    /// A variable that the task may not set.
    Variable,
    /// An image that lies.
    Archive(fn(&Machine) -> Option<String>),
}

/// How a finding begins that tells of no escape: the attack itself failed.
pub(crate) const UNRUN: &str = "did not";

const ATTACK: &str = include_str!("attack.py");
/// The scripts, by family.
const SCRIPTS: [(&str, &str); 11] = [
    ("bombs", include_str!("bombs.py")),
    ("devices", include_str!("devices.py")),
    ("egress", include_str!("egress.py")),
    ("escapes", include_str!("escapes.py")),
    ("floods", include_str!("floods.py")),
    ("granted", include_str!("granted.py")),
    ("links", include_str!("links.py")),
    ("loading", include_str!("loading.py")),
    ("orphans", include_str!("orphans.py")),
    ("pickles", include_str!("pickles.py")),
    ("terminals", include_str!("terminals.py")),
];

/// Attacks that the list of system calls stops.
const FILTERED: [&str; 15] = [
    "bpf_map",
    "clone_user",
    "clone3_user",
    "fanotify",
    "io_uring",
    "keyring",
    "memfd_secret",
    "no_randomization",
    "own_terminal_input",
    "ptrace_child",
    "read_other_memory",
    "shared_memory",
    "typing_for_oneself",
    "unshare_user",
    "userfaultfd",
];
/// Attacks that a network of its own stops.
const NETWORKED: [&str; 10] = [
    "abstract_datagram",
    "abstract_socket",
    "interfaces",
    "near_loopback",
    "near_machine",
    "tcp_all_zero",
    "tcp_loopback",
    "tcp_machine",
    "udp_loopback",
    "udp_machine",
];
/// Attacks that read-only folders stop.
const FOLDERS: [&str; 2] = ["kernel_memory", "system_files"];

/// How bombs end, where it is not one of two ways.
const BOMBS: [(&str, &[How]); 12] = [
    ("archive", &[How::Memory, How::Exited(1)]),
    ("deep_folders", &[How::Disk, How::Exited(1)]),
    ("disk", &[How::Memory, How::Exited(1)]),
    ("files", &[How::Disk]),
    ("forks", &[How::Memory, How::Signalled(14)]),
    ("large_file", &[How::Exited(1), How::Signalled(25)]),
    ("memory", &[How::Memory, How::Exited(1)]),
    ("memory_of_many", &[How::Memory]),
    ("open_files", &[How::Exited(1)]),
    ("processor", &[How::Cpu]),
    ("sleep", &[How::Deadline]),
    ("temporary_files", &[How::Disk]),
];
/// Bombs that a control group would stop.
const WATCHED: [&str; 5] = ["forks", "memory", "memory_files", "memory_of_many", "threads"];
/// Variables by which loaders and runtimes are made to load code.
const VARIABLES: [&str; 8] = [
    "LD_PRELOAD",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "BASH_ENV",
    "GCONV_PATH",
    "NODE_OPTIONS",
];

/// All jobs, in order.
pub(crate) fn all() -> Vec<Attack> {
    let mut jobs = Vec::new();
    for (family, script) in SCRIPTS {
        for name in functions(script) {
            let needs = match family {
                "escapes" | "terminals" if FILTERED.contains(&name) => Needs::Filter,
                "escapes" if FOLDERS.contains(&name) => Needs::ReadOnly,
                "egress" | "granted" if NETWORKED.contains(&name) => Needs::Network,
                _ => Needs::Everything,
            };
            let ends: &[How] = match family {
                "bombs" => {
                    BOMBS.iter().find(|(bomb, _)| *bomb == name).map_or(&[], |(_, ends)| ends)
                }
                "floods" => &[How::Flood],
                "terminals" if name.starts_with("flood") => &[How::Flood],
                _ => &[],
            };
            jobs.push(Attack { family, name, needs, kind: Kind::Script { ends } });
        }
    }
    for name in VARIABLES {
        jobs.push(Attack {
            family: "loading",
            name,
            needs: Needs::Everything,
            kind: Kind::Variable,
        });
    }
    for (name, attack) in archives::ALL {
        let kind = Kind::Archive(*attack);
        jobs.push(Attack { family: "archives", name, needs: Needs::Everything, kind });
    }
    jobs
}

/// The attacks of a script: its functions that take nothing and are not helpers of others.
fn functions(script: &'static str) -> impl Iterator<Item = &'static str> {
    script.lines().filter_map(|line| line.strip_prefix("def ")?.strip_suffix("():"))
}

/// What a hostile job may use up: little, so that the corpus is quick.
fn limits(family: &str, name: &str) -> Limits {
    // One ends by nothing but the time. All others end before, and have much of it, so that a
    // machine with other work does not decide.
    let seconds = if (family, name) == ("bombs", "sleep") { 2 } else { 20 };
    Limits {
        memory: 128 << 20,
        processes: 32,
        cpu: Duration::from_millis(1500),
        wall: Duration::from_secs(seconds),
        file: 32 << 20,
        disk: 64 << 20,
        files: 2000,
        open_files: 128,
        streams: 256 << 10,
        temporary: 16 << 20,
    }
}

/// Most processes of one job that may be seen at one time: its limit, and the sandbox's own.
const MOST_PROCESSES: usize = 32 + 3;

impl Attack {
    /// Whether `only` names it or its family.
    pub(crate) fn is(&self, only: &str) -> bool {
        only == self.family || only.split_once('/') == Some((self.family, self.name))
    }

    /// Whether it needs a way to the internet.
    pub(crate) fn is_granted(&self) -> bool {
        self.family == "granted"
    }

    /// Whether only the watcher stops it where there are no control groups.
    pub(crate) fn is_for_the_watcher(&self) -> bool {
        self.family == "bombs" && WATCHED.contains(&self.name)
    }

    /// Runs it and tells what got out.
    pub(crate) fn run(&self, sandbox: &Sandbox, machine: &Machine, weak: Needs) -> Vec<String> {
        match &self.kind {
            Kind::Script { ends } => self.script(sandbox, machine, weak, ends),
            Kind::Variable => self.variable(sandbox, machine),
            Kind::Archive(attack) => attack(machine).into_iter().chain(machine.heard()).collect(),
        }
    }

    fn script(
        &self,
        sandbox: &Sandbox,
        machine: &Machine,
        weak: Needs,
        ends: &[How],
    ) -> Vec<String> {
        let spec = self.spec(machine);
        let limits = spec.limits;
        let attempted = match self.family {
            "terminals" => attempt_at_a_terminal(sandbox, spec, weak),
            family => attempt(sandbox, spec, weak, family == "orphans"),
        };
        let (finished, mut findings) = match attempted {
            Ok(both) => both,
            Err(error) => return vec![format!("{UNRUN} run: {error}")],
        };
        findings.extend(machine.heard());
        findings.extend(written(&finished, machine));
        findings.extend(broken(&finished));
        if !weak.is_whole() {
            return findings;
        }
        let (how, usage) = (finished.ended.how, finished.ended.usage);
        if !ends.is_empty() && !ends.contains(&how) {
            findings.push(format!("ended with {how:?} and not with one of {ends:?}"));
        }
        if usage.wall > limits.wall + Duration::from_secs(10) {
            findings.push(format!("ran for {:?}", usage.wall));
        }
        // What is only watched may be over its limit until it is looked at again.
        let slack = if weak == Needs::Counting { u64::MAX } else { 16 << 20 };
        let most = limits.memory.saturating_add(slack);
        if usage.memory > most || usage.disk > limits.disk + (32 << 20) {
            findings.push(format!("used {} bytes of memory, {} of disk", usage.memory, usage.disk));
        }
        findings
    }

    fn spec(&self, machine: &Machine) -> Spec {
        let arguments = ["-I", "-B", "/inputs/attack.py", self.family, self.name];
        let mut spec = Spec {
            limits: limits(self.family, self.name),
            ..Spec::new("/usr/bin/python3", &arguments)
        };
        let script = SCRIPTS.iter().find(|(family, _)| *family == self.family).unwrap().1;
        for (name, text) in [("attack", ATTACK), (self.family, script)] {
            let place = Path::new("/inputs").join(format!("{name}.py"));
            spec.files.push(File { place, bytes: text.into() });
        }
        spec.environment = machine.known_to_attackers();
        if self.is_granted() {
            spec.network = Network::Granted;
        }
        spec
    }

    fn variable(&self, sandbox: &Sandbox, machine: &Machine) -> Vec<String> {
        let mut spec = self.spec_of_nothing(machine);
        spec.environment.insert(self.name.to_owned(), "/work/x".to_owned());
        match sandbox.start(spec) {
            Err(SandboxError::Refused(Refusal::Variable { .. })) => Vec::new(),
            other => vec![format!("was not refused: {other:?}")],
        }
    }

    fn spec_of_nothing(&self, machine: &Machine) -> Spec {
        Spec { environment: machine.known_to_attackers(), ..Spec::new("true", &[]) }
    }
}

/// Runs a guest; where it holds still, its processes are looked at from outside, and it is ended
/// there when it would not end by itself.
fn attempt(
    sandbox: &Sandbox,
    spec: Spec,
    weak: Needs,
    cancelled: bool,
) -> Result<(Finished, Vec<String>), SandboxError> {
    let mut guest = sandbox.start(spec)?;
    let stdin = guest.take_stdin();
    let mut stdout = BufReader::new(guest.take_stdout().expect("it was not taken before"));
    let counter = observe::Counter::start();
    let mut stderr = guest.take_stderr().expect("it was not taken before");
    let errors = std::thread::spawn(move || {
        let mut said = Vec::new();
        // A stream that cannot be read any more has ended.
        let _ = stderr.read_to_end(&mut said);
        said
    });
    let mut text = Vec::new();
    let mut findings = Vec::new();
    // The line may never come, or never end: the stream has a limit, and so has the guest.
    while stdout.read_until(b'\n', &mut text).is_ok_and(|count| count > 0) {
        if text.ends_with(b"HOLDING\n") {
            findings.extend(observe::look(weak));
            break;
        }
        if cancelled && text.ends_with(b"DONE\n") {
            break;
        }
    }
    if cancelled {
        guest.cancel();
    }
    drop(stdin);
    let reader = std::thread::spawn(move || {
        let mut rest = Vec::new();
        // A stream that cannot be read any more has ended.
        let _ = stdout.read_to_end(&mut rest);
        rest
    });
    let mut finished = guest.output()?;
    text.extend(reader.join().unwrap());
    finished.stdout = text;
    finished.stderr = errors.join().unwrap();
    let most = counter.stop();
    if most > MOST_PROCESSES {
        findings.push(format!("had {most} processes at one time"));
    }
    Ok((finished, findings))
}

/// The same with a rental, whose three streams are one terminal.
fn attempt_at_a_terminal(
    sandbox: &Sandbox,
    spec: Spec,
    weak: Needs,
) -> Result<(Finished, Vec<String>), SandboxError> {
    let mut rental = Rental::start(sandbox, spec, Size::default())?;
    let mut keys = rental.input();
    let mut screen = BufReader::new(rental.output().expect("it was not taken before"));
    let mut text = Vec::new();
    let mut findings = Vec::new();
    while screen.read_until(b'\n', &mut text).is_ok_and(|count| count > 0) {
        if text.ends_with(b"HOLDING\r\n") {
            findings.extend(observe::look(weak));
            keys.write_all(&[4]).unwrap();
        }
    }
    let (ended, outputs) = rental.wait()?;
    // A terminal has its own end of a line.
    text.retain(|&byte| byte != b'\r');
    Ok((Finished { ended, stderr: text.clone(), stdout: text, outputs }, findings))
}

/// The secret, or the guest's own word, in anything that it wrote.
fn written(finished: &Finished, machine: &Machine) -> Vec<String> {
    let mut findings = Vec::new();
    let mut everything = vec![finished.stdout.clone(), finished.stderr.clone()];
    for output in finished.outputs.list(3000).unwrap_or_default() {
        // What is larger than this is filling and not loot.
        everything.extend(finished.outputs.read(&output.path, 1 << 20));
    }
    for text in &everything {
        if machine.is_secret_in(text) {
            findings.push("has the secret".to_owned());
        }
    }
    let said = String::from_utf8_lossy(&finished.stdout);
    findings.extend(said.lines().filter(|line| line.starts_with("ESCAPED")).map(str::to_owned));
    findings
}

/// An attack that fails by its own mistake shows nothing.
fn broken(finished: &Finished) -> Option<String> {
    let errors =
        ["ImportError", "NameError", "AttributeError", "SyntaxError", "TypeError", "KeyError"];
    let said = String::from_utf8_lossy(&finished.stderr);
    let begun = finished.stdout.starts_with(b"BEGUN\n");
    let mistake = said.lines().find(|line| errors.iter().any(|error| line.starts_with(error)));
    match mistake {
        Some(line) => Some(format!("{UNRUN} work: {line}")),
        // One that waits for the end of its time may not have had any, and one that is stopped because it
        // floods the one pipe may be stopped before the other is read.
        None => (!begun && !matches!(finished.ended.how, How::Deadline | How::Flood))
            .then(|| format!("{UNRUN} begin: {said}")),
    }
}

/// The job that must succeed: it computes, writes, and reads its input.
pub(crate) fn control(sandbox: &Sandbox, machine: &Machine) -> Option<String> {
    let script = "import hashlib, pathlib\n\
                  text = pathlib.Path('/inputs/text').read_bytes()\n\
                  pathlib.Path('/work/out').write_text(hashlib.sha256(text).hexdigest())\n";
    let mut spec = Spec::new("/usr/bin/python3", &["-I", "-B", "-c", script]);
    spec.limits = limits("control", "");
    spec.environment = machine.known_to_attackers();
    spec.files.push(File { place: "/inputs/text".into(), bytes: b"abc".to_vec() });
    let finished = match sandbox.start(spec).and_then(opengpu_exec::native::Guest::output) {
        Ok(finished) => finished,
        Err(error) => return Some(error.to_string()),
    };
    let output = finished.outputs.read(Path::new("out"), 100).unwrap_or_default();
    let wanted = b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let well = finished.ended.how == How::Exited(0) && output == wanted;
    (!well).then(|| format!("{:?}: {}", finished.ended, String::from_utf8_lossy(&finished.stderr)))
}
