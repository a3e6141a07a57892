//! The entries of a branch as text, each with its author.

use baton_core::json::as_text;
use baton_core::thread::{Closing, Entry, PlacedEntry, WaitingKind};
use baton_core::time::Timestamp;
use baton_core::visible::{self, Findings};
use serde_json::Value;

use crate::columns::moment;
use crate::terminal::{brief, plain};

/// The most characters of a call's arguments and of its result.
const MOST_ARGUMENTS: usize = 160;
const MOST_RESULT: usize = 240;

/// The whole transcript; an empty branch says that it is empty.
pub(crate) fn transcript(entries: &[PlacedEntry]) -> String {
    if entries.is_empty() {
        return "nothing has been said here yet".to_owned();
    }
    entries.iter().map(one).collect::<Vec<_>>().join("\n")
}

fn one(placed: &PlacedEntry) -> String {
    let (who, text) = said(&placed.entry);
    let mut lines = format!("[{}] {who}", placed.index);
    for line in text.lines() {
        lines.push_str("\n    ");
        lines.push_str(line);
    }
    lines
}

/// The author and the text of an entry.
fn said(entry: &Entry) -> (String, String) {
    match entry {
        Entry::UserMessage(said) => (remarked("user", said.meta.as_deref()), long(&said.text)),
        Entry::UserResponse(said) => ("user, in answer".to_owned(), long(&said.text)),
        Entry::AssistantMessage(said) => (remarked("assistant", said.meta.as_deref()), long(&said.content)),
        Entry::ToolCall(call) => {
            (format!("call {} {}", call.function_name, short(&call.arguments, MOST_ARGUMENTS)), String::new())
        }
        Entry::ToolResult(result) => {
            let blob = result.blob.as_ref().map(|blob| format!(" ({} bytes, blob {})", blob.size, blob.hash));
            let how = format!("{}{}", closed(result.status), blob.unwrap_or_default());
            let text = short(&result.result, MOST_RESULT);
            (format!("result of {}{how}: {text}", result.tool_name), String::new())
        }
        Entry::AgentCall(call) => (format!("call to agent {}", call.agent_id), long(&call.message)),
        Entry::AgentResult(result) => {
            let text = short(&result.result, MOST_RESULT);
            (format!("result of an agent{}: {text}", closed(result.status)), String::new())
        }
        Entry::Waiting(waiting) => {
            let until = moment(Timestamp::from_seconds(waiting.deadline));
            (format!("waiting for {} until {until}", awaited(waiting.kind)), String::new())
        }
        Entry::Finished => ("finished".to_owned(), String::new()),
        Entry::Summary(summary) => ("summary".to_owned(), long(&summary.text)),
        Entry::Custom(custom) => {
            let data = short(&Value::Object(custom.data.clone()), MOST_RESULT);
            (format!("{} {data}", custom.t), String::new())
        }
    }
}

fn remarked(who: &str, meta: Option<&str>) -> String {
    meta.map_or_else(|| who.to_owned(), |meta| format!("{who} ({})", brief(meta, 80)))
}

fn long(text: &str) -> String {
    plain(text).into_owned()
}

/// A call's arguments or its result in brief: nothing in it is invisible, in any place that shows it again.
fn short(value: &Value, most: usize) -> String {
    brief(&visible::text(&as_text(value), &mut Findings::default()), most)
}

fn closed(status: Closing) -> &'static str {
    match status {
        Closing::Ok => "",
        Closing::Error => " (error)",
        Closing::Denied => " (denied)",
        Closing::Expired => " (expired)",
        Closing::Cancelled => " (cancelled)",
        Closing::Unknown => " (unknown: it may have happened)",
    }
}

fn awaited(kind: WaitingKind) -> &'static str {
    match kind {
        WaitingKind::Tool => "a tool",
        WaitingKind::Agent => "an agent",
        WaitingKind::Llm => "a model",
        WaitingKind::UserInput => "an answer",
        WaitingKind::Approval => "an approval",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::id::EntryId;
    use serde_json::json;
    use uuid::Uuid;

    fn placed(index: i64, t: &str, data: Value) -> PlacedEntry {
        let entry = Entry::from_parts(t, 1, data).unwrap();
        PlacedEntry { index, id: EntryId(Uuid::nil()), at: Timestamp(0), run: None, entry }
    }

    #[test]
    fn every_type_reads_well() {
        let blob = json!({"hash": "ff", "size": 40000, "dropped": 0});
        let parts = [
            ("UserMessage", json!({"text": "Look\nat \u{1b}[31mthis"})),
            ("AssistantMessage", json!({"content": "", "tool_calls": []})),
            ("ToolCall", json!({"id": "1", "function_name": "look", "arguments": {"at": "x".repeat(300)}})),
            (
                "ToolResult",
                json!({"tool_call_id": "1", "tool_name": "look", "result": "no", "status": "error"}),
            ),
            (
                "ToolResult",
                json!({"tool_call_id": "1", "tool_name": "look", "result": {"a": 1}, "blob": blob}),
            ),
            ("AgentCall", json!({"agent_id": "ann", "message": "help", "correlation_id": "c"})),
            ("AgentResult", json!({"correlation_id": "c", "result": "done", "status": "unknown"})),
            ("Waiting", json!({"kind": "user_input", "deadline": 1_767_225_600.5, "correlation_id": "c"})),
            ("UserResponse", json!({"text": "yes"})),
            ("Summary", json!({"text": "so far"})),
            ("note", json!({"k": "v"})),
            ("AssistantMessage", json!({"content": "Sorry.", "meta": "error:refused"})),
            ("Finished", json!({})),
        ];
        let entries: Vec<_> = (0..).zip(parts).map(|(index, (t, data))| placed(index, t, data)).collect();
        let expected = format!(
            "[0] user\n    Look\n    at \u{fffd}[31mthis\n\
             [1] assistant\n\
             [2] call look {{\"at\":\"{}…\n\
             [3] result of look (error): no\n\
             [4] result of look (40000 bytes, blob ff): {{\"a\":1}}\n\
             [5] call to agent ann\n    help\n\
             [6] result of an agent (unknown: it may have happened): done\n\
             [7] waiting for an answer until 2026-01-01 00:00:00Z\n\
             [8] user, in answer\n    yes\n\
             [9] summary\n    so far\n\
             [10] note {{\"k\":\"v\"}}\n\
             [11] assistant (error:refused)\n    Sorry.\n\
             [12] finished",
            "x".repeat(152)
        );
        assert_eq!(transcript(&entries), expected);
        assert_eq!(transcript(&[]), "nothing has been said here yet");
    }
}
