//! Bytes from the web: streamed, with a limit on everything.

use super::{InputError, Watch};
use std::io::Read as _;
use std::time::Duration;
use ureq::http::{Response, Uri};
use ureq::{Agent, Body, Error};

/// How long a server may take to be reached.
const CONNECT: Duration = Duration::from_secs(10);
/// How long it may think.
const ANSWER: Duration = Duration::from_secs(60);
/// How long nothing may come.
const SILENCE: Duration = Duration::from_secs(30);
/// How long all of it may take.
const LONGEST: Duration = Duration::from_secs(6 * 3600);
/// How often an address may lead to another.
const REDIRECTS: u32 = 5;
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// Bytes of what a server says of an error.
const SAID: u64 = 64 << 10;

/// Whether an address may lead to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redirects {
    Followed,
    /// What is signed is for one server.
    Refused,
}

/// Whether a text is an address.
pub(super) fn check(url: &str) -> Result<(), InputError> {
    let host = url.parse::<Uri>().ok().and_then(|uri| uri.host().map(|host| !host.is_empty()));
    if host == Some(true) { Ok(()) } else { Err(InputError::Address) }
}

/// An address without a password and without what follows a `?`.
pub(super) fn shown(url: &str) -> String {
    let Ok(uri) = url.parse::<Uri>() else { return "the address".to_owned() };
    let port = uri.port().map(|port| format!(":{port}")).unwrap_or_default();
    let more = if uri.query().is_some() { "?…" } else { "" };
    let (scheme, host) = (uri.scheme_str().unwrap_or("http"), uri.host().unwrap_or_default());
    format!("{scheme}://{host}{port}{}{more}", uri.path())
}

/// Fetches an address, at most so many bytes.
pub(super) fn fetch(
    url: &str,
    redirects: Redirects,
    limit: u64,
    watch: Watch<'_>,
) -> Result<Vec<u8>, InputError> {
    let secure = url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"));
    let most = if redirects == Redirects::Followed { REDIRECTS } else { 0 };
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(most)
        .https_only(secure)
        .accept_encoding("identity")
        .timeout_connect(Some(CONNECT))
        .timeout_recv_response(Some(ANSWER))
        .timeout_per_read(Some(SILENCE))
        .timeout_global(Some(LONGEST));
    let agent: Agent = config.build().into();
    let response = agent.get(url).call().map_err(complaint)?;
    if !response.status().is_success() {
        let status = response.status().as_u16();
        return Err(InputError::Status { status, code: code(response) });
    }
    body(response, limit, watch)
}

fn body(response: Response<Body>, limit: u64, watch: Watch<'_>) -> Result<Vec<u8>, InputError> {
    let claimed = response.headers().get("content-length");
    let claimed = claimed.and_then(|it| it.to_str().ok()?.parse::<u64>().ok());
    if claimed.is_some_and(|claimed| claimed > limit) {
        return Err(InputError::TooLarge { limit });
    }
    let mut stream = response.into_body().into_reader();
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        let got = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        watch(got, claimed);
        if got > limit {
            return Err(InputError::TooLarge { limit });
        }
        let count = stream.read(&mut piece).map_err(|error| match Error::from(error) {
            Error::Timeout(_) => InputError::Silent,
            _ => InputError::Broken { got },
        })?;
        match piece.get(..count).unwrap_or_default() {
            [] if claimed.is_some_and(|claimed| claimed != got) => {
                return Err(InputError::Broken { got });
            }
            [] => return Ok(bytes),
            read => bytes.extend_from_slice(read),
        }
    }
}

/// The word by which S3 names an error, out of its few lines of XML.
fn code(response: Response<Body>) -> Option<String> {
    let mut said = Vec::new();
    response.into_body().into_reader().take(SAID).read_to_end(&mut said).ok()?;
    let said = String::from_utf8_lossy(&said);
    let (word, _) = said.split_once("<Code>")?.1.split_once("</Code>")?;
    let plain = !word.is_empty() && word.len() <= 64 && word.chars().all(char::is_alphanumeric);
    plain.then(|| word.to_owned())
}

