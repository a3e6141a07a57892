mod answers;
mod choices;

use baton_core::chat::{ChatCall, ChatMessage, Role};
use baton_core::tool::{EffectClass, ToolSpec};
use serde_json::{Value, json};

use super::*;

fn tool(name: &str, description: &str, input_schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema,
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1_000,
        ..ToolSpec::default()
    }
}

/// Tools like those that come with Baton, and one of a user.
fn tools() -> Vec<ToolSpec> {
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required});
    let text = json!({"type": "string"});
    let path = json!({"type": ["string", "null"], "maxLength": 4096});
    let count = json!({"type": ["integer", "null"], "minimum": 1, "maximum": 200});
    let regex = json!({"type": "string", "description": "A regular expression.", "minLength": 1});
    vec![
        tool(
            ASK_USER,
            "Asks the person a question and waits for the answer.",
            object(json!({"question": text}), json!(["question"])),
        ),
        tool(
            "calculator",
            "Calculates arithmetic exactly: add, subtract, multiply, divide, remainder and powers of decimal numbers. Use \
             it for any math or sum instead of working it out yourself.",
            object(json!({"expression": text}), json!(["expression"])),
        ),
        tool(
            "clock",
            "Tells the current time, date and day of the week: what time it is now, what day is today.",
            object(
                json!({"timezone": {"type": ["string", "null"], "pattern": "^(UTC|[+-]..:..)$"}}),
                json!([]),
            ),
        ),
        tool(
            "system_health",
            "Reports the health of this computer: CPU usage, memory, swap, disk space, load and uptime. Use it when \
             the machine is slow or when asked how the system is doing.",
            object(json!({}), json!([])),
        ),
        tool(
            "system_logs",
            "Reads recent entries of this computer's system log: errors, warnings, crashes and messages of services.",
            object(
                json!({
                    "limit": count,
                    "min_priority": {"anyOf": [{"type": "string", "enum": ["error", "warning"]}, {"type": "null"}]},
                    "since_minutes": {"type": ["integer", "null"], "minimum": 1, "maximum": 10_080},
                }),
                json!([]),
            ),
        ),
        tool(
            "list_files",
            "Lists the files and folders (directories) that can be read, with their sizes.",
            object(
                json!({"path": path, "depth": {"type": "integer", "minimum": 1, "maximum": 16}}),
                json!([]),
            ),
        ),
        tool(
            "read_file",
            "Reads a text file: shows its content, or a part of it if it is long.",
            object(
                json!({
                    "path": {"type": "string", "description": "The file, as list_files shows it.", "minLength": 1},
                    "limit": {"type": "integer", "description": "How many bytes to read."},
                }),
                json!(["path"]),
            ),
        ),
        tool(
            "search_files",
            "Searches the content of files for a pattern (grep) and finds the lines where a word or text occurs.",
            object(json!({"pattern": regex, "path": path, "max_results": count}), json!(["pattern"])),
        ),
        tool(
            "send_mail",
            "Sends an e-mail message to somebody.",
            object(json!({"body": text, "urgent": {"type": "boolean"}}), json!(["body"])),
        ),
        tool(
            "read_blob",
            "Reads more of a long tool output of which only the beginning was shown.",
            object(json!({"hash": text}), json!(["hash"])),
        ),
    ]
}

fn user(text: &str) -> ChatMessage {
    ChatMessage::text(Role::User, text)
}

/// The messages of a call and what came of it.
fn called(id: &str, name: &str, arguments: Value, content: &str) -> [ChatMessage; 2] {
    let call = ChatCall { id: id.into(), name: name.into(), arguments };
    [
        ChatMessage { tool_calls: vec![call], ..ChatMessage::text(Role::Assistant, "") },
        ChatMessage { tool_call_id: Some(id.into()), ..ChatMessage::text(Role::Tool, content) },
    ]
}

fn ask(messages: Vec<ChatMessage>) -> ModelRequest {
    ModelRequest { tools: tools().into(), max_tokens: 8_000, ..ModelRequest::new("main", messages) }
}

fn text_of(request: &ModelRequest) -> String {
    match decide(request) {
        OfflineAction::Say(text) => text,
        OfflineAction::Call(calls) => panic!("called {calls:?}"),
    }
}
