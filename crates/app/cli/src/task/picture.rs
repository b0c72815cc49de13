//! Outputs that are pictures, as files that everybody can look at.

use crate::exit::{Complaint, Exit};
use anyhow::Result;
use opengpu_exec::program::Picture;

/// A PNG of samples, row by row.
pub(crate) fn png(shape: Picture, samples: &[u8]) -> Result<Vec<u8>> {
    let wrong = || Complaint::new(Exit::Failed, "the output is not the picture that it should be");
    let colour = match shape.channels {
        1 => png::ColorType::Grayscale,
        3 => png::ColorType::Rgb,
        4 => png::ColorType::Rgba,
        _ => return Err(wrong().into()),
    };
    let row = u64::from(shape.width).saturating_mul(u64::from(shape.channels));
    let length = u64::try_from(samples.len())?;
    let height = length.checked_div(row).filter(|height| height.saturating_mul(row) == length);
    let height = u32::try_from(height.filter(|height| *height > 0).ok_or_else(wrong)?)?;
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, shape.width, height);
    encoder.set_color(colour);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(samples)?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_read_again_and_another_shape_is_none() {
        let samples: Vec<u8> = (0..24).collect();
        let bytes = png(Picture { width: 2, channels: 4 }, &samples).unwrap();
        let decoder = png::Decoder::new(std::io::Cursor::new(bytes));
        let mut reader = decoder.read_info().unwrap();
        assert_eq!((reader.info().width, reader.info().height), (2, 3));
        let mut read = vec![0; 24];
        reader.next_frame(&mut read).unwrap();
        assert_eq!(read, samples);
        assert!(png(Picture { width: 5, channels: 4 }, &samples).is_err());
        assert!(png(Picture { width: 2, channels: 2 }, &samples).is_err());
        assert!(png(Picture { width: 2, channels: 4 }, &[]).is_err());
    }
}
