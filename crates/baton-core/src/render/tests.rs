//! Whole renderings of small threads.

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
