//! Numbers of the server, as Prometheus reads them.
//!
//! What every server of models counts has the names that vLLM gave it, so its dashboards work; what
//! is ours begins with `opengpu_`. A model's name becomes a label only after an engine has accepted
//! it, and only so many do, so no client can make the list grow.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Models with numbers of their own; what comes later is counted together.
const MAX_MODELS: usize = 64;
/// The label of what comes later.
const OTHERS: &str = "other";

/// Upper ends of the buckets: as they are written, and in microseconds.
const BUCKETS: [(&str, u64); 14] = [
    ("0.001", 1_000),
    ("0.005", 5_000),
    ("0.01", 10_000),
    ("0.025", 25_000),
    ("0.05", 50_000),
    ("0.1", 100_000),
    ("0.25", 250_000),
    ("0.5", 500_000),
    ("1", 1_000_000),
    ("2.5", 2_500_000),
    ("5", 5_000_000),
    ("10", 10_000_000),
    ("60", 60_000_000),
    ("300", 300_000_000),
];

/// A number that goes up and down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gauge {
    /// Requests that an engine works on.
    Running,
    /// Requests that wait for it.
    Waiting,
    /// Open sockets.
    Sockets,
}

/// All numbers.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    running: AtomicU64,
    waiting: AtomicU64,
    sockets: AtomicU64,
    models: Mutex<BTreeMap<String, Arc<ModelNumbers>>>,
    answers: Mutex<BTreeMap<String, BTreeMap<u16, u64>>>,
    cancelled: AtomicU64,
}

/// The numbers of one model.
#[derive(Debug, Default)]
pub(crate) struct ModelNumbers {
    prompt_tokens: AtomicU64,
    generation_tokens: AtomicU64,
    finished: Mutex<BTreeMap<&'static str, u64>>,
    first_token: Histogram,
    between_tokens: Histogram,
    whole: Histogram,
}

