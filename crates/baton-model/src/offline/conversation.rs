//! The part of a conversation that counts: the latest user message, and the results of tools since.

use std::collections::HashMap;

use baton_core::chat::{ChatCall, ChatMessage, Role};
use baton_core::json;
use baton_core::tool::{ASK_USER, Cause};
use serde_json::Value;

/// The part of a conversation that the next answer is about.
#[derive(Debug)]
pub(super) struct Conversation<'a> {
    /// The latest user message.
    pub(super) user: &'a str,
    /// The results of the calls since, in order.
    pub(super) told: Vec<ToolReport<'a>>,
}

/// The result of one call.
#[derive(Debug)]
pub(super) struct ToolReport<'a> {
    /// The tool.
    pub(super) tool: &'a str,
    /// The call's arguments.
    pub(super) arguments: &'a Value,
    /// How the call ended.
    pub(super) ending: CallEnding,
    /// The tool's text, without the word for its ending.
    pub(super) text: &'a str,
}

/// The ending of a call, by the first word of its rendered result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallEnding {
    Ok,
    Error,
    Denied,
    Expired,
    Cancelled,
    Unknown,
}

impl<'a> Conversation<'a> {
    /// Reads a conversation.
    pub(super) fn of(messages: &'a [ChatMessage]) -> Self {
        let latest = messages.iter().rposition(|m| m.role == Role::User);
        let since = latest.map_or(messages, |at| &messages[at + 1..]);
        let calls: HashMap<&str, &ChatCall> =
            since.iter().flat_map(|m| &m.tool_calls).map(|call| (call.id.as_str(), call)).collect();
        let told = since.iter().filter(|m| m.role == Role::Tool).map(|m| {
            let call = m.tool_call_id.as_deref().and_then(|id| calls.get(id));
            let (ending, text) = ending(&m.content);
            ToolReport {
                tool: call.map_or("a tool", |call| call.name.as_str()),
                arguments: call.map_or(&Value::Null, |call| &call.arguments),
                ending,
                text,
            }
        });
        Conversation { user: latest.map_or("", |at| messages[at].content.as_str()), told: told.collect() }
    }

    /// Whether a tool was already called for this message.
    pub(super) fn has_asked(&self, tool: &str) -> bool {
        self.told.iter().any(|told| told.tool == tool)
    }

    /// Whether the person has answered a question and nothing else has happened.
    pub(super) fn only_answered(&self) -> bool {
        self.told.iter().all(|told| told.tool == ASK_USER && told.ending == CallEnding::Ok)
    }

    /// The person's answer to our question.
    pub(super) fn answer(&self) -> Option<String> {
        let told = self.told.iter().rfind(|told| told.tool == ASK_USER && told.ending == CallEnding::Ok)?;
        Some(match told.value() {
            Value::Object(map) => match map.get("answer").or_else(|| map.get("text")) {
                Some(answer) => json::as_text(answer),
                None => told.text.to_owned(),
            },
            _ => told.text.to_owned(),
        })
    }
}

impl ToolReport<'_> {
    /// The tool's text as JSON; other text as a string.
    pub(super) fn value(&self) -> Value {
        json::parse(self.text).unwrap_or_else(|_| Value::String(self.text.to_owned()))
    }
}

/// The words are those of [`baton_core::render`].
fn ending(content: &str) -> (CallEnding, &str) {
    let words = [
        ("Error: ", CallEnding::Error),
        ("Denied: ", CallEnding::Denied),
        ("Expired: ", CallEnding::Expired),
        ("Cancelled: ", CallEnding::Cancelled),
        ("Unknown outcome: ", CallEnding::Unknown),
    ];
    let without_advice = |text: &'_ str| {
        let advice = [Cause::Asked, Cause::Tool].iter().find_map(|cause| text.strip_suffix(cause.advice()));
        advice.map_or(text, str::trim_end).len()
    };
    words
        .into_iter()
        .find_map(|(word, ending)| {
            content.strip_prefix(word).map(|text| (ending, &text[..without_advice(text)]))
        })
        .unwrap_or((CallEnding::Ok, content))
}
