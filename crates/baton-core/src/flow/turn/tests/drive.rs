//! A flow under test, with everything that it recorded so far.

mod holds;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::chat::{FinishReason, TokenUsage};
use crate::effect::{Admission, CheckedCall, Effect, EffectKind, Outcome, Reply, ToolOutcome};
use crate::event::Event;
use crate::fault::Fault;
use crate::flow::{Flow, Input, Next, Record, Setting, WaitingOn};
use crate::id::{FramePath, RunId};
use crate::policy::{Decision, Mode, default_decision};
use crate::role::Candidate;
use crate::run::{Approval, ApprovalStatus, Definition, Message, Step, Verdict};
use crate::thread::{Closing, Entry, Tail};
use crate::time::Timestamp;
use crate::tool::{ASK_USER, EffectClass, ToolSpec};

/// The time of every input.
pub(super) const NOW: Timestamp = Timestamp(1_767_225_600_000);
/// How long a user has to answer.
pub(super) const PATIENCE_MS: u64 = 60_000;

/// Three rounds; `write` asks first; `forbidden` is not allowed.
pub(super) fn definition() -> Definition {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({}),
        output_schema: None,
        class: class(name),
        timeout_ms: 1000,
        ..ToolSpec::default()
    };
    let mut decision = Decision {
        rule: "tests".to_owned(),
        tools: ["look", "peek", "write", ASK_USER].map(str::to_owned).to_vec(),
        approvals: vec!["write".to_owned()],
        patience_ms: PATIENCE_MS,
        ..default_decision()
    };
    decision.limits.iterations = 3;
    Definition {
        v: 1,
        flow: "turn".to_owned(),
        system: String::new(),
        model: "m/x".to_owned(),
        roles: Default::default(),
        mode: Mode::Moderate,
        channel: "CHAT".to_owned(),
        decision,
        tools: ["look", "peek", "write", "forbidden", ASK_USER].map(tool).into(),
        last_n: None,
        render: Default::default(),
        roots: Vec::new(),
    }
}

/// The same, with two models that reason and a small one that routes.
pub(super) fn laddered() -> Definition {
    let of = |models: &[&str]| models.iter().map(|model| Candidate::of(*model)).collect();
    let roles = [("reasoning".to_owned(), of(&["a/big", "b/mid"])), ("router".to_owned(), of(&["c/small"]))];
    Definition { roles: roles.into(), ..definition() }
}

fn class(name: &str) -> EffectClass {
    if name == "write" { EffectClass::Unsafe } else { EffectClass::SideEffectFree }
}

pub(super) fn setting(definition: Definition) -> Setting {
    Setting { run: RunId(Uuid::from_u128(1)), path: FramePath::root(), definition: Arc::new(definition) }
}

#[derive(Clone)]
pub(super) struct Drive {
    setting: Setting,
    pub(super) flow: Flow,
    pub(super) tail: Tail,
    pub(super) head: i64,
    /// Everything that was recorded.
    pub(super) entries: Vec<Entry>,
    pub(super) events: Vec<Event>,
    pub(super) steps: Vec<Step>,
    pub(super) asked: Vec<Approval>,
    pub(super) settled: Vec<(String, ApprovalStatus)>,
    /// The record of the last input.
    pub(super) last: Record,
}

impl Drive {
    /// A turn before its first input.
    pub(super) fn begin(definition: Definition) -> Drive {
        Drive::on(Flow::begin(setting(definition.clone())).unwrap(), definition, Tail::default(), -1)
    }

    /// A flow at the end of a branch.
    pub(super) fn on(flow: Flow, definition: Definition, tail: Tail, head: i64) -> Drive {
        Drive {
            setting: setting(definition),
            flow,
            tail,
            head,
            entries: Vec::new(),
            events: Vec::new(),
            steps: Vec::new(),
            asked: Vec::new(),
            settled: Vec::new(),
            last: Record::default(),
        }
    }

    /// A turn that has begun with `hi`: the model is asked.
    pub(super) fn start_with(definition: Definition) -> Drive {
        Drive::told(definition, "hi")
    }

