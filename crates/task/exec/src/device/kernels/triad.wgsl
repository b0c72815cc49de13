// Reads two numbers and writes one: 48 bytes for each invocation.

@group(0) @binding(0) var<uniform> shape: vec4<u32>; // x: seed
@group(0) @binding(1) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> b: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    c[at.x] = a[at.x] + f32(shape.x) * b[at.x];
}
