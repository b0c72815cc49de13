//! Pictures: PNG, JPEG, PPM and PGM, all as points of eight bits for red, green and blue.
//!
//! What a file claims is checked before memory is taken for it. Every decoder gives the same points
//! on every machine. Transparency is dropped.

use png::{ColorType, Transformations};
use std::io::Cursor;
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;
use zune_jpeg::zune_core::colorspace::ColorSpace;
use zune_jpeg::zune_core::options::DecoderOptions;

/// Points of a side.
pub(super) const SIDE: u32 = 16_384;
/// Points of a picture.
const POINTS: u64 = 1 << 25;
/// Bytes that a decoder may take.
const BYTES: usize = 256 << 20;

/// Red, green and blue.
pub(super) type Point = [u8; 3];

/// A picture, row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    pub width: u32,
    pub height: u32,
    pub points: Vec<Point>,
}

/// Why a file is no picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PictureError {
    /// None of the kinds.
    #[error("it is not PNG, JPEG, PPM or PGM")]
    Kind,
    /// More than is looked at.
    #[error(
        "it has {width} x {height} points; a side has at most {SIDE}, all of it at most {POINTS}"
    )]
    Size {
        /// As it says.
        width: u64,
        /// As it says.
        height: u64,
    },
    /// It is damaged, or of a variety that is not read.
    #[error("it cannot be read: {reason}")]
    Damaged {
        /// Why.
        reason: String,
    },
}

impl Picture {
    /// Reads a picture of any kind.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, PictureError> {
        match bytes {
            [0x89, b'P', b'N', b'G', ..] => png(bytes),
            [0xff, 0xd8, 0xff, ..] => jpeg(bytes),
            [b'P', b'5', rest @ ..] => netpbm(rest, 1),
            [b'P', b'6', rest @ ..] => netpbm(rest, 3),
            _ => Err(PictureError::Kind),
        }
    }

    /// From samples, so many for each point: grey, or red, green and blue; then transparency.
    fn new(size: (u32, u32), samples: &[u8], each: u8) -> Result<Self, PictureError> {
        let point = |samples: &[u8]| match samples {
            [red, green, blue, ..] => Some([*red, *green, *blue]),
            [grey, ..] => Some([*grey; 3]),
            [] => None,
        };
        let points: Vec<Point> =
            samples.chunks_exact(usize::from(each)).filter_map(point).collect();
        let (width, height) = size;
        let wanted = u64::from(width).saturating_mul(u64::from(height));
        if u64::try_from(points.len()) != Ok(wanted) {
            return Err(damaged("it has too few points"));
        }
        Ok(Self { width, height, points })
    }
}

/// A size that is looked at.
fn size(width: u64, height: u64) -> Result<(u32, u32), PictureError> {
    let side = |side: u64| u32::try_from(side).ok().filter(|side| (1..=SIDE).contains(side));
    match (side(width), side(height)) {
        (Some(w), Some(h)) if width.saturating_mul(height) <= POINTS => Ok((w, h)),
        _ => Err(PictureError::Size { width, height }),
    }
}

fn png(bytes: &[u8]) -> Result<Picture, PictureError> {
    let mut decoder =
        png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: BYTES });
    decoder.set_transformations(Transformations::normalize_to_color8());
    decoder.set_ignore_text_chunk(true);
    decoder.set_ignore_iccp_chunk(true);
    let head = decoder.read_header_info().map_err(damaged)?;
    let size = size(head.width.into(), head.height.into())?;
    let mut reader = decoder.read_info().map_err(damaged)?;
    let length = reader.output_buffer_size().filter(|length| *length <= BYTES);
    let mut samples = vec![0; length.ok_or_else(|| damaged("it is too large"))?];
    let frame = reader.next_frame(&mut samples).map_err(damaged)?;
    if (frame.width, frame.height) != size {
        return Err(damaged("it does not fill its size"));
    }
    let each = match frame.color_type {
        ColorType::Grayscale => 1,
        ColorType::GrayscaleAlpha => 2,
        ColorType::Rgb => 3,
        ColorType::Rgba => 4,
        ColorType::Indexed => return Err(damaged("its palette is missing")),
    };
    Picture::new(size, &samples, each)
}

fn jpeg(bytes: &[u8]) -> Result<Picture, PictureError> {
    let side = usize::try_from(SIDE).unwrap_or(usize::MAX);
    let options = DecoderOptions::new_safe()
        .set_max_width(side)
        .set_max_height(side)
        .set_strict_mode(true)
        .jpeg_set_out_colorspace(ColorSpace::RGB);
    let mut decoder = JpegDecoder::new_with_options(ZCursor::new(bytes), options);
    decoder.decode_headers().map_err(damaged)?;
    let head = decoder.info().ok_or_else(|| damaged("it has no head"))?;
    let size = size(head.width.into(), head.height.into())?;
    let samples = decoder.decode().map_err(damaged)?;
    Picture::new(size, &samples, 3)
}

/// What follows the mark: three numbers, one space, and the samples.
fn netpbm(mut rest: &[u8], each: u8) -> Result<Picture, PictureError> {
    let mut number = || {
        let (number, after) = decimal(rest)?;
        rest = after;
        Some(number)
    };
    let head = number().zip(number()).zip(number());
    let ((width, height), most) = head.ok_or_else(|| damaged("its head is not three numbers"))?;
    if most != 255 {
        return Err(damaged("its samples do not have eight bits"));
    }
    let size = size(width, height)?;
    let samples = rest.get(1..).unwrap_or_default();
    let length = width.saturating_mul(height).saturating_mul(each.into());
    let samples = usize::try_from(length).ok().and_then(|length| samples.get(..length));
    Picture::new(size, samples.ok_or_else(|| damaged("it is cut off"))?, each)
}

