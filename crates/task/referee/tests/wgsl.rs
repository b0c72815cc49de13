//! Kernels in WGSL before the referee.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test stops where it fails")]

use opengpu_referee::wgsl::{
    Binding, Effect, Fault, Ineligible, Kernel, Kind, Limits, Location, Race, Space, Write,
};

const FUEL: u64 = 500_000;

/// Buffers and places that most kernels here use.
const HEAD: &str = "
@group(0) @binding(0) var<storage, read> input: array<u32>;
@group(0) @binding(1) var<storage, read_write> output: array<u32>;
";

fn check(source: &str) -> Result<Kernel, Ineligible> {
    Kernel::check(source, "main", Limits::REFEREE)
}

/// A kernel of four invocations to a group, with this before `main` and this in it.
fn kernel(more: &str, body: &str) -> Kernel {
    check(&source(more, body)).unwrap()
}

fn source(more: &str, body: &str) -> String {
    format!(
        "{HEAD}{more}
@compute @workgroup_size(4)
fn main(
  @builtin(global_invocation_id) global: vec3<u32>,
  @builtin(local_invocation_index) index: u32,
  @builtin(workgroup_id) group: vec3<u32>,
) {{
  let i = global.x;
  _ = input[0];
  {body}
}}"
    )
}

fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Runs groups of four on an input, and gives the output.
fn run(kernel: &Kernel, groups: u32, input: &[u32], output: usize) -> Result<Vec<u32>, Fault> {
    let mut buffers = vec![bytes(input), bytes(&vec![0; output])];
    kernel.run([groups, 1, 1], &mut buffers, FUEL)?;
    Ok(words(&buffers[1]))
}

/// What one expression of `x` and `y` gives, for pairs of words.
fn outcomes(expression: &str, pairs: &[(u32, u32)]) -> Vec<u32> {
    let body = format!(
        "let x = input[2u * i]; let y = input[2u * i + 1u];
         let s = bitcast<i32>(x); let t = bitcast<i32>(y);
         output[i] = bitcast<u32>({expression});"
    );
    let input: Vec<u32> = pairs.iter().flat_map(|(x, y)| [*x, *y]).collect();
    let groups = u32::try_from(pairs.len().div_ceil(4)).unwrap();
    let kernel = kernel("", &format!("if i < arrayLength(&output) {{ {body} }}"));
    run(&kernel, groups, &input, pairs.len()).unwrap()
}

const LEAST: u32 = 0x8000_0000;

fn negative(number: i32) -> u32 {
    number.cast_unsigned()
}

#[test]
fn a_kernel_tells_what_it_needs() {
    let source = "
struct Head { count: u32, words: array<vec2<u32>> }
@group(1) @binding(0) var<storage, read_write> all: Head;
@group(0) @binding(2) var<uniform> scale: vec4<i32>;
@group(0) @binding(5) var<storage, read> unused: array<u32>;
@compute @workgroup_size(8, 2, 1) fn other() { }
@compute @workgroup_size(4, 2, 1) fn main(@builtin(global_invocation_id) g: vec3<u32>) {
  all.words[g.x].y = u32(scale.x);
}";
    // A member before the array leaves a gap in front of it.
    assert_eq!(check(source).unwrap_err(), Ineligible::Padding { group: 1, binding: 0 });
    let kernel = check(&source.replace("count: u32", "count: vec2<u32>")).unwrap();
    assert_eq!(kernel.group_size(), [4, 2, 1]);
    let scale = Binding { group: 0, binding: 2, space: Space::Uniform, minimum: 16, stride: None };
    let all =
        Binding { group: 1, binding: 0, space: Space::ReadWrite, minimum: 16, stride: Some(8) };
    assert_eq!(kernel.bindings(), [scale, all]);
    assert_eq!(kernel.module().entry_points.len(), 1);
}

#[test]
fn division_and_remainder_have_an_answer_for_every_pair() {
    let pairs = [(7, 0), (7, 2), (LEAST, negative(-1)), (negative(-7), 2), (negative(-7), 0)];
    assert_eq!(outcomes("x / y", &pairs)[..2], [7, 3]);
    assert_eq!(outcomes("x % y", &pairs)[..2], [0, 1]);
    let quotients = [7, 3, LEAST, negative(-3), negative(-7)];
    assert_eq!(outcomes("s / t", &pairs), quotients);
    assert_eq!(outcomes("s % t", &pairs), [0, 1, 0, negative(-1), 0]);
    let remainders = outcomes("(vec2(s, t) % vec2(t, s)).x", &pairs);
    assert_eq!(remainders, outcomes("s % t", &pairs));
}

