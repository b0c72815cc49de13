//! `firstrun`: what a newcomer lives through, with a clock.
//!
//! ```text
//!   archive ─► unpack ─► a network ─► a picture ─► its receipt, checked offline    wanted: 60 s
//!   a wallet without a token ─► provider init ─► start ─► a task, audited ─► the first pay  wanted: 300 s
//! ```
//!
//! Every step is a command that the README names, run by the binary of the archive in an empty folder.

use crate::{dist, process, test};
use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use std::io::{BufRead as _, BufReader, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Seconds until a verified picture, and until the first pay.
const WANTED: [f64; 2] = [60.0, 300.0];
/// How long a provider may wait for its pay.
const PATIENCE: Duration = Duration::from_secs(300);

/// What `firstrun` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pack this binary instead of a release build.
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // A GPU in software, as a machine with a GPU has its driver.
    test::tools()?;
    let place = std::env::temp_dir().join(format!("opengpu-firstrun-{}", std::process::id()));
    std::fs::create_dir_all(&place)?;
    let walked = walk(arguments, &place);
    std::fs::remove_dir_all(&place)?;
    let measured = walked?;
    let names = ["unpacking to a verified picture", "provider init to the first pay"];
    for ((number, name), (wanted, seconds)) in
        (1..).zip(names).zip(WANTED.into_iter().zip(measured))
    {
        let verdict = if seconds <= wanted { "ok" } else { "short" };
        println!("want F{number} {name}: {seconds:.1} s (wanted <= {wanted:.0} s) {verdict}");
    }
    Ok(())
}

fn walk(arguments: &Arguments, place: &Path) -> Result<[f64; 2]> {
    let archive = match &arguments.binary {
        None => dist::make()?,
        Some(binary) => {
            let path = place.join("opengpu.tar.gz");
            dist::archive("opengpu", binary.clone(), &path)?;
            path
        }
    };
    let mut clock = Clock(Instant::now());
    let begin = clock.0;
    let newcomer = Newcomer::unpack(&archive, place)?;
    clock.tell("unpacked");
    let network = newcomer.network()?;
    clock.tell("a network of one validator and two providers runs");
    newcomer.picture()?;
    clock.tell("a picture was rendered, its receipt is true");
    let picture = begin.elapsed().as_secs_f64();

    newcomer.read(&["wallet", "new", "poor", "--no-passphrase", "--show-phrase"])?;
    let begin = Instant::now();
    clock = Clock(begin);
    let relay = format!("http://127.0.0.1:{}", newcomer.ports[2]);
    // Less than the others take, so that the market chooses it.
    let init = ["provider", "init", "--data", "poor", "--rate", "0.0001 oGPU", "--relay", &relay];
    newcomer.read(&init)?;
    clock.tell("a provider without a token is set up and measured");
    let (provider, account) = newcomer.provider()?;
    clock.tell("it is registered, at the expense of a sponsor");
    let cheapest = ["run", "sha256-search", "--from", "bob", "--spot", "--prefer", "price"];
    let task = word(&newcomer.read(&cheapest)?, "task")?;
    clock.tell("somebody's task has run there, and others have repeated parts of it");
    newcomer.wait_for_pay()?;
    clock.tell("it is paid");
    let pay = begin.elapsed().as_secs_f64();
    newcomer.check_audit(&task, &account)?;
    drop((provider, network));
    Ok([picture, pay])
}

/// Seconds of each step.
struct Clock(Instant);

impl Clock {
    fn tell(&mut self, what: &str) {
        println!("{:>7.1} s  {what}", self.0.elapsed().as_secs_f64());
        self.0 = Instant::now();
    }
}

/// A process that ends with us.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // As Ctrl-C would; what does not end is ended.
        process::succeeds(Command::new("kill").args(["-INT", &self.0.id().to_string()]));
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(20) && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Somebody with an archive and an empty folder.
struct Newcomer {
    binary: PathBuf,
    place: PathBuf,
    ports: [u16; 3],
}

impl Newcomer {
    fn unpack(archive: &Path, place: &Path) -> Result<Self> {
        let file = std::fs::File::open(archive)?;
        tar::Archive::new(flate2::read::GzDecoder::new(file)).unpack(place)?;
        let folders = std::fs::read_dir(place)?.filter_map(|entry| entry.ok().map(|it| it.path()));
        let mut binaries = folders.map(|folder| folder.join("opengpu"));
        let binary = binaries.find(|path| path.is_file()).context("no binary in the archive")?;
        Ok(Self { binary, place: place.to_owned(), ports: free_ports()? })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let node = format!("http://127.0.0.1:{}", self.ports[0]);
        let mut command = Command::new(&self.binary);
        command.args(["--home", "net", "--node", &node, "--yes"]).args(arguments);
        command.current_dir(&self.place).stdin(Stdio::null());
        command
    }

