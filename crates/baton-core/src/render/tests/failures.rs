//! A failure is rendered with the advice for its cause.

use serde_json::{Value, json};

use super::threads::{call, entry, user};
use crate::render::messages;

/// A result as a model sees it.
fn told(result: Value, status: &str, cause: Option<&str>) -> String {
    let mut closed = json!({"tool_call_id": "1", "tool_name": "look", "result": result, "status": status});
    if let Some(cause) = cause {
        closed["cause"] = json!(cause);
    }
    let entries = [user("hi"), call("1"), entry("ToolResult", closed)];
    messages("", &entries).pop().unwrap().content
}

const ASKED: &str = "The cause lies in what was asked: call it with other arguments, or ask the person to change the request.";
const TOOL: &str = "It does not work now: go on without it, and say what is missing.";

#[test]
fn where_the_cause_is_known_the_model_hears_what_to_do() {
    for (cause, then) in [("asked", ASKED), ("tool", TOOL)] {
        let rows = [
            (json!("no such place"), format!("Error: no such place. {then}")),
            (json!("no such place."), format!("Error: no such place. {then}")),
            (json!("what place?"), format!("Error: what place? {then}")),
            (json!("stop!"), format!("Error: stop! {then}")),
            (json!("no such place \n"), format!("Error: no such place. {then}")),
            (json!({"code": 404}), format!("Error: {{\"code\":404}}. {then}")),
            (json!(""), format!("Error: {then}")),
        ];
        for (result, expected) in rows {
            assert_eq!(told(result, "error", Some(cause)), expected);
        }
    }
}

#[test]
fn where_it_is_not_or_nothing_failed_the_result_stands_alone() {
    assert_eq!(told(json!("no such place"), "error", None), "Error: no such place");
    let rows = [
        ("ok", "so"),
        ("denied", "Denied: so"),
        ("expired", "Expired: so"),
        ("cancelled", "Cancelled: so"),
        ("unknown", "Unknown outcome: so"),
    ];
    for (status, expected) in rows {
        for cause in [None, Some("asked"), Some("tool")] {
            assert_eq!(told(json!("so"), status, cause), expected);
        }
    }
}