/// The interpreter defines what the pass takes away, so the pass is looked at in its output.
#[test]
fn the_normalised_source_has_nothing_that_devices_do_in_their_own_way() {
    let normalised = |expression: &str| {
        let body = format!(
            "let x = input[0]; let y = input[1]; let s = bitcast<i32>(x); let t = bitcast<i32>(y);
             output[0] = bitcast<u32>({expression});"
        );
        kernel("", &body).source()
    };
    for (expression, there, gone) in [
        ("x / y", "select(", "nothing"),
        ("s / t", "-2147483648", "nothing"),
        ("x % y", "select(", "nothing"),
        ("s % t", "select(", " % "),
        ("x << y", "& 31u", "nothing"),
        ("s >> y", "& 31u", "nothing"),
        ("abs(s)", "max(", "abs("),
        ("clamp(x, y, 3u)", "max(", "clamp("),
        ("sign(s)", "max(", "sign("),
        ("dot(vec2(x, y), vec2(y, x))", " + ", "dot("),
        ("extractBits(x, y, 3u)", "(32u - ", "nothing"),
        ("insertBits(x, y, x, 3u)", "(32u - ", "nothing"),
        ("input[x]", "min(x, (arrayLength(", "nothing"),
        ("input[9]", "min(9u, (arrayLength(", "nothing"),
        ("vec3(x, y, x)[y]", ", 2u)", "nothing"),
        ("array<u32, 2>(x, y)[s]", "min(bitcast<u32>(s), 1u)", "nothing"),
    ] {
        let source = normalised(expression);
        assert!(source.contains(there), "{expression}: {source}");
        assert!(!source.contains(gone), "{expression}: {source}");
    }
    // What a constant makes safe stays as it is.
    let safe = kernel("", "output[0] = (input[0] / 3u + i % 5u) << 7u;").source();
    assert!(!safe.contains("select(") && !safe.contains("& 31u"), "{safe}");
}

#[test]
fn shifts_take_the_lowest_five_bits_of_their_amount() {
    let pairs = [(1, 33), (LEAST, 31), (LEAST, 64), (0xFF, 4)];
    assert_eq!(outcomes("x << y", &pairs), [2, 0, LEAST, 0xFF0]);
    assert_eq!(outcomes("x >> y", &pairs), [0, 1, LEAST, 0xF]);
    assert_eq!(outcomes("s >> y", &pairs), [0, u32::MAX, LEAST, 0xF]);
}

#[test]
fn functions_of_the_language_are_defined_at_their_edges() {
    let pairs = [(LEAST, 5), (negative(-3), 1), (0, 9), (12, 3)];
    assert_eq!(outcomes("abs(s)", &pairs), [LEAST, 3, 0, 12]);
    assert_eq!(outcomes("sign(s)", &pairs), [u32::MAX, u32::MAX, 0, 1]);
    // A low end above the high one: the high one wins.
    assert_eq!(outcomes("clamp(x, y, 2u)", &pairs), [2, 2, 2, 2]);
    assert_eq!(outcomes("extractBits(x, 30u + y, 40u)", &pairs), [0, 1, 0, 0]);
    assert_eq!(outcomes("insertBits(x, y, 2u, 50u)", &pairs), [20, 5, 36, 12]);
    assert_eq!(outcomes("firstLeadingBit(s)", &pairs), [30, 1, u32::MAX, 3]);
    assert_eq!(outcomes("dot(vec2(s, t), vec2(t, s))", &pairs)[3], 72);
    assert_eq!(outcomes("dot4I8Packed(x, y)", &pairs)[1], negative(-3));
    assert_eq!(outcomes("countOneBits(x) + countLeadingZeros(x)", &pairs), [1, 31, 32, 30]);
    assert_eq!(outcomes("u32(bool(x)) + u32(x > y) * 2u", &pairs), [3, 3, 0, 3]);
}

