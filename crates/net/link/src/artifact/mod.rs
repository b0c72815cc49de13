//! Artifacts as bytes: how they are addressed, encrypted and opened to readers. No sockets, no disk.

mod cipher;
mod grant;
mod groups;
mod outline;

pub(crate) use cipher::fill;
pub use cipher::{
    ArtifactKey, BLOCK, CipherError, Decrypting, Encrypting, OwnerSecret, encrypted_size,
};
pub use grant::Grant;
pub use groups::Groups;
pub use outline::{GROUP, LARGEST, Outline, OutlineError, Outliner, count, row_length};
