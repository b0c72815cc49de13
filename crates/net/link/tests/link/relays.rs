//! What a relay sees. The relay is ours, behind a proxy that records every byte in both directions.

use crate::ground::{GROUP, Open, ROOM, bytes, read};
use opengpu_link::artifact::{ArtifactKey, Grant};
use opengpu_link::session::{Exchange, Kind, Limits, Router};
use opengpu_link::transfer::{Holder, get};
use opengpu_link::{Config, Endpoint, EndpointId, Relay, RelayError, RelaySetup, RelayUrl, Store};
use opengpu_types::ChainId;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, tcp};

const SAY: Kind = Kind(300);
const MARKER: &[u8] = b"a plaintext that nobody on the way may read";

fn setup() -> RelaySetup {
    RelaySetup { listen: crate::ground::loopback(), tls: None, rate: None }
}

/// Passes on what it gets, and keeps a copy.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<u8>>>);

impl Recorder {
    async fn start(&self, behind: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind(crate::ground::loopback()).await.unwrap();
        let place = listener.local_addr().unwrap();
        let recorder = self.clone();
        tokio::spawn(async move {
            while let Ok((front, _)) = listener.accept().await {
                let (up, down) = TcpStream::connect(behind).await.unwrap().into_split();
                let (from, to) = front.into_split();
                tokio::spawn(recorder.clone().pass(from, down));
                tokio::spawn(recorder.clone().pass(up, to));
            }
        });
        place
    }

