//! The body of a reply, as deltas.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_core::fault::Fault;
use futures_util::StreamExt;
use futures_util::stream;
use serde::de::IgnoredAny;

use super::{Setup, Verdict};
use crate::gate::Place;
use crate::http::{Kind, Reply};
use crate::port::{Delta, DeltaStream};
use crate::wire::{Decoder, Wire};

/// The most bytes of a body that is read whole. JSON writes a text longer than it is.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024 * 1024;

/// An answer that is being read.
pub(super) struct Answer {
    setup: Arc<Setup>,
    decoder: Decoder,
    attempt: u32,
    /// What was decoded and not yet given out.
    ready: VecDeque<Delta>,
    state: State,
}

enum State {
    Reading(Reading),
    /// Its reply may still have bytes that mean nothing.
    Complete(Reply),
    Failed(Fault),
    Over,
}

/// What a call holds until its answer is complete.
pub(super) struct Reading {
    pub(super) reply: Reply,
    pub(super) wire: Wire,
    pub(super) verdict: Verdict,
    /// Free for the next call as soon as this one is complete.
    #[expect(dead_code, reason = "it is held, and that is all")]
    pub(super) place: Option<Place>,
}

impl Answer {
    pub(super) fn new(setup: Arc<Setup>, decoder: Decoder, reading: Reading, attempt: u32) -> Self {
        Answer { setup, decoder, attempt, ready: VecDeque::new(), state: State::Reading(reading) }
    }

    pub(super) fn into_stream(self) -> DeltaStream {
        stream::unfold(Box::new(self), |mut answer| async move {
            answer.next().await.map(|delta| (delta, answer))
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Result<Delta, Fault>> {
        loop {
            // What came before a failure is shown before it.
            if let Some(delta) = self.ready.pop_front() {
                return Some(Ok(self.priced(delta)));
            }
            match std::mem::replace(&mut self.state, State::Over) {
                State::Reading(reading) => self.read(reading).await,
                State::Complete(reply) => reply.drain().await,
                State::Failed(fault) => return Some(Err(fault)),
                State::Over => return None,
            }
        }
    }

    /// Reads on by one piece.
    async fn read(&mut self, mut reading: Reading) {
        let mut deltas = Vec::new();
        let read = self.decode(&mut reading.reply, &mut deltas).await;
        if !deltas.is_empty() {
            reading.verdict.answering();
            self.setup.understood(reading.wire);
        }
        self.ready.extend(deltas);
        self.state = match read {
            Err(fault) => {
                let fault = self.setup.settled(fault, self.attempt, None);
                reading.verdict.failed(&fault);
                State::Failed(fault)
            }
            Ok(()) if self.decoder.is_done() => {
                reading.verdict.succeeded();
                State::Complete(reading.reply)
            }
            Ok(()) => State::Reading(reading),
        };
    }

    async fn decode(&mut self, reply: &mut Reply, out: &mut Vec<Delta>) -> Result<(), Fault> {
        if reply.kind() == Kind::Document {
            let body = reply.body(MAX_DOCUMENT_BYTES).await?;
            if !is_stream(&body) {
                return self.decoder.whole(&body, out);
            }
            self.decoder.push(&body, out)?;
            return self.decoder.end(out);
        }
        match reply.chunk().await? {
            Some(bytes) => self.decoder.push(&bytes, out),
            None => self.decoder.end(out),
        }
    }

    fn priced(&self, mut delta: Delta) -> Delta {
        if let Delta::Usage(usage) = &mut delta {
            usage.cost_micro_usd = self.setup.price().map(|price| price.micro_usd(usage));
        }
        delta
    }
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