    /// A turn that has begun with these words.
    pub(super) fn told(definition: Definition, text: &str) -> Drive {
        let mut drive = Drive::begin(definition);
        drive.apply(Input::Start { text: text.to_owned(), untrusted: None, private: None });
        drive
    }

    pub(super) fn start() -> Drive {
        Drive::start_with(definition())
    }

    /// Applies one input and checks the invariants.
    pub(super) fn apply(&mut self, input: Input) {
        let mut record = Record::at(self.tail.clone(), self.head, self.last.node);
        self.flow.apply(input, NOW, &mut record);
        assert_eq!(record.refused, None);
        assert_eq!(record.head, self.head + record.entries.len() as i64);
        (self.tail, self.head) = (record.tail.clone(), record.head);
        self.entries.extend(record.entries.iter().cloned());
        self.events.extend(record.events.iter().cloned());
        self.steps.extend(record.steps.iter().cloned());
        self.asked.extend(record.asked.iter().cloned());
        self.settled.extend(record.settled.iter().cloned());
        self.last = record;
        self.check();
    }

    /// The definition that the turn is pinned to.
    pub(super) fn definition(&self) -> Definition {
        self.setting.definition.as_ref().clone()
    }

    /// The effects that are wanted now.
    pub(super) fn wants(&self) -> Vec<Effect> {
        match self.flow.next() {
            Next::Want(effects) => effects,
            Next::Finish(verdict) => panic!("it is over: {verdict:?}"),
        }
    }

    /// The numbers of the effects that are wanted now.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.wants().iter().map(|effect| effect.n).collect()
    }

    pub(super) fn verdict(&self) -> Verdict {
        match self.flow.next() {
            Next::Finish(verdict) => verdict,
            Next::Want(effects) => panic!("it goes on: {effects:?}"),
        }
    }

    /// The model call that is wanted: its number, the last entry that it sees, and whether it has tools.
    pub(super) fn model(&self) -> (u32, i64, bool) {
        match &self.wants()[..] {
            [Effect { n, kind: EffectKind::Model { head, tools, .. } }] => (*n, *head, *tools),
            other => panic!("no model is asked: {other:?}"),
        }
    }

    pub(super) fn outcome(&mut self, effect: u32, result: Outcome) {
        self.apply(Input::Outcome { effect, result });
    }

    /// The model that is asked fails before any text was shown.
    pub(super) fn model_fails(&mut self, fault: Fault) {
        let n = self.model().0;
        self.outcome(n, Outcome::ModelFailed { fault, shown: String::new(), used: None });
    }

    /// The model that is asked answers.
    pub(super) fn reply(&mut self, reply: Reply) {
        let n = self.model().0;
        self.outcome(n, Outcome::Reply(reply));
    }

    /// The model that is asked wants these calls, and each that may run does and answers `fine`.
    pub(super) fn round(&mut self, wanted: &[(&str, Value)]) {
        self.reply(calls(wanted));
        for n in self.numbers() {
            self.outcome(n, ok("fine"));
        }
    }

    pub(super) fn message(&mut self, message: Message) {
        self.apply(Input::Message(message));
    }

    pub(super) fn input(&mut self, text: &str) {
        self.message(Message::Input { input_id: format!("in-{text}"), text: text.to_owned() });
    }

    pub(super) fn waiting(&self) -> Vec<WaitingOn> {
        self.flow.waiting()
    }

    /// The entries of the last input, as `{type: fields}`.
    pub(super) fn said(&self) -> Value {
        said(&self.last.entries)
    }

    /// The events of the last input.
    pub(super) fn shown(&self) -> Value {
        plain(&self.last.events)
    }

    /// The account of the last input, without the spans, which `spans.rs` tests.
    pub(super) fn account(&self) -> Value {
        account(&self.last.steps)
    }

    /// The whole account, a line for each step: its kind, role, text, reason and `escalated_to`.
    pub(super) fn told_steps(&self) -> Vec<String> {
        let line = |step: &Step| {
            let of = |key: &str| step.metadata.get(key).and_then(Value::as_str);
            let role = of("model_role").map_or(String::new(), |role| format!(" as {role}"));
            let reason = of("reason").map_or(String::new(), |reason| format!(" ({reason})"));
            let to = of("escalated_to").map_or(String::new(), |to| format!(" -> {to}"));
            let kind = plain(&step.kind);
            format!("{}{role}: {}{reason}{to}", kind.as_str().unwrap(), step.description)
        };
        self.steps.iter().map(line).collect()
    }

    /// The model call that is wanted now: `role: purpose`, and whether with tools.
    pub(super) fn asked_for(&self) -> String {
        match &self.wants()[..] {
            [Effect { kind: EffectKind::Model { role, tools, purpose, .. }, .. }] => {
                let purpose = plain(purpose)["for"].as_str().unwrap().to_owned();
                format!("{role}: {purpose}{}", if *tools { " with tools" } else { "" })
            }
            other => panic!("no model is asked: {other:?}"),
        }
    }

    /// The codes of the warnings so far.
    pub(super) fn warnings(&self) -> Vec<&'static str> {
        let warned = self.events.iter().filter_map(|event| match event {
            Event::Warning { code, .. } => Some(code.as_str()),
            _ => None,
        });
        warned.collect()
    }
}