#[test]
fn an_index_out_of_bounds_is_the_last_one() {
    let body = "
      var list = array<u32, 3>(10u, 11u, 12u);
      let pick = vec3<u32>(7u, 8u, 9u);
      list[input[i]] += 100u;
      output[i] = input[100u + i] + list[bitcast<i32>(input[i])] * 1000u + pick[input[i]] * 10u;
    ";
    let outcome = run(&kernel("", body), 1, &[0, 2, 3, u32::MAX], 4).unwrap();
    let last = u32::MAX;
    let expected = [110_070, 112_090, 112_090, 112_090].map(|sum| last.wrapping_add(sum));
    assert_eq!(outcome, expected);
}

#[test]
fn a_constant_index_behind_the_end_of_a_buffer_is_the_last_one() {
    let kernel = kernel("", "output[i] = input[2] * 10u + input[9];");
    assert_eq!(run(&kernel, 1, &[1, 2, 3, 4], 4), Ok(vec![34; 4]));
    assert_eq!(run(&kernel, 1, &[7], 4), Ok(vec![77; 4]));
}

#[test]
fn a_write_out_of_bounds_goes_to_the_last_element_and_is_a_race_there() {
    let body = "output[i] = 5u;";
    assert_eq!(run(&kernel("", body), 1, &[0], 4), Ok(vec![5; 4]));
    let race = Fault::Race(Race::Buffer { buffer: 1, word: 2 });
    assert_eq!(run(&kernel("", body), 1, &[0], 3), Err(race));
}

#[test]
fn variables_begin_with_zero_each_time_they_begin() {
    let more = "var<private> kept: array<u32, 3>;
      fn next() -> u32 { var fresh: u32; fresh += 1u; return fresh; }";
    let body = "
      var sum = 0u;
      for (var n = 0u; n < 3u; n++) { var inner: u32; inner += n + next(); sum += inner; }
      kept[1] += sum;
      output[i] = kept[1];
    ";
    assert_eq!(run(&kernel(more, body), 2, &[0], 8), Ok(vec![6; 8]));
}

#[test]
fn control_flow_goes_where_the_source_says() {
    let more = "
      fn early(x: u32, into: ptr<function, u32>) -> u32 {
        for (var n = 0u; n < 10u; n++) { if n == x { return n * 100u; } *into += 1u; }
        return 7u;
      }";
    let body = "
      var calls = 0u;
      var sum = early(input[i], &calls);
      switch input[i] { case 0u: { sum += 1u; } case 1u, 2u: { sum += 20u; }
                        default: { sum += 3u; } }
      var n = 0u;
      loop { if n == 2u { continue; } if n > 5u { break; } sum += n;
             continuing { n += 1u; break if n == 5u; } }
      output[i] = sum * 100u + calls;
    ";
    let outcome = run(&kernel(more, body), 1, &[0, 2, 9, 50], 4).unwrap();
    // The loop adds 0 + 1 + 3 + 4.
    assert_eq!(outcome, [900, 22_802, 91_109, 1_810]);
}

#[test]
fn a_group_shares_memory_between_barriers() {
    let more = "var<workgroup> board: array<u32, 4>;";
    let body = "
      board[index] = input[i];
      workgroupBarrier();
      output[i] = board[3u - index] + board[index] * 10u;
    ";
    let outcome = run(&kernel(more, body), 2, &[1, 2, 3, 4, 5, 6, 7, 8], 8).unwrap();
    assert_eq!(outcome, [14, 23, 32, 41, 58, 67, 76, 85]);
    let without = body.replace("workgroupBarrier();", "");
    let fault = run(&kernel(more, &without), 2, &[1], 8);
    assert!(matches!(fault, Err(Fault::Race(Race::Shared { .. }))), "{fault:?}");
}

#[test]
fn every_group_begins_with_zeros() {
    let more = "var<workgroup> board: array<u32, 4>;";
    let body = "output[i] = board[index]; workgroupBarrier(); board[index] = 7u;";
    assert_eq!(run(&kernel(more, body), 3, &[0], 12), Ok(vec![0; 12]));
}

