//! The decoder of Anthropic's Messages.

use std::collections::BTreeMap;

use baton_core::chat::{FinishReason, TokenUsage};
use baton_core::fault::{Code, Fault};
use serde_json::{Value, json};

use crate::port::Delta;
use crate::wire::decoder::json as parse;
use crate::wire::failure;
use crate::wire::json::BorrowedJson;

/// The state of an answer that is being decoded.
#[derive(Debug, Default)]
pub(in crate::wire) struct AnthropicDecoder {
    /// The open blocks by their number.
    open: BTreeMap<u64, OpenBlock>,
    /// The number of calls so far.
    calls: u32,
    stop: Option<FinishReason>,
    usage: AnthropicUsage,
}

/// A block that has begun.
#[derive(Debug)]
enum OpenBlock {
    /// A call. Arguments that came with its start count only if none come after it.
    Call {
        index: u32,
        input: Value,
        written: bool,
    },
    /// Raw thinking, as it goes back. Without a signature it was cut off.
    Thinking {
        block: Value,
        signed: bool,
    },
    Redacted(Value),
    Other,
}

/// The token counters; a later one replaces an earlier one, and 0 is ignored.
#[derive(Debug, Default)]
struct AnthropicUsage {
    input: u64,
    cache_read: u64,
    cache_creation: u64,
    output: u64,
}

impl AnthropicDecoder {
    /// Decodes the data of one event. True: it was the last.
    pub(in crate::wire) fn frame(&mut self, frame: &str, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        let event = parse(frame)?;
        let index = event["index"].as_u64().unwrap_or_default();
        match event["type"].as_str().unwrap_or_default() {
            "message_start" => self.usage.update(&event["message"]["usage"], out),
            "content_block_start" => self.begin(index, &event["content_block"], out),
            "content_block_delta" => self.go_on(index, &event["delta"], out)?,
            "content_block_stop" => self.stop(index, out),
            "message_delta" => {
                self.usage.update(&event["usage"], out);
                self.stop = event["delta"]["stop_reason"].as_str().map(finish).or(self.stop);
            }
            "message_stop" => {
                self.finish(out);
                return Ok(true);
            }
            _ if !event["error"].is_null() => {
                return Err(failure::fault_in_answer(&event["error"].to_value()));
            }
            _ => {}
        }
        Ok(false)
    }

    /// Decodes a whole answer that came as one JSON document instead of a stream.
    pub(in crate::wire) fn whole(
        &mut self,
        body: &BorrowedJson<'_>,
        out: &mut Vec<Delta>,
    ) -> Result<(), Fault> {
        if !body["error"].is_null() {
            return Err(failure::fault_in_answer(&body["error"].to_value()));
        }
        let Some(blocks) = body["content"].as_array() else {
            return Err(failure::unreadable(&body.to_string()));
        };
        for (index, block) in (0..).zip(blocks) {
            self.begin(index, block, out);
            self.stop(index, out);
        }
        self.usage.update(&body["usage"], out);
        self.stop = body["stop_reason"].as_str().map(finish);
        self.finish(out);
        Ok(())
    }

    fn begin(&mut self, at: u64, block: &BorrowedJson<'_>, out: &mut Vec<Delta>) {
        let text = |field: &str| block[field].as_str().unwrap_or_default().to_owned();
        let begun = match block["type"].as_str().unwrap_or_default() {
            "text" => {
                push(out, Delta::Text, &text("text"));
                OpenBlock::Other
            }
            "tool_use" => {
                let index = self.calls;
                self.calls += 1;
                let id = Some(text("id")).filter(|id| !id.is_empty());
                out.push(Delta::CallStart { index, id, name: text("name") });
                OpenBlock::Call { index, input: block["input"].to_value(), written: false }
            }
            "thinking" => {
                push(out, Delta::Reasoning, &text("thinking"));
                OpenBlock::Thinking { block: block.to_value(), signed: !text("signature").is_empty() }
            }
            "redacted_thinking" => OpenBlock::Redacted(block.to_value()),
            _ => OpenBlock::Other,
        };
        self.open.insert(at, begun);
    }

