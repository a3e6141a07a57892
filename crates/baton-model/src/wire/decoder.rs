//! The decoder of an answer: the bytes of a body become deltas.
//!
//! Its stages are lines, events where the format has them, the format's own decoder, the tags that the model
//! writes into its text, and last our names of tools. Fed any split of the same bytes it gives
//! the same deltas and the same end. A `Finish` comes at the terminal marker and never before it, so an
//! answer that was cut off is never complete. It buffers no text beyond the current line, event or tag, and it
//! does not validate calls.

use baton_core::fault::{Code, Fault};

use super::json::BorrowedJson;
use super::lines::{LineSplitter, MAX_BODY_BYTES, too_long};
use super::sse::SseEvent;
use super::tags::TagSplitter;
use super::{InlineTags, Wire, WireNames, anthropic, chat, failure, ollama, responses};
use crate::port::Delta;

/// The decoder of one answer. Fed any split of the same bytes it gives the same deltas.
#[derive(Debug)]
pub struct Decoder {
    lines: LineSplitter,
    /// The current event, where frames are server-sent events and not lines.
    event: Option<SseEvent>,
    pipeline: DeltaPipeline,
    state: DecoderState,
}

#[derive(Debug, Default)]
enum DecoderState {
    #[default]
    Open,
    Done,
    Failed(Fault),
}

impl Decoder {
    pub(super) fn new(wire: Wire, names: WireNames, inline_tags: InlineTags) -> Self {
        let (event, format) = match wire {
            Wire::Ollama => (None, FormatDecoder::Ollama(ollama::OllamaDecoder::default())),
            Wire::ChatCompletions => {
                (Some(SseEvent::default()), FormatDecoder::Chat(chat::ChatDecoder::default()))
            }
            Wire::Responses => {
                (Some(SseEvent::default()), FormatDecoder::Responses(responses::ResponsesDecoder::default()))
            }
            Wire::Anthropic => {
                (Some(SseEvent::default()), FormatDecoder::Anthropic(anthropic::AnthropicDecoder::default()))
            }
        };
        let pipeline = DeltaPipeline {
            format,
            names,
            tags: TagSplitter::new(inline_tags),
            read: Vec::new(),
            finished: false,
        };
        Decoder { lines: LineSplitter::default(), event, pipeline, state: DecoderState::Open }
    }

