//! Entries of the state by key, with proofs of what stands there or that nothing does.

use super::{
    Api,
    problem::{Answer, Refused},
    transactions::Since,
};
use axum::{
    Json,
    extract::{Path, Query, State, rejection::QueryRejection},
    http::header,
    response::IntoResponse,
};
use commonware_codec::{DecodeExt as _, Encode as _};
use opengpu_client::api::{StateInfo, hex_from_text};
use opengpu_light::StateBundle;
use opengpu_types::Key;
use serde::Deserialize;

/// What a request adds to the path.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Wishes {
    #[serde(default)]
    proof: bool,
}

/// An entry, and its proof if wished.
pub(super) async fn entry(
    State(api): State<Api>,
    Path(key): Path<String>,
    wishes: Result<Query<Wishes>, QueryRejection>,
) -> Answer<Json<StateInfo>> {
    let key = key_of(&key)?;
    let Query(wishes) = wishes.map_err(|error| Refused::bad_request(error.body_text()))?;
    let view = api.view().await?;
    let (entry, proof) = if wishes.proof {
        let (entry, proof) = view.prove(key).await?;
        (entry, Some(proof.to_bytes()))
    } else {
        (view.get(key).await?, None)
    };
    let value = entry.map(|entry| entry.encode().to_vec());
    Ok(Json(StateInfo { value, height: view.height(), proof }))
}

/// An entry, or its absence, as a file that can be checked offline.
pub(super) async fn bundle(
    State(api): State<Api>,
    Path(key): Path<String>,
    since: Result<Query<Since>, QueryRejection>,
) -> Answer<impl IntoResponse> {
    let (key, from) = (key_of(&key)?, Since::epoch(since)?);
    let view = api.view().await?;
    let (height, root) = (view.height(), view.root());
    let (entry, proof) = view.prove(key).await?;
    // From here on the network is waited for; the next block must not wait for that.
    drop(view);
    let header = api.0.feed.recorded(move |records| records.header(height)).await?;
    // A node that has just joined has the state of a block that it did not record.
    let header = header.ok_or_else(|| Refused::not_kept(format!("no header of block {height}")))?;
    if header.state.root != root {
        let detail = format!("the state is not that of the recorded block {height}");
        return Err(Refused::internal(detail));
    }
    let steps = api.steps(from, &header).await?;
    let finalized = api.finalized(header).await?;
    let bundle = StateBundle { steps, finalized, key, entry, proof };
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], bundle.to_bytes()))
}

fn key_of(text: &str) -> Answer<Key> {
    let bytes = hex_from_text(text).map_err(|error| Refused::bad_request(error.to_string()))?;
    Key::decode(bytes)
        .map_err(|error| Refused::bad_request(format!("`{text}` is no key of the state: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opengpu_client::api::hex_text;
    use opengpu_types::Address;

    #[test]
    fn a_key_is_its_canonical_bytes_and_nothing_around_them() {
        let key = Key::Account(Address::new([7; 20]));
        let text = hex_text(&key.encode());
        assert_eq!(key_of(&text).unwrap(), key);
        for wrong in [format!("{text}00"), text[..20].to_owned(), "0x".into(), "xyz".into()] {
            assert_eq!(key_of(&wrong).unwrap_err().code(), "bad-request", "{wrong}");
        }
    }
}
