//! The decoder of Chat Completions.

use baton_core::chat::FinishReason;
use baton_core::fault::{Code, Fault};
use serde_json::json;

use super::{DONE, REASONING};
use crate::port::Delta;
use crate::wire::json::BorrowedJson;
use crate::wire::openai::{INDEX_LIMIT, MAX_TRACKED_CALLS, text, too_many_calls, usage};
use crate::wire::{decoder, failure};

/// The other field of reasoning, which servers only write.
const OTHER_REASONING: &str = "reasoning";

/// The state of an answer that is being decoded.
#[derive(Debug, Default)]
pub(in crate::wire) struct ChatDecoder {
    calls: Vec<StartedCall>,
    /// All reasoning so far.
    reasoning: String,
    /// Whether any of it came in the field in which it can go back.
    is_returnable: bool,
    has_text: bool,
    refused: bool,
    /// The server's finish reason. The delta is sent at the end, because usage comes after it.
    finish: Option<String>,
}

/// A call that has started.
#[derive(Debug)]
struct StartedCall {
    /// The server's number of the call.
    key: u64,
    id: Option<String>,
    /// The number of the call in our deltas.
    index: u32,
    /// The name, once it has come; deltas are sent from then on.
    name: Option<String>,
    /// Arguments that came before the name.
    early: String,
}

impl ChatDecoder {
    /// Decodes the data of one event. True: it was the terminal marker.
    pub(in crate::wire) fn frame(&mut self, frame: &str, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        let frame = frame.trim();
        if frame.is_empty() {
            return Ok(false);
        }
        if frame == DONE {
            return self.end(out).map(|()| true);
        }
        self.chunk(&decoder::json(frame)?, "delta", out)?;
        Ok(false)
    }

    /// Decodes a whole answer that came as one JSON document instead of a stream.
    pub(in crate::wire) fn whole(
        &mut self,
        body: &BorrowedJson<'_>,
        out: &mut Vec<Delta>,
    ) -> Result<(), Fault> {
        self.chunk(body, "message", out)?;
        self.end(out)
    }