#[test]
fn a_barrier_for_one_memory_orders_that_memory_only() {
    let body = |barrier: &str| {
        format!(
            "output[i] = i; {barrier}(); let x = output[i ^ 1u]; storageBarrier(); output[i] = x;"
        )
    };
    assert_eq!(run(&kernel("", &body("storageBarrier")), 1, &[0], 4), Ok(vec![1, 0, 3, 2]));
    let fault = run(&kernel("", &body("workgroupBarrier")), 1, &[0], 4);
    assert!(matches!(fault, Err(Fault::Race(Race::Buffer { .. }))), "{fault:?}");
}

#[test]
fn groups_that_touch_one_word_race_whatever_barriers_there_are() {
    let body = "if index == 0u { output[0] = i; } storageBarrier();";
    let race = Fault::Race(Race::Groups { buffer: 1, word: 0 });
    assert_eq!(run(&kernel("", body), 2, &[0], 4), Err(race));
    assert_eq!(run(&kernel("", body), 1, &[0], 4), Ok(vec![0; 4]));
    let read = "output[i] = output[(i + 4u) % 8u];";
    let fault = run(&kernel("", read), 2, &[0], 8);
    assert!(matches!(fault, Err(Fault::Race(Race::Groups { .. }))), "{fault:?}");
}

#[test]
fn a_component_of_a_vector_is_stored_with_the_whole() {
    let more = "var<workgroup> board: array<vec4<u32>, 2>;";
    let own = "board[0][index] = i; workgroupBarrier(); output[i] = board[0].z;";
    let fault = run(&kernel(more, own), 1, &[0], 4);
    assert_eq!(fault, Err(Fault::Race(Race::Shared { word: 0 })));
    let alone = own.replace("board[0][index] = i;", "if index == 2u { board[0].z = i; }");
    assert_eq!(run(&kernel(more, &alone), 1, &[0], 4), Ok(vec![2; 4]));
    let more = "@group(0) @binding(2) var<storage, read_write> pairs: array<vec2<u32>>;";
    let kernel = kernel(more, "output[i] = 1u; pairs[i / 2u][i % 2u] = i;");
    let mut buffers = vec![bytes(&[0]), bytes(&[0; 4]), bytes(&[0; 4])];
    let race = Fault::Race(Race::Buffer { buffer: 2, word: 0 });
    assert_eq!(kernel.run([1, 1, 1], &mut buffers, FUEL), Err(race));
}

const TALLY: &str = "@group(0) @binding(2) var<storage, read_write> tally: array<atomic<i32>, 2>;";

fn tallied(body: &str) -> Result<Vec<u32>, Fault> {
    let mut buffers = vec![bytes(&[1, 2, 3, 4, 5, 6, 7, 8]), bytes(&[0; 8]), bytes(&[5, 0])];
    let body = format!("output[i] = 1u; {body}");
    kernel(TALLY, &body).run([2, 1, 1], &mut buffers, FUEL)?;
    Ok(words(&buffers[2]))
}

#[test]
fn atomic_operations_of_one_kind_come_in_any_order() {
    assert_eq!(tallied("atomicAdd(&tally[0], bitcast<i32>(input[i]));"), Ok(vec![41, 0]));
    // Adding and subtracting are one kind.
    let both = "atomicSub(&tally[0], 1i); atomicAdd(&tally[0], 2i);";
    assert_eq!(tallied(both), Ok(vec![13, 0]));
    let least = "atomicMin(&tally[1], -i32(i)); atomicMax(&tally[0], -3i);";
    assert_eq!(tallied(least), Ok(vec![5, negative(-7)]));
}

#[test]
fn atomic_operations_of_two_kinds_or_with_a_reader_race() {
    let mixed = "if i < 1u { atomicOr(&tally[0], 3i); } else { atomicAdd(&tally[0], 1i); }";
    let read = "atomicAdd(&tally[0], 1i); output[i] = u32(atomicLoad(&tally[0]));";
    let stored = "atomicStore(&tally[0], i32(i));";
    for body in [mixed, read, stored] {
        assert!(matches!(tallied(body), Err(Fault::Race(_))), "{body}");
    }
}

