//! The shape of wire types that are a fixed number of raw bytes.
//!
//! Such a type makes no promise about its content: a key may be no point of its curve. Whoever
//! uses the bytes checks them, and decoding stays cheap.

/// Declares a newtype over `[u8; $size]` with its codec and hexadecimal text.
macro_rules! fixed_bytes {
    ($(#[$meta:meta])* $name:ident, $size:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $size]);

        impl $name {
            /// Wraps raw bytes without checking them.
            pub const fn new(bytes: [u8; $size]) -> Self {
                Self(bytes)
            }

            /// The raw bytes.
            pub const fn as_bytes(&self) -> &[u8; $size] {
                &self.0
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(&::hex::encode(self.0))
            }
        }

        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }

        impl ::commonware_codec::Write for $name {
            fn write(&self, buf: &mut impl ::bytes::BufMut) {
                self.0.write(buf);
            }
        }

        impl ::commonware_codec::FixedSize for $name {
            const SIZE: usize = $size;
        }

        impl ::commonware_codec::Read for $name {
            type Cfg = ();

            fn read_cfg(
                buf: &mut impl ::commonware_codec::Buf,
                (): &(),
            ) -> Result<Self, ::commonware_codec::Error> {
                <[u8; $size] as ::commonware_codec::ReadExt>::read(buf).map(Self)
            }
        }
    };
}

pub(crate) use fixed_bytes;
