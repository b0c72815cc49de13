//! Who gets in, what each may read, and what each may leave here.
//!
//! | who | gets in | reads | leaves |
//! |---|---|---|---|
//! | client of a lease | yes | what its lease shows | inputs, while it is open and there is room |
//! | client of what is held here | yes | what is held of its leases | nothing |
//! | another provider | yes | what we want it to hold, or it may run again | what may be held ([`Custody`]) |
//! | anybody else | no | | |

use crate::board::Board;
use crate::core::Input;
use crate::custody::Custody;
use crate::desk::Inbox;
use crate::lending::Lent;
use crate::readers::Shown;
use crate::room::Room;
use opengpu_link::EndpointId;
use opengpu_link::Store;
use opengpu_link::session::Gate;
use opengpu_link::transfer::{Keep, Policy, Turn};
use opengpu_types::ArtifactId;
use tracing::warn;

/// The door of an agent.
#[derive(Clone)]
pub(crate) struct Door {
    pub(crate) board: Board,
    pub(crate) custody: Custody,
    pub(crate) lent: Lent,
    pub(crate) shown: Shown,
    pub(crate) store: Store,
    pub(crate) room: Room,
    pub(crate) inbox: Inbox,
}

impl Door {
    /// Whether what a client sends can be kept, as it comes and opened. If not, its leases that did not
    /// begin are given back.
    fn has_room(&self, remote: EndpointId, wish: &Keep) -> bool {
        let new = if self.store.contains(&wish.artifact) { 0 } else { wish.size };
        if self.room.has(wish.size.saturating_add(new)) {
            return true;
        }
        for lease in self.board.open_of(remote) {
            warn!(%lease, bytes = wish.size, "no room on the disk for what its client sends");
            self.inbox.tell(Input::NoRoom { lease });
        }
        false
    }
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
            || self.shown.may_read(remote, artifact)
    }

    fn turn(&self, remote: EndpointId, artifact: ArtifactId, bytes: u64) -> Option<Turn> {
        // Clients and holders do not wait.
        let theirs = self.board.may_read(remote, artifact)
            || self.custody.may_read(remote, artifact)
            || self.lent.may_read(remote, artifact);
        if theirs { None } else { self.shown.turn(remote, artifact, bytes) }
    }

    fn may_keep(&self, remote: EndpointId, wish: &Keep) -> bool {
        self.board.may_keep(remote, wish) && self.has_room(remote, wish)
    }
}
