//! One turn of a conversation: `reasoning → (tool_call → reasoning)* → respond`.
//!
//! The model is asked; its calls run side by side; their results go back to it; its last answer ends
//! the turn. A limit of rounds, or a call that keeps failing, makes the next model call the last, and
//! that one is made without tools. A call that cannot run (an unknown tool, arguments that do not fit, a call
//! that was cut off) is reported to the model as an error and never runs.
//!
//! The role that is asked, and the tool that runs before any model is asked, follow from the request and the
//! decision ([`choosing`]); an answer may be checked before it counts ([`checking`]).

mod asking;
mod calls;
mod checking;
mod choosing;
mod closing;
mod ladder;
mod people;
mod state;
mod summarising;

#[cfg(test)]
mod tests;

use serde_json::Value;

use super::{FlowRecord, Input, Next, Node, Record, Setting, UnknownFlow, WaitingOn};
use crate::budget::Limit;
use crate::effect::{Effect, EffectKind, Outcome, Purpose, Wait};
use crate::event::Event;
use crate::fault::{Code, Fault};
use crate::id::EffectId;
use crate::run::{Message, ReceiptCall, StepKind, Verdict};
use crate::thread::Entry;
use crate::thread::entry::{AssistantMessage, UserMessage};
use crate::time::Timestamp;
use asking::Failed;
use choosing::PERSON;
use state::{Asking, Ending, Phase, State};

/// The flow's name in definitions and stored states.
pub const NAME: &str = "turn";
const VERSION: u32 = 4;
/// The version of a state without private data on its branch, which older builds can resume.
const VERSION_WITHOUT_PRIVATE: u32 = 3;

