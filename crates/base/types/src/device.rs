//! What devices are and can do.

use crate::{Text, codec::codec_struct, set::members};

members! {
    /// A kind of program.
    ProgramKind {
        /// A WebAssembly module.
        0 => Wasm "wasm",
        /// A kernel for a device.
        1 => Gpu "gpu",
        /// A language model.
        2 => Llm "llm",
        /// A script or an image in a sandbox.
        3 => Native "native",
        /// A network that looks at pictures.
        4 => Onnx "onnx",
        /// The built-in trainer.
        5 => Train "train",
    }
}

impl ProgramKind {
    /// Whether every run of it burns fuel, which is counted alike on all machines.
    pub const fn burns_fuel(self) -> bool {
        matches!(self, Self::Wasm)
    }

    /// Whether programs of it can compute on several devices at once. Of the kinds that can, a program
    /// that carries a state from step to step cannot.
    pub const fn spreads(self) -> bool {
        matches!(self, Self::Gpu)
    }
}

members! {
    /// Numbers in which a device computes at full speed.
    Precision {
        /// 64-bit floats.
        0 => F64 "f64",
        /// 32-bit floats.
        1 => F32 "f32",
        /// 16-bit floats.
        2 => F16 "f16",
        /// 16-bit floats with a long exponent.
        3 => Bf16 "bf16",
        /// 8-bit integers.
        4 => Int8 "int8",
    }
}

members! {
    /// By which way programs reach a device.
    Runtime {
        /// The processor alone.
        0 => Cpu "cpu",
        /// Vulkan, Metal or DX12, by one interface.
        1 => Wgpu "wgpu",
        /// NVIDIA's own.
        2 => Cuda "cuda",
        /// AMD's own.
        3 => Rocm "rocm",
        /// Apple's own.
        4 => Metal "metal",
    }
}

members! {
    /// What of a device a benchmark measures.
    Measure {
        /// Millions of 32-bit float operations a second.
        0 => Floats "floats",
        /// Millions of 32-bit integer operations a second.
        1 => Integers "integers",
        /// Millions of operations of a matrix product a second.
        2 => Products "products",
        /// MiB of memory read and written a second.
        3 => Memory "memory",
    }
}

/// The measured benchmark result of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rating {
    /// Millions of 32-bit float operations a second.
    pub floats: u64,
    /// Millions of 32-bit integer operations a second.
    pub integers: u64,
    /// Millions of operations of a matrix product a second.
    pub products: u64,
    /// MiB of memory read and written a second.
    pub memory: u64,
}

codec_struct!(Rating { floats, integers, products, memory });

impl Rating {
    /// One of its figures.
    pub const fn of(&self, measure: Measure) -> u64 {
        match measure {
            Measure::Floats => self.floats,
            Measure::Integers => self.integers,
            Measure::Products => self.products,
            Measure::Memory => self.memory,
        }
    }
}

/// Devices that are alike, such as `nvidia-rtx-4090` or `software-llvmpipe`.
pub type DeviceClass = Text<48>;

/// Where devices are, such as `eu-west`.
pub type Region = Text<32>;

/// How much work something is, in the unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Work {
    /// Millions of operations, or MiB.
    pub amount: u64,
    /// Which figure of a rating decides how long it takes.
    pub measure: Measure,
}

codec_struct!(Work { amount, measure });
