//! The replies to a user's request: results made from stored state, without I/O.

use std::time::Duration;

use baton_core::fault::Code;
use baton_core::id::RunId;
use baton_core::json::cut;
use baton_core::run::{Approval, ApprovalKind, OrchestratorResult, RunStatus, Step, StepKind};
use baton_store::StoreError;
use serde_json::{Map, Value, json};

use crate::error::EngineError;
use crate::request::RunView;
use crate::spans::trace_id_of;

/// The most bytes of a call's arguments in a reply.
const MOST_ARGUMENTS: usize = 500;

/// The result of a run, without the first `lines` lines of its account. `asked` are the approvals that it waits for.
pub(crate) fn result(view: &RunView, lines: usize, asked: &[Approval]) -> OrchestratorResult {
    let trace_id = Some(trace_id_of(&view.row));
    let mut steps = view.steps.get(lines..).unwrap_or_default().to_vec();
    if view.row.status == RunStatus::Suspended {
        let waiting = pending(view, asked);
        steps.extend(waiting.steps);
        return OrchestratorResult { reply: waiting.reply, steps, trace_id };
    }
    let mut reply = said(view);
    // Notes to the user from before the answered question are repeated with the answer.
    for note in view.steps.iter().filter(|step| is_for_person(step)) {
        if !reply.to_lowercase().contains(&note.description.to_lowercase()) {
            reply = format!("{reply}\n\n{}", sentence(&note.description));
        }
    }
    OrchestratorResult { reply, steps, trace_id }
}

/// The answer, or why there is none.
fn said(view: &RunView) -> String {
    let shown = view.result.as_deref().filter(|shown| !shown.trim().is_empty());
    let why = match (view.row.status, &view.error) {
        (RunStatus::Ok, _) => return shown.unwrap_or("There was no answer.").to_owned(),
        (RunStatus::Cancelled, _) => "The request was cancelled.".to_owned(),
        (RunStatus::Error, Some(fault)) => sentence(&fault.message),
        (RunStatus::Error, None) => "The request failed.".to_owned(),
        _ => "The request is still being worked on.".to_owned(),
    };
    match shown {
        Some(shown) if !why.contains(shown.trim()) => {
            format!("{why}\n\nWhat was said until then:\n\n{shown}")
        }
        _ => why,
    }
}

/// The open questions and approvals of a run, and nothing else of it: one question, and one step, for each.
pub(super) fn pending(view: &RunView, asked: &[Approval]) -> OrchestratorResult {
    let (mut questions, mut steps) = (Vec::new(), Vec::new());
    for waiting in &view.waiting {
        let mut waits = json!({"kind": waiting.kind, "run_id": view.row.id, "deadline": waiting.deadline});
        let description = match &waiting.question {
            Some(question) => {
                questions.push(question.clone());
                "the run waits for an answer".to_owned()
            }
            None => {
                waits["approval_id"] = Value::from(waiting.id.clone());
                let approval = asked.iter().find(|approval| approval.id == waiting.id);
                questions.push(approval.map_or_else(|| decided_by(&waiting.id), may_it));
                let what = approval.map_or("a call", |approval| approval.name.as_str());
                format!("the run waits for a decision about {what}")
            }
        };
        steps.push(warning(description, [("waiting", waits)]));
    }
    OrchestratorResult { reply: questions.join("\n\n"), steps, trace_id: Some(trace_id_of(&view.row)) }
}

fn may_it(approval: &Approval) -> String {
    let (visible, findings) = approval.visible();
    let args = visible.args.to_string();
    let shown = cut(&args, MOST_ARGUMENTS);
    let rest = if shown.len() < args.len() { "…" } else { "" };
    let asks = match approval.kind {
        ApprovalKind::Outcome => format!("Did {} take effect, called with {shown}{rest}?", approval.name),
        ApprovalKind::Call => format!("May {} run with {shown}{rest}?", approval.name),
    };
    let decided_by = match approval.kind {
        ApprovalKind::Outcome => found_out_by(&approval.id),
        ApprovalKind::Call => decided_by(&approval.id),
    };
    let warnings: String = findings.warnings().iter().map(|warning| format!("{warning} ")).collect();
    format!("{asks} {} {warnings}{decided_by}", sentence(&visible.reason))
}

