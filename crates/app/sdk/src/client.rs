//! A client: packs, submits and attends tasks of one home folder.

use crate::check::Check;
use crate::identity::{Identity, IdentityError};
use crate::output::Unfit;
use crate::records::{Delivery, Record, Records};
use opengpu_client::wallet::FileError;
use opengpu_client::{Rpc, RpcError, SendError, Signatory, send_noted};
use opengpu_crypto::{Digest, Keypair};
use opengpu_exec::program::MANIFEST;
use opengpu_exec::{Program, Refusal};
use opengpu_link::folder::{self, FolderError, FolderLimits};
use opengpu_link::session::{Router, SessionError};
use opengpu_link::transfer::Holder;
use opengpu_link::{
    AddressError, BindError, Config, DialError, Endpoint, EndpointId, Quota, RelayUrl, Store,
    StoreError,
};
use opengpu_types::{
    Amount, ChainId, Contact, List, MarketOperation, Millis, Money, Operation, SessionKey, Spec,
    TaskId, Text,
};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Bytes that a client keeps of artifacts.
const QUOTA: u64 = 16 << 30;
/// How long a submission may take to become final.
const SUBMISSION: Duration = Duration::from_secs(60);
/// How often, and how long each time, a store is waited for.
const HANDOVERS: u32 = 50;
const HANDOVER: Duration = Duration::from_millis(100);

/// Why something with a task did not work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The node does not answer.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The task was not submitted.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The secrets cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// A private file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The program cannot be packed.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// The endpoint cannot be used.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The provider is not reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// What the chain says of how the provider is reached is wrong.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The provider does not do what is wanted.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The provider was heard of on chain, and not in its session.
    #[error("the session is silent while the chain goes on")]
    Behind,
    /// Something does not arrive.
    #[error("{0}")]
    Transfer(String),
    /// The output is not that of the chain.
    #[error(transparent)]
    Output(#[from] Unfit),
    /// The node was away for longer than the task can be open.
    #[error("the node has not answered for {} hours, and nobody waits for it any more", .0.as_secs() / 3_600)]
    Away(Duration),
    /// The provider has no entry on chain.
    #[error("the provider is not on chain any more")]
    Gone,
    /// The chain has no such task, and this folder neither.
    #[error("there is no task {0} on chain, and nothing of it here")]
    NoTask(TaskId),
    /// The task was submitted from another folder.
    #[error("the task was submitted from another home folder, which has its program and its keys")]
    Elsewhere,
    /// The name of the program is too long.
    #[error("the name of the program is too long")]
    Name,
}

/// A task that can be submitted.
#[derive(Clone, Debug)]
pub struct Packed {
    /// What it is.
    pub spec: Spec,
    /// What is sent to its providers.
    pub delivery: Delivery,
    /// Bytes of program and input.
    pub bytes: u64,
}

