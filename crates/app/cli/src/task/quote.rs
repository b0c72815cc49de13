//! `opengpu quote`: what a task would cost, and who would run it.

use super::{plan::Plan, wanted::Wanted};
use crate::context::Context;
use anyhow::Result;
use clap::Args;
use opengpu_types::Address;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    wanted: Wanted,
    /// Who would pay: an address, or the name of a key.
    #[arg(long, value_name = "ACCOUNT")]
    from: Option<String>,
}

pub(crate) fn run(context: &Context, arguments: Arguments) -> Result<()> {
    context.make_home()?;
    // Whoever has no key yet may look.
    let client = match context.wallet_name(arguments.from.as_deref()) {
        Ok(name) => context.address(&name)?,
        Err(_) => Address::ZERO,
    };
    let plan = Plan::make(context, &arguments.wanted.resolve()?.wanted, client)?;
    context.output.show(&plan.json(), |_| plan.text_with_tiers())
}