#[test]
fn invocations_that_do_not_meet_are_found() {
    for body in [
        "if index < 2u { storageBarrier(); }",
        "if index < 2u { return; } storageBarrier();",
        "for (var n = 0u; n < index; n++) { storageBarrier(); }",
        "loop { storageBarrier(); if index < 2u { break; } }",
        "switch index { case 1u: { storageBarrier(); } default: { storageBarrier(); } }",
    ] {
        let kernel = kernel("", &format!("output[i] = 1u; {body}"));
        assert_eq!(run(&kernel, 1, &[0], 4), Err(Fault::Diverged), "{body}");
    }
    let together = "for (var n = 0u; n < 3u; n++) { storageBarrier(); } output[i] = 1u;";
    assert_eq!(run(&kernel("", together), 1, &[0], 4), Ok(vec![1; 4]));
}

#[test]
fn loops_that_take_more_rounds_than_every_device_are_not_exact() {
    let fuel = 100_000_000;
    let run = |body: &str, number: u32| {
        let kernel = kernel("", body);
        let mut buffers = vec![bytes(&[number]), bytes(&[0; 4])];
        kernel.run([1, 1, 1], &mut buffers, fuel).map(|_| words(&buffers[1]))
    };
    let plain = "for (var n = 0u; n < input[0]; n++) { output[i] += 1u; }";
    assert_eq!(run(plain, 65_534), Ok(vec![65_534; 4]), "the last round ends the loop");
    assert_eq!(run(plain, 65_535), Err(Fault::Rounds));
    let twice = format!("{plain} {plain}");
    assert_eq!(run(&twice, 32_766), Ok(vec![65_532; 4]), "all loops together");
    assert_eq!(run(&twice, 32_768), Err(Fault::Rounds));
    // Two invocations that take turns cost a device that runs both at once the rounds of both.
    let uneven = "for (var n = 0u; n < 100u; n++) {
        for (var m = 0u; m < select(0u, input[0], n % 4u == i); m++) { output[i] += 1u; }
    }";
    assert_eq!(run(uneven, 600), Ok(vec![15_000; 4]));
    assert_eq!(run(uneven, 700), Err(Fault::Rounds));
    // A loop that is left by `return` within a function is over.
    let left = "fn find(most: u32) -> u32 { for (var n = 0u; ; n++) { if n >= most { return n; } } return 0u; }";
    let kernel = kernel(left, "for (var n = 0u; n < 3u; n++) { output[i] += find(input[0]); }");
    let mut buffers = vec![bytes(&[20_000]), bytes(&[0; 4])];
    kernel.run([1, 1, 1], &mut buffers, fuel).unwrap();
    assert_eq!(words(&buffers[1]), [60_000; 4]);
    let mut buffers = vec![bytes(&[22_000]), bytes(&[0; 4])];
    assert_eq!(kernel.run([1, 1, 1], &mut buffers, fuel), Err(Fault::Rounds));
}

#[test]
fn the_effects_of_the_groups_make_the_dispatch_in_any_order() {
    let body =
        "output[i] = input[i] * 3u; atomicAdd(&tally[0], i32(i)); atomicMax(&tally[1], i32(i));";
    let kernel = kernel(TALLY, body);
    let before = vec![bytes(&[1, 2, 3, 4, 5, 6, 7, 8]), bytes(&[0; 8]), bytes(&[5, 0])];
    let mut whole = before.clone();
    kernel.run([2, 1, 1], &mut whole, FUEL).unwrap();
    let groups = [0, 1].map(|x| kernel.run_group([2, 1, 1], [x, 0, 0], &before, FUEL).unwrap());
    let mut last_first = before.clone();
    for written in groups.iter().rev() {
        written.apply(&mut last_first);
    }
    assert_eq!(last_first, whole);
    let sum = Write { buffer: 2, word: 0, effect: Effect::Atomic(Kind::Add, 6) };
    assert_eq!(groups[0].writes[4], sum);
    assert_eq!(groups[1].writes[0], Write { buffer: 1, word: 4, effect: Effect::Set(15) });
    assert_eq!(kernel.run_group([2, 1, 1], [2, 0, 0], &before, FUEL), Err(Fault::Grid));
}

