//! Runs that must fail: each takes away one thing that the network needs, and the check that
//! watches over it must notice.

use super::{
    Breach, LIMIT, PATIENCE, Production, Report, Scenario,
    impostor::Part,
    liar::Lie,
    plan::{Act, Deceit, Plan},
    traders::Habit,
};
use commonware_runtime::{
    Clock as _,
    deterministic::{Config as RuntimeConfig, Context, Runner},
};
use std::time::Duration;

/// What is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Honesty of everybody: every validator runs twice, once in each of two networks.
    SplitBrain,
    /// A quorum: half of the validators never hear of the other half.
    NoQuorum,
    /// Reports: nobody holds the key of an account that could report a liar.
    NobodyReports,
    /// The same, and it is an impostor that contradicts itself.
    NobodyReportsImpostor,
    /// The end of clients' patience: they wait for a day, and nobody sells.
    NobodySells,
    /// Tasks: nobody buys.
    NobodyBuys,
    /// Alarms: whoever looks at the chain finds that nothing is woken.
    NobodyIsWoken,
}

/// Runs a network that cannot go well.
pub fn run_canary(canary: Canary) -> Result<Report, Breach> {
    let plan = match canary {
        Canary::NobodyReports => {
            let deceits = vec![Deceit { who: 0, lie: Lie::TwoFinalizes, from_epoch: 0 }];
            Plan { deceits, ..Plan::quiet() }
        }
        Canary::NobodyReportsImpostor => Plan::quiet_with(Part::Conflicter),
        Canary::SplitBrain | Canary::NoQuorum => Plan::quiet(),
        Canary::NobodySells | Canary::NobodyBuys | Canary::NobodyIsWoken => {
            Plan { acts: vec![Act { seconds: 20, ..Act::default() }], ..Plan::quiet() }
        }
    };
    let habit = match canary {
        Canary::NobodySells => Some(Habit::Wait),
        Canary::NobodyBuys => Some(Habit::Sell),
        Canary::NobodyIsWoken => Some(Habit::Trade),
        _ => None,
    };
    let scenario = if habit.is_some() { Scenario::Market } else { Scenario::Transfers };
    let mut production = Production::new(scenario, plan);
    production.traders = production.traders.map(|traders| traders.with(habit.unwrap_or_default()));
    if canary == Canary::NobodyIsWoken {
        production.shadow.forget_alarms();
    }
    let config = RuntimeConfig::default().with_timeout(Some(LIMIT));
    let (result, checkpoint) = Runner::new(config).start_and_recover(|context| async {
        match canary {
            Canary::SplitBrain => production.twice(context).await,
            Canary::NoQuorum => production.halved(context).await,
            Canary::NobodyReports | Canary::NobodyReportsImpostor => {
                for member in &mut production.cast.members {
                    member.keys.operator = None;
                }
                production.until_the_end(context, 0).await
            }
            Canary::NobodySells | Canary::NobodyBuys | Canary::NobodyIsWoken => {
                production.until_the_end(context, 0).await
            }
        }
    });
    result?;
    Ok(production.report(checkpoint.auditor().state()))
}

impl Production {
    /// Two networks of the same validators, of which one has clients.
    async fn twice(&mut self, context: Context) -> Result<(), Breach> {
        let mut with_clients = self.open(&context, "first", 0).await?;
        let mut without = self.open(&context, "second", 0).await?;
        for second in 0..PATIENCE {
            self.load(&with_clients, 1, second).await;
            context.sleep(Duration::from_secs(1)).await;
            with_clients.compare(&mut self.shadow).await?;
            without.compare(&mut self.shadow).await?;
        }
        Ok(())
    }

    /// A partition that never ends.
    async fn halved(&mut self, context: Context) -> Result<(), Breach> {
        let mut lab = self.open(&context, "lab", 0).await?;
        self.weather.set(0, [lab.key(0), lab.key(1)].into());
        self.finale(&context, &mut lab).await
    }
}
