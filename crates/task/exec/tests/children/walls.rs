//! Walls around executors: a back end that has been taken over tries to get out of its process.
//!
//! The same attacks run twice: in an executor behind walls, where each must fail, and in one without
//! them, as scripts have it, where each must succeed. An attack that never succeeds shows nothing.

use crate::guests::{EMIT, SPIN, SUM, guest, launch};
use opengpu_exec::backend::{Backend, Begun, Missing, Prepared, Span, Work};
use opengpu_exec::program::Kind;
use opengpu_exec::{
    Data, Errand, Fault, Launch, Program, Refusal, Registry, StartError, Supervisor, child,
};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use tempfile::TempDir;

/// The tests of this file.
pub(crate) const TESTS: &[(&str, fn())] = &[
    ("a_back_end_that_was_taken_over_gets_nowhere", a_back_end_that_was_taken_over_gets_nowhere),
    ("an_executor_is_for_one_side_of_the_walls", an_executor_is_for_one_side_of_the_walls),
    ("what_was_not_granted_is_not_read_or_written", what_was_not_granted_is_not_read_or_written),
];

/// An executor whose back ends are all evil.
pub(crate) fn serve() {
    let registry = [Kind::Wasm, Kind::Llm, Kind::Native]
        .into_iter()
        .fold(Registry::default(), |all, kind| all.with(kind, Box::new(Evil)));
    child::serve_with(registry).unwrap();
}

/// What it is told to try, as its input.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Attack {
    Read(PathBuf),
    Write(PathBuf),
    List(PathBuf),
    Delete(PathBuf),
    Mode(PathBuf),
    Cut(PathBuf),
    Tcp(SocketAddr),
    Listen,
    Udp,
    Local(PathBuf),
    Execute,
    Fork,
    Signal(u32),
    SignalByFile(u32),
    Limit(u32),
    Trace(u32),
    Memory(u32),
    Variables(u32),
    Ring,
    Namespace,
    Keys,
}

struct Evil;

impl Backend for Evil {
    fn probe(&self) -> Result<String, Missing> {
        Ok("a test".to_owned())
    }

    fn prepare(&mut self, _: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        Ok(Box::new(Self))
    }
}

impl Prepared for Evil {
    fn init(&mut self, input: &[u8], work: &mut Work<'_>) -> Result<Begun, Fault> {
        let attack: Attack = serde_json::from_slice(input).unwrap();
        let said = match attempt(&attack) {
            Ok(()) => "out".to_owned(),
            Err(error) => error.to_string(),
        };
        work.emit(said.as_bytes())?;
        Ok(Begun { state: Vec::new(), steps: 0 })
    }

    fn advance(
        &mut self,
        _: &[u8],
        state: Vec<u8>,
        _: Span,
        _: &mut Work<'_>,
    ) -> Result<Vec<u8>, Fault> {
        Ok(state)
    }
}

