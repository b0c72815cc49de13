//! The chain and the node: status, blocks, epochs, validators, parameters, supply.
//!
//! Whoever has nothing to do before the next block asks for the status after a height: the answer waits
//! for that block, so that nobody has to ask again and again.

use super::{
    Api,
    problem::{Answer, Refused},
    transactions::Beginning,
    view::{height_of, missing, number_or, parse},
};
use crate::{application::now, block::Block, history::Records};
use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::header,
    response::IntoResponse,
};
use commonware_codec::Encode as _;
use commonware_consensus::types::Height as EngineHeight;
use opengpu_client::api::{
    BlockInfo, EpochInfo, MAX_BATCH, ParametersInfo, Role, Status, SupplyInfo, TransactionPage,
    ValidatorInfo, ValidatorList, paths,
};
use opengpu_types::{Amount, Entry, Epoch, Height, Key, Millis, Parameters};
use serde::Deserialize;
use std::{sync::Arc, time::Duration};

/// A chain without work makes a block every second; one whose last block is older than this has
/// stopped, or this node is behind.
const STALE: Millis = Millis(10_000);
/// How long an answer waits for a block.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

impl Api {
    /// Whether the newest state is not of the present.
    pub(super) fn is_stale(&self, time: Millis) -> bool {
        now(&self.0.context).since(time) > STALE
    }
}

/// What an answer waits for.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Awaited {
    /// A block after this one.
    after: Option<u64>,
    /// At most so many milliseconds.
    wait: Option<u64>,
}

impl Api {
    /// Waits until there is a block after a height, for a while, if there is room to wait.
    async fn wait_for(&self, after: Height, longest: Duration) {
        let Ok(_room) = self.0.waiting.try_acquire() else { return };
        // Subscribed before the look, so that none is missed between the two.
        let mut events = self.0.feed.subscribe();
        if self.view().await.is_ok_and(|view| view.height() > after) {
            return;
        }
        let mut ending = self.0.ending.clone();
        let newer = async { while events.recv().await.is_ok_and(|event| event.height <= after) {} };
        tokio::select! {
            () = newer => {}
            () = tokio::time::sleep(longest) => {}
            _ = ending.changed() => {}
        }
    }
}

/// The node and its chain. A node that has no state yet answers as well.
pub(super) async fn status(
    State(api): State<Api>,
    awaited: Result<Query<Awaited>, QueryRejection>,
) -> Answer<Json<Status>> {
    let Query(awaited) = awaited.map_err(|error| Refused::bad_request(error.body_text()))?;
    if let Some(after) = awaited.after {
        let wait = awaited.wait.map_or(LONGEST_WAIT, Duration::from_millis);
        api.wait_for(Height(after), wait.min(LONGEST_WAIT)).await;
    }
    let inner = &api.0;
    let mut status = Status {
        chain: inner.genesis.chain,
        name: inner.genesis.name.to_string(),
        genesis: inner.genesis_digest,
        height: Height(0),
        recorded_from: Height(0),
        time: inner.genesis.time,
        epoch: Epoch(0),
        node: inner.node,
        role: Role::Follower,
        seats: 0,
        connected_nodes: inner.feed.connected(),
        mempool: u64::try_from(inner.mempool.len()).unwrap_or(u64::MAX),
        syncing: true,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let Ok(view) = api.view().await else { return Ok(Json(status)) };
    let epoch = view.epoch().await?;
    let seats = view.seats(epoch).await?;
    let votes = seats.seats.iter().any(|seat| seat.consensus == inner.node);
    status.height = view.height();
    let first = inner.feed.recorded(Records::first).await?;
    status.recorded_from = first.unwrap_or(status.height);
    status.time = view.chain().time;
    status.epoch = epoch;
    status.role = if votes { Role::Validator } else { Role::Follower };
    status.seats = u32::try_from(seats.seats.len()).unwrap_or(u32::MAX);
    status.syncing = api.is_stale(view.chain().time);
    Ok(Json(status))
}

/// A final block.
pub(super) async fn block(
    State(api): State<Api>,
    Path(height): Path<String>,
) -> Answer<Json<BlockInfo>> {
    let wanted = height_of(&height)?;
    let newest = api.view().await?.height();
    let height = wanted.unwrap_or(newest);
    let block = api.block(height, newest).await?;
    let certificate = api.0.feed.certificate(height).await;
    Ok(Json(BlockInfo::new(block.wire(), certificate)))
}

impl Api {
    /// A final block, of which the newest has another height.
    async fn block(&self, height: Height, newest: Height) -> Answer<Arc<Block>> {
        if height > newest {
            return Err(Refused::not_found(format!("block {height} is not final; {newest} is")));
        }
        let block = self.0.feed.marshal().get_block(EngineHeight::new(height.0)).await;
        let missing = || Refused::not_kept(format!("this node does not keep block {height}"));
        Ok(block.ok_or_else(missing)?.inner_shared())
    }
}

/// Some transactions of a final block, as bytes; none behind the last one.
pub(super) async fn block_transactions(
    State(api): State<Api>,
    Path(height): Path<String>,
    from: Result<Query<Beginning>, QueryRejection>,
) -> Answer<impl IntoResponse> {
    let height = Height(parse(&height, "a height")?);
    let from = Beginning::place(from)?;
    let newest = api.view().await?.height();
    let block = api.block(height, newest).await?;
    let from = usize::try_from(from).unwrap_or(usize::MAX);
    // All of a block is no more than a page may have in bytes.
    let page = block.transactions().iter().skip(from).take(MAX_BATCH).cloned().collect();
    let page = TransactionPage::new(page).map_err(Refused::internal)?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], page.encode().to_vec()))
}

