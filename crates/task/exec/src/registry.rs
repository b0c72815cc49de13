//! Which back end runs which kind of program, in this build.

use crate::backend::{Backend, Missing, Prepared};
use crate::fault::Refusal;
use crate::program::{Kind, Program};
use crate::supervisor::{DEVICE, SEPARATOR};
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
    /// The same with this back end for a kind.
    #[must_use]
    pub fn with(mut self, kind: Kind, backend: Box<dyn Backend>) -> Self {
        self.0.insert(kind, backend);
        self
    }

    /// The back ends that an executor may have: those that need walls around it, or those that build
    /// their own and would not work behind them.
    pub(crate) fn behind(mut self, walls: bool) -> Self {
        self.0.retain(|kind, _| (*kind == Kind::Native) != walls);
        self
    }

    /// What this machine has for programs of each kind.
    pub fn probe(&self) -> Vec<(Kind, Result<String, Missing>)> {
        self.0.iter().map(|(kind, backend)| (*kind, backend.probe())).collect()
    }

    /// Makes a program ready.
    pub fn prepare(&mut self, program: &Program) -> Result<Box<dyn Prepared>, Refusal> {
        let kind = program.manifest.kind;
        let Some(backend) = self.0.get_mut(&kind) else {
            return Err(Refusal::Machine {
                reason: format!("this executor cannot run programs of kind `{kind}`"),
            });
        };
        if let Ok(device) = std::env::var(DEVICE) {
            check_device(kind, &device)?;
        }
        backend.prepare(program)
    }
}

/// The device that every machine has, and that most kinds of programs compute on.
const PROCESSOR: &str = "cpu";

/// Whether programs of a kind can compute on the devices that somebody chose for them.
fn check_device(kind: Kind, device: &str) -> Result<(), Refusal> {
    match kind {
        _ if device.contains(SEPARATOR) && !kind.spreads() => Err(Refusal::Machine {
            reason: format!("programs of kind `{kind}` use one device: ask for one"),
        }),
        // It opens the device itself, and says what is wrong with it.
        Kind::Gpu => Ok(()),
        _ if device == PROCESSOR => Ok(()),
        // A module may order kernels later.
        #[cfg(feature = "gpu")]
        Kind::Wasm => crate::gpu::chosen().map(drop),
        _ => Err(Refusal::Machine {
            reason: format!(
                "programs of kind `{kind}` use no GPU: leave the device `{device}` out, or name \
                 `{PROCESSOR}`"
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_computes_on_the_processor_takes_no_other_device() {
        for kind in [Kind::Llm, Kind::Train, Kind::Onnx, Kind::Native] {
            assert_eq!(check_device(kind, "cpu"), Ok(()));
            let refused = check_device(kind, "10de-2684-0").unwrap_err().to_string();
            assert!(refused.contains(&format!("kind `{kind}` use no GPU")), "{refused}");
        }
    }

    #[test]
    fn whoever_cannot_use_several_devices_takes_one() {
        for kind in [Kind::Wasm, Kind::Llm, Kind::Train, Kind::Onnx, Kind::Native] {
            let refused = check_device(kind, "10de-2684-0,10de-2684-1").unwrap_err().to_string();
            assert!(refused.contains(&format!("kind `{kind}` use one device")), "{refused}");
        }
        assert_eq!(check_device(Kind::Gpu, "10de-2684-0,10de-2684-1"), Ok(()));
    }
}
