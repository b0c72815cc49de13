//! Models that pass for the reference, made from its own file: no other one is fetched.
//!
//! The file that tests have is of four bits (`Q4_1`). The reference is what executors make of it: the
//! same weights as numbers of eight bits. All others come from these.

use candle_core::quantized::{GgmlDType, QTensor, gguf_file};
use candle_core::{Device, Result};
use std::fs::File;
use std::path::Path;

/// Layers that the smaller model lacks, of thirty: from the middle, where a network misses them least.
const LACKING: std::ops::Range<u32> = 14..17;
const LAYERS: &str = "llama.block_count";

/// What is made of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// Eight bits: what is asked for.
    Reference,
    /// The same weights as floats: honest, by other arithmetic.
    Floats,
    /// The layers in coarser numbers; the first and the last matrix stay, as converters leave them.
    Coarser(GgmlDType),
    /// The reference with fewer layers: another model, and a cheaper one.
    Smaller,
}

impl Variant {
    /// Writes the model.
    pub(super) fn write(self, from: &Path, to: &Path) -> Result<()> {
        let mut file = File::open(from)?;
        let content = gguf_file::Content::read(&mut file)?;
        let mut names: Vec<&String> = content.tensor_infos.keys().collect();
        names.sort();
        let mut tensors = Vec::new();
        for name in names {
            let tensor = content.tensor(&mut file, name, &Device::Cpu)?;
            if let Some(name) = self.rename(name) {
                tensors.push((name, self.convert(tensor)?));
            }
        }
        let metadata: Vec<_> = content
            .metadata
            .iter()
            .map(|(key, value)| (key.as_str(), self.value(key, value)))
            .collect();
        let metadata: Vec<_> = metadata.iter().map(|(key, value)| (*key, value)).collect();
        let tensors: Vec<_> =
            tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
        gguf_file::write(&mut File::create(to)?, &metadata, &tensors)
    }

    /// What a tensor is called; none if it is left out.
    fn rename(self, name: &str) -> Option<String> {
        let layer = name.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
        let layer = layer.and_then(|(number, part)| Some((number.parse::<u32>().ok()?, part)));
        match layer {
            Some((number, _)) if self == Self::Smaller && LACKING.contains(&number) => None,
            Some((number, part)) if self == Self::Smaller && number >= LACKING.end => {
                let less = LACKING.end.saturating_sub(LACKING.start);
                Some(format!("blk.{}.{part}", number.saturating_sub(less)))
            }
            _ => Some(name.to_owned()),
        }
    }

    fn value(self, key: &str, value: &gguf_file::Value) -> gguf_file::Value {
        match value {
            gguf_file::Value::U32(layers) if key == LAYERS && self == Self::Smaller => {
                let less = LACKING.end.saturating_sub(LACKING.start);
                gguf_file::Value::U32(layers.saturating_sub(less))
            }
            other => other.clone(),
        }
    }

    fn convert(self, tensor: QTensor) -> Result<QTensor> {
        let again =
            |tensor: &QTensor, kind| QTensor::quantize(&tensor.dequantize(&Device::Cpu)?, kind);
        match (tensor.dtype(), self) {
            (GgmlDType::Q8_0, Self::Floats) => again(&tensor, GgmlDType::F32),
            (GgmlDType::Q4_1, _) => {
                let reference = again(&tensor, GgmlDType::Q8_0)?;
                match self {
                    Self::Reference | Self::Smaller => Ok(reference),
                    Self::Floats => again(&reference, GgmlDType::F32),
                    Self::Coarser(kind) => again(&reference, kind),
                }
            }
            _ => Ok(tensor),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_model_has_no_gap_in_its_layers() {
        let name = |number: u32| Variant::Smaller.rename(&format!("blk.{number}.attn_q.weight"));
        let kept: Vec<String> = (0..30).filter_map(name).collect();
        let expected: Vec<String> = (0..27).map(|it| format!("blk.{it}.attn_q.weight")).collect();
        assert_eq!(kept, expected);
        let layers = Variant::Smaller.value(LAYERS, &gguf_file::Value::U32(30));
        assert!(matches!(layers, gguf_file::Value::U32(27)));
        let embedding = Variant::Smaller.rename("token_embd.weight");
        assert_eq!(embedding.as_deref(), Some("token_embd.weight"));
    }
}
