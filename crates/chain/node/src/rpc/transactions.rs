//! Transactions: into the mempool, on their way, and out with a receipt.

use super::{
    Api,
    problem::{Answer, Refused},
    view::parse,
};
use crate::mempool::{PoolRefusal, Refusal, Standing, SubmitError};
use axum::{
    Json,
    body::Bytes,
    extract::{
        Path, Query, State,
        rejection::{BytesRejection, QueryRejection},
    },
    http::{StatusCode, header},
    response::IntoResponse,
};
use commonware_codec::{DecodeExt as _, Encode as _};
use commonware_runtime::Supervisor as _;
use opengpu_client::api::{
    Batch, MAX_BATCH, ReceiptPage, Submission, SubmissionStatus, TransactionInfo, codes,
    digest_from_text,
};
use opengpu_light::{EpochStep, FinalizedHeader, ReceiptBundle};
use opengpu_types::{Epoch, Header, Height, Receipt, TransactionId};
use serde::Deserialize;

/// Steps of epochs in one bundle: what leads further begins with a checkpoint.
const MAX_STEPS: u64 = 256;
/// Steps of epochs in one answer.
const PAGE: u64 = 64;
/// Bytes after which a page of receipts ends.
const PAGE_BYTES: usize = 4 << 20;

/// Takes transactions in; one answer for each, in the same sequence.
pub(super) async fn submit(
    State(api): State<Api>,
    body: Result<Bytes, BytesRejection>,
) -> Answer<Json<Vec<Submission>>> {
    let body = body.map_err(|error| unread(&error))?;
    let batch = Batch::decode(body).map_err(|error| {
        Refused::bad_request(format!("the body is no list of transactions: {error}"))
    })?;
    let inner = &api.0;
    let chain = inner.genesis.chain;
    let transactions = batch.into_vec();
    let ids: Vec<_> = transactions.iter().map(|signed| signed.transaction.id(chain)).collect();
    let mut runtime = inner.context.child("submit");
    let verdicts = inner.intake.submit(&mut runtime, transactions).await;

    let mut answers = Vec::with_capacity(ids.len());
    let mut turned_away = Vec::new();
    for (id, verdict) in ids.into_iter().zip(verdicts) {
        let error = match verdict {
            Ok(_) => {
                answers.push(submission(id, SubmissionStatus::Accepted, None));
                continue;
            }
            Err(SubmitError::Pool(PoolRefusal::Known)) => {
                answers.push(submission(id, SubmissionStatus::Known, None));
                continue;
            }
            Err(error) => error,
        };
        // The id does not cover the signature: a wrong one says nothing about the transaction.
        let lasting = matches!(error, SubmitError::Invalid(_) | SubmitError::Pool(_));
        let refusal = refusal(error);
        if lasting {
            turned_away.push((id, refusal.clone()));
        }
        answers.push(submission(id, SubmissionStatus::Refused, Some(refusal)));
    }
    inner.mempool.turned_away(turned_away);
    let refused = answers.iter().filter(|answer| answer.status == SubmissionStatus::Refused);
    let refused = u64::try_from(refused.count()).unwrap_or(u64::MAX);
    let all = u64::try_from(answers.len()).unwrap_or(u64::MAX);
    inner.feed.metrics().refused.inc_by(refused);
    inner.feed.metrics().accepted.inc_by(all.saturating_sub(refused));
    Ok(Json(answers))
}

/// Why a body cannot be used.
pub(super) fn unread(error: &BytesRejection) -> Refused {
    match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => Refused::too_large(error.body_text()),
        _ => Refused::bad_request(error.body_text()),
    }
}

fn submission(id: TransactionId, status: SubmissionStatus, why: Option<Refusal>) -> Submission {
    let (code, reason) = why.map(|why| (why.code.to_owned(), why.reason)).unzip();
    Submission { id, status, code, reason }
}

