//! Random kernels of the exact class, for comparisons of the referee with devices.
//!
//! A seed makes a source, buffers and a grid: the same ones everywhere. Indices go out of bounds,
//! divisors are zero, shifts are too far and integers overflow, as often as chance has it; but no
//! two invocations touch a word in no order, so the outcome is one. [`racy`] makes the same kernels
//! with one such pair of touches planted.
//!
//! Not here: what a comparison is run on.

mod expression;
mod random;
mod statement;

use random::Random;
use std::{collections::BTreeSet, fmt::Write as _};

/// What a kernel uses. Counted, so that a comparison can say what it was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trait {
    /// Memory of a group, with barriers.
    Shared,
    /// Barriers for buffers.
    BufferBarrier,
    /// Atomic operations.
    Atomics,
    /// Loops.
    Loops,
    /// Division or remainder of signed integers.
    SignedDivision,
    /// Shifts.
    Shifts,
    /// Functions with pointers.
    Functions,
    /// Switches.
    Switches,
    /// Dynamic indices.
    Indices,
    /// Functions about single bits, or packed bytes.
    Bits,
}

/// A kernel with something to run it on.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The source; its entry point is `main`.
    pub source: String,
    /// Groups in three directions.
    pub grid: [u32; 3],
    /// Buffers in the order of the bindings.
    pub buffers: Vec<Vec<u8>>,
    /// What the kernel uses.
    pub traits: BTreeSet<Trait>,
}

/// Words of the output that an invocation owns.
const OWN: u32 = 4;

/// Sizes of groups.
const SIZES: [[u32; 3]; 8] =
    [[1, 1, 1], [2, 1, 1], [7, 1, 1], [16, 1, 1], [64, 1, 1], [4, 4, 1], [2, 3, 2], [8, 2, 1]];

/// The kernel of a seed. Its outcome does not depend on any order.
#[must_use]
pub fn kernel(seed: u64) -> Sample {
    Writer::new(seed).sample(None)
}

/// A kernel of which two invocations touch one word in no order.
#[must_use]
pub fn racy(seed: u64) -> Sample {
    let mut writer = Writer::new(seed);
    let planted = writer.random.below(RACES);
    writer.sample(Some(planted))
}

/// Ways to plant a race.
const RACES: u32 = 6;

/// A source that grows at its end.
struct Writer {
    random: Random,
    body: String,
    indent: usize,
    traits: BTreeSet<Trait>,
    /// Names of numbers that are in scope and do not change, such as counters of loops.
    counters: Vec<String>,
    /// How many names were given out.
    names: u32,
    /// Whether statements are in a function that `main` calls.
    inside: bool,
    size: [u32; 3],
    grid: [u32; 3],
    /// The one atomic operation of this kernel's tallies, and their type.
    atomic: &'static str,
    tally: &'static str,
}

impl Writer {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let size = random.choose(&SIZES);
        let grid = [random.up_to(4), random.up_to(2), random.up_to(2)];
        let atomic = random.choose(&[
            "atomicAdd",
            "atomicSub",
            "atomicMax",
            "atomicMin",
            "atomicAnd",
            "atomicOr",
            "atomicXor",
        ]);
        let tally = random.choose(&["u32", "i32"]);
        Self {
            random,
            body: String::new(),
            indent: 1,
            traits: BTreeSet::new(),
            counters: Vec::new(),
            names: 0,
            inside: false,
            size,
            grid,
            atomic,
            tally,
        }
    }

    fn line(&mut self, text: &str) {
        let _ = writeln!(self.body, "{:1$}{text}", "", self.indent.saturating_mul(2));
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names = self.names.saturating_add(1);
        format!("{prefix}{}", self.names)
    }

    fn sample(mut self, planted: Option<u32>) -> Sample {
        if planted.is_some() {
            // Two parties at least, of both sorts.
            self.size = [8, 1, 1];
            self.grid = [2, 1, 1];
        }
        let with = |random: &mut Random, percent| random.below(100) < percent;
        let shared = with(&mut self.random, 40);
        let barrier = with(&mut self.random, 15);
        let atomics = with(&mut self.random, 30) || planted.is_some();
        let functions = with(&mut self.random, 35);
        let helper = if functions { self.helper() } else { String::new() };
        self.body.clear();
        self.main(shared, barrier, atomics, functions, planted);
        let [x, y, z] = self.size;
        let mut source = String::from(HEAD);
        if atomics {
            let tally = self.tally;
            let _ = writeln!(
                source,
                "@group(0) @binding(3) var<storage, read_write> tallies: array<atomic<{tally}>>;"
            );
        }
        let _ = writeln!(source, "const SIZE = {}u;", [x, y, z].iter().product::<u32>());
        let _ = write!(source, "{MEMORY}{helper}");
        let _ = write!(source, "@compute @workgroup_size({x}, {y}, {z})\n{MAIN}{}}}\n", self.body);
        let buffers = self.buffers(atomics);
        Sample { source, grid: self.grid, buffers, traits: self.traits }
    }

    /// Parameters, input, output and tallies.
    fn buffers(&mut self, atomics: bool) -> Vec<Vec<u8>> {
        let invocations = self.size.iter().chain(&self.grid).product::<u32>();
        let input = self.random.up_to(40);
        let mut lengths = vec![12, input, invocations.saturating_mul(OWN)];
        if atomics {
            lengths.push(self.random.up_to(6));
        }
        let buffer = |words: u32| {
            (0..words).flat_map(|_| self.random.number().to_le_bytes()).collect::<Vec<u8>>()
        };
        lengths.into_iter().map(buffer).collect()
    }
}

/// What every kernel binds.
const HEAD: &str = "\
struct Params { a: u32, b: i32, c: vec2<u32>, d: vec4<i32>, e: vec3<u32>, f: i32 }
struct Pair { x: u32, y: vec2<i32>, z: array<u32, 3> }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> input: array<u32>;
@group(0) @binding(2) var<storage, read_write> output: array<u32>;
";

/// What every kernel may use.
const MEMORY: &str = "\
var<workgroup> board: array<u32, SIZE>;
var<workgroup> total: atomic<u32>;
var<private> kept: i32;
const TABLE = array<u32, 5>(3u, 0u, 4294967295u, 2147483648u, 17u);
";

/// How `main` begins: places, and variables of every type.
const MAIN: &str = "\
fn main(
  @builtin(global_invocation_id) global: vec3<u32>,
  @builtin(local_invocation_id) place: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
  @builtin(workgroup_id) group: vec3<u32>,
  @builtin(num_workgroups) groups: vec3<u32>,
) {
  let number = (group.z * groups.y + group.y) * groups.x + group.x;
  let own = (number * SIZE + index) * 4u;
  var u0 = global.x + 1u;
  var u1 = input[own];
  var u2 = params.a;
  var i0 = params.b;
  var i1 = bitcast<i32>(input[u1]);
  var i2 = -2147483647i - 1i;
  var b0 = place.x < 2u;
  var v0 = params.e ^ global;
  var w0 = params.d;
  var list: array<u32, 6>;
  var pair: Pair;
";
