//! Request types: bodies and queries, with the schemas that `/openapi.json` shows of them.
//!
//! Every type refuses unknown fields. The form of a value is decided here and nowhere else, its meaning where it is
//! used. The types of answers are in [`answers`].

pub(crate) mod answers;
mod forms;
mod queries;
mod whole;

use baton_core::id::{BranchName, EntryId, ThreadId};
use baton_core::policy::Mode;
use baton_core::run::Choice;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::dialect::sse::Dialect;
use forms::{ChoiceName, Id, ModeName, Name, Word};
pub(crate) use queries::{
    ApprovalsQuery, BranchesQuery, EntriesQuery, EventsQuery, PolicyQuery, RenderName, RenderQuery,
    RunsQuery, StepsQuery, ThreadsQuery,
};

/// The largest whole number that every JSON reader represents exactly.
const MOST: u64 = (1 << 53) - 1;

/// The body of `POST /v1/agent/run`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentRun {
    /// The message.
    #[schemars(regex(pattern = r"\S"))]
    pub(crate) input: String,
    /// The thread; an unknown one is made, a missing one is named for you.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) thread_id: Option<ThreadId>,
    /// The id that groups logs and audit trails; the run's id if left out.
    #[serde(default)]
    #[schemars(with = "Option<Word>")]
    pub(crate) correlation_id: Option<String>,
    /// How it is answered.
    #[serde(default, deserialize_with = "whole::object")]
    pub(crate) config: Option<RunConfig>,
}

/// The body of `POST /process`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Process {
    /// The message.
    #[schemars(regex(pattern = r"\S"))]
    pub(crate) message: String,
    /// The thread; an unknown one is made, a missing one is named for you.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) thread_id: Option<ThreadId>,
    /// The id that groups logs and audit trails; the run's id if left out.
    #[serde(default)]
    #[schemars(with = "Option<Word>")]
    pub(crate) correlation_id: Option<String>,
    /// How it is answered.
    #[serde(default, deserialize_with = "whole::object")]
    pub(crate) config: Option<RunConfig>,
}

/// The body of `POST /v1/runs`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRun {
    /// The message.
    #[schemars(regex(pattern = r"\S"))]
    pub(crate) input: String,
    /// The flow, which decides the next step. This build has `turn`.
    #[serde(default)]
    pub(crate) flow: FlowName,
    /// The thread; an unknown one is made, a missing one is named for you.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) thread_id: Option<ThreadId>,
    /// The id that groups logs and audit trails; the run's id if left out.
    #[serde(default)]
    #[schemars(with = "Option<Word>")]
    pub(crate) correlation_id: Option<String>,
    /// How it is answered.
    #[serde(default, deserialize_with = "whole::object")]
    pub(crate) config: Option<RunConfig>,
    /// How its events are shown, if they are streamed.
    #[serde(default)]
    pub(crate) dialect: Option<Dialect>,
}

/// The flows that this build has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FlowName {
    /// A question, tools, an answer.
    #[default]
    Turn,
}

/// How a message is answered. It can only narrow what the policy allows.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename = "Config")]
pub(crate) struct RunConfig {
    /// Which agent; this build has `default`.
    #[serde(default)]
    pub(crate) agent: Option<String>,
    /// How much the agent may do.
    #[serde(default)]
    #[schemars(with = "Option<ModeName>")]
    pub(crate) mode: Option<Mode>,
    /// Where the message comes in, for the rules of the policy.
    #[serde(default)]
    pub(crate) channel: Option<String>,
    /// The branch; the current one if left out.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) branch: Option<BranchName>,
    /// Which of the configured models answers, in every role.
    #[serde(default)]
    pub(crate) model: Option<String>,
    /// Rounds of one model call and the tools that it asked for.
    #[serde(default, deserialize_with = "whole::maybe")]
    #[schemars(range(max = MOST))]
    pub(crate) max_iterations: Option<u64>,
    /// The same as graphs count it: n is (n − 1) / 2 rounds.
    #[serde(default, deserialize_with = "whole::maybe")]
    #[schemars(range(min = 1, max = MOST))]
    pub(crate) recursion_limit: Option<u64>,
    /// Tokens that one answer may have.
    #[serde(default, deserialize_with = "whole::maybe")]
    #[schemars(range(min = 1, max = MOST))]
    pub(crate) max_tokens: Option<u64>,
    /// The sampling temperature of the models.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub(crate) temperature: Option<f64>,
    /// Seconds that may be spent on anything but waiting for people.
    #[serde(default)]
    #[schemars(range(min = 0.001))]
    pub(crate) timeout_s: Option<f64>,
    /// Whether a model's own reasoning is shown.
    #[serde(default)]
    pub(crate) show_reasoning: Option<bool>,
    /// Whether the run goes on or is cancelled if the caller disconnects.
    #[serde(default)]
    pub(crate) on_disconnect: Option<OnDisconnect>,
    /// How the message is handled if a run is active on the branch.
    #[serde(default)]
    pub(crate) on_busy: Option<WhenBusy>,
    /// Free remarks: kept with the run, in audit payloads, and given to tools that ask for them.
    #[serde(default)]
    pub(crate) metadata: Option<Map<String, Value>>,
}

