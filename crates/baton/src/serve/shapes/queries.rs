//! Query types: the parameters behind the `?` of a URL.

use baton_core::id::{BranchName, RunId, ThreadId};
use baton_core::policy::Mode;
use baton_core::run::{ApprovalStatus, RunStatus};
use schemars::JsonSchema;
use serde::Deserialize;

use super::answers;
use super::forms::{Id, ModeName, Name, Place};
use crate::dialect::sse::Dialect;

/// The query of `GET /v1/threads`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ThreadsQuery {
    /// At most this many.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) limit: Option<u32>,
    /// Only those made before this one: `next` of the page before.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) after: Option<ThreadId>,
}

/// The query of `GET /v1/threads/{id}/entries`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EntriesQuery {
    /// Which branch; the current one if left out.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) branch: Option<BranchName>,
    /// Only the last entries, this many.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) last_n: Option<u32>,
    /// Only entries before this index.
    #[serde(default)]
    pub(crate) before: Option<i64>,
    /// At most this many, oldest first.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) limit: Option<u32>,
    /// Only entries after this index: `next` of the page before.
    #[serde(default)]
    pub(crate) after: Option<i64>,
}

/// The query of `GET /v1/threads/{id}/render`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RenderQuery {
    /// Which branch; the current one if left out.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) branch: Option<BranchName>,
    /// How much of the thread; as the settings say if left out.
    #[serde(default)]
    pub(crate) policy: Option<RenderName>,
    /// Only the last entries, this many; a call and its result stay together.
    #[serde(default)]
    #[schemars(range(min = 1, max = u32::MAX))]
    pub(crate) last_n: Option<u32>,
    /// Leaves out entries of these types, separated by commas.
    #[serde(default)]
    pub(crate) exclude: Option<String>,
    /// Only entries before this index: `next` of the answer before. `last_n` counts back from here.
    #[serde(default)]
    pub(crate) before: Option<i64>,
}

/// The query of `GET /v1/threads/{id}/branches`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BranchesQuery {
    /// At most this many, by name.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) limit: Option<u32>,
    /// Only those whose name comes after this one: `next` of the page before.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) after: Option<BranchName>,
}

/// How much of a thread a model sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RenderName {
    /// All of it.
    Full,
    /// The last `last_n` entries.
    LastN,
    /// The newest entries that fit the model's context window.
    TokenBudget,
    /// The same, with the summary that is there.
    Summary,
}

/// The query of `GET /v1/runs`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunsQuery {
    /// Only of this thread.
    #[serde(default)]
    #[schemars(with = "Option<Name>")]
    pub(crate) thread: Option<ThreadId>,
    /// Only with this status.
    #[serde(default)]
    #[schemars(with = "Option<answers::RunStatusName>")]
    pub(crate) status: Option<RunStatus>,
    /// At most this many.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) limit: Option<u32>,
    /// Only those made before this one: `next` of the page before.
    #[serde(default)]
    #[schemars(with = "Option<Id>")]
    pub(crate) after: Option<RunId>,
}

/// The query of `GET /v1/runs/{id}/events`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventsQuery {
    /// How events are shown.
    #[serde(default)]
    pub(crate) dialect: Option<Dialect>,
    /// Only events after this place; `Last-Event-ID` means the same, and takes precedence.
    #[serde(default)]
    #[schemars(with = "Option<Place>")]
    pub(crate) after: Option<String>,
    /// Whether a model's own reasoning is shown.
    #[serde(default)]
    pub(crate) show_reasoning: Option<bool>,
}

/// The query of `GET /v1/runs/{id}/checkpoints`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepsQuery {
    /// At most this many, oldest first.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) limit: Option<u32>,
    /// Only those after this step: `next` of the page before.
    #[serde(default)]
    #[schemars(range(max = u32::MAX))]
    pub(crate) after: Option<u32>,
}

/// The query of `GET /v1/policy`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyQuery {
    /// How much the agent may do; MODERATE if left out, or less if the token may not do that.
    #[serde(default)]
    #[schemars(with = "Option<ModeName>")]
    pub(crate) mode: Option<Mode>,
    /// Where the request comes in.
    #[serde(default)]
    pub(crate) channel: Option<String>,
    /// A message to the agent, as it would be sent; nothing is sent.
    #[serde(default)]
    pub(crate) message: Option<String>,
}

/// The query of `GET /v1/approvals`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ApprovalsQuery {
    /// Only with this status; all if left out.
    #[serde(default)]
    #[schemars(with = "Option<answers::ApprovalStatusName>")]
    pub(crate) status: Option<ApprovalStatus>,
    /// At most this many.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000))]
    pub(crate) limit: Option<u32>,
    /// Only those asked before this one: `next` of the page before.
    #[serde(default)]
    pub(crate) after: Option<String>,
}
