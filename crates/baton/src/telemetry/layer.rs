//! Collecting spans: a span of the engine becomes a [`Finished`] one when it ends, and goes into a queue.
//!
//! Nothing here waits: a full queue drops the span and counts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use baton_engine::spans::{TARGET, names, now};
use tokio::sync::{mpsc, watch};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// A span that has ended. Ids are hexadecimal, as they were emitted.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Finished {
    pub(super) trace_id: String,
    pub(super) span_id: String,
    pub(super) parent: String,
    /// A span of the same trace that it continues.
    pub(super) link: String,
    pub(super) name: String,
    pub(super) is_client: bool,
    /// Nanoseconds since 1970.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) attributes: Vec<(&'static str, Attribute)>,
}

impl Finished {
    /// Whether it has the type of an error.
    pub(super) fn has_failed(&self) -> bool {
        self.attributes.iter().any(|(name, _)| *name == names::ERROR_TYPE)
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Attribute {
    Text(String),
    Whole(i64),
    Decimal(f64),
    Switch(bool),
    Texts(Vec<String>),
}

/// The state that all copies of the layer share.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    queue: mpsc::Sender<Finished>,
    open: watch::Sender<usize>,
    dropped: Arc<AtomicU64>,
}

/// A queue of this many spans, and its sending end.
pub(super) fn queue(most: usize) -> (mpsc::Receiver<Finished>, Spans) {
    let (queue, receiver) = mpsc::channel(most);
    let spans = Spans { queue, open: watch::Sender::new(0), dropped: Arc::default() };
    (receiver, spans)
}

impl Spans {
    /// How many spans found the queue full.
    pub(super) fn dropped(&self) -> Arc<AtomicU64> {
        self.dropped.clone()
    }

    /// Waits until no span is open.
    pub(super) async fn all_ended(&self) {
        let _ = self.open.subscribe().wait_for(|open| *open == 0).await;
    }

    #[cfg(test)]
    pub(super) fn open_now(&self) -> usize {
        *self.open.borrow()
    }

    /// The layer, for the engine's spans alone.
    pub(super) fn layer<S: Subscriber + for<'a> LookupSpan<'a>>(self) -> impl Layer<S> {
        Collecting(self).with_filter(Targets::new().with_target(TARGET, Level::INFO))
    }
}

struct Collecting(Spans);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Collecting {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut begun = Finished { start: now(), ..Finished::default() };
        attributes.record(&mut SpanVisitor(&mut begun));
        span.extensions_mut().insert(begun);
        self.0.open.send_modify(|open| *open += 1);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(begun) = span.extensions_mut().get_mut::<Finished>() {
            values.record(&mut SpanVisitor(begun));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(mut finished) = span.extensions_mut().remove::<Finished>() else { return };
        finished.end = now().max(finished.start);
        if self.0.queue.try_send(finished).is_err() {
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
        self.0.open.send_modify(|open| *open = open.saturating_sub(1));
    }
}

/// Sorts values into the fields of a span and its attributes.
struct SpanVisitor<'a>(&'a mut Finished);

impl SpanVisitor<'_> {
    fn add(&mut self, field: &Field, value: Attribute) {
        let attributes = &mut self.0.attributes;
        attributes.retain(|(name, _)| *name != field.name());
        attributes.push((field.name(), value));
    }
}

impl Visit for SpanVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        let text = value.to_owned();
        match field.name() {
            names::TRACE_ID => self.0.trace_id = text,
            names::SPAN_ID => self.0.span_id = text,
            names::PARENT_SPAN_ID => self.0.parent = text,
            names::LINK_SPAN_ID => self.0.link = text,
            names::NAME => self.0.name = text,
            names::KIND => self.0.is_client = value == names::CLIENT,
            names::FINISH_REASONS => self.add(field, Attribute::Texts(vec![text])),
            _ => self.add(field, Attribute::Text(text)),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            names::SINCE => self.0.start = value,
            _ => self.add(field, Attribute::Whole(i64::try_from(value).unwrap_or(i64::MAX))),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Attribute::Whole(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Attribute::Decimal(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Attribute::Switch(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.add(field, Attribute::Text(format!("{value:?}")));
    }
}
