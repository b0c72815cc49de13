//! The short way: operations signed with a key at hand, sent, and waited for.

use crate::{
    api::{OutcomeName, SubmissionStatus, TransactionInfo},
    builder::{BuildError, Draft, Facts, Signer, TransactionBuilder},
    follow::{FollowError, wait_until_final},
    rpc::{Rpc, RpcError},
};
use opengpu_crypto::Keypair;
use opengpu_types::{Operation, TransactionId};
use std::time::Duration;

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

/// Carries out operations of the key's own account and waits until they are final.
pub fn send(
    rpc: &Rpc,
    keypair: &Keypair,
    operations: Vec<Operation>,
    patience: Duration,
) -> Result<TransactionInfo, SendError> {
    let noted = |_| Ok::<(), SendError>(());
    send_noted(rpc, keypair, operations, patience, noted)
}

/// The same, for whoever notes the transaction's id before it is sent, and does not send it if that
/// fails.
pub fn send_noted<E: From<SendError>>(
    rpc: &Rpc,
    keypair: &Keypair,
    operations: Vec<Operation>,
    patience: Duration,
    note: impl FnOnce(TransactionId) -> Result<(), E>,
) -> Result<TransactionInfo, E> {
    let draft = signed(rpc, keypair, operations)?;
    note(draft.id())?;
    Ok(submit(rpc, draft, patience)?)
}

fn signed(rpc: &Rpc, keypair: &Keypair, operations: Vec<Operation>) -> Result<Draft, SendError> {
    let (signer, sender) = (Signer::from(keypair), keypair.address());
    let nonce = signer.next_nonce(rpc, sender)?;
    let builder = TransactionBuilder::new(sender).operations(operations);
    let (mut draft, _) = builder.draft(&Facts::ask(rpc)?, signer, nonce)?;
    draft.sign(keypair)?;
    Ok(draft)
}

fn submit(rpc: &Rpc, draft: Draft, patience: Duration) -> Result<TransactionInfo, SendError> {
    let (id, valid_until) = (draft.id(), draft.transaction.valid_until);
    for answer in rpc.submit(vec![draft.finish()?])? {
        if answer.status == SubmissionStatus::Refused {
            let (code, reason) = reasons(answer.code, answer.reason);
            return Err(SendError::Refused { code, reason });
        }
    }
    let info = wait_until_final(rpc, id, valid_until, patience)?;
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
