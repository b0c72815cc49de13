//! `opengpu chat` at a real terminal: a pair of pseudo-terminals stands for the user's. It needs what
//! `cargo xtask models` fetches.

use crate::Machine;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use std::{
    fs::File,
    io::{Read as _, Write as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, channel},
    time::{Duration, Instant},
};

/// Long enough for a model on a machine that has other work.
const PATIENCE: Duration = Duration::from_secs(120);

/// Somebody at a terminal, and the binary on it.
struct User {
    keyboard: File,
    screen: Receiver<String>,
    seen: String,
    child: Child,
    _machine: Machine,
}

impl User {
    /// Starts a chat as a login would: in a session whose terminal is this one.
    fn sits_down() -> Self {
        let machine = Machine::new();
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        unlockpt(&ours).unwrap();
        let terminal = ioctl_tiocgptpeer(&ours, flags).unwrap();
        let chat = machine.command(&[
            "chat",
            "smollm2-135m-instruct",
            "--temperature",
            "0",
            "--max-tokens",
            "2000",
        ]);
        let mut command = Command::new("setsid");
        command.arg("--ctty").arg(chat.get_program()).args(chat.get_args()).env_clear();
        command.envs(chat.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let stream = || Stdio::from(terminal.try_clone().unwrap());
        command.stdin(stream()).stdout(stream()).stderr(stream());
        let child = command.spawn().unwrap();
        let (sender, screen) = channel();
        let mut reading = File::from(ours.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            // It fails when nobody has the terminal open any more.
            while let Ok(count @ 1..) = reading.read(&mut piece) {
                let _ = sender.send(String::from_utf8_lossy(&piece[..count]).into_owned());
            }
        });
        Self { keyboard: File::from(ours), screen, seen: String::new(), child, _machine: machine }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows something, and takes everything up to there off it.
    fn sees(&mut self, wanted: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(at) = self.seen.find(wanted) {
                return self.seen.drain(..at + wanted.len()).collect();
            }
            let left = PATIENCE.saturating_sub(start.elapsed());
            match self.screen.recv_timeout(left) {
                Ok(piece) => self.seen.push_str(&piece),
                Err(why) => panic!("no {wanted:?} in {:?}: {why}", self.seen),
            }
        }
    }

    fn leaves(mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < PATIENCE, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for User {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn commands_are_for_the_terminal_and_the_rest_for_the_model() {
    let mut user = User::sits_down();
    user.sees("\r\n> ");
    user.types("/help\n");
    assert!(user.sees("\r\n> ").contains("/bye, /exit    leave"));
    user.types("/wat now\n");
    assert!(user.sees("\r\n> ").contains("there is no command /wat; /help lists them"));
    user.types("\n");
    user.sees("> ");
    user.types("/bye\n");
    assert!(user.leaves().success());
}

#[test]
fn a_key_stops_an_answer_and_leaves_the_prompt() {
    let mut user = User::sits_down();
    user.sees("\r\n> ");
    for _ in 0..2 {
        user.types("Write a very long story about the sea.\n");
        user.sees("sea.\r\n");
        // Its first words have come.
        user.sees(" ");
        user.types("\u{3}");
        // The whole story has 9000 bytes.
        let story = user.sees("\r\n> ");
        assert!(story.len() < 4_500, "the answer went on: {story}");
    }
    user.types("\u{3}");
    assert!(user.leaves().success());
}
