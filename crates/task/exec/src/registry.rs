//! Which back end runs which kind of program, in this build.

use crate::backend::{Backend, Prepared};
use crate::fault::Refusal;
use crate::program::{Kind, Program};
use std::collections::BTreeMap;

/// The back ends of this build.
pub struct Registry(BTreeMap<Kind, Box<dyn Backend>>);

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Default for Registry {
    fn default() -> Self {
        let mut backends: BTreeMap<Kind, Box<dyn Backend>> = BTreeMap::new();
        #[cfg(feature = "wasm")]
        backends.insert(Kind::Wasm, Box::new(crate::wasm::Wasm));
        #[cfg(feature = "gpu")]
        backends.insert(Kind::Gpu, Box::new(crate::gpu::Kernels));
        #[cfg(feature = "llm")]
        {
            backends.insert(Kind::Llm, Box::new(crate::llm::Models));
            backends.insert(Kind::Train, Box::new(crate::train::Training));
        }
        #[cfg(all(feature = "onnx", target_os = "linux"))]
        backends.insert(Kind::Onnx, Box::new(crate::onnx::Networks));
        #[cfg(target_os = "linux")]
        backends.insert(Kind::Native, Box::new(crate::native::Scripts));
        Self(backends)
    }
}

impl Registry {
    /// Makes a program ready.
    pub fn prepare(&mut self, program: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        let kind = program.manifest.kind;
        let Some(backend) = self.0.get_mut(&kind) else {
            return Err(Refusal::Machine {
                reason: format!("this build cannot run programs of kind `{kind}`"),
            });
        };
        backend.prepare(program)
    }
}
