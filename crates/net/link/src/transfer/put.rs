//! Having something kept elsewhere.

use commonware_codec::{DecodeExt as _, Encode as _};

use super::get::Progress;
use super::wire::{KEEP, Keep, News};
use crate::session::{Session, SessionError};

/// Why something is not kept elsewhere.
#[derive(Debug, thiserror::Error)]
pub enum PutError {
    /// The other end took it on and did not manage.
    #[error("the other end could not fetch it")]
    Failed,
    /// The other end does not want it, or is gone.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// Has the other end fetch an artifact from us and keep it; returns the bytes that had to be sent.
/// Our endpoint must answer as a [`super::Holder`] of it.
pub async fn put(
    session: &Session,
    wish: Keep,
    progress: impl Fn(Progress),
) -> Result<u64, PutError> {
    let (_, mut stream) = session.ask(KEEP, &wish.encode()).await?;
    stream.finish();
    loop {
        let news = stream.next().await?.ok_or(SessionError::Broken("no end of the news"))?;
        let news = News::decode(news).map_err(|_| SessionError::Broken("not news"))?;
        let done = match news {
            News::Fetched { done } => done,
            News::Kept { .. } => wish.size,
            News::Failed => return Err(PutError::Failed),
        };
        progress(Progress { artifact: wish.artifact, done: done.min(wish.size), size: wish.size });
        if let News::Kept { sent } = news {
            return Ok(sent);
        }
    }
}
