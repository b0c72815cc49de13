//! The parties of audits, as the ledger's own tests play them.

#[path = "../../../ledger/tests/ledger/market/audited.rs"]
pub(crate) mod audited;
#[path = "../../../ledger/tests/ledger/market/bazaar.rs"]
pub(crate) mod bazaar;
