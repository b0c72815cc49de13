//! A transaction on its way between people and machines: a JSON document that is written without
//! signatures, signed elsewhere (an offline machine, a wallet, a sponsor) and submitted from
//! anywhere.
//!
//! The summary is for readers. It is never believed: whoever reads the document shows the summary
//! of the transaction itself, and every signature in it is checked again.

use crate::{
    api::form,
    builder::{BuildError, Draft},
};
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_types::{Authorization, ChainId, Transaction};
use serde::{Deserialize, Serialize};

/// Why a document is no transaction.
#[derive(Debug, thiserror::Error)]
pub enum TransactionFileError {
    /// Not the JSON of this document.
    #[error("not a transaction document: {0}")]
    Json(#[from] serde_json::Error),
    /// Bytes in it are not canonical.
    #[error("the document is damaged: {0}")]
    Codec(#[from] commonware_codec::Error),
    /// A signature in it does not hold.
    #[error(transparent)]
    Signature(#[from] BuildError),
}

/// The document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransactionFile {
    #[serde(with = "form")]
    chain: ChainId,
    summary: String,
    #[serde(with = "form")]
    transaction: Vec<u8>,
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    signer: Option<Vec<u8>>,
    #[serde(with = "form::optional", default, skip_serializing_if = "Option::is_none")]
    sponsor: Option<Vec<u8>>,
}

impl TransactionFile {
    /// The document of a draft.
    pub fn write(draft: &Draft) -> String {
        let bytes = |found: &Option<Authorization>| found.as_ref().map(|a| a.encode().to_vec());
        let file = Self {
            chain: draft.chain,
            summary: draft.summary(),
            transaction: draft.transaction.encode().to_vec(),
            signer: bytes(&draft.signer),
            sponsor: bytes(&draft.sponsor),
        };
        let mut text = serde_json::to_string_pretty(&file).expect("texts and numbers are JSON");
        text.push('\n');
        text
    }

    /// The draft of a document, its signatures checked.
    pub fn read(text: &str) -> Result<Draft, TransactionFileError> {
        let file: Self = serde_json::from_str(text)?;
        let mut draft = Draft::new(file.chain, Transaction::decode(file.transaction)?);
        for (bytes, sponsors) in [(file.signer, false), (file.sponsor, true)] {
            if let Some(bytes) = bytes {
                draft.attach(Authorization::decode(bytes)?, sponsors)?;
            }
        }
        Ok(draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        builder::{Facts, TransactionBuilder},
        signatory::Signatory,
    };
    use opengpu_crypto::Keypair;
    use opengpu_types::{Amount, Height, Millis, Nonce, Operation};

    fn signatory() -> Signatory {
        Keypair::ed25519([1; 32]).into()
    }

    fn draft(signatory: &Signatory) -> Draft {
        let facts = Facts {
            chain: ChainId(7),
            height: Height(1),
            time: Millis(0),
            base_fee: Amount(1_000),
        };
        let burn = Operation::Burn { amount: Amount::ONE };
        let builder = TransactionBuilder::new(signatory.account).operation(burn);
        builder.draft(&facts, signatory.into(), Some(Nonce(0))).unwrap().0
    }

    #[test]
    fn a_document_survives_with_and_without_signature() {
        let signatory = signatory();
        let mut draft = draft(&signatory);
        assert_eq!(TransactionFile::read(&TransactionFile::write(&draft)).unwrap(), draft);
        draft.sign(&signatory).unwrap();
        assert_eq!(TransactionFile::read(&TransactionFile::write(&draft)).unwrap(), draft);
    }

    #[test]
    fn a_signature_of_another_transaction_is_noticed() {
        let signatory = signatory();
        let mut signed = draft(&signatory);
        signed.sign(&signatory).unwrap();
        signed.transaction.nonce = Nonce(1);
        let error = TransactionFile::read(&TransactionFile::write(&signed)).unwrap_err();
        assert!(matches!(error, TransactionFileError::Signature(_)), "{error}");
    }
}