#[derive(Debug, Default)]
struct Histogram {
    buckets: [AtomicU64; BUCKETS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

/// Keeps a gauge up until it is dropped.
#[derive(Debug)]
pub(crate) struct Raised {
    metrics: Arc<Metrics>,
    gauge: Gauge,
}

impl Drop for Raised {
    fn drop(&mut self) {
        self.metrics.gauge(self.gauge).fetch_sub(1, Relaxed);
    }
}

impl Metrics {
    /// Raises a gauge until what is given back is dropped.
    pub(crate) fn raise(self: &Arc<Self>, gauge: Gauge) -> Raised {
        self.gauge(gauge).fetch_add(1, Relaxed);
        Raised { metrics: self.clone(), gauge }
    }

    /// How high a gauge stands.
    pub(crate) fn read(&self, gauge: Gauge) -> u64 {
        self.gauge(gauge).load(Relaxed)
    }

    /// Counts an answer by its route, which is one of ours, and its status.
    pub(crate) fn answered(&self, route: &str, status: u16) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        // The name is copied only once, and not for every answer.
        if !answers.contains_key(route) {
            answers.insert(route.to_owned(), BTreeMap::new());
        }
        if let Some(statuses) = answers.get_mut(route) {
            let count = statuses.entry(status).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Counts a request whose client went away before its end.
    pub(crate) fn cancelled(&self) {
        self.cancelled.fetch_add(1, Relaxed);
    }

    /// The numbers of a model that an engine has accepted.
    pub(crate) fn model(&self, name: &str) -> Arc<ModelNumbers> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(numbers) = models.get(name) {
            return numbers.clone();
        }
        let name = if models.len() < MAX_MODELS { name } else { OTHERS };
        models.entry(name.to_owned()).or_default().clone()
    }

    /// Everything as text.
    pub(crate) fn render(&self) -> String {
        let mut text = String::new();
        let gauges = [
            ("vllm:num_requests_running", "Requests that an engine works on.", Gauge::Running),
            ("vllm:num_requests_waiting", "Requests that wait for an engine.", Gauge::Waiting),
            ("opengpu_gateway_sockets", "Open sockets.", Gauge::Sockets),
        ];
        for (name, help, gauge) in gauges {
            head(&mut text, name, help, "gauge");
            line(&mut text, name, "", self.read(gauge));
        }
        let name = "opengpu_gateway_cancelled_total";
        head(&mut text, name, "Requests whose client went away.", "counter");
        line(&mut text, name, "", self.cancelled.load(Relaxed));
        let name = "opengpu_gateway_answers_total";
        head(&mut text, name, "Answers by route and status.", "counter");
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for (route, statuses) in answers {
            for (status, count) in statuses {
                let labels = format!("route=\"{}\",status=\"{status}\"", escape(&route));
                line(&mut text, name, &labels, count);
            }
        }
        let models = self.models.lock().unwrap_or_else(PoisonError::into_inner).clone();
        render_models(&mut text, &models);
        text
    }

    const fn gauge(&self, gauge: Gauge) -> &AtomicU64 {
        match gauge {
            Gauge::Running => &self.running,
            Gauge::Waiting => &self.waiting,
            Gauge::Sockets => &self.sockets,
        }
    }
}

impl ModelNumbers {
    /// The first piece came after this time.
    pub(crate) fn first(&self, after: Duration) {
        self.first_token.add(after);
    }

    /// More pieces came, so long after the last ones.
    pub(crate) fn next(&self, after: Duration) {
        self.between_tokens.add(after);
    }

    /// An answer ended.
    pub(crate) fn finished(&self, reason: &'static str, prompt: u64, written: u64, took: Duration) {
        self.prompt_tokens.fetch_add(prompt, Relaxed);
        self.generation_tokens.fetch_add(written, Relaxed);
        let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let count = finished.entry(reason).or_default();
        *count = count.saturating_add(1);
        drop(finished);
        self.whole.add(took);
    }
}

impl Histogram {
    fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let place = BUCKETS.iter().position(|(_, end)| micros <= *end);
        if let Some(bucket) = place.and_then(|place| self.buckets.get(place)) {
            bucket.fetch_add(1, Relaxed);
        }
        self.count.fetch_add(1, Relaxed);
        self.micros.fetch_add(micros, Relaxed);
    }

    fn render(&self, text: &mut String, name: &str, labels: &str) {
        let mut below: u64 = 0;
        let bucket = format!("{name}_bucket");
        for ((end, _), count) in BUCKETS.iter().zip(&self.buckets) {
            below = below.saturating_add(count.load(Relaxed));
            line(text, &bucket, &format!("{labels},le=\"{end}\""), below);
        }
        let count = self.count.load(Relaxed).max(below);
        line(text, &bucket, &format!("{labels},le=\"+Inf\""), count);
        let micros = self.micros.load(Relaxed);
        let seconds = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
        line(text, &format!("{name}_sum"), labels, seconds);
        line(text, &format!("{name}_count"), labels, count);
    }
}

type Count = fn(&ModelNumbers) -> &AtomicU64;
type Times = fn(&ModelNumbers) -> &Histogram;

fn render_models(text: &mut String, models: &BTreeMap<String, Arc<ModelNumbers>>) {
    let label = |model: &str| format!("model_name=\"{}\"", escape(model));
    let counts: [(&str, &str, Count); 2] = [
        ("vllm:prompt_tokens_total", "Tokens that were read.", |model| &model.prompt_tokens),
        ("vllm:generation_tokens_total", "Tokens that were written.", |model| {
            &model.generation_tokens
        }),
    ];
    for (name, help, count) in counts {
        head(text, name, help, "counter");
        for (model, numbers) in models {
            line(text, name, &label(model), count(numbers).load(Relaxed));
        }
    }
    let name = "vllm:request_success_total";
    head(text, name, "Answers that came to their end.", "counter");
    for (model, numbers) in models {
        let finished = numbers.finished.lock().unwrap_or_else(PoisonError::into_inner);
        for (reason, count) in finished.iter() {
            let labels = format!("{},finished_reason=\"{reason}\"", label(model));
            line(text, name, &labels, count);
        }
    }
    let times: [(&str, &str, Times); 3] = [
        ("vllm:time_to_first_token_seconds", "Until the first text.", |model| &model.first_token),
        ("vllm:inter_token_latency_seconds", "Between two texts.", |model| &model.between_tokens),
        ("vllm:e2e_request_latency_seconds", "For a whole answer.", |model| &model.whole),
    ];
    for (name, help, times) in times {
        head(text, name, help, "histogram");
        for (model, numbers) in models {
            times(numbers).render(text, name, &label(model));
        }
    }
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = if labels.is_empty() {
        writeln!(text, "{name} {value}")
    } else {
        writeln!(text, "{name}{{{labels}}} {value}")
    };
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_counts_everything_below_each_end() {
        let metrics = Metrics::default();
        for millis in [1, 30, 400_000] {
            metrics.model("m").first(Duration::from_millis(millis));
        }
        let text = metrics.render();
        for wanted in [
            "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.001\"} 1\n",
            "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.05\"} 2\n",
            "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"300\"} 2\n",
            "vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 3\n",
            "vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 400.031000\n",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
    }

    #[test]
    fn names_cannot_make_the_list_grow_or_break_a_line() {
        let metrics = Metrics::default();
        metrics.model("a\"b\nc").finished("stop", 1, 2, Duration::ZERO);
        for number in 0..1_000 {
            metrics.model(&format!("m{number}")).finished("stop", 1, 2, Duration::ZERO);
        }
        let text = metrics.render();
        assert!(text.contains(r#"vllm:prompt_tokens_total{model_name="a\"b\nc"} 1"#), "{text}");
        assert!(text.contains("vllm:prompt_tokens_total{model_name=\"other\"} 937"), "{text}");
        assert_eq!(text.matches("vllm:prompt_tokens_total{").count(), MAX_MODELS + 1);
    }

    #[test]
    fn a_gauge_falls_when_its_guard_goes() {
        let metrics = Arc::new(Metrics::default());
        let raised = metrics.raise(Gauge::Running);
        assert!(metrics.render().contains("vllm:num_requests_running 1\n"));
        drop(raised);
        assert!(metrics.render().contains("vllm:num_requests_running 0\n"));
    }
}
