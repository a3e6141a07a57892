//! What is asked of the engine, and what it shows of a run.

use std::path::PathBuf;

use baton_core::fault::Fault;
use baton_core::flow::WaitingOn;
use baton_core::id::{BranchName, RunId, Tenant, ThreadId};
use baton_core::policy::Mode;
use baton_core::render::Rendering;
use baton_core::role::Roles;
use baton_core::run::{Definition, Step};
use baton_core::trace::TraceParent;
use baton_store::RunRow;
use serde_json::Value;

use crate::engine::RunHandle;

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
            channel: "CHAT".to_owned(),
            last_n: None,
            render: Rendering::default(),
            roots: Vec::new(),
            traceparent: None,
            metadata: Value::Null,
        }
    }
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
