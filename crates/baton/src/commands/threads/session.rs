//! The summary of a thread: its messages, the plan that holds, and its metrics.

use baton_core::run::SessionMetrics;
use baton_engine::Session;
use serde_json::{Value, json};

use crate::columns::count;
use crate::shape;
use crate::terminal::brief;

/// The most characters of a plan's step that are shown.
const MOST_STEP: usize = 200;

/// The JSON document of the summary, with the requested entries.
pub(super) fn document(entries: Vec<Value>, session: &Session) -> Value {
    let messages: Vec<Value> = session.messages.iter().map(shape::message).collect();
    json!({
        "items": entries,
        "messages": messages,
        "last_plan": session.last_plan,
        "session_metrics": session.metrics,
    })
}

/// The metrics and the plan as text; the messages are shown below it.
pub(super) fn in_words(session: &Session) -> String {
    let SessionMetrics { llm_calls, tools, tokens, errors } = session.metrics;
    let counted = |n: u64, one: &str| count(i64::try_from(n).unwrap_or(i64::MAX), one, &format!("{one}s"));
    let mut said = format!(
        "so far: {}, {}, {}, {}",
        counted(llm_calls, "model call"),
        counted(tools, "tool call"),
        counted(tokens, "token"),
        counted(errors, "error")
    );
    match &session.last_plan {
        Some(Value::Array(steps)) => {
            said.push_str("\nplan:");
            said.extend(steps.iter().map(|step| format!("\n  {}", one(step))));
        }
        Some(plan) => said.push_str(&format!("\nplan: {}", brief(&plan.to_string(), MOST_STEP))),
        None => {}
    }
    said
}

/// One step of a plan, as `update_plan` writes it; a step of another shape is shown as JSON.
fn one(step: &Value) -> String {
    let text = |key: &str| step.get(key).and_then(Value::as_str);
    match (text("step"), text("status")) {
        (Some(what), Some(status)) => {
            format!("{:<11} {}", brief(&status.replace('_', " "), MOST_STEP), brief(what, MOST_STEP))
        }
        _ => brief(&step.to_string(), MOST_STEP),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::chat::{ChatCall, ChatMessage, Role};

    fn session(last_plan: Option<Value>) -> Session {
        let call = ChatCall { id: "c".to_owned(), name: "look".to_owned(), arguments: json!({"at": 1}) };
        let messages = vec![
            ChatMessage::text(Role::User, "hi"),
            ChatMessage { tool_calls: vec![call], ..ChatMessage::text(Role::Assistant, "") },
            ChatMessage { tool_call_id: Some("c".to_owned()), ..ChatMessage::text(Role::Tool, "it") },
        ];
        let metrics = SessionMetrics { llm_calls: 1, tools: 2, tokens: 30, errors: 0 };
        Session { messages, last_plan, metrics }
    }

    #[test]
    fn a_session_is_a_document() {
        let plan = json!([{"step": "look", "status": "done"}]);
        let function = json!({"name": "look", "arguments": "{\"at\":1}"});
        let expected = json!({
            "items": ["entry"],
            "messages": [
                {"role": "user", "content": "hi"},
                {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": function}]},
                {"role": "tool", "content": "it", "tool_call_id": "c"},
            ],
            "last_plan": plan,
            "session_metrics": {"llm_calls": 1, "tools": 2, "tokens": 30, "errors": 0},
        });
        assert_eq!(document(vec![json!("entry")], &session(Some(plan))), expected);
        assert_eq!(document(Vec::new(), &session(None))["last_plan"], Value::Null);
    }

    #[test]
    fn a_session_reads_well() {
        let used = "so far: 1 model call, 2 tool calls, 30 tokens, 0 errors";
        assert_eq!(in_words(&session(None)), used);
        let plan = json!([
            {"step": "look\nup", "status": "done"},
            {"step": "write \u{1b}it", "status": "in_progress"},
            {"other": 1},
        ]);
        let expected = format!(
            "{used}\nplan:\n  done        look up\n  in progress write \u{fffd}it\n  {{\"other\":1}}"
        );
        assert_eq!(in_words(&session(Some(plan))), expected);
        assert_eq!(in_words(&session(Some(json!({"a": 1})))), format!("{used}\nplan: {{\"a\":1}}"));
    }
}
