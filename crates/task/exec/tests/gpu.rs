//! Kernels on whatever adapter this machine has; a software adapter is enough.

#![cfg(feature = "gpu")]
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

use std::{
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use opengpu_exec::gpu::{
    Access, Adapter, AdapterId, BATCH_MAX, Binding, Buffer, Code, Gpu, GpuError, Kind, Limits,
    Pipeline, Space, adapters,
    overhead::{self, MATMUL, MATMUL_BINDINGS, MATMUL_TILE},
};

use opengpu_referee::wgsl;

const PATIENCE: Duration = Duration::from_secs(120);
const READ: Binding = Binding { index: 0, access: Access::Read };
const WRITE: Binding = Binding { index: 1, access: Access::Write };

/// Adds one to each number.
const MORE: &str = "
@group(0) @binding(0) var<storage, read> a: array<u32>;
@group(0) @binding(1) var<storage, read_write> to: array<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) at: vec3<u32>) {
    to[at.x] = a[at.x] + 1u;
}";

fn adapter() -> Adapter {
    let first = adapters().into_iter().next();
    first.expect("a GPU, or Mesa's software driver (package mesa-vulkan-drivers)")
}

fn gpu() -> Gpu {
    Gpu::open(&adapter(), Limits::default()).unwrap()
}

fn more(gpu: &Gpu) -> Pipeline {
    gpu.compile(Code::Wgsl(MORE), "main", &[READ, WRITE]).unwrap()
}

fn storage(gpu: &Gpu, numbers: &[u32]) -> Buffer {
    let bytes = bytes(numbers);
    let buffer = gpu.buffer(bytes.len() as u64, Space::Storage).unwrap();
    gpu.write(&buffer, 0, &bytes).unwrap();
    buffer
}

fn bytes(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().copied().flat_map(u32::to_le_bytes).collect()
}

fn numbers(gpu: &Gpu, buffer: &Buffer) -> Vec<u32> {
    let length = usize::try_from(buffer.size()).unwrap();
    let bytes = gpu.read(buffer, 0, length, PATIENCE).unwrap();
    bytes.as_chunks::<4>().0.iter().copied().map(u32::from_le_bytes).collect()
}

#[test]
fn every_adapter_is_listed_once_and_found_by_its_id() {
    let adapters = adapters();
    assert!(!adapters.is_empty());
    let software = adapters.iter().filter(|adapter| adapter.info().kind == Kind::Software);
    assert!(software.count() <= 1, "Vulkan and GL show the same software");
    for adapter in &adapters {
        let found = Adapter::find(&adapter.info().id).unwrap();
        assert_eq!(found.info(), adapter.info());
    }
    let id = AdapterId::new("ffff-ffff-0");
    let others: Vec<_> = adapters.iter().map(|adapter| adapter.info().id.clone()).collect();
    let error = Adapter::find(&id).unwrap_err();
    assert!(error.to_string().contains(&others[0].to_string()), "{error}");
    assert_eq!(error, GpuError::NoAdapter { id, others });
}

#[test]
fn a_kernel_computes_what_it_says() {
    let gpu = gpu();
    let from: Vec<u32> = (0..1024).map(|number| number * 3).collect();
    let (from, to) = (storage(&gpu, &from), storage(&gpu, &[0; 1024]));
    gpu.dispatch(&more(&gpu), &[&from, &to], [16, 1, 1]).unwrap();
    gpu.wait(PATIENCE).unwrap();
    let expected: Vec<u32> = (0..1024).map(|number| number * 3 + 1).collect();
    assert_eq!(numbers(&gpu, &to), expected);
}

#[test]
fn a_module_that_was_read_before_runs_like_its_text() {
    let gpu = gpu();
    let module = naga::front::wgsl::parse_str(MORE).unwrap();
    let code = Code::Naga(Box::new(module));
    let pipeline = gpu.compile(code, "main", &[READ, WRITE]).unwrap();
    let (from, to) = (storage(&gpu, &[41; 64]), storage(&gpu, &[0; 64]));
    gpu.dispatch(&pipeline, &[&from, &to], [1, 1, 1]).unwrap();
    assert_eq!(numbers(&gpu, &to), [42; 64]);
}

