//! The record of one transition: its entries, events, account lines and approvals.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::event::Event;
use crate::fault::Code;
use crate::run::{Approval, ApprovalStatus, Step, StepKind};
use crate::thread::{Entry, OrderError, Tail, WaitingKind};
use crate::time::Timestamp;

/// The node of the graph that a transition belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Node {
    /// The run began.
    #[default]
    Start,
    /// A model decided.
    Reasoning,
    /// A tool was called.
    ToolCall,
    /// The answer was given.
    Respond,
}

/// The next action of the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextAction {
    /// Call the tools that the model asked for.
    CallTool,
    /// Answer.
    Respond,
}

/// An answer or a decision of a user that a run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WaitingOn {
    /// Whether an answer or a decision is waited for.
    pub kind: WaitingKind,
    /// The approval or the call.
    pub id: String,
    /// The deadline.
    pub deadline: Timestamp,
    /// The text of the question, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<String>,
}

/// The first open question; empty where only decisions are waited for.
pub fn question(waiting: &[WaitingOn]) -> &str {
    waiting.iter().find_map(|waiting| waiting.question.as_deref()).unwrap_or_default()
}

/// The changes that one transition makes beside the flow's state.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// The end of the branch, including the entries of this record.
    pub tail: Tail,
    /// The index of the last entry, including those of this record.
    pub head: i64,
    /// The entries to append.
    pub entries: Vec<Entry>,
    /// The events to emit.
    pub events: Vec<Event>,
    /// The lines of the run's account.
    pub steps: Vec<Step>,
    /// The approvals that it opens.
    pub asked: Vec<Approval>,
    /// The approvals that it closes, with their new status.
    pub settled: Vec<(String, ApprovalStatus)>,
    /// The node of the graph that it belongs to.
    pub node: Node,
    /// The next action of the graph.
    pub next_action: Option<NextAction>,
    /// An entry that the order did not allow: a fault of ours that ends the run.
    pub refused: Option<OrderError>,
}

impl Record {
    /// An empty record at the end of a branch.
    pub fn at(tail: Tail, head: i64, node: Node) -> Self {
        Record { tail, head, node, ..Record::default() }
    }

    /// Appends an entry and returns its index.
    pub fn append(&mut self, entry: Entry) -> i64 {
        if let Err(error) = self.tail.append(&entry) {
            self.refused.get_or_insert(error);
            return self.head;
        }
        self.entries.push(entry);
        self.head += 1;
        self.head
    }

    /// Emits an event.
    pub fn emit(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Emits a warning and adds it to the account.
    pub fn warn(&mut self, code: Code, message: impl Into<String>) {
        self.warn_about(code, message, [("error", Value::from(code.as_str()))]);
    }

    /// The same, with other metadata in the account.
    pub fn warn_about<'a>(
        &mut self,
        code: Code,
        message: impl Into<String>,
        metadata: impl IntoIterator<Item = (&'a str, Value)>,
    ) {
        let message = message.into();
        self.account(StepKind::Warning, message.clone(), metadata);
        self.emit(Event::Warning { code, message });
    }

    /// How many lines of the account name an error.
    pub fn errors(&self) -> u32 {
        self.steps.iter().map(|step| u32::from(step.metadata.contains_key("error"))).sum()
    }

    /// Adds a line to the run's account of itself.
    pub fn account<'a>(
        &mut self,
        kind: StepKind,
        description: String,
        metadata: impl IntoIterator<Item = (&'a str, Value)>,
    ) {
        let metadata: Map<String, Value> =
            metadata.into_iter().filter(|(_, v)| !v.is_null()).map(|(k, v)| (k.to_owned(), v)).collect();
        self.steps.push(Step { kind, description, metadata });
    }
}
