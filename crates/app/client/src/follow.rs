//! Waiting for what happens: one transaction until it is final, or every final block.

use crate::{
    api::{BlockEvent, Progress, TransactionInfo},
    rpc::{Rpc, RpcError},
};
use opengpu_types::{Height, TransactionId};
use std::{
    io::{self, BufRead as _, BufReader, Read},
    thread,
    time::{Duration, Instant},
};

/// How long one look waits for a block.
const LOOK: Duration = Duration::from_millis(500);
/// Blocks between a submission and the moment when somebody begins to wait for it.
const RECENT: u64 = 64;
/// Bytes of one line of the stream, and of one event.
const MAX_EVENT: usize = 1024 * 1024;
/// Pauses before a broken stream is opened again: a restart of the node takes a few seconds.
const RECONNECT: [Duration; 8] = [
    Duration::ZERO,
    Duration::from_millis(250),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(4),
    Duration::from_secs(4),
];

/// Why waiting ended without a final transaction.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The node does not answer.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The node refused or dropped it.
    #[error("the transaction was refused: {reason}")]
    Refused {
        /// Why, for programs.
        code: String,
        /// Why, in words.
        reason: String,
    },
    /// The last block in which it could stand is final, and it does not.
    #[error("the transaction was valid until block {until} and is in none of them")]
    Expired {
        /// Last valid height.
        until: Height,
    },
    /// The node has no records from before, so it cannot know.
    #[error("this node has records from block {from} on; the transaction may be in an earlier one")]
    Unrecorded {
        /// First recorded height.
        from: Height,
    },
    /// It takes longer than the caller waits.
    #[error("not final after {} s; it may still become so", .0.as_secs())]
    Slow(Duration),
    /// The stream broke and cannot be opened again.
    #[error("the stream of blocks broke after block {after}: {reason}")]
    Stream {
        /// What happened last.
        reason: String,
        /// The last block that came.
        after: Height,
    },
}

/// Waits until a transaction is final, at most `patience`, and not beyond its last valid height.
pub fn wait_until_final(
    rpc: &Rpc,
    id: TransactionId,
    valid_until: Height,
    patience: Duration,
) -> Result<TransactionInfo, FollowError> {
    let begin = Instant::now();
    let mut status = rpc.status()?;
    let begun = status.height;
    loop {
        // The height is read first: if it is past the last valid one, so is the answer after it.
        let height = status.height;
        let info = rpc.transaction(id)?;
        match info.status {
            Progress::Finalized => return Ok(info),
            Progress::Refused => {
                let code = info.code.unwrap_or_else(|| "refused".to_owned());
                let reason = info.reason.unwrap_or_else(|| code.clone());
                return Err(FollowError::Refused { code, reason });
            }
            Progress::Pending | Progress::Unknown => {}
        }
        if height > valid_until {
            let from = status.recorded_from;
            if from.0 > 1 && from.0.saturating_add(RECENT) > begun.0 {
                return Err(FollowError::Unrecorded { from });
            }
            return Err(FollowError::Expired { until: valid_until });
        }
        if begin.elapsed() >= patience {
            return Err(FollowError::Slow(patience));
        }
        status = rpc.wait_for_block(height, LOOK)?;
    }
}

/// Final blocks, one after the other without gaps. A stream that breaks is opened again behind the
/// last block; when that fails for too long, the last item is the error.
pub struct Blocks {
    rpc: Rpc,
    /// The last height that was given, or behind which to begin.
    after: Height,
    stream: Option<Lines<Box<dyn Read + Send>>>,
    pauses: Vec<Duration>,
    /// Pauses that were made since the last block.
    paused: usize,
    ended: bool,
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocks").field("after", &self.after).finish_non_exhaustive()
    }
}

impl Blocks {
    /// Follows a node from now on, or from behind a height.
    pub fn follow(rpc: &Rpc, after: Option<Height>) -> Result<Self, FollowError> {
        // Known from the beginning, so that nothing is missed if the stream breaks at once.
        let after = match after {
            Some(height) => height,
            None => rpc.status()?.height,
        };
        let mut blocks = Self::new(rpc.clone(), after);
        blocks.open()?;
        Ok(blocks)
    }

    fn new(rpc: Rpc, after: Height) -> Self {
        let pauses = RECONNECT.to_vec();
        Self { rpc, after, stream: None, pauses, paused: 0, ended: false }
    }

    fn open(&mut self) -> Result<(), RpcError> {
        let reader: Box<dyn Read + Send> = Box::new(self.rpc.open_stream(Some(self.after))?);
        self.stream = Some(Lines(BufReader::new(reader)));
        Ok(())
    }

    /// The next block of the open stream.
    fn read(&mut self) -> Result<BlockEvent, String> {
        let Some(lines) = &mut self.stream else { return Err("it is not open".to_owned()) };
        let event = read_event(lines)?;
        if event.height != self.after.next() {
            return Err(format!("block {} came after {}", event.height, self.after));
        }
        Ok(event)
    }

    /// Opens the stream again, after a while; says why not when it is time to give up.
    fn reopen(&mut self, broken: String) -> Result<(), FollowError> {
        let mut reason = broken;
        while let Some(pause) = self.pauses.get(self.paused) {
            thread::sleep(*pause);
            self.paused = self.paused.saturating_add(1);
            match self.open() {
                Ok(()) => return Ok(()),
                // The node is there and will not answer otherwise later.
                Err(error @ RpcError::Problem(_)) if !error.passes() => return Err(error.into()),
                Err(error) => reason = error.to_string(),
            }
        }
        Err(FollowError::Stream { reason, after: self.after })
    }
}

