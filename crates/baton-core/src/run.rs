//! A run: its definition, its status, the messages that reach it, its approvals and its result.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::effect::EffectKind;
use crate::fault::Fault;
use crate::id::RunId;
use crate::policy::{Decision, Mode};
use crate::render::Rendering;
use crate::role::{Candidate, Roles, Rung, ladder};
use crate::time::Timestamp;
use crate::tool::ToolSpec;
use crate::visible::{self, Findings};

/// The version of the records that runs store. A process claims only runs whose `min_version` it knows.
pub const RUN_VERSION: u32 = 3;

/// The type of the entry that holds a plan. Models do not see it; the last one of a branch counts.
pub const PLAN: &str = "baton.plan";

/// The type of the entry that holds a decision's other arguments and reason. Models see it with the call's result.
pub const DECISION: &str = "baton.decision";

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It waits for its turn to be claimed by a process.
    Queued,
    /// A process drives it, or did when it died.
    Running,
    /// Only waits are outstanding; no process holds it.
    Suspended,
    /// It ended well.
    Ok,
    /// It failed.
    Error,
    /// It was cancelled.
    Cancelled,
}

impl RunStatus {
    /// All of them, in stored order.
    pub const ALL: [RunStatus; 6] = [
        RunStatus::Queued,
        RunStatus::Running,
        RunStatus::Suspended,
        RunStatus::Ok,
        RunStatus::Error,
        RunStatus::Cancelled,
    ];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Queued => "queued",
            RunStatus::Running => "running",
            RunStatus::Suspended => "suspended",
            RunStatus::Ok => "ok",
            RunStatus::Error => "error",
            RunStatus::Cancelled => "cancelled",
        }
    }

    /// Whether the status is final.
    pub fn has_ended(self) -> bool {
        matches!(self, RunStatus::Ok | RunStatus::Error | RunStatus::Cancelled)
    }
}

/// Everything that a run is pinned to: it finishes under the definition it started with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// The version of this record.
    pub v: u32,
    /// Which flow decides.
    pub flow: String,
    /// The agent's instructions.
    pub system: String,
    /// Which model answers in every role that has no list of its own, as `provider/name`.
    pub model: String,
    /// The candidates of every role.
    #[serde(default, skip_serializing_if = "Roles::is_empty")]
    pub roles: Roles,
    /// How much the caller allowed.
    pub mode: Mode,
    /// The channel that the request came in on.
    pub channel: String,
    /// The policy's decision: the tools, roles and limits of this run.
    pub decision: Decision,
    /// The tools that are offered.
    pub tools: Arc<[ToolSpec]>,
    /// How many entries a model sees; absent: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_n: Option<u32>,
    /// How the thread is rendered for a model.
    #[serde(default, skip_serializing_if = "Rendering::is_plain")]
    pub render: Rendering,
    /// The folders of its file tools, whichever process continues it and where; none: those the tools were made with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<String>,
}

impl Definition {
    /// How many tokens a model call may write; 0 for other effects.
    pub fn answer_tokens(&self, kind: &EffectKind) -> u64 {
        let EffectKind::Model { role, rung, .. } = kind else { return 0 };
        let allowed = self.decision.limits.answer_tokens;
        let asked = self.ladder(role).into_iter().nth(*rung as usize);
        asked.map_or(allowed, |rung| rung.candidate.answer_tokens(allowed))
    }

    /// The temperature of a candidate: its own, capped by the decision's.
    pub fn temperature(&self, candidate: &Candidate) -> Option<f64> {
        match (candidate.temperature, self.decision.temperature) {
            (Some(own), Some(most)) => Some(own.min(most)),
            (own, most) => own.or(most),
        }
    }

    /// The candidates that may be asked in a role, best first.
    pub fn ladder<'a>(&'a self, role: &'a str) -> Vec<Rung<'a>> {
        ladder(&self.roles, &self.model, &self.decision.roles, role)
    }
}

/// The tokens and the cost of a run, as `done` shows them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// All tokens.
    pub tokens: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Cost; null where a price is not known, never 0.
    pub cost_usd: Option<f64>,
    /// Some of the tokens were estimated: a provider did not report them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

/// The calls of a cancelled run, by how they ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Receipt {
    /// They ended by themselves.
    pub finished: Vec<ReceiptCall>,
    /// They were cancelled and stopped.
    pub stopped: Vec<ReceiptCall>,
    /// It is not known whether they happened.
    pub unknown: Vec<ReceiptCall>,
    /// They never began.
    pub not_started: Vec<ReceiptCall>,
}

/// One call of a receipt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptCall {
    /// Our id of the call.
    pub call_id: String,
    /// The tool.
    pub name: String,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It succeeded.
    Ok,
    /// It failed.
    Error(Fault),
    /// It was cancelled.
    Cancelled(Receipt),
}

/// A user's decision about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Choice {
    /// It runs as asked.
    Approve,
    /// It does not run.
    Deny,
    /// It runs with other arguments.
    Edit,
}

