//! Roles that need nobody: a gateway, and a client that waits.

use super::{CLIENT, GATEWAY, GATEWAY_READY, LOOK_EVERY, PATIENCE, mebibytes, milliseconds};
use crate::{
    error::BenchError,
    figures::Figures,
    network::{Scene, store, words},
    process::Process,
};
use opengpu_client::wallet::create_folder;
use opengpu_crypto::Keypair;
use rand::{SeedableRng as _, rngs::StdRng};
use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// A gateway in front of a server that nobody asks for anything.
pub(super) fn gateway(
    scene: &Scene,
    rest: Duration,
    figures: &mut Figures,
) -> Result<(), BenchError> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
    let listen = free.map_err(BenchError::system("looking for a free port"))?;
    let mut command = Command::new(&scene.opengpu);
    command.arg("--home").arg(scene.folder.join("home"));
    command.args(["serve", "--upstream", "http://127.0.0.1:9", "--listen", &listen.to_string()]);
    let begun = Instant::now();
    let log = scene.folder.join("logs/gateway.log");
    let mut process = Process::start("the gateway", &mut command, &log)?;
    while !is_alive(listen) {
        process.check()?;
        if begun.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            return Err(BenchError::Slow { what: "starting the gateway", seconds });
        }
        thread::sleep(LOOK_EVERY);
    }
    figures.add(GATEWAY_READY, milliseconds(begun));
    thread::sleep(rest);
    figures.add(GATEWAY, mebibytes(process.usage()));
    Ok(())
}

/// Whether a gateway says that it lives.
fn is_alive(address: SocketAddr) -> bool {
    let ask = || {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        write!(stream, "GET /healthz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok::<_, std::io::Error>(answer.starts_with("HTTP/1.1 200"))
    };
    ask().unwrap_or(false)
}

/// A client that has submitted a task and waits for a provider that does not answer.
pub(super) fn attending(
    scene: &Scene,
    keypair: &Keypair,
    program: &Path,
    rest: Duration,
    figures: &mut Figures,
) -> Result<(), BenchError> {
    let home = scene.folder.join("waiting");
    create_folder(&home.join("tasks"))?;
    store(&home, "client", keypair, &mut StdRng::seed_from_u64(1))?;
    let input = home.join("input");
    std::fs::write(&input, [0; 8]).map_err(BenchError::system("writing an input"))?;
    let mut command = Command::new(&scene.opengpu);
    command.arg("--home").arg(&home).args(["--node", scene.url(0), "--yes", "run"]).arg(program);
    command.args(words(["--from", "client", "--spot", "--seek", "10m", "--input"])).arg(&input);
    let log = scene.folder.join("logs/client.log");
    let mut process = Process::start("the client", &mut command, &log)?;
    thread::sleep(rest.max(Duration::from_secs(3)));
    process.check()?;
    figures.add(CLIENT, mebibytes(process.usage()));
    Ok(())
}
