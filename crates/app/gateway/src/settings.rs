//! What the server may do, and what it refuses to be.

use crate::keys::Keys;
use std::{io, net::SocketAddr, time::Duration};

/// How the server is set up.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Who may come in; everybody if there are none.
    pub keys: Keys,
    /// Whether something in front of this server speaks TLS, so that it may listen beyond loopback.
    pub behind_tls: bool,
    /// What everything may take.
    pub limits: Limits,
}

/// What everything may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sockets at once; one more waits in the system's queue.
    pub sockets: usize,
    /// For the head of a request, and for a socket on which none comes.
    pub head: Duration,
    /// Bytes of a body.
    pub body: usize,
    /// For a body to arrive.
    pub body_time: Duration,
    /// Bodies at once: with their bytes they bound the memory.
    pub bodies: usize,
    /// Requests that an engine works on at once.
    pub running: usize,
    /// Requests that wait for it.
    pub waiting: usize,
    /// How long each waits at most.
    pub wait: Duration,
    /// For a whole request, from its body to the last byte of its answer.
    pub total: Duration,
    /// How long a reader may take nothing while there is something to send.
    pub stall: Duration,
    /// After so much silence a comment shows that the stream lives.
    pub keep_alive: Duration,
    /// How long requests may go on after the end was called.
    pub grace: Duration,
    /// Tokens of an answer.
    pub tokens: u32,
    /// Bytes of an answer's text.
    pub text: usize,
    /// Seconds after which a client that was turned away may come back.
    pub retry_after: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sockets: 512,
            head: Duration::from_secs(20),
            body: 4 * 1024 * 1024,
            body_time: Duration::from_secs(20),
            bodies: 32,
            running: 8,
            waiting: 128,
            wait: Duration::from_secs(60),
            total: Duration::from_secs(600),
            stall: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            grace: Duration::from_secs(10),
            tokens: 32 * 1024,
            text: 1024 * 1024,
            retry_after: 2,
        }
    }
}

/// Why the server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Others could use it.
    #[error("{address} can be reached from other machines: set an API key, or listen on 127.0.0.1")]
    NoKey {
        /// Where it would listen.
        address: SocketAddr,
    },
    /// Others could read keys and texts.
    #[error(
        "{address} can be reached from other machines, and keys would cross the network in the \
         clear: put a TLS proxy in front and say so, or listen on 127.0.0.1"
    )]
    InTheClear {
        /// Where it would listen.
        address: SocketAddr,
    },
    /// The listener does not work.
    #[error("the listener does not work: {source}")]
    Listener {
        /// What the system says.
        source: io::Error,
    },
}

impl Settings {
    /// Whether it is safe to listen there.
    pub fn check(&self, address: SocketAddr) -> Result<(), ServeError> {
        if address.ip().to_canonical().is_loopback() {
            return Ok(());
        }
        if self.keys.is_empty() {
            return Err(ServeError::NoKey { address });
        }
        if !self.behind_tls {
            return Err(ServeError::InTheClear { address });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_loopback_there_is_a_key_and_tls_or_no_server() {
        let keys = Keys::new(["ogpu_0123456789abcdef"]).unwrap();
        let open = Settings::default();
        let keyed = Settings { keys, ..Settings::default() };
        let safe = Settings { behind_tls: true, ..keyed.clone() };
        let at = |settings: &Settings, address: &str| settings.check(address.parse().unwrap());
        for here in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(at(&open, here).is_ok(), "{here}");
        }
        for there in ["0.0.0.0:1", "[::]:1", "192.168.0.7:1"] {
            assert!(matches!(at(&open, there), Err(ServeError::NoKey { .. })), "{there}");
            assert!(matches!(at(&keyed, there), Err(ServeError::InTheClear { .. })), "{there}");
            assert!(at(&safe, there).is_ok(), "{there}");
        }
        let keyless = Settings { behind_tls: true, ..Settings::default() };
        assert!(matches!(at(&keyless, "0.0.0.0:1"), Err(ServeError::NoKey { .. })));
    }
}