#[test]
fn items_of_a_batch_see_what_the_items_before_them_wrote() {
    let gpu = gpu();
    let pipeline = more(&gpu);
    let (a, b) = (storage(&gpu, &[0; 64]), storage(&gpu, &[7; 64]));
    let there = gpu.bind(&pipeline, &[&a, &b]).unwrap();
    let back = gpu.bind(&pipeline, &[&b, &a]).unwrap();
    let mut batch = gpu.batch();
    for _ in 0..5 {
        batch.run(&there, [1, 1, 1]).unwrap();
        batch.run(&back, [1, 1, 1]).unwrap();
    }
    batch.clear(&b).unwrap();
    batch.copy((&a, 0), (&b, 128), 128).unwrap();
    batch.submit().unwrap();
    assert_eq!(numbers(&gpu, &a), [10; 64]);
    assert_eq!(numbers(&gpu, &b), [[0; 32], [10; 32]].concat());
}

#[test]
fn a_batch_has_a_limit() {
    let gpu = gpu();
    let buffer = storage(&gpu, &[0; 4]);
    let mut batch = gpu.batch();
    for _ in 0..BATCH_MAX {
        batch.clear(&buffer).unwrap();
    }
    assert!(matches!(batch.clear(&buffer), Err(GpuError::Limit { .. })));
    batch.submit().unwrap();
}

#[test]
fn bytes_come_back_as_they_went_in_parts_and_with_odd_ends() {
    let gpu = gpu();
    // More than travels at once.
    let sent: Vec<u8> =
        (0..(33usize << 20) + 3).map(|index| u8::try_from(index % 251).unwrap()).collect();
    let buffer = gpu.buffer((33 << 20) + 8, Space::Storage).unwrap();
    gpu.write(&buffer, 4, &sent).unwrap();
    assert_eq!(gpu.read(&buffer, 4, sent.len(), PATIENCE).unwrap(), sent);
    assert_eq!(gpu.read(&buffer, 8, 5, PATIENCE).unwrap(), sent[4..9]);
    assert_eq!(gpu.read(&buffer, 0, 4, PATIENCE).unwrap(), [0; 4]);
    let end = buffer.size() - 4;
    assert_eq!(gpu.read(&buffer, end, 4, PATIENCE).unwrap()[3], 0, "the last word is filled");
    assert_eq!(gpu.read(&buffer, 0, 0, PATIENCE).unwrap(), b"");
    let behind = gpu.read(&buffer, end, 5, PATIENCE);
    assert!(matches!(behind, Err(GpuError::Limit { .. })), "{behind:?}");
    assert!(matches!(gpu.write(&buffer, end, &[1; 5]), Err(GpuError::Limit { .. })));
    assert!(matches!(gpu.write(&buffer, 2, &[1; 4]), Err(GpuError::Misfit { .. })));
}

#[test]
fn a_bad_kernel_is_an_error_with_a_line() {
    let gpu = gpu();
    let check = |code: &str| gpu.compile(Code::Wgsl(code), "main", &[]).unwrap_err();
    let syntax = check("@compute @workgroup_size(1)\nfn main() {\n  let x = ;\n}");
    assert!(matches!(syntax, GpuError::Kernel { line: Some(3), .. }), "{syntax:?}");
    let types = check("@compute @workgroup_size(1)\nfn main() {\n  let x: u32 = 1.5;\n}");
    assert!(matches!(types, GpuError::Kernel { line: Some(3), .. }), "{types:?}");
    let name = check("@compute @workgroup_size(1)\nfn other() {}");
    assert!(matches!(name, GpuError::Kernel { .. }), "{name:?}");
    let large = check("@compute @workgroup_size(65536)\nfn main() {}");
    assert!(matches!(large, GpuError::Kernel { .. }), "{large:?}");
    assert!(large.is_of_program());
    for noise in ["", "\0\u{1}\u{2}", "fn fn fn"] {
        assert!(matches!(check(noise), GpuError::Kernel { .. }), "{noise:?}");
    }
    // The device still works afterwards.
    let (from, to) = (storage(&gpu, &[1; 64]), storage(&gpu, &[0; 64]));
    gpu.dispatch(&more(&gpu), &[&from, &to], [1, 1, 1]).unwrap();
    assert_eq!(numbers(&gpu, &to), [2; 64]);
}

