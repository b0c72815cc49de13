//! `opengpu`: the binary. All of it is in the library beside it.

use std::process::ExitCode;

/// A node allocates on many threads and lives for months. The C library's allocator keeps what a busy
/// hour needed; this one returns it to the system (`.cargo/config.toml` says when).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    opengpu_cli::main(opengpu_exec::child::serve)
}