/// A message to a run, from any process. Messages are the only way to reach a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum Message {
    /// Stop.
    Cancel,
    /// A decision about one call.
    Decision {
        /// The approval.
        approval_id: String,
        /// The decision.
        choice: Choice,
        /// The arguments that run: those that were approved, or those put in their place.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        arguments: Option<Value>,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// The answer to a question, or steering.
    Input {
        /// Its id.
        input_id: String,
        /// The text.
        text: String,
    },
}

/// The status of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalStatus {
    /// It is not decided yet.
    Pending,
    /// See [`Choice::Approve`].
    Approved,
    /// See [`Choice::Deny`].
    Denied,
    /// See [`Choice::Edit`].
    Edited,
    /// It was not decided before its deadline.
    Expired,
    /// Its run ended first.
    Cancelled,
}

impl ApprovalStatus {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalStatus::Pending => "pending",
            ApprovalStatus::Approved => "approved",
            ApprovalStatus::Denied => "denied",
            ApprovalStatus::Edited => "edited",
            ApprovalStatus::Expired => "expired",
            ApprovalStatus::Cancelled => "cancelled",
        }
    }
}

impl From<Choice> for ApprovalStatus {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Approve => ApprovalStatus::Approved,
            Choice::Deny => ApprovalStatus::Denied,
            Choice::Edit => ApprovalStatus::Edited,
        }
    }
}

/// The question of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalKind {
    /// May it run?
    Call,
    /// Did it happen? Approve: run it again, same key. Deny: tell the model it is unknown. Edit: state `{"output": …}`.
    Outcome,
}

impl ApprovalKind {
    /// The question, with the name of the tool.
    pub fn asks(self, tool: &str) -> String {
        match self {
            ApprovalKind::Call => format!("May {tool} run?"),
            ApprovalKind::Outcome => format!("Did {tool} happen? May it run again?"),
        }
    }
}

/// A question to a user about one call and its exact arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// Its id.
    pub id: String,
    /// The run that waits.
    pub run_id: RunId,
    /// The call.
    pub call_id: String,
    /// The question.
    pub kind: ApprovalKind,
    /// The tool.
    pub name: String,
    /// The exact arguments, or those that a user put in their place.
    pub args: Value,
    /// The digest of the tool and its arguments, which the approval is bound to.
    pub digest: String,
    /// Why it is asked.
    pub reason: String,
    /// When it was asked.
    pub created: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Its status.
    pub status: ApprovalStatus,
    /// The user who decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// When it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
    /// The arguments of the original call, where a user put others in their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_args: Option<Value>,
    /// The user's reason for the decision, if one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_reason: Option<String>,
}

impl Approval {
    /// Warnings about characters in it that are invisible or pass for others, a sentence each.
    pub fn warnings(&self) -> Vec<String> {
        self.visible().1.warnings()
    }

    /// Its status at `now`. One past its deadline is expired, whether or not its run knows yet.
    pub fn standing(&self, now: Timestamp) -> ApprovalStatus {
        match self.status {
            ApprovalStatus::Pending if self.expires_at <= now => ApprovalStatus::Expired,
            status => status,
        }
    }

    /// The same approval with every character of its arguments and reasons visible, and the findings about the others.
    pub fn visible(&self) -> (Approval, Findings) {
        let mut findings = Findings::default();
        let args = visible::json(&self.args, &mut findings);
        let original_args = self.original_args.as_ref().map(|args| visible::json(args, &mut findings));
        let mut text = |text: &str| visible::text(text, &mut findings).into_owned();
        let reason = text(&self.reason);
        let decision_reason = self.decision_reason.as_deref().map(&mut text);
        (Approval { args, original_args, reason, decision_reason, ..self.clone() }, findings)
    }
}

/// One line of a run's account, which the API calls a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// `llm_call`, `tool_call`, `plan`, `summary` or `warning`.
    #[serde(rename = "type")]
    pub kind: StepKind,
    /// The text of the line.
    pub description: String,
    /// Spans, roles, names, errors.
    pub metadata: Map<String, Value>,
}

/// The kinds of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A model was asked.
    LlmCall,
    /// A tool was called.
    ToolCall,
    /// A plan was made.
    Plan,
    /// History was summarised.
    Summary,
    /// Something went wrong or was limited.
    Warning,
}

/// The result of one request. Every request has one, however its models and tools failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OrchestratorResult {
    /// The text that the user reads.
    pub reply: String,
    /// The account of the request, in order.
    pub steps: Vec<Step>,
    /// The trace that it is part of; null only where the request started no run.
    pub trace_id: Option<String>,
}

/// The totals of all requests of a session so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionMetrics {
    /// Model calls.
    pub llm_calls: u64,
    /// Tool calls.
    pub tools: u64,
    /// Tokens read and written.
    pub tokens: u64,
    /// Steps that name an error.
    pub errors: u64,
}
