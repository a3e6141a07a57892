//! Flows: pure, serializable state machines that decide the next effects of a run.
//!
//! A flow names the effects that should be outstanding ([`Flow::next`]) and folds each input into its state
//! ([`Flow::apply`]). It never performs anything, never reads a clock and never draws a random number,
//! so a new run, a resumed one and a replayed one take the same path.

pub mod record;
pub mod turn;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::budget::Limit;
use crate::effect::{Effect, Outcome};
use crate::id::{FramePath, RunId};
use crate::run::{Definition, Message, Verdict};
use crate::time::Timestamp;

pub use record::{NextAction, Node, Record, WaitingOn, question};
use turn::Turn;

/// The effects that should be outstanding now. A level, not an edge: asked again after every commit and after
/// a crash, a flow names the same effects by the same numbers until their outcome is applied.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// These, and nothing else.
    Want(Vec<Effect>),
    /// Nothing: it is over.
    Finish(Verdict),
}

/// An input of a flow.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// The run begins with the user's message.
    Start {
        /// The text.
        text: String,
        /// The first entry of the branch that holds untrusted content.
        untrusted: Option<i64>,
        /// The first entry of the branch that holds private data.
        private: Option<i64>,
    },
    /// An effect ended.
    Outcome {
        /// The number of the effect.
        effect: u32,
        /// Its outcome.
        result: Outcome,
    },
    /// A message from the inbox, other than a cancel.
    Message(Message),
    /// Stop. Started effects are cancelled; the others never start.
    Cancel {
        /// The effects that have started and not ended.
        in_flight: Vec<u32>,
    },
    /// A limit was reached.
    Limit {
        /// The limit.
        limit: Limit,
        /// The effect that could not start because of it.
        effect: Option<u32>,
        /// The effects that have started and not ended.
        in_flight: Vec<u32>,
    },
}

/// The context of a flow beside its state: its run, its frame and its definition.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The run.
    pub run: RunId,
    /// The frame in the run's tree.
    pub path: FramePath,
    /// The definition that the run is pinned to.
    pub definition: Arc<Definition>,
}

/// A stored flow state. The state itself is text already: it is written once and read rarely.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowRecord {
    /// The flow's name.
    pub flow: String,
    /// The version of `data`.
    pub v: u32,
    /// The state.
    pub data: Box<RawValue>,
}

impl FlowRecord {
    /// A state as it is stored.
    pub fn new(flow: &str, v: u32, state: &impl Serialize) -> Self {
        // States are made of numbers, text and enums: serializing them cannot fail.
        let data = serde_json::value::to_raw_value(state).unwrap_or_else(|_| RawValue::NULL.to_owned());
        FlowRecord { flow: flow.to_owned(), v, data }
    }
}

impl PartialEq for FlowRecord {
    fn eq(&self, other: &Self) -> bool {
        let value = |record: &Self| serde_json::from_str::<serde_json::Value>(record.data.get()).ok();
        (&self.flow, self.v, value(self)) == (&other.flow, other.v, value(other))
    }
}

/// A stored state that this build cannot go on from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownFlow {
    /// This build has no such flow.
    #[error("this build has no flow {0:?}")]
    Name(String),
    /// The state is newer than this build.
    #[error("the state of flow {flow:?} has version {v}, and this build knows up to {known}")]
    Version {
        /// The flow's name.
        flow: String,
        /// Its version.
        v: u32,
        /// The newest known.
        known: u32,
    },
    /// The state cannot be read.
    #[error("the state of flow {flow:?} cannot be read: {why}")]
    Data {
        /// The flow's name.
        flow: String,
        /// Why.
        why: String,
    },
}

/// Every flow that this build has.
#[derive(Debug, Clone)]
pub enum Flow {
    /// `reasoning → (tool_call → reasoning)* → respond`.
    Turn(Turn),
}

impl Flow {
    /// The flow that a definition names, at its beginning.
    pub fn begin(setting: Setting) -> Result<Flow, UnknownFlow> {
        match setting.definition.flow.as_str() {
            turn::NAME => Ok(Flow::Turn(Turn::new(setting))),
            other => Err(UnknownFlow::Name(other.to_owned())),
        }
    }

    /// A flow from its stored state.
    pub fn restore(setting: Setting, record: FlowRecord) -> Result<Flow, UnknownFlow> {
        match record.flow.as_str() {
            turn::NAME => Turn::restore(setting, record).map(Flow::Turn),
            other => Err(UnknownFlow::Name(other.to_owned())),
        }
    }

    /// The state to store.
    pub fn record(&self) -> FlowRecord {
        match self {
            Flow::Turn(turn) => turn.record(),
        }
    }

    /// See [`Next`].
    pub fn next(&self) -> Next {
        match self {
            Flow::Turn(turn) => turn.next(),
        }
    }

    /// Folds one input into the state and adds its entries, events and account lines to `record`.
    pub fn apply(&mut self, input: Input, at: Timestamp, record: &mut Record) {
        match self {
            Flow::Turn(turn) => turn.apply(input, at, record),
        }
    }

    /// The entries that hold the calls without a result.
    pub fn open_calls(&self) -> Vec<i64> {
        match self {
            Flow::Turn(turn) => turn.open_calls(),
        }
    }

    /// Continues as another run than the one that it came from. Open calls need approval again; `arguments` has
    /// theirs, by the index of the entry that holds the call.
    pub fn fork(&mut self, arguments: &BTreeMap<i64, Value>, at: Timestamp, record: &mut Record) {
        match self {
            Flow::Turn(turn) => turn.forked(arguments, at, record),
        }
    }

    /// The answers and decisions of users that it waits for.
    pub fn waiting(&self) -> Vec<WaitingOn> {
        match self {
            Flow::Turn(turn) => turn.waiting(),
        }
    }
}
