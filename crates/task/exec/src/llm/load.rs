//! Brings tensors from the file into memory, each checked against the shape that it must have.
//!
//! Places and sizes come from a checked header, so what is read here lies within the file.

use super::gguf::{Header, Tensor as Place};
use super::{ModelError, NetworkError};
use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{Device, Tensor};
use std::borrow::Cow;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::sync::Arc;

/// A file, and what its header says.
#[derive(Debug)]
pub(super) struct Loader<'a> {
    file: File,
    header: &'a Header,
    device: Device,
}

impl<'a> Loader<'a> {
    pub(super) const fn new(file: File, header: &'a Header, device: Device) -> Self {
        Self { file, header, device }
    }

    pub(super) const fn header(&self) -> &'a Header {
        self.header
    }

    pub(super) const fn device(&self) -> &Device {
        &self.device
    }

    /// A tensor in a kind for which there are fast products.
    pub(super) fn quantised(
        &mut self,
        name: &str,
        shape: &[usize],
    ) -> Result<Arc<QTensor>, ModelError> {
        let place = self.header.tensor(name);
        let place = place.ok_or_else(|| ModelError::Missing { tensor: name.to_owned() })?;
        if place.shape != shape {
            return Err(ModelError::Shape {
                tensor: name.to_owned(),
                found: place.shape.clone(),
                expected: shape.to_vec(),
            });
        }
        let tensor = self.read(place)?;
        if !needs_other_kind(place.kind) {
            return Ok(Arc::new(tensor));
        }
        let floats = tensor.dequantize(&self.device).map_err(NetworkError::from)?;
        let tensor = QTensor::quantize(&floats, GgmlDType::Q8_0).map_err(NetworkError::from)?;
        Ok(Arc::new(tensor))
    }

    /// A matrix by which activations are multiplied.
    pub(super) fn matrix(
        &mut self,
        name: &str,
        rows: usize,
        columns: usize,
    ) -> Result<QMatMul, ModelError> {
        let tensor = self.quantised(name, &[rows, columns])?;
        product(tensor)
    }

    /// One number for each of `count` positions of an activation.
    pub(super) fn vector(&mut self, name: &str, count: usize) -> Result<Tensor, ModelError> {
        let tensor = self.quantised(name, &[count])?;
        Ok(tensor.dequantize(&self.device).map_err(NetworkError::from)?)
    }

    /// The numbers of a vector.
    pub(super) fn floats(&mut self, name: &str, count: usize) -> Result<Vec<f32>, ModelError> {
        let vector = self.vector(name, count)?;
        Ok(vector.to_vec1().map_err(NetworkError::from)?)
    }

    fn read(&mut self, place: &Place) -> Result<QTensor, ModelError> {
        self.file.seek(SeekFrom::Start(place.start))?;
        let size = usize::try_from(place.size).map_err(|_| ModelError::TooLarge)?;
        let mut bytes = vec![0; size];
        self.file.read_exact(&mut bytes)?;
        let storage = QStorage::from_data(Cow::Owned(bytes), &self.device, place.kind);
        let tensor = storage.and_then(|storage| QTensor::new(storage, place.shape.as_slice()));
        Ok(tensor.map_err(NetworkError::from)?)
    }
}

/// A tensor as something to multiply by.
pub(super) fn product(tensor: Arc<QTensor>) -> Result<QMatMul, ModelError> {
    Ok(QMatMul::from_arc(tensor).map_err(NetworkError::from)?)
}

/// Kinds whose products are slow become `Q8_0`, which loses nothing that one would notice.
const fn needs_other_kind(kind: GgmlDType) -> bool {
    matches!(kind, GgmlDType::Q4_1 | GgmlDType::Q5_0 | GgmlDType::Q5_1)
}