/// Faults of the node stay in its log.
fn refusal(error: SubmitError) -> Refusal {
    let internal = |error: &dyn std::fmt::Display| {
        tracing::error!(%error, "a transaction was not taken in");
        Refusal { code: codes::INTERNAL, reason: "the node failed; its log says why".to_owned() }
    };
    match error {
        SubmitError::Invalid(invalid) => Refusal::from(&invalid),
        SubmitError::Pool(refusal) => refusal.into(),
        SubmitError::Signature => {
            Refusal { code: "bad-signature", reason: SubmitError::Signature.to_string() }
        }
        SubmitError::NotBegun => {
            Refusal { code: codes::SYNCING, reason: SubmitError::NotBegun.to_string() }
        }
        SubmitError::Corrupt(error) => internal(&error),
        SubmitError::Store(error) => internal(&error),
    }
}

/// How far a transaction is.
pub(super) async fn progress(
    State(api): State<Api>,
    Path(id): Path<String>,
) -> Answer<Json<TransactionInfo>> {
    let id = id_of(&id)?;
    // The pool is asked first: a transaction leaves it after its receipt is recorded.
    let standing = api.0.mempool.standing(&id);
    if let Some(receipt) = api.0.feed.recorded(move |records| records.find(id)).await? {
        // Its block is recorded a moment before its state is applied, and is final then already.
        return Ok(Json(TransactionInfo::finalized(id, &receipt)));
    }
    Ok(Json(match standing {
        Some(Standing::Waiting) => TransactionInfo::pending(id),
        Some(Standing::Refused(why)) => TransactionInfo::refused(id, why.code, why.reason),
        None => TransactionInfo::unknown(id),
    }))
}

/// The receipt of a final transaction as a file that can be checked offline.
pub(super) async fn receipt(
    State(api): State<Api>,
    Path(id): Path<String>,
    since: Result<Query<Since>, QueryRejection>,
) -> Answer<impl IntoResponse> {
    let (id, from) = (id_of(&id)?, Since::epoch(since)?);
    let found = api.0.feed.recorded(move |records| records.find(id)).await?;
    let receipt = found.ok_or_else(|| Refused::not_found(format!("{id} is in no block here")))?;
    api.bundle(receipt, from).await
}

/// A receipt by its place, as a file that can be checked offline.
pub(super) async fn block_receipt(
    State(api): State<Api>,
    Path((height, index)): Path<(String, String)>,
    since: Result<Query<Since>, QueryRejection>,
) -> Answer<impl IntoResponse> {
    let (height, from) = (Height(parse(&height, "a height")?), Since::epoch(since)?);
    let index = parse(&index, "a place in a block")?;
    let found = api.0.feed.recorded(move |records| records.receipts(height, index, 0)).await?;
    let receipt = found.unwrap_or_default().into_iter().next();
    let missing = || Refused::not_found(format!("there is no receipt {index} of block {height}"));
    api.bundle(receipt.ok_or_else(missing)?, from).await
}

/// Some receipts of a final block, as bytes; none behind the last one.
pub(super) async fn receipts(
    State(api): State<Api>,
    Path(height): Path<String>,
    from: Result<Query<Beginning>, QueryRejection>,
) -> Answer<impl IntoResponse> {
    let height = Height(parse(&height, "a height")?);
    let from = Beginning::place(from)?;
    let page = api.0.feed.recorded(move |records| records.receipts(height, from, PAGE_BYTES));
    let not_kept = || Refused::not_kept(format!("this node has no receipts of block {height}"));
    let mut page = page.await?.ok_or_else(not_kept)?;
    page.truncate(MAX_BATCH);
    let page = ReceiptPage::new(page).map_err(Refused::internal)?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], page.encode().to_vec()))
}

/// Where a page begins.
#[derive(Debug, Deserialize)]
pub(super) struct Beginning {
    #[serde(default)]
    from: u32,
}

impl Beginning {
    pub(super) fn place(query: Result<Query<Self>, QueryRejection>) -> Answer<u32> {
        let Query(beginning) = query.map_err(|error| Refused::bad_request(error.body_text()))?;
        Ok(beginning.from)
    }
}

/// Some steps of epochs from one on, as bytes; none if they are not there yet.
pub(super) async fn steps(
    State(api): State<Api>,
    since: Result<Query<Since>, QueryRejection>,
) -> Answer<impl IntoResponse> {
    let page = api.page(Since::epoch(since)?).await?;
    let bytes = EpochStep::list_to_bytes(&page);
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bytes))
}

