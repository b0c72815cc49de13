//! Kernels: compiled with layouts that are said, not guessed.
//!
//! A layout that the compiler guesses leaves out the buffers that a kernel does not touch, and then
//! the buffers do not fit any more. So the bindings are an argument, and a kernel that wants
//! others is wrong.
//!
//! Invariant: compiling happens on a thread of its own. A kernel decides how deep its expressions
//! are, so the stack has a known size; and if the compiler panics, that is an error like others.

use std::{borrow::Cow, thread};

use super::{Buffer, Gpu, GpuError, Space, error::cut, health, wide, within};

/// Bytes of the compiler's stack.
const STACK: usize = 32 << 20;

/// What a kernel is given as.
#[derive(Debug)]
pub enum Code<'a> {
    /// Text in WGSL.
    Wgsl(&'a str),
    /// A module that was read, and perhaps changed, before.
    Naga(Box<naga::Module>),
}

/// What a kernel does with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads few bytes, as `var<uniform>`.
    Uniform,
    /// Reads, as `var<storage, read>`.
    Read,
    /// Reads and writes, as `var<storage, read_write>`.
    Write,
}

impl Access {
    /// The space that a buffer must be made in.
    pub const fn space(self) -> Space {
        match self {
            Self::Uniform => Space::Uniform,
            Self::Read | Self::Write => Space::Storage,
        }
    }
}

/// A buffer that a kernel wants, in group zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Its number in the kernel.
    pub index: u32,
    /// What the kernel does with it.
    pub access: Access,
}

/// A compiled kernel.
#[derive(Debug)]
pub struct Pipeline {
    inner: wgpu::ComputePipeline,
    layout: wgpu::BindGroupLayout,
    bindings: Vec<Binding>,
}

/// A compiled kernel together with its buffers.
#[derive(Clone, Debug)]
pub struct Bound {
    pub(super) pipeline: wgpu::ComputePipeline,
    pub(super) group: wgpu::BindGroup,
}

impl Gpu {
    /// Compiles the function `entry` of a kernel.
    pub fn compile(
        &self,
        code: Code<'_>,
        entry: &str,
        bindings: &[Binding],
    ) -> Result<Pipeline, GpuError> {
        if let Code::Wgsl(text) = &code {
            within("bytes of a kernel", wide(text.len()), wide(self.allowed.kernel))?;
        }
        self.check_bindings(bindings)?;
        self.health.check()?;
        let compiled = thread::scope(|scope| {
            let compiler = thread::Builder::new()
                .name("gpu compiler".to_owned())
                .stack_size(STACK)
                .spawn_scoped(scope, || self.compile_here(code, entry, bindings));
            compiler.map(thread::ScopedJoinHandle::join)
        });
        match compiled {
            Ok(Ok(compiled)) => compiled,
            Ok(Err(_)) => {
                let reason = "the compiler stopped in the middle of it".to_owned();
                Err(GpuError::Kernel { line: None, reason })
            }
            Err(error) => Err(GpuError::Driver { reason: cut(error.to_string()) }),
        }
    }

