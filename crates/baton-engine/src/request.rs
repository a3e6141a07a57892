//! Requests to the engine, and its view of a run.

use std::path::PathBuf;
use std::time::Duration;

use baton_core::fault::Fault;
use baton_core::flow::WaitingOn;
use baton_core::id::{BranchName, RunId, Tenant, ThreadId};
use baton_core::policy::Mode;
use baton_core::render::Rendering;
use baton_core::role::Roles;
use baton_core::run::{Definition, Step};
use baton_core::trace::TraceParent;
use baton_store::{NewKey, RunRow};
use serde_json::Value;

use crate::engine::RunHandle;
use crate::narrow::Narrow;

/// A message of a user, to be answered by a run.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// The tenant.
    pub tenant: Tenant,
    /// The thread; absent: a new one. An unknown one is made.
    pub thread: Option<ThreadId>,
    /// The branch; absent: the current one.
    pub branch: Option<BranchName>,
    /// The message.
    pub text: String,
    /// The model of every role that has no list of its own, as `provider/name`.
    pub model: String,
    /// The models of each role.
    pub roles: Roles,
    /// The agent's instructions.
    pub system: String,
    /// A template that the instructions are rendered from instead; see [`crate::template`].
    pub behavior_template: Option<String>,
    /// The mode that the caller allows.
    pub mode: Mode,
    /// The highest mode of a run that this message may answer; see [`Engine::may_steer`](crate::Engine::may_steer).
    pub most: Mode,
    /// The channel that it came in by.
    pub channel: String,
    /// How many entries the model sees; absent: all.
    pub last_n: Option<u32>,
    /// How the thread is rendered for a model.
    pub render: Rendering,
    /// The folders that its file tools read, absolute; none: those that the tools were made with. Only the operator of
    /// the process sets this, never a caller from outside, a model or a tool.
    pub roots: Vec<PathBuf>,
    /// The caller's span in whose trace the run is started.
    pub traceparent: Option<TraceParent>,
    /// The id that groups records in logs and audit trails; absent: the run's own id.
    pub correlation: Option<String>,
    /// The limits that the caller requests below those of the policy.
    pub narrow: Narrow,
    /// The caller's key: the same request is begun only once.
    pub key: Option<NewKey>,
    /// How the message is handled if a run is active on the branch.
    pub on_busy: OnBusy,
    /// The caller's metadata, kept with the run.
    pub metadata: Value,
}

impl RunRequest {
    /// A request with nothing but a text and a model.
    pub fn new(text: impl Into<String>, model: impl Into<String>) -> Self {
        RunRequest {
            tenant: Tenant::local(),
            thread: None,
            branch: None,
            text: text.into(),
            model: model.into(),
            roles: Roles::new(),
            system: String::new(),
            behavior_template: None,
            mode: Mode::default(),
            most: Mode::Exploratory,
            channel: "CHAT".to_owned(),
            last_n: None,
            render: Rendering::default(),
            roots: Vec::new(),
            traceparent: None,
            correlation: None,
            narrow: Narrow::default(),
            key: None,
            on_busy: OnBusy::default(),
            metadata: Value::Null,
        }
    }
}

/// How a message to a branch with an active run is handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnBusy {
    /// It is refused.
    #[default]
    Reject,
    /// It waits for its turn.
    Enqueue,
    /// The run is cancelled, and the message is next.
    Interrupt,
}

/// The result of submitting a message.
#[derive(Debug)]
pub enum Submitted {
    /// It began a run.
    Started(RunHandle),
    /// It answered the question that a run was waiting for.
    Answered(RunHandle),
    /// It answered the question of a run that another process drives.
    AnsweredElsewhere(RunId),
    /// It waits for its turn as this run.
    Queued(RunId),
    /// Its key was used before, for this run.
    Repeated(RunId),
}

impl Submitted {
    /// The run that it led to.
    pub fn run(&self) -> RunId {
        match self {
            Submitted::Started(handle) | Submitted::Answered(handle) => handle.run,
            Submitted::AnsweredElsewhere(run) | Submitted::Queued(run) | Submitted::Repeated(run) => *run,
        }
    }
}

/// A tool call outside any run.
#[derive(Debug, Clone)]
pub struct Execute {
    /// The tenant.
    pub tenant: Tenant,
    /// The mode that the caller allows.
    pub mode: Mode,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
    /// The time limit, if shorter than the tool's own.
    pub timeout: Option<Duration>,
    /// The caller's key: the call is made only once.
    pub key: Option<NewKey>,
    /// The caller's metadata, for tools that want to know where a call comes from.
    pub metadata: Value,
    /// The caller's name, for the audit trail.
    pub by: Option<String>,
}

/// The result of a call.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Executed {
    /// Whether it worked.
    pub is_ok: bool,
    /// The result of the tool, or the error.
    pub output: Value,
    /// How long it took.
    pub execution_time_ms: f64,
}

/// A run as users see it.
#[derive(Debug, Clone)]
pub struct RunView {
    /// Its row.
    pub row: RunRow,
    /// Its pinned definition.
    pub definition: Option<Definition>,
    /// Why it failed.
    pub error: Option<Fault>,
    /// Its last answer.
    pub result: Option<String>,
    /// The questions and approvals that it waits for.
    pub waiting: Vec<WaitingOn>,
    /// Its account.
    pub steps: Vec<Step>,
}
