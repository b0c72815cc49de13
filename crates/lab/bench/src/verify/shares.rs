//! Arithmetic of what verifying costs beside the work. Pure: seconds of processor time come in, shares go out.

use crate::figures::float;

/// Seconds of processor time since an earlier moment, by who spent them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spent {
    /// Of each provider: what runs below its agent, which are its executors.
    pub(super) executors: Vec<f64>,
    /// Of each provider: its agent alone.
    pub(super) agents: Vec<f64>,
    /// All validators.
    pub(super) nodes: f64,
    pub(super) relay: f64,
    /// The client, which is this process.
    pub(super) client: f64,
    /// By the clock.
    pub(super) wall: f64,
}

impl Spent {
    /// What was spent since an earlier look.
    pub(super) fn since(&self, before: &Self) -> Self {
        let less = |now: &[f64], then: &[f64]| now.iter().zip(then).map(|(a, b)| a - b).collect();
        Self {
            executors: less(&self.executors, &before.executors),
            agents: less(&self.agents, &before.agents),
            nodes: self.nodes - before.nodes,
            relay: self.relay - before.relay,
            client: self.client - before.client,
            wall: self.wall - before.wall,
        }
    }

    /// Executors of one provider.
    pub(super) fn executor(&self, provider: usize) -> f64 {
        self.executors.get(provider).copied().unwrap_or(0.0)
    }

    /// Executors of all but one.
    pub(super) fn executors_beside(&self, provider: usize) -> f64 {
        self.executors.iter().sum::<f64>() - self.executor(provider)
    }

    pub(super) fn all_agents(&self) -> f64 {
        self.agents.iter().sum()
    }

    /// Everybody but executors.
    pub(super) fn rest(&self) -> f64 {
        self.all_agents() + self.nodes + self.relay + self.client
    }
}

/// A part in percent of a whole; none of nothing.
pub(super) fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0 && part.is_finite()).then(|| 100.0 * part / whole)
}

/// An audited run: what its executors took, and how much was repeated by how many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Audited {
    /// Seconds of the provider's executor.
    pub(super) own: f64,
    /// Seconds of all verifiers' executors.
    pub(super) checking: f64,
    /// Segments of the run.
    pub(super) segments: usize,
    /// Segments that were repeated.
    pub(super) drawn: usize,
    /// By so many.
    pub(super) verifiers: usize,
}

impl Audited {
    /// What was spent beside the run, in percent of it.
    pub(super) fn extra(&self) -> Option<f64> {
        percent(self.checking, self.own)
    }

    /// Seconds of one segment in the run.
    pub(super) fn segment(&self) -> Option<f64> {
        (self.segments > 0).then(|| self.own / count(self.segments))
    }

    /// Seconds that one verifier spent beside its segments: its executor, the program, the beginning.
    pub(super) fn fixed(&self) -> Option<f64> {
        let repeated = self.segment()? * count(self.drawn);
        (self.verifiers > 0).then(|| (self.checking - repeated) / count(self.verifiers))
    }

    /// What it would be with so many verifiers, in percent: derived from what one spends beside its segments.
    pub(super) fn extra_with(&self, verifiers: usize) -> Option<f64> {
        let repeated = self.segment()? * count(self.drawn);
        percent(self.fixed()?.mul_add(count(verifiers), repeated), self.own)
    }
}

/// What is audited at a rate, in percent of all work, if an audit of everything takes `extra` percent.
pub(super) fn at_rate(extra: f64, thousandths: f64) -> f64 {
    extra * thousandths / 1_000.0
}

/// What audits took beside executors: the difference of two runs of the same work, of which one was audited,
/// without what the network spends anyway in the time that the audited one took longer.
pub(super) fn net(audited: &Spent, unaudited: &Spent, idle: &Spent) -> f64 {
    let per_second = if idle.wall > 0.0 { idle.rest() / idle.wall } else { 0.0 };
    audited.rest() - unaudited.rest() - per_second * (audited.wall - unaudited.wall)
}

/// A count as a float.
pub(super) fn count(count: usize) -> f64 {
    float(u64::try_from(count).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(executors: [f64; 3], agents: [f64; 3], nodes: f64, wall: f64) -> Spent {
        let (executors, agents) = (executors.to_vec(), agents.to_vec());
        Spent { executors, agents, nodes, relay: 0.25, client: 0.5, wall }
    }

    #[test]
    fn executors_are_counted_apart_from_everything_else() {
        let before = spent([1.0, 2.0, 3.0], [0.1, 0.2, 0.3], 5.0, 10.0);
        let now = spent([14.0, 2.5, 3.25], [0.2, 0.4, 0.5], 6.0, 30.0);
        let since = now.since(&before);
        assert_eq!((since.executor(0), since.executors_beside(0)), (13.0, 0.75));
        assert_eq!((since.nodes, since.relay, since.client, since.wall), (1.0, 0.0, 0.0, 20.0));
        assert!((since.all_agents() - 0.5).abs() < 1e-9);
        assert!((since.rest() - 1.5).abs() < 1e-9, "the time of executors is not in it");
    }

    #[test]
    fn an_extra_is_a_share_of_the_run_and_nothing_is_a_share_of_nothing() {
        let audited = Audited { own: 16.0, checking: 0.9, segments: 256, drawn: 12, verifiers: 3 };
        assert_eq!(audited.extra(), Some(5.625));
        // Twelve segments of a sixteenth of a second are 0.75 s; each verifier spent 50 ms beside them.
        assert_eq!(audited.segment(), Some(0.0625));
        assert!((audited.fixed().unwrap() - 0.05).abs() < 1e-9);
        assert_eq!(audited.extra_with(3), audited.extra());
        assert!((audited.extra_with(12).unwrap() - 8.4375).abs() < 1e-9);
        assert_eq!(Audited { own: 0.0, ..audited }.extra(), None);
        assert_eq!(Audited { segments: 0, ..audited }.segment(), None);
        assert_eq!(Audited { verifiers: 0, ..audited }.fixed(), None);
        assert_eq!(percent(f64::NAN, 1.0), None);
    }

    #[test]
    fn a_rate_of_a_tenth_takes_a_tenth() {
        assert_eq!(at_rate(5.0, 100.0), 0.5);
        assert_eq!(at_rate(5.0, 1_000.0), 5.0);
    }

    #[test]
    fn what_the_network_spends_anyway_is_not_the_audits() {
        // An idle network of 0.1 s a second; the audited run took three seconds longer.
        let idle = Spent { nodes: 0.5, wall: 5.0, ..Spent::default() };
        let unaudited = Spent { nodes: 1.0, wall: 1.0, ..Spent::default() };
        let audited = Spent { nodes: 1.7, wall: 4.0, ..Spent::default() };
        assert!((net(&audited, &unaudited, &idle) - 0.4).abs() < 1e-9);
        assert!((net(&audited, &unaudited, &Spent::default()) - 0.7).abs() < 1e-9);
    }
}