    async fn pass(self, mut from: tcp::OwnedReadHalf, mut to: tcp::OwnedWriteHalf) {
        let mut buffer = vec![0; 1 << 16];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            self.0.lock().unwrap().extend_from_slice(&buffer[..count]);
            if to.write_all(&buffer[..count]).await.is_err() {
                break;
            }
        }
    }

    fn has(&self, bytes: &[u8]) -> bool {
        self.0.lock().unwrap().windows(bytes.len()).any(|window| window == bytes)
    }

    fn length(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

/// A relay, and its URL behind a recorder.
async fn recorded() -> (Relay, Recorder, RelayUrl) {
    let relay = Relay::start(setup(), |_| true).await.unwrap();
    let recorder = Recorder::default();
    let url = relay.url();
    let behind = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    let front = recorder.start(behind.parse().unwrap()).await;
    (relay, recorder, format!("http://{front}").parse().unwrap())
}

async fn on_relay(seed: u8, relay: &RelayUrl, router: Router) -> Endpoint {
    let endpoint = Endpoint::bind(Config::on_relay([seed; 32], relay.clone()), router, |_| true)
        .await
        .unwrap();
    endpoint.online().await;
    endpoint
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_that_records_everything_learns_neither_content_nor_key() {
    let (_relay, recorder, url) = recorded().await;
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [sender, receiver] = folders.each_ref().map(|f| Store::open(f.path(), ROOM).unwrap());
    let router = Router::default().on(SAY, |exchange: Exchange| async move {
        let body = exchange.body.clone();
        exchange.answer(&body).await
    });
    let router = Holder::new(sender.clone(), Open).answer_on(router);
    let provider = on_relay(1, &url, router).await;
    let client = on_relay(2, &url, Router::default()).await;
    // What is on chain is enough: id and relay, and no address of a socket.
    let address = provider.address();
    assert!(address.direct.is_empty() && provider.nearby().direct.is_empty());
    let session = client.dial(&address).await.unwrap();
    assert_eq!(session.call(SAY, MARKER).await.unwrap().as_ref(), MARKER);

    let key = ArtifactKey::from_bytes([0x5a; 32]);
    let plain = [MARKER, &bytes(2 * GROUP)].concat();
    let id = sender.import_encrypted(&key, plain.as_slice()).unwrap();
    let size = sender.whole(&id).unwrap().outline().size();
    get(&receiver, id, std::slice::from_ref(&session), |_| {}).await.unwrap();
    let reader = opengpu_crypto::SealKeypair::from_seed([7; 32]);
    let mut rng: rand::rngs::StdRng = rand::SeedableRng::seed_from_u64(1);
    let grant = Grant::issue(&mut rng, ChainId(1), id, &key, reader.public_key()).unwrap();
    let grant = commonware_codec::Encode::encode(&grant);
    session.call(SAY, &grant).await.unwrap();

    // All of it went through the recorder, encrypted; not even the ciphertext shows.
    assert!(recorder.length() as u64 > size, "{} of {size}", recorder.length());
    let stored = read(&receiver, &id);
    for (what, hidden) in [
        ("plaintext", MARKER),
        ("key", key.secret_bytes()),
        ("ciphertext", &stored[1_000..1_032]),
        ("grant", &grant[70..100]),
        ("address", id.0.as_ref()),
    ] {
        assert!(!recorder.has(hidden), "the relay saw the {what}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_knows_whether_its_relay_knows_it() {
    let relay = Relay::start(setup(), |_| true).await.unwrap();
    let known = on_relay(1, relay.url(), Router::default()).await;
    assert!(known.is_online());
    // Somebody who never answers.
    let silent = TcpListener::bind(crate::ground::loopback()).await.unwrap();
    let url: RelayUrl = format!("http://{}", silent.local_addr().unwrap()).parse().unwrap();
    let config = Config::on_relay([2; 32], url);
    let unknown = Endpoint::bind(config, Router::default(), |_| true).await.unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(500), unknown.online()).await;
    assert!(waited.is_err() && !unknown.is_online());
}

/// Stands before a relay and lets nobody measure it.
async fn unmeasured(relay: &Relay) -> RelayUrl {
    let (url, listener) =
        (relay.url(), TcpListener::bind(crate::ground::loopback()).await.unwrap());
    let front = listener.local_addr().unwrap();
    let behind = format!("{}:{}", url.host_str().unwrap(), url.port().unwrap());
    tokio::spawn(async move {
        while let Ok((mut front, _)) = listener.accept().await {
            let behind = behind.clone();
            tokio::spawn(async move {
                let mut asked = [0; 10];
                if front.read_exact(&mut asked).await.is_err() || &asked != b"GET /relay" {
                    return;
                }
                let mut back = TcpStream::connect(behind).await.unwrap();
                back.write_all(&asked).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut front, &mut back).await;
            });
        }
    });
    format!("http://{front}").parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_knocks_is_reached_before_the_relay_was_measured() {
    let relay = Relay::start(setup(), |_| true).await.unwrap();
    let url = unmeasured(&relay).await;
    let bind = |seed| {
        Endpoint::bind(Config::on_relay([seed; 32], url.clone()), Router::default(), |_| true)
    };
    let (provider, client) = (Arc::new(bind(1).await.unwrap()), bind(2).await.unwrap());
    let knocking = Arc::clone(&provider);
    tokio::spawn(async move { knocking.knock().await });
    client.dial(&provider.address()).await.unwrap();
    assert!(!provider.is_online(), "it was measured, so this shows nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorder_finds_what_is_sent_in_the_open() {
    let sink = TcpListener::bind(crate::ground::loopback()).await.unwrap();
    let recorder = Recorder::default();
    let front = recorder.start(sink.local_addr().unwrap()).await;
    let mut open = TcpStream::connect(front).await.unwrap();
    open.write_all(&[b"before ", MARKER, b" after"].concat()).await.unwrap();
    open.shutdown().await.unwrap();
    let mut seen = Vec::new();
    sink.accept().await.unwrap().0.read_to_end(&mut seen).await.unwrap();
    assert!(recorder.has(MARKER));
    assert!(!recorder.has(b"something else"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_serves_whom_its_gate_admits() {
    let friend = opengpu_crypto::Keypair::ed25519([1; 32]).public_key();
    let friend = EndpointId::of(&friend).unwrap();
    let relay = Relay::start(setup(), move |id| id == friend).await.unwrap();
    let admitted = on_relay(1, relay.url(), Router::default()).await;
    let limits = Limits { handshake: Duration::from_secs(2), ..Limits::default() };
    let config = Config { limits, ..Config::on_relay([2; 32], relay.url().clone()) };
    let stranger = Endpoint::bind(config, Router::default(), |_| true).await.unwrap();
    assert!(stranger.dial(&admitted.address()).await.is_err());
    relay.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relay_without_tls_stays_on_this_machine() {
    let setup = RelaySetup { listen: "0.0.0.0:0".parse().unwrap(), ..setup() };
    let refused = Relay::start(setup, |_| true).await;
    assert!(matches!(refused, Err(RelayError::Open(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_uses_no_relay_in_the_open_without_tls() {
    let relay: RelayUrl = "http://relay.example".parse().unwrap();
    let refused =
        Endpoint::bind(Config::on_relay([1; 32], relay), Router::default(), |_| true).await;
    assert!(matches!(refused, Err(opengpu_link::BindError::Relay(_))), "{refused:?}");
}
