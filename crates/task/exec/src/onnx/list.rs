//! The pictures of an input: one picture, or an archive of them (tar), in their order.

use crate::fault::Fault;
use std::ops::RangeInclusive;
use tar::{Archive, EntryType};

/// Pictures of one input.
const MOST: usize = 65_536;
/// Characters of a name that are told again.
const NAME: usize = 256;

/// One picture, not yet looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item<'a> {
    /// As the archive calls it.
    pub name: String,
    /// Its file.
    pub bytes: &'a [u8],
}

/// All pictures of an input.
pub(super) fn items(input: &[u8]) -> Result<Vec<Item<'_>>, Fault> {
    // The mark of an archive comes after the first name and its rights.
    if input.get(257..262) != Some(b"ustar".as_slice()) {
        return Ok(vec![Item { name: String::new(), bytes: input }]);
    }
    let mut items = Vec::new();
    for entry in Archive::new(input).entries().map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        match entry.header().entry_type() {
            EntryType::Directory | EntryType::XGlobalHeader => continue,
            EntryType::Regular | EntryType::Continuous => {}
            _ => return Err(wrong("it holds more than files and folders")),
        }
        if items.len() == MOST {
            return Err(wrong(format_args!("it holds more than {MOST} pictures")));
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).chars().take(NAME).collect();
        let bytes = slice(input, entry.raw_file_position(), entry.size());
        items.push(Item { name, bytes: bytes.ok_or_else(|| wrong("it is cut off"))? });
    }
    Ok(items)
}

/// Those of some steps.
pub(super) fn of_steps<'a>(
    input: &'a [u8],
    steps: &RangeInclusive<u64>,
) -> Result<impl Iterator<Item = Item<'a>>, Fault> {
    let before = usize::try_from(steps.start().saturating_sub(1)).unwrap_or(usize::MAX);
    let last = usize::try_from(*steps.end()).unwrap_or(usize::MAX);
    Ok(items(input)?.into_iter().take(last).skip(before))
}

fn slice(input: &[u8], from: u64, length: u64) -> Option<&[u8]> {
    let from = usize::try_from(from).ok()?;
    let end = from.checked_add(usize::try_from(length).ok()?)?;
    input.get(from..end)
}

fn wrong(reason: impl std::fmt::Display) -> Fault {
    Fault::Input { reason: format!("the archive of pictures: {reason}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for (name, bytes) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(u64::try_from(bytes.len()).unwrap());
            archive.append_data(&mut header, name, *bytes).unwrap();
        }
        archive.into_inner().unwrap()
    }

    #[test]
    fn an_archive_is_its_files_in_their_order_and_all_else_is_one_picture() {
        let long = "deep/".repeat(30) + "b.png";
        let bytes = archive(&[("a.png", b"first"), (&long, b""), ("c.png", &[7; 600])]);
        let found = items(&bytes).unwrap();
        let names: Vec<&str> = found.iter().map(|item| item.name.as_str()).collect();
        assert_eq!(names, ["a.png", &long, "c.png"]);
        assert_eq!(found[0].bytes, b"first");
        assert_eq!(found[2].bytes, [7; 600]);
        let some: Vec<_> = of_steps(&bytes, &(2..=3)).unwrap().collect();
        assert_eq!(some, found[1..]);
        assert_eq!(items(b"picture").unwrap(), [Item { name: String::new(), bytes: b"picture" }]);
    }

    #[test]
    fn an_archive_that_is_cut_off_or_holds_links_is_refused() {
        let whole = archive(&[("a.png", &[7; 600]), ("b.png", &[8; 600])]);
        for length in [700, 1_000, 1_600, 2_100] {
            assert!(matches!(items(&whole[..length]), Err(Fault::Input { .. })), "{length}");
        }
        let mut archive = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(EntryType::Symlink);
        header.set_size(0);
        archive.append_link(&mut header, "a.png", "/etc/passwd").unwrap();
        let bytes = archive.into_inner().unwrap();
        assert!(matches!(items(&bytes), Err(Fault::Input { .. })));
    }
}