/// Where a bundle begins.
#[derive(Debug, Deserialize)]
pub(super) struct Since {
    /// The epoch whose seats the reader knows; those of the first one are in the genesis.
    #[serde(default)]
    from: u64,
}

impl Since {
    pub(super) fn epoch(query: Result<Query<Self>, QueryRejection>) -> Answer<Epoch> {
        let Query(since) = query.map_err(|error| Refused::bad_request(error.body_text()))?;
        Ok(Epoch(since.from))
    }
}

impl Api {
    /// A receipt with everything that is needed to check it offline.
    async fn bundle(&self, receipt: Receipt, from: Epoch) -> Answer<impl IntoResponse + use<>> {
        let found = self.0.feed.recorded(move |records| {
            let (header, proof) = (records.header(receipt.height)?, records.proof(&receipt)?);
            Ok((receipt, header, proof))
        });
        let (receipt, Some(header), Some(proof)) = found.await? else {
            return Err(Refused::not_kept("the block of this receipt is not kept"));
        };
        let steps = self.steps(from, &header).await?;
        let finalized = self.finalized(header).await?;
        let bundle = ReceiptBundle { steps, finalized, receipt, proof };
        Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bundle.to_bytes()))
    }

    /// The steps from the seats of an epoch to those of a header.
    pub(super) async fn steps(&self, from: Epoch, header: &Header) -> Answer<Vec<EpochStep>> {
        let to = header.epoch;
        if from > to {
            let detail = format!("block {} is of epoch {to}, before {from}", header.height);
            return Err(Refused::bad_request(detail));
        }
        if to.0.saturating_sub(from.0) > MAX_STEPS {
            let detail = format!(
                "{MAX_STEPS} epochs fit in one answer, not those from {from} to {to}; begin with a checkpoint"
            );
            return Err(Refused::bad_request(detail));
        }
        let steps = self.0.feed.steps().range(from, to).await?;
        let whole =
            u64::try_from(steps.len()).is_ok_and(|held| from.0.saturating_add(held) == to.0);
        if !whole {
            // The last one is completed moments after the epoch.
            let detail = format!("this node does not know all epochs from {from} to {to} yet");
            return Err(Refused::not_kept(detail));
        }
        Ok(steps.into_iter().map(EpochStep::from).collect())
    }

    /// A page of steps.
    async fn page(&self, from: Epoch) -> Answer<Vec<EpochStep>> {
        let steps = self.0.feed.steps().range(from, from.plus(PAGE)).await?;
        Ok(steps.into_iter().map(EpochStep::from).collect())
    }

    /// A header with the certificate that finalizes it.
    pub(super) async fn finalized(&self, header: Header) -> Answer<FinalizedHeader> {
        let height = header.height;
        let finalized = self.0.feed.finalized(header).await?;
        finalized.ok_or_else(|| Refused::not_kept(format!("no certificate of block {height} here")))
    }
}

fn id_of(text: &str) -> Answer<TransactionId> {
    let digest = digest_from_text(text).map_err(|error| Refused::bad_request(error.to_string()))?;
    Ok(TransactionId(digest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_ledger::Invalid;
    use opengpu_types::Digest;

    const ID: TransactionId = TransactionId(Digest([1; 32]));

    #[test]
    fn a_refused_submission_names_the_ledger_s_reason() {
        let why = refusal(Invalid::NoOpenDuty.into());
        let answer = submission(ID, SubmissionStatus::Refused, Some(why));
        assert_eq!(answer.code.as_deref(), Some("no-open-duty"));
        assert_eq!(answer.reason, Some(Invalid::NoOpenDuty.to_string()));
        assert_eq!(submission(ID, SubmissionStatus::Known, None).code, None);
    }

    #[test]
    fn an_id_has_its_prefix_and_its_length() {
        assert_eq!(id_of(&ID.to_string()).unwrap(), ID);
        for wrong in ["", "0x01", "01"] {
            assert_eq!(id_of(wrong).unwrap_err().code(), "bad-request");
        }
    }
}