/// How often the same call may fail before the turn is brought to an end.
pub const SAME_FAILURES: u8 = 3;
/// The most bytes of a failure's message as it is stored: a state is at most 64 KiB.
const FAULT_BYTES: usize = 4 << 10;
/// The most messages to a running agent that may wait for the next boundary.
const MOST_STEERING: usize = 6;
/// The most bytes of all of them together, as they are stored: a state is at most 64 KiB.
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
        let v = if self.state.private.is_some() { VERSION } else { VERSION_WITHOUT_PRIVATE };
        FlowRecord::new(NAME, v, &self.state)
    }

    pub(super) fn waiting(&self) -> Vec<WaitingOn> {
        self.state.calls.iter().filter_map(|call| call.waiting()).collect()
    }

    pub(super) fn open_calls(&self) -> Vec<i64> {
        self.state.calls.iter().map(|call| call.entry).collect()
    }

    pub(super) fn next(&self) -> Next {
        match &self.state.phase {
            Phase::Begun => Next::Want(Vec::new()),
            Phase::Asking(asking) => Next::Want(vec![self.model_effect(asking)]),
            Phase::Summarising { n, up_to, head } => {
                Next::Want(vec![self.inner_effect(*n, *head, Purpose::Summary { up_to: *up_to })])
            }
            Phase::Checking { n, head, .. } => Next::Want(vec![self.inner_effect(*n, *head, Purpose::Check)]),
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
            Input::Start { text, untrusted, private } => {
                record.node = Node::Start;
                (self.state.untrusted, self.state.private) = (untrusted, private);
                record.append(Entry::UserMessage(UserMessage { text: text.clone(), meta: None }));
                self.begin(&text, at, record);
            }
            Input::Outcome { effect, result } => self.outcome(effect, result, at, record),
            Input::Message(message) => self.message(message, record),
            Input::Cancel { in_flight } => self.end(Ending::Cancelled, &in_flight, record),
            Input::Limit { limit: Limit::ToolCalls, effect: Some(n), .. } => self.over_calls(n, record),
            Input::Limit { limit, in_flight, .. } => self.end(Ending::Limited(limit), &in_flight, record),
        }
        self.settle(at, record);
    }

    fn outcome(&mut self, n: u32, result: Outcome, at: Timestamp, record: &mut Record) {
        match self.state.phase.clone() {
            Phase::Asking(asking) if asking.n == n => self.answered(asking, result, at, record),
            Phase::Summarising { n: asked, up_to, .. } if asked == n => {
                self.summarised(n, up_to, result, at, record)
            }
            Phase::Checking { n: asked, answer, .. } if asked == n => self.checked(n, answer, result, record),
            Phase::Pausing { n: pause, attempt, .. } if pause == n => self.ask_again(attempt, record),
            Phase::Ending { why, model: Some(model), unseen, answered, .. } if model == n => {
                let shown = match result {
                    _ if unseen => String::new(),
                    Outcome::Stopped { shown, .. } | Outcome::ModelFailed { shown, .. } => shown,
                    Outcome::Reply(reply) => reply.text,
                    _ => String::new(),
                };
                self.state.phase = Phase::Ending { why, model: None, unseen, answered, shown };
            }
            _ => self.call_outcome(n, result, at, record),
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

    /// Ends the turn with an error, which is stored on the thread with its remedy.
    fn fail(&mut self, failed: Failed, record: &mut Record) {
        let usage = failed.usage();
        let span = self.span(failed.n);
        let obstacle = self.no_further(&failed);
        let Failed { mut fault, shown, .. } = failed;
        let metadata = self.about_model([
            ("span_id", span),
            ("error", Value::from(fault.code.as_str())),
            ("usage", usage),
            ("escalated_to", obstacle.as_ref().map_or(Value::Null, |_| Value::from(PERSON))),
        ]);
        record.account(StepKind::Warning, fault.message.clone(), metadata);
        fault.message = fault.for_people();
        fault.unsent = false;
        if let Some(obstacle) = obstacle {
            fault.message = format!("{} {obstacle}", fault.message);
        }
        self.take_in_steering(record);
        record.append(assistant(shown, Some(format!("error:{}", fault.code.as_str()))));
        record.node = Node::Respond;
        self.state.phase = Phase::Ended(Verdict::Error(fault));
    }

    /// Stops everything: effects that have not started never start, started ones are waited for.
    fn end(&mut self, why: Ending, in_flight: &[u32], record: &mut Record) {
        if matches!(self.state.phase, Phase::Ending { .. }) {
            return;
        }
        record.node = self.node();
        let model = match &self.state.phase {
            Phase::Asking(Asking { n, .. }) | Phase::Summarising { n, .. } | Phase::Checking { n, .. } => {
                Some(*n).filter(|n| in_flight.contains(n))
            }
            _ => None,
        };
        let unseen = match &self.state.phase {
            Phase::Asking(asking) => !asking.purpose.is_shown(),
            phase => matches!(phase, Phase::Summarising { .. } | Phase::Checking { .. }),
        };
        let answered = self.state.missing.is_some() || matches!(self.state.phase, Phase::Checking { .. });
        self.close_unstarted(in_flight, record);
        self.state.phase = Phase::Ending { why, model, unseen, answered, shown: String::new() };
    }

    /// Continues when the last open call or stopped effect has its outcome.
    fn settle(&mut self, at: Timestamp, record: &mut Record) {
        if self.state.calls.is_empty() && self.state.phase == Phase::Calling && self.tool_is_due() {
            self.call_required(at, record);
        }
        if !self.state.calls.is_empty() {
            return;
        }
        match self.state.phase.clone() {
            Phase::Calling => {
                if self.is_out_of_rounds() {
                    self.make_last(
                        Code::BudgetExceeded,
                        format!("{} was reached", Limit::Iterations.in_words()),
                        record,
                    );
                }
                self.take_in_steering(record);
                self.turn_to_answering();
                self.ask(record);
            }
            Phase::Ending { why, model: None, answered, shown, .. } => {
                self.conclude(why, answered, shown, record);
            }
            _ => {}
        }
    }

    fn conclude(&mut self, why: Ending, answered: bool, shown: String, record: &mut Record) {
        record.node = Node::Respond;
        let stands = answered && self.state.steering.is_empty();
        self.take_in_steering(record); // it was accepted, so it goes on the thread, though no answer follows
        let has_text = self.state.said || !shown.trim().is_empty();
        let verdict = match why {
            Ending::Cancelled => {
                record.append(assistant(shown, Some("cancelled".to_owned())));
                Verdict::Cancelled(std::mem::take(&mut self.state.receipt).into_receipt(|n| self.call_id(n)))
            }
            Ending::Limited(limit) => {
                let code = limit_code(limit);
                let message = format!("{} was reached", limit.in_words());
                if !stands {
                    record.append(assistant(shown, Some(format!("error:{}", code.as_str()))));
                }
                if has_text {
                    record.warn(code, format!("{message}; this is the best answer so far"));
                    Verdict::Ok
                } else {
                    let metadata = [("error", Value::from(code.as_str()))];
                    record.account(StepKind::Warning, message.clone(), metadata);
                    Verdict::Error(Fault::new(code, message))
                }
            }
        };
        self.state.phase = Phase::Ended(verdict);
    }

    /// Makes the next model call the last one, without tools.
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
            Phase::Asking(_) | Phase::Pausing { .. } | Phase::Summarising { .. } | Phase::Checking { .. } => {
                Node::Reasoning
            }
            Phase::Calling | Phase::Ending { .. } => Node::ToolCall,
            Phase::Ended(_) => Node::Respond,
        }
    }

    fn call_id(&self, n: u32) -> String {
        self.effect_id(n).call_id()
    }

    /// The span of an effect, for the account.
    fn span(&self, n: u32) -> Value {
        self.span_of(n, 0)
    }

    /// The span of one try of it.
    fn span_of(&self, n: u32, again: u32) -> Value {
        Value::from(self.effect_id(n).span_id_of(again))
    }

    fn effect_id(&self, n: u32) -> EffectId {
        EffectId { run: self.setting.run, path: self.setting.path.clone(), n }
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