#[test]
fn a_kernel_that_is_nested_without_measure_is_an_error() {
    let gpu = gpu();
    let deep = 20_000;
    let expression = format!("{}1u{}", "(".repeat(deep), ")".repeat(deep));
    let blocks = format!("{}{}", "{".repeat(deep), "}".repeat(deep));
    for body in [format!("let x = {expression};"), blocks] {
        let code = format!("@compute @workgroup_size(1) fn main() {{ {body} }}");
        let error = gpu.compile(Code::Wgsl(&code), "main", &[]).unwrap_err();
        assert!(matches!(error, GpuError::Kernel { .. }), "{error:?}");
    }
    let kernel = Limits::default().kernel;
    let long = " ".repeat(kernel + 1);
    let error = gpu.compile(Code::Wgsl(&long), "main", &[]).unwrap_err();
    assert!(matches!(error, GpuError::Limit { limit, .. } if limit == kernel as u64));
}

#[test]
fn bindings_that_a_kernel_does_not_have_are_errors() {
    let gpu = gpu();
    let check = |bindings: &[Binding]| gpu.compile(Code::Wgsl(MORE), "main", bindings).unwrap_err();
    assert!(matches!(check(&[READ]), GpuError::Kernel { .. }), "one is missing");
    let swapped =
        [Binding { access: Access::Write, ..READ }, Binding { access: Access::Read, ..WRITE }];
    assert!(matches!(check(&swapped), GpuError::Kernel { .. }), "a buffer to write is read-only");
    let uniform = Binding { access: Access::Uniform, ..READ };
    assert!(matches!(check(&[uniform, WRITE]), GpuError::Kernel { .. }), "another space");
    assert!(matches!(check(&[READ, READ, WRITE]), GpuError::Misfit { .. }), "one is there twice");
    let far = Binding { index: u32::MAX, ..READ };
    assert!(matches!(check(&[READ, WRITE, far]), GpuError::Limit { .. }));
    let many: Vec<_> = (0..5000).map(|index| Binding { index, ..READ }).collect();
    assert!(matches!(check(&many), GpuError::Limit { .. }));
}

#[test]
fn buffers_that_do_not_fit_a_kernel_are_errors() {
    let gpu = gpu();
    let pipeline = more(&gpu);
    let a = storage(&gpu, &[0; 64]);
    let uniform = gpu.buffer(16, Space::Uniform).unwrap();
    let check = |buffers: &[&Buffer]| gpu.dispatch(&pipeline, buffers, [1, 1, 1]).unwrap_err();
    assert!(matches!(check(&[&a]), GpuError::Misfit { .. }), "one is missing");
    assert!(matches!(check(&[&uniform, &a]), GpuError::Misfit { .. }), "another space");
    assert!(matches!(check(&[&a, &a]), GpuError::Misfit { .. }), "read and written at once");
    let other = self::gpu();
    let foreign = storage(&other, &[0; 64]);
    assert!(matches!(check(&[&foreign, &a]), GpuError::Misfit { .. }), "of another device");
    let wide = "
@group(0) @binding(0) var<uniform> shape: array<vec4<u32>, 4>;
@group(0) @binding(1) var<storage, read_write> to: array<u32>;
@compute @workgroup_size(1)
fn main() { to[0] = shape[3].x; }";
    let bindings = [Binding { access: Access::Uniform, ..READ }, WRITE];
    let wide = gpu.compile(Code::Wgsl(wide), "main", &bindings).unwrap();
    let small = gpu.dispatch(&wide, &[&uniform, &a], [1, 1, 1]);
    assert!(matches!(small, Err(GpuError::Misfit { .. })), "too small: {small:?}");
}