/// Steps without their spans.
pub(super) fn account(steps: &[Step]) -> Value {
    let mut steps = steps.to_vec();
    for step in &mut steps {
        step.metadata.remove("span_id");
    }
    plain(&steps)
}

/// Entries as `{type: fields}`.
pub(super) fn said(entries: &[Entry]) -> Value {
    let said = |entry: &Entry| json!({ entry.type_name(): entry.data() });
    plain(&entries.iter().map(said).collect::<Vec<_>>())
}

/// The verdict of a turn that a failure ended, with the failure in words for the user.
pub(super) fn told(fault: Fault) -> Verdict {
    Verdict::Error(Fault { message: fault.for_people(), ..fault })
}

/// The usage of a call that used nothing, as the account has it.
pub(super) fn no_usage() -> Value {
    json!({"prompt_tokens": 0, "completion_tokens": 0, "cost_usd": null})
}

/// A value as JSON, with `#n` for the id of a call.
pub(super) fn plain<T: Serialize + ?Sized>(value: &T) -> Value {
    let text = serde_json::to_string(value).unwrap();
    serde_json::from_str(&text.replace(&format!("{}-", Uuid::from_u128(1).simple()), "#")).unwrap()
}

/// The id of the call with a number.
pub(super) fn call_id(n: u32) -> String {
    format!("{}-{n}", Uuid::from_u128(1).simple())
}

pub(super) fn text(text: &str) -> Reply {
    Reply {
        text: text.to_owned(),
        calls: Vec::new(),
        finish: FinishReason::Stop,
        usage: TokenUsage::default(),
        model: "m/x".to_owned(),
        reasoning: None,
        first: 0,
        lowest: 0,
        cut: None,
    }
}

/// A reply with calls that fit, and text beside them.
pub(super) fn calls(wanted: &[(&str, Value)]) -> Reply {
    let calls = wanted.iter().map(|(name, arguments)| checked(name, arguments.clone()));
    Reply { calls: calls.collect(), finish: FinishReason::ToolCalls, ..text("on it") }
}

pub(super) fn checked(name: &str, arguments: Value) -> CheckedCall {
    let admission = Admission::Fits { class: class(name), egress: false };
    CheckedCall { provider_id: Some(format!("p-{name}")), name: name.to_owned(), arguments, admission }
}

pub(super) fn refused(name: &str, reason: &str) -> CheckedCall {
    CheckedCall { admission: Admission::Refused { reason: reason.to_owned() }, ..checked(name, json!({})) }
}

pub(super) fn ok(result: &str) -> Outcome {
    Outcome::Tool(ToolOutcome::new(Closing::Ok, json!(result)))
}

pub(super) fn failed(why: &str) -> Outcome {
    Outcome::Tool(ToolOutcome::error(why))
}
