// Heat that flows over a plate, in integers: one step is one sweep, and emits the plate as a picture.
//
// The input is a PGM picture of 64 x 64 points with a head of 16 bytes; points that are not black are held
// at their temperature. In a sweep a cell becomes half of itself and an eighth of each of its four
// neighbours, rounded down; beyond the edge there is the cell itself. There are two plates, and odd steps
// go from the second to the first, so no cell is written that another invocation reads.
// An invocation owns four cells of a row: one word of the pictures. Temperatures have seven more bits
// than the pictures.

const SIDE = 64u;
const WORDS = 16u; // of a row of a picture
const HEAD = 4u; // words before the points

struct Step {
    number: u32,
    count: u32,
    unused: vec2<u32>,
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read> input: array<u32>;
@group(0) @binding(2) var<storage, read_write> one: array<u32>;
@group(0) @binding(3) var<storage, read_write> other: array<u32>;
@group(0) @binding(4) var<storage, read_write> output: array<u32>;

// The temperature at which a cell is held; zero if it is free.
fn held(x: u32, y: u32) -> u32 {
    let word = input[HEAD + y * WORDS + x / 4u];
    return ((word >> (8u * (x % 4u))) & 255u) << 7u;
}

fn before(x: u32, y: u32) -> u32 {
    let at = y * SIDE + x;
    if step.number == 1u {
        return held(x, y);
    }
    if step.number % 2u == 1u {
        return other[at];
    }
    return one[at];
}

fn swept(x: u32, y: u32) -> u32 {
    let fixed = held(x, y);
    if fixed != 0u {
        return fixed;
    }
    let left = select(x, x - 1u, x > 0u);
    let right = min(x + 1u, SIDE - 1u);
    let above = select(y, y - 1u, y > 0u);
    let below = min(y + 1u, SIDE - 1u);
    let around = before(left, y) + before(right, y) + before(x, above) + before(x, below);
    return (4u * before(x, y) + around) >> 3u;
}

@compute @workgroup_size(8, 8)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= WORDS || id.y >= SIDE {
        return;
    }
    var word = 0u;
    for (var i = 0u; i < 4u; i++) {
        let x = id.x * 4u + i;
        let cell = swept(x, id.y);
        if step.number % 2u == 1u {
            one[id.y * SIDE + x] = cell;
        } else {
            other[id.y * SIDE + x] = cell;
        }
        word |= (cell >> 7u) << (8u * i);
    }
    output[HEAD + id.y * WORDS + id.x] = word;
    // The head of the picture is that of the input.
    if id.x == 0u && id.y < HEAD {
        output[id.y] = input[id.y];
    }
}
