//! Frames: a length in four bytes, big-endian, then so many bytes.
//!
//! The length is checked before anything is allocated, and memory grows with what arrives, not with
//! what was announced.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// The longest frame.
pub const MAX_FRAME: usize = 1 << 20;

/// Read at once at most.
const STEP: usize = 64 << 10;

/// Why there is no frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Over [`MAX_FRAME`].
    #[error("a frame of {length} bytes is over the limit of {MAX_FRAME}")]
    TooLong {
        /// Bytes announced, or given to be sent.
        length: u64,
    },
    /// The stream failed, or ended within a frame.
    #[error("the stream failed")]
    Stream(#[from] std::io::Error),
}

/// The next frame; none at the end of the stream.
pub(crate) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
) -> Result<Option<Bytes>, FrameError> {
    let mut header = [0; 4];
    let Some((first, rest)) = header.split_first_mut() else { return Ok(None) };
    if stream.read(std::slice::from_mut(first)).await? == 0 {
        return Ok(None);
    }
    stream.read_exact(rest).await?;
    let length = u32::from_be_bytes(header);
    let wanted = usize::try_from(length).unwrap_or(usize::MAX);
    if wanted > MAX_FRAME {
        return Err(FrameError::TooLong { length: length.into() });
    }
    let mut frame = BytesMut::with_capacity(wanted.min(STEP));
    while frame.len() < wanted {
        let start = frame.len();
        frame.resize(start.saturating_add(STEP).min(wanted), 0);
        stream.read_exact(frame.get_mut(start..).unwrap_or_default()).await?;
    }
    Ok(Some(frame.freeze()))
}

/// Sends one frame of these parts.
pub(crate) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    parts: &[&[u8]],
) -> Result<(), FrameError> {
    let length = parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.len()));
    let announced = u32::try_from(length).ok().filter(|_| length <= MAX_FRAME);
    let Some(announced) = announced else {
        return Err(FrameError::TooLong { length: u64::try_from(length).unwrap_or(u64::MAX) });
    };
    let header = announced.to_be_bytes();
    let frame: Vec<u8> = [&[header.as_slice()], parts].concat().concat();
    Ok(stream.write_all(&frame).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_frame_is_its_length_and_its_bytes() {
        let mut sent = Vec::new();
        write(&mut sent, &[b"ab", b"c"]).await.unwrap();
        write(&mut sent, &[]).await.unwrap();
        assert_eq!(sent, [0, 0, 0, 3, b'a', b'b', b'c', 0, 0, 0, 0]);
        let mut stream = sent.as_slice();
        assert_eq!(read(&mut stream).await.unwrap().unwrap().as_ref(), b"abc");
        assert_eq!(read(&mut stream).await.unwrap().unwrap().as_ref(), b"");
        assert!(read(&mut stream).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_frame_over_the_limit_is_refused_at_its_length() {
        // Nothing but the length is there: whoever waited for more would fail in another way.
        let announced = u32::try_from(MAX_FRAME).unwrap().saturating_add(1).to_be_bytes();
        let refused = read(&mut announced.as_slice()).await;
        assert!(matches!(refused, Err(FrameError::TooLong { .. })), "{refused:?}");
        let long = vec![0; MAX_FRAME];
        assert!(write(&mut Vec::new(), &[&long]).await.is_ok());
        let refused = write(&mut Vec::new(), &[&long, b"x"]).await;
        assert!(matches!(refused, Err(FrameError::TooLong { .. })));
    }

    #[tokio::test]
    async fn a_frame_that_ends_early_is_an_error() {
        for length in 1..7 {
            let mut stream = &[0, 0, 0, 3, b'a', b'b', b'c'][..length];
            assert!(read(&mut stream).await.is_err(), "{length}");
        }
    }
}
