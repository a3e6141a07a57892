//! Sending spans: one task, one request at a time, nothing twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use reqwest::Client;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use baton_tools::egress::cause;

use super::CollectorSetting;
use super::layer::Finished;
use super::otlp;

/// How long the first span of a batch waits for others.
const GATHER: Duration = Duration::from_secs(1);
/// The most spans of one request.
const BATCH: usize = 512;
/// How long one request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(3);

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The task that sends. Dropping it does not stop it; the process's end does.
#[derive(Debug)]
pub(super) struct Exporter {
    leaving: CancellationToken,
    task: JoinHandle<()>,
}

impl Exporter {
    /// Starts it.
    pub(super) fn start(
        collector: &CollectorSetting,
        queue: mpsc::Receiver<Finished>,
        dropped: Arc<AtomicU64>,
    ) -> Exporter {
        let leaving = CancellationToken::new();
        let sending = Sending {
            collector: collector.clone(),
            queue,
            dropped,
            leaving: leaving.clone(),
            client: None,
            said: (false, false),
        };
        Exporter { leaving, task: tokio::spawn(sending.run()) }
    }

    /// Sends the remaining spans at once, and ends.
    pub(super) async fn finish(self) {
        self.leaving.cancel();
        let _ = self.task.await;
    }
}

struct Sending {
    collector: CollectorSetting,
    queue: mpsc::Receiver<Finished>,
    dropped: Arc<AtomicU64>,
    leaving: CancellationToken,
    /// The client with the headers of every request. Made when there is something to send.
    client: Option<(Client, HeaderMap)>,
    /// Whether it was logged that a batch was not taken, and that spans were dropped.
    said: (bool, bool),
}

impl Sending {
    async fn run(mut self) {
        loop {
            let batch = self.gather().await;
            if batch.is_empty() {
                return;
            }
            if let Err(why) = self.send(&batch).await {
                self.warn(&why);
            }
            let dropped = self.dropped.load(Ordering::Relaxed);
            if dropped > 0 && !std::mem::replace(&mut self.said.1, true) {
                tracing::warn!(dropped, "telemetry comes faster than it is taken; some of it is dropped");
            }
        }
    }

    /// Waits for spans; an empty batch: there will be no more.
    async fn gather(&mut self) -> Vec<Finished> {
        let mut batch = Vec::new();
        let leaving = self.leaving.clone();
        let first = tokio::select! {
            biased;
            first = self.queue.recv() => first,
            () = leaving.cancelled() => self.queue.try_recv().ok(),
        };
        batch.extend(first);
        let until = Instant::now() + GATHER;
        while !batch.is_empty() && batch.len() < BATCH {
            let next = tokio::select! {
                biased;
                next = timeout_at(until, self.queue.recv()) => next.ok().flatten(),
                () = leaving.cancelled() => self.queue.try_recv().ok(),
            };
            let Some(next) = next else { break };
            batch.push(next);
        }
        batch
    }

    async fn send(&mut self, batch: &[Finished]) -> Result<(), String> {
        let (client, headers) = match &self.client {
            Some(client) => client,
            None => {
                let client = client(&self.collector).await?;
                self.client.insert((client, headers(&self.collector.headers_env)))
            }
        };
        let body = otlp::request(&self.collector.service, VERSION, batch);
        let request = client.post(self.collector.url.clone()).headers(headers.clone()).body(body);
        let response = request.send().await.map_err(told)?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("it answered with the status {}", status.as_u16())),
        }
    }

    /// Logs the first failure as a warning, and later ones at level `debug`.
    fn warn(&mut self, why: &str) {
        let at = self.collector.url.as_str();
        if std::mem::replace(&mut self.said.0, true) {
            tracing::debug!(collector = at, why, "telemetry was not taken");
        } else {
            tracing::warn!(collector = at, why, "telemetry was not taken; nothing else is affected");
        }
    }
}

fn told(error: reqwest::Error) -> String {
    match error.is_timeout() {
        true => "it did not answer in time".to_owned(),
        false => cause(error),
    }
}

async fn client(collector: &CollectorSetting) -> Result<Client, String> {
    let mut builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT)
        .timeout(PATIENCE);
    if collector.endpoint.is_local() {
        builder = builder.no_proxy();
    }
    if collector.url.scheme() == "http" {
        // Reading the system's certificates takes time, and fails where there are none.
        builder = builder.tls_certs_only([]);
    }
    // Runs go on meanwhile, and none of them may wait for a disk because of this.
    let built = tokio::task::spawn_blocking(|| builder.build()).await;
    built.map_err(|_| "no connection could be set up".to_owned())?.map_err(cause)
}

/// The headers of every request: ours, and those that a variable holds as `name=value,name=value`.
fn headers(variable: &str) -> HeaderMap {
    let text = std::env::var(variable).unwrap_or_default();
    let (mut headers, is_clean) = read_headers(&text);
    if !is_clean {
        // The values are secrets, so none of it is repeated.
        tracing::warn!(variable, "some headers for telemetry cannot be read; write name=value,name=value");
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("baton/", env!("CARGO_PKG_VERSION"))));
    headers
}

/// The headers of a text, and whether all of it could be read.
pub(super) fn read_headers(text: &str) -> (HeaderMap, bool) {
    let (mut headers, mut is_clean) = (HeaderMap::new(), true);
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let read = pair.split_once('=').and_then(|(name, value)| {
            let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
            let mut value = HeaderValue::from_bytes(&percent_decoded(value.trim())?).ok()?;
            value.set_sensitive(true);
            Some((name, value))
        });
        match read {
            Some((name, value)) => drop(headers.insert(name, value)),
            None => is_clean = false,
        }
    }
    (headers, is_clean)
}

/// `%20` and the like as the bytes that they stand for.
fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &rest[2..];
    }
    Some(bytes)
}
