//! The shapes of the API: stored and live values as the JSON that clients rely on.
//!
//! Every function here is pure. Nothing is left out silently: an optional field is absent where it has no value, and
//! present otherwise.

use baton_core::budget::Limits;
use baton_core::chat::{ChatCall, ChatMessage};
use baton_core::run::Approval;
use baton_core::thread::PlacedEntry;
use baton_core::time::Timestamp;
use baton_core::tool::{EffectClass, ToolSpec};
use baton_engine::{RunView, Trace, TraceSpan};
use baton_store::{BranchView, Pruned, Rewound, RunRow, StepRow, ThreadView};
use baton_tools::ToolCallResult;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// A list, and the cursor of the next page.
pub(crate) fn list(items: Vec<Value>, next: Option<String>) -> Value {
    object([("items", Some(Value::Array(items))), ("next", next.map(Value::from))])
}

/// Cuts the rows that were read to `limit`; returns the last one's id if there were more.
pub(crate) fn page<T>(found: &mut Vec<T>, limit: u32, id: impl Fn(&T) -> String) -> Option<String> {
    let limit = limit as usize;
    let is_more = found.len() > limit;
    found.truncate(limit);
    found.last().filter(|_| is_more).map(id)
}

/// A thread with its branches.
pub(crate) fn thread(thread: &ThreadView) -> Value {
    let branches = thread.branches.iter().map(|view| branch(thread, view)).collect();
    object([
        ("id", value(&thread.id)),
        ("current", value(&thread.current)),
        ("created", value(&thread.created)),
        ("ttl_at", thread.ttl_at.as_ref().and_then(value)),
        ("meta", Some(thread.meta.clone())),
        ("branches", Some(Value::Array(branches))),
    ])
}

/// A branch of a thread.
pub(crate) fn branch(thread: &ThreadView, branch: &BranchView) -> Value {
    let forked_from = branch.forked_from.as_ref();
    object([
        ("name", value(&branch.name)),
        ("head_index", value(&branch.head.index)),
        ("length", value(&(branch.head.index + 1))),
        ("forked_from", forked_from.map(|(from, index)| json!({"branch": from, "index": index}))),
        ("current", value(&(branch.name == thread.current))),
    ])
}

/// An entry in its place.
pub(crate) fn entry(placed: &PlacedEntry) -> Value {
    json!({
        "index": placed.index,
        "id": placed.id,
        "ts": placed.at,
        "t": placed.entry.type_name(),
        "data": placed.entry.data(),
        "run_id": placed.run,
    })
}

/// A message to a model, in OpenAI's schema.
pub(crate) fn message(message: &ChatMessage) -> Value {
    let call = |call: &ChatCall| {
        let function = json!({"name": call.name, "arguments": call.arguments.to_string()});
        json!({"id": call.id, "type": "function", "function": function})
    };
    let calls: Vec<Value> = message.tool_calls.iter().map(call).collect();
    object([
        ("role", value(&message.role)),
        ("content", value(&message.content)),
        ("tool_calls", (!calls.is_empty()).then_some(Value::Array(calls))),
        ("tool_call_id", message.tool_call_id.as_ref().and_then(value)),
    ])
}

/// The result of a rewind.
pub(crate) fn rewound(rewound: &Rewound, head_index: i64) -> Value {
    object([
        ("branch", value(&rewound.branch)),
        ("head_index", value(&head_index)),
        ("previous_head", value(&rewound.previous_head)),
        ("previous_entry", rewound.previous_entry.as_ref().and_then(value)),
    ])
}

/// The entries and branches that a prune freed, or would free.
pub(crate) fn pruned(pruned: &Pruned, dry_run: bool) -> Value {
    json!({
        "branches": pruned.branches,
        "lanes": pruned.lanes,
        "entries": pruned.entries,
        "dry_run": dry_run,
    })
}

/// A run.
pub(crate) fn run(view: &RunView) -> Value {
    let row = &view.row;
    object([
        ("id", value(&row.id)),
        ("thread_id", value(&row.thread)),
        ("branch", value(&row.branch)),
        ("flow", view.definition.as_ref().and_then(|definition| value(&definition.flow))),
        ("definition", value(&row.definition)),
        ("status", value(&row.status)),
        ("error", view.error.as_ref().and_then(value)),
        ("result", view.result.as_ref().and_then(value)),
        ("waiting", value(&view.waiting)),
        ("usage", value(&row.budget.usage())),
        ("limits", view.definition.as_ref().map(|definition| limits(&definition.decision.limits))),
        ("steps", value(&view.steps)),
        ("created", value(&row.created)),
        ("ended", row.ended.as_ref().and_then(value)),
    ])
}

