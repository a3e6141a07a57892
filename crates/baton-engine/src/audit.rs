//! The records of a run beside its log: its correlation id, the caller's metadata, and the lines of the audit trail,
//! each written in the transition that it reports. Those of tool calls are derived later ([`calls`]).

pub(crate) mod calls;

use baton_core::run::{Approval, Choice, Message, Usage, Verdict};
use baton_core::time::Timestamp;
use baton_store::{AuditEvent, RunRow, TrailSource};
use serde_json::{Map, Value, json};

use crate::error::EngineError;
use crate::request::RunRequest;
use crate::settings::Audit;
use crate::spans::{PARENT, trace_id_of};

/// The metadata key of a run's correlation id.
const CORRELATION: &str = "correlation_id";
/// The metadata keys that are not the caller's own.
const RESERVED: [&str; 2] = [PARENT, CORRELATION];

/// The correlation id of a run, in logs and audit trails.
pub fn correlation_of(row: &RunRow) -> String {
    let said = row.metadata.get(CORRELATION).and_then(Value::as_str);
    said.map_or_else(|| row.id.to_string(), str::to_owned)
}

/// The caller's own metadata of a run, without the reserved keys.
pub fn said_of(row: &RunRow) -> Value {
    match &row.metadata {
        Value::Object(fields) => {
            let own = fields.iter().filter(|(name, _)| !RESERVED.contains(&name.as_str()));
            let own: Map<String, Value> = own.map(|(name, value)| (name.clone(), value.clone())).collect();
            if own.is_empty() { Value::Null } else { Value::Object(own) }
        }
        other => other.clone(),
    }
}

/// The stored metadata of a run: the caller's, the span that the run is started in and its correlation id, which have
/// to outlive this process. A reserved key in the caller's metadata is refused: it would be an unchecked claim.
pub(crate) fn metadata_of(request: &RunRequest) -> Result<Value, EngineError> {
    if let Some(name) = RESERVED.iter().find(|name| request.metadata.get(**name).is_some()) {
        let why = format!("the metadata of a run hold no {name:?}: give it as the request's own");
        return Err(EngineError::Invalid(why));
    }
    let own = [
        (PARENT, request.traceparent.as_ref().map(ToString::to_string)),
        (CORRELATION, request.correlation.clone()),
    ];
    if own.iter().all(|(_, value)| value.is_none()) {
        return Ok(request.metadata.clone());
    }
    let mut fields = match &request.metadata {
        Value::Null => serde_json::Map::new(),
        Value::Object(fields) => fields.clone(),
        _ => return Err(EngineError::Invalid("the metadata of a run are an object".to_owned())),
    };
    let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), Value::String(value?))));
    fields.extend(own);
    Ok(Value::Object(fields))
}

impl Audit {
    /// An audit event of the engine about something that is no transition of a run.
    pub fn event(&self, at: Timestamp, kind: &str, correlation: String, payload: Value) -> AuditEvent {
        let (source, kind) = (self.source.clone(), kind.to_owned());
        AuditEvent { at, correlation, kind, source, payload, send: self.send }
    }

    /// How the removal of threads is recorded in the trail, and by which user.
    pub fn trail_source(&self, by: &str) -> TrailSource {
        TrailSource { source: self.source.clone(), by: by.to_owned(), send: self.send }
    }
}

/// The audit event of a user's decision: the user, the call, the arguments asked for, and those that run instead.
pub(crate) fn decided(
    audit: &Audit,
    row: &RunRow,
    approval: &Approval,
    message: &Message,
    by: Option<&str>,
    at: Timestamp,
) -> Option<AuditEvent> {
    let Message::Decision { choice, arguments, reason, .. } = message else { return None };
    let mut payload = json!({
        "run_id": row.id, "thread_id": row.thread, "trace_id": trace_id_of(row), "at": at,
        "approval_id": approval.id, "call_id": approval.call_id, "kind": approval.kind, "name": approval.name,
        "decision": choice, "by": by, "digest": approval.digest, "arguments": audit.secrets.redact(&approval.args),
    });
    if let (Choice::Edit, Some(arguments)) = (choice, arguments) {
        payload["edited_arguments"] = audit.secrets.redact(arguments);
    }
    if let Some(reason) = reason {
        payload["reason"] = audit.secrets.redact(&json!(reason));
    }
    Some(audit.event(at, "approval.decided", correlation_of(row), payload))
}

/// A transition, as the trail reports it.
pub(crate) enum Told<'a> {
    /// The run began with a message, or goes on from another.
    Started(Option<&'a str>),
    /// It waits for users.
    Suspended,
    /// It is over.
    Ended(&'a Verdict, Usage),
}

/// The line of the audit trail.
pub(crate) fn line(
    audit: &Audit,
    row: &RunRow,
    at: Timestamp,
    told: &Told<'_>,
    said: Option<&str>,
) -> AuditEvent {
    let mut payload = json!({"run_id": row.id, "thread_id": row.thread, "trace_id": trace_id_of(row)});
    let caller = said_of(row);
    if !caller.is_null() {
        payload["metadata"] = caller;
    }
    let kind = match told {
        Told::Started(text) => {
            if let (true, Some(text)) = (audit.with_text, text) {
                payload["message"] = json!(text);
            }
            "agent.started"
        }
        Told::Suspended => "agent.suspended",
        Told::Ended(verdict, usage) => {
            payload["usage"] = json!(usage);
            if let (true, Some(said)) = (audit.with_text, said) {
                payload["response"] = json!(said);
            }
            match verdict {
                Verdict::Ok => "agent.completed",
                Verdict::Error(fault) => {
                    payload["error"] = json!(fault.code.as_str());
                    "agent.failed"
                }
                Verdict::Cancelled(_) => "agent.cancelled",
            }
        }
    };
    AuditEvent {
        at,
        correlation: correlation_of(row),
        kind: kind.to_owned(),
        source: audit.source.clone(),
        payload,
        send: audit.send,
    }
}