#[test]
fn a_grid_out_of_range_is_an_error() {
    let gpu = gpu();
    let pipeline = more(&gpu);
    let (a, b) = (storage(&gpu, &[0; 64]), storage(&gpu, &[0; 64]));
    let check = |grid| gpu.dispatch(&pipeline, &[&a, &b], grid).unwrap_err();
    for grid in [[u32::MAX, 1, 1], [1, u32::MAX, 1], [1, 1, u32::MAX]] {
        assert!(matches!(check(grid), GpuError::Limit { .. }), "{grid:?}");
    }
    assert!(matches!(check([1, 0, 1]), GpuError::Misfit { .. }));
}

#[test]
fn a_kernel_that_leaves_its_buffers_touches_nothing_else() {
    let gpu = gpu();
    let code = MORE.replace("to[at.x]", "to[at.x * 1000003u]");
    let pipeline = gpu.compile(Code::Wgsl(&code), "main", &[READ, WRITE]).unwrap();
    let (from, to) = (storage(&gpu, &[4; 64]), storage(&gpu, &[0; 64]));
    let other = storage(&gpu, &[9; 64]);
    gpu.dispatch(&pipeline, &[&from, &to], [64, 1, 1]).unwrap();
    gpu.wait(PATIENCE).unwrap();
    assert_eq!(numbers(&gpu, &other), [9; 64]);
    assert_eq!(numbers(&gpu, &to)[0], 5);
}

#[test]
fn a_buffer_that_is_too_large_is_an_error() {
    let gpu = Gpu::open(&adapter(), Limits { memory: 4096, ..Limits::default() }).unwrap();
    let huge = gpu.buffer(1 << 60, Space::Storage);
    assert!(matches!(huge, Err(GpuError::Limit { .. })), "{huge:?}");
    let uniform = gpu.buffer(1 << 40, Space::Uniform);
    assert!(matches!(uniform, Err(GpuError::Limit { .. })), "{uniform:?}");
    for odd in [0, 1, 6] {
        assert!(matches!(gpu.buffer(odd, Space::Storage), Err(GpuError::Misfit { .. })));
    }
    let half = gpu.buffer(2048, Space::Storage).unwrap();
    let other = gpu.buffer(2048, Space::Uniform).unwrap();
    let full = GpuError::Limit { what: "bytes of all buffers", wanted: 4100, limit: 4096 };
    assert_eq!(gpu.buffer(4, Space::Storage).unwrap_err(), full);
    drop(half);
    assert_eq!(gpu.memory_used(), 2048, "what is dropped is given back");
    gpu.buffer(2048, Space::Storage).unwrap();
    drop(other);
}

#[test]
fn a_new_buffer_is_zero_whatever_was_there_before() {
    let gpu = gpu();
    let pipeline = more(&gpu);
    let size = 1 << 20;
    for _ in 0..3 {
        let full = gpu.buffer(size, Space::Storage).unwrap();
        gpu.write(&full, 0, &vec![0xa5; 1 << 20]).unwrap();
        gpu.wait(PATIENCE).unwrap();
        assert_eq!(gpu.read(&full, 0, 4, PATIENCE).unwrap(), [0xa5; 4]);
        drop(full);
        gpu.wait(PATIENCE).unwrap();
        // Read back, and read by a kernel.
        let fresh = gpu.buffer(size, Space::Storage).unwrap();
        let seen = gpu.buffer(size, Space::Storage).unwrap();
        gpu.dispatch(&pipeline, &[&fresh, &seen], [4096, 1, 1]).unwrap();
        assert!(numbers(&gpu, &fresh).iter().all(|number| *number == 0));
        assert!(numbers(&gpu, &seen).iter().all(|number| *number == 1));
    }
}

/// What a kernel left in the memory of its workgroups is not there for the next one.
#[test]
fn the_memory_of_a_workgroup_is_zero_whatever_ran_before() {
    let gpu = gpu();
    let code = |body: &str| {
        format!(
            "@group(0) @binding(1) var<storage, read_write> to: array<u32>;
            var<workgroup> local: array<u32, 4096>;
            @compute @workgroup_size(64)
            fn main(@builtin(local_invocation_index) me: u32, @builtin(workgroup_id) g: vec3<u32>) {{
                for (var i = me; i < 4096u; i += 64u) {{ {body} }}
            }}"
        )
    };
    let fill = code("local[i] = 0xa5a5a5a5u + to[0]; to[g.x * 4096u + i] = local[4095u - i];");
    let look = code("to[g.x * 4096u + i] = local[i];");
    let compile = |code: &str| gpu.compile(Code::Wgsl(code), "main", &[WRITE]).unwrap();
    let (fill, look) = (compile(&fill), compile(&look));
    let to = gpu.buffer(4 * 4096 * 16, Space::Storage).unwrap();
    for _ in 0..4 {
        gpu.dispatch(&fill, &[&to], [16, 1, 1]).unwrap();
        gpu.dispatch(&look, &[&to], [16, 1, 1]).unwrap();
        assert!(numbers(&gpu, &to).iter().all(|number| *number == 0));
    }
}

