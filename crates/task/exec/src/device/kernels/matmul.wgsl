// Product of two square matrices in tiles of 64 by 64; each invocation holds four rows of four.

@group(0) @binding(0) var<uniform> shape: vec4<u32>; // x: rows, a multiple of 64
@group(0) @binding(1) var<storage, read> a: array<f32>;
@group(0) @binding(2) var<storage, read> b: array<f32>;
@group(0) @binding(3) var<storage, read_write> c: array<vec4<f32>>;

var<workgroup> left: array<f32, 1024>; // 64 rows of 16
var<workgroup> right: array<vec4<f32>, 256>; // 16 rows of 64

@compute @workgroup_size(16, 16)
fn main(
    @builtin(workgroup_id) tile: vec3<u32>,
    @builtin(local_invocation_id) at: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let n = shape.x;
    let row = tile.y * 64u;
    let column = tile.x * 64u;
    var s0 = vec4<f32>();
    var s1 = vec4<f32>();
    var s2 = vec4<f32>();
    var s3 = vec4<f32>();
    for (var k = 0u; k < n; k += 16u) {
        for (var part = 0u; part < 4u; part++) {
            let e = index + part * 256u;
            left[e] = a[(row + e / 16u) * n + k + e % 16u];
        }
        let first = (k + at.y) * n + column + at.x * 4u;
        right[index] = vec4<f32>(b[first], b[first + 1u], b[first + 2u], b[first + 3u]);
        workgroupBarrier();
        for (var j = 0u; j < 16u; j++) {
            let r = right[j * 16u + at.x];
            let l = at.y * 64u + j;
            s0 += left[l] * r;
            s1 += left[l + 16u] * r;
            s2 += left[l + 32u] * r;
            s3 += left[l + 48u] * r;
        }
        workgroupBarrier();
    }
    let to = ((row + at.y * 4u) * n + column) / 4u + at.x;
    let next = n / 4u;
    c[to] = s0;
    c[to + next] = s1;
    c[to + 2u * next] = s2;
    c[to + 3u * next] = s3;
}
