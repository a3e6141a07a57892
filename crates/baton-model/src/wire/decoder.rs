//! From the bytes of a body to deltas.
//!
//! Lines, then events where the format has them, then the format's own reading, then what the model has the
//! habit of writing into its text, and last our names of tools. Fed any split of the same bytes it gives
//! the same deltas and the same end. A `Finish` comes at the terminal marker and never before it, so an
//! answer that was cut off is never complete. It keeps no text beyond the line, the event or the tag that
//! it is in, and it does not judge calls.

use baton_core::fault::{Code, Fault};

use super::json::BorrowedJson;
use super::lines::{LineSplitter, MAX_BODY_BYTES, too_long};
use super::sse::SseEvent;
use super::tags::TagSplitter;
use super::{InlineTags, Wire, WireNames, anthropic, chat, failure, ollama, responses};
use crate::port::Delta;

/// Reads one answer. Fed any split of the same bytes it gives the same deltas.
#[derive(Debug)]
pub struct Decoder {
    lines: LineSplitter,
    /// Where frames are server-sent events and not lines.
    event: Option<SseEvent>,
    answer: DeltaPipeline,
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
        let (event, reading) = match wire {
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
        let answer = DeltaPipeline {
            reading,
            names,
            tags: TagSplitter::new(inline_tags),
            read: Vec::new(),
            finished: false,
        };
        Decoder { lines: LineSplitter::default(), event, answer, state: DecoderState::Open }
    }

    /// Takes the next bytes of the body. After an error there is nothing more.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<Delta>) -> Result<(), Fault> {
        self.step(|decoder| decoder.read(bytes, out))
    }

    /// Whether the format's terminal marker was seen: what follows is not read.
    pub fn is_done(&self) -> bool {
        matches!(self.state, DecoderState::Done)
    }

    /// The body ended. Without the terminal marker that is a failure.
    pub fn end(&mut self, out: &mut Vec<Delta>) -> Result<(), Fault> {
        self.step(|decoder| match decoder.read_rest(out)? {
            true => Ok(true),
            false => Err(cut()),
        })
    }

    /// The whole answer as one JSON document, from a server that did not stream although it was asked to.
    pub fn whole(&mut self, body: &[u8], out: &mut Vec<Delta>) -> Result<(), Fault> {
        self.step(|decoder| {
            if body.len() > MAX_BODY_BYTES {
                return Err(too_long("an answer", MAX_BODY_BYTES));
            }
            decoder.answer.whole(body, out)?;
            Ok(true)
        })
    }

    /// Does one step, which says whether the answer is done, unless it already is or has failed.
    fn step(&mut self, step: impl FnOnce(&mut Self) -> Result<bool, Fault>) -> Result<(), Fault> {
        match &self.state {
            DecoderState::Open => {}
            DecoderState::Done => return Ok(()),
            DecoderState::Failed(fault) => return Err(fault.clone()),
        }
        match step(self) {
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
                && self.answer.frame(frame, out)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is left at the end of a body.
    ///
    /// The standard of server-sent events throws an event away whose blank line did not come, because
    /// nobody can know that it is whole. We do the same with one exception, as some servers leave out the
    /// last blank line: if what is left is whole by itself, a JSON document or the marker, and ends the
    /// answer or says what went wrong, it counts. More text from it would be lost anyway: without a marker
    /// the answer has failed.
    fn read_rest(&mut self, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        // A line that the end cut in two may hold half a character: then it is cut, and not wrong.
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
        let is_last = self.answer.frame(frame, &mut rest)?;
        if is_last {
            out.append(&mut rest);
        }
        Ok(is_last)
    }
}

/// What a format has read so far.
#[derive(Debug)]
enum FormatDecoder {
    Ollama(ollama::OllamaDecoder),
    Chat(chat::ChatDecoder),
    Responses(responses::ResponsesDecoder),
    Anthropic(anthropic::AnthropicDecoder),
}

/// What is known of one answer, and the way of each of its frames to deltas.
#[derive(Debug)]
struct DeltaPipeline {
    reading: FormatDecoder,
    names: WireNames,
    tags: TagSplitter,
    /// What the format read in the frame at hand.
    read: Vec<Delta>,
    finished: bool,
}

impl DeltaPipeline {
    fn frame(&mut self, frame: &str, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        let read = match &mut self.reading {
            FormatDecoder::Ollama(reading) => reading.frame(frame, &mut self.read),
            FormatDecoder::Chat(reading) => reading.frame(frame, &mut self.read),
            FormatDecoder::Responses(reading) => reading.frame(frame, &mut self.read),
            FormatDecoder::Anthropic(reading) => reading.frame(frame, &mut self.read),
        };
        // What came before a failure is shown as well.
        self.pass(out);
        let is_last = read?;
        if is_last { self.is_finished().map(|()| true) } else { Ok(false) }
    }

    fn whole(&mut self, body: &[u8], out: &mut Vec<Delta>) -> Result<(), Fault> {
        let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
        let body = str::from_utf8(body).map_err(|_| failure::unreadable(&String::from_utf8_lossy(body)))?;
        let body = json(body)?;
        let read = match &mut self.reading {
            FormatDecoder::Ollama(reading) => reading.whole(&body, &mut self.read),
            FormatDecoder::Chat(reading) => reading.whole(&body, &mut self.read),
            FormatDecoder::Responses(reading) => reading.whole(&body, &mut self.read),
            FormatDecoder::Anthropic(reading) => reading.whole(&body, &mut self.read),
        };
        self.pass(out);
        read?;
        self.is_finished()
    }

    /// Lets what the format read through: past the tags, and with our names.
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

fn cut() -> Fault {
    let words = "the model's stream ended before it was complete";
    Fault::new(Code::LlmConnection, words).retry_after_ms(0)
}

#[cfg(test)]
mod tests;
