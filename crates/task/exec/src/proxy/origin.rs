//! Where a server is, and the key that it wants.
//!
//! A request names a model and never an address, so no client can choose where bytes go. The owner
//! chooses once: this machine, or another one that was named explicitly. What a name leads to is
//! looked at again for every link, so a name that begins to lead elsewhere is refused then.

use super::error::{ProxyError, SetupError};
use hyper::{Uri, header::HeaderValue};
use std::{fmt, io, net::SocketAddr, path::Path};
use zeroize::Zeroizing;

/// Bytes of a key's file.
const MAX_KEY_FILE: u64 = 4 * 1024;
/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;
/// Bytes of a URL.
const MAX_URL: usize = 1024;

/// How far requests may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// This machine alone.
    Loopback,
    /// Wherever the address leads; the owner has said so.
    Anywhere,
}

/// A server's address: scheme, host and port, and the folder below which its routes are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// As it is resolved: without brackets.
    host: String,
    port: u16,
    /// As it stands in the header.
    name: String,
    /// Without a slash at its end.
    folder: String,
    reach: Reach,
}

impl Origin {
    /// Reads `http://HOST[:PORT][/FOLDER]`; a final `/v1` may stand there or not.
    pub fn parse(url: &str, reach: Reach) -> Result<Self, SetupError> {
        let wrong = |reason| SetupError::Url { url: shown(url), reason };
        if url.len() > MAX_URL {
            return Err(wrong("it is too long"));
        }
        if url.contains(['?', '#']) {
            return Err(wrong("it has a query or a fragment"));
        }
        let uri: Uri = url.parse().map_err(|_| wrong("it is not a URL"))?;
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return Err(wrong("only http is spoken; use a tunnel for TLS")),
            _ => return Err(wrong("it does not begin with http://")),
        }
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("a password in a URL ends up in logs; use a key file"));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        let folder = uri.path().trim_end_matches('/');
        let folder = folder.strip_suffix("/v1").unwrap_or(folder).to_owned();
        let origin = Self {
            host,
            port: authority.port_u16().unwrap_or(80),
            name: authority.as_str().to_owned(),
            folder,
            reach,
        };
        if reach == Reach::Loopback && !origin.is_loopback_by_name() {
            return Err(SetupError::NotLoopback { host: origin.host });
        }
        Ok(origin)
    }

    /// Whether the name itself says that it is this machine.
    pub(super) fn is_loopback_by_name(&self) -> bool {
        match self.host.parse::<std::net::IpAddr>() {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// What the header `host` says.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The path of one of the server's routes.
    pub(super) fn path(&self, route: &str) -> String {
        format!("{}/v1/{route}", self.folder)
    }

    /// The addresses that the name leads to now, those alone that are within reach.
    pub(super) async fn addresses(&self) -> Result<Vec<SocketAddr>, ProxyError> {
        let found = tokio::net::lookup_host((self.host.as_str(), self.port))
            .await
            .map_err(|error: io::Error| ProxyError::Unreachable { reason: error.to_string() })?;
        let within: Vec<SocketAddr> = found
            .filter(|address| {
                self.reach == Reach::Anywhere || address.ip().to_canonical().is_loopback()
            })
            .take(MAX_ADDRESSES)
            .collect();
        if within.is_empty() {
            let reason = "its name leads to no address within reach".to_owned();
            return Err(ProxyError::Unreachable { reason });
        }
        Ok(within)
    }
}

/// A wrong URL is shown, but not what may be a password in it.
fn shown(url: &str) -> String {
    let text = match (url.find("://"), url.rfind('@')) {
        (Some(scheme), Some(at)) if scheme < at => {
            let before = url.get(..scheme).unwrap_or_default();
            let after = url.get(at..).unwrap_or_default();
            format!("{before}://...{after}")
        }
        _ => url.to_owned(),
    };
    text.chars().take(200).collect()
}

/// The key that a server wants. It is never shown, and wiped when it is no longer needed.
#[derive(Clone)]
pub struct Key(Zeroizing<String>);

impl Key {
    /// Reads a key from a file that its owner alone can read.
    pub fn read(path: &Path) -> Result<Self, SetupError> {
        let unreadable = |source| SetupError::KeyFile { path: path.to_owned(), source };
        let wrong = |reason| SetupError::Key { path: path.to_owned(), reason };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let facts = file.metadata().map_err(unreadable)?;
        if !facts.is_file() {
            return Err(wrong("it is no plain file"));
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            if facts.permissions().mode() & 0o077 != 0 {
                return Err(wrong("others can read it; run chmod 600 on it"));
            }
        }
        let mut text = Zeroizing::new(String::new());
        let mut bounded = io::Read::take(file, MAX_KEY_FILE.saturating_add(1));
        io::Read::read_to_string(&mut bounded, &mut text).map_err(unreadable)?;
        if u64::try_from(text.len()).is_ok_and(|length| length > MAX_KEY_FILE) {
            return Err(wrong("it is too long"));
        }
        let key = text.trim();
        if key.is_empty() {
            return Err(wrong("it is empty"));
        }
        if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong("a key has letters, digits and signs alone"));
        }
        Ok(Self(Zeroizing::new(key.to_owned())))
    }

    /// The value of the header, marked so that nothing prints it.
    pub(super) fn header(&self) -> HeaderValue {
        let text = Zeroizing::new(format!("Bearer {}", self.0.as_str()));
        let mut value =
            HeaderValue::from_str(&text).expect("a key is visible ASCII, checked when it was read");
        value.set_sensitive(true);
        value
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn an_address_is_taken_apart_and_v1_may_stand_at_its_end() {
        for (url, path, port) in [
            ("http://127.0.0.1:11434", "/v1/models", 11_434),
            ("http://127.0.0.1:11434/", "/v1/models", 11_434),
            ("http://localhost/v1", "/v1/models", 80),
            ("http://[::1]:8000/v1/", "/v1/models", 8_000),
            ("http://127.0.0.1/engine/v1", "/engine/v1/models", 80),
        ] {
            let origin = Origin::parse(url, Reach::Loopback).unwrap();
            assert_eq!((origin.path("models").as_str(), origin.port), (path, port), "{url}");
        }
    }

    #[test]
    fn another_machine_is_refused_until_the_owner_names_it() {
        for url in ["http://10.0.0.1", "http://169.254.169.254", "http://x.localhost.evil.example"]
        {
            let refused = Origin::parse(url, Reach::Loopback);
            assert!(matches!(refused, Err(SetupError::NotLoopback { .. })), "{url}");
            assert!(Origin::parse(url, Reach::Anywhere).is_ok(), "{url}");
        }
    }

    #[test]
    fn what_is_no_plain_address_is_refused_without_showing_a_password() {
        for url in [
            "ftp://127.0.0.1",
            "127.0.0.1:80",
            "http://",
            "http://127.0.0.1?x=1",
            "http://127.0.0.1#x",
            "https://127.0.0.1",
            "http://user:hunter2@127.0.0.1",
        ] {
            let refused = Origin::parse(url, Reach::Loopback).unwrap_err();
            assert!(matches!(refused, SetupError::Url { .. }), "{url}");
            assert!(!refused.to_string().contains("hunter2"), "{refused}");
        }
    }

    #[tokio::test]
    async fn a_name_that_leads_to_another_machine_is_refused_at_the_link() {
        let mut origin = Origin::parse("http://localhost:9", Reach::Loopback).unwrap();
        assert!(!origin.addresses().await.unwrap().is_empty());
        // As if the name had begun to lead elsewhere after it was configured.
        origin.host = "192.0.2.1".into();
        assert!(matches!(origin.addresses().await, Err(ProxyError::Unreachable { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn a_key_that_others_can_read_is_refused_and_a_good_one_is_never_shown() {
        use std::os::unix::fs::PermissionsExt as _;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(b"sk-canary-0123456789\n").unwrap();
        let set = |mode| {
            std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set(0o644);
        assert!(matches!(Key::read(file.path()), Err(SetupError::Key { .. })));
        set(0o600);
        let key = Key::read(file.path()).unwrap();
        assert_eq!(key.header().as_bytes(), b"Bearer sk-canary-0123456789");
        assert!(!format!("{key:?} {:?}", key.header()).contains("canary"));
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in ["", "  \n", "two words", "zwölf", &"x".repeat(5_000)] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            assert!(matches!(Key::read(file.path()), Err(SetupError::Key { .. })), "{text}");
        }
    }
}
