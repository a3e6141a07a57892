//! The stream of an answer: the body of a reply, decoded into deltas.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_core::fault::Fault;
use serde::de::IgnoredAny;

use super::{CallPermits, RemoteSetup};
use crate::gate::GatePermit;
use crate::http::{BodyKind, HttpReply};
use crate::port::{Delta, ModelRequest};
use crate::wire::{Decoder, Wire};

/// The most bytes of a body that is read whole. Escapes make a text longer in JSON than it is.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// About how many bytes that have arrived are decoded before their deltas go out.
const MAX_JOINED_BYTES: usize = 16 * 1024;

/// An answer that is being read.
pub(super) struct AnswerStream {
    setup: Arc<RemoteSetup>,
    decoder: Decoder,
    attempt: u32,
    is_piecemeal: bool,
    /// Decoded deltas that the caller has not taken.
    ready: VecDeque<Delta>,
    /// The deltas of the current piece; empty between two pieces.
    decoded: Vec<Delta>,
    /// Whether there was a delta.
    begun: bool,
    state: AnswerState,
}

enum AnswerState {
    Open(OpenAnswer),
    /// The answer is complete; its reply may still have bytes, which are ignored.
    Complete(HttpReply),
    Failed(Fault),
    Over,
}

/// The resources that a call holds until its answer is complete.
pub(super) struct OpenAnswer {
    pub(super) reply: HttpReply,
    pub(super) wire: Wire,
    pub(super) permits: CallPermits,
    /// The place in the gate, freed for the next call as soon as this one is complete.
    #[expect(dead_code, reason = "held until it is dropped, never read")]
    pub(super) gate_permit: Option<GatePermit>,
}

impl AnswerStream {
    pub(super) fn new(
        setup: Arc<RemoteSetup>,
        decoder: Decoder,
        open: OpenAnswer,
        request: &ModelRequest,
    ) -> Self {
        let ModelRequest { attempt, is_piecemeal, .. } = *request;
        let (ready, decoded, state) = (VecDeque::new(), Vec::new(), AnswerState::Open(open));
        AnswerStream { setup, decoder, attempt, is_piecemeal, ready, decoded, begun: false, state }
    }

    /// The next delta. A fault is the last item.
    pub(super) async fn next(&mut self) -> Option<Result<Delta, Fault>> {
        loop {
            // Deltas that came before a failure go out before it.
            if let Some(delta) = self.ready.pop_front() {
                return Some(Ok(self.priced(delta)));
            }
            // The state is read in place and not moved: pieces are many.
            if let AnswerState::Open(open) = &mut self.state {
                let read = decode(&mut self.decoder, &mut open.reply, &mut self.decoded).await;
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

    /// Decodes the pieces that have arrived already, so that a model that is faster than its reader sends several
    /// words in one delta.
    fn take_arrived(&mut self) {
        let mut taken = 0;
        while taken < MAX_JOINED_BYTES
            && let AnswerState::Open(open) = &mut self.state
            && let Some(chunk) = open.reply.chunk_if_ready()
        {
            let read = chunk.and_then(|chunk| {
                taken += chunk.as_ref().map_or(0, |bytes| bytes.len());
                feed(&mut self.decoder, chunk.as_deref(), &mut self.decoded)
            });
            self.take(read);
        }
    }

    /// Takes the result of decoding one piece.
    fn take(&mut self, read: Result<(), Fault>) {
        let AnswerState::Open(open) = &mut self.state else { return };
        if !self.decoded.is_empty() && !std::mem::replace(&mut self.begun, true) {
            open.permits.answer_began();
            self.setup.set_detected(open.wire);
        }
        for delta in self.decoded.drain(..) {
            let delta = if self.is_piecemeal { Some(delta) } else { joined(self.ready.back_mut(), delta) };
            self.ready.extend(delta);
        }
        if read.is_ok() && !self.decoder.is_done() {
            return;
        }
        let AnswerState::Open(open) = std::mem::replace(&mut self.state, AnswerState::Over) else {
            return;
        };
        self.state = match read {
            Err(fault) => {
                let fault = self.setup.final_fault(fault, self.attempt, None);
                open.permits.failed(&fault);
                AnswerState::Failed(fault)
            }
            Ok(()) => {
                open.permits.succeeded();
                AnswerState::Complete(open.reply)
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

/// Appends text to the last delta if that is text of the same kind; otherwise gives the delta back.
fn joined(last: Option<&mut Delta>, delta: Delta) -> Option<Delta> {
    match (last, delta) {
        (Some(Delta::Text(text)), Delta::Text(more)) => text.push_str(&more),
        (Some(Delta::Reasoning(text)), Delta::Reasoning(more)) => text.push_str(&more),
        (_, delta) => return Some(delta),
    }
    None
}

/// Whether a body is a stream although its content type is JSON: it has events, or a document a line.
fn is_stream(body: &[u8]) -> bool {
    if [&b"data:"[..], b"event:", b":"].iter().any(|begin| body.starts_with(begin)) {
        return true;
    }
    let Some((line, rest)) = body.iter().position(|byte| *byte == b'\n').map(|end| body.split_at(end)) else {
        return false;
    };
    !rest.trim_ascii().is_empty() && serde_json::from_slice::<IgnoredAny>(line).is_ok()
}
