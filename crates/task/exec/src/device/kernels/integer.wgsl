// The challenge: each lane mixes its number and the seed, 32 operations a round.
// The processor computes the same in `opengpu_verify::trial`.

@group(0) @binding(0) var<uniform> shape: vec4<u32>; // x: rounds, y and z: seed
@group(0) @binding(1) var<storage, read_write> to: array<u32>;

fn mix(value: u32, round: u32) -> u32 {
    var x = value;
    x ^= x << 13u;
    x ^= x >> 17u;
    x ^= x << 5u;
    return x * 0x9e3779b1u + round;
}

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    var x = mix(shape.y ^ at.x, shape.z);
    for (var round = 0u; round < shape.x; round++) {
        x = mix(mix(mix(mix(x, round), round), round), round);
    }
    to[at.x] = x;
}
