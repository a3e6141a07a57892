//! The text of `baton runs show`.

use std::collections::BTreeMap;

use baton_core::run::{ApprovalStatus, RunStatus, Step, Usage};
use baton_engine::RunView;
use serde_json::Value;

use crate::columns::moment;
use crate::terminal::{brief, plain};

/// The facts about a run that are not in its own record.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// Its status in words.
    pub(super) standing: String,
    /// The folder that its file tools read, if it is not the current one.
    pub(super) folder: Option<String>,
    /// The status of each approval that it waits for.
    pub(super) approvals: BTreeMap<String, ApprovalStatus>,
}

/// The whole text about a run.
pub(super) fn account(view: &RunView, beside: &Beside) -> String {
    let row = &view.row;
    let mut lines = vec![format!("run {}", row.id)];
    let mut fact = |name: &str, text: String| lines.push(format!("  {name:<10} {text}"));
    fact("thread", format!("{}, branch {}", row.thread, row.branch));
    fact("status", beside.standing.clone());
    if let Some(definition) = &view.definition {
        fact("flow", format!("{}, answered by {}", definition.flow, brief(&definition.model, 120)));
    }
    if let Some(folder) = &beside.folder {
        fact("folder", folder.clone());
    }
    fact("definition", row.definition.clone());
    fact("created", moment(row.created));
    if let Some(ended) = row.ended {
        fact("ended", moment(ended));
    }
    fact("used", used(&row.budget.usage(), row.budget.model_calls, row.budget.tool_calls));
    if let Some(error) = &view.error {
        fact("error", format!("{}: {}", error.code.as_str(), brief(&error.message, 400)));
    }
    for waiting in &view.waiting {
        let kind = word(&waiting.kind);
        let status = beside.approvals.get(&waiting.id).filter(|status| **status != ApprovalStatus::Pending);
        if let Some(status) = status {
            // The run's owner reads the decision; a suspended run without an owner does so only when it is resumed.
            let next = format!(", to be resumed: baton runs resume {}", row.id.short());
            let next = if row.status == RunStatus::Suspended { next } else { String::new() };
            fact("decided", format!("{kind} {} is {}{next}", waiting.id, status.as_str()));
            continue;
        }
        let question = waiting.question.as_deref().map(|question| format!(": {}", brief(question, 400)));
        let until = moment(waiting.deadline);
        fact("waiting", format!("{kind} {} until {until}{}", waiting.id, question.unwrap_or_default()));
    }
    for step in &view.steps {
        let used = used_by(step).map(|used| format!(" ({used})")).unwrap_or_default();
        fact("step", format!("{:<10} {}{used}", word(&step.kind), brief(&step.description, 160)));
    }
    if let Some(result) = &view.result {
        lines.push("  result".to_owned());
        lines.extend(plain(result).lines().map(|line| format!("    {line}")));
    }
    lines.join("\n")
}

fn used(usage: &Usage, model_calls: u32, tool_calls: u32) -> String {
    let cost = cost_in_words(usage.cost_usd);
    let estimated = if usage.estimated { ", estimated" } else { "" };
    format!(
        "{} tokens ({} read, {} written{estimated}), {cost}, model calls: {model_calls}, tool calls: {tool_calls}",
        usage.tokens, usage.prompt_tokens, usage.completion_tokens
    )
}

/// The tokens and the cost of one model call, where the step has them.
fn used_by(step: &Step) -> Option<String> {
    let usage = step.metadata.get("usage")?;
    let (read, written) = (usage["prompt_tokens"].as_u64()?, usage["completion_tokens"].as_u64()?);
    let cost = cost_in_words(usage["cost_usd"].as_f64());
    let estimated = if usage["estimated"] == true { ", estimated" } else { "" };
    (read + written > 0).then(|| format!("{read} read, {written} written{estimated}, {cost}"))
}

/// A cost in words. An unknown cost is not 0.
pub(crate) fn cost_in_words(usd: Option<f64>) -> String {
    usd.map_or_else(|| "cost not known".to_owned(), |usd| format!("{usd:.6} USD"))
}

