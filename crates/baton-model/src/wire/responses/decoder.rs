//! The decoder of Responses.

use baton_core::chat::FinishReason;
use baton_core::fault::{Code, Fault};

use super::calls::ResponseCalls;
use crate::port::Delta;
use crate::wire::chat::DONE;
use crate::wire::json::BorrowedJson;
use crate::wire::openai::{text, usage};
use crate::wire::{decoder, failure};

/// The state of an answer that is being decoded.
#[derive(Debug, Default)]
pub(in crate::wire) struct ResponsesDecoder {
    calls: ResponseCalls,
    has_text: bool,
    refused: bool,
    /// A block of reasoning was sent.
    has_reasoning: bool,
    /// Some text of the current block of reasoning was sent.
    is_in_reasoning: bool,
}

impl ResponsesDecoder {
    /// Decodes the data of one event. True: it was the terminal event.
    pub(in crate::wire) fn frame(&mut self, frame: &str, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        let frame = frame.trim();
        // Some servers also send the terminal marker of Chat Completions, which means nothing here.
        if frame.is_empty() || frame == DONE {
            return Ok(false);
        }
        let event = decoder::json(frame)?;
        let place = event["output_index"].as_u64();
        let (item, response) = (&event["item"], &event["response"]);
        match event["type"].as_str().unwrap_or_default() {
            "response.output_text.delta" => self.say(&event["delta"], out),
            "response.refusal.delta" => self.refuse(&event["delta"], out),
            "response.reasoning_text.delta" | "response.reasoning_summary_text.delta" => {
                self.think(&event["delta"], out);
            }
            // Summaries come in parts, each a paragraph.
            "response.reasoning_summary_part.added" if event["summary_index"].as_u64() > Some(0) => {
                out.push(Delta::Reasoning("\n\n".to_owned()));
            }
            "response.output_item.added" if item["type"] == "function_call" => {
                self.calls.begin(item, place, out)?;
            }
            "response.function_call_arguments.delta" => self.calls.more(&event, out)?,
            "response.function_call_arguments.done" => self.calls.complete(&event, out)?,
            "response.output_item.done" => self.item_done(item, place, out)?,
            "response.completed" => return self.close(response, "completed", out).map(|()| true),
            "response.incomplete" => return self.close(response, "incomplete", out).map(|()| true),
            "response.failed" => return Err(failure::fault_in_answer(&response["error"].to_value())),
            "error" => return Err(failure::fault_in_answer(&event.to_value())),
            _ if !event["error"].is_null() => return Err(failure::fault_in_answer(&event.to_value())),
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
            return Err(failure::fault_in_answer(&body.to_value()));
        }
        match body["status"].as_str() {
            Some(status) if body["output"].is_array() => self.close(body, status, out),
            _ => Err(failure::unreadable(&body.to_string())),
        }
    }

    fn item_done(
        &mut self,
        item: &BorrowedJson<'_>,
        place: Option<u64>,
        out: &mut Vec<Delta>,
    ) -> Result<(), Fault> {
        match item["type"].as_str() {
            Some("function_call") => self.calls.done(item, place, out)?,
            Some("reasoning") => self.thought(item, out),
            _ => {}
        }
        Ok(())
    }

    fn thought(&mut self, item: &BorrowedJson<'_>, out: &mut Vec<Delta>) {
        if !std::mem::take(&mut self.is_in_reasoning) {
            let parts = ["summary", "content"].iter().filter_map(|field| item[*field].as_array()).flatten();
            parts.for_each(|part| self.think(&part["text"], out));
            self.is_in_reasoning = false;
        }
        self.has_reasoning = true;
        out.push(Delta::ReasoningBlock(item.to_value()));
    }

    /// Ends the answer. Parts of it that only the last event has are sent now.
    fn close(
        &mut self,
        response: &BorrowedJson<'_>,
        status: &str,
        out: &mut Vec<Delta>,
    ) -> Result<(), Fault> {
        let items = |kind: &'static str| {
            let items = response["output"].as_array().into_iter().flatten();
            items.filter(move |item| item["type"] == kind)
        };
        if !self.has_reasoning {
            items("reasoning").for_each(|item| self.thought(item, out));
        }
        if !self.has_text && !self.refused {
            for part in items("message").filter_map(|item| item["content"].as_array()).flatten() {
                match part["type"].as_str() {
                    Some("output_text") => self.say(&part["text"], out),
                    Some("refusal") => self.refuse(&part["refusal"], out),
                    _ => {}
                }
            }
        }
        self.calls.close(items("function_call"), out)?;
        out.extend(usage(&response["usage"], ["input_tokens", "output_tokens"]));
        let reason = response["incomplete_details"]["reason"].as_str();
        out.push(Delta::Finish(match status {
            _ if self.refused || reason == Some("content_filter") => FinishReason::Refused,
            "completed" if self.calls.is_empty() => FinishReason::Stop,
            "completed" if self.calls.break_off() => FinishReason::Length,
            "completed" => FinishReason::ToolCalls,
            "incomplete" => FinishReason::Length,
            _ => {
                let words = "the model's server gave an answer that is not complete";
                return Err(Fault::new(Code::LlmInvalidResponse, words));
            }
        }));
        Ok(())
    }

    fn think(&mut self, thought: &BorrowedJson<'_>, out: &mut Vec<Delta>) {
        if let Some(thought) = text(thought) {
            self.is_in_reasoning = true;
            out.push(Delta::Reasoning(thought.to_owned()));
        }
    }

    fn say(&mut self, said: &BorrowedJson<'_>, out: &mut Vec<Delta>) {
        if let Some(said) = text(said) {
            self.has_text = true;
            out.push(Delta::Text(said.to_owned()));
        }
    }

    fn refuse(&mut self, said: &BorrowedJson<'_>, out: &mut Vec<Delta>) {
        self.refused = true;
        out.extend(text(said).map(|said| Delta::Text(said.to_owned())));
    }
}
