//! A user's remarks on a decision are rendered with the result of the call.

use serde_json::{Value, json};

use super::threads::{call, entry, user};
use crate::render::messages;
use crate::run::DECISION;

fn told(said: Value) -> String {
    let result = json!({"tool_call_id": "1", "tool_name": "look", "result": "seen"});
    let entries = [user("hi"), call("1"), entry(DECISION, said), entry("ToolResult", result)];
    messages("", &entries).pop().unwrap().content
}

#[test]
fn other_arguments_and_reasons_stand_behind_the_result() {
    let edited = json!({"call_id": "1", "arguments": {"at": "home"}});
    assert_eq!(told(edited), "seen\n(A person changed the arguments to {\"at\":\"home\"}.)");
    let both = json!({"call_id": "1", "arguments": {}, "reason": "not there"});
    assert_eq!(told(both), "seen\n(A person changed the arguments to {}.)\n(A person remarked: not there)");
    assert_eq!(told(json!({"call_id": "2", "reason": "of another call"})), "seen");
    let long = told(json!({"call_id": "1", "reason": "x".repeat(9000)}));
    assert!(long.len() < 2100, "{}", long.len());
}
