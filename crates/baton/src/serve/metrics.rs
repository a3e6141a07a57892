//! Metrics in the format of Prometheus. No tenant, no id and no text is ever a label; the numbers are those of all
//! tenants, so only an admin reads them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use baton_engine::{COMMIT_BUCKETS_US, Engine, Figures};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::auth::{Caller, Scope};
use super::problem::{Problem, internal};
use super::state::Service;

/// The upper bounds of the buckets for answer times, in seconds.
const ANSWER_BUCKETS_S: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
/// The deadline for counting the outbox.
const COUNTING: Duration = Duration::from_secs(1);

type Answered = [(&'static str, String); 3];
type Routed = [(&'static str, String); 1];

/// See the module.
pub(crate) struct Metrics {
    registry: Registry,
    answered: Family<Answered, Counter>,
    took: Family<Routed, Histogram, fn() -> Histogram>,
    streams: Gauge,
    connections: Gauge,
    evicted: Counter,
    store_up: Gauge,
    outbox: Gauge,
}

impl Metrics {
    /// Metrics that start at zero.
    pub(crate) fn new(engine: Engine) -> Metrics {
        let mut registry = Registry::with_prefix("baton");
        let took: fn() -> Histogram = || Histogram::new(ANSWER_BUCKETS_S);
        let metrics = Metrics {
            registry: Registry::default(),
            answered: Family::default(),
            took: Family::new_with_constructor(took),
            streams: Gauge::default(),
            connections: Gauge::default(),
            evicted: Counter::default(),
            store_up: Gauge::default(),
            outbox: Gauge::default(),
        };
        registry.register("http_requests", "Requests that were answered", metrics.answered.clone());
        registry.register("http_request_seconds", "Until the first byte of an answer", metrics.took.clone());
        registry.register("streams_open", "Open streams of events", metrics.streams.clone());
        registry.register("connections_open", "Open connections", metrics.connections.clone());
        let evicted = "Connections that were closed because another needed their place";
        registry.register("connections_evicted", evicted, metrics.evicted.clone());
        registry.register("store_up", "Whether the store answers", metrics.store_up.clone());
        let outbox = "Events for the context service that wait, counted up to 100000";
        registry.register("outbox_depth", outbox, metrics.outbox.clone());
        registry.register_collector(Box::new(Driven(Arc::new(engine))));
        Metrics { registry, ..metrics }
    }

    /// Counts a request that was answered.
    pub(crate) fn answered(&self, method: &str, route: &str, status: u16, took: Duration) {
        let labels =
            [("method", method.to_owned()), ("route", route.to_owned()), ("status", status.to_string())];
        self.answered.get_or_create(&labels).inc();
        self.took.get_or_create(&[("route", route.to_owned())]).observe(took.as_secs_f64());
    }

    /// Counts a connection as open until the value is dropped.
    pub(crate) fn connected(&self) -> Connected {
        self.connections.inc();
        Connected(self.connections.clone())
    }

    /// Counts a connection that was closed to make room for another.
    pub(crate) fn evicted(&self) {
        self.evicted.inc();
    }

    fn text(&self) -> Result<String, fmt::Error> {
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// An open connection in the gauge.
pub(crate) struct Connected(Gauge);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// `GET /metrics`.
pub(crate) async fn metrics(State(service): State<Service>, caller: Caller) -> Result<Response, Problem> {
    caller.need(Scope::Admin)?;
    let metrics = service.metrics();
    metrics.streams.set(i64::try_from(service.admission().open_streams()).unwrap_or(i64::MAX));
    metrics.store_up.set(i64::from(service.probe().state(&service).await.is_up));
    let waiting = tokio::time::timeout(COUNTING, service.store().outbox_depth()).await;
    if let Ok(Ok(waiting)) = waiting {
        metrics.outbox.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }
    let text = metrics.text().map_err(|error| internal(&error.to_string()))?;
    Ok(([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response())
}

/// The metrics of the engine, read at each scrape.
struct Driven(Arc<Engine>);

impl fmt::Debug for Driven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Driven")
    }
}

impl Collector for Driven {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        encode_figures(&self.0.figures(), &mut encoder)
    }
}

fn encode_figures(figures: &Figures, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let live = ConstGauge::new(i64::try_from(figures.live).unwrap_or(i64::MAX));
    live.encode(encoder.encode_descriptor(
        "runs_live",
        "Runs that are driven here",
        None,
        live.metric_type(),
    )?)?;
    let ends = [
        ("ok", figures.ok),
        ("error", figures.error),
        ("cancelled", figures.cancelled),
        ("suspended", figures.suspended),
        ("lost", figures.lost),
    ];
    let about = "Runs that came to rest here";
    let mut ended = encoder.encode_descriptor("runs_ended", about, None, MetricType::Counter)?;
    for (status, count) in ends {
        ConstCounter::new(count).encode(ended.encode_family(&[("status", status)])?)?;
    }
    let counts = [
        ("runs_started", "Runs that were begun here", figures.started),
        ("runs_resumed", "Runs that were taken up here", figures.resumed),
        ("model_calls", "Model calls of runs that ended here", figures.model_calls),
        ("tool_calls", "Tool calls of runs that ended here", figures.tool_calls),
        ("prompt_tokens", "Tokens read by runs that ended here", figures.prompt_tokens),
        ("completion_tokens", "Tokens written by runs that ended here", figures.completion_tokens),
    ];
    for (name, about, count) in counts {
        let counter = ConstCounter::new(count);
        counter.encode(encoder.encode_descriptor(name, about, None, counter.metric_type())?)?;
    }
    let ends = COMMIT_BUCKETS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
    let buckets: Vec<(f64, u64)> = ends.zip(figures.commits).collect();
    let mut commits =
        encoder.encode_descriptor("commit_seconds", "Commits of transitions", None, MetricType::Histogram)?;
    let count = figures.commits.iter().sum();
    commits.encode_histogram::<NoLabelSet>(figures.commit_us as f64 / 1e6, count, &buckets, None)
}
