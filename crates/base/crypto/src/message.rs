//! What an account signs: one set of facts, three forms.
//!
//! Whoever knows operations prepares a [`SigningMessage`]; here it becomes the bytes of each form.
//!
//! The EIP-712 domain has no `chainId`. A wallet refuses typed data whose `chainId` differs from
//! the Ethereum network it is connected to, and ours is none of those. The chain is bound by the
//! `salt`, and again by the body.

use crate::hash::{Digest, keccak256};

/// `name` of the EIP-712 domain.
pub const EIP712_NAME: &str = "OpenGPU";
/// `version` of the EIP-712 domain.
pub const EIP712_VERSION: &str = "1";

const DOMAIN_TYPE: &[u8] = b"EIP712Domain(string name,string version,bytes32 salt)";
const TRANSACTION_TYPE: &[u8] = b"Transaction(string action,bytes32 body)";

/// The facts that a signature covers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SigningMessage {
    /// Hash over a domain, the chain id and the canonical encoding of what is signed.
    pub body: Digest,
    /// A summary for people, naming the chain; derived from the same content as `body`.
    pub text: String,
    /// The chain on which the signature counts.
    pub chain_id: u64,
}

/// The text that a wallet shows for `personal_sign`.
pub fn eip191_text(message: &SigningMessage) -> String {
    format!("{}\n\nBody: 0x{}", message.text, hex::encode(message.body))
}

/// The digest that `personal_sign` signs.
pub fn eip191_digest(message: &SigningMessage) -> [u8; 32] {
    let text = eip191_text(message);
    let prefix = format!("\x19Ethereum Signed Message:\n{}", text.len());
    keccak256(&[prefix.as_bytes(), text.as_bytes()])
}

/// `salt` of the EIP-712 domain: our chain id.
pub fn eip712_salt(chain_id: u64) -> [u8; 32] {
    keccak256(&[b"opengpu/chain", &chain_id.to_be_bytes()])
}

/// The digest that `eth_signTypedData_v4` signs, for the primary type
/// `Transaction(string action,bytes32 body)`.
pub fn eip712_digest(message: &SigningMessage) -> [u8; 32] {
    let domain = keccak256(&[
        &keccak256(&[DOMAIN_TYPE]),
        &keccak256(&[EIP712_NAME.as_bytes()]),
        &keccak256(&[EIP712_VERSION.as_bytes()]),
        &eip712_salt(message.chain_id),
    ]);
    let content = keccak256(&[
        &keccak256(&[TRANSACTION_TYPE]),
        &keccak256(&[message.text.as_bytes()]),
        message.body.as_ref(),
    ]);
    keccak256(&[b"\x19\x01", &domain, &content])
}
