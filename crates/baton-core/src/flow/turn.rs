//! One turn of a conversation: `reasoning → (tool_call → reasoning)* → respond`.
//!
//! The model is asked; its calls run side by side; their results go back to it; its last answer ends
//! the turn. A limit of rounds, or a call that keeps failing, makes the next model call the last, and
//! that one is made without tools. What cannot run (an unknown tool, arguments that do not fit, a call
//! that was cut off) is told to the model as an error and never runs.

mod asking;
mod calls;
mod ladder;
mod state;

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::{FlowRecord, Input, Next, Node, Record, Setting, UnknownFlow, WaitingOn};
use crate::budget::Limit;
use crate::effect::{Effect, EffectKind, Outcome, Wait};
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::id::EffectId;
use crate::run::{Message, ReceiptCall, StepKind, Verdict};
use crate::thread::Entry;
use crate::thread::entry::{AssistantMessage, UserMessage};
use crate::time::Timestamp;
use asking::Failed;
use state::{Asking, Ending, Phase, State};

/// The flow's name in definitions and stored states.
pub const NAME: &str = "turn";
const VERSION: u32 = 2;

/// How often the same call may fail before the turn is brought to an end.
pub const SAME_FAILURES: u8 = 3;
/// How long the words of a failure may be as they are stored: a state is at most 64 KiB.
const FAULT_BYTES: usize = 4 << 10;
/// Messages to a running agent that may wait for the next boundary.
const MOST_STEERING: usize = 6;
/// And how long they may be together, as they are stored: a state is at most 64 KiB.
const STEERING_BYTES: usize = 12 << 10;

/// See the module.
#[derive(Debug, Clone)]
pub struct Turn {
    setting: Setting,
    state: State,
}

impl Turn {
    pub(super) fn new(setting: Setting) -> Self {
        Turn { setting, state: State::default() }
    }

    pub(super) fn restore(setting: Setting, record: FlowRecord) -> Result<Self, UnknownFlow> {
        let FlowRecord { flow, v, data } = record;
        if v > VERSION {
            return Err(UnknownFlow::Version { flow, v, known: VERSION });
        }
        let state =
            serde_json::from_str(data.get()).map_err(|e| UnknownFlow::Data { flow, why: e.to_string() })?;
        Ok(Turn { setting, state })
    }

    pub(super) fn record(&self) -> FlowRecord {
        FlowRecord::new(NAME, VERSION, &self.state)
    }

    pub(super) fn waiting(&self) -> Vec<WaitingOn> {
        self.state.calls.iter().filter_map(|call| call.waiting()).collect()
    }

    pub(super) fn next(&self) -> Next {
        match &self.state.phase {
            Phase::Begun => Next::Want(Vec::new()),
            Phase::Asking(asking) => Next::Want(vec![self.model_effect(asking)]),
            Phase::Summarising { n, up_to, head } => Next::Want(vec![self.summary_effect(*n, *up_to, *head)]),
            Phase::Pausing { n, until, .. } => {
                let kind = EffectKind::Wait { what: Wait::Time, deadline: *until };
                Next::Want(vec![Effect { n: *n, kind }])
            }
            Phase::Calling => Next::Want(self.state.calls.iter().map(|call| call.effect()).collect()),
            Phase::Ending { .. } => Next::Want(Vec::new()),
            Phase::Ended(verdict) => Next::Finish(verdict.clone()),
        }
    }

    pub(super) fn apply(&mut self, input: Input, at: Timestamp, record: &mut Record) {
        if matches!(self.state.phase, Phase::Ended(_)) {
            return;
        }
        match input {
            Input::Start { text } => {
                record.node = Node::Start;
                record.append(Entry::UserMessage(UserMessage { text, meta: None }));
                self.ask(record);
            }
            Input::Outcome { effect, result } => self.outcome(effect, result, at, record),
            Input::Message(message) => self.message(message, record),
            Input::Cancel { in_flight } => self.end(Ending::Cancelled, &in_flight, record),
            Input::Limit { limit: Limit::ToolCalls, effect: Some(n), .. } => self.over_calls(n, record),
            Input::Limit { limit, in_flight, .. } => self.end(Ending::Limited(limit), &in_flight, record),
        }
        self.settle(record);
    }

    fn outcome(&mut self, n: u32, result: Outcome, at: Timestamp, record: &mut Record) {
        match self.state.phase.clone() {
            Phase::Asking(asking) if asking.n == n => self.answered(asking, result, at, record),
            Phase::Summarising { n: asked, up_to, .. } if asked == n => {
                self.summarised(up_to, result, record)
            }
            Phase::Pausing { n: pause, attempt, .. } if pause == n => self.ask_again(attempt, record),
            Phase::Ending { why, model: Some(model), unseen, .. } if model == n => {
                let shown = match result {
                    _ if unseen => String::new(),
                    Outcome::Stopped { shown, .. } | Outcome::ModelFailed { shown, .. } => shown,
                    Outcome::Reply(reply) => reply.text,
                    _ => String::new(),
                };
                self.state.phase = Phase::Ending { why, model: None, unseen, shown };
            }
            _ => self.call_outcome(n, result, record),
        }
    }

    fn message(&mut self, message: Message, record: &mut Record) {
        record.node = self.node();
        match message {
            Message::Input { input_id, text } => {
                if self.answer_question(&text, record) {
                } else if matches!(self.state.phase, Phase::Ending { .. }) {
                    return;
                } else if !self.has_room_for(&text) {
                    return record.warn(
                        Code::BudgetExceeded,
                        "a message was not taken in: too much is waiting already",
                    );
                } else {
                    self.state.steering.push(text);
                }
                record.emit(Event::Input { input_id });
            }
            Message::Decision { approval_id, choice, arguments, reason } => {
                self.decided(&approval_id, choice, arguments, reason, record);
            }
            Message::Cancel => {} // comes as `Input::Cancel`, with what is in flight
        }
    }

