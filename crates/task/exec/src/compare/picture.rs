//! Which bytes of an output are the samples of a picture.

use crate::program::Manifest;
use opengpu_verify::compare::perceptual::Picture;

/// An output as a picture: what the manifest says it is, or a PGM or PPM file. A segment may hold some
/// rows only. None if it is no picture.
pub(super) fn picture<'a>(manifest: &Manifest, output: &'a [u8]) -> Option<Picture<'a>> {
    let index = |number: u32| usize::try_from(number).ok();
    let (width, channels, samples) = match manifest.picture {
        Some(picture) => (index(picture.width)?, index(picture.channels)?, output),
        None => portable(output)?,
    };
    Picture::new(width, channels, samples)
}

/// Width, channels and samples of a PGM or PPM file with samples of eight bits.
fn portable(output: &[u8]) -> Option<(usize, usize, &[u8])> {
    let mut rest = output;
    let mut word = || {
        let end = rest.iter().position(u8::is_ascii_whitespace)?;
        let (word, after) = rest.split_at_checked(end)?;
        rest = after.get(1..)?;
        std::str::from_utf8(word).ok()
    };
    let channels = match word()? {
        "P5" => 1,
        "P6" => 3,
        _ => return None,
    };
    let width: usize = word()?.parse().ok()?;
    let height: usize = word()?.parse().ok()?;
    let samples = width.checked_mul(height)?.checked_mul(channels)?;
    (word()? == "255" && rest.len() == samples).then_some((width, channels, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_itself_how_wide_it_is() {
        let text = b"name = 'a'\nkind = 'wasm'\nclass = 'perceptual'";
        let manifest = Manifest::parse(text).unwrap();
        let file = [b"P6 2 1 255\n".as_slice(), &[1, 2, 3, 4, 5, 6]].concat();
        let expected = Picture::new(2, 3, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(picture(&manifest, &file), expected);
        for wrong in [
            b"P6 2 1 255\n12345".as_slice(),
            b"P6 2 1 65535\n",
            b"P6 0 0 255\n",
            b"P4 8 1 255\nx",
            b"P6 99999999999999999999 1 255\n",
            b"P6 4294967296 4294967296 255\n",
            b"P6",
            b"",
        ] {
            assert!(picture(&manifest, wrong).is_none(), "{wrong:?}");
        }
    }
}
