// A path tracer: spheres on a ground under a sky, a band of four rows in every step.
//
// The picture has 256 x 256 points; each invocation paints one of the band, as one word of red, green,
// blue and an opaque fourth byte, so that the bands of all steps are the picture. No step needs another,
// and chance is drawn from the point and the sample alone: any band can be painted again by anybody.
// Floats differ in their last bits between devices, hence the class is perceptual.

const WIDTH = 256u;
const BAND = 4u; // rows of a step
const SAMPLES = 128u;
const BOUNCES = 6u;
const FAR = 1e9;
const NEAR = 1e-3;

const MATT = 0u;
const METAL = 1u;
const GLASS = 2u;
const LAMP = 3u;

struct Step {
    number: u32,
    count: u32,
    unused: vec2<u32>,
}

struct Sphere {
    centre: vec3<f32>,
    radius: f32,
    colour: vec3<f32>,
    kind: u32,
}

struct Hit {
    distance: f32,
    sphere: u32,
}

@group(0) @binding(0) var<uniform> step: Step;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;

const SPHERES = 8u;
var<private> spheres: array<Sphere, 8> = array<Sphere, 8>(
    Sphere(vec3(0.0, -1000.0, 0.0), 1000.0, vec3(0.55, 0.55, 0.50), MATT),
    Sphere(vec3(0.0, 1.0, 0.0), 1.0, vec3(1.0, 1.0, 1.0), GLASS),
    Sphere(vec3(-2.1, 1.0, -0.6), 1.0, vec3(0.75, 0.25, 0.20), MATT),
    Sphere(vec3(2.1, 1.0, -0.4), 1.0, vec3(0.85, 0.75, 0.55), METAL),
    Sphere(vec3(0.9, 0.35, 1.7), 0.35, vec3(0.20, 0.40, 0.75), MATT),
    Sphere(vec3(-0.9, 0.3, 1.6), 0.3, vec3(0.90, 0.90, 0.95), METAL),
    Sphere(vec3(-0.1, 0.22, 2.2), 0.22, vec3(0.25, 0.65, 0.30), MATT),
    Sphere(vec3(0.4, 3.6, -1.2), 0.7, vec3(9.0, 8.0, 6.5), LAMP),
);

var<private> chance: u32;

// A number from 0 to 1, by a permuted congruential generator.
fn draw() -> f32 {
    chance = chance * 747796405u + 2891336453u;
    let word = ((chance >> ((chance >> 28u) + 4u)) ^ chance) * 277803737u;
    return f32(((word >> 22u) ^ word) >> 8u) / 16777216.0;
}

// A direction of length one, all equally likely.
fn direction() -> vec3<f32> {
    let z = 2.0 * draw() - 1.0;
    let angle = 6.2831853 * draw();
    let side = sqrt(max(0.0, 1.0 - z * z));
    return vec3(side * cos(angle), side * sin(angle), z);
}

fn nearest(origin: vec3<f32>, ray: vec3<f32>) -> Hit {
    var hit = Hit(FAR, SPHERES);
    for (var i = 0u; i < SPHERES; i++) {
        let away = origin - spheres[i].centre;
        let half = dot(away, ray);
        let square = half * half - dot(away, away) + spheres[i].radius * spheres[i].radius;
        if square <= 0.0 {
            continue;
        }
        let root = sqrt(square);
        var distance = -half - root;
        if distance < NEAR {
            distance = -half + root;
        }
        if distance > NEAR && distance < hit.distance {
            hit = Hit(distance, i);
        }
    }
    return hit;
}

fn sky(ray: vec3<f32>) -> vec3<f32> {
    return mix(vec3(0.55, 0.55, 0.60), vec3(0.16, 0.26, 0.50), clamp(ray.y, 0.0, 1.0));
}

// Where a ray goes on from glass: through it, or back where the angle is too low or chance says so.
fn through(ray: vec3<f32>, normal: vec3<f32>) -> vec3<f32> {
    let inside = dot(ray, normal) > 0.0;
    let facing = select(normal, -normal, inside);
    let ratio = select(1.0 / 1.5, 1.5, inside);
    let cosine = min(-dot(ray, facing), 1.0);
    let low = 1.0 - cosine;
    let mirrored = 0.04 + 0.96 * low * low * low * low * low;
    if ratio * ratio * (1.0 - cosine * cosine) > 1.0 || draw() < mirrored {
        return reflect(ray, facing);
    }
    return refract(ray, facing, ratio);
}

// The light that comes back along a ray.
fn light(eye: vec3<f32>, towards: vec3<f32>) -> vec3<f32> {
    var origin = eye;
    var ray = towards;
    var colour = vec3(1.0);
    for (var bounce = 0u; bounce < BOUNCES; bounce++) {
        let hit = nearest(origin, ray);
        if hit.sphere == SPHERES {
            return colour * sky(ray);
        }
        let sphere = spheres[hit.sphere];
        colour *= sphere.colour;
        if sphere.kind == LAMP {
            return colour;
        }
        origin += ray * hit.distance;
        let normal = (origin - sphere.centre) / sphere.radius;
        switch sphere.kind {
            case 1u: { // METAL
                ray = normalize(reflect(ray, normal) + 0.03 * direction());
            }
            case 2u: { // GLASS
                ray = normalize(through(ray, normal));
            }
            default: { // MATT
                ray = normalize(normal * 1.0001 + direction());
            }
        }
    }
    return vec3(0.0);
}

@compute @workgroup_size(64, 1)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= WIDTH || id.y >= BAND {
        return;
    }
    let row = (step.number - 1u) * BAND + id.y;
    let height = step.count * BAND;
    let eye = vec3(0.0, 1.7, 7.5);
    var sum = vec3(0.0);
    for (var turn = 0u; turn < SAMPLES; turn++) {
        chance = ((row * WIDTH + id.x) * SAMPLES + turn) * 2654435761u + 12345u;
        _ = draw();
        let x = (f32(id.x) + draw()) / f32(WIDTH) - 0.5;
        let y = 0.5 - (f32(row) + draw()) / f32(height);
        sum += light(eye, normalize(vec3(x, y - 0.06, -1.15)));
    }
    // What the eye sees is about the square root of the light.
    let seen = sqrt(clamp(sum / f32(SAMPLES), vec3(0.0), vec3(1.0)));
    let bytes = vec3<u32>(seen * 255.0 + 0.5);
    output[id.y * WIDTH + id.x] = bytes.x | (bytes.y << 8u) | (bytes.z << 16u) | 0xff000000u;
}
