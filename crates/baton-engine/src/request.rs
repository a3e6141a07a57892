//! What is asked of the engine, and what it shows of a run.

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

/// A message of a person, to be answered by a run.
#[derive(Debug, Clone)]
pub struct RunRequest {
    /// Whose it is.
    pub tenant: Tenant,
    /// On which thread; absent: a new one. An unknown one is made.
    pub thread: Option<ThreadId>,
    /// On which branch; absent: the current one.
    pub branch: Option<BranchName>,
    /// What was said.
    pub text: String,
    /// Which model answers in every role that has no list of its own, as `provider/name`.
    pub model: String,
    /// Who answers in which role.
    pub roles: Roles,
    /// The agent's instructions.
    pub system: String,
    /// A template that the instructions are rendered from instead; see [`crate::template`].
    pub behavior_template: Option<String>,
    /// How much the caller allows.
    pub mode: Mode,
    /// The most that a run may be allowed which this message answers; see [`Engine::may_steer`](crate::Engine::may_steer).
    pub most: Mode,
    /// Where it came in.
    pub channel: String,
    /// How many entries the model sees; absent: all.
    pub last_n: Option<u32>,
    /// How the thread is rendered for a model.
    pub render: Rendering,
    /// The folders that its file tools look at, absolute; none: those that the tools were made with. Only
    /// whoever runs the process says this, never a caller from outside, a model or a tool.
    pub roots: Vec<PathBuf>,
    /// The span that it was made in, in somebody else's trace.
    pub traceparent: Option<TraceParent>,
    /// What belongs together in logs and audit trails; absent: the run's own id.
    pub correlation: Option<String>,
    /// How much less than the policy allows is wanted.
    pub narrow: Narrow,
    /// The caller's key: the same request is begun only once.
    pub key: Option<NewKey>,
    /// What is done if a run is active on the branch.
    pub on_busy: OnBusy,
    /// Free remarks, kept with the run.
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

/// What is done with a message to a branch on which a run is active.
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

/// What became of a message.
#[derive(Debug)]
pub enum Submitted {
    /// It began a run.
    Started(RunHandle),
    /// It answered the question that a run was waiting with.
    Answered(RunHandle),
    /// It answered the question of a run that another process drives on.
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

/// A tool that is called outside any run.
#[derive(Debug, Clone)]
pub struct Execute {
    /// Whose call it is.
    pub tenant: Tenant,
    /// How much the caller allows.
    pub mode: Mode,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub arguments: Value,
    /// How long it may take, if less than the tool's own time.
    pub timeout: Option<Duration>,
    /// The caller's key: the call is made only once.
    pub key: Option<NewKey>,
    /// Free remarks, for tools that want to know where a call comes from.
    pub metadata: Value,
    /// Who calls, for the audit trail.
    pub by: Option<String>,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Executed {
    /// Whether it worked.
    pub is_ok: bool,
    /// What the tool returned, or what was wrong.
    pub output: Value,
    /// How long it took.
    pub execution_time_ms: f64,
}

/// A run as people see it.
#[derive(Debug, Clone)]
pub struct RunView {
    /// Its row.
    pub row: RunRow,
    /// What it is pinned to.
    pub definition: Option<Definition>,
    /// Why it failed.
    pub error: Option<Fault>,
    /// Its last answer.
    pub result: Option<String>,
    /// Whom it waits for.
    pub waiting: Vec<WaitingOn>,
    /// What it says of itself.
    pub steps: Vec<Step>,
}