    /// Gives a kernel its buffers, in the order of its bindings.
    pub fn bind(&self, pipeline: &Pipeline, buffers: &[&Buffer]) -> Result<Bound, GpuError> {
        if buffers.len() != pipeline.bindings.len() {
            let (given, wanted) = (buffers.len(), pipeline.bindings.len());
            let reason = format!("{given} buffers were given to a kernel with {wanted} bindings");
            return Err(GpuError::Misfit { reason });
        }
        for (binding, buffer) in pipeline.bindings.iter().zip(buffers) {
            if binding.access.space() != buffer.space() {
                let (index, space) = (binding.index, buffer.space());
                let reason = format!("a buffer of {space:?} does not fit binding {index}");
                return Err(GpuError::Misfit { reason });
            }
        }
        let entries: Vec<_> = pipeline
            .bindings
            .iter()
            .zip(buffers)
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding: binding.index,
                resource: buffer.inner.as_entire_binding(),
            })
            .collect();
        let wanted =
            wgpu::BindGroupDescriptor { label: None, layout: &pipeline.layout, entries: &entries };
        let group = self.scoped(|| self.device.create_bind_group(&wanted))?;
        Ok(Bound { pipeline: pipeline.inner.clone(), group })
    }

    fn check_bindings(&self, bindings: &[Binding]) -> Result<(), GpuError> {
        let count =
            |space| wide(bindings.iter().filter(|binding| binding.access.space() == space).count());
        let (storage, uniform) = (
            self.possible.max_storage_buffers_per_shader_stage,
            self.possible.max_uniform_buffers_per_shader_stage,
        );
        within("storage buffers", count(Space::Storage), u64::from(storage))?;
        within("uniform buffers", count(Space::Uniform), u64::from(uniform))?;
        for (at, binding) in bindings.iter().enumerate() {
            let bound = self.possible.max_bindings_per_bind_group.saturating_sub(1);
            within("as the number of a binding", u64::from(binding.index), u64::from(bound))?;
            if bindings.iter().take(at).any(|other| other.index == binding.index) {
                let reason = format!("binding {} is there twice", binding.index);
                return Err(GpuError::Misfit { reason });
            }
        }
        Ok(())
    }

    fn compile_here(
        &self,
        code: Code<'_>,
        entry: &str,
        bindings: &[Binding],
    ) -> Result<Pipeline, GpuError> {
        let module = self.module(code)?;
        let entries: Vec<_> = bindings.iter().map(layout_entry).collect();
        let made = health::scoped(&self.device, || {
            let wanted = wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries };
            let layout = self.device.create_bind_group_layout(&wanted);
            let wanted = wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &[Some(&layout)],
                immediate_size: 0,
            };
            let pipeline_layout = self.device.create_pipeline_layout(&wanted);
            let wanted = wgpu::ComputePipelineDescriptor {
                label: None,
                layout: Some(&pipeline_layout),
                module: &module,
                entry_point: Some(entry),
                compilation_options: wgpu::PipelineCompilationOptions {
                    // What the previous tenant left in a workgroup's memory is nobody's business.
                    zero_initialize_workgroup_memory: true,
                    ..wgpu::PipelineCompilationOptions::default()
                },
                cache: None,
            };
            (self.device.create_compute_pipeline(&wanted), layout)
        });
        let (inner, layout) = made.map_err(|error| blame(&error, None))?;
        Ok(Pipeline { inner, layout, bindings: bindings.to_vec() })
    }

    fn module(&self, code: Code<'_>) -> Result<wgpu::ShaderModule, GpuError> {
        let source = match code {
            Code::Wgsl(text) => wgpu::ShaderSource::Wgsl(Cow::Borrowed(text)),
            Code::Naga(module) => wgpu::ShaderSource::Naga(Cow::Owned(*module)),
        };
        let wanted = wgpu::ShaderModuleDescriptor { label: None, source };
        let mut line = None;
        let made = health::scoped(&self.device, || {
            let module = self.device.create_shader_module(wanted);
            let said = pollster::block_on(module.get_compilation_info()).messages;
            line = said.iter().find_map(|message| Some(message.location?.line_number));
            module
        });
        made.map_err(|error| blame(&error, line))
    }
}

/// What is wrong while a kernel is compiled is wrong with the kernel, unless memory ran out.
fn blame(error: &wgpu::Error, line: Option<u32>) -> GpuError {
    match GpuError::of(error) {
        GpuError::Misfit { reason } => GpuError::Kernel { line, reason },
        other => other,
    }
}

const fn layout_entry(binding: &Binding) -> wgpu::BindGroupLayoutEntry {
    let ty = match binding.access {
        Access::Uniform => wgpu::BufferBindingType::Uniform,
        Access::Read => wgpu::BufferBindingType::Storage { read_only: true },
        Access::Write => wgpu::BufferBindingType::Storage { read_only: false },
    };
    wgpu::BindGroupLayoutEntry {
        binding: binding.index,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset: false, min_binding_size: None },
        count: None,
    }
}
