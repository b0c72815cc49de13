//! As much of Ethereum as it takes to send a token transfer: RLP, EIP-155, JSON-RPC in batches.

use crate::error::BenchError;
use k256::ecdsa::SigningKey;
use opengpu_crypto::keccak256;
use serde_json::{Value, json};
use std::time::Duration;
use ureq::Agent;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Gas of a plain transfer.
const GAS: u64 = 21_000;

/// A transfer of native tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transfer {
    pub(crate) chain: u64,
    pub(crate) nonce: u64,
    pub(crate) gas_price: u64,
    pub(crate) to: [u8; 20],
    pub(crate) value: u64,
}

impl Transfer {
    /// The raw transaction, signed (EIP-155).
    pub(crate) fn sign(&self, key: &SigningKey) -> Vec<u8> {
        let body = [
            number(&self.nonce.to_be_bytes()),
            number(&self.gas_price.to_be_bytes()),
            number(&GAS.to_be_bytes()),
            text(&self.to),
            number(&self.value.to_be_bytes()),
            text(&[]),
        ];
        let chain = number(&self.chain.to_be_bytes());
        let signed = list(body.iter().chain(&[chain, text(&[]), text(&[])]));
        let (signature, recovery) = key.sign_prehash_recoverable(&keccak256(&[&signed]));
        let parity = u64::from(recovery.is_y_odd());
        let v = self.chain.saturating_mul(2).saturating_add(35).saturating_add(parity);
        let (r, s) = signature.split_bytes();
        let proof = [number(&v.to_be_bytes()), number(&r), number(&s)];
        list(body.iter().chain(&proof))
    }
}

/// RLP of a number: its big-endian bytes without leading zeros.
fn number(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    text(bytes.get(zeros..).unwrap_or_default())
}

/// RLP of bytes.
fn text(bytes: &[u8]) -> Vec<u8> {
    match bytes {
        [byte] if *byte < 0x80 => vec![*byte],
        _ => prefixed(0x80, bytes),
    }
}

/// RLP of a list of items that are encoded already.
fn list<'a>(items: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let content: Vec<u8> = items.flatten().copied().collect();
    prefixed(0xc0, &content)
}

fn prefixed(base: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let short = u8::try_from(length).ok().filter(|length| *length <= 55);
    let mut out = match short {
        Some(length) => vec![base.saturating_add(length)],
        None => {
            let bytes = length.to_be_bytes();
            let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
            let digits = bytes.get(zeros..).unwrap_or_default();
            let count = u8::try_from(digits.len()).unwrap_or(u8::MAX);
            let mut head = vec![base.saturating_add(55).saturating_add(count)];
            head.extend_from_slice(digits);
            head
        }
    };
    out.extend_from_slice(content);
    out
}

/// A call of JSON-RPC.
pub(crate) fn call(id: usize, method: &str, parameters: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters })
}

/// An Ethereum node.
#[derive(Clone, Debug)]
pub(crate) struct EthereumRpc {
    agent: Agent,
    url: String,
}

impl EthereumRpc {
    pub(crate) fn new(url: &str) -> Self {
        let config = Agent::config_builder().proxy(None).timeout_global(Some(PATIENCE));
        let agent = config.build().new_agent();
        Self { agent, url: url.to_owned() }
    }

    /// Asks one thing.
    pub(crate) fn ask(&self, method: &str, parameters: Value) -> Result<Value, BenchError> {
        let answer: Value = self.post(&call(0, method, parameters).to_string())?;
        let result = answer.get("result").cloned();
        result.ok_or_else(|| BenchError::Peer(answer.to_string()))
    }

    /// Sends a batch that is already JSON; the results, in the sequence of the answers.
    pub(crate) fn batch(&self, body: &str) -> Result<Vec<Value>, BenchError> {
        let Value::Array(answers) = self.post(body)? else {
            return Err(BenchError::Peer("no list of answers".to_owned()));
        };
        let results = answers.into_iter().map(|answer| {
            let result = answer.get("result").cloned();
            result.ok_or_else(|| BenchError::Peer(answer.to_string()))
        });
        results.collect()
    }

    fn post(&self, body: &str) -> Result<Value, BenchError> {
        let failed = |error: ureq::Error| BenchError::Peer(error.to_string());
        let request = self.agent.post(&self.url).content_type("application/json");
        let mut response = request.send(body).map_err(failed)?;
        response.body_mut().read_json().map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of EIP-155.
    #[test]
    fn a_transfer_is_signed_as_the_standard_shows() {
        let key = SigningKey::from_slice(&[0x46; 32]).unwrap();
        let transfer = Transfer {
            chain: 1,
            nonce: 9,
            gas_price: 20_000_000_000,
            to: [0x35; 20],
            value: 1_000_000_000_000_000_000,
        };
        let wanted = concat!(
            "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025",
            "a028ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276",
            "a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83",
        );
        assert_eq!(hex::encode(transfer.sign(&key)), wanted);
    }

    #[test]
    fn zero_is_the_empty_number() {
        assert_eq!(number(&0u64.to_be_bytes()), [0x80]);
        assert_eq!(number(&5u64.to_be_bytes()), [5]);
        assert_eq!(number(&1_024u64.to_be_bytes()), [0x82, 4, 0]);
    }
}
