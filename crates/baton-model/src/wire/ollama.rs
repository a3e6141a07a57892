//! Ollama's `/api/chat`: one JSON object a line.
//!
//! Arguments of calls are objects in both directions and never text. Calls come whole; some versions number
//! them anew in each line, so they are counted here. Counters that are absent
//! are 0. The answer's last line has `done`, and an error may come as a line of its own after a status of 200;
//! both its shapes are read.
//!
//! Two things have no field: a required tool call, which is therefore not requested, and
//! whether to think, which is left to the model. `num_ctx` is sent whenever the context window is known:
//! without it the server silently drops the beginning of a prompt that is longer than its own default.

mod body;
mod text_line;

use std::borrow::Cow;

use baton_core::chat::{FinishReason, TokenUsage};
use baton_core::fault::{Code, Fault};
use baton_core::json::as_text;
use serde_json::json;

use super::decoder::json as parse;
use super::failure;
use super::json::BorrowedJson;
use crate::port::Delta;
pub(super) use body::{body, object};
use text_line::LineText;

/// The state of an answer that is being decoded.
#[derive(Debug, Default)]
pub(super) struct OllamaDecoder {
    /// The number of calls so far.
    calls: u32,
    /// All thinking so far, as it goes back.
    thinking: String,
    /// Whether there was text or a call.
    has_answer: bool,
}

impl OllamaDecoder {
    /// Decodes one line. True: it was the last.
    pub(super) fn frame(&mut self, frame: &str, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        // Nearly all lines have a few words of text in them and nothing else.
        if let Some(text) = text_line::parse(frame) {
            self.text(text, out);
            return Ok(false);
        }
        self.line(&parse(frame)?, out)
    }

    /// Decodes a whole answer that came as one document: it looks like a last line with everything in it.
    pub(super) fn whole(&mut self, body: &BorrowedJson<'_>, out: &mut Vec<Delta>) -> Result<(), Fault> {
        if self.line(body, out)? { Ok(()) } else { Err(failure::unreadable(&body.to_string())) }
    }

    fn line(&mut self, line: &BorrowedJson<'_>, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        if let Some(error) = line.get("error").filter(|error| !error.is_null()) {
            return Err(failure::fault_in_answer(&error.to_value()));
        }
        if !line.is_object() {
            return Err(failure::unreadable(&line.to_string()));
        }
        self.message(&line["message"], out);
        if line["done"] != BorrowedJson::Bool(true) {
            return Ok(false);
        }
        let reason = line["done_reason"].as_str().unwrap_or_default();
        let finish = match reason {
            "length" => FinishReason::Length,
            "load" | "unload" if !self.has_answer => return Err(no_answer(reason)),
            _ => FinishReason::Stop,
        };
        if !self.thinking.is_empty() {
            out.push(Delta::ReasoningBlock(json!({"thinking": std::mem::take(&mut self.thinking)})));
        }
        let count = |field: &str| line[field].as_u64().unwrap_or_default();
        out.push(Delta::Usage(TokenUsage {
            prompt_tokens: count("prompt_eval_count"),
            completion_tokens: count("eval_count"),
            cost_micro_usd: None,
            estimated: false,
        }));
        out.push(Delta::Finish(finish));
        Ok(true)
    }

    fn message(&mut self, message: &BorrowedJson<'_>, out: &mut Vec<Delta>) {
        let text = |field: &str| message[field].as_str().map(Cow::Borrowed);
        let (thinking, reasoning, content) = (text("thinking"), text("reasoning_content"), text("content"));
        self.text(LineText { thinking, reasoning, content }, out);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            self.has_answer = true;
            self.call(call, out);
        }
    }

    fn text(&mut self, line: LineText<'_>, out: &mut Vec<Delta>) {
        let non_empty =
            |text: Option<Cow<'_, str>>| text.filter(|text| !text.is_empty()).map(Cow::into_owned);
        // Compatible servers write the second field.
        if let Some(thought) = non_empty(line.thinking).or_else(|| non_empty(line.reasoning)) {
            self.thinking.push_str(&thought);
            out.push(Delta::Reasoning(thought));
        }
        if let Some(text) = non_empty(line.content) {
            self.has_answer = true;
            out.push(Delta::Text(text));
        }
    }

    fn call(&mut self, call: &BorrowedJson<'_>, out: &mut Vec<Delta>) {
        let (index, function) = (self.calls, &call["function"]);
        self.calls += 1;
        let name = function["name"].as_str().unwrap_or_default().to_owned();
        let id = call["id"].as_str().filter(|id| !id.is_empty()).map(str::to_owned);
        let text = match &function["arguments"] {
            BorrowedJson::Null => "{}".to_owned(),
            arguments => as_text(&arguments.to_value()),
        };
        out.push(Delta::CallStart { index, id, name });
        out.push(Delta::CallArguments { index, text });
    }
}

/// The fault of a server that only loaded or unloaded the model and did not ask it.
fn no_answer(reason: &str) -> Fault {
    let message = format!("the model's server says that it did {reason:?} and gave no answer");
    Fault::new(Code::LlmInvalidResponse, message)
}

#[cfg(test)]
mod tests;