    fn read(&self, arguments: &[&str]) -> Result<String> {
        process::read(self.command(arguments).args(["-o", "json"]))
    }

    /// Starts a process and waits for a line of it that begins like this.
    fn start(&self, arguments: &[&str], begins: &str) -> Result<(Running, String)> {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting the binary")?;
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|it| Box::new(it) as Box<dyn Read + Send>),
            child.stderr.take().map(|it| Box::new(it) as Box<dyn Read + Send>),
        ];
        let (sender, lines) = std::sync::mpsc::channel();
        for stream in streams.into_iter().flatten() {
            let sender = sender.clone();
            // It reads until the process ends, so that the process never waits for a reader.
            std::thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let _ = sender.send(line);
                }
            });
        }
        drop(sender);
        let running = Running(child);
        let mut told = Vec::new();
        for line in lines {
            if line.starts_with(begins) {
                return Ok((running, line));
            }
            told.push(line);
        }
        bail!("{} ended early:\n{}", arguments.join(" "), told.join("\n"))
    }

    fn network(&self) -> Result<Running> {
        let ports = self.ports.map(|port| port.to_string());
        let places = ["--data", "net", "--validators", "1", "--providers", "2"];
        let ports =
            ["--first-rpc", &ports[0], "--first-port", &ports[1], "--relay-port", &ports[2]];
        let (running, _) = self.start(&[&["dev"][..], &places, &ports].concat(), "Running.")?;
        Ok(running)
    }

    fn picture(&self) -> Result<()> {
        let told = self.read(&["run", "path-tracer", "--from", "alice", "--out", "picture.png"])?;
        let (task, output) = (word(&told, "task")?, word(&told, "output_file")?);
        if !std::fs::read(self.place.join("picture.png"))?.starts_with(b"\x89PNG") {
            bail!("the picture is no PNG");
        }
        self.read(&["receipt", "show", &task, "--out", "receipt.bin"])?;
        let genesis = ["--genesis", "net/genesis.json", "--matches", &output];
        self.read(&[&["receipt", "verify", "receipt.bin"][..], &genesis].concat())?;
        Ok(())
    }

    fn provider(&self) -> Result<(Running, String)> {
        let keys = ["--wallet", "poor", "--sponsor", "faucet", "--until-stdin-ends"];
        let start = [&["provider", "start", "--data", "poor"][..], &keys].concat();
        let (running, ready) = self.start(&start, "Ready: ")?;
        let account = ready.split_whitespace().nth(1).context("nobody is ready")?.to_owned();
        Ok((running, account))
    }

    /// Whoever has nothing at stake is paid after others have repeated a part of its work.
    fn check_audit(&self, task: &str, provider: &str) -> Result<()> {
        let told: Value = serde_json::from_str(&self.read(&["audit", "show", task])?)?;
        let audit = told.pointer("/audits/0").context("nobody has audited it")?;
        let says = |name: &str| audit.get(name).and_then(Value::as_str);
        let course = audit.get("course").and_then(Value::as_array).into_iter().flatten();
        let mut events = course.filter_map(|it| it.get("event").and_then(Value::as_str));
        let is_checked = events.any(|event| event == "revealed");
        if says("provider") != Some(provider) || says("finding") != Some("upheld") || !is_checked {
            bail!("the first task of {provider} was not audited and upheld: {audit}");
        }
        Ok(())
    }

    fn wait_for_pay(&self) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let told = self.read(&["provider", "earnings", "--data", "poor"])?;
            let told: Value = serde_json::from_str(&told).context("the earnings")?;
            let paid = told.get("paid_ogpu").and_then(Value::as_str);
            if paid.is_some_and(|paid| paid != "0") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        bail!("the provider was not paid")
    }
}

/// A word of what a command told.
fn word(told: &str, name: &str) -> Result<String> {
    let told: Value = serde_json::from_str(told).context("no JSON")?;
    let word = told.get(name).and_then(Value::as_str);
    word.map(str::to_owned).with_context(|| format!("no `{name}` in {told}"))
}

/// Three ports that nobody uses.
fn free_ports() -> Result<[u16; 3]> {
    let listeners: Vec<_> = (0..3).map(|_| TcpListener::bind("127.0.0.1:0")).collect();
    let mut ports = [0; 3];
    for (port, listener) in ports.iter_mut().zip(listeners) {
        *port = listener?.local_addr()?.port();
    }
    Ok(ports)
}