/// Fuel decides what is too much, so it is part of the rules: new costs are a new version.
#[test]
fn the_costs_of_the_interpreter_are_pinned() {
    let body = "var sum = 0u; for (var n = 0u; n < 10u; n++) { sum += input[n]; } output[i] = sum;";
    let kernel = kernel("", body);
    let mut buffers = vec![bytes(&[3; 10]), bytes(&[0; 4])];
    let outcome = kernel.run([1, 1, 1], &mut buffers, FUEL).unwrap();
    assert_eq!((words(&buffers[1]), outcome.fuel), (vec![30; 4], 782));
    let mut again = vec![bytes(&[3; 10]), bytes(&[0; 4])];
    assert_eq!(kernel.run([1, 1, 1], &mut again, outcome.fuel), Ok(outcome));
    assert_eq!(kernel.run([1, 1, 1], &mut again, outcome.fuel - 1), Err(Fault::Fuel));
    let endless = self::kernel("", "loop { output[i] += 1u; if output[i] == 0u { break; } }");
    assert_eq!(run(&endless, 1, &[0], 4), Err(Fault::Fuel));
}

#[test]
fn what_cannot_be_bound_is_a_fault_and_changes_nothing() {
    let kernel = kernel("", "output[i] = 1u;");
    let mut buffers = vec![bytes(&[0]), bytes(&[0; 4])];
    let fault = Fault::Count { found: 1, expected: 2 };
    assert_eq!(kernel.run([1, 1, 1], &mut buffers[..1], FUEL), Err(fault));
    for grid in [[0, 1, 1], [1, 65_536, 1], [65_535, 65_535, 2], [u32::MAX; 3]] {
        assert_eq!(kernel.run(grid, &mut buffers, FUEL), Err(Fault::Grid));
    }
    let mut odd = vec![bytes(&[0]), vec![0; 7]];
    let fault = Fault::Buffer { index: 1, size: 7, minimum: 4 };
    assert_eq!(kernel.run([1, 1, 1], &mut odd, FUEL), Err(fault));
    let limit = Limits::REFEREE.memory;
    let mut large = vec![bytes(&[0]), vec![0; limit]];
    let fault = Fault::Memory { size: limit + 4, limit };
    assert_eq!(kernel.run([1, 1, 1], &mut large, FUEL), Err(fault));
    let mut short = vec![bytes(&[0]), bytes(&[0; 3])];
    assert!(kernel.run([1, 1, 1], &mut short, FUEL).is_err());
    assert_eq!(short[1], bytes(&[0; 3]));
}

#[test]
fn what_is_not_exact_is_refused_with_a_reason() {
    let construct = |body: &str, more: &str| check(&source(more, body)).unwrap_err();
    let float = construct("let x = 1.5;", "");
    assert!(matches!(float, Ineligible::Float { at: Location { line: 13, .. }, .. }), "{float}");
    let at = Location { line: 13, column: 15 };
    assert!(
        matches!(construct("output[i] = ;", ""), Ineligible::Parse { at: found, .. } if found == at)
    );
    let invalid = construct("output[i] = input[i] + 1i;", "");
    assert!(matches!(invalid, Ineligible::Invalid { .. } | Ineligible::Parse { .. }), "{invalid}");
    let texture = "@group(0) @binding(7) var picture: texture_2d<u32>;";
    let refused = [
        ("output[i] = u32(atomicAdd(&tally[0], 1i));", TALLY, "the value that an atomic"),
        ("let seen = atomicMax(&tally[0], 1i); if seen > 3i { return; }", TALLY, "the value that"),
        ("atomicExchange(&tally[0], 1i);", TALLY, "an atomic exchange"),
        ("output[i] = over;", "override over: u32 = 3u;", "an `override`"),
        ("output[i] = workgroupUniformLoad(&one);", "var<workgroup> one: u32;", "a texture, a sub"),
        ("output[i] = textureDimensions(picture).x;", texture, "a texture, a sampler"),
        ("output[i] = 1u; textureBarrier();", "", "a texture, a subgroup"),
    ];
    for (body, more, why) in refused {
        match construct(body, more) {
            Ineligible::Construct { what } => assert!(what.starts_with(why), "{body}: {what}"),
            other => panic!("{body}: {other}"),
        }
    }
    // Nobody takes a value that has a name and no use.
    assert!(check(&source(TALLY, "let unused = atomicAdd(&tally[0], 1i);")).is_ok());
    let no_entry = Kernel::check(&source("", ""), "other", Limits::REFEREE).unwrap_err();
    assert_eq!(no_entry, Ineligible::Entry { name: "other".to_owned() });
}

