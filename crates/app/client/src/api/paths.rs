//! Paths of the node's RPC, with their parameters in braces as routers write them.

/// `POST` a [`Batch`](super::Batch) in its canonical encoding; answers a list of submissions.
pub const TRANSACTIONS: &str = "/v1/transactions";
/// How far a transaction is.
pub const TRANSACTION: &str = "/v1/transactions/{id}";
/// Receipt of a final transaction with everything needed to check it offline, as bytes;
/// `?from=EPOCH` leaves out what leads to the seats of that epoch.
pub const RECEIPT: &str = "/v1/transactions/{id}/receipt";
/// An account.
pub const ACCOUNT: &str = "/v1/accounts/{address}";
/// One delegator's part of one validator.
pub const DELEGATION: &str = "/v1/delegations/{delegator}/{validator}";
/// A final block by height, or `latest`.
pub const BLOCK: &str = "/v1/blocks/{height}";
/// Receipts of a final block from `?from=INDEX` on, a page of them as bytes, the block's own first;
/// an empty page is the end.
pub const RECEIPTS: &str = "/v1/blocks/{height}/receipts";
/// One receipt of a final block, also the block's own, as [`RECEIPT`] gives that of a transaction.
pub const BLOCK_RECEIPT: &str = "/v1/blocks/{height}/receipts/{index}";
/// Signed transactions of a final block from `?from=INDEX` on, a page of them as bytes, in the sequence in
/// which they were executed; an empty page is the end.
pub const BLOCK_TRANSACTIONS: &str = "/v1/blocks/{height}/transactions";
/// All candidates, with their seats in this epoch and the next.
pub const VALIDATORS: &str = "/v1/validators";
/// The seats of an epoch, or of the `current` one.
pub const EPOCH: &str = "/v1/epochs/{epoch}";
/// Parameters and the fee of the next block.
pub const PARAMETERS: &str = "/v1/parameters";
/// Where every token is.
pub const SUPPLY: &str = "/v1/supply";
/// The node and its chain.
pub const STATUS: &str = "/v1/status";
/// An entry of the state by the hexadecimal canonical encoding of its key; `?proof=true` adds a
/// proof of the value, or of its absence.
pub const STATE: &str = "/v1/state/{key}";
/// An entry of the state, or its absence, with everything needed to check it offline, as bytes;
/// `?from=EPOCH` leaves out what leads to the seats of that epoch.
pub const STATE_BUNDLE: &str = "/v1/state/{key}/bundle";
/// Steps from the seats of `?from=EPOCH` to those of later epochs, a page at a time, as bytes.
pub const STEPS: &str = "/v1/steps";
/// Server-sent events: one `block` for each final block, with its height as the event's id.
pub const STREAM: &str = "/v1/stream";
/// Whether the process lives.
pub const HEALTH: &str = "/healthz";
/// Whether the node has caught up and answers for the chain.
pub const READY: &str = "/readyz";
/// Prometheus metrics; for this machine alone, unless the node's owner says otherwise.
pub const METRICS: &str = "/metrics";

/// The word for the newest block in [`BLOCK`].
pub const LATEST: &str = "latest";
/// The word for the running epoch in [`EPOCH`].
pub const CURRENT: &str = "current";