impl Iterator for Blocks {
    type Item = Result<BlockEvent, FollowError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.read() {
                Ok(event) => {
                    (self.after, self.paused) = (event.height, 0);
                    return Some(Ok(event));
                }
                Err(broken) => {
                    self.stream = None;
                    if let Err(error) = self.reopen(broken) {
                        self.ended = true;
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }
}

/// Lines of a limited length.
struct Lines<R>(BufReader<R>);

impl<R: Read> Iterator for Lines<R> {
    type Item = io::Result<String>;

    fn next(&mut self) -> Option<io::Result<String>> {
        let most = u64::try_from(MAX_EVENT).unwrap_or(u64::MAX);
        let mut line = Vec::new();
        match self.0.by_ref().take(most).read_until(b'\n', &mut line) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        if line.last() != Some(&b'\n') {
            let reason =
                if line.len() >= MAX_EVENT { "a line is too long" } else { "it broke off" };
            return Some(Err(io::Error::other(reason)));
        }
        let text = String::from_utf8(line).map_err(io::Error::other);
        Some(text.map(|text| text.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

/// Reads one block of a stream; comments and events of other kinds are skipped.
fn read_event(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
) -> Result<BlockEvent, String> {
    let (mut name, mut data) = (String::new(), String::new());
    for line in lines {
        let line = line.map_err(|error| error.to_string())?;
        if line.is_empty() {
            if name == BlockEvent::NAME {
                return serde_json::from_str(&data).map_err(|error| error.to_string());
            }
            name.clear();
            data.clear();
        } else if let Some(value) = line.strip_prefix("event:") {
            value.trim_start().clone_into(&mut name);
        } else if let Some(value) = line.strip_prefix("data:") {
            data.push_str(value.trim_start());
            if data.len() > MAX_EVENT {
                return Err("an event is too long".to_owned());
            }
        }
    }
    Err("the node ended it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{Cursor, Write as _},
        net::TcpListener,
    };

    fn block(height: u64) -> String {
        let digest = "00".repeat(32);
        let block = format!(
            r#"{{"height":{height},"digest":"0x{digest}","time":9,"transactions":2,"header":"0x"}}"#
        );
        format!("id: {height}\nevent: block\ndata: {block}\n\n")
    }

    fn read(text: String) -> Result<BlockEvent, String> {
        read_event(&mut Lines(BufReader::new(Cursor::new(text))))
    }

    #[test]
    fn a_line_or_an_event_without_end_is_refused() {
        assert_eq!(read("a".repeat(2 * MAX_EVENT)).unwrap_err(), "a line is too long");
        let line = format!("data: {}\n", "a".repeat(MAX_EVENT / 2));
        assert_eq!(read(line.repeat(4)).unwrap_err(), "an event is too long");
    }

    #[test]
    fn the_stream_gives_blocks_and_skips_the_rest() {
        let text = format!(": keep-alive\n\nevent: other\ndata: {{}}\n\n{}", block(5));
        let first = read(text).unwrap();
        assert_eq!((first.height, first.transactions), (Height(5), 2));
    }

    #[test]
    fn a_damaged_event_and_an_early_end_are_errors_and_no_silence() {
        assert!(read("event: block\ndata: {\"height\":1\n\n".to_owned()).is_err());
        assert!(read("event: block\n".to_owned()).unwrap_err().contains("ended"));
    }

    /// Serves one stream after the other and gives the heights behind which each was asked for;
    /// then nobody listens.
    fn serve(streams: Vec<String>) -> (Blocks, thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rpc = Rpc::new(&format!("http://{}", listener.local_addr().unwrap()));
        let blocks = Blocks { pauses: vec![Duration::ZERO; 2], ..Blocks::new(rpc, Height(4)) };
        let served = thread::spawn(move || {
            let mut seen = Vec::new();
            for events in streams {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let lines = lines.by_ref().map(Result::unwrap).take_while(|it| !it.is_empty());
                seen.extend(lines.filter(|line| line.starts_with("last-event-id")));
                let head = "HTTP/1.1 200 X\r\nconnection: close\r\n\r\n";
                stream.write_all(format!("{head}{events}").as_bytes()).unwrap();
            }
            seen
        });
        (blocks, served)
    }

    #[test]
    fn a_broken_stream_goes_on_behind_the_last_block_and_a_lost_one_says_where() {
        let (blocks, served) =
            serve(vec![format!("{}{}", block(5), block(6)), format!("{}event: block\n", block(7))]);
        let items: Vec<_> = blocks.collect();
        let (last, heights) = items.split_last().unwrap();
        let heights: Vec<_> = heights.iter().map(|it| it.as_ref().unwrap().height.0).collect();
        assert_eq!(heights, [5, 6, 7]);
        let Err(FollowError::Stream { after, .. }) = last else { panic!("{last:?}") };
        assert_eq!(*after, Height(7));
        assert_eq!(served.join().unwrap(), ["last-event-id: 4", "last-event-id: 6"]);
    }

    #[test]
    fn a_gap_in_the_stream_is_not_given_on() {
        let (blocks, served) = serve(vec![format!("{}{}", block(5), block(7)), block(6)]);
        let heights: Vec<_> = blocks.filter_map(Result::ok).map(|it| it.height.0).collect();
        assert_eq!(heights, [5, 6]);
        assert_eq!(served.join().unwrap(), ["last-event-id: 4", "last-event-id: 5"]);
    }
}
