//! A provider whose disk is full in the middle of a lease.

use crate::{
    dev::{run, text},
    providers::until,
    scene::{LONGER, SHORT, Scene, example, leave_out},
};
use opengpu_types::{Amount, CloseReason, LeasePhase};
use serde_json::Value;
use std::{
    fs::{File, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
};

/// A small disk of its own, as long as this is kept, and who may mount it: this user, or one whom `sudo`
/// makes of it without a question.
struct Disk(PathBuf, &'static [&'static str]);

impl Disk {
    /// None where nobody may mount anything.
    fn mount(place: &Path) -> Option<Self> {
        std::fs::create_dir(place).unwrap();
        let owner = rustix::process::geteuid().as_raw();
        let options = format!("size=256m,mode=0700,uid={owner}");
        let mut refused = Vec::new();
        for by in [&[][..], &["sudo", "-n"]] {
            let mut mount = by_whom(by, "mount");
            mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(place);
            match mount.output() {
                Ok(output) if output.status.success() => return Some(Self(place.to_owned(), by)),
                answer => refused.push(answer),
            }
        }
        leave_out(&format!("no disk of its own can be mounted: {refused:?}"));
        None
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }

    /// Leaves not a byte.
    fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while file.write_all(&vec![0; size]).is_ok() {}
        }
        let mut more = OpenOptions::new().append(true).open(self.ballast()).unwrap();
        assert!(more.write_all(&[0; 1 << 12]).is_err(), "there is still room");
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Whoever still writes there keeps it until it ends.
        let _ = by_whom(self.1, "umount").arg("--lazy").arg(&self.0).status();
    }
}

fn by_whom(by: &[&str], program: &str) -> Command {
    let mut words = by.iter().chain([&program]);
    let mut command = Command::new(words.next().unwrap());
    command.args(words);
    command
}

#[test]
fn e2e_a_task_moves_on_when_the_disk_of_its_provider_is_full() {
    let scene = Scene::new("0");
    let Some(disk) = Disk::mount(&scene.home().join("small")) else { return };
    let small = scene.provider("small");
    let task = &scene.detached_longer();
    until("a checkpoint", || scene.journal(task).contains("kept here"));
    let roomy = scene.provider("roomy");
    disk.fill();

    let pulled = scene.json(&["pull", task]);
    assert_eq!(pulled["ended"], "completed", "{pulled}");
    let names = ["small", "roomy"].map(|name| Value::from(scene.account(name)));
    assert_eq!(*pulled["providers"].as_array().unwrap(), names, "each had it once");
    let output = scene.home().join(pulled["output_file"].as_str().unwrap());
    assert_eq!(std::fs::read_to_string(output).unwrap(), LONGER, "as if it had room");

    // Each is paid for what it has committed to, and nothing is paid twice.
    let settled = scene.on_chain(task);
    let [first, second] = &settled.leases[..] else { panic!("{:?}", settled.leases) };
    assert_eq!(first.phase, LeasePhase::Closed { reason: CloseReason::Broken });
    let reached = first.commitment.map(|commitment| commitment.reached);
    assert!(reached.is_some() && second.from == reached, "it went on from there");
    let paid = first.paid.plus(second.paid).unwrap();
    assert!(!second.paid.is_zero() && paid == settled.paid, "{paid} of {}", settled.paid);
    assert_eq!(settled.paid.plus(settled.refunded), Some(Amount::whole(1)));

    // It lives, says why it does nothing, and takes leases when there is room again.
    let status = || scene.json(&["provider", "status", "--data", "small"]);
    until("it takes no leases", || status()["on_chain"] == "draining");
    let standing = status()["standing"].as_str().unwrap().to_owned();
    assert_eq!(standing, "idle because the disk is full");
    let log = std::fs::read_to_string(scene.home().join("small.log")).unwrap();
    assert!(log.contains("the disk is full: the lease is given back"), "{log}");
    roomy.stop();
    std::fs::remove_file(disk.ballast()).unwrap();
    until("it takes leases again", || status()["on_chain"] == "active");
    let silent = scene.account("roomy");
    let offers = || scene.json(&["offers"]);
    assert!(offers().as_array().unwrap().iter().any(|it| it["provider"] != silent.as_str()));
    scene.write("short.txt", SHORT);
    let named = scene.account("small");
    let again = [
        "run",
        &example("sha256-search"),
        "--from",
        "alice",
        "--input",
        "short.txt",
        "--provider",
        &named,
    ];
    let ended = scene.json(&again);
    assert_eq!(ended["ended"], "completed", "{ended}");
    let shown = run(scene.home(), &["provider", "status", "--data", "small"]);
    assert_eq!(shown.status.code(), Some(0), "{}", text(&shown));
    small.stop();
}
