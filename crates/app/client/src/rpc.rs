//! A blocking client of a node's RPC.
//!
//! Reading is repeated a few times when the node does not answer or is busy; submitting never is,
//! because only the caller knows whether a second try is wanted. Every answer has a size limit and
//! every request a time limit.

use crate::api::{
    AccountInfo, Batch, BlockInfo, DelegationInfo, EpochInfo, ParametersInfo, Problem, ReceiptPage,
    StateInfo, Status, Submission, SupplyInfo, TransactionInfo, TransactionPage, ValidatorList,
    hex_text, paths,
};
use commonware_codec::{DecodeExt as _, Encode as _, Read};
use opengpu_types::{
    Address, Block, Entry, Epoch, Height, Key, Receipt, SignedTransaction, TransactionId,
};
use serde::de::DeserializeOwned;
use std::{
    io, thread,
    time::{Duration, Instant},
};
use ureq::{Agent, Body, http};

/// Where a node listens unless told otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:26600";

const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(20);
/// The whole body of an answer; a slow link needs some time for a large one.
const BODY: Duration = Duration::from_secs(60);
/// Silence on a stream after which its node is given up; a node shows every 15 s that it lives.
const SILENCE: Duration = Duration::from_secs(45);
/// Pauses before the second and the third try of a read.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(400)];
/// Between two questions to a node that does not wait.
const LEAST_PAUSE: Duration = Duration::from_millis(40);
/// Receipts of the fullest block.
const MOST_RECEIPTS: u32 = 1 << 20;
/// Largest answer that is read, in bytes.
const MAX_ANSWER: u64 = 16 * 1024 * 1024;
/// Longest part of a foreign error page that is shown.
const SHOWN: usize = 200;

/// Why a request brought no answer.
#[derive(Debug, thiserror::Error)]
pub enum RpcError {
    /// Nobody answers there.
    #[error("no node answers at {url}")]
    Unreachable {
        /// The node's address.
        url: String,
        /// What the transport says.
        source: Box<ureq::Error>,
    },
    /// The node answers with a problem.
    #[error("{}", .0.detail)]
    Problem(Box<Problem>),
    /// The answer is not of the contract: no node, or one of another version.
    #[error("{url} does not answer like a node ({status}): {detail}")]
    Foreign {
        /// What was asked.
        url: String,
        /// HTTP status of the answer.
        status: u16,
        /// What came instead.
        detail: String,
    },
    /// The answer is larger than what is read.
    #[error("the answer of {url} is larger than {limit} bytes")]
    TooLarge {
        /// What was asked.
        url: String,
        /// Allowed.
        limit: u64,
    },
    /// More transactions than one submission may hold.
    #[error("a submission has at most {limit} transactions, this one has {count}")]
    TooMany {
        /// Given.
        count: usize,
        /// Allowed.
        limit: usize,
    },
}

impl RpcError {
    /// Code of the node's problem, if it is one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Problem(problem) => Some(&problem.code),
            Self::Unreachable { .. }
            | Self::Foreign { .. }
            | Self::TooLarge { .. }
            | Self::TooMany { .. } => None,
        }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } => Some(
                "start a network with `opengpu dev`, or name a node with --node or OPENGPU_NODE"
                    .to_owned(),
            ),
            Self::Problem(problem) => problem.hint.clone(),
            Self::Foreign { .. } => Some("is this the address of a node's RPC?".to_owned()),
            Self::TooLarge { .. } => Some(
                "a proof grows with every epoch; one that begins at a checkpoint is short"
                    .to_owned(),
            ),
            Self::TooMany { .. } => None,
        }
    }

    /// Whether the same read may succeed a moment later.
    pub fn passes(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Problem(problem) => problem.status == 503,
            Self::Foreign { status, .. } => *status == 502 || *status == 503,
            Self::TooLarge { .. } | Self::TooMany { .. } => false,
        }
    }
}

/// A node's RPC.
#[derive(Clone, Debug)]
pub struct Rpc {
    agent: Agent,
    url: String,
    pauses: [Duration; 2],
    limit: u64,
}