#[test]
fn a_closed_device_is_lost_and_says_so() {
    let gpu = gpu();
    let pipeline = more(&gpu);
    let (a, b) = (storage(&gpu, &[0; 64]), storage(&gpu, &[0; 64]));
    gpu.close();
    let lost = |error| assert!(matches!(error, GpuError::Lost { .. }), "{error:?}");
    lost(gpu.wait(PATIENCE).unwrap_err());
    lost(gpu.dispatch(&pipeline, &[&a, &b], [1, 1, 1]).unwrap_err());
    lost(gpu.write(&a, 0, &[1; 4]).unwrap_err());
    lost(gpu.read(&a, 0, 4, PATIENCE).unwrap_err());
    lost(gpu.buffer(4, Space::Storage).unwrap_err());
    lost(gpu.compile(Code::Wgsl(MORE), "main", &[READ, WRITE]).unwrap_err());
}

#[test]
fn a_product_of_matrices_is_the_one_of_the_processor() {
    let gpu = gpu();
    let side = 2 * MATMUL_TILE as usize;
    let number = |index: usize, times: usize| ((index * times) % 17) as f32 / 8.0 - 1.0;
    let left: Vec<f32> = (0..side * side).map(|index| number(index, 7)).collect();
    let right: Vec<f32> = (0..side * side).map(|index| number(index, 11)).collect();
    let words = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
    let shape = gpu.buffer(16, Space::Uniform).unwrap();
    gpu.write(&shape, 0, &(2 * MATMUL_TILE).to_le_bytes()).unwrap();
    let (a, b) = (storage(&gpu, &words(&left)), storage(&gpu, &words(&right)));
    let c = gpu.buffer(a.size(), Space::Storage).unwrap();
    let pipeline = gpu.compile(Code::Wgsl(MATMUL), "main", &MATMUL_BINDINGS).unwrap();
    gpu.dispatch(&pipeline, &[&shape, &a, &b, &c], [2, 2, 1]).unwrap();
    let product = numbers(&gpu, &c);
    for row in 0..side {
        for column in 0..side {
            let exact: f64 = (0..side)
                .map(|k| f64::from(left[row * side + k]) * f64::from(right[k * side + column]))
                .sum();
            let found = f64::from(f32::from_bits(product[row * side + column]));
            assert!((found - exact).abs() < 1e-3, "{row} {column}: {found} {exact}");
        }
    }
}

#[test]
fn the_cost_of_the_layer_is_measured_on_both_sides() {
    let times = overhead::matmul(&gpu(), 1, 3).unwrap();
    assert_eq!((times.bare.len(), times.ours.len()), (3, 3));
    assert!(times.bare.iter().chain(&times.ours).all(|time| *time > Duration::ZERO));
}

/// Names the test that runs in a process of its own.
const ALONE: &str = "OPENGPU_TEST_ALONE";

