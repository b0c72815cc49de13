//! What the operations on words compute.

use super::{
    code::{Binary, Op, Unary},
    machine::{get, room, set},
};

/// An operation of two words. All are defined for all words; the normalising pass takes care that
/// devices see only those that they define.
#[inline]
pub(super) fn binary(op: Binary, left: u32, right: u32) -> u32 {
    let (a, b) = (left.cast_signed(), right.cast_signed());
    match op {
        Binary::Add => left.wrapping_add(right),
        Binary::Sub => left.wrapping_sub(right),
        Binary::Mul => left.wrapping_mul(right),
        Binary::DivU => left.checked_div(right).unwrap_or(left),
        Binary::DivS => a.checked_div(b).unwrap_or(a).cast_unsigned(),
        Binary::RemU => left.checked_rem(right).unwrap_or(0),
        Binary::And => left & right,
        Binary::Or => left | right,
        Binary::Xor => left ^ right,
        Binary::Shl => left.wrapping_shl(right),
        Binary::ShrU => left.wrapping_shr(right),
        Binary::ShrS => a.wrapping_shr(right).cast_unsigned(),
        Binary::Eq => u32::from(left == right),
        Binary::Ne => u32::from(left != right),
        Binary::LtU => u32::from(left < right),
        Binary::LtS => u32::from(a < b),
        Binary::LeU => u32::from(left <= right),
        Binary::LeS => u32::from(a <= b),
        Binary::MinU => left.min(right),
        Binary::MinS => a.min(b).cast_unsigned(),
        Binary::MaxU => left.max(right),
        Binary::MaxS => a.max(b).cast_unsigned(),
        Binary::DotI8 => {
            let products = left.to_le_bytes().into_iter().zip(right.to_le_bytes());
            products
                .fold(0i32, |sum, (x, y)| {
                    let (x, y) = (i32::from(x.cast_signed()), i32::from(y.cast_signed()));
                    sum.wrapping_add(x.wrapping_mul(y))
                })
                .cast_unsigned()
        }
        Binary::DotU8 => {
            let products = left.to_le_bytes().into_iter().zip(right.to_le_bytes());
            products
                .fold(0u32, |sum, (x, y)| sum.wrapping_add(u32::from(x).wrapping_mul(u32::from(y))))
        }
    }
}

/// An operation of one word.
#[inline]
pub(super) fn unary(op: Unary, word: u32) -> u32 {
    // What the language says where there is no such bit.
    const NONE: u32 = u32::MAX;
    let byte = |index: u8| word.to_le_bytes().get(usize::from(index)).copied().unwrap_or(0);
    match op {
        Unary::Not => !word,
        Unary::Neg => word.wrapping_neg(),
        Unary::Ones => word.count_ones(),
        Unary::LeadingZeros => word.leading_zeros(),
        Unary::TrailingZeros => word.trailing_zeros(),
        Unary::Reverse => word.reverse_bits(),
        Unary::FirstLeadingU => word.checked_ilog2().unwrap_or(NONE),
        Unary::FirstLeadingS => {
            // The first bit that differs from the sign.
            let differing = if word.cast_signed() < 0 { !word } else { word };
            differing.checked_ilog2().unwrap_or(NONE)
        }
        Unary::FirstTrailing => {
            if word == 0 {
                NONE
            } else {
                word.trailing_zeros()
            }
        }
        Unary::ByteU(index) => u32::from(byte(index)),
        Unary::ByteS(index) => i32::from(byte(index).cast_signed()).cast_unsigned(),
    }
}

/// Bits of a word that an offset and a count choose. Both are within a word.
fn mask(offset: u32, count: u32) -> u32 {
    let bits = if count >= 32 { u32::MAX } else { 1u32.wrapping_shl(count).wrapping_sub(1) };
    bits.checked_shl(offset).unwrap_or(0)
}

fn extract(signed: bool, word: u32, offset: u32, count: u32) -> u32 {
    let low = word.checked_shr(offset).unwrap_or(0) & mask(0, count);
    let unused = 32u32.saturating_sub(count);
    if signed && count > 0 {
        low.wrapping_shl(unused).cast_signed().wrapping_shr(unused).cast_unsigned()
    } else {
        low
    }
}

