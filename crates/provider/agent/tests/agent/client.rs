//! A client: packs a program, submits a task, delivers, follows and fetches.

use crate::village::{CHAIN, Village, permille, person};
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_crypto::{Keypair, SealKeypair, SealPublicKey};
use opengpu_exec::Program;
use opengpu_link::artifact::{ArtifactKey, Grant, OwnerSecret, encrypted_size};
use opengpu_link::folder::{self, FolderLimits};
use opengpu_link::lease::{
    BRIEF, Brief, Burst, FOLLOW, Follow, HELD, Holding, News, OUTPUT, Parcel, STATE, Standing,
    Wanted,
};
use opengpu_link::session::{Kind, Router, SessionError};
use opengpu_link::transfer::{self, Holder, Keep};
use opengpu_link::{Address, Config, Endpoint, Quota, Session, Store};
use opengpu_types::{
    Allocating, Amount, ArtifactId, Class, Contact, Eyes, LeaseId, List, MarketOperation, Measure,
    Millis, Money, Outcome, Requirements, SegmentIndex, SessionKey, Set, Spec, TaskId, Text, Trust,
    Weights, Work,
};
use std::io::{Cursor, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::runtime::Runtime;

/// Segments of every run.
pub(crate) const SEGMENTS: u32 = 256;

pub(crate) struct Client {
    pub(crate) key: Keypair,
    sealing: SealKeypair,
    pub(crate) store: Store,
    endpoint: Endpoint,
    runtime: Runtime,
    /// Bytes that providers have fetched.
    pub(crate) sent: AtomicU64,
    _folder: tempfile::TempDir,
}

impl Client {
    pub(crate) fn new() -> Self {
        Self::with_seed(1)
    }

    pub(crate) fn with_seed(seed: u8) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), Quota::of(1 << 30)).unwrap();
        let runtime = Runtime::new().unwrap();
        let config = Config::nearby([seed + 50; 32], "127.0.0.1:0".parse().unwrap());
        let router = Holder::readable(store.clone()).answer_on(Router::default());
        let endpoint = runtime.block_on(Endpoint::bind(config, router, |_| true)).unwrap();
        let sealing = SealKeypair::from_seed([seed; 32]);
        let sent = AtomicU64::new(0);
        Self { key: person(seed), sealing, store, endpoint, runtime, sent, _folder: folder }
    }

    pub(crate) fn sealing(&self) -> SealPublicKey {
        self.sealing.public_key()
    }

    /// Asks something.
    pub(crate) fn call(
        &self,
        session: &Session,
        kind: Kind,
        body: &[u8],
    ) -> Result<bytes::Bytes, SessionError> {
        self.runtime.block_on(async { session.call(kind, body).await })
    }

    /// Fetches what a packed folder says, and finds its key.
    pub(crate) fn fetch_folder(&self, session: &Session, parcel: &Parcel) -> ArtifactKey {
        self.fetch_all(session, &[parcel.grant.artifact]);
        parcel.grant.open(CHAIN, &self.sealing).unwrap()
    }

    /// Fetches artifacts.
    pub(crate) fn fetch_all(&self, session: &Session, artifacts: &[ArtifactId]) {
        for artifact in artifacts {
            self.tries(session, *artifact).unwrap();
        }
    }

    /// Fetches an artifact, if it may.
    pub(crate) fn tries(
        &self,
        session: &Session,
        artifact: ArtifactId,
    ) -> Result<transfer::Fetched, transfer::GetError> {
        let sessions = std::slice::from_ref(session);
        self.runtime.block_on(transfer::get(&self.store, artifact, sessions, |_| {}))
    }

    pub(crate) fn contact(&self) -> Contact {
        let session = SessionKey(self.endpoint.id().0);
        Contact { session, sealing: self.sealing.public_key(), relay: Text::default() }
    }

    /// Submits a task for this program and input.
    pub(crate) fn submit(
        &self,
        village: &Village,
        program: &Program,
        input: &[u8],
        change: impl FnOnce(&mut Spec),
    ) -> TaskId {
        self.submit_for(village, program, input, Amount::whole(10), change)
    }

    /// The same for another budget.
    pub(crate) fn submit_for(
        &self,
        village: &Village,
        program: &Program,
        input: &[u8],
        escrow: Amount,
        change: impl FnOnce(&mut Spec),
    ) -> TaskId {
        let mut spec = spec(program, input);
        change(&mut spec);
        let submit = MarketOperation::SubmitTask {
            spec: spec.into(),
            budget: Money::tokens(escrow),
            escrow,
            contact: self.contact(),
        };
        let (id, outcome) = village.act(&self.key, submit).unwrap();
        assert_eq!(outcome, Outcome::Applied);
        TaskId::of(&id, 0)
    }

    pub(crate) fn dial(&self, address: &Address) -> Session {
        self.runtime.block_on(async {
            for _ in 0..200 {
                if let Ok(session) = self.endpoint.dial(address).await {
                    // Who is not admitted learns it by the first request.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    let closed = tokio::time::timeout(Duration::from_millis(50), session.closed());
                    if closed.await.is_err() {
                        return session;
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            panic!("the provider lets nobody in");
        })
    }

    /// Sends program and input to the provider and briefs it.
    pub(crate) fn deliver(
        &self,
        session: &Session,
        reader: SealPublicKey,
        lease: LeaseId,
        (program, input): (&Path, &[u8]),
        state: Option<&[u8]>,
    ) -> Result<(), SessionError> {
        let owner = OwnerSecret::from_bytes([4; 32]);
        let packed = folder::pack(&self.store, program, &owner, &FolderLimits::default()).unwrap();
        let mut rng = rand::rng();
        let (input, key, _) = self.store.import_owned(&owner, &mut Cursor::new(input)).unwrap();
        let mut grant = |artifact, key: &ArtifactKey| {
            Grant::issue(&mut rng, CHAIN, artifact, key, reader).unwrap()
        };
        let state = state.map(|state| {
            let key = ArtifactKey::generate(&mut rand::rng());
            (self.store.import_encrypted(&key, state).unwrap(), key)
        });
        let brief = Brief {
            lease,
            program: grant(packed.manifest, &packed.key),
            input: grant(input, &key),
            state: state.as_ref().map(|(state, key)| grant(*state, key)),
        };
        self.runtime.block_on(async {
            let state = state.as_ref().map(|(state, _)| state);
            let all = packed.files.iter().chain([&packed.manifest, &input]).chain(state);
            for artifact in all {
                let size = self.store.whole(artifact).unwrap().outline().size();
                let wish = Keep { artifact: *artifact, size, until: Millis(0) };
                let sent = transfer::put(session, wish, |_| {}).await.unwrap();
                self.sent.fetch_add(sent, Ordering::SeqCst);
            }
            session.call(BRIEF, &brief.encode()).await.map(drop)
        })
    }

    /// Sends bytes as they are.
    pub(crate) fn put(&self, session: &Session, bytes: &[u8]) {
        let artifact = self.store.import(bytes).unwrap();
        let size = u64::try_from(bytes.len()).unwrap();
        let wish = Keep { artifact, size, until: Millis(0) };
        self.runtime.block_on(transfer::put(session, wish, |_| {})).unwrap();
    }

    /// All news until the last one.
    pub(crate) fn follow(&self, session: &Session, lease: LeaseId, from: u64) -> Vec<News> {
        self.runtime.block_on(async {
            let asked = session.ask(FOLLOW, &Follow { lease, from }.encode()).await;
            let mut stream = asked.unwrap().1.patient(Duration::from_secs(60));
            let mut news = Vec::new();
            while let Ok(Some(frame)) = stream.next().await {
                news.extend(Burst::decode(frame).unwrap().into_vec());
            }
            news
        })
    }

    /// The output of a lease.
    pub(crate) fn output(&self, session: &Session, lease: LeaseId) -> Vec<u8> {
        self.runtime.block_on(async {
            let answer = session.call(OUTPUT, &Wanted { lease }.encode()).await.unwrap();
            self.fetch(session, answer).await
        })
    }

    /// The state of a lease after a segment.
    pub(crate) fn state(
        &self,
        session: &Session,
        lease: LeaseId,
        segment: SegmentIndex,
    ) -> Vec<u8> {
        self.runtime.block_on(async {
            let wanted = Standing { lease, segment }.encode();
            let answer = session.call(STATE, &wanted).await.unwrap();
            self.fetch(session, answer).await
        })
    }

    /// What somebody holds of a lease.
    pub(crate) fn held(&self, session: &Session, lease: LeaseId) -> Holding {
        let wanted = Wanted { lease }.encode();
        let answer = self.runtime.block_on(async { session.call(HELD, &wanted).await.unwrap() });
        Holding::decode(answer).unwrap()
    }

    /// What a parcel holds.
    pub(crate) fn open(&self, session: &Session, parcel: Parcel) -> Vec<u8> {
        self.runtime.block_on(self.fetch(session, parcel.encode()))
    }

    /// Something of ours, for somebody else.
    pub(crate) fn parcel(&self, bytes: &[u8], reader: SealPublicKey) -> Parcel {
        let (mut rng, key) = (rand::rng(), ArtifactKey::generate(&mut rand::rng()));
        let artifact = self.store.import_encrypted(&key, bytes).unwrap();
        let grant = Grant::issue(&mut rng, CHAIN, artifact, &key, reader).unwrap();
        Parcel { size: encrypted_size(u64::try_from(bytes.len()).unwrap()), grant }
    }

    /// Asks something of whoever may not let us in.
    pub(crate) fn attempt(
        &self,
        address: &Address,
        kind: Kind,
        body: &[u8],
    ) -> Result<bytes::Bytes, SessionError> {
        self.runtime.block_on(async {
            let session = self.endpoint.dial(address).await.unwrap();
            session.call(kind, body).await
        })
    }

    async fn fetch(&self, session: &Session, answer: bytes::Bytes) -> Vec<u8> {
        let Parcel { size, grant } = Parcel::decode(answer).unwrap();
        let sessions = std::slice::from_ref(session);
        transfer::get(&self.store, grant.artifact, sessions, |_| {}).await.unwrap();
        let key = grant.open(CHAIN, &self.sealing).unwrap();
        let mut bytes = Vec::new();
        let mut plain = self.store.decrypt(&grant.artifact, &key).unwrap();
        plain.read_to_end(&mut bytes).unwrap();
        assert_eq!(size, encrypted_size(u64::try_from(bytes.len()).unwrap()));
        bytes
    }

    /// What a request for an output is answered with.
    pub(crate) fn refused(&self, session: &Session, lease: LeaseId) -> SessionError {
        let wanted = Wanted { lease }.encode();
        self.runtime.block_on(async { session.call(OUTPUT, &wanted).await.unwrap_err() })
    }
}

fn spec(program: &Program, input: &[u8]) -> Spec {
    Spec {
        program: program.id,
        input: ArtifactId::of(input),
        segments: SEGMENTS,
        work: Work { amount: 10_000, measure: Measure::Integers },
        requirements: Requirements {
            kind: program.manifest.kind,
            devices: 1,
            memory: 1,
            classes: List::empty(),
            precisions: Set::NONE,
            runtimes: Set::NONE,
            regions: List::empty(),
            reliability: permille(0),
            trust: Trust::Checked,
            longest: Millis(120_000),
            cap: Money::tokens(Amount::whole(1)),
            allowed: List::empty(),
            denied: List::empty(),
        },
        class: Class::Exact,
        eyes: Eyes::Anyone,
        allocating: Allocating::Spot,
        weights: Weights {
            time: permille(100),
            reliability: permille(100),
            proximity: permille(50),
        },
        region: Text::default(),
        patience: Millis(20_000),
    }
}
