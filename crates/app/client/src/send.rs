//! The short way: operations signed with a key at hand, sent, and waited for.

use crate::{
    api::{OutcomeName, SubmissionStatus, TransactionInfo},
    builder::{BuildError, Draft, Facts, Signer, TransactionBuilder},
    follow::{FollowError, wait_until_final},
    rpc::{Rpc, RpcError},
    signatory::Signatory,
};
use opengpu_types::{Operation, TransactionId};
use std::{
    thread,
    time::{Duration, Instant},
};

/// Before a node that is away is asked again.
const AGAIN: Duration = Duration::from_millis(250);

/// Why operations did not take effect.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The node does not answer.
    #[error(transparent)]
    Rpc(#[from] RpcError),
    /// The transaction cannot be made.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// It did not become final.
    #[error(transparent)]
    Follow(#[from] FollowError),
    /// The node refused it.
    #[error("the node refused it: {reason}")]
    Refused {
        /// Why, for programs.
        code: String,
        /// Why, in words.
        reason: String,
    },
    /// It is final, had no effect and paid its fee.
    #[error("the transaction failed: {reason}")]
    Failed {
        /// Why, for programs.
        code: String,
        /// Why, in words.
        reason: String,
    },
}

/// Carries out operations of an account and waits until they are final.
pub fn send(
    rpc: &Rpc,
    signatory: &Signatory,
    operations: Vec<Operation>,
    patience: Duration,
) -> Result<TransactionInfo, SendError> {
    let noted = |_| Ok::<(), SendError>(());
    send_noted(rpc, signatory, operations, patience, noted)
}

/// The same, with the fee paid by another account.
pub fn send_sponsored(
    rpc: &Rpc,
    signatory: &Signatory,
    sponsor: &Signatory,
    operations: Vec<Operation>,
    patience: Duration,
) -> Result<TransactionInfo, SendError> {
    submit(rpc, signed(rpc, signatory, Some(sponsor), operations)?, patience)
}

/// The same as [`send`], for whoever notes the transaction's id before it is sent, and does not send it if that
/// fails.
pub fn send_noted<E: From<SendError>>(
    rpc: &Rpc,
    signatory: &Signatory,
    operations: Vec<Operation>,
    patience: Duration,
    note: impl FnOnce(TransactionId) -> Result<(), E>,
) -> Result<TransactionInfo, E> {
    let draft = signed(rpc, signatory, None, operations)?;
    note(draft.id())?;
    Ok(submit(rpc, draft, patience)?)
}

fn signed(
    rpc: &Rpc,
    by: &Signatory,
    sponsor: Option<&Signatory>,
    operations: Vec<Operation>,
) -> Result<Draft, SendError> {
    let (signer, sender) = (Signer::from(by), by.account);
    let nonce = signer.next_nonce(rpc, sender)?;
    let mut builder = TransactionBuilder::new(sender).operations(operations);
    if let Some(sponsor) = sponsor {
        builder = builder.sponsor(sponsor.into());
    }
    let (mut draft, _) = builder.draft(&Facts::ask(rpc)?, signer, nonce)?;
    for signatory in std::iter::once(by).chain(sponsor) {
        draft.sign(signatory)?;
    }
    Ok(draft)
}

/// Gives a transaction to the node and waits. A node that goes away meanwhile may take it with it, so
/// it is given the same one again when it is back: it counts once, however often it comes.
fn submit(rpc: &Rpc, draft: Draft, patience: Duration) -> Result<TransactionInfo, SendError> {
    let (id, valid_until) = (draft.id(), draft.transaction.valid_until);
    let (transaction, begin) = (draft.finish()?, Instant::now());
    for answer in rpc.submit(vec![transaction.clone()])? {
        if answer.status == SubmissionStatus::Refused {
            let (code, reason) = reasons(answer.code, answer.reason);
            return Err(SendError::Refused { code, reason });
        }
    }
    let info = loop {
        let left = patience.saturating_sub(begin.elapsed());
        match wait_until_final(rpc, id, valid_until, left) {
            Err(FollowError::Rpc(error)) if error.passes() && !left.is_zero() => {
                // A refusal says that it stands in a block already, or the waiting tells why not.
                while begin.elapsed() < patience && rpc.submit(vec![transaction.clone()]).is_err() {
                    thread::sleep(AGAIN);
                }
            }
            ended => break ended?,
        }
    };
    if info.outcome == Some(OutcomeName::Failed) {
        let (code, reason) = reasons(info.code, info.reason);
        return Err(SendError::Failed { code, reason });
    }
    Ok(info)
}

fn reasons(code: Option<String>, reason: Option<String>) -> (String, String) {
    let code = code.unwrap_or_else(|| "unknown".to_owned());
    let reason = reason.unwrap_or_else(|| code.clone());
    (code, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{Progress, Role, Status, Submission};
    use opengpu_crypto::Keypair;
    use opengpu_types::{
        Address, Amount, ChainId, ConsensusKey, Digest, Epoch, Height, Millis, Nonce,
    };
    use std::{
        io::{BufRead as _, BufReader, Read as _, Write as _},
        net::{TcpListener, TcpStream},
    };

    fn status() -> Status {
        Status {
            chain: ChainId(7),
            name: "test".to_owned(),
            genesis: Digest([0; 32]),
            height: Height(1),
            recorded_from: Height(0),
            time: Millis(0),
            epoch: Epoch(0),
            node: ConsensusKey([0; 32]),
            role: Role::Validator,
            seats: 1,
            connected_nodes: 0,
            mempool: 0,
            syncing: false,
            version: String::new(),
        }
    }

    /// The first line and the body of a request.
    fn request(stream: &TcpStream) -> (String, Vec<u8>) {
        let mut reader = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).unwrap();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        (first, body)
    }

    /// A node that dies after it took a transaction, and has forgotten it when it is back.
    fn forgetful(listener: &TcpListener, id: TransactionId) -> Vec<Vec<u8>> {
        let mut taken = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().unwrap();
            let (first, body) = request(&stream);
            let answer = if first.starts_with("POST") {
                taken.push(body);
                let status = SubmissionStatus::Accepted;
                serde_json::to_string(&[Submission { id, status, code: None, reason: None }])
            } else if taken.len() == 1 {
                continue;
            } else if first.contains("/status") {
                serde_json::to_string(&status())
            } else {
                let (outcome, status) = (Some(OutcomeName::Applied), Progress::Finalized);
                serde_json::to_string(&TransactionInfo { outcome, ..unknown(id, status) })
            };
            let answer = answer.unwrap();
            let head = format!("connection: close\r\ncontent-length: {}", answer.len());
            write!(stream, "HTTP/1.1 200 X\r\n{head}\r\n\r\n{answer}").unwrap();
            if first.contains("/transactions/") {
                return taken;
            }
        }
    }

    fn unknown(id: TransactionId, status: Progress) -> TransactionInfo {
        TransactionInfo {
            id,
            status,
            height: None,
            index: None,
            outcome: None,
            operation: None,
            fee: None,
            code: None,
            reason: None,
            events: Vec::new(),
        }
    }

    #[test]
    fn a_node_that_dies_with_a_transaction_is_given_the_same_one_again() {
        let signatory = Signatory::from(Keypair::ed25519([1; 32]));
        let (time, base_fee) = (Millis(0), Amount(1_000_000_000));
        let facts = Facts { chain: ChainId(7), height: Height(1), time, base_fee };
        let transfer = Operation::Transfer { to: Address::ZERO, amount: Amount::ONE };
        let builder = TransactionBuilder::new(signatory.account).operation(transfer);
        let (mut draft, _) = builder.draft(&facts, (&signatory).into(), Some(Nonce(0))).unwrap();
        draft.sign(&signatory).unwrap();
        let id = draft.id();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let rpc = Rpc::new(&format!("http://{}", listener.local_addr().unwrap()));
        let node = thread::spawn(move || forgetful(&listener, id));
        let info = submit(&rpc, draft, Duration::from_secs(30)).unwrap();
        assert_eq!(info.outcome, Some(OutcomeName::Applied));
        let taken = node.join().unwrap();
        assert_eq!(taken.len(), 2);
        assert_eq!(taken.first(), taken.last());
    }
}
