//! What the agent answers in sessions: briefs, news and outputs of leases, to their clients alone.

use crate::board::{Board, Posted};
use crate::core::Input;
use crate::delivery::{Depot, Undelivered};
use crate::desk::Inbox;
use crate::record::Records;
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_link::lease::{BRIEF, Brief, FOLLOW, Follow, OUTPUT, STATE, Standing, Telling, Wanted};
use opengpu_link::session::{Exchange, Refusal, Router, SessionError};
use opengpu_types::{Class, LeaseId};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::spawn_blocking;
use tracing::info;

/// Answers for all leases.
#[derive(Clone)]
pub(crate) struct Reception {
    pub(crate) board: Board,
    pub(crate) depot: Depot,
    pub(crate) records: Records,
    pub(crate) inbox: Inbox,
    /// Leases whose brief is being taken.
    pub(crate) taking: Arc<Mutex<BTreeSet<LeaseId>>>,
}

impl Reception {
    pub(crate) fn answer_on(self, router: Router) -> Router {
        let (a, b, c, d) = (self.clone(), self.clone(), self.clone(), self);
        router
            .on(BRIEF, move |exchange| a.clone().brief(exchange))
            .on(FOLLOW, move |exchange| b.clone().follow(exchange))
            .on(OUTPUT, move |exchange| c.clone().output(exchange))
            .on(STATE, move |exchange| d.clone().state(exchange))
    }

    async fn brief(self, exchange: Exchange) -> Result<(), SessionError> {
        let Ok(brief) = Brief::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        let lease = brief.lease;
        let Some(posted) = self.board.of_client(lease, exchange.session.remote()) else {
            return exchange.refuse(Refusal::Denied).await;
        };
        let Some(_place) = self.enter(lease) else {
            return exchange.refuse(Refusal::Busy).await;
        };
        let own = self.clone();
        let taken = spawn_blocking(move || own.take(&posted, &brief)).await;
        match taken {
            Ok(Ok(())) => exchange.answer(&[]).await,
            Ok(Err(error)) => {
                info!(%lease, %error, "not briefed");
                let refusal = match error {
                    Undelivered::Missing(_) => Refusal::Missing,
                    Undelivered::Wrong(_) => {
                        self.inbox.tell(Input::Misbriefed { lease });
                        Refusal::Invalid
                    }
                    Undelivered::NoRoom => {
                        self.inbox.tell(Input::NoRoom { lease });
                        Refusal::Busy
                    }
                    Undelivered::Failed(_) if self.depot.room.look() => {
                        self.inbox.tell(Input::NoRoom { lease });
                        Refusal::Busy
                    }
                    Undelivered::Failed(_) => Refusal::Failed,
                };
                exchange.refuse(refusal).await
            }
            Err(_) => exchange.refuse(Refusal::Failed).await,
        }
    }

    fn take(&self, posted: &Posted, brief: &Brief) -> Result<(), Undelivered> {
        let lease = brief.lease;
        // A client that did not hear the answer asks again.
        if self.records.leases()?.contains_key(&lease) {
            return Ok(());
        }
        let task = &posted.task;
        let from = task.leases.get(usize::from(lease.number)).and_then(|it| it.from);
        let salt = rand::random();
        let record = self.records.lease(lease);
        self.depot.take(task, from.as_ref(), brief, &record, salt)?;
        self.inbox.tell(Input::Briefed { lease, salt });
        Ok(())
    }

    async fn follow(self, exchange: Exchange) -> Result<(), SessionError> {
        let Ok(Follow { lease, from }) = Follow::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        let Some(posted) = self.board.of_client(lease, exchange.session.remote()) else {
            return exchange.refuse(Refusal::Denied).await;
        };
        let session = exchange.session.clone();
        let telling = Telling { teller: posted.log.teller() };
        let mut stream = exchange.accept(&telling.encode()).await?;
        let mut number = usize::try_from(from).unwrap_or(usize::MAX);
        loop {
            let burst = tokio::select! {
                burst = posted.log.wait(number) => burst,
                () = session.closed() => return Ok(()),
            };
            let Some(burst) = burst else { break };
            stream.send(&burst.encode()).await?;
            number = number.saturating_add(burst.len());
        }
        stream.finish();
        Ok(())
    }

    async fn output(self, exchange: Exchange) -> Result<(), SessionError> {
        let Ok(Wanted { lease }) = Wanted::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        if self.board.of_client(lease, exchange.session.remote()).is_none() {
            return exchange.refuse(Refusal::Denied).await;
        }
        let record = self.records.lease(lease);
        match spawn_blocking(move || record.parcel()).await {
            Ok(Ok(Some(parcel))) => {
                self.board.show(lease, parcel.grant.artifact);
                exchange.answer(&parcel.encode()).await
            }
            Ok(Ok(None)) => exchange.refuse(Refusal::Missing).await,
            _ => exchange.refuse(Refusal::Failed).await,
        }
    }

    async fn state(self, exchange: Exchange) -> Result<(), SessionError> {
        let Ok(Standing { lease, segment }) = Standing::decode(exchange.body.clone()) else {
            return exchange.refuse(Refusal::Invalid).await;
        };
        let Some(posted) = self.board.of_client(lease, exchange.session.remote()) else {
            return exchange.refuse(Refusal::Denied).await;
        };
        // What a predicate judges goes on nowhere, and is nobody's before it is accepted.
        if matches!(posted.task.spec.class, Class::Predicate(_)) {
            return exchange.refuse(Refusal::Missing).await;
        }
        let Some(_place) = self.enter(lease) else {
            return exchange.refuse(Refusal::Busy).await;
        };
        let own = self.clone();
        let packed = spawn_blocking(move || {
            let record = own.records.lease(lease);
            let state = record.state_after(segment)?;
            let path = record.state_file(state.ok_or(std::io::ErrorKind::NotFound)?);
            // It is fetched at once, so nobody holds it: asking often fills no disk.
            own.depot.parcels.pack(&path, posted.task.contact.sealing)
        });
        match packed.await {
            Ok(Ok(parcel)) => {
                self.board.show(lease, parcel.grant.artifact);
                exchange.answer(&parcel.encode()).await
            }
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => {
                exchange.refuse(Refusal::Missing).await
            }
            _ => exchange.refuse(Refusal::Failed).await,
        }
    }

    /// One at a time for each lease.
    fn enter(&self, lease: LeaseId) -> Option<Place> {
        let mut taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        taking.insert(lease).then(|| Place { taking: Arc::clone(&self.taking), lease })
    }
}

struct Place {
    taking: Arc<Mutex<BTreeSet<LeaseId>>>,
    lease: LeaseId,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taking.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.lease);
    }
}
