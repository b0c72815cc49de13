//! The bodies of the fuzz targets for files that people check offline.
//!
//! Like `targets.rs`, but with types of `opengpu-light`; a test of that crate runs them over
//! `light_corpus/` and over random bytes.

use opengpu_light::{Evidence, ReceiptBundle, StateBundle};
use opengpu_types::{ChainId, MarketParameters};

type Body = fn(&[u8]);

/// Every target by its name.
pub(crate) const TARGETS: &[(&str, Body)] = &[("decode_audit", audit)];

/// Runs the target of this name.
pub(crate) fn run(name: &str, bytes: &[u8]) {
    let (_, body) = TARGETS.iter().find(|(known, _)| *known == name).expect("a known target");
    body(bytes);
}

/// Bytes are no evidence, or the one encoding of some; and to replay it ends, whatever it says.
fn audit(bytes: &[u8]) {
    let _ = ReceiptBundle::from_bytes(bytes);
    let _ = StateBundle::from_bytes(bytes);
    let Ok(evidence) = Evidence::from_bytes(bytes) else { return };
    assert_eq!(evidence.to_bytes(), bytes);
    for parameters in [MarketParameters::LOCAL, MarketParameters::UNAUDITED] {
        let _ = evidence.retrace(ChainId(7), &parameters);
    }
}