/// The limits of a run, in the words of the settings.
fn limits(limits: &Limits) -> Value {
    object([
        ("iterations", value(&limits.iterations)),
        ("active_s", value(&(limits.active_ms / 1000))),
        ("tokens", limits.tokens.as_ref().and_then(value)),
        ("tool_calls", limits.tool_calls.as_ref().and_then(value)),
        ("cost_usd", limits.cost_micro_usd.map(|cost| json!(cost as f64 / 1e6))),
        ("answer_tokens", value(&limits.answer_tokens)),
    ])
}

/// One transition of a run.
pub(crate) fn checkpoint(run: &RunRow, step: &StepRow) -> Value {
    let checkpoint = &step.checkpoint;
    json!({
        "step": step.step,
        "node": checkpoint.node,
        "next_action": checkpoint.next_action,
        "seq": step.last_seq,
        "branch": run.branch,
        "head_index": checkpoint.head,
        "ts": checkpoint.at,
        "usage": checkpoint.budget.usage(),
    })
}

/// The spans of a run as a tree.
pub(crate) fn trace(trace: &Trace) -> Value {
    json!({"trace_id": trace.trace_id, "spans": trace.spans.iter().map(span).collect::<Vec<_>>()})
}

fn span(span: &TraceSpan) -> Value {
    json!({
        "span_id": span.span_id,
        "parent_span_id": span.parent_span_id,
        "name": span.name,
        "kind": span.kind,
        "start": span.start,
        "end": span.end,
        "attributes": span.attributes,
        "children": span.children.iter().map(self::span).collect::<Vec<_>>(),
    })
}

/// The approval of one call, as the question to decide.
///
/// Its arguments are exactly those that would run; invisible parts of them are named in `warnings`.
pub(crate) fn approval(approval: &Approval, now: Timestamp) -> Value {
    let mut shape = value(approval).unwrap_or_default();
    let Value::Object(fields) = &mut shape else { return shape };
    fields.insert("status".to_owned(), approval.standing(now).as_str().into());
    let warnings = approval.warnings();
    if !warnings.is_empty() {
        fields.insert("warnings".to_owned(), Value::from(warnings));
    }
    shape
}

/// A tool.
pub(crate) fn tool(spec: &ToolSpec) -> Value {
    object([
        ("name", value(&spec.name)),
        ("description", value(&spec.description)),
        ("input_schema", Some(spec.input_schema.clone())),
        ("output_schema", spec.output_schema.clone()),
        ("side_effect_free", value(&(spec.class == EffectClass::SideEffectFree))),
        ("idempotent", value(&spec.class.may_run_again())),
        ("requires_context", value(&spec.requires_context)),
        ("built_in", value(&spec.trust.built_in)),
        ("untrusted_output", value(&spec.trust.untrusted_output)),
        ("private_output", value(&spec.trust.private_output)),
        ("egress", value(&spec.trust.egress)),
        ("to_service", value(&spec.trust.to_service)),
        ("approve", value(&spec.trust.approve)),
        ("timeout_s", value(&(spec.timeout_ms as f64 / 1000.0))),
    ])
}

/// The result of a tool that was called by hand.
pub(crate) fn executed(ran: &ToolCallResult, execution_time_ms: u64) -> Value {
    let worked = ran.outcome.status == baton_core::thread::Closing::Ok;
    json!({
        "status": if worked { "success" } else { "error" },
        "output": ran.outcome.result,
        "execution_time_ms": execution_time_ms,
    })
}

/// A JSON document as it is printed.
pub(crate) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_else(|_| value.to_string())
}

/// A value as JSON. Our own plain values always are JSON; one that is not is left out.
fn value<T: Serialize>(of: &T) -> Option<Value> {
    serde_json::to_value(of).ok()
}

fn object<const N: usize>(fields: [(&str, Option<Value>); N]) -> Value {
    let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests;