/// A number after spaces and comments.
fn decimal(mut bytes: &[u8]) -> Option<(u64, &[u8])> {
    loop {
        bytes = bytes.trim_ascii_start();
        if bytes.first() != Some(&b'#') {
            break;
        }
        let line = bytes.iter().position(|byte| *byte == b'\n')?;
        bytes = bytes.get(line..)?;
    }
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = bytes.split_at_checked(digits)?;
    Some((std::str::from_utf8(digits).ok()?.parse().ok()?, rest))
}

fn damaged(reason: impl std::fmt::Display) -> PictureError {
    PictureError::Damaged { reason: reason.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sixteen by eight points: the left half is red, the right half is blue.
    const JPEG: &str = concat!(
        "ffd8ffe000104a46494600010100000100010000ffdb004300100b0c0e0c0a100e0d0e1211101318281a",
        "181616183123251d283a333d3c3933383740485c4e404457453738506d51575f626768673e4d71797064",
        "785c656763ffdb0043011112121815182f1a1a2f63423842636363636363636363636363636363636363",
        "6363636363636363636363636363636363636363636363636363636363636363ffc00011080008001003",
        "011100021101031101ffc40014000100000000000000000000000000000005ffc4001410010000000000",
        "0000000000000000000000ffc400160101010100000000000000000000000000070506ffc40014110100",
        "000000000000000000000000000000ffda000c03010002110311003f00152dbc0e501cbfffd9",
    );

    fn encoded(width: u32, height: u32, colour: ColorType, samples: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(colour);
        encoder.write_header().unwrap().write_image_data(samples).unwrap();
        bytes
    }

    #[test]
    fn every_kind_gives_red_green_and_blue() {
        let two = |points: [Point; 2]| Picture { width: 2, height: 1, points: points.to_vec() };
        let wanted = two([[1, 2, 3], [4, 5, 6]]);
        assert_eq!(Picture::read(b"P6 2 1 255\n\x01\x02\x03\x04\x05\x06").unwrap(), wanted);
        let commented = b"P6\n# a comment 7\n2\n#\n1 255 \x01\x02\x03\x04\x05\x06";
        assert_eq!(Picture::read(commented).unwrap(), wanted);
        let coloured = encoded(2, 1, ColorType::Rgb, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(Picture::read(&coloured).unwrap(), wanted);
        let clear = encoded(2, 1, ColorType::Rgba, &[1, 2, 3, 0, 4, 5, 6, 255]);
        assert_eq!(Picture::read(&clear).unwrap(), wanted);
        let grey = two([[7; 3], [8; 3]]);
        assert_eq!(Picture::read(b"P5 2 1 255\n\x07\x08").unwrap(), grey);
        assert_eq!(Picture::read(&encoded(2, 1, ColorType::Grayscale, &[7, 8])).unwrap(), grey);
    }

    #[test]
    fn a_photograph_is_close_to_what_was_painted() {
        let picture = Picture::read(&hex::decode(JPEG).unwrap()).unwrap();
        assert_eq!((picture.width, picture.height), (16, 8));
        for (index, point) in picture.points.iter().enumerate() {
            let wanted: Point = if index % 16 < 8 { [255, 0, 0] } else { [0, 0, 255] };
            let near = point.iter().zip(wanted).all(|(found, wanted)| found.abs_diff(wanted) < 8);
            assert!(near, "{index}: {point:?}");
        }
    }

    #[test]
    fn a_claim_of_many_points_takes_no_memory() {
        let mut large = Vec::new();
        drop(png::Encoder::new(&mut large, SIDE, SIDE).write_header().unwrap());
        assert!(matches!(Picture::read(&large), Err(PictureError::Size { .. })));
        let mut jpeg = hex::decode(JPEG).unwrap();
        let frame = jpeg.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
        jpeg[frame + 5..frame + 9].copy_from_slice(&[0x3f, 0xff, 0x3f, 0xff]);
        assert!(matches!(Picture::read(&jpeg), Err(PictureError::Size { .. })));
        for size in ["16385 1", "1 99999999999", "16384 16384", "0 5"] {
            let found = Picture::read(format!("P6 {size} 255\n").as_bytes());
            assert!(matches!(found, Err(PictureError::Size { .. })), "{size}");
        }
    }

    #[test]
    fn what_is_cut_off_or_no_picture_is_refused() {
        assert_eq!(Picture::read(b""), Err(PictureError::Kind));
        assert_eq!(Picture::read(b"GIF89a"), Err(PictureError::Kind));
        let noise: Vec<u8> = (0..=255u8).cycle().take(64 * 64 * 3).collect();
        let whole = encoded(64, 64, ColorType::Rgb, &noise);
        for bytes in [&whole[..whole.len() / 2], b"P6 2 1 255\n\x01", b"P5 1 1 65535\n\0\0", b"P5"]
        {
            assert!(matches!(Picture::read(bytes), Err(PictureError::Damaged { .. })));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_changed_there_is_an_answer(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let noise: Vec<u8> = (0..=255u8).cycle().take(16 * 16 * 3).collect();
            for mut bytes in [hex::decode(JPEG).unwrap(), encoded(16, 16, ColorType::Rgb, &noise)] {
                let place = at.index(bytes.len());
                bytes[place] ^= 1 << bit;
                let _ = Picture::read(&bytes);
                let _ = Picture::read(&bytes[..place]);
            }
        }
    }
}
