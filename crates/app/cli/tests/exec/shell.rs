//! `opengpu exec shell` at a real terminal: a pair of pseudo-terminals stands for the owner's.

use super::Machine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// Long enough for a machine that has other work.
const PATIENCE: Duration = Duration::from_secs(60);

/// The owner's terminal, and the binary at it.
struct Owner {
    keyboard: Option<File>,
    screen: Option<Receiver<Vec<u8>>>,
    seen: String,
    terminal: OwnedFd,
    before: Termios,
    child: Child,
    _machine: Machine,
}

impl Owner {
    /// Starts the shell as a login would: a session whose terminal is this one.
    fn sits_down(arguments: &[&str]) -> Self {
        let machine = open_machine();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        unlockpt(&ours).unwrap();
        let terminal = ioctl_tiocgptpeer(&ours, flags).unwrap();
        tcsetwinsize(&ours, window(30, 100)).unwrap();
        let stream = || Stdio::from(terminal.try_clone().unwrap());
        let mut command = Command::new("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_opengpu"), "exec", "shell"]).args(arguments);
        command.env_clear().env("PATH", "/usr/bin:/bin").env("TERM", "dumb");
        command.env("OPENGPU_HOME", machine.0.path());
        command.env("OPENGPU_IMAGES", machine.0.path().join("images"));
        command.stdin(stream()).stdout(stream()).stderr(stream());
        let before = tcgetattr(&terminal).unwrap();
        let child = command.spawn().unwrap();
        drop(command);
        let (sender, screen) = sync_channel(64);
        let mut reading = File::from(ours.try_clone().unwrap());
        let keyboard = Some(File::from(ours));
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            let wait = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
            // Looked at now and then, so that it lets go of the terminal when nobody listens.
            while sender.send(Vec::new()).is_ok() {
                let mut waited = [PollFd::new(&reading, PollFlags::IN)];
                if poll(&mut waited, Some(&wait)).unwrap() == 0 {
                    continue;
                }
                let Ok(count @ 1..) = reading.read(&mut piece) else { return };
                let _ = sender.send(piece[..count].to_vec());
            }
        });
        let (screen, seen) = (Some(screen), String::new());
        Self { keyboard, screen, seen, terminal, before, child, _machine: machine }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows something, and takes everything up to there off it.
    fn sees(&mut self, wanted: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(at) = self.seen.find(wanted) {
                return self.seen.drain(..at + wanted.len()).collect();
            }
            match self.screen.as_ref().unwrap().recv_timeout(Duration::from_millis(200)) {
                Ok(piece) => self.seen.push_str(&String::from_utf8_lossy(&piece)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("gone, after {:?}", self.seen),
            }
            assert!(start.elapsed() < PATIENCE, "no {wanted:?} in {:?}", self.seen);
        }
    }

    /// Types a line, and gives what it prints up to an end that is not in the line itself.
    fn runs(&mut self, line: &str) -> String {
        self.types(&format!("{line}; echo en''d\n"));
        let shown = self.sees("\r\nend\r\n");
        // A key before the prompt may be lost, as at any terminal.
        self.sees("$ ");
        // Behind the echo of the line.
        shown.split_once("en''d").map_or(shown.clone(), |(_, rest)| rest.to_owned())
    }

    fn ends(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "it does not end: {:?}", self.seen);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The terminal is as it was before anything started.
    fn finds_the_terminal_as_it_was(&self) {
        let after = tcgetattr(&self.terminal).unwrap();
        assert_eq!(after.local_modes, self.before.local_modes);
        assert_eq!(after.input_modes, self.before.input_modes);
        assert_eq!(after.output_modes, self.before.output_modes);
    }
}

const fn window(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Processes of this machine whose command line holds a text.
fn processes_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.map(|line| line.replace('\0', " ")).filter(|line| line.contains(text)).collect()
}

