// Multiplies and adds in registers: 64 operations a round, on numbers that stay near one.

@group(0) @binding(0) var<uniform> shape: vec4<u32>; // x: rounds, y: seed
@group(0) @binding(1) var<storage, read_write> to: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    let begin = f32((at.x ^ shape.y) & 0xffffu) / 65536.0;
    let times = vec4<f32>(0.75, 0.625, 0.5625, 0.53125);
    let more = vec4<f32>(begin + 0.25);
    var x0 = vec4<f32>(begin);
    var x1 = vec4<f32>(begin + 0.25);
    var x2 = vec4<f32>(begin + 0.5);
    var x3 = vec4<f32>(begin + 0.75);
    for (var round = 0u; round < shape.x; round++) {
        x0 = fma(x0, times, more);
        x1 = fma(x1, times, more);
        x2 = fma(x2, times, more);
        x3 = fma(x3, times, more);
        x0 = fma(x0, times, more);
        x1 = fma(x1, times, more);
        x2 = fma(x2, times, more);
        x3 = fma(x3, times, more);
    }
    to[at.x] = x0 + x1 + x2 + x3;
}
