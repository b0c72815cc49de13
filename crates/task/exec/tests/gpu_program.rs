//! Programs whose step is one run of a kernel.

#![cfg(feature = "gpu")]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::{sync::Arc, time::Duration};

use opengpu_exec::gpu::{
    Code, Gpu, GpuError, Limits, adapters,
    program::{GpuProgram, Manifest, ProgramError, Stop},
};

const PATIENCE: Duration = Duration::from_secs(120);
/// Rows of the plate.
const SIDE: usize = 64;

/// Heat flows on a plate between two states in turns; the input says how fast.
const HEAT: &str = "
struct Step { number: u32, count: u32 }
@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read> input: array<f32>;
@group(0) @binding(2) var<storage, read_write> even: array<f32>;
@group(0) @binding(3) var<storage, read_write> odd: array<f32>;
@group(0) @binding(4) var<storage, read_write> row: array<f32>;

fn at(x: u32, y: u32) -> f32 {
    let i = (y % 64u) * 64u + x % 64u;
    return select(odd[i], even[i], step.number % 2u == 1u);
}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) g: vec3<u32>) {
    let near = at(g.x + 1u, g.y) + at(g.x + 63u, g.y) + at(g.x, g.y + 1u) + at(g.x, g.y + 63u);
    var next = at(g.x, g.y) + input[0] * (near - 4.0 * at(g.x, g.y));
    if g.x == 7u && g.y == 9u { next += 100.0; }
    let i = g.y * 64u + g.x;
    if step.number % 2u == 1u { odd[i] = next; } else { even[i] = next; }
    if g.y == 9u { row[g.x] = next; }
}";

const HEAT_MANIFEST: &str = r#"
grid = [8, 8, 1]
steps = 100
buffer = [
    { binding = 3, role = "state", size = 16384 },
    { binding = 0, role = "step" },
    { binding = 1, role = "input", offset = 4 },
    { binding = 2, role = "state", size = 16384 },
    { binding = 4, role = "output", size = 256 },
]
"#;

fn gpu() -> Arc<Gpu> {
    let adapter = adapters().into_iter().next();
    let adapter = adapter.expect("a GPU, or Mesa's software driver (package mesa-vulkan-drivers)");
    Arc::new(Gpu::open(&adapter, Limits::default()).unwrap())
}

fn program(manifest: &str, code: &str) -> GpuProgram {
    let manifest: Manifest = toml::from_str(manifest).unwrap();
    GpuProgram::prepare(gpu(), &manifest, Code::Wgsl(code), PATIENCE).unwrap()
}

const fn go_on() -> Result<(), Stop> {
    Ok(())
}

/// Runs all steps in segments that end at `ends`; gives every state between them and the output.
fn in_segments(program: &GpuProgram, input: &[u8], ends: &[u32]) -> (Vec<Vec<u8>>, Vec<u8>) {
    let (mut states, mut output) = (vec![program.init(input).unwrap()], Vec::new());
    let mut first = 1;
    for end in ends {
        // Opened anew each time: a segment has nothing but its state.
        let mut run = program.open(input).unwrap();
        let state = states.last().unwrap();
        let mut emit = |part: &[u8]| output.extend_from_slice(part);
        states.push(run.advance(state, first..=*end, &mut emit, &mut go_on).unwrap());
        first = end.saturating_add(1);
    }
    (states, output)
}

#[test]
fn a_program_in_segments_is_the_same_program_bit_for_bit() {
    let heat = program(HEAT_MANIFEST, HEAT);
    let input = [[0; 4], 0.2f32.to_le_bytes()].concat();
    let (whole, output) = in_segments(&heat, &input, &[100]);
    let (parts, same) = in_segments(&heat, &input, &[1, 2, 9, 64, 99, 100]);
    assert_eq!(whole.last(), parts.last());
    assert_eq!(output, same);
    assert_eq!(output.len(), 100 * SIDE * 4);
    // And any segment can be repeated alone.
    let mut run = heat.open(&input).unwrap();
    let again = run.advance(&parts[3], 10..=64, &mut |_| {}, &mut go_on).unwrap();
    assert_eq!(again, parts[4]);
    let other = [[0; 4], 0.1f32.to_le_bytes()].concat();
    assert_ne!(in_segments(&heat, &other, &[100]).0.last(), whole.last(), "the input counts");
}

