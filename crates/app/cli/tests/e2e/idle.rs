//! An owner who comes back to a machine that works only while nobody is at it: somebody types into a real
//! terminal, and the provider is the whole product.

use crate::{
    deaths::slashed,
    providers::{Running, until},
    scene::{LONGER, Scene, leave_out},
};
use opengpu_types::{CloseReason, LeaseId, LeasePhase};
use rustix::{
    fs::OFlags,
    pty::{OpenptFlags, ioctl_tiocgptpeer, unlockpt},
};
use std::{
    fs::{self, File, FileTimes, OpenOptions},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

/// How soon the device is the owner's.
const SOON: Duration = Duration::from_secs(5);
/// Longer than an owner does nothing who is there.
const HOUR: Duration = Duration::from_secs(3_600);

/// A machine that is this one, but with terminals of its own and no keyboard: nobody else types there.
struct Machine(Running);

impl Machine {
    /// None where nobody may have such a thing.
    fn new() -> Option<Self> {
        let make = "mount -t devpts -o newinstance,ptmxmode=0666 devpts /dev/pts \
                    && { [ ! -d /dev/input ] || mount -t tmpfs tmpfs /dev/input; } \
                    && echo made && exec sleep 600";
        let mut command = Command::new("unshare");
        command.args(if is_root() { &[][..] } else { &["--user", "--map-root-user"] });
        command.args(["--mount", "sh", "-c", make]);
        let mut child = match command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => {
                leave_out(&format!("there is no `unshare`: {error}"));
                return None;
            }
        };
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let made = Self(Running::new(child));
        if line != "made\n" {
            leave_out("terminals of its own cannot be mounted");
            return None;
        }
        Some(made)
    }

    /// The same command on this machine.
    fn on(&self, scene: &Scene, command: &Command) -> Command {
        let mut entered = Command::new("nsenter");
        entered.args(if is_root() { &[][..] } else { &["--user", "--preserve-credentials"] });
        entered.args(["--mount", "--target", &self.0.id().to_string()]);
        // The folder as it is seen there: one from outside would be another mount.
        entered.args(["--", "sh", "-c", r#"cd "$0" && exec "$@""#]).arg(scene.home());
        entered.arg(command.get_program()).args(command.get_args());
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        entered.envs(variables);
        entered
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A terminal on a machine, into which nobody has typed for an hour.
struct Terminal {
    keys: File,
    program: File,
}

impl Terminal {
    fn new(machine: &Machine) -> Self {
        let place = format!("/proc/{}/root/dev/pts/ptmx", machine.0.id());
        let flags = OFlags::NOCTTY.bits().cast_signed();
        let keys = OpenOptions::new().read(true).write(true).custom_flags(flags).open(place);
        let keys = keys.unwrap();
        unlockpt(&keys).unwrap();
        let program = ioctl_tiocgptpeer(&keys, OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        let terminal = Self { keys, program: program.into() };
        terminal.leave();
        terminal
    }

    /// Nobody types for an hour.
    fn leave(&self) {
        let then = SystemTime::now().checked_sub(HOUR).unwrap();
        self.program.set_times(FileTimes::new().set_accessed(then)).unwrap();
    }

    /// A line, which a program reads.
    fn type_line(&mut self) {
        self.keys.write_all(b"ls\n").unwrap();
        let mut line = [0; 3];
        self.program.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"ls\n");
    }
}

/// Processes below this one that still run.
fn descendants(of: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let processes = entries.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    // The name may hold anything but ends with the last parenthesis; state and parent follow.
    let parent = |id: u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let mut rest = stat.rsplit_once(')')?.1.split_whitespace();
        (rest.next()? != "Z").then_some((id, rest.next()?.parse().ok()?))
    };
    let all: Vec<(u32, u32)> = processes.filter_map(parent).collect();
    let mut found = vec![of];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(all.iter().filter(|it| it.1 == parent).map(|it| it.0));
        next += 1;
    }
    found.split_off(1)
}

#[test]
fn e2e_an_owner_who_types_gets_the_device_within_five_seconds_and_the_task_moves() {
    let Some(machine) = Machine::new() else { return };
    let mut terminal = Terminal::new(&machine);
    let scene = Scene::new("0");
    scene.init_provider("desk");
    let settings = scene.home().join("desk/provider.toml");
    let written = fs::read_to_string(&settings).unwrap();
    assert!(written.contains("idle-only = false"), "{written}");
    fs::write(&settings, written.replace("idle-only = false", "idle-only = true")).unwrap();
    let start = ["provider", "start", "--data", "desk", "--wallet", "desk", "--sponsor", "faucet"];
    let desk = scene.start_as_provider("desk", &mut machine.on(&scene, &scene.command(&start)));
    let status = || scene.json(&["provider", "status", "--data", "desk"]);
    assert_eq!(status()["owner"], "is noticed by terminals alone, not at a desktop");
    let task = scene.detached_longer();
    until("a checkpoint", || scene.reached(&task) > 0);
    let rack = scene.provider("rack");
    assert!(!descendants(desk.id()).is_empty(), "the program runs");
    assert_eq!(status()["leases"][0]["stage"], "running", "a terminal alone is nobody");

    terminal.type_line();
    let back = Instant::now();
    until("nothing runs any more", || descendants(desk.id()).is_empty());
    assert!(back.elapsed() < SOON, "the device is free after {:?}", back.elapsed());
    eprintln!("the device is free after {:?}", back.elapsed());
    until("it says why", || status()["standing"] == "idle because somebody is at the machine");
    assert_eq!(status()["on_chain"], "draining", "it takes no leases");

    // Another one goes on from the checkpoint, and nobody loses anything.
    assert_eq!(String::from_utf8_lossy(&scene.pulled(&task)), LONGER);
    let entry = scene.assert_paid_once(&task);
    let [first, second] = &entry.leases[..] else { panic!("{:?}", entry.leases) };
    assert_eq!(first.phase, LeasePhase::Closed { reason: CloseReason::Released });
    assert!(!first.paid.is_zero(), "what it did is paid: {first:?}");
    assert_eq!(second.provider.to_string(), scene.account("rack"));
    assert_eq!(second.from, first.commitment.map(|commitment| commitment.reached));
    let lease = LeaseId { task: task.parse().unwrap(), number: 0 };
    assert_eq!(slashed(&scene, lease), [], "whose owner returns is not slashed");

    // When the owner has left, it works again.
    terminal.leave();
    until("it takes leases", || status()["on_chain"] == "active");
    rack.stop();
    desk.stop();
}