#[test]
fn what_is_too_large_is_refused_before_it_costs_anything() {
    let large = |more: &str, body: &str| match check(&source(more, body)) {
        Err(Ineligible::TooLarge { what, .. }) => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(large(&" ".repeat(65_536), ""), "bytes of the source");
    let shared = "var<workgroup> board: array<u32, 4097>;";
    assert_eq!(large(shared, "board[0] = 1u;"), "words of memory of a group");
    let private = "var<private> mine: array<u32, 70000>;";
    assert_eq!(large(private, "mine[0] = 1u;"), "words that an invocation needs");
    let mut calls = String::from("fn g0() -> u32 { return 1u; }");
    for n in 1..20 {
        calls += &format!("fn g{n}() -> u32 {{ return g{m}() + g{m}(); }}", m = n - 1);
    }
    assert_eq!(large(&calls, "output[i] = g19();"), "operations");
    // Conversions between integers are no operations, and cost time nevertheless.
    let free: String = (0..200).map(|n| format!("let a{n} = bitcast<i32>(x);")).collect();
    let mut calls = format!("fn g0(x: u32) {{ {free} }}");
    for n in 1..13 {
        calls += &format!("fn g{n}(x: u32) {{ g{m}(x); g{m}(x); }}", m = n - 1);
    }
    assert_eq!(large(&calls, "g12(i);"), "pieces of inlined code");
    let mut types = String::from("alias t0 = array<u32, 1>;");
    for n in 1..40 {
        types += &format!("alias t{n} = array<t{}, 1>;", n - 1);
    }
    assert_eq!(large(&types, "var deep: t39; _ = deep;"), "types within types");
    let group = source("", "").replace("workgroup_size(4)", "workgroup_size(16, 17)");
    assert!(matches!(
        check(&group),
        Err(Ineligible::TooLarge { what: "invocations of a group", .. })
    ));
}

#[test]
fn the_normalised_source_is_a_kernel_with_the_same_outcome() {
    let more = "struct Pair { x: vec2<i32>, y: array<u32, 3> }";
    let body = "
      var pair: Pair;
      pair.x = vec2<i32>(bitcast<i32>(input[i]), -5i) % vec2<i32>(3i, i32(i));
      pair.y[input[i]] = input[i] / i;
      output[i] = pair.y[2] + bitcast<u32>(pair.x.x * pair.x.y) + (input[i] << i);
    ";
    let first = kernel(more, body);
    let second = check(&first.source()).unwrap();
    assert_eq!(first.bindings(), second.bindings());
    let input = [9, 2, 100, 7, 5, 6, 1, 0];
    assert_eq!(run(&first, 2, &input, 8), run(&second, 2, &input, 8));
}

/// As deep as sources may be: the parser and the validator call themselves for what is nested.
#[test]
fn the_deepest_sources_fit_on_a_small_stack() {
    let branch = |n: u32| format!("else if i == {n}u {{ output[i] = {n}u; }}");
    let chain: String = (0..31).map(branch).collect();
    let body = format!("if i > 1000u {{ return; }} {chain}");
    assert_eq!(run(&kernel("", &body), 1, &[0], 4), Ok(vec![0, 1, 2, 3]));
    let blocks = format!("{}output[i] = 1u;{}", "if i < 9u { ".repeat(29), "}".repeat(29));
    assert_eq!(run(&kernel("", &blocks), 1, &[0], 4), Ok(vec![1; 4]));
    let brackets = format!("output[i] = {}i{};", "(1u + ".repeat(30), ")".repeat(30));
    assert_eq!(run(&kernel("", &brackets), 1, &[0], 4), Ok(vec![30, 31, 32, 33]));
    let sum = format!("output[i] = i{};", " + 1u".repeat(120));
    assert_eq!(run(&kernel("", &sum), 1, &[0], 4), Ok(vec![120, 121, 122, 123]));
    let mut constants = String::from("const a240 = 5u;");
    for n in 0..240 {
        constants += &format!("const a{n} = a{} + 1u;", n + 1);
    }
    assert_eq!(run(&kernel(&constants, "output[i] = a0;"), 1, &[0], 4), Ok(vec![245; 4]));
}
