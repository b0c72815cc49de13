// A trial: the lanes of `integer.wgsl`, from one round to another.
// The processor computes the same in `opengpu_verify::trial`.

struct Shape {
    rounds: vec4<u32>, // x: from, y: until, z and w: seed
    lanes: vec4<u32>, // x: number of the first one
}

@group(0) @binding(0) var<uniform> shape: Shape;
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
    var x = to[at.x];
    if shape.rounds.x == 0u {
        x = mix(shape.rounds.z ^ (shape.lanes.x + at.x), shape.rounds.w);
    }
    for (var round = shape.rounds.x; round < shape.rounds.y; round++) {
        x = mix(mix(mix(mix(x, round), round), round), round);
    }
    to[at.x] = x;
}
