//! NATS: its server as a process, and as much of its protocol as requests and replies take.
//!
//! Both ends are threads of this process that write plain lines, so what is measured is little more than
//! the server. A request carries eight bytes, and the reply must be the same ones.

use crate::{
    error::BenchError,
    figures::median,
    process::{Process, Usage},
};
use std::{
    io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::Command,
    thread,
    time::{Duration, Instant},
};

/// Requests on their way at once when there are many.
const AHEAD: u32 = 256;
/// Bytes of a request.
const ITEM: usize = 8;
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(1);

fn failed(error: impl std::fmt::Display) -> BenchError {
    BenchError::Peer(format!("NATS: {error}"))
}

/// A server that runs, with somebody who answers.
#[derive(Debug)]
pub(crate) struct Nats {
    requests: Line,
    /// From its start to the first reply.
    pub(crate) first: Duration,
    process: Process,
}

impl Nats {
    /// Starts a server and waits until a request is answered.
    pub(crate) fn start(program: &Path, folder: &Path) -> Result<Self, BenchError> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|it| it.local_addr());
        let port = free.map_err(BenchError::system("looking for a free port"))?.port();
        let mut command = Command::new(program);
        command.args(["--addr", "127.0.0.1", "--port", &port.to_string()]);
        let begun = Instant::now();
        let process = Process::start("NATS", &mut command, &folder.join("nats.log"))?;
        let answers = Line::open(port)?;
        thread::spawn(move || answers.answer());
        let mut requests = Line::open(port)?;
        requests.send(b"SUB replies 2\r\n")?;
        let mut nats = Self { requests, first: Duration::ZERO, process };
        // Whoever answers may not be known yet; then there is a reply that says so, without content.
        while nats.ask(0).is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(BenchError::Slow { what: "the start of NATS", seconds: 10 });
            }
            thread::sleep(LOOK_EVERY);
        }
        nats.first = begun.elapsed();
        Ok(nats)
    }

    /// Milliseconds of one request, the middle of so many.
    pub(crate) fn one(&mut self, count: u32) -> Result<f64, BenchError> {
        let mut times = Vec::new();
        for number in 0..count {
            let begun = Instant::now();
            self.ask(number)?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        median(&times).ok_or(BenchError::Nothing("no requests"))
    }

    /// Requests per second when many are on their way.
    pub(crate) fn many(&mut self, count: u32) -> Result<f64, BenchError> {
        let begun = Instant::now();
        let mut sent = 0;
        for number in 0..count {
            // A burst at a time, as whoever has much to ask does it.
            if sent == number {
                sent = number.saturating_add(AHEAD).min(count);
                (number..sent).try_for_each(|it| self.requests.request(it))?;
                self.requests.writer.flush().map_err(failed)?;
            }
            self.requests.expect(number)?;
        }
        Ok(f64::from(count) / begun.elapsed().as_secs_f64())
    }

    /// What the server used so far.
    pub(crate) fn usage(&self) -> Usage {
        self.process.usage()
    }

    fn ask(&mut self, number: u32) -> Result<(), BenchError> {
        self.requests.request(number)?;
        self.requests.writer.flush().map_err(failed)?;
        self.requests.expect(number)
    }
}

/// One end of a line to the server.
#[derive(Debug)]
struct Line {
    reader: BufReader<TcpStream>,
    writer: BufWriter<TcpStream>,
}

impl Line {
    /// Opens one as soon as the server listens.
    fn open(port: u16) -> Result<Self, BenchError> {
        let begun = Instant::now();
        let stream = loop {
            match TcpStream::connect((Ipv4Addr::LOCALHOST, port)) {
                Ok(stream) => break stream,
                Err(error) if begun.elapsed() > PATIENCE => return Err(failed(error)),
                Err(_) => thread::sleep(LOOK_EVERY),
            }
        };
        stream.set_nodelay(true).map_err(failed)?;
        let reader = BufReader::new(stream.try_clone().map_err(failed)?);
        let mut line = Self { reader, writer: BufWriter::new(stream) };
        line.send(b"CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n")?;
        Ok(line)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), BenchError> {
        self.writer.write_all(bytes).and_then(|()| self.writer.flush()).map_err(failed)
    }

    fn request(&mut self, number: u32) -> Result<(), BenchError> {
        let item = u64::from(number).to_be_bytes();
        self.publish("work replies", &item)
    }

    fn publish(&mut self, subject: &str, content: &[u8]) -> Result<(), BenchError> {
        let length = content.len();
        write!(self.writer, "PUB {subject} {length}\r\n").map_err(failed)?;
        self.writer.write_all(content).map_err(failed)?;
        self.writer.write_all(b"\r\n").map_err(failed)
    }

    fn expect(&mut self, number: u32) -> Result<(), BenchError> {
        let (_, content) = self.next()?;
        if content == u64::from(number).to_be_bytes() {
            Ok(())
        } else {
            Err(failed(format!("another reply than that to request {number}")))
        }
    }

    /// The next message: where the reply goes, and its content; none if nobody was there to answer.
    fn next(&mut self) -> Result<(String, Vec<u8>), BenchError> {
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).map_err(failed)? == 0 {
                return Err(failed("the line was closed"));
            }
            let words: Vec<_> = line.split_whitespace().collect();
            match words.as_slice() {
                // MSG subject number [reply] bytes; HMSG has the bytes of its headers before.
                ["MSG" | "HMSG", _, _, rest @ ..] => {
                    let length = rest.last().and_then(|it| it.parse::<usize>().ok());
                    let length = length.ok_or_else(|| failed(line.trim()))?;
                    let reply = rest.first().map_or_else(String::new, |it| (*it).to_owned());
                    let is_plain = words.first() == Some(&"MSG");
                    let mut content = vec![0; length.saturating_add(2)];
                    self.reader.read_exact(&mut content).map_err(failed)?;
                    content.truncate(if is_plain { length } else { 0 });
                    return Ok((reply, content));
                }
                ["PING"] => self.send(b"PONG\r\n")?,
                ["-ERR", ..] => return Err(failed(line.trim())),
                _ => {}
            }
        }
    }

    /// Answers everything with itself until the line is closed.
    fn answer(mut self) -> Option<()> {
        self.send(b"SUB work workers 1\r\n").ok()?;
        loop {
            let (reply, content) = self.next().ok()?;
            if content.len() == ITEM {
                self.publish(&reply, &content).ok()?;
            }
            if self.reader.buffer().is_empty() {
                self.writer.flush().ok()?;
            }
        }
    }
}
