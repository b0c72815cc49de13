//! Macros that write the canonical codec of a type from the list of its fields.
//!
//! A struct is its fields in order; an enum is one tag byte and the fields of the variant. Reading
//! builds the value from the same list, so a forgotten field does not compile. Crates above that have
//! wire types of their own use the same macros; they name `bytes` and `commonware_codec` themselves.

/// Codec of a struct: its fields in the given order, no framing.
#[macro_export]
macro_rules! codec_struct {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl commonware_codec::Write for $name {
            fn write(&self, buf: &mut impl bytes::BufMut) {
                $( commonware_codec::Write::write(&self.$field, buf); )*
                let _ = buf;
            }
        }
        impl commonware_codec::EncodeSize for $name {
            fn encode_size(&self) -> usize {
                0 $( + commonware_codec::EncodeSize::encode_size(&self.$field) )*
            }
        }
        impl commonware_codec::Read for $name {
            type Cfg = ();
            fn read_cfg(
                buf: &mut impl commonware_codec::Buf,
                _: &(),
            ) -> Result<Self, commonware_codec::Error> {
                $( let $field = commonware_codec::ReadExt::read(buf)?; )*
                Ok(Self { $($field),* })
            }
        }
    };
}

/// Codec of an enum: a tag byte, then the variant's fields. Unknown tags are refused.
#[macro_export]
macro_rules! codec_enum {
    ($name:ident { $($tag:literal => $variant:ident $({ $($field:ident),* $(,)? })? $(( $inner:ident ))?),* $(,)? }) => {
        impl commonware_codec::Write for $name {
            fn write(&self, buf: &mut impl bytes::BufMut) {
                match self {
                    $( Self::$variant $({ $($field),* })? $(( $inner ))? => {
                        buf.put_u8($tag);
                        $( $( commonware_codec::Write::write($field, buf); )* )?
                        $( commonware_codec::Write::write($inner, buf); )?
                    } )*
                }
            }
        }
        impl commonware_codec::EncodeSize for $name {
            fn encode_size(&self) -> usize {
                match self {
                    $( Self::$variant $({ $($field),* })? $(( $inner ))? => {
                        1 $( $( + commonware_codec::EncodeSize::encode_size($field) )* )?
                          $( + commonware_codec::EncodeSize::encode_size($inner) )?
                    } )*
                }
            }
        }
        impl commonware_codec::Read for $name {
            type Cfg = ();
            fn read_cfg(
                buf: &mut impl commonware_codec::Buf,
                _: &(),
            ) -> Result<Self, commonware_codec::Error> {
                let tag = <u8 as commonware_codec::ReadExt>::read(buf)?;
                match tag {
                    $( $tag => {
                        $( $( let $field = commonware_codec::ReadExt::read(buf)?; )* )?
                        $( let $inner = commonware_codec::ReadExt::read(buf)?; )?
                        Ok(Self::$variant $({ $($field),* })? $(( $inner ))?)
                    } )*
                    other => Err(commonware_codec::Error::InvalidEnum(other)),
                }
            }
        }
    };
}

/// Codec of a newtype over a fixed-size value.
#[macro_export]
macro_rules! codec_newtype {
    ($name:ident($inner:ty)) => {
        impl commonware_codec::Write for $name {
            fn write(&self, buf: &mut impl bytes::BufMut) {
                commonware_codec::Write::write(&self.0, buf);
            }
        }
        impl commonware_codec::FixedSize for $name {
            const SIZE: usize = <$inner as commonware_codec::FixedSize>::SIZE;
        }
        impl commonware_codec::Read for $name {
            type Cfg = ();
            fn read_cfg(
                buf: &mut impl commonware_codec::Buf,
                _: &(),
            ) -> Result<Self, commonware_codec::Error> {
                <$inner as commonware_codec::ReadExt>::read(buf).map(Self)
            }
        }
    };
}

pub(crate) use {codec_enum, codec_newtype, codec_struct};
