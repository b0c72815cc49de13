//! The end of a connection whose client may still send.
//!
//! A socket that is closed while bytes wait in it is reset, and a reset takes away an answer that the
//! client has not read yet. So after an answer that came early, such as "the body is too large", what
//! the client still sends is read and thrown away, within bounds.

use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

/// Bytes read at once.
const PART: usize = 16 << 10;

/// What is still read of a client that has its last answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Linger {
    /// How long it may send nothing.
    pub silence: Duration,
    /// How long altogether.
    pub total: Duration,
    /// How many bytes.
    pub bytes: u64,
}

impl Default for Linger {
    fn default() -> Self {
        Self { silence: Duration::from_secs(2), total: Duration::from_secs(20), bytes: 64 << 20 }
    }
}

/// Reads what nobody wants, until the client closes its side or a limit is met.
pub(crate) async fn linger(mut stream: impl AsyncRead + Unpin, limits: Linger) {
    let read = async {
        let mut part = vec![0; PART];
        let mut left = limits.bytes;
        while left > 0 {
            let Ok(Ok(count @ 1..)) = timeout(limits.silence, stream.read(&mut part)).await else {
                return;
            };
            left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
        }
    };
    // Whoever has not seen the end by then is cut off.
    let _ = timeout(limits.total, read).await;
}