impl Rpc {
    /// The RPC at `url`, such as [`DEFAULT_URL`].
    pub fn new(url: &str) -> Self {
        let url = url.trim_end_matches('/').to_owned();
        let mut config = Agent::config_builder()
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(ANSWER))
            .timeout_recv_body(Some(BODY))
            .http_status_as_error(false)
            .user_agent(concat!("opengpu/", env!("CARGO_PKG_VERSION")));
        if is_local(&url) {
            // A proxy for the internet does not reach this machine.
            config = config.proxy(None);
        }
        Self { agent: config.build().new_agent(), url, pauses: PAUSES, limit: MAX_ANSWER }
    }

    /// Where this RPC is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The node and its chain.
    pub fn status(&self) -> Result<Status, RpcError> {
        self.get(paths::STATUS)
    }

    /// The same as soon as there is a block after `height`, or after so long at most (the node waits two
    /// seconds at most, and not at all if too many wait).
    pub fn status_after(&self, height: Height, wait: Duration) -> Result<Status, RpcError> {
        self.get(&format!("{}?after={height}&wait={}", paths::STATUS, wait.as_millis()))
    }

    /// Waits until there is a block after `height`, as long as that takes, at most `wait`.
    pub fn wait_for_block(&self, height: Height, wait: Duration) -> Result<Status, RpcError> {
        let begin = Instant::now();
        loop {
            let left = wait.saturating_sub(begin.elapsed());
            let asked = Instant::now();
            let status = self.status_after(height, left)?;
            if status.height > height || begin.elapsed() >= wait {
                return Ok(status);
            }
            // A node that does not wait for us is not asked at once again.
            if asked.elapsed() < LEAST_PAUSE {
                thread::sleep(LEAST_PAUSE.min(wait.saturating_sub(begin.elapsed())));
            }
        }
    }

    /// Whether the node has caught up.
    pub fn is_ready(&self) -> bool {
        self.get_once(paths::READY).is_ok()
    }

    /// An account; one that does not exist is empty.
    pub fn account(&self, address: Address) -> Result<AccountInfo, RpcError> {
        self.get(&paths::ACCOUNT.replace("{address}", &address.to_string()))
    }

    /// One delegator's part of one validator.
    pub fn delegation(
        &self,
        delegator: Address,
        validator: Address,
    ) -> Result<DelegationInfo, RpcError> {
        let path = paths::DELEGATION.replace("{delegator}", &delegator.to_string());
        self.get(&path.replace("{validator}", &validator.to_string()))
    }

    /// A final block, the newest if no height is given.
    pub fn block(&self, height: Option<Height>) -> Result<BlockInfo, RpcError> {
        let height = height.map_or_else(|| paths::LATEST.to_owned(), |height| height.to_string());
        self.get(&paths::BLOCK.replace("{height}", &height))
    }

    /// The receipts of a final block, its own first.
    pub fn receipts(&self, height: Height) -> Result<Vec<Receipt>, RpcError> {
        let path = paths::RECEIPTS.replace("{height}", &height.to_string());
        let mut receipts = Vec::new();
        loop {
            let page: ReceiptPage = self.page_of(&path, receipts.len())?;
            if page.is_empty() {
                return Ok(receipts);
            }
            for receipt in page.into_vec() {
                let place = u32::try_from(receipts.len()).unwrap_or(u32::MAX);
                // A block has fewer transactions than that; whoever says more is no node of ours.
                if receipt.height != height || receipt.index != place || place >= MOST_RECEIPTS {
                    return Err(self.foreign("these are not the receipts of the block".to_owned()));
                }
                receipts.push(receipt);
            }
        }
    }

    /// The transactions of a final block, in the sequence in which they were executed.
    pub fn transactions(&self, height: Height) -> Result<Vec<SignedTransaction>, RpcError> {
        let path = paths::BLOCK_TRANSACTIONS.replace("{height}", &height.to_string());
        let mut transactions = Vec::new();
        loop {
            let page: TransactionPage = self.page_of(&path, transactions.len())?;
            if page.is_empty() {
                return Ok(transactions);
            }
            transactions.extend(page.into_vec());
            if transactions.len() > Block::MAX_TRANSACTIONS {
                return Err(self.foreign("no block has so many transactions".to_owned()));
            }
        }
    }

    /// The seats of an epoch, of the running one if none is given.
    pub fn epoch(&self, epoch: Option<Epoch>) -> Result<EpochInfo, RpcError> {
        let epoch = epoch.map_or_else(|| paths::CURRENT.to_owned(), |epoch| epoch.to_string());
        self.get(&paths::EPOCH.replace("{epoch}", &epoch))
    }

    /// All candidates.
    pub fn validators(&self) -> Result<ValidatorList, RpcError> {
        self.get(paths::VALIDATORS)
    }

    /// Parameters and the fee of the next block.
    pub fn parameters(&self) -> Result<ParametersInfo, RpcError> {
        self.get(paths::PARAMETERS)
    }

    /// Where every token is.
    pub fn supply(&self) -> Result<SupplyInfo, RpcError> {
        self.get(paths::SUPPLY)
    }

    /// An entry of the state as the node sends it.
    pub fn state(&self, key: &Key, proof: bool) -> Result<StateInfo, RpcError> {
        let path = paths::STATE.replace("{key}", &hex_text(&key.encode()));
        self.get(&format!("{path}?proof={proof}"))
    }

    /// An entry of the state, decoded.
    pub fn entry(&self, key: &Key) -> Result<Option<Entry>, RpcError> {
        let Some(value) = self.state(key, false)?.value else { return Ok(None) };
        let decoded = Entry::decode(value).map(Some);
        decoded.map_err(|error| self.foreign(format!("the entry cannot be decoded: {error}")))
    }

    /// How far a transaction is.
    pub fn transaction(&self, id: TransactionId) -> Result<TransactionInfo, RpcError> {
        self.get(&paths::TRANSACTION.replace("{id}", &id.to_string()))
    }

    /// The receipt of a final transaction with its proofs, as exported bytes. They begin with the
    /// seats of `from`, which whoever checks them must know: epoch 0 is in the genesis.
    pub fn receipt(&self, id: TransactionId, from: Epoch) -> Result<Vec<u8>, RpcError> {
        let path = paths::RECEIPT.replace("{id}", &id.to_string());
        self.patiently(|| self.get_once(&format!("{path}?from={from}")))
    }

    /// A receipt by its place, also a block's own, which comes first; as [`Self::receipt`].
    pub fn receipt_at(&self, height: Height, index: u32, from: Epoch) -> Result<Vec<u8>, RpcError> {
        let path = paths::BLOCK_RECEIPT.replace("{height}", &height.to_string());
        let path = path.replace("{index}", &index.to_string());
        self.patiently(|| self.get_once(&format!("{path}?from={from}")))
    }

    /// An entry of the state, or its absence, with its proofs, as exported bytes; `from` as for
    /// [`Self::receipt`].
    pub fn state_bundle(&self, key: &Key, from: Epoch) -> Result<Vec<u8>, RpcError> {
        let path = paths::STATE_BUNDLE.replace("{key}", &hex_text(&key.encode()));
        self.patiently(|| self.get_once(&format!("{path}?from={from}")))
    }

    /// Steps that lead on from the seats of `from`, as exported bytes: a page of them, or none if
    /// that is the running epoch.
    pub fn steps(&self, from: Epoch) -> Result<Vec<u8>, RpcError> {
        self.patiently(|| self.get_once(&format!("{}?from={from}", paths::STEPS)))
    }

    /// Submits transactions; one answer for each, in the same sequence.
    pub fn submit(
        &self,
        transactions: Vec<SignedTransaction>,
    ) -> Result<Vec<Submission>, RpcError> {
        let count = transactions.len();
        let batch = Batch::new(transactions)
            .map_err(|error| RpcError::TooMany { count, limit: error.limit })?;
        let url = format!("{}{}", self.url, paths::TRANSACTIONS);
        let request = self.agent.post(&url).content_type("application/octet-stream");
        let bytes = self.answer(&url, request.send(&batch.encode()[..]))?;
        self.parse(&url, &bytes)
    }

    /// Opens the stream of final blocks; `after` resumes behind a height.
    pub(crate) fn open_stream(
        &self,
        after: Option<Height>,
    ) -> Result<impl io::Read + Send + 'static, RpcError> {
        let url = format!("{}{}", self.url, paths::STREAM);
        let request = self.agent.get(&url).header("accept", "text/event-stream");
        // A stream has no end, so it is limited by its silence alone.
        let request = request.config().timeout_recv_body(None).timeout_per_read(Some(SILENCE));
        let mut request = request.build();
        if let Some(height) = after {
            request = request.header("last-event-id", height.to_string());
        }
        let response = request.call().map_err(|source| self.unreachable(source))?;
        if response.status().is_success() {
            return Ok(response.into_body().into_reader());
        }
        Err(self.refusal(&url, response))
    }

    /// A page of what a block has, from a place on.
    fn page_of<T: Read<Cfg = ()>>(&self, path: &str, from: usize) -> Result<T, RpcError> {
        let page = format!("{path}?from={from}");
        let bytes = self.patiently(|| self.get_once(&page))?;
        T::decode(bytes).map_err(|error| self.foreign(format!("it cannot be decoded: {error}")))
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, RpcError> {
        let bytes = self.patiently(|| self.get_once(path))?;
        self.parse(&format!("{}{path}", self.url), &bytes)
    }

    fn patiently<T>(&self, read: impl Fn() -> Result<T, RpcError>) -> Result<T, RpcError> {
        for pause in self.pauses {
            match read() {
                Err(error) if error.passes() => thread::sleep(pause),
                answer => return answer,
            }
        }
        read()
    }

    fn get_once(&self, path: &str) -> Result<Vec<u8>, RpcError> {
        let url = format!("{}{path}", self.url);
        self.answer(&url, self.agent.get(&url).call())
    }

    fn answer(
        &self,
        url: &str,
        response: Result<http::Response<Body>, ureq::Error>,
    ) -> Result<Vec<u8>, RpcError> {
        let response = response.map_err(|source| self.unreachable(source))?;
        if response.status().is_success() {
            return self.body(url, response);
        }
        Err(self.refusal(url, response))
    }

    fn body(&self, url: &str, mut response: http::Response<Body>) -> Result<Vec<u8>, RpcError> {
        let body = response.body_mut().with_config().limit(self.limit);
        body.read_to_vec().map_err(|source| match source {
            ureq::Error::BodyExceedsLimit(limit) => {
                RpcError::TooLarge { url: url.to_owned(), limit }
            }
            source => self.unreachable(source),
        })
    }

    /// The error in an answer that is no success.
    fn refusal(&self, url: &str, response: http::Response<Body>) -> RpcError {
        let status = response.status().as_u16();
        let bytes = match self.body(url, response) {
            Ok(bytes) => bytes,
            Err(error) => return error,
        };
        serde_json::from_slice::<Problem>(&bytes).map_or_else(
            |_| RpcError::Foreign { url: url.to_owned(), status, detail: excerpt(&bytes) },
            |problem| RpcError::Problem(Box::new(problem)),
        )
    }

    fn parse<T: DeserializeOwned>(&self, url: &str, bytes: &[u8]) -> Result<T, RpcError> {
        serde_json::from_slice(bytes).map_err(|error| RpcError::Foreign {
            url: url.to_owned(),
            status: 200,
            detail: error.to_string(),
        })
    }

    /// An answer that no node of ours gives.
    fn foreign(&self, detail: String) -> RpcError {
        RpcError::Foreign { url: self.url.clone(), status: 200, detail }
    }

    fn unreachable(&self, source: ureq::Error) -> RpcError {
        RpcError::Unreachable { url: self.url.clone(), source: Box::new(source) }
    }
}

