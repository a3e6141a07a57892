//! The body of a reply, as deltas.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_core::fault::Fault;
use serde::de::IgnoredAny;

use super::{CallPermits, RemoteSetup};
use crate::gate::GatePermit;
use crate::http::{BodyKind, HttpReply};
use crate::port::{Delta, ModelRequest};
use crate::wire::{Decoder, Wire};

/// The most bytes of a body that is read whole. JSON writes a text longer than it is.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// About how many bytes are read before what they say goes out.
const TOGETHER_BYTES: usize = 16 * 1024;

/// An answer that is being read.
pub(super) struct AnswerStream {
    setup: Arc<RemoteSetup>,
    decoder: Decoder,
    attempt: u32,
    is_piecemeal: bool,
    /// What was decoded and not yet given out.
    ready: VecDeque<Delta>,
    /// What the piece at hand gives; empty between two.
    decoded: Vec<Delta>,
    /// Whether there was anything in it yet.
    begun: bool,
    state: AnswerState,
}

enum AnswerState {
    Open(OpenAnswer),
    /// Its reply may still have bytes that mean nothing.
    Complete(HttpReply),
    Failed(Fault),
    Over,
}

/// What a call holds until its answer is complete.
pub(super) struct OpenAnswer {
    pub(super) reply: HttpReply,
    pub(super) wire: Wire,
    pub(super) verdict: CallPermits,
    /// Free for the next call as soon as this one is complete.
    #[expect(dead_code, reason = "it is held, and that is all")]
    pub(super) place: Option<GatePermit>,
}

impl AnswerStream {
    pub(super) fn new(
        setup: Arc<RemoteSetup>,
        decoder: Decoder,
        reading: OpenAnswer,
        request: &ModelRequest,
    ) -> Self {
        let ModelRequest { attempt, is_piecemeal, .. } = *request;
        let (ready, decoded, state) = (VecDeque::new(), Vec::new(), AnswerState::Open(reading));
        AnswerStream { setup, decoder, attempt, is_piecemeal, ready, decoded, begun: false, state }
    }

    /// The next delta. A failure is the last.
    pub(super) async fn next(&mut self) -> Option<Result<Delta, Fault>> {
        loop {
            // What came before a failure is shown before it.
            if let Some(delta) = self.ready.pop_front() {
                return Some(Ok(self.priced(delta)));
            }
            // It stays where it is while it is read: pieces are many.
            if let AnswerState::Open(reading) = &mut self.state {
                let read = decode(&mut self.decoder, &mut reading.reply, &mut self.decoded).await;
                self.take(read);
                if !self.is_piecemeal {
                    self.take_arrived();
                }
                continue;
            }
            match std::mem::replace(&mut self.state, AnswerState::Over) {
                AnswerState::Complete(reply) => reply.drain().await,
                AnswerState::Failed(fault) => return Some(Err(fault)),
                AnswerState::Open(_) | AnswerState::Over => return None,
            }
        }
    }

    /// Takes what else has arrived: a model that is faster than whoever listens says several words at once.
    fn take_arrived(&mut self) {
        let mut taken = 0;
        while taken < TOGETHER_BYTES
            && let AnswerState::Open(reading) = &mut self.state
            && let Some(chunk) = reading.reply.chunk_if_ready()
        {
            let read = chunk.and_then(|chunk| {
                taken += chunk.as_ref().map_or(0, |bytes| bytes.len());
                feed(&mut self.decoder, chunk.as_deref(), &mut self.decoded)
            });
            self.take(read);
        }
    }

    /// Takes what came of one piece.
    fn take(&mut self, read: Result<(), Fault>) {
        let AnswerState::Open(reading) = &mut self.state else { return };
        if !self.decoded.is_empty() && !std::mem::replace(&mut self.begun, true) {
            reading.verdict.answer_began();
            self.setup.understood(reading.wire);
        }
        for delta in self.decoded.drain(..) {
            let delta = if self.is_piecemeal { Some(delta) } else { joined(self.ready.back_mut(), delta) };
            self.ready.extend(delta);
        }
        if read.is_ok() && !self.decoder.is_done() {
            return;
        }
        let AnswerState::Open(reading) = std::mem::replace(&mut self.state, AnswerState::Over) else {
            return;
        };
        self.state = match read {
            Err(fault) => {
                let fault = self.setup.settled(fault, self.attempt, None);
                reading.verdict.failed(&fault);
                AnswerState::Failed(fault)
            }
            Ok(()) => {
                reading.verdict.succeeded();
                AnswerState::Complete(reading.reply)
            }
        };
    }

    fn priced(&self, mut delta: Delta) -> Delta {
        if let Delta::Usage(usage) = &mut delta {
            usage.cost_micro_usd = self.setup.price().map(|price| price.micro_usd(usage));
        }
        delta
    }
}

/// Decodes the next piece of a body, or all of one that is a document.
async fn decode(decoder: &mut Decoder, reply: &mut HttpReply, out: &mut Vec<Delta>) -> Result<(), Fault> {
    if reply.kind() == BodyKind::Json {
        let body = reply.body(MAX_DOCUMENT_BYTES).await?;
        if !is_stream(&body) {
            return decoder.whole(&body, out);
        }
        decoder.push(&body, out)?;
        return decoder.end(out);
    }
    let chunk = reply.chunk().await?;
    feed(decoder, chunk.as_deref(), out)
}

/// Decodes the next bytes of a body, or its end.
fn feed(decoder: &mut Decoder, chunk: Option<&[u8]>, out: &mut Vec<Delta>) -> Result<(), Fault> {
    match chunk {
        Some(bytes) => decoder.push(bytes, out),
        None => decoder.end(out),
    }
}

/// Makes text that goes on one piece with what it follows; answers what does not.
fn joined(last: Option<&mut Delta>, delta: Delta) -> Option<Delta> {
    match (last, delta) {
        (Some(Delta::Text(said)), Delta::Text(more)) => said.push_str(&more),
        (Some(Delta::Reasoning(said)), Delta::Reasoning(more)) => said.push_str(&more),
        (_, delta) => return Some(delta),
    }
    None
}

/// Whether a body that says it is one document is a stream all the same: events, or a document a line.
fn is_stream(body: &[u8]) -> bool {
    if [&b"data:"[..], b"event:", b":"].iter().any(|begin| body.starts_with(begin)) {
        return true;
    }
    let Some((line, rest)) = body.iter().position(|byte| *byte == b'\n').map(|end| body.split_at(end)) else {
        return false;
    };
    !rest.trim_ascii().is_empty() && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}
