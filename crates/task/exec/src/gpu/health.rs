//! What a device says about itself: errors that belong to an operation, and its end.
//!
//! Without a listener the layer below turns every error into a panic. Here each operation listens
//! while it lasts, and what comes at another time is kept and told to the next operation.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    time::Duration,
};

use super::{GpuError, error::cut};

/// Whether a device still works.
#[derive(Debug, Default)]
pub(super) struct Health {
    lost: OnceLock<String>,
    failed: OnceLock<String>,
}

impl Health {
    /// Listens to a device from now on.
    pub(super) fn watch(device: &wgpu::Device) -> Arc<Self> {
        let health = Arc::new(Self::default());
        let listener = Arc::clone(&health);
        device.set_device_lost_callback(move |_, reason| listener.lose(&reason));
        let listener = Arc::clone(&health);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            // The first one counts: the others follow from it.
            let _ = listener.failed.set(cut(error.to_string()));
        }));
        health
    }

    /// Keeps that the device is gone.
    pub(super) fn lose(&self, reason: &str) {
        let _ = self.lost.set(cut(reason.to_owned()));
    }

    /// Waits for a device, or only looks at what is done if there is no timeout.
    ///
    /// The layer below panics when a device is lost while somebody waits for it. Nothing of ours is
    /// held meanwhile, so the panic can end here.
    pub(super) fn poll(
        &self,
        device: &wgpu::Device,
        timeout: Option<Duration>,
    ) -> Result<(), GpuError> {
        let how = match timeout {
            Some(_) => wgpu::PollType::Wait { submission_index: None, timeout },
            None => wgpu::PollType::Poll,
        };
        match catch_unwind(AssertUnwindSafe(|| device.poll(how))) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(wgpu::PollError::Timeout)) => {
                Err(GpuError::Timeout { after: timeout.unwrap_or_default() })
            }
            Ok(Err(error)) => Err(GpuError::Driver { reason: cut(error.to_string()) }),
            Err(_) => {
                self.lose("it failed while somebody waited for it");
                self.check()
            }
        }
    }

    /// An error if the device is gone, or failed while nobody listened.
    pub(super) fn check(&self) -> Result<(), GpuError> {
        if let Some(reason) = self.lost.get() {
            return Err(GpuError::Lost { reason: reason.clone() });
        }
        match self.failed.get() {
            Some(reason) => Err(GpuError::Driver { reason: reason.clone() }),
            None => Ok(()),
        }
    }
}

/// Does something with a device and listens to its errors meanwhile.
pub(super) fn scoped<T>(device: &wgpu::Device, work: impl FnOnce() -> T) -> Result<T, wgpu::Error> {
    let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
    let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
    let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
    let done = work();
    // In the opposite order, and all of them before one is looked at.
    let validation = pollster::block_on(validation.pop());
    let memory = pollster::block_on(memory.pop());
    let internal = pollster::block_on(internal.pop());
    match memory.or(internal).or(validation) {
        Some(error) => Err(error),
        None => Ok(done),
    }
}
