//! Waiting for what happens: one transaction until it is final, or every final block.

use crate::{
    api::{BlockEvent, Progress, TransactionInfo},
    rpc::{Rpc, RpcError},
};
use opengpu_types::{Height, TransactionId};
use std::{
    io::{BufRead as _, BufReader, Read},
    thread,
    time::{Duration, Instant},
};

/// Finality takes a fraction of a second, so does the first look.
const FIRST_PAUSE: Duration = Duration::from_millis(40);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

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
    /// It takes longer than the caller waits.
    #[error("not final after {} s; it may still become so", .0.as_secs())]
    Slow(Duration),
    /// The stream ended or is not readable.
    #[error("the stream of blocks broke: {0}")]
    Stream(String),
}

/// Waits until a transaction is final, at most `patience`, and not beyond its last valid height.
pub fn wait_until_final(
    rpc: &Rpc,
    id: TransactionId,
    valid_until: Height,
    patience: Duration,
) -> Result<TransactionInfo, FollowError> {
    let begin = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        // The height is read first: if it is past the last valid one, so is the answer after it.
        let height = rpc.status()?.height;
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
            return Err(FollowError::Expired { until: valid_until });
        }
        if begin.elapsed() >= patience {
            return Err(FollowError::Slow(patience));
        }
        thread::sleep(pause);
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

/// Final blocks as the node sends them.
pub struct Blocks {
    lines: std::io::Lines<BufReader<Box<dyn Read>>>,
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocks").finish_non_exhaustive()
    }
}

impl Blocks {
    /// Follows a node from now on, or from behind a height.
    pub fn follow(rpc: &Rpc, after: Option<Height>) -> Result<Self, FollowError> {
        Ok(Self::new(Box::new(rpc.open_stream(after)?)))
    }

    fn new(reader: Box<dyn Read>) -> Self {
        Self { lines: BufReader::new(reader).lines() }
    }
}

impl Iterator for Blocks {
    type Item = Result<BlockEvent, FollowError>;

    /// Reads one event of the stream; comments and events of other kinds are skipped.
    fn next(&mut self) -> Option<Self::Item> {
        let (mut name, mut data) = (String::new(), String::new());
        loop {
            let line = match self.lines.next()? {
                Ok(line) => line,
                Err(error) => return Some(Err(FollowError::Stream(error.to_string()))),
            };
            if line.is_empty() {
                if name == BlockEvent::NAME {
                    let event = serde_json::from_str(&data);
                    return Some(event.map_err(|error| FollowError::Stream(error.to_string())));
                }
                name.clear();
                data.clear();
            } else if let Some(value) = line.strip_prefix("event:") {
                value.trim_start().clone_into(&mut name);
            } else if let Some(value) = line.strip_prefix("data:") {
                data.push_str(value.trim_start());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_gives_blocks_and_skips_the_rest() {
        let digest = "00".repeat(32);
        let block = format!(
            r#"{{"height":5,"digest":"0x{digest}","time":9,"transactions":2,"certificate":"0x","header":"0x"}}"#
        );
        let text = format!(
            ": keep-alive\n\nevent: other\ndata: {{}}\n\nid: 5\nevent: block\ndata: {block}\n\n"
        );
        let mut blocks = Blocks::new(Box::new(std::io::Cursor::new(text)));
        let first = blocks.next().unwrap().unwrap();
        assert_eq!((first.height, first.transactions), (Height(5), 2));
        assert!(blocks.next().is_none());
    }

    #[test]
    fn a_damaged_event_is_an_error_and_no_silence() {
        let text = "event: block\ndata: {\"height\":1\n\n";
        let mut blocks = Blocks::new(Box::new(std::io::Cursor::new(text)));
        assert!(matches!(blocks.next(), Some(Err(FollowError::Stream(_)))));
    }
}
