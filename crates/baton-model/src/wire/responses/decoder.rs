//! What an answer says, event by event.

use baton_core::chat::FinishReason;
use baton_core::fault::{Code, Fault};

use super::calls::ResponseCalls;
use crate::port::Delta;
use crate::wire::chat::DONE;
use crate::wire::json::BorrowedJson;
use crate::wire::openai::{text, usage};
use crate::wire::{decoder, failure};

/// What was read of an answer so far.
#[derive(Debug, Default)]
pub(in crate::wire) struct ResponsesDecoder {
    calls: ResponseCalls,
    has_text: bool,
    refused: bool,
    /// A block of reasoning was told.
    has_thought: bool,
    /// Some text of the block at hand was told.
    thinking: bool,
}

impl ResponsesDecoder {
    /// Takes the data of one event. Answers whether it was the terminal marker.
    pub(in crate::wire) fn frame(&mut self, frame: &str, out: &mut Vec<Delta>) -> Result<bool, Fault> {
        let frame = frame.trim();
        // The marker of the other format ends nothing here; some servers send it all the same.
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

    /// Takes a whole answer that came as one JSON document.
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
        if !std::mem::take(&mut self.thinking) {
            let parts = ["summary", "content"].iter().filter_map(|field| item[*field].as_array()).flatten();
            parts.for_each(|part| self.think(&part["text"], out));
            self.thinking = false;
        }
        self.has_thought = true;
        out.push(Delta::ReasoningBlock(item.to_value()));
    }

    /// The answer is over. What its last event holds of it is told as far as it was not.
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
        if !self.has_thought {
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
            self.thinking = true;
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
