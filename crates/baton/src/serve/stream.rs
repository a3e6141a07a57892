//! A run's events as the body of a response, at the reader's own pace.
//!
//! One future drives a stream for as long as it is open: it reads the log, writes frames into a buffer, and hands the
//! buffer over when nothing more is ready, so that many events leave in one piece. It is polled for more only when its
//! last buffer was taken: a slow reader costs one buffer of bounded size and delays no other, and a reader that waits
//! costs none. Text that comes faster than a person reads is sent once per window of time ([`pace`]), not piece by
//! piece. While the log is silent a comment is sent as a heartbeat; with each of them it is checked whether the
//! reader's token is still valid.
//!
//! The dialect decides which events are shown. A disconnect cancels nothing, unless the caller asked for it.

mod gone;
mod pace;

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use baton_core::event::{Event, NumberedEvent};
use baton_core::flow::question;
use baton_core::id::{Cursor, RunId, Tenant};
use baton_core::run::{RunStatus, Usage};
use baton_engine::{Engine, EngineError, EventReader, Seen};
use bytes::Bytes;
use http_body::Frame;
use tokio::time::{Instant, Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::admission::StreamPermit;
use super::auth::{Auth, Pass};
use super::problem::Problem;
use crate::dialect::final_text::FinalText;
use crate::dialect::sse::{self, SseRendering};
pub(crate) use gone::CancelOnDrop;
use pace::{Coalescer, is_text};

/// The capacity for most pieces of text, and for the text of one window.
const USUAL: usize = 256;
const BREATHS: usize = 4 << 10;

/// The media type of a stream.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";
/// Asks proxies not to buffer.
pub(crate) const ACCEL: HeaderName = HeaderName::from_static("x-accel-buffering");

/// When a stream ends although the process goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// When the run has ended, or waits for a person.
    Rest,
    /// When the run has ended.
    End,
}

/// The parameters of a stream.
pub(crate) struct RunStream {
    pub(crate) engine: Engine,
    pub(crate) tenant: Tenant,
    /// The credential of the reader: when it is no longer valid, the stream ends.
    pub(crate) pass: Pass,
    pub(crate) auth: Arc<Auth>,
    pub(crate) run: RunId,
    /// The stream begins after this place of the log.
    pub(crate) from: Cursor,
    pub(crate) showing: SseRendering,
    pub(crate) until: Until,
    /// How long a stream may be silent.
    pub(crate) heartbeat: Duration,
    /// The approximate size of one chunk in bytes: one event more than this may be waiting.
    pub(crate) buffer: usize,
    /// Cancelled when the process goes down.
    pub(crate) closing: CancellationToken,
    /// Cancels the run, if the caller asked for it, when the reader leaves before the end.
    pub(crate) gone: Option<CancelOnDrop>,
    /// Its place among the open streams.
    pub(crate) permit: Option<StreamPermit>,
}

impl RunStream {
    /// Opens the stream. Errors are returned before its first byte.
    pub(crate) async fn open(self) -> Result<Response, Problem> {
        let reader = match self.engine.events(&self.tenant, self.run, self.from).await {
            Ok(reader) => reader,
            Err(error) => {
                // The caller gets the error, and has not gone away.
                if let Some(gone) = self.gone {
                    gone.stays();
                }
                return Err(error.into());
            }
        };
        let mut response = Response::new(Body::new(self.body(reader)));
        headers(response.headers_mut());
        Ok(response)
    }

    fn body(mut self, reader: EventReader) -> Events {
        let slot = Arc::new(Slot::default());
        let (gone, permit) = (self.gone.take(), self.permit.take());
        let pump = Box::pin(self.pump(reader, slot.clone()));
        Events { pump: Some(pump), slot, gone, _permit: permit }
    }

