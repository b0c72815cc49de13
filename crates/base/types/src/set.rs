//! A few members of a small enum, in one number.

use bytes::BufMut;
use commonware_codec::{Buf, Error, FixedSize, Read, ReadExt as _, Write};
use std::{
    cmp::Ordering,
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
};

/// An enum of which sets are made: at most sixteen members.
pub trait Member: Copy + fmt::Display + 'static {
    /// All of them; the place of a member is its bit.
    const ALL: &'static [Self];

    /// The place of this one.
    fn place(self) -> u32;
}

/// A set of members.
pub struct Set<T>(u16, PhantomData<T>);

impl<T: Member> Set<T> {
    /// Nothing.
    pub const NONE: Self = Self(0, PhantomData);

    /// These members.
    pub fn of(members: &[T]) -> Self {
        members.iter().fold(Self::NONE, |set, member| set.with(*member))
    }

    /// Every member.
    pub fn all() -> Self {
        Self::of(T::ALL)
    }

    /// One more.
    #[must_use]
    pub fn with(self, member: T) -> Self {
        Self(self.0 | bit(member), PhantomData)
    }

    /// Whether it is in.
    pub fn has(self, member: T) -> bool {
        self.0 & bit(member) != 0
    }

    /// Those that are here and not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0, PhantomData)
    }

    /// Whether nothing is in.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The members, in the sequence of the enum.
    pub fn iter(self) -> impl Iterator<Item = T> {
        T::ALL.iter().copied().filter(move |member| self.has(*member))
    }
}

fn bit<T: Member>(member: T) -> u16 {
    1u16.checked_shl(member.place()).unwrap_or(0)
}

impl<T> Clone for Set<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Set<T> {}

impl<T> PartialEq for Set<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Set<T> {}

impl<T> PartialOrd for Set<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Set<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.cmp(&other.0)
    }
}

impl<T> Hash for Set<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.0.hash(hasher);
    }
}

impl<T: Member> Default for Set<T> {
    fn default() -> Self {
        Self::NONE
    }
}

impl<T: Member> fmt::Display for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.iter().map(|member| member.to_string()).collect();
        f.write_str(&words.join(", "))
    }
}

impl<T: Member> fmt::Debug for Set<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl<T> Write for Set<T> {
    fn write(&self, buf: &mut impl BufMut) {
        self.0.write(buf);
    }
}

impl<T> FixedSize for Set<T> {
    const SIZE: usize = u16::SIZE;
}

impl<T: Member> Read for Set<T> {
    type Cfg = ();
    fn read_cfg(buf: &mut impl Buf, (): &()) -> Result<Self, Error> {
        let bits = u16::read(buf)?;
        if bits & !Self::all().0 != 0 {
            return Err(Error::Invalid("Set", "a bit without a member"));
        }
        Ok(Self(bits, PhantomData))
    }
}

/// Declares an enum whose members have a word and make sets.
macro_rules! members {
    ($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $tag:literal => $member:ident $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$about])* $member,)*
        }
        $crate::codec::codec_enum!($name { $($tag => $member),* });
        impl $crate::set::Member for $name {
            const ALL: &'static [Self] = &[$(Self::$member),*];
            fn place(self) -> u32 {
                match self { $(Self::$member => $tag),* }
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $(Self::$member => $word),* })
            }
        }
        impl std::str::FromStr for $name {
            type Err = $crate::set::NoMember;
            fn from_str(word: &str) -> Result<Self, Self::Err> {
                match word {
                    $($word => Ok(Self::$member),)*
                    _ => Err($crate::set::NoMember {
                        word: word.chars().take(40).collect(),
                        known: &[$($word),*],
                    }),
                }
            }
        }
    };
}

pub(crate) use members;

/// A word that names no member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{word}` is none of {}", known.join(", "))]
pub struct NoMember {
    /// What was given.
    pub word: String,
    /// What there is.
    pub known: &'static [&'static str],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Precision;
    use commonware_codec::{DecodeExt as _, Encode as _};

    #[test]
    fn a_set_knows_its_members_and_refuses_others() {
        let set = Set::of(&[Precision::F16, Precision::Int8]);
        assert!(set.has(Precision::F16) && !set.has(Precision::F64));
        assert_eq!(set.to_string(), "f16, int8");
        assert_eq!(Set::<Precision>::all().without(set).iter().count(), 3);
        assert_eq!(Set::<Precision>::decode(set.encode()).unwrap(), set);
        assert!(Set::<Precision>::decode(bytes::Bytes::from_static(&[0x80, 0])).is_err());
        assert_eq!("bf16".parse(), Ok(Precision::Bf16));
        assert!("f8".parse::<Precision>().unwrap_err().to_string().contains("f32"));
    }
}