/// What went wrong on the way. What the transport says may hold an address, so it is not passed on.
fn complaint(error: Error) -> InputError {
    let unreached = |why: &str| InputError::Unreachable(why.to_owned());
    match error {
        Error::HostNotFound => unreached("nobody has this name"),
        Error::ConnectionFailed => unreached("nobody answers"),
        Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            InputError::Insecure(error.to_string())
        }
        Error::Io(error) => InputError::Unreachable(error.to_string()),
        Error::Rustls(error) => InputError::Insecure(error.to_string()),
        Error::Tls(why) => InputError::Insecure(why.to_owned()),
        Error::Pem(_) | Error::TlsRequired => InputError::Insecure("no TLS".to_owned()),
        Error::Timeout(_) => InputError::Silent,
        Error::TooManyRedirects => InputError::Redirects(REDIRECTS),
        Error::RequireHttpsOnly(_) => InputError::Downgrade,
        Error::BadUri(_) | Error::Http(_) => InputError::Address,
        Error::InvalidProxyUrl | Error::ConnectProxyFailed(_) => unreached("the proxy refuses"),
        _ => unreached("it does not speak HTTP"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::{TcpListener, TcpStream};

    /// Answers every request by its path, and gives where it listens.
    fn server(answer: fn(&str, &mut TcpStream)) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let Some(Ok(first)) = lines.next() else {
                    // Whoever begins in secret is answered in the clear.
                    let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                    continue;
                };
                let _ =
                    lines.take_while(|line| line.as_ref().is_ok_and(|it| !it.is_empty())).count();
                answer(first.split(' ').nth(1).unwrap(), &mut stream);
            }
        });
        place
    }

    fn answer(path: &str, stream: &mut TcpStream) {
        let mut say = |head: &str, body: &[u8]| {
            // Whoever has enough may be gone.
            let _ = write!(stream, "HTTP/1.1 {head}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all(body);
        };
        match path {
            "/whole" => say("200 OK\r\ncontent-length: 5", b"hello"),
            "/unknown-length" => say("200 OK", b"hello"),
            "/large" => say("200 OK\r\ncontent-length: 1000000000", b"hello"),
            "/endless" => say("200 OK", &vec![1; 1 << 20]),
            "/short" => say("200 OK\r\ncontent-length: 10", b"hello"),
            "/away" => say("302 Found\r\nlocation: /whole\r\ncontent-length: 0", b""),
            "/round" => say("302 Found\r\nlocation: /round\r\ncontent-length: 0", b""),
            "/denied" => {
                let said = b"<?xml?><Error><Code>AccessDenied</Code></Error>";
                say(&format!("403 No\r\ncontent-length: {}", said.len()), said);
            }
            "/babble" => drop(stream.write_all(b"hello there\r\n\r\n")),
            _ => say("404 Not Found\r\ncontent-length: 0", b""),
        }
    }

    fn get(url: &str, limit: u64) -> Result<Vec<u8>, InputError> {
        fetch(url, Redirects::Followed, limit, &mut |_, _| {})
    }

    #[test]
    fn what_fits_arrives_and_its_progress_is_told() {
        let place = server(answer);
        for path in ["/whole", "/unknown-length", "/away"] {
            assert_eq!(get(&format!("{place}{path}"), 5).unwrap(), b"hello", "{path}");
        }
        let mut told = Vec::new();
        let watch: Watch<'_> = &mut |got, of| told.push((got, of));
        fetch(&format!("{place}/whole"), Redirects::Followed, 5, watch).unwrap();
        assert_eq!(told.first(), Some(&(0, Some(5))));
        assert_eq!(told.last(), Some(&(5, Some(5))));
    }

    #[test]
    fn each_way_to_fail_has_its_own_words() {
        let place = server(answer);
        let error = |path: &str| get(&format!("{place}{path}"), 100_000).unwrap_err();
        assert!(matches!(error("/nothing"), InputError::Status { status: 404, code: None }));
        let denied = error("/denied").to_string();
        assert_eq!(denied, "the server answers 403 (AccessDenied)");
        assert!(matches!(error("/large"), InputError::TooLarge { limit: 100_000 }));
        assert!(matches!(error("/endless"), InputError::TooLarge { limit: 100_000 }));
        assert!(matches!(error("/short"), InputError::Broken { got: 5 }));
        assert!(matches!(error("/round"), InputError::Redirects(REDIRECTS)));
        assert!(matches!(error("/babble"), InputError::Unreachable(_)));
        let secure = place.replace("http://", "https://");
        let plain = get(&secure, 10).unwrap_err();
        assert!(matches!(plain, InputError::Insecure(_)), "{plain:?}");
        let nobody = get("http://127.0.0.1:9/", 10).unwrap_err();
        assert!(matches!(nobody, InputError::Unreachable(_)), "{nobody:?}");
        let refused = fetch(&format!("{place}/away"), Redirects::Refused, 10, &mut |_, _| {});
        assert!(matches!(refused, Err(InputError::Status { status: 302, .. })), "{refused:?}");
    }

    #[test]
    fn nobody_is_shown_a_password_or_a_token() {
        let told = shown("https://alice:secret@example.org:8443/a/b?token=secret#secret");
        assert_eq!(told, "https://example.org:8443/a/b?…");
        assert_eq!(shown("http://example.org/a"), "http://example.org/a");
        assert!(!shown("http://a b/secret").contains("secret"));
    }
}