    /// Decodes the next bytes of the body. After an error there is nothing more.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Delta>) -> Result<(), Fault> {
        self.advance(|decoder| decoder.read(bytes, out))
    }

    /// Whether the format's terminal marker was seen: bytes after it are ignored.
    pub fn is_done(&self) -> bool {
        matches!(self.state, DecoderState::Done)
    }

    /// Ends the body. Without the terminal marker that is a failure.
    pub fn end(&mut self, out: &mut Vec<Delta>) -> Result<(), Fault> {
        self.advance(|decoder| match decoder.read_rest(out)? {
            true => Ok(true),
            false => Err(cut_off()),
        })
    }

    /// Decodes the whole answer as one JSON document, from a server that ignored the request for a stream.
    pub fn whole(&mut self, body: &[u8], out: &mut Vec<Delta>) -> Result<(), Fault> {
        self.advance(|decoder| {
            if body.len() > MAX_BODY_BYTES {
                return Err(too_long("an answer", MAX_BODY_BYTES));
            }
            decoder.pipeline.whole(body, out)?;
            Ok(true)
        })
    }

    /// Runs a function that returns whether the answer is done, unless it already is or has failed.
    fn advance(&mut self, run: impl FnOnce(&mut Self) -> Result<bool, Fault>) -> Result<(), Fault> {
        match &self.state {
            DecoderState::Open => {}
            DecoderState::Done => return Ok(()),
            DecoderState::Failed(fault) => return Err(fault.clone()),
        }
        match run(self) {
            Ok(true) => self.state = DecoderState::Done,
            Ok(false) => {}
            Err(fault) => {
                self.state = DecoderState::Failed(fault.clone());
                return Err(fault);
            }
        }
        Ok(())
    }

    fn read(&mut self, mut bytes: &[u8], out: &mut Vec<Delta>) -> Result<bool, Fault> {
        while let Some(line) = self.lines.next(&mut bytes)? {
            let frame = match &mut self.event {
                Some(event) => event.line(line)?,
                None => Some(line).filter(|line| !line.trim().is_empty()),
            };
            if let Some(frame) = frame
                && self.pipeline.frame(frame, out)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Decodes the rest of a body at its end.
    ///
    /// The standard of server-sent events discards an event without its blank line, because
    /// it may be incomplete. We do the same with one exception, as some servers leave out the
    /// last blank line: if the rest is whole by itself, a JSON document or the marker, and ends the
    /// answer or is an error, it counts. More text from it would be lost anyway: without a marker
    /// the answer has failed.
    fn read_rest(&mut self, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        // A line that the end cut in two may end in half a character: the answer is cut off then, not invalid.
        let last = self.lines.last().unwrap_or_default();
        let frame = match &mut self.event {
            Some(event) => {
                if let Some(line) = last {
                    event.line(line)?;
                }
                event.pending()
            }
            None => last,
        };
        let Some(frame) = frame.filter(|frame| is_whole(frame)) else { return Ok(false) };
        let mut rest = Vec::new();
        let is_last = self.pipeline.frame(frame, &mut rest)?;
        if is_last {
            out.append(&mut rest);
        }
        Ok(is_last)
    }
}

/// The decoder of one format.
#[derive(Debug)]
enum FormatDecoder {
    Ollama(ollama::OllamaDecoder),
    Chat(chat::ChatDecoder),
    Responses(responses::ResponsesDecoder),
    Anthropic(anthropic::AnthropicDecoder),
}

/// The stages after frames: the format's decoder, the tags in its text, and our names of tools.
#[derive(Debug)]
struct DeltaPipeline {
    format: FormatDecoder,
    names: WireNames,
    tags: TagSplitter,
    /// The deltas of the current frame, as the format's decoder gave them.
    read: Vec<Delta>,
    finished: bool,
}

impl DeltaPipeline {
    fn frame(&mut self, frame: &str, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        let read = match &mut self.format {
            FormatDecoder::Ollama(format) => format.frame(frame, &mut self.read),
            FormatDecoder::Chat(format) => format.frame(frame, &mut self.read),
            FormatDecoder::Responses(format) => format.frame(frame, &mut self.read),
            FormatDecoder::Anthropic(format) => format.frame(frame, &mut self.read),
        };
        // Deltas that came before a failure go out as well.
        self.pass(out);
        let is_last = read?;
        if is_last { self.is_finished().map(|()| true) } else { Ok(false) }
    }

    fn whole(&mut self, body: &[u8], out: &mut Vec<Delta>) -> Result<(), Fault> {
        let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
        let body = str::from_utf8(body).map_err(|_| failure::unreadable(&String::from_utf8_lossy(body)))?;
        let body = json(body)?;
        let read = match &mut self.format {
            FormatDecoder::Ollama(format) => format.whole(&body, &mut self.read),
            FormatDecoder::Chat(format) => format.whole(&body, &mut self.read),
            FormatDecoder::Responses(format) => format.whole(&body, &mut self.read),
            FormatDecoder::Anthropic(format) => format.whole(&body, &mut self.read),
        };
        self.pass(out);
        read?;
        self.is_finished()
    }

    /// Passes the deltas of the current frame on: through the tag splitter, and with our names.
    fn pass(&mut self, out: &mut Vec<Delta>) {
        let from = out.len();
        for delta in self.read.drain(..) {
            if let Delta::Finish(_) = delta {
                self.tags.end(out);
                self.finished = true;
                out.push(delta);
            } else {
                self.tags.pass(delta, out);
            }
        }
        for delta in out.iter_mut().skip(from) {
            if let Delta::CallStart { name, .. } = delta {
                *name = self.names.from_provider(name).to_owned();
            }
        }
    }

    fn is_finished(&self) -> Result<(), Fault> {
        if self.finished {
            return Ok(());
        }
        Err(Fault::new(Code::LlmInvalidResponse, "the model's answer ended without saying why it stopped"))
    }
}

/// The JSON document of a frame.
pub(super) fn json(frame: &str) -> Result<BorrowedJson<'_>, Fault> {
    BorrowedJson::parse(frame).map_err(|_| failure::unreadable(frame))
}

fn is_whole(frame: &str) -> bool {
    frame.trim() == chat::DONE || serde_json::from_str::<serde::de::IgnoredAny>(frame).is_ok()
}

fn cut_off() -> Fault {
    let message = "the model's stream ended before it was complete";
    Fault::new(Code::LlmConnection, message).retry_after_ms(0)
}

#[cfg(test)]
mod tests;