fn attempt(attack: &Attack) -> io::Result<()> {
    match attack {
        Attack::Read(path) => fs::read(path).map(drop),
        Attack::Write(path) => fs::write(path, b"mine"),
        Attack::List(path) => fs::read_dir(path).map(drop),
        Attack::Delete(path) => fs::remove_file(path),
        Attack::Mode(path) => fs::set_permissions(path, fs::Permissions::from_mode(0o666)),
        Attack::Cut(path) => {
            let path = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
            // SAFETY: the path is a text with an end.
            #[expect(unsafe_code, reason = "the standard library opens a file first")]
            check(unsafe { libc::truncate(path.as_ptr(), 1) }.into())
        }
        Attack::Tcp(address) => TcpStream::connect(address).map(drop),
        Attack::Listen => TcpListener::bind("127.0.0.1:0").map(drop),
        Attack::Udp => UdpSocket::bind("127.0.0.1:0").map(drop),
        Attack::Local(path) => UnixStream::connect(path).map(drop),
        Attack::Execute => Command::new("/bin/true").status().map(drop),
        Attack::Fork => call(libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0, 0]).map(|child| {
            if child == 0 {
                // SAFETY: it ends, and touches nothing before.
                #[expect(unsafe_code, reason = "after a fork nothing else is safe")]
                unsafe {
                    libc::_exit(0)
                }
            }
        }),
        Attack::Signal(process) => {
            call(libc::SYS_kill, [id(*process), libc::SIGUSR1.into(), 0, 0]).map(drop)
        }
        Attack::SignalByFile(process) => {
            call(libc::SYS_fcntl, [0, libc::F_SETOWN.into(), id(*process), 0]).map(drop)
        }
        Attack::Limit(process) => {
            let limit = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
            let place = &raw const limit as i64;
            let resource = i64::from(libc::RLIMIT_FSIZE);
            call(libc::SYS_prlimit64, [id(*process), resource, place, 0]).map(drop)
        }
        Attack::Trace(process) => {
            call(libc::SYS_ptrace, [libc::PTRACE_SEIZE.into(), id(*process), 0, 0]).map(drop)
        }
        Attack::Memory(process) => fs::File::open(format!("/proc/{process}/mem")).map(drop),
        Attack::Variables(process) => fs::read(format!("/proc/{process}/environ")).map(drop),
        Attack::Ring => {
            let mut parameters = [0u64; 15];
            call(libc::SYS_io_uring_setup, [1, parameters.as_mut_ptr() as i64, 0, 0]).map(drop)
        }
        // A namespace of users needs no rights, but a process of one thread; this one does not.
        Attack::Namespace => {
            call(libc::SYS_unshare, [libc::CLONE_NEWUTS.into(), 0, 0, 0]).map(drop)
        }
        // The number of this process's own ring of keys.
        Attack::Keys => call(libc::SYS_keyctl, [0, -2, 1, 0]).map(drop),
    }
}

fn id(process: u32) -> i64 {
    i64::from(process)
}

fn call(number: i64, [a, b, c, d]: [i64; 4]) -> io::Result<i64> {
    // SAFETY: pointers among the arguments are to live memory as large as the call wants.
    #[expect(unsafe_code, reason = "an attack is made of what no library offers")]
    let outcome = unsafe { libc::syscall(number, a, b, c, d) };
    check(outcome).map(|()| outcome)
}

