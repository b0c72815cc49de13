//! Links between the nodes of a test that can be cut and healed.
//!
//! ```text
//!   node 0 ──dials──► door of node 1 ──► node 1       the genesis names the doors
//! ```
//!
//! A door finds out which process dials it, so a link is cut between two nodes and not at one of them.
//! What is on a link when it is cut waits there, as in a cable; a link that would begin is refused.

use std::{
    collections::BTreeSet,
    fs,
    io::{ErrorKind, Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What all doors know.
#[derive(Default)]
struct Known {
    /// The process of each node, while there is one.
    processes: Mutex<Vec<Option<u32>>>,
    /// Nodes on the one side of the cut; nothing is cut if there are none.
    side: Mutex<BTreeSet<usize>>,
    stop: AtomicBool,
}

impl Known {
    fn is_cut(&self, one: usize, other: usize) -> bool {
        let side = self.side.lock().unwrap();
        side.contains(&one) != side.contains(&other)
    }

    /// Which node has the other end of a stream.
    fn dialler(&self, stream: &TcpStream) -> Option<usize> {
        let (peer, own) = (stream.peer_addr().ok()?.port(), stream.local_addr().ok()?.port());
        let socket = format!("socket:[{}]", inode(peer, own)?);
        let processes = self.processes.lock().unwrap().clone();
        processes.iter().position(|process| process.is_some_and(|id| has_open(id, &socket)))
    }
}

/// The number of the socket that goes from one port of this machine to another.
fn inode(from: u16, to: u16) -> Option<String> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let port = |address: &str| u16::from_str_radix(address.split_once(':')?.1, 16).ok();
    table.lines().find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (local, remote) = (port(fields.get(1)?)?, port(fields.get(2)?)?);
        (local == from && remote == to).then(|| fields.get(9).map(|it| (*it).to_owned()))?
    })
}

fn has_open(process: u32, socket: &str) -> bool {
    let files = fs::read_dir(format!("/proc/{process}/fd"));
    let mut links =
        files.into_iter().flatten().flatten().filter_map(|it| fs::read_link(it.path()).ok());
    links.any(|link| link.to_str() == Some(socket))
}

/// The doors of all nodes; dropping them ends every link.
pub(crate) struct Links(Arc<Known>);

impl Links {
    /// Opens a door for each node: where it is dialled, and where it listens.
    pub(crate) fn new(doors: &[(SocketAddr, SocketAddr)]) -> Self {
        let known = Arc::new(Known::default());
        known.processes.lock().unwrap().resize(doors.len(), None);
        for (index, (door, node)) in doors.iter().enumerate() {
            let (listener, node) = (TcpListener::bind(door).unwrap(), *node);
            listener.set_nonblocking(true).unwrap();
            let known = Arc::clone(&known);
            thread::spawn(move || open(&listener, index, node, &known));
        }
        Self(known)
    }

    /// Says which process a node is.
    pub(crate) fn is(&self, index: usize, process: u32) {
        self.0.processes.lock().unwrap()[index] = Some(process);
    }

    /// Cuts every link between these nodes and the others.
    pub(crate) fn cut(&self, side: &[usize]) {
        *self.0.side.lock().unwrap() = side.iter().copied().collect();
    }

    pub(crate) fn heal(&self) {
        self.cut(&[]);
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Lets in whoever dials a node, unless they are cut off from each other.
fn open(listener: &TcpListener, index: usize, node: SocketAddr, known: &Arc<Known>) {
    while !known.stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            thread::sleep(LOOK_EVERY);
            continue;
        };
        let Some(dialler) = known.dialler(&stream) else { continue };
        if known.is_cut(dialler, index) {
            continue;
        }
        let Ok(inner) = TcpStream::connect(node) else { continue };
        for (from, to) in [(&stream, &inner), (&inner, &stream)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let known = Arc::clone(known);
            thread::spawn(move || carry(from, to, || known.is_cut(dialler, index), &known.stop));
        }
    }
}

/// Carries bytes one way until an end closes. While the link is cut they stay where they are.
fn carry(mut from: TcpStream, mut to: TcpStream, is_cut: impl Fn() -> bool, stop: &AtomicBool) {
    from.set_nonblocking(false).unwrap();
    from.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // Small messages must not wait for each other.
    let _ = to.set_nodelay(true);
    let mut bytes = vec![0; 1 << 16];
    while !stop.load(Ordering::Relaxed) {
        let length = match from.read(&mut bytes) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                continue;
            }
            Ok(length) => length,
            Err(_) => 0,
        };
        while is_cut() && !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK_EVERY);
        }
        if length == 0 || to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        // The other way may have closed it.
        let _ = stream.shutdown(Shutdown::Both);
    }
}