    fn chunk(&mut self, chunk: &BorrowedJson<'_>, part: &str, out: &mut Vec<Delta>) -> Result<(), Fault> {
        if !chunk["error"].is_null() || chunk["object"] == "error" {
            return Err(failure::fault_in_answer(&chunk.to_value()));
        }
        // The chunk with the usage has no choices; more than one choice comes only on request.
        let choices = chunk["choices"].as_array().into_iter().flatten();
        for choice in choices.filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0) {
            self.piece(&choice[part], part == "message", out)?;
            if let Some(reason) = choice["finish_reason"].as_str() {
                self.finish = Some(reason.to_owned());
            }
        }
        out.extend(usage(&chunk["usage"], ["prompt_tokens", "completion_tokens"]));
        Ok(())
    }

    fn piece(&mut self, piece: &BorrowedJson<'_>, whole: bool, out: &mut Vec<Delta>) -> Result<(), Fault> {
        // Gateways send the same reasoning under both names.
        let returnable = text(&piece[REASONING]);
        self.is_returnable |= returnable.is_some();
        if let Some(reasoning) = returnable.or_else(|| text(&piece[OTHER_REASONING])) {
            self.reasoning.push_str(reasoning);
            out.push(Delta::Reasoning(reasoning.to_owned()));
        }
        for text in texts(&piece["content"]) {
            self.has_text = true;
            out.push(Delta::Text(text.to_owned()));
        }
        if let Some(refusal) = text(&piece["refusal"]) {
            self.refused = true;
            out.push(Delta::Text(refusal.to_owned()));
        }
        for (at, call) in (0..).zip(piece["tool_calls"].as_array().into_iter().flatten()) {
            // In a whole answer each item is a call of its own, and its `index` is ignored.
            let key = if whole { Some(at) } else { call["index"].as_u64() };
            self.call(key, at == 0, call, out)?;
        }
        Ok(())
    }

    /// Decodes one piece of a call; `first`: it is the first of its list.
    fn call(
        &mut self,
        key: Option<u64>,
        first: bool,
        call: &BorrowedJson<'_>,
        out: &mut Vec<Delta>,
    ) -> Result<(), Fault> {
        let (id, function) = (text(&call["id"]), &call["function"]);
        let name = text(&function["name"]);
        let at = match self.continued(key, id, name, first) {
            Some(at) => at,
            None => self.begin(key, id)?,
        };
        let Some(begun) = self.calls.get_mut(at) else { return Ok(()) };
        let index = begun.index;
        let mut arguments = match &function["arguments"] {
            BorrowedJson::String(piece) => piece.clone().into_owned(),
            // Some servers send the object itself.
            object @ BorrowedJson::Object(_) => object.to_string(),
            _ => String::new(),
        };
        if begun.name.is_none() {
            begun.early.push_str(&arguments);
            let Some(name) = name else { return Ok(()) };
            begun.name = Some(name.to_owned());
            out.push(Delta::CallStart { index, id: begun.id.clone(), name: name.to_owned() });
            arguments = std::mem::take(&mut begun.early);
        }
        if !arguments.is_empty() {
            out.push(Delta::CallArguments { index, text: arguments });
        }
        Ok(())
    }

    /// The call that a piece continues; none: it starts one.
    ///
    /// By the specification only the first piece of a call has an id and a name, and all have an index. But some
    /// servers repeat id and name, some send index 0 for every call, and some send no index.
    fn continued(
        &self,
        key: Option<u64>,
        id: Option<&str>,
        name: Option<&str>,
        first: bool,
    ) -> Option<usize> {
        let same_id = |begun: &StartedCall| id.is_some() && begun.id.as_deref() == id;
        let at = match key {
            Some(key) => self.calls.iter().rposition(|begun| begun.key == key)?,
            None => match self.calls.iter().rposition(same_id) {
                Some(at) => return Some(at),
                None => self.calls.len().checked_sub(1)?,
            },
        };
        let begun = self.calls.get(at)?;
        let renamed = name.is_some() && begun.name.is_some();
        let is_new = match id {
            Some(_) if same_id(begun) => false,
            // Another id alone is a new call only where there is no index.
            Some(_) => renamed || (key.is_none() && begun.id.is_some()),
            None => renamed && (begun.name.as_deref() != name || (key.is_none() && !first)),
        };
        (!is_new).then_some(at)
    }

    fn begin(&mut self, key: Option<u64>, id: Option<&str>) -> Result<usize, Fault> {
        if self.calls.len() == MAX_TRACKED_CALLS {
            return Err(too_many_calls());
        }
        let next = self.calls.iter().map(|begun| begun.index + 1).max().unwrap_or(0);
        let wanted = key.and_then(|key| u32::try_from(key).ok()).filter(|index| *index < INDEX_LIMIT);
        let is_free = |index: &u32| self.calls.iter().all(|begun| begun.index != *index);
        let index = wanted.filter(is_free).unwrap_or(next);
        let key = key.unwrap_or(index.into());
        let id = id.map(str::to_owned);
        self.calls.push(StartedCall { key, id, index, name: None, early: String::new() });
        Ok(self.calls.len() - 1)
    }

    fn end(&mut self, out: &mut Vec<Delta>) -> Result<(), Fault> {
        if self.calls.iter().any(|begun| begun.name.is_none()) {
            return Err(invalid("the model began a call and did not say of which tool"));
        }
        let finish = self.finish_reason()?;
        if !self.reasoning.is_empty() {
            let field = if self.is_returnable { REASONING } else { OTHER_REASONING };
            out.push(Delta::ReasoningBlock(json!({ field: std::mem::take(&mut self.reasoning) })));
        }
        out.push(Delta::Finish(finish));
        Ok(())
    }

    fn finish_reason(&self) -> Result<FinishReason, Fault> {
        // Text without a known reason is complete; a call without one may be half a call.
        let is_text_only = self.has_text && self.calls.is_empty();
        Ok(match self.finish.as_deref() {
            // Servers that abandon an answer send these as its reason.
            Some(reason @ ("abort" | "cancelled" | "error" | "insufficient_system_resource")) => {
                let words = format!("the model's server broke off the answer ({reason})");
                return Err(Fault::new(Code::LlmServer, words).retry_after_ms(0));
            }
            _ if self.refused => FinishReason::Refused,
            Some("stop" | "eos" | "eos_token" | "stop_sequence") => FinishReason::Stop,
            Some("tool_calls" | "function_call") => FinishReason::ToolCalls,
            Some("length" | "model_length" | "max_tokens") => FinishReason::Length,
            Some("content_filter") => FinishReason::Refused,
            Some(_) | None if is_text_only => FinishReason::Stop,
            Some(reason) if !self.calls.is_empty() => {
                let words = "the model wanted calls and stopped for a reason that is not known";
                return Err(invalid(format!("{words}: {}", failure::excerpt(reason))));
            }
            _ => return Err(invalid("the model's answer ended without saying why it stopped")),
        })
    }
}

/// The texts of a message's content, which some servers send as a list of parts.
fn texts<'a>(content: &'a BorrowedJson<'_>) -> impl Iterator<Item = &'a str> {
    let parts = content.as_array().into_iter().flatten().filter_map(|part| text(&part["text"]));
    text(content).into_iter().chain(parts)
}

fn invalid(message: impl Into<String>) -> Fault {
    Fault::new(Code::LlmInvalidResponse, message)
}