/// The operations that are about more words, within a frame. None outside of it.
pub(super) fn wide(frame: &mut [u32], op: &Op) -> Option<()> {
    match *op {
        Op::Copy { to, from, count } => {
            let start = usize::from(from);
            let end = start.checked_add(usize::from(count))?;
            room(frame, to, count)?;
            frame.get(start..end)?;
            frame.copy_within(start..end, usize::from(to));
        }
        Op::LoadFrame { to, base, offset, count } => {
            let more = usize::try_from(get(frame, offset)).ok()?;
            let start = usize::from(base).checked_add(more)?;
            let end = start.checked_add(usize::from(count))?;
            room(frame, to, count)?;
            frame.get(start..end)?;
            frame.copy_within(start..end, usize::from(to));
        }
        Op::StoreFrame { base, offset, from, count } => {
            let more = usize::try_from(get(frame, offset)).ok()?;
            let to = usize::from(base).checked_add(more)?;
            let (start, count) = (usize::from(from), usize::from(count));
            frame.get(to..to.checked_add(count)?)?;
            let end = start.checked_add(count)?;
            frame.get(start..end)?;
            frame.copy_within(start..end, to);
        }
        Op::Extract { signed, to, from, offset, count } => {
            let word = get(frame, from);
            let bits = extract(signed, word, get(frame, offset), get(frame, count));
            set(frame, to, bits);
        }
        Op::Insert { to, into, from, offset, count } => {
            let offset = get(frame, offset);
            let mask = mask(offset, get(frame, count));
            let bits = get(frame, from).checked_shl(offset).unwrap_or(0);
            let word = get(frame, into);
            set(frame, to, (word & !mask) | (bits & mask));
        }
        Op::Pack { to, from } => {
            let mut bytes = [0; 4];
            for (byte, word) in bytes.iter_mut().zip(room(frame, from, 4)?) {
                [*byte, ..] = word.to_le_bytes();
            }
            set(frame, to, u32::from_le_bytes(bytes));
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: u32 = 0x8000_0000;

    #[test]
    fn division_has_an_answer_for_every_pair() {
        assert_eq!(binary(Binary::DivU, 7, 0), 7);
        assert_eq!(binary(Binary::RemU, 7, 0), 0);
        assert_eq!(binary(Binary::DivS, LEAST, u32::MAX), LEAST);
        assert_eq!(binary(Binary::DivS, LEAST, 0), LEAST);
        assert_eq!(binary(Binary::DivS, 7u32.wrapping_neg(), 2), 3u32.wrapping_neg());
    }

    #[test]
    fn bits_are_found_and_moved() {
        assert_eq!(unary(Unary::FirstLeadingU, 0), u32::MAX);
        assert_eq!(unary(Unary::FirstLeadingS, u32::MAX), u32::MAX);
        assert_eq!(unary(Unary::FirstLeadingS, 0xFFFF_FFFE), 0);
        assert_eq!(unary(Unary::FirstTrailing, 0), u32::MAX);
        assert_eq!(unary(Unary::FirstTrailing, 12), 2);
        assert_eq!(extract(false, 0xABCD_1234, 4, 8), 0x23);
        assert_eq!(extract(true, 0x0000_00F0, 4, 4), u32::MAX);
        assert_eq!(extract(true, 0xABCD_1234, 0, 32), 0xABCD_1234);
        assert_eq!(extract(false, 0xABCD_1234, 32, 0), 0);
        assert_eq!(mask(28, 4), 0xF000_0000);
        assert_eq!(mask(0, 32), u32::MAX);
    }

    #[test]
    fn packed_bytes_are_multiplied_with_or_without_sign() {
        assert_eq!(binary(Binary::DotI8, 0x0102_03FF, 0x0101_0102), 6 - 2);
        assert_eq!(binary(Binary::DotU8, 0x0102_03FF, 0x0101_0102), 6 + 510);
        assert_eq!(unary(Unary::ByteS(0), 0x0000_0080), 128u32.wrapping_neg());
    }
}