fn check(outcome: i64) -> io::Result<()> {
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Something of the owner, and somebody else's process.
struct Machine {
    folder: TempDir,
    listener: TcpListener,
    _local: UnixListener,
    other: Child,
}

impl Machine {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let _local = UnixListener::bind(folder.path().join("socket")).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = Command::new("/bin/sleep");
        let other = other.arg("600").env("SECRET", "secret").spawn().unwrap();
        let machine = Self { folder, listener, _local, other };
        machine.restore();
        machine
    }

    fn place(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What an attack may have destroyed.
    fn restore(&self) {
        for name in ["secret", "more"] {
            fs::write(self.place(name), b"secret").unwrap();
            fs::set_permissions(self.place(name), fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    fn attacks(&self) -> Vec<Attack> {
        let (own, other) = (std::process::id(), self.other.id());
        let secret = self.place("secret");
        let mut attacks = vec![
            Attack::Read(secret.clone()),
            Attack::Write(self.place("new")),
            Attack::Write(secret.clone()),
            Attack::List(self.folder.path().to_owned()),
            Attack::Delete(self.place("more")),
            Attack::Mode(secret.clone()),
            Attack::Cut(secret),
            Attack::Tcp(self.listener.local_addr().unwrap()),
            Attack::Listen,
            Attack::Udp,
            Attack::Local(self.place("socket")),
            Attack::Execute,
            Attack::Fork,
            Attack::SignalByFile(other),
            Attack::Limit(other),
            Attack::Keys,
        ];
        // Some machines forbid these to everybody.
        let setting = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        if matches!(setting("/proc/sys/kernel/yama/ptrace_scope").as_str(), "" | "0") {
            attacks.extend([Attack::Memory(own), Attack::Variables(other), Attack::Trace(other)]);
        }
        if matches!(setting("/proc/sys/kernel/io_uring_disabled").as_str(), "" | "0") {
            attacks.push(Attack::Ring);
        }
        if rustix::process::getuid().is_root() {
            attacks.push(Attack::Namespace);
        }
        // It ends the other process, so it is the last one.
        attacks.push(Attack::Signal(other));
        attacks
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.other.kill();
        let _ = self.other.wait();
    }
}

/// An empty program of a kind.
fn program(kind: &str) -> (Program, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let manifest = format!("name = 'evil'\nkind = '{kind}'\nclass = 'none'\n");
    fs::write(folder.path().join("program.toml"), manifest).unwrap();
    (Program::open(folder.path()).unwrap(), folder)
}

/// What an attack in an executor of a program came to.
fn say(supervisor: &Supervisor, program: &Program, attack: &Attack) -> String {
    let errand = Errand::new(Data::Inline(serde_json::to_vec(attack).unwrap()));
    let outcome = supervisor.run(program, errand).unwrap().wait(|_| {});
    String::from_utf8(outcome.unwrap().output).unwrap()
}

fn a_back_end_that_was_taken_over_gets_nowhere() {
    for (kind, out) in [("wasm", false), ("llm", false), ("native", true)] {
        let machine = Machine::new();
        let (program, _folder) = program(kind);
        let supervisor = Supervisor::new(launch("evil"));
        for attack in machine.attacks() {
            let said = say(&supervisor, &program, &attack);
            assert_eq!(said == "out", out, "{kind}, {attack:?}: {said}");
            machine.restore();
        }
    }
}

fn an_executor_is_for_one_side_of_the_walls() {
    let (walled, _first) = program("wasm");
    let (sandboxed, _second) = program("native");
    for (first, second) in [(&walled, &sandboxed), (&sandboxed, &walled)] {
        let supervisor = Supervisor::new(launch("evil"));
        supervisor.prepare(first).unwrap();
        let process = supervisor.process_id();
        supervisor.prepare(second).unwrap();
        assert_ne!(supervisor.process_id(), process, "each side has a process of its own");
    }
}

fn what_was_not_granted_is_not_read_or_written() {
    let guest = guest(4, EMIT, SUM, "");
    let folder = tempfile::tempdir().unwrap();
    let (input, states) = (folder.path().join("input"), folder.path().join("states"));
    fs::write(&input, 7u64.to_le_bytes()).unwrap();
    fs::create_dir(&states).unwrap();
    let run = |reads: &[&Path], writes: &[&Path]| {
        let paths = |paths: &[&Path]| paths.iter().map(|&path| path.to_owned()).collect();
        let launch = Launch { reads: paths(reads), writes: paths(writes), ..launch("executor") };
        let errand =
            Errand { keep: Some(states.clone()), ..Errand::new(Data::File(input.clone())) };
        Supervisor::new(launch).run(&guest.program, errand).unwrap().wait(|_| {})
    };
    let (fault, _) = run(&[], &[&states]).unwrap_err();
    assert!(matches!(fault, Fault::Input { .. }), "{fault}");
    let (fault, _) = run(&[&input], &[]).unwrap_err();
    assert!(matches!(fault, Fault::Device { .. }), "{fault}");
    run(&[&input], &[&states]).unwrap();
    assert_eq!(fs::read_dir(&states).unwrap().count(), 5);
    // Another program lies outside of what this executor was started for, and it is busy.
    let (endless, other) = (self::guest(1, "", SPIN, ""), self::guest(1, "", SUM, ""));
    let supervisor = Supervisor::new(launch("executor"));
    let errand = Errand::new(Data::Inline(7u64.to_le_bytes().to_vec()));
    let _ticket = supervisor.run(&endless.program, errand).unwrap();
    let error = supervisor.prepare(&other.program).unwrap_err();
    assert!(matches!(error, StartError::Refused(Refusal::Machine { .. })), "{error}");
}