/// Waits until a program of that command line runs by itself, and not as words of a shell.
fn waits_for(text: &str) {
    let start = Instant::now();
    while !processes_with(text).iter().any(|line| line.starts_with(text)) {
        assert!(start.elapsed() < PATIENCE, "no {text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn gone(text: &str) {
    let start = Instant::now();
    while !processes_with(text).is_empty() {
        assert!(start.elapsed() < PATIENCE, "left: {:?}", processes_with(text));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_shell_is_nobody_on_a_terminal_of_its_own_and_its_code_is_passed_on() {
    let mut owner = Owner::sits_down(&[]);
    let shown = owner.runs("id -u; tty; stty size; stat -c %d /dev/pts");
    assert!(shown.contains("65534\r\n/dev/pts/0\r\n30 100\r\n"), "{shown}");
    // The file system of its terminals is not the owner's.
    let outside = rustix::fs::stat("/dev/pts").unwrap().st_dev.to_string();
    assert!(!shown.contains(&format!("\r\n{outside}\r\n")), "{shown}");
    // What a process calls its terminal is the same one.
    let shown = owner.runs("echo loud > /dev/tty; readlink /proc/self/fd/[012]");
    assert!(shown.contains(&format!("loud\r\n{}", "/dev/pts/0\r\n".repeat(3))), "{shown}");
    owner.types("exit 7\n");
    assert_eq!(owner.ends().code(), Some(7));
    owner.finds_the_terminal_as_it_was();
}

#[test]
fn a_window_that_changes_is_told_to_the_shell() {
    let mut owner = Owner::sits_down(&[]);
    assert!(owner.runs("stty size").contains("30 100"));
    tcsetwinsize(&owner.terminal, window(41, 123)).unwrap();
    let start = Instant::now();
    while !owner.runs("stty size").contains("41 123") {
        assert!(start.elapsed() < PATIENCE);
    }
    owner.types("\u{4}");
    assert_eq!(owner.ends().code(), Some(0), "the end of input ends a shell");
}

#[test]
fn a_key_interrupts_what_runs_and_not_the_shell() {
    let mut owner = Owner::sits_down(&[]);
    owner.types("echo be''gun; sleep 3001\n");
    owner.sees("begun\r\n");
    waits_for("sleep 3001");
    owner.types("\u{3}");
    owner.sees("$ ");
    // Of a command that was interrupted a shell tells the signal as a code.
    assert!(owner.runs("echo code $?").contains("code 130"));
    assert!(processes_with("sleep 3001").is_empty());
    owner.types("exit\n");
    owner.ends();
    // A command that knows nothing of terminals has one, too.
    let mut owner = Owner::sits_down(&["--", "sh", "-c", "echo begun; exec sleep 3007"]);
    owner.sees("begun\r\n");
    waits_for("sleep 3007");
    owner.types("\u{3}");
    assert_eq!(owner.ends().code(), Some(130));
}

#[test]
fn a_terminal_that_closes_ends_everything() {
    let mut owner = Owner::sits_down(&[]);
    owner.types("trap '' HUP TERM; (setsid sleep 3002 &); echo be''gun; sleep 3003\n");
    owner.sees("begun\r\n");
    drop((owner.keyboard.take(), owner.screen.take()));
    assert_eq!(owner.ends().code(), Some(129));
    gone("sleep 3002");
    gone("sleep 3003");
}

#[test]
fn a_signal_ends_everything_and_the_terminal_is_restored() {
    let mut owner = Owner::sits_down(&[]);
    owner.types("trap '' TERM; echo be''gun; sleep 3004\n");
    owner.sees("begun\r\n");
    assert_ne!(tcgetattr(&owner.terminal).unwrap().local_modes, owner.before.local_modes);
    kill_process(Pid::from_child(&owner.child), Signal::TERM).unwrap();
    assert_eq!(owner.ends().code(), Some(143));
    owner.finds_the_terminal_as_it_was();
    gone("sleep 3004");
}

#[test]
fn a_bomb_in_a_shell_ends_by_the_limits() {
    let mut owner = Owner::sits_down(&["--memory", "64 MiB"]);
    owner.types("python3 -c 'x = bytearray(1 << 30); print(len(x))'; sleep 3005\n");
    owner.sees("the shell was ended: it wanted more than 67108864 bytes of memory");
    assert_eq!(owner.ends().code(), Some(1));
    owner.finds_the_terminal_as_it_was();
    gone("sleep 3005");
    let mut owner = Owner::sits_down(&["--time", "3s", "sleep", "3006"]);
    owner.sees("the shell was ended: its time of 3 s is over");
    assert_eq!(owner.ends().code(), Some(1));
    gone("sleep 3006");
}

#[test]
fn a_shell_without_a_terminal_takes_what_is_piped_and_shows_nothing_of_it() {
    let machine = Machine::new();
    let mut command = machine.command(&["exec", "shell"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // What a command of the script reads is the next line, as anywhere.
    let script = b"read x\nforty-two\necho $x; echo loud >&2; tty\nexit 3";
    child.stdin.take().unwrap().write_all(script).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "forty-two\nnot a tty\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "loud\n");
    assert_eq!(output.status.code(), Some(3));
    let (code, said) = machine.failure(&["exec", "shell", "/no/such/program"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("/no/such/program"), "{said}");
}

#[test]
fn a_signal_ends_a_shell_without_a_terminal() {
    let machine = Machine::new();
    let mut command = machine.command(&["exec", "shell", "sleep", "3008"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    waits_for("sleep 3008");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    gone("sleep 3008");
}

#[test]
fn too_little_is_a_wrong_argument_and_the_least_is_named() {
    let machine = Machine::new();
    for (option, value, least) in
        [("--memory", "100", "16 MiB"), ("--time", "0s", "1s"), ("--processes", "0", "2")]
    {
        let (code, said) = machine.failure(&["exec", "shell", option, value, "true"]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(&format!("the least is {least}")), "{said}");
        let given = machine.output(&["exec", "shell", option, least, "true"]);
        assert_eq!(given.status.code(), Some(0), "{option} {least}: {given:?}");
    }
}

/// A machine whose folder the user of the sandbox can reach, too.
pub(crate) fn open_machine() -> Machine {
    let machine = Machine::new();
    fs::set_permissions(machine.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
    machine
}

/// An image with these programs, in a folder; the address of its manifest.
pub(crate) fn image(folder: &Path, programs: &[&str]) -> String {
    let mut python = Command::new("python3");
    python.args(["-c", include_str!("layout.py")]).arg(folder).args(programs);
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_shell_in_an_image_sees_its_files_alone() {
    let machine = open_machine();
    let folder = machine.0.path().join("image");
    image(&folder, &["/bin/sh"]);
    let mut owner = Owner::sits_down(&["--image", folder.to_str().unwrap()]);
    let shown = owner.runs("echo $0; test -e /usr/share || echo own files");
    assert!(shown.contains("/bin/sh\r\nown files\r\n"), "{shown}");
    owner.types("exit 5\n");
    assert_eq!(owner.ends().code(), Some(5));

    let empty = machine.0.path().join("empty");
    image(&empty, &[]);
    let (code, said) = machine.failure(&["exec", "shell", "--image", empty.to_str().unwrap()]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("neither bash nor sh"), "{said}");
    let (code, said) = machine.failure(&["exec", "shell", "--image", "no.such/image:1"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("no.such/image:1") && said.contains(" pull no.such/image:1"), "{said}");
    let file = machine.0.path().join("notes");
    fs::write(&file, "not an image\n".repeat(100)).unwrap();
    let folder = machine.0.path().join("nothing");
    fs::create_dir(&folder).unwrap();
    for (path, why) in [(&file, "nor a tar file"), (&folder, "no index.json")] {
        let (code, said) = machine.failure(&["exec", "shell", "--image", path.to_str().unwrap()]);
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(why) && said.contains("podman save"), "{said}");
        assert!(!said.contains("not an image"), "{said}");
    }
}

#[test]
fn an_image_is_a_program_and_its_address_is_kept() {
    let machine = open_machine();
    let folder = machine.0.path().join("program");
    let address = image(&folder.join("image"), &["/bin/sh"]);
    let manifest = |digest: &str| {
        let text = format!(
            "name = 'image'\nkind = 'native'\nclass = 'exact'\n[native]\nimage = 'image'\n\
             digest = '{digest}'\narguments = ['-c', 'read x < /inputs/input; echo $x$x']\n"
        );
        fs::write(folder.join("program.toml"), text).unwrap();
    };
    manifest(&address);
    fs::write(folder.join("input"), "abc\n").unwrap();
    let (program, input) = (folder.to_str().unwrap(), folder.join("input"));
    let arguments = ["exec", "run", program, "--input", input.to_str().unwrap(), "--out", "-"];
    let output = machine.output(&arguments);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "abcabc\n", "{output:?}");
    manifest(&format!("sha256:{}", "0".repeat(64)));
    let (code, said) = machine.failure(&arguments);
    assert!(code == 2 && said.contains(&address) && said.contains("digest = "), "{said}");
}