/// The effects of the commands where the approval asks not whether a call may run, but whether it happened.
fn found_out_by(approval_id: &str) -> String {
    format!(
        "No message decides this: `baton approvals approve {approval_id}` runs it again with the same key, \
         `baton approvals deny {approval_id}` leaves it unknown and tells the agent so, and \
         `baton approvals edit {approval_id} --arguments '{{\"output\": …}}'` says that it happened and what came of it."
    )
}

fn decided_by(approval_id: &str) -> String {
    format!(
        "No message decides this; `baton approvals approve {approval_id}` or `baton approvals deny {approval_id}` does."
    )
}

/// The session was busy for too long. The message was not taken.
pub(super) fn busy(with: Option<RunId>, waited: Duration) -> OrchestratorResult {
    let cancel = with.map(|run| format!(", or end the other one with `baton runs cancel {}`", run.short()));
    let reply = format!(
        "The session is still busy with another request; this one waited {waited:?} and was not taken. Send it again later{}.",
        cancel.unwrap_or_default()
    );
    let step = warning("the session is busy with another request".to_owned(), [("reason", json!("busy"))]);
    OrchestratorResult { reply, steps: vec![step], trace_id: None }
}

/// The message, or the run that it began, failed with an error.
pub(super) fn refused(error: &EngineError, run: Option<RunId>) -> OrchestratorResult {
    let (code, helps) = trouble(error);
    let why = error.to_string();
    let goes_on = run.map(|run| format!(" `baton runs resume {}` goes on with it.", run.short()));
    let reply = format!("{}{helps}{}", sentence(&why), goes_on.unwrap_or_default());
    let step = warning(why, [("error", Value::from(code))]);
    OrchestratorResult { reply, steps: vec![step], trace_id: None }
}

/// An internal fault.
pub(super) fn broken() -> OrchestratorResult {
    let reply = "Something went wrong inside Baton. What was committed is safe; `baton runs ls` shows how far it came.";
    let step =
        warning("the request was broken off by a fault".to_owned(), [("error", json!(Code::Internal))]);
    OrchestratorResult { reply: reply.to_owned(), steps: vec![step], trace_id: None }
}

/// The code of a refusal, and a hint beside its own message.
fn trouble(error: &EngineError) -> (&'static str, &'static str) {
    match error {
        EngineError::Invalid(_) => ("invalid_request", ""),
        EngineError::Forbidden(_) | EngineError::AboveMode { .. } => ("forbidden", ""),
        EngineError::KeyMismatch => ("idempotency_mismatch", ""),
        EngineError::Store(error) if error.is_transient() => (
            Code::StoreUnavailable.as_str(),
            " Send the message again in a moment; `baton doctor` shows what is wrong.",
        ),
        EngineError::Store(StoreError::NotFound { .. } | StoreError::Tree(_)) => {
            ("not_found", " `baton threads ls` shows what there is.")
        }
        EngineError::Store(StoreError::Order(_)) => ("conflict", " Begin another session."),
        EngineError::Store(StoreError::TooNew { .. }) | EngineError::Flow(_) => {
            ("conflict", " Update Baton, or begin another session.")
        }
        EngineError::MissingTools { .. } => ("conflict", " Configure them, or begin another session."),
        EngineError::ShuttingDown => (Code::Internal.as_str(), " What was committed is safe."),
        EngineError::Store(_) | EngineError::BadCursor { .. } => {
            (Code::Internal.as_str(), " `baton doctor` shows what is wrong.")
        }
    }
}

fn warning<const N: usize>(description: String, metadata: [(&str, Value); N]) -> Step {
    let metadata: Map<String, Value> = metadata.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
    Step { kind: StepKind::Warning, description, metadata }
}

fn is_for_person(step: &Step) -> bool {
    step.metadata.get("escalated_to").and_then(Value::as_str) == Some("person")
}

/// A text as a sentence of its own.
fn sentence(words: &str) -> String {
    let words = words.trim();
    let mut rest = words.chars();
    // The name of a tool is not capitalised.
    let is_name = words.split(' ').next().is_some_and(|first| first.contains(['_', '.']));
    let first: String = match rest.next() {
        Some(first) if is_name => first.to_string(),
        first => first.into_iter().flat_map(char::to_uppercase).collect(),
    };
    let end = if words.ends_with(['.', '?', '!', '…']) { "" } else { "." };
    format!("{first}{}{end}", rest.as_str())
}

#[cfg(test)]
mod tests;