    fn go_on(&mut self, at: u64, delta: &BorrowedJson<'_>, out: &mut Vec<Delta>) -> Result<(), Fault> {
        let text = |field: &str| delta[field].as_str().unwrap_or_default();
        match (delta["type"].as_str().unwrap_or_default(), self.open.get_mut(&at)) {
            ("text_delta", _) => push(out, Delta::Text, text("text")),
            ("thinking_delta", block) => {
                push(out, Delta::Reasoning, text("thinking"));
                if let Some(OpenBlock::Thinking { block, .. }) = block {
                    append(&mut block["thinking"], text("thinking"));
                }
            }
            ("signature_delta", Some(OpenBlock::Thinking { block, signed })) => {
                *signed = true;
                append(&mut block["signature"], text("signature"));
            }
            ("input_json_delta", Some(OpenBlock::Call { index, written, .. })) => {
                let (index, text) = (*index, text("partial_json"));
                *written |= !text.is_empty();
                push(out, |text| Delta::CallArguments { index, text }, text);
            }
            ("input_json_delta", None) => {
                let words = "the model's server sent arguments for a call that had not begun";
                return Err(Fault::new(Code::LlmInvalidResponse, words));
            }
            _ => {}
        }
        Ok(())
    }

    fn stop(&mut self, at: u64, out: &mut Vec<Delta>) {
        match self.open.remove(&at) {
            Some(OpenBlock::Call { index, input, written: false }) => {
                let text = if input.is_object() { input.to_string() } else { "{}".to_owned() };
                out.push(Delta::CallArguments { index, text });
            }
            Some(OpenBlock::Thinking { block, signed: true } | OpenBlock::Redacted(block)) => {
                out.push(Delta::ReasoningBlock(block));
            }
            _ => {}
        }
    }

    fn finish(&mut self, out: &mut Vec<Delta>) {
        // A call whose block is still open was cut off, even if the stop reason says otherwise.
        let is_cut = self.open.values().any(|block| matches!(block, OpenBlock::Call { .. }));
        let finish = match self.stop {
            Some(FinishReason::Refused) => FinishReason::Refused,
            _ if is_cut => FinishReason::Length,
            reason => reason.unwrap_or(FinishReason::Stop),
        };
        out.push(Delta::Finish(finish));
    }
}

impl AnthropicUsage {
    /// Updates the counters and sends them at once, because a cancelled answer gets no later ones.
    fn update(&mut self, usage: &BorrowedJson<'_>, out: &mut Vec<Delta>) {
        if !usage.is_object() {
            return;
        }
        let counters = [
            ("input_tokens", &mut self.input),
            ("cache_read_input_tokens", &mut self.cache_read),
            ("cache_creation_input_tokens", &mut self.cache_creation),
            ("output_tokens", &mut self.output),
        ];
        for (field, counter) in counters {
            *counter = usage[field].as_u64().filter(|count| *count > 0).unwrap_or(*counter);
        }
        out.push(Delta::Usage(TokenUsage {
            prompt_tokens: self.input.saturating_add(self.cache_read).saturating_add(self.cache_creation),
            completion_tokens: self.output,
            cost_micro_usd: None,
            estimated: false,
        }));
    }
}

/// The finish reason. A paused turn (`pause_turn`) counts as finished, as the server does not go on by itself.
fn finish(reason: &str) -> FinishReason {
    match reason {
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => FinishReason::Length,
        "refusal" => FinishReason::Refused,
        _ => FinishReason::Stop,
    }
}

fn push(out: &mut Vec<Delta>, delta: impl FnOnce(String) -> Delta, text: &str) {
    if !text.is_empty() {
        out.push(delta(text.to_owned()));
    }
}

/// Appends to a text inside a block.
fn append(field: &mut Value, more: &str) {
    match field {
        Value::String(text) => text.push_str(more),
        other => *other = json!(more),
    }
}
