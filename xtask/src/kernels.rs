//! `kernels`: random integer kernels on the referee's interpreter and on a device, bit for bit.

use crate::cargo::{self, Profile};
use crate::packages::{self, Requirement};
use crate::process;
use anyhow::Result;
use std::process::Command;

/// What `kernels` takes.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Kernels to compare.
    #[arg(long, default_value_t = 2000)]
    pub(crate) count: u64,
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) first_seed: u64,
}

/// Without a GPU, Mesa's software is one; these bring it.
pub(crate) const DRIVERS: [&str; 2] = ["mesa-vulkan-drivers", "libvulkan1"];

pub(crate) fn run(arguments: &Arguments, profile: Profile) -> Result<()> {
    for name in DRIVERS {
        packages::provide(&Requirement::Debian(name.to_owned()))?;
    }
    let [binary] = cargo::build(["kernels"], profile)?;
    process::run(
        Command::new(binary)
            .args(["--count", &arguments.count.to_string()])
            .args(["--first-seed", &arguments.first_seed.to_string()]),
    )
}
