//! Telemetry: the spans of runs, sent to a collector over OTLP/HTTP if the operator names one.
//!
//! A layer ([`layer`]) collects the spans that the engine emits, a task of its own ([`export`]) sends them in batches,
//! and [`otlp`] is their wire format. Nothing waits for telemetry but the end of the process, and that for two seconds
//! at most: spans that do not fit the queue, or are not taken, are dropped, which is logged once. There is no retry,
//! because nothing important is lost: `baton runs trace` reads the store. Without an address nothing here is started.

mod export;
mod layer;
mod otlp;

use std::time::Duration;

use reqwest::Url;
use tokio::time::timeout;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;

use baton_core::trace::TraceParent;
use baton_model::{BadEndpoint, Endpoint};
use export::Exporter;
use layer::Spans;

/// How long a process that ends waits for spans that were not sent yet.
const LEAVING: Duration = Duration::from_secs(2);
/// The part of that time for spans that are about to end.
const ENDING: Duration = Duration::from_secs(1);
/// The most spans that wait to be sent; more are dropped.
const QUEUE: usize = 2048;

/// A collector, and how spans are sent to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CollectorSetting {
    /// The endpoint of the collector.
    pub(crate) endpoint: Endpoint,
    /// The address that batches are posted to.
    pub(crate) url: Url,
    /// The variable that holds the headers.
    pub(crate) headers_env: String,
    /// The service name of this process.
    pub(crate) service: String,
}

impl CollectorSetting {
    /// Reads a base address, as OpenTelemetry's programs name it.
    pub(crate) fn at(
        base: &str,
        headers_env: String,
        service: String,
    ) -> Result<CollectorSetting, BadEndpoint> {
        let endpoint = Endpoint::parse(base)?;
        // Not taken from the endpoint: a model's address may leave out its `/v1`, a collector's may not.
        let mut url = Url::parse(base.trim()).map_err(|error| BadEndpoint::Syntax(error.to_string()))?;
        let path = format!("{}/v1/traces", url.path().trim_end_matches('/'));
        url.set_path(&path);
        Ok(CollectorSetting { endpoint, url, headers_env, service })
    }
}

/// Telemetry that is on.
#[derive(Debug)]
pub(crate) struct Telemetry {
    spans: Spans,
    exporter: Exporter,
}

impl Telemetry {
    /// Begins to collect and to send.
    pub(crate) fn begin(collector: &CollectorSetting) -> Telemetry {
        let (queue, spans) = layer::queue(QUEUE);
        Telemetry { exporter: Exporter::start(collector, queue, spans.dropped()), spans }
    }

    /// The layer that the log of the process adds beside its own.
    pub(crate) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(&self) -> impl Layer<S> + use<S> {
        self.spans.clone().layer()
    }

    /// Sends the remaining spans, as long as there is time.
    pub(crate) async fn end(self) {
        let Telemetry { spans, exporter } = self;
        let rest = async {
            let _ = timeout(ENDING, spans.all_ended()).await;
            exporter.finish().await
        };
        if timeout(LEAVING, rest).await.is_err() {
            tracing::warn!("the collector did not take all telemetry in time; the rest is dropped");
        }
    }
}

/// The span that this process was started in. An unreadable one is ignored, as the standard says.
pub(crate) fn parent() -> Option<TraceParent> {
    let text = std::env::var_os("TRACEPARENT").filter(|text| !text.is_empty())?;
    match text.to_string_lossy().trim().parse() {
        Ok(parent) => Some(parent),
        Err(error) => {
            tracing::warn!(%error, "TRACEPARENT is ignored");
            None
        }
    }
}

#[cfg(test)]
mod tests;