    /// Reads the log to its end and writes its frames.
    async fn pump(self, mut reader: EventReader, slot: Arc<Slot>) {
        let mut out = Vec::new();
        sse::retry(soon(), &mut out);
        // The one timer of a stream, for heartbeats and for windows of text.
        let mut beat = pin!(sleep(self.heartbeat));
        let mut pace = Coalescer::default();
        let mut closing = pin!(self.closing.cancelled());
        let mut last = Instant::now();
        let mut text = FinalText::default();
        loop {
            let seen = {
                let mut next = pin!(reader.next());
                loop {
                    let woken = poll_fn(|cx| {
                        if let Poll::Ready(seen) = next.as_mut().poll(cx) {
                            return Poll::Ready(Woken::Seen(seen));
                        }
                        if slot.put(&mut out) {
                            last = Instant::now();
                        }
                        pace.goes_out(Instant::now);
                        if closing.as_mut().poll(cx).is_ready() {
                            return Poll::Ready(Woken::Closing);
                        }
                        beat.as_mut().poll(cx).map(|()| Woken::Beat)
                    });
                    match woken.await {
                        Woken::Seen(seen) => break seen,
                        Woken::Closing => {
                            sse::retry(soon(), &mut out);
                            slot.put(&mut out);
                            return;
                        }
                        Woken::Beat => {
                            if !self.auth.admits(&self.pass) {
                                sse::retry(soon(), &mut out);
                                slot.put(&mut out);
                                return;
                            }
                            if last + self.heartbeat <= Instant::now() {
                                out.extend_from_slice(sse::PING);
                                last = Instant::now();
                            }
                            beat.as_mut().reset(last + self.heartbeat);
                        }
                    }
                }
            };
            let rests_until = pace.read(is_text(&seen), Instant::now);
            let is_over = match self.show(seen, &mut text, &mut out) {
                NextStep::More => false,
                NextStep::End => true,
                // Rare and large: boxed, so that a stream that waits is small.
                NextStep::EndIfItRests => Box::pin(self.show_rest(&mut out)).await,
                NextStep::EndAsStored(end) => Box::pin(self.show_end(&end, &mut out)).await,
            };
            if is_over {
                slot.put(&mut out);
                return;
            }
            if out.len() >= self.buffer {
                slot.taken(&mut out).await;
                last = Instant::now();
                pace = Coalescer::default(); // there is more text than one window holds
            } else if let Some(rests_until) = rests_until {
                breathe(beat.as_mut(), rests_until, reader.kept()).await;
                out.reserve(BREATHS.min(self.buffer));
            }
        }
    }

    /// Writes one item of the log.
    fn show(
        &self,
        seen: Result<Option<Seen>, EngineError>,
        text: &mut FinalText,
        out: &mut Vec<u8>,
    ) -> NextStep {
        if out.is_empty() {
            out.reserve(USUAL);
        }
        match seen {
            Ok(Some(Seen::Event(seen))) => self.show_event(seen, text, out),
            Ok(Some(Seen::Resumed { last_seq })) => {
                self.showing.resumed(last_seq, out);
                NextStep::More
            }
            Ok(Some(Seen::Suspended)) => match self.until {
                Until::End => NextStep::More,
                Until::Rest => NextStep::EndIfItRests,
            },
            Ok(None) => NextStep::End,
            Err(error) => {
                self.broken(error, out);
                NextStep::End
            }
        }
    }

    fn show_event(&self, seen: Arc<NumberedEvent>, text: &mut FinalText, out: &mut Vec<u8>) -> NextStep {
        let has_response = self.showing.has_response();
        if has_response {
            text.see(&seen);
        }
        let Event::Ended { status, .. } = &seen.event else {
            self.showing.event(&seen, "", out);
            return NextStep::More;
        };
        match text.of(*status) {
            None if has_response => NextStep::EndAsStored(seen),
            response => {
                self.showing.event(&seen, response.unwrap_or_default(), out);
                NextStep::End
            }
        }
    }

    /// Ends the stream of a run whose final text only the store has.
    async fn show_end(&self, end: &NumberedEvent, out: &mut Vec<u8>) -> bool {
        match self.engine.response(&self.tenant, self.run).await {
            Ok(response) => self.showing.event(end, &response, out),
            Err(error) => self.broken(error, out),
        }
        true
    }