#[test]
fn heat_flows_and_none_is_lost() {
    let heat = program(HEAT_MANIFEST, HEAT);
    let input = [[0; 4], 0.2f32.to_le_bytes()].concat();
    let (states, output) = in_segments(&heat, &input, &[100]);
    let number = |bytes: &[u8; 4]| f64::from(f32::from_le_bytes(*bytes));
    // Step 100 wrote the even state, which has the lower binding.
    let even = &states[1].as_chunks::<4>().0[..SIDE * SIDE];
    let sum: f64 = even.iter().map(number).sum();
    assert!((sum - 100.0 * 100.0).abs() < 1.0, "{sum}");
    let row = &output.as_chunks::<4>().0[99 * SIDE..];
    assert_eq!(row, &even[9 * SIDE..10 * SIDE], "the output is the row of the state");
}

/// Adds the number of the step, and tells what it found in its scratch and output buffers.
const COUNT: &str = "
@group(0) @binding(0) var<uniform> step: vec4<u32>;
@group(0) @binding(2) var<storage, read_write> state: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;
@group(0) @binding(4) var<storage, read_write> scratch: array<u32>;
@compute @workgroup_size(1)
fn main() {
    state[0] += step.x;
    out[0] = out[0] + step.x;
    out[1] = scratch[3];
    out[2] = step.y;
    out[3] = step.z | step.w;
    scratch[3] = 7u;
}";

const COUNT_MANIFEST: &str = r#"
grid = [1, 1, 1]
steps = 500
begin = "input"
buffer = [
    { binding = 0, role = "step" },
    { binding = 2, role = "state", size = 8 },
    { binding = 3, role = "output", size = 16 },
    { binding = 4, role = "scratch", size = 16 },
]
"#;

#[test]
fn a_step_knows_its_number_and_finds_output_and_scratch_empty() {
    let count = program(COUNT_MANIFEST, COUNT);
    let (states, output) = in_segments(&count, &5u32.to_le_bytes(), &[500]);
    assert_eq!(states[0], [5, 0, 0, 0, 0, 0, 0, 0], "the input, and zeros behind it");
    let sum: u32 = 5 + 500 * 501 / 2;
    assert_eq!(states[1], [sum.to_le_bytes(), [0; 4]].concat());
    let parts: Vec<u32> =
        output.as_chunks::<4>().0.iter().copied().map(u32::from_le_bytes).collect();
    let expected: Vec<u32> = (1..=500).flat_map(|number| [number, 0, 500, 0]).collect();
    assert_eq!(parts, expected);
}

#[test]
fn a_program_can_be_stopped_between_steps() {
    let count = program(COUNT_MANIFEST, COUNT);
    let state = count.init(&[]).unwrap();
    let mut run = count.open(&[]).unwrap();
    let (mut asked, mut emitted) = (0, 0);
    let mut check = || {
        asked += 1;
        if asked < 4 { Ok(()) } else { Err(Stop) }
    };
    let stopped = run.advance(&state, 1..=500, &mut |_| emitted += 1, &mut check);
    assert_eq!(stopped, Err(ProgramError::Stopped(Stop)));
    assert!(emitted < 500, "{emitted}");
}

#[test]
fn what_does_not_fit_the_manifest_is_an_error() {
    let count = program(COUNT_MANIFEST, COUNT);
    assert_eq!(count.init(&[0; 9]), Err(ProgramError::Input { size: 9, wanted: 8 }));
    let mut run = count.open(&[]).unwrap();
    let short = run.advance(&[0; 7], 1..=1, &mut |_| {}, &mut go_on);
    assert_eq!(short, Err(ProgramError::State { size: 7, wanted: 8 }));
    for (first, last) in [(0, 1), (2, 1), (1, 501)] {
        let steps = run.advance(&[0; 8], first..=last, &mut |_| {}, &mut go_on);
        assert_eq!(steps, Err(ProgramError::Steps { first, last, steps: 500 }));
    }
    let heat = program(HEAT_MANIFEST, HEAT);
    assert_eq!(heat.open(&[0; 3]).unwrap_err(), ProgramError::Input { size: 3, wanted: 4 });
    let wide = HEAT_MANIFEST.replace("grid = [8, 8, 1]", "grid = [8, 8, 4000000]");
    let wide = program(&wide, HEAT);
    let state = wide.init(&[]).unwrap();
    let mut run = wide.open(&[0; 8]).unwrap();
    let error = run.advance(&state, 1..=1, &mut |_| {}, &mut go_on);
    assert!(matches!(error, Err(ProgramError::Gpu(GpuError::Limit { .. }))), "{error:?}");
}