fn is_local(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    ["127.", "localhost", "[::1]"].iter().any(|name| rest.starts_with(name))
}

fn excerpt(bytes: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(bytes).chars().take(SHOWN).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_types::Digest;
    use std::{
        io::{BufRead as _, BufReader, Write as _},
        net::TcpListener,
        thread::JoinHandle,
    };

    fn at(listener: &TcpListener) -> Rpc {
        let url = format!("http://{}/", listener.local_addr().unwrap());
        Rpc { pauses: [Duration::ZERO; 2], ..Rpc::new(&url) }
    }

    /// A server that gives prepared answers and returns the requests it saw.
    fn serve(answers: Vec<(u16, &'static str)>) -> (Rpc, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rpc = at(&listener);
        let served = thread::spawn(move || {
            let mut seen = Vec::new();
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut first = String::new();
                reader.read_line(&mut first).unwrap();
                seen.push(first.trim_end().to_owned());
                let mut line = String::new();
                while reader.read_line(&mut line).unwrap() > 2 {
                    line.clear();
                }
                let head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n");
                let length = format!("content-length: {}\r\n\r\n", body.len());
                stream.write_all(format!("{head}{length}{body}").as_bytes()).unwrap();
            }
            seen
        });
        (rpc, served)
    }

    const ACCOUNT: &str = concat!(
        r#"{"address":"0x0000000000000000000000000000000000000000","exists":true,"#,
        r#""balance":"12.5","reserve":"0","nonce":3,"next_nonce":4,"entries":0,"#,
        r#""key":"0x0000000000000000000000000000000000000000","height":9}"#
    );
    const BUSY: &str = concat!(
        r#"{"type":"urn:opengpu:problem:busy","title":"Busy","status":503,"#,
        r#""detail":"no room","code":"busy","hint":"later"}"#
    );
    const MISSING: &str = concat!(
        r#"{"type":"urn:opengpu:problem:not-found","title":"Not found","status":404,"#,
        r#""detail":"no block 9","code":"not-found"}"#
    );

    #[test]
    fn an_account_is_read_from_its_path() {
        let (rpc, served) = serve(vec![(200, ACCOUNT)]);
        let account = rpc.account(Address::ZERO).unwrap();
        assert_eq!(account.balance.to_string(), "12.5");
        let path = format!("GET /v1/accounts/{} HTTP/1.1", Address::ZERO);
        assert_eq!(served.join().unwrap(), [path]);
    }

    #[test]
    fn a_read_is_repeated_while_the_node_is_busy() {
        let (rpc, served) = serve(vec![(503, BUSY), (503, BUSY), (200, ACCOUNT)]);
        assert!(rpc.account(Address::ZERO).is_ok());
        assert_eq!(served.join().unwrap().len(), 3);
    }

    #[test]
    fn a_submission_is_never_repeated() {
        let (rpc, served) = serve(vec![(503, BUSY)]);
        let error = rpc.submit(Vec::new()).unwrap_err();
        assert_eq!(error.code(), Some("busy"));
        assert_eq!(error.hint().as_deref(), Some("later"));
        assert_eq!(served.join().unwrap().len(), 1);
    }

    #[test]
    fn a_problem_is_told_in_its_own_words_at_the_first_try() {
        let (rpc, served) = serve(vec![(404, MISSING)]);
        let error = rpc.block(Some(Height(9))).unwrap_err();
        assert_eq!(error.to_string(), "no block 9");
        assert_eq!(served.join().unwrap(), ["GET /v1/blocks/9 HTTP/1.1"]);
    }

    #[test]
    fn a_server_that_is_no_node_is_recognized() {
        let (rpc, served) = serve(vec![(200, "<html>hello</html>")]);
        let error = rpc.status().unwrap_err();
        assert!(matches!(error, RpcError::Foreign { status: 200, .. }), "{error}");
        served.join().unwrap();
    }

    #[test]
    fn an_answer_over_the_limit_is_called_that_and_not_asked_for_again() {
        let (rpc, served) = serve(vec![(200, ACCOUNT)]);
        let rpc = Rpc { limit: 20, ..rpc };
        let error = rpc.receipt(TransactionId(Digest([1; 32])), Epoch(3)).unwrap_err();
        assert!(matches!(error, RpcError::TooLarge { limit: 20, .. }), "{error}");
        assert!(error.hint().unwrap().contains("checkpoint"));
        let seen = served.join().unwrap();
        assert_eq!(seen.len(), 1);
        assert!(seen[0].contains("/receipt?from=3 "), "{seen:?}");
    }

    #[test]
    fn a_node_that_begins_an_answer_and_falls_silent_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let moment = Duration::from_millis(50);
        let config = Agent::config_builder().timeout_recv_body(Some(moment)).proxy(None);
        let rpc = Rpc { agent: config.build().new_agent(), ..at(&listener) };
        let silent = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"HTTP/1.1 200 X\r\ncontent-length: 9\r\n\r\n{").unwrap();
            stream
        });
        let error = rpc.get_once(paths::STATUS).unwrap_err();
        assert!(matches!(error, RpcError::Unreachable { .. }), "{error}");
        drop(silent.join().unwrap());
        let limits = Rpc::new(DEFAULT_URL).agent.config().timeouts();
        assert_eq!(limits.recv_body, Some(BODY), "every client has this limit");
    }

    #[test]
    fn a_closed_port_is_unreachable_with_a_hint() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rpc = at(&listener);
        drop(listener);
        let error = rpc.status().unwrap_err();
        assert!(matches!(error, RpcError::Unreachable { .. }));
        assert!(error.hint().unwrap().contains("opengpu dev"));
    }
}