    /// Ends the turn with an error that the thread remembers, in words that help.
    fn fail(&mut self, failed: Failed, record: &mut Record) {
        let usage = failed.usage();
        let Failed { mut fault, shown, .. } = failed;
        let metadata = self.about_model([("error", Value::from(fault.code.as_str())), ("usage", usage)]);
        record.account(StepKind::Warning, fault.message.clone(), metadata);
        fault.message = fault.for_people();
        self.take_in_steering(record);
        record.append(assistant(shown, Some(format!("error:{}", fault.code.as_str()))));
        record.node = Node::Respond;
        self.state.phase = Phase::Ended(Verdict::Error(fault));
    }

    /// Stops everything: what has not started never will, what has is waited for.
    fn end(&mut self, why: Ending, in_flight: &[u32], record: &mut Record) {
        if matches!(self.state.phase, Phase::Ending { .. }) {
            return;
        }
        record.node = self.node();
        let model = match &self.state.phase {
            Phase::Asking(Asking { n, .. }) | Phase::Summarising { n, .. } => {
                Some(*n).filter(|n| in_flight.contains(n))
            }
            _ => None,
        };
        let unseen = matches!(self.state.phase, Phase::Summarising { .. });
        self.close_unstarted(in_flight, record);
        self.state.phase = Phase::Ending { why, model, unseen, shown: String::new() };
    }

    /// Goes on when the last open call or stopped effect is accounted for.
    fn settle(&mut self, record: &mut Record) {
        if !self.state.calls.is_empty() {
            return;
        }
        match self.state.phase.clone() {
            Phase::Calling => {
                if self.state.rounds >= self.setting.definition.decision.limits.iterations {
                    self.make_last(
                        Code::BudgetExceeded,
                        format!("{} was reached", Limit::Iterations.in_words()),
                        record,
                    );
                }
                self.take_in_steering(record);
                self.ask(record);
            }
            Phase::Ending { why, model: None, shown, .. } => self.conclude(why, shown, record),
            _ => {}
        }
    }

    fn conclude(&mut self, why: Ending, shown: String, record: &mut Record) {
        record.node = Node::Respond;
        self.take_in_steering(record); // it was accepted: it is said, though nobody answers it
        let has_text = self.state.said || !shown.trim().is_empty();
        let verdict = match why {
            Ending::Cancelled => {
                record.append(assistant(shown, Some("cancelled".to_owned())));
                Verdict::Cancelled(std::mem::take(&mut self.state.receipt).into_receipt(|n| self.call_id(n)))
            }
            Ending::Limited(limit) => {
                let code = limit_code(limit);
                let message = format!("{} was reached", limit.in_words());
                record.append(assistant(shown, Some(format!("error:{}", code.as_str()))));
                if has_text {
                    record.warn(code, format!("{message}; this is the best answer so far"));
                    Verdict::Ok
                } else {
                    Verdict::Error(Fault::new(code, message))
                }
            }
        };
        self.state.phase = Phase::Ended(verdict);
    }

    /// The next model call is the last one, and has no tools.
    fn make_last(&mut self, code: Code, why: String, record: &mut Record) {
        let ends = matches!(self.state.phase, Phase::Ending { .. });
        if !ends && !std::mem::replace(&mut self.state.last_answer, true) {
            record.warn(code, format!("{why}; the next answer is the last, without tools"));
        }
    }

    fn has_room_for(&self, text: &str) -> bool {
        let stored = |text: &str| Value::from(text).to_string().len();
        let waiting: usize = self.state.steering.iter().map(|text| stored(text)).sum();
        self.state.steering.len() < MOST_STEERING && waiting + stored(text) <= STEERING_BYTES
    }

    fn take_in_steering(&mut self, record: &mut Record) {
        for text in std::mem::take(&mut self.state.steering) {
            record.append(Entry::UserMessage(UserMessage { text, meta: Some("steering".to_owned()) }));
        }
    }

    fn node(&self) -> Node {
        match self.state.phase {
            Phase::Begun => Node::Start,
            Phase::Asking(_) | Phase::Pausing { .. } | Phase::Summarising { .. } => Node::Reasoning,
            Phase::Calling | Phase::Ending { .. } => Node::ToolCall,
            Phase::Ended(_) => Node::Respond,
        }
    }

    fn call_id(&self, n: u32) -> String {
        EffectId { run: self.setting.run, path: self.setting.path.clone(), n }.call_id()
    }
}

fn assistant(content: String, meta: Option<String>) -> Entry {
    Entry::AssistantMessage(AssistantMessage { content, tool_calls: Vec::new(), meta, reasoning: None })
}

fn limit_code(limit: Limit) -> Code {
    match limit {
        Limit::ActiveTime => Code::Deadline,
        Limit::UnknownPrice => Code::PriceUnknown,
        Limit::Iterations | Limit::Tokens | Limit::ToolCalls | Limit::Cost => Code::BudgetExceeded,
    }
}

impl state::Tally {
    fn into_receipt(self, id: impl Fn(u32) -> String) -> crate::run::Receipt {
        let list = |calls: Vec<(u32, String)>| {
            calls.into_iter().map(|(n, name)| ReceiptCall { call_id: id(n), name }).collect()
        };
        crate::run::Receipt {
            finished: list(self.finished),
            stopped: list(self.stopped),
            unknown: list(self.unknown),
            not_started: list(self.not_started),
        }
    }
}
