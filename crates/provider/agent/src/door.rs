//! Who gets in, what each may read, and what each may leave here.
//!
//! | who | gets in | reads | leaves |
//! |---|---|---|---|
//! | client of a lease | yes | what its lease shows | inputs, while it is open |
//! | client of what is held here | yes | what is held of its leases | nothing |
//! | another provider | yes | what we want it to hold | what may be held ([`Custody`]) |
//! | anybody else | no | | |

use crate::board::Board;
use crate::custody::Custody;
use crate::lending::Lent;
use opengpu_link::EndpointId;
use opengpu_link::session::Gate;
use opengpu_link::transfer::{Keep, Policy};
use opengpu_types::ArtifactId;

/// The door of an agent.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) board: Board,
    pub(crate) custody: Custody,
    pub(crate) lent: Lent,
}

impl Gate for Door {
    fn admits(&self, remote: EndpointId) -> bool {
        self.board.admits(remote) || self.custody.admits(remote)
    }
}

impl Policy for Door {
    fn may_read(&self, remote: EndpointId, artifact: ArtifactId) -> bool {
        self.board.may_read(remote, artifact)
            || self.custody.may_read(remote, artifact)
            || self.lent.may_read(remote, artifact)
    }

    fn may_keep(&self, remote: EndpointId, wish: &Keep) -> bool {
        self.board.may_keep(remote, wish)
    }
}