/// A value by its name in the API.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => word,
        _ => "?".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::budget::Budget;
    use baton_core::fault::{Code, Fault};
    use baton_core::flow::WaitingOn;
    use baton_core::id::RunId;
    use baton_core::policy::{Mode, default_decision};
    use baton_core::run::{Definition, StepKind};
    use baton_core::thread::WaitingKind;
    use baton_core::time::Timestamp;
    use baton_store::RunRow;
    use serde_json::{Map, json};
    use uuid::Uuid;

    #[test]
    fn everything_that_is_known_is_said() {
        let at = Timestamp(1_767_225_600_000);
        let id = RunId(Uuid::from_u128(7));
        let row = RunRow::begun(id, &"t".parse().unwrap(), &"main".parse().unwrap(), -1, at);
        let budget = Budget {
            prompt_tokens: 30,
            completion_tokens: 12,
            model_calls: 2,
            tool_calls: 1,
            ..Budget::default()
        };
        let definition = Definition {
            v: 1,
            flow: "turn".to_owned(),
            system: String::new(),
            model: "offline".to_owned(),
            roles: baton_core::role::Roles::new(),
            render: baton_core::render::Rendering::default(),
            mode: Mode::Moderate,
            channel: "CHAT".to_owned(),
            decision: default_decision(),
            tools: vec![].into(),
            last_n: None,
            roots: vec!["/data".to_owned()],
        };
        let waiting = |kind, question: Option<&str>| WaitingOn {
            kind,
            id: "w-1".to_owned(),
            deadline: at,
            question: question.map(str::to_owned),
        };
        let asked = |usage: Value| Step {
            kind: StepKind::LlmCall,
            description: "asked".to_owned(),
            metadata: Map::from_iter([("usage".to_owned(), usage)]),
        };
        let view = RunView {
            row: RunRow {
                definition: "ff00".to_owned(),
                status: RunStatus::Suspended,
                ended: Some(at),
                budget,
                ..row
            },
            definition: Some(definition),
            error: Some(Fault::new(Code::Refused, "no\u{1b}")),
            result: Some("one\ntwo".to_owned()),
            waiting: vec![
                waiting(WaitingKind::Approval, None),
                WaitingOn { id: "w-2".to_owned(), ..waiting(WaitingKind::Approval, None) },
                WaitingOn { id: "w-3".to_owned(), ..waiting(WaitingKind::UserInput, Some("Which?")) },
            ],
            steps: vec![
                asked(json!({"prompt_tokens": 30, "completion_tokens": 12, "cost_usd": 0.0015})),
                asked(json!({"prompt_tokens": 1, "completion_tokens": 0, "cost_usd": null})),
                asked(json!({"prompt_tokens": 0, "completion_tokens": 0, "cost_usd": null})),
                Step { kind: StepKind::ToolCall, description: "called it".to_owned(), metadata: Map::new() },
            ],
        };
        let expected = "\
run 00000000-0000-0000-0000-000000000007
  thread     t, branch main
  status     error
  flow       turn, answered by offline
  folder     /data
  definition ff00
  created    2026-01-01 00:00:00Z
  ended      2026-01-01 00:00:00Z
  used       42 tokens (30 read, 12 written), 0.000000 USD, model calls: 2, tool calls: 1
  error      refused: no\u{fffd}
  waiting    approval w-1 until 2026-01-01 00:00:00Z
  decided    approval w-2 is edited, to be resumed: baton runs resume RUN
  waiting    user_input w-3 until 2026-01-01 00:00:00Z: Which?
  step       llm_call   asked (30 read, 12 written, 0.001500 USD)
  step       llm_call   asked (1 read, 0 written, cost not known)
  step       llm_call   asked
  step       tool_call  called it
  result
    one
    two";
        let beside = Beside {
            standing: "error".to_owned(),
            folder: Some("/data".to_owned()),
            approvals: [("w-1", ApprovalStatus::Pending), ("w-2", ApprovalStatus::Edited)]
                .map(|(id, status)| (id.to_owned(), status))
                .into(),
        };
        let expected = expected.replace("RUN", &id.short());
        assert_eq!(account(&view, &beside), expected);
        let row = RunRow { status: RunStatus::Running, ..view.row.clone() };
        let driven = account(&RunView { row, ..view }, &beside);
        let resumed = format!(", to be resumed: baton runs resume {}", id.short());
        assert_eq!(driven, expected.replace(&resumed, ""));
    }
}
