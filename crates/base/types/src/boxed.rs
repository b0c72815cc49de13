//! A heap-allocated field, encoded as the value itself: keeps enums with one large variant small.

use bytes::BufMut;
use commonware_codec::{Buf, EncodeSize, Error, Read, Write};
use std::ops::{Deref, DerefMut};

/// A `Box` with the codec of its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Boxed<T>(Box<T>);

impl<T> Boxed<T> {
    /// Puts a value on the heap.
    pub fn new(value: T) -> Self {
        Self(Box::new(value))
    }

    /// Takes it back.
    pub fn into_inner(self) -> T {
        *self.0
    }
}

impl<T> Deref for Boxed<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Boxed<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Write> Write for Boxed<T> {
    fn write(&self, buf: &mut impl BufMut) {
        self.0.as_ref().write(buf);
    }
}

impl<T: EncodeSize> EncodeSize for Boxed<T> {
    fn encode_size(&self) -> usize {
        self.0.as_ref().encode_size()
    }
}

impl<T: Read> Read for Boxed<T> {
    type Cfg = T::Cfg;
    fn read_cfg(buf: &mut impl Buf, cfg: &T::Cfg) -> Result<Self, Error> {
        T::read_cfg(buf, cfg).map(Self::new)
    }
}

impl<T> From<T> for Boxed<T> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}