/// The seats of an epoch.
pub(super) async fn epoch(
    State(api): State<Api>,
    Path(epoch): Path<String>,
) -> Answer<Json<EpochInfo>> {
    let wanted = number_or(&epoch, paths::CURRENT, "an epoch")?.map(Epoch);
    let view = api.view().await?;
    let epoch = match wanted {
        Some(epoch) => epoch,
        None => view.epoch().await?,
    };
    let Some(Entry::Seats(seats)) = view.get(Key::Seats(epoch)).await? else {
        let detail = format!("the state holds no seats of epoch {epoch}");
        return Err(Refused::not_found(detail));
    };
    let (first, last) = heights(epoch, &view.parameters().await?);
    Ok(Json(EpochInfo::new(&seats, first, last)))
}

/// First and last height of an epoch.
const fn heights(epoch: Epoch, parameters: &Parameters) -> (Height, Height) {
    let blocks = parameters.epoch_blocks;
    let first = epoch.0.saturating_mul(blocks);
    (Height(first), Height(first.saturating_add(blocks).saturating_sub(1)))
}

/// All candidates.
pub(super) async fn validators(State(api): State<Api>) -> Answer<Json<ValidatorList>> {
    let view = api.view().await?;
    let epoch = view.epoch().await?;
    let (seats, next) = (view.seats(epoch).await?, view.seats(epoch.plus(1)).await?);
    let Some(Entry::Candidates(candidates)) = view.get(Key::Candidates).await? else {
        return Err(missing(Key::Candidates));
    };
    let mut validators = Vec::with_capacity(candidates.validators.len());
    for address in &candidates.validators {
        let key = Key::Validator(*address);
        let Some(Entry::Validator(validator)) = view.get(key).await? else {
            return Err(missing(key));
        };
        validators.push(ValidatorInfo::new(*address, &validator, &seats, &next));
    }
    Ok(Json(ValidatorList { epoch, validators }))
}

/// Parameters and the fee of the next block.
pub(super) async fn parameters(State(api): State<Api>) -> Answer<Json<ParametersInfo>> {
    let view = api.view().await?;
    let parameters = view.parameters().await?;
    let base_fee = view.chain().base_fee;
    Ok(Json(ParametersInfo { height: view.height(), base_fee, parameters }))
}

/// Where every token is.
pub(super) async fn supply(State(api): State<Api>) -> Answer<Json<SupplyInfo>> {
    let view = api.view().await?;
    match view.get(Key::Supply).await? {
        Some(Entry::Supply(supply)) => {
            Ok(Json(SupplyInfo { height: view.height(), cap: Amount::CAP, supply: *supply }))
        }
        _ => Err(missing(Key::Supply)),
    }
}
