//! Answer types, as schemas: the documents themselves are made in `shape.rs` and in the handlers.
//!
//! A test reads those documents as these types, so that a description that is wrong is found here.

#![allow(dead_code, reason = "described, never made")]

mod limits;
mod rendered;
mod usage;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::forms::{Id, Moment, Name};

use limits::Limits;
pub(crate) use rendered::Rendered;
pub(crate) use usage::Usage;

/// A list, and where the next page begins.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "{T}List")]
pub(crate) struct List<T> {
    /// The items.
    items: Vec<T>,
    /// `after` of the next page; absent after the last. A page ends after 4 MiB even if fewer items than `limit` are on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A thread with its branches.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Thread {
    #[schemars(with = "Name")]
    id: String,
    /// The current branch.
    #[schemars(with = "Name")]
    current: String,
    #[schemars(with = "Moment")]
    created: String,
    /// When it may be removed by itself.
    #[schemars(with = "Option<Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_at: Option<String>,
    /// Free remarks.
    meta: Value,
    branches: Vec<Branch>,
}

/// A branch of a thread.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Branch {
    #[schemars(with = "Name")]
    name: String,
    /// The index of its last entry, −1 if it has none.
    head_index: i64,
    length: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    forked_from: Option<ForkedFrom>,
    /// Whether it is the current one.
    current: bool,
}

/// Where a branch was forked.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkedFrom {
    #[schemars(with = "Name")]
    branch: String,
    index: i64,
}

/// An entry in its place.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Entry {
    index: i64,
    #[schemars(with = "Id")]
    id: String,
    #[schemars(with = "Moment")]
    ts: String,
    /// Its type.
    t: String,
    /// Its fields.
    data: Map<String, Value>,
    /// The run that wrote it.
    #[schemars(with = "Option<Id>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    run_id: Option<String>,
}

/// The result of a rewind.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rewound {
    #[schemars(with = "Name")]
    branch: String,
    head_index: i64,
    previous_head: i64,
    /// The entry that was the last one: a fork there brings it back until prune.
    #[schemars(with = "Option<Id>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    previous_entry: Option<String>,
}

/// The branches, lanes and entries that a prune removed, or would remove.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pruned {
    branches: Vec<String>,
    lanes: u64,
    entries: u64,
    dry_run: bool,
}

/// The names of a run's statuses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RunStatus")]
pub(crate) enum RunStatusName {
    Queued,
    Running,
    Suspended,
    Ok,
    Error,
    Cancelled,
}

/// A run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    #[schemars(with = "Id")]
    id: String,
    /// The run that it is a part of.
    #[schemars(with = "Option<Id>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    #[schemars(with = "Name")]
    thread_id: String,
    #[schemars(with = "Name")]
    branch: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent: Option<String>,
    /// The hash of the definition that it is pinned to.
    definition: String,
    status: RunStatusName,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fault>,
    /// Its last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<String>,
    /// The decisions and answers that it waits for.
    waiting: Vec<Waiting>,
    usage: Usage,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<Limits>,
    /// The account that it gives of itself.
    steps: Vec<Step>,
    #[schemars(with = "Moment")]
    created: String,
    #[schemars(with = "Option<Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
}

/// Why a run failed.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Fault {
    code: String,
    message: String,
}

/// A decision or an answer that a run waits for.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waiting {
    /// `approval` or `user_input`.
    kind: String,
    /// The approval or the call.
    id: String,
    #[schemars(with = "Moment")]
    deadline: String,
    /// The question.
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<String>,
}

/// One line of the account that a run gives of itself.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    #[serde(rename = "type")]
    kind: StepKind,
    description: String,
    metadata: Map<String, Value>,
}

/// The kinds of steps.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum StepKind {
    LlmCall,
    ToolCall,
    Plan,
    Summary,
    Warning,
}

/// The answer of `/process`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Processed {
    status: ProcessedStatus,
    /// The last message of the agent, or its question.
    response: String,
    #[schemars(with = "Name")]
    thread_id: String,
    #[schemars(with = "Id")]
    run_id: String,
    trace_id: String,
    usage: Usage,
    steps: Vec<Step>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waiting: Option<Vec<Waiting>>,
}

/// How `/process` can end well.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ProcessedStatus {
    Ok,
    Suspended,
}

/// The answer of `/v1/requests`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    /// The text for the user.
    reply: String,
    steps: Vec<Step>,
    /// Null only where no run came of it.
    trace_id: Option<String>,
}

/// A run that was begun.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Begun {
    #[schemars(with = "Id")]
    run_id: String,
}

/// The status of a run that was asked to stop.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Standing {
    status: RunStatusName,
}

/// The receipt for input to a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Taken {
    input_id: String,
}

/// The names of an approval's statuses.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ApprovalStatus")]
pub(crate) enum ApprovalStatusName {
    Pending,
    Approved,
    Denied,
    Edited,
    Expired,
    Cancelled,
}

/// A question to a person about one call and its exact arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Approval {
    id: String,
    #[schemars(with = "Id")]
    run_id: String,
    call_id: String,
    /// `call`: may it run? `outcome`: did it happen?
    kind: ApprovalKind,
    name: String,
    args: Value,
    digest: String,
    reason: String,
    #[schemars(with = "Moment")]
    created: String,
    #[schemars(with = "Moment")]
    expires_at: String,
    status: ApprovalStatusName,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[schemars(with = "Option<Moment>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// Parts of `args` and `reason` that are invisible or misleading: show them to the person who decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    warnings: Option<Vec<String>>,
}

/// The question about a call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ApprovalKind {
    Call,
    Outcome,
}

/// One transition of a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint {
    step: u32,
    /// `start`, `reasoning`, `tool_call` or `respond`.
    node: String,
    /// `call_tool` or `respond`.
    next_action: Option<String>,
    /// The number of its last event.
    seq: u64,
    #[schemars(with = "Name")]
    branch: String,
    head_index: i64,
    #[schemars(with = "Moment")]
    ts: String,
    usage: Usage,
}

/// The spans of a run.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trace {
    trace_id: String,
    spans: Vec<Span>,
}

/// A span with its parts.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Span {
    span_id: String,
    parent_span_id: Option<String>,
    name: String,
    /// `internal` or `client`.
    kind: String,
    #[schemars(with = "Moment")]
    start: String,
    /// Null while it goes on.
    #[schemars(with = "Option<Moment>")]
    end: Option<String>,
    attributes: Map<String, Value>,
    children: Vec<Span>,
}

/// Any JSON object.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Anything(Map<String, Value>);

/// A refusal: RFC 9457.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Problem {
    /// The kind, as a URI.
    #[serde(rename = "type")]
    kind: String,
    title: String,
    status: u16,
    /// The mistake, and how to correct it.
    detail: String,
    code: String,
}
