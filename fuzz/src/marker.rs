//! Whether a body holds its format's terminal marker, found in the plainest way.
//!
//! It shares nothing with the decoders, so that it can contradict them, and it may find a marker that they
//! do not read, for example one behind a failure. It must never miss one that they read.

use baton_model::wire::Wire;
use serde_json::Value;

/// Whether the marker is there. A last line that the end cut in two may hold half a character, and is then
/// no part of its event.
pub(crate) fn is_in(body: &[u8], wire: Wire) -> bool {
    let whole_lines = body.iter().rposition(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(0);
    is_among(body, wire) || is_among(&body[..whole_lines], wire)
}

fn is_among(body: &[u8], wire: Wire) -> bool {
    let text = String::from_utf8_lossy(body);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    match wire {
        Wire::Ollama => text.lines().any(|line| read(line)["done"] == true),
        Wire::ChatCompletions => events(&text).any(|data| data.trim() == "[DONE]"),
        Wire::Responses => events(&text).any(|data| {
            matches!(read(&data)["type"].as_str(), Some("response.completed" | "response.incomplete"))
        }),
        Wire::Anthropic => events(&text).any(|data| read(&data)["type"] == "message_stop"),
    }
}

/// The data of each event. The last one may lack its blank line.
fn events(text: &str) -> impl Iterator<Item = String> {
    let data = |line: &str| {
        let value = if line == "data" { "" } else { line.strip_prefix("data:")? };
        Some(value.strip_prefix(' ').unwrap_or(value).to_owned())
    };
    let event = move |lines: &str| lines.split('\n').filter_map(data).collect::<Vec<_>>().join("\n");
    text.split("\n\n").map(event)
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}