/// Whether a run goes on when its caller disconnects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OnDisconnect {
    /// It goes on.
    Continue,
    /// It is cancelled.
    Cancel,
}

/// How a message to a branch with an active run is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum WhenBusy {
    /// It is refused.
    Reject,
    /// It waits for its turn.
    Enqueue,
    /// The run is cancelled, and the message is next.
    Interrupt,
}

/// The body of `POST /v1/requests`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserRequest {
    /// The session: a thread.
    #[schemars(with = "Name")]
    pub(crate) session_id: ThreadId,
    /// The user's message.
    #[schemars(regex(pattern = r"\S"))]
    pub(crate) user_message: String,
    /// How much the agent may do.
    #[serde(default)]
    #[schemars(with = "Option<ModeName>")]
    pub(crate) mode: Option<Mode>,
    /// Where the message comes in.
    #[serde(default)]
    pub(crate) channel: Option<String>,
}

/// The body of `POST /v1/threads`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewThread {
    /// Its id; made for you if left out.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) id: Option<ThreadId>,
    /// Which agent answers on it; this build has `default`.
    #[serde(default)]
    pub(crate) agent: Option<String>,
    /// The seconds after which it may be removed automatically.
    #[serde(default, deserialize_with = "whole::maybe")]
    #[schemars(range(min = 1, max = 3_153_600_000_u64))]
    pub(crate) ttl_s: Option<u64>,
    /// Free remarks.
    #[serde(default)]
    pub(crate) meta: Option<Map<String, Value>>,
}

/// The body of `POST /v1/threads/{id}/entries`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Push {
    /// The type of the entry, like `UserMessage`, or your own.
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.:-]{1,64}$"))]
    pub(crate) t: String,
    /// Its fields.
    #[serde(default)]
    pub(crate) data: Map<String, Value>,
    /// The version of its type.
    #[serde(default, deserialize_with = "whole::maybe")]
    #[schemars(range(min = 1, max = u32::MAX))]
    pub(crate) v: Option<u32>,
    /// The branch; the current one if left out.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) branch: Option<BranchName>,
}

/// The body of `POST /v1/threads/{id}/fork`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fork {
    /// The last entry of the new branch, by its index (−1: empty); the head if left out.
    #[serde(default, deserialize_with = "whole::maybe")]
    #[schemars(range(min = -1))]
    pub(crate) index: Option<i64>,
    /// The last entry of the new branch, by its id, anywhere in the thread.
    #[serde(default)]
    #[schemars(with = "Option<Id>")]
    pub(crate) entry: Option<EntryId>,
    /// Its name; made for you if left out.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) name: Option<BranchName>,
    /// The branch that is forked; the current one if left out.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) from: Option<BranchName>,
}

/// The body of `POST /v1/threads/{id}/checkout`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkout {
    /// The branch.
    #[schemars(with = "Name")]
    pub(crate) branch: BranchName,
}

/// The body of `POST /v1/threads/{id}/rewind`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rewind {
    /// The index of the entry that becomes the last one (−1: empty).
    #[serde(deserialize_with = "whole::number")]
    #[schemars(range(min = -1))]
    pub(crate) index: i64,
    /// The branch; the current one if left out.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) branch: Option<BranchName>,
}

/// The body of `POST /v1/threads/{id}/prune`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prune {
    /// Also removes branches that were not written to for this long.
    #[serde(default)]
    pub(crate) older_than: Option<Age>,
    /// Branches that are never removed.
    #[serde(default)]
    #[schemars(with = "Vec<Name>")]
    pub(crate) keep: Vec<BranchName>,
    /// Only reports, and removes nothing.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

/// A length of time.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected seconds, or a time like \"12h\" or \"7d\"")]
pub(crate) enum Age {
    /// Seconds.
    Seconds(
        #[serde(deserialize_with = "whole::number")]
        #[schemars(range(max = u32::MAX))]
        u32,
    ),
    /// A number with s, m, h, d or w.
    Text(#[schemars(regex(pattern = r"^[0-9]{1,9}[smhdw]$"))] String),
}

/// The body of a decision about an approval.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decide {
    /// The decision.
    #[schemars(with = "ChoiceName")]
    pub(crate) decision: Choice,
    /// The arguments to run with instead, for an edit; the result of the call, as `{output}`, where that is asked.
    #[serde(default)]
    #[schemars(with = "Option<Map<String, Value>>")]
    pub(crate) arguments: Option<Value>,
    /// Why; the agent is told.
    #[serde(default)]
    pub(crate) reason: Option<String>,
}

/// The body of `POST /v1/runs/{id}/input`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    /// The answer to a question, or steering.
    #[schemars(regex(pattern = r"\S"))]
    pub(crate) text: String,
}

/// The body of `POST /v1/runs/{id}/fork`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForkRun {
    /// The checkpoint that the new run continues from.
    #[serde(deserialize_with = "whole::number")]
    #[schemars(range(min = 1, max = u32::MAX))]
    pub(crate) step: u32,
}
