//! The steps of a run, one line a step.

use baton_core::run::{OrchestratorResult, Step};
use serde_json::Value;

use crate::terminal::brief;

/// The most characters of a step's description.
const MOST_SAID: usize = 240;

/// All steps, below the trace that they are part of.
pub(super) fn lines(result: &OrchestratorResult) -> String {
    let trace = result.trace_id.as_deref().unwrap_or("none");
    let steps = result.steps.iter().map(|step| format!("\n  {}", one(step)));
    format!("steps (trace {trace}):{}", steps.collect::<String>())
}

/// The description of a step, its role and the reason, its tool and its error.
fn one(step: &Step) -> String {
    let kind = serde_json::to_value(step.kind).unwrap_or_default();
    let mut said = brief(&step.description, MOST_SAID);
    let named = [
        ("model_role", "role "),
        ("reason", ""),
        ("tool_name", "tool "),
        ("error", "error "),
        ("escalated_to", "escalated to "),
    ];
    for (key, what) in named {
        let Some(value) = step.metadata.get(key).and_then(Value::as_str) else { continue };
        let value = brief(value, MOST_SAID);
        if key != "tool_name" || !said.contains(&value) {
            said = format!("{said} · {what}{value}");
        }
    }
    format!("{:<10} {said}", kind.as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_step_says_who_why_and_what_went_wrong() {
        let steps = json!([
            {"type": "llm_call", "description": "small asked for look", "metadata":
                {"span_id": "1", "model_role": "router", "reason": "a short question", "usage": {"prompt_tokens": 1}}},
            {"type": "tool_call", "description": "look did not work", "metadata":
                {"tool_name": "look", "call_id": "c", "error": "no\nsuch \u{1b}file"}},
            {"type": "warning", "description": "it is not allowed", "metadata":
                {"tool_name": "write", "error": "refused", "escalated_to": "person"}},
            {"type": "warning", "description": "the run waits for an answer", "metadata": {"waiting": {}}},
        ]);
        let steps: Vec<Step> = serde_json::from_value(steps).unwrap();
        let result = OrchestratorResult { reply: String::new(), steps, trace_id: Some("7f".to_owned()) };
        let expected = "\
steps (trace 7f):
  llm_call   small asked for look · role router · a short question
  tool_call  look did not work · error no such \u{fffd}file
  warning    it is not allowed · tool write · error refused · escalated to person
  warning    the run waits for an answer";
        assert_eq!(lines(&result), expected);
        let none = OrchestratorResult { reply: String::new(), steps: Vec::new(), trace_id: None };
        assert_eq!(lines(&none), "steps (trace none):");
    }
}