#[test]
fn a_kernel_that_never_ends_is_a_timeout_and_ends_with_its_process() {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_process_with_a_kernel_that_never_ends", "--nocapture"])
        .env(ALONE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (send, told) = mpsc::channel();
    let reader = thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    let mut seen = Vec::new();
    while let Ok(line) = told.recv_timeout(PATIENCE) {
        seen.push(line);
        if seen.last().is_some_and(|line| line.contains("left behind")) {
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap();
    assert!(seen.iter().any(|line| line.contains("timeout after 300 ms")), "{seen:?}");
    assert!(seen.iter().any(|line| line.contains("left behind")), "{seen:?}");
}

#[test]
#[expect(clippy::print_stdout, reason = "it tells another process what it found")]
fn a_process_with_a_kernel_that_never_ends() {
    if std::env::var_os(ALONE).is_none() {
        return;
    }
    // Some drivers end the loops of a kernel after 65,535 rounds, so this one takes a century by
    // its number of workgroups.
    let endless = "
@group(0) @binding(1) var<storage, read_write> to: array<atomic<u32>>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>) {
    for (var round = 0u; round < 60000u; round++) {
        atomicAdd(&to[round % 16u], group.x ^ group.y);
    }
}";
    let gpu = gpu();
    let to = gpu.buffer(64, Space::Storage).unwrap();
    let pipeline = gpu.compile(Code::Wgsl(endless), "main", &[WRITE]).unwrap();
    gpu.dispatch(&pipeline, &[&to], [65535, 65535, 1]).unwrap();
    match gpu.wait(Duration::from_millis(300)) {
        Err(GpuError::Timeout { after }) => println!("\ntimeout after {} ms", after.as_millis()),
        other => println!("\n{other:?}"),
    }
    drop((to, pipeline, gpu));
    println!("\nleft behind");
}

/// Runs a kernel of integers on the device and in the referee: one group of eight, one number in, a
/// number for each invocation out.
fn both(body: &str, number: u32) -> (Vec<u32>, Result<Vec<u32>, wgsl::Fault>) {
    let source = format!(
        "@group(0) @binding(0) var<storage, read> a: array<u32>;
        @group(0) @binding(1) var<storage, read_write> to: array<u32>;
        @compute @workgroup_size(8)
        fn main(@builtin(global_invocation_id) at: vec3<u32>) {{ {body} }}"
    );
    let kernel = wgsl::Kernel::check(&source, "main", wgsl::Limits::VERIFIER).unwrap();
    let gpu = gpu();
    let code = Code::Naga(Box::new(kernel.module().clone()));
    let pipeline = gpu.compile(code, "main", &[READ, WRITE]).unwrap();
    let (from, to) = (storage(&gpu, &[number]), storage(&gpu, &[0; 8]));
    gpu.dispatch(&pipeline, &[&from, &to], [1, 1, 1]).unwrap();
    let device = numbers(&gpu, &to);
    let mut buffers = [bytes(&[number]), bytes(&[0; 8])];
    let ran = kernel.run([1, 1, 1], &mut buffers, 1 << 40);
    let words = buffers[1].as_chunks::<4>().0.iter().copied().map(u32::from_le_bytes).collect();
    (device, ran.map(|_| words))
}

#[test]
fn a_device_takes_as_many_rounds_as_the_referee_allows() {
    // The round that only ends the loop counts, too.
    let one = "for (var n = 0u; n < a[0]; n++) { to[at.x] += n ^ at.x; }";
    let (device, referee) = both(one, 65_534);
    assert_eq!(Ok(device), referee);
    // Seven of eight invocations leave each inner loop at once, but the device waits for the last.
    let uneven = "for (var n = 0u; n < a[0]; n++) {
        let most = select(0u, 250u, n % 8u == at.x);
        for (var m = 0u; m < most; m++) { to[at.x] += n ^ m; }
    }";
    let (device, referee) = both(uneven, 260);
    assert_eq!(Ok(device), referee);
    let software = adapter().info().kind == Kind::Software;
    for (body, number) in [(one, 65_536), (uneven, 300)] {
        let (device, referee) = both(body, number);
        assert_eq!(referee, Err(wgsl::Fault::Rounds));
        let sum = |lane: u32| -> u32 {
            let rounds = 0..number;
            if body == one {
                return rounds.fold(0, |sum: u32, n| sum.wrapping_add(n ^ lane));
            }
            let own = rounds.filter(|n| n % 8 == lane);
            own.flat_map(|n| (0..250).map(move |m| n ^ m)).fold(0, u32::wrapping_add)
        };
        let whole: Vec<u32> = (0..8).map(sum).collect();
        // Should this fail on a newer driver, then it has no such limit any more.
        assert_eq!(device != whole, software, "{device:?} {whole:?}");
    }
}
