//! A key and the account that it signs for.
//!
//! An account is named after its first key, and goes on under that name when it is given another one.

use opengpu_crypto::Keypair;
use opengpu_types::Address;

/// Who acts: an account, by its key.
#[derive(Clone, Debug)]
pub struct Signatory {
    /// The account.
    pub account: Address,
    /// Its key, which is named otherwise if the account was given another one.
    pub keypair: Keypair,
}

/// A key and the account that is named after it.
impl From<Keypair> for Signatory {
    fn from(keypair: Keypair) -> Self {
        Self { account: keypair.address(), keypair }
    }
}
