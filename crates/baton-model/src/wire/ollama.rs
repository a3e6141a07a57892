//! Ollama's `/api/chat`: one JSON object a line.
//!
//! Arguments of calls are objects in both directions and never text. Calls come whole; the numbers that
//! some versions give them begin anew with each line, so they are counted here. Counters that are absent
//! are 0. The answer's last line has `done`, and an error may come as a line of its own after the server
//! said that all is well; both its shapes are read.
//!
//! Two things have no field: that some tool has to be called, which is therefore not asked for, and
//! whether to think, which is left to the model. `num_ctx` is sent whenever the context window is known:
//! without it the server quietly forgets the beginning of a prompt that is longer than its own default.

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

/// What was read of an answer.
#[derive(Debug, Default)]
pub(super) struct OllamaDecoder {
    /// How many calls there were.
    calls: u32,
    /// All that was thought, as it goes back.
    thinking: String,
    /// Whether there was anything but thinking.
    said: bool,
}

impl OllamaDecoder {
    /// Takes one line. Answers whether it was the last.
    pub(super) fn frame(&mut self, frame: &str, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        // Nearly all lines have a few words in them and nothing else.
        if let Some(words) = text_line::words(frame) {
            self.said(words, out);
            return Ok(false);
        }
        self.line(&parse(frame)?, out)
    }

    /// A whole answer that came as one document: it looks like a last line with everything in it.
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
            "load" | "unload" if !self.said => return Err(silent(reason)),
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
        self.said(LineText { thinking, reasoning, content }, out);
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            self.said = true;
            self.call(call, out);
        }
    }

    fn said(&mut self, words: LineText<'_>, out: &mut Vec<Delta>) {
        let there = |text: Option<Cow<'_, str>>| text.filter(|text| !text.is_empty()).map(Cow::into_owned);
        // The second is what compatible servers write.
        if let Some(thought) = there(words.thinking).or_else(|| there(words.reasoning)) {
            self.thinking.push_str(&thought);
            out.push(Delta::Reasoning(thought));
        }
        if let Some(text) = there(words.content) {
            self.said = true;
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

/// The server only loaded the model, or let go of it, and the model was not asked.
fn silent(reason: &str) -> Fault {
    let what = format!("the model's server says that it did {reason:?} and gave no answer");
    Fault::new(Code::LlmInvalidResponse, what)
}

#[cfg(test)]
mod tests;