    /// Ends the stream of a run that waits for a person, unless it goes on already; answers whether the stream is over.
    async fn show_rest(&self, out: &mut Vec<u8>) -> bool {
        match rests(&self.engine, &self.tenant, self.run).await {
            Ok(Some(AtRest { usage, question })) => self.showing.suspended(usage, &question, out),
            Ok(None) => return false,
            Err(error) => self.broken(error, out),
        }
        true
    }

    fn broken(&self, error: EngineError, out: &mut Vec<u8>) {
        let problem = Problem::from(error);
        self.showing.broken(problem.code.as_str(), &problem.detail, out);
    }
}

/// How the stream goes on after an item.
enum NextStep {
    More,
    End,
    /// It ends if the run waits for a person: the store knows.
    EndIfItRests,
    /// It ends with this event and the text that is stored.
    EndAsStored(Arc<NumberedEvent>),
}

/// The cause that woke the future of a stream.
enum Woken {
    Seen(Result<Option<Seen>, EngineError>),
    Closing,
    Beat,
}

/// A suspended run.
pub(crate) struct AtRest {
    /// Its usage so far.
    usage: Usage,
    /// Its question; empty where it waits for a decision.
    question: String,
}

/// The state of a suspended run; none if it goes on already, or will as soon as a driver reads the input posted to it.
pub(crate) async fn rests(
    engine: &Engine,
    tenant: &Tenant,
    run: RunId,
) -> Result<Option<AtRest>, EngineError> {
    let store = engine.store();
    let row = store.run(tenant, run).await?;
    if row.status != RunStatus::Suspended {
        return Ok(None);
    }
    let last = store.steps(tenant, run, row.step.saturating_sub(1), 1).await?.pop();
    let is_read = last.as_ref().is_none_or(|last| last.checkpoint.inbox_read >= row.inbox);
    let asked = last.map(|last| question(&last.checkpoint.waiting).to_owned());
    Ok(is_read.then(|| AtRest { usage: row.budget.usage(), question: asked.unwrap_or_default() }))
}

/// The headers of every stream.
fn headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(ACCEL, HeaderValue::from_static("no"));
}

/// The milliseconds after which a reader reconnects: random, so that not all come back at once.
fn soon() -> u32 {
    let random = uuid::Uuid::now_v7().as_u128() as u32;
    1000 + random % 2001
}

/// Waits for the time, or for more than text: text that comes meanwhile does not wake it. Then the timer gets its old
/// deadline back.
async fn breathe(mut timer: Pin<&mut Sleep>, until: Instant, more: impl Future<Output = ()>) {
    let due = timer.deadline();
    timer.as_mut().reset(until);
    tokio::select! {
        () = more => {}
        () = timer.as_mut() => {}
    }
    timer.reset(due);
}

/// The bytes that are ready to go out.
#[derive(Default)]
struct Slot(Mutex<Vec<u8>>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands over the buffer, if there is anything in it.
    fn put(&self, out: &mut Vec<u8>) -> bool {
        if out.is_empty() {
            return false;
        }
        let mut ready = self.lock();
        if ready.is_empty() {
            std::mem::swap(&mut *ready, out);
        } else {
            ready.append(out);
        }
        true
    }

    /// Hands over the buffer, and returns when it was taken.
    async fn taken(&self, out: &mut Vec<u8>) {
        // No waker is needed: the future is polled again when the reader wants more.
        poll_fn(|_| if self.put(out) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.lock())
    }
}

type Pump = Pin<Box<dyn Future<Output = ()> + Send>>;

/// See the module.
struct Events {
    /// None after the end.
    pump: Option<Pump>,
    slot: Arc<Slot>,
    gone: Option<CancelOnDrop>,
    _permit: Option<StreamPermit>,
}

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(pump) = &mut self.pump else { return Poll::Ready(None) };
        let ended = pump.as_mut().poll(cx).is_ready();
        if ended {
            self.pump = None;
            if let Some(gone) = self.gone.take() {
                gone.stays();
            }
        }
        let ready = self.slot.take();
        match (ready.is_empty(), ended) {
            (false, _) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(ready))))),
            (true, true) => Poll::Ready(None),
            (true, false) => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests;
