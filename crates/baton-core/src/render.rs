//! What a model sees of a thread.
//!
//! Entries become messages in the OpenAI schema. Results stand in call order, whenever they arrived,
//! and a call is never separated from its result.

use std::collections::HashMap;

use crate::chat::{ChatCall, ChatMessage, Role};
use crate::json::as_text;
use crate::thread::{Closing, Entry};

/// Renders entries, oldest first. Waits, ends and custom types are left out.
pub fn messages<'a>(system: &str, entries: impl IntoIterator<Item = &'a Entry>) -> Vec<ChatMessage> {
    let mut out = Vec::new();
    if !system.is_empty() {
        out.push(ChatMessage::text(Role::System, system));
    }
    let mut group = Group::default();
    for entry in entries {
        match entry {
            Entry::ToolCall(call) => {
                group.call(&mut out, &call.id, &call.function_name, call.arguments.clone());
            }
            Entry::AgentCall(call) => {
                let id = call.correlation_id.as_deref().unwrap_or_default();
                let arguments = serde_json::json!({ "message": call.message });
                group.call(&mut out, id, &format!("agent.{}", call.agent_id), arguments);
            }
            Entry::ToolResult(result) => {
                group.result(&mut out, &result.tool_call_id, said(result.status, &as_text(&result.result)));
            }
            Entry::AgentResult(result) => {
                group.result(&mut out, &result.correlation_id, said(result.status, &as_text(&result.result)));
            }
            Entry::UserMessage(m) => group.message(&mut out, Role::User, &m.text),
            Entry::UserResponse(_) if !group.calls.is_empty() => {} // its question's result says the same
            Entry::UserResponse(m) => group.message(&mut out, Role::User, &m.text),
            Entry::AssistantMessage(m) => group.message(&mut out, Role::Assistant, &m.content),
            Entry::Summary(m) => group.message(&mut out, Role::System, &m.text),
            Entry::Waiting(_) | Entry::Finished | Entry::Custom(_) => {}
        }
    }
    group.end(&mut out);
    out
}

/// How many entries before a cut belong to the group that the cut would split.
///
/// `entries` is oldest first; the answer is the first index to render so that no call is separated from
/// its result or from the message that asked for it.
pub fn whole_groups(entries: &[Entry], wanted: usize) -> usize {
    let mut first = entries.len().saturating_sub(wanted);
    let inside = |entry: &Entry| {
        matches!(
            entry,
            Entry::ToolCall(_)
                | Entry::ToolResult(_)
                | Entry::AgentCall(_)
                | Entry::AgentResult(_)
                | Entry::UserResponse(_)
                | Entry::Waiting(_)
                | Entry::Custom(_)
        )
    };
    while first > 0 && entries.get(first).is_some_and(inside) {
        first -= 1;
    }
    first
}

fn said(status: Closing, text: &str) -> String {
    match status {
        Closing::Ok => text.to_owned(),
        Closing::Error => format!("Error: {text}"),
        Closing::Denied => format!("Denied: {text}"),
        Closing::Expired => format!("Expired: {text}"),
        Closing::Cancelled => format!("Cancelled: {text}"),
        Closing::Unknown => format!("Unknown outcome: {text}"),
    }
}

/// The calls after one assistant message, and their results as they are found.
#[derive(Default)]
struct Group {
    calls: Vec<String>,
    results: HashMap<String, String>,
}

impl Group {
    fn call(&mut self, out: &mut Vec<ChatMessage>, id: &str, name: &str, arguments: serde_json::Value) {
        let call = ChatCall { id: id.to_owned(), name: name.to_owned(), arguments };
        if !self.results.is_empty() {
            self.end(out);
        }
        match out.last_mut() {
            Some(last) if last.role == Role::Assistant => last.tool_calls.push(call),
            _ => out.push(ChatMessage { tool_calls: vec![call], ..ChatMessage::text(Role::Assistant, "") }),
        }
        self.calls.push(id.to_owned());
    }

    fn result(&mut self, out: &mut Vec<ChatMessage>, id: &str, text: String) {
        self.results.insert(id.to_owned(), text);
        if self.calls.iter().all(|call| self.results.contains_key(call)) {
            self.end(out);
        }
    }

    fn message(&mut self, out: &mut Vec<ChatMessage>, role: Role, text: &str) {
        self.end(out);
        out.push(ChatMessage::text(role, text));
    }

    fn end(&mut self, out: &mut Vec<ChatMessage>) {
        for id in std::mem::take(&mut self.calls) {
            let content = self.results.remove(&id).unwrap_or_else(|| said(Closing::Unknown, "no result yet"));
            out.push(ChatMessage { tool_call_id: Some(id), ..ChatMessage::text(Role::Tool, content) });
        }
        self.results.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(t: &str, data: serde_json::Value) -> Entry {
        Entry::from_parts(t, 1, data).unwrap()
    }

    fn talk() -> Vec<Entry> {
        vec![
            entry("UserMessage", json!({"text": "hi"})),
            entry("AssistantMessage", json!({"content": "looking"})),
            entry("ToolCall", json!({"id": "1", "function_name": "a", "arguments": {}})),
            entry("ToolCall", json!({"id": "2", "function_name": "b", "arguments": {"x": 1}})),
            entry("note", json!({})),
            entry("ToolResult", json!({"tool_call_id": "2", "tool_name": "b", "result": {"n": 2}})),
            entry(
                "ToolResult",
                json!({"tool_call_id": "1", "tool_name": "a", "result": "no", "status": "error"}),
            ),
            entry("AssistantMessage", json!({"content": "done"})),
        ]
    }

    #[test]
    fn results_stand_in_call_order_and_calls_with_their_message() {
        let rendered = serde_json::to_value(messages("be kind", &talk())).unwrap();
        assert_eq!(
            rendered,
            json!([
                {"role": "system", "content": "be kind"},
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "looking", "tool_calls": [
                    {"id": "1", "name": "a", "arguments": {}}, {"id": "2", "name": "b", "arguments": {"x": 1}}]},
                {"role": "tool", "content": "Error: no", "tool_call_id": "1"},
                {"role": "tool", "content": "{\"n\":2}", "tool_call_id": "2"},
                {"role": "assistant", "content": "done"},
            ])
        );
    }

    #[test]
    fn a_cut_inside_a_group_moves_back_to_its_message() {
        let talk = talk();
        let starts: Vec<usize> = (0..=9).map(|n| whole_groups(&talk, n)).collect();
        assert_eq!(starts, [8, 7, 1, 1, 1, 1, 1, 1, 0, 0]);
    }
}