/// A client.
#[derive(Clone)]
pub struct Client {
    pub(crate) rpc: Rpc,
    pub(crate) chain: ChainId,
    pub(crate) identity: Identity,
    pub(crate) records: Records,
    /// Artifacts of open tasks, a folder for each.
    artifacts: PathBuf,
    pub(crate) runtime: Arc<Runtime>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl Client {
    /// A client with everything that it keeps in one folder, on a node's chain.
    pub fn open(folder: &Path, rpc: &Rpc, chain: ChainId) -> Result<Self, ClientError> {
        let records = Records::open(&folder.join("tasks"))?;
        let identity = Identity::open(&folder.join("client.secret"))?;
        let artifacts = folder.join("artifacts");
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().thread_name("client-link").build()?;
        let runtime = Arc::new(runtime);
        Ok(Self { rpc: rpc.clone(), chain, identity, records, artifacts, runtime })
    }

    /// How providers of a task know this client.
    fn contact(&self, delivery: &Delivery) -> Contact {
        let session = Keypair::ed25519(self.identity.session(&delivery.salt));
        let session = EndpointId::of(&session.public_key()).map_or([0; 32], |id| id.0);
        let sealing = self.identity.sealing().public_key();
        Contact { session: SessionKey(session), sealing, relay: Text::default() }
    }

    /// Packs program and input for a task, and what judges its output if its class says so.
    pub fn pack(
        &self,
        program: &Program,
        input: &[u8],
        check: Option<&Check>,
        spec: Spec,
    ) -> Result<Packed, ClientError> {
        let salt = rand::random();
        let store = self.store(&salt)?;
        let owner = self.identity.artifacts();
        let limits = FolderLimits::default();
        let staged = stage(program)?;
        let folder = folder::pack(&store, staged.path(), &owner, &limits)?;
        // The same input of this client is the same artifact: a provider that has it is not sent it again.
        let (input_id, key, length) = store.import_owned(&owner, &mut io::Cursor::new(input))?;
        let delivery = Delivery {
            name: Text::new(program.manifest.name.clone()).map_err(|_| ClientError::Name)?,
            salt,
            program: folder.manifest,
            program_key: *folder.key.secret_bytes(),
            files: List::new(folder.files).map_err(|_| ClientError::Name)?,
            input: input_id,
            input_key: *key.secret_bytes(),
        };
        // Nothing that comes later takes their room.
        for artifact in delivery.files.iter().chain([&delivery.program, &delivery.input]) {
            store.hold(artifact, Millis(u64::MAX))?;
        }
        // The chain shows it to everybody, so it is not encrypted.
        if let Some(check) = check {
            store.hold(&store.import(check.module())?, Millis(u64::MAX))?;
        }
        Ok(Packed { spec, delivery, bytes: folder.bytes.saturating_add(length) })
    }

    /// The operation that submits a task.
    fn operation(&self, packed: &Packed, budget: Money, escrow: Amount) -> MarketOperation {
        let (spec, contact) = (packed.spec.clone().into(), self.contact(&packed.delivery));
        MarketOperation::SubmitTask { spec, budget, escrow, contact }
    }

    /// Submits a task and waits until it is on chain. What it needs is kept first, so that nothing is
    /// lost whatever happens then.
    pub fn submit(
        &self,
        signatory: &Signatory,
        packed: &Packed,
        budget: Money,
        escrow: Amount,
    ) -> Result<TaskId, ClientError> {
        let operation = Operation::Market(self.operation(packed, budget, escrow));
        let mut id = None;
        send_noted(&self.rpc, signatory, vec![operation], SUBMISSION, |transaction| {
            let task = TaskId::of(&transaction, 0);
            id = Some(task);
            Ok::<(), ClientError>(self.records.task(task).begin(&packed.delivery)?)
        })?;
        id.ok_or(ClientError::Gone)
    }

    /// Where the artifacts of a task are.
    pub(crate) fn store(&self, salt: &[u8; 32]) -> Result<Store, ClientError> {
        Ok(Store::open(&self.place(salt), Quota::of(QUOTA))?)
    }

    /// The same, when another process may just be leaving it.
    pub(crate) fn patient_store(&self, salt: &[u8; 32]) -> Result<Store, ClientError> {
        for _ in 0..HANDOVERS {
            match self.store(salt) {
                Err(ClientError::Store(StoreError::InUse)) => std::thread::sleep(HANDOVER),
                opened => return opened,
            }
        }
        self.store(salt)
    }

    /// The artifacts of a task are not needed any more.
    pub(crate) fn clear(&self, salt: &[u8; 32]) -> Result<(), ClientError> {
        match std::fs::remove_dir_all(self.place(salt)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn place(&self, salt: &[u8; 32]) -> PathBuf {
        self.artifacts.join(Digest(*salt).to_string())
    }

    /// What is kept of a task.
    pub fn record(&self, id: TaskId) -> Record {
        self.records.task(id)
    }

    /// An endpoint of this client that waits on a relay.
    pub(crate) async fn endpoint(
        &self,
        delivery: &Delivery,
        store: &Store,
        relay: RelayUrl,
    ) -> Result<Endpoint, ClientError> {
        let config = Config::on_relay(self.identity.session(&delivery.salt), relay);
        let router = Holder::readable(store.clone()).answer_on(Router::default());
        // Nobody dials a client; providers answer in the sessions that it opened.
        Ok(Endpoint::bind(config, router, |_| false).await?)
    }
}

/// The files of a program in a folder of their own: what lies beside them is nobody's business, and what
/// lies among the shared models is part of it.
fn stage(program: &Program) -> Result<TempDir, ClientError> {
    let staged = tempfile::tempdir()?;
    for name in program.files().keys().map(String::as_str).chain([MANIFEST]) {
        let refused = |error: Refusal| io::Error::other(error.to_string());
        let target = staged.path().join(name);
        if let Some(folder) = target.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::copy(program.path(name).map_err(refused)?, target)?;
    }
    Ok(staged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wishes::Wishes;
    use opengpu_types::ArtifactId;

    #[test]
    fn an_equal_input_of_two_tasks_is_one_artifact_and_of_two_clients_it_is_not() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/sha256-search");
        let program = Program::open(&example).unwrap();
        let homes = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let wishes = Wishes::new(Money::tokens(Amount::whole(1)));
        let pack = |home: usize, input: &[u8]| {
            let rpc = Rpc::new("http://127.0.0.1:1");
            let spec = wishes.spec(&program, ArtifactId::of(input), Amount::whole(1));
            let client = Client::open(homes[home].path(), &rpc, ChainId(7)).unwrap();
            let delivery = client.pack(&program, input, None, spec).unwrap().delivery;
            (delivery.input, delivery.input_key)
        };
        assert_eq!(pack(0, b"input"), pack(0, b"input"));
        assert_ne!(pack(0, b"input").0, pack(0, b"other").0);
        assert_ne!(pack(0, b"input").0, pack(1, b"input").0, "nobody tests for a known input");
    }

    #[test]
    fn a_program_is_packed_without_what_lies_beside_it() {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/sha256-search");
        let program = Program::open(&example).unwrap();
        let staged = stage(&program).unwrap();
        assert!(example.join("README.md").exists() && !staged.path().join("README.md").exists());
        assert_eq!(Program::open(staged.path()).unwrap().id, program.id);
    }
}
