//! Definitions whose decisions ask for more than the plain one of [`super::drive::definition`].

use std::sync::Arc;

use serde_json::{Value, json};

use super::drive::{Drive, call_id, checked, laddered, text};
use crate::effect::{Admission, CheckedCall, Effect, EffectKind, Outcome, Purpose, Reply, ToolOutcome, View};
use crate::fault::{Code, Fault};
use crate::policy::ToolRule;
use crate::run::{Choice, Definition, Message};
use crate::tool::{Cause, EffectClass, Egress, ToolSpec, Trust};

/// Adds a tool that is allowed.
pub(super) fn add(definition: &mut Definition, name: &str, trust: Trust) {
    let spec = ToolSpec {
        name: name.to_owned(),
        class: EffectClass::SideEffectFree,
        timeout_ms: 1000,
        trust,
        ..ToolSpec::default()
    };
    definition.tools = definition.tools.iter().cloned().chain([spec]).collect::<Vec<_>>().into();
    definition.decision.tools.push(name.to_owned());
}

/// A channel that requires a tool: the router chooses, `look` runs if it does not, `reasoning` answers.
pub(super) fn health() -> Definition {
    let mut definition = laddered();
    definition.decision.tool_rule = ToolRule::Required;
    definition.decision.first_tool = Some("look".to_owned());
    definition.decision.after_tools = Some("reasoning".to_owned());
    definition
}

/// A channel where the question decides the role, and a request to look something up searches first.
pub(super) fn chat() -> Definition {
    let mut definition = laddered();
    definition.decision.default_role = Some("auto".to_owned());
    definition.decision.after_tools = Some("reasoning".to_owned());
    definition.decision.search_first = Some("search".to_owned());
    let trust = Trust { untrusted_output: true, egress: Egress::Yes, ..Trust::BUILT_IN };
    add(&mut definition, "search", trust);
    definition
}

/// A channel whose questions all go to the router.
pub(super) fn routed() -> Definition {
    let mut definition = laddered();
    definition.decision.default_role = Some("router".to_owned());
    definition
}

/// The same definition with only these roles allowed.
pub(super) fn only(mut definition: Definition, roles: &[&str]) -> Definition {
    definition.decision.roles = roles.iter().map(|role| (*role).to_owned()).collect();
    definition
}

/// Changes the trust of a tool.
pub(super) fn trusts(definition: &mut Definition, name: &str, trust: Trust) {
    for tool in Arc::make_mut(&mut definition.tools).iter_mut().filter(|tool| tool.name == name) {
        tool.trust = trust;
    }
}

/// The same answer, given by this model.
pub(super) fn by(model: &str, reply: Reply) -> Reply {
    Reply { model: model.to_owned(), ..reply }
}

/// An answer of the router.
pub(super) fn routed_says(said: &str) -> Reply {
    by("c/small", text(said))
}

/// A call that sends data out.
pub(super) fn sending(name: &str, arguments: Value) -> CheckedCall {
    let admission = Admission::Fits { class: EffectClass::SideEffectFree, egress: true };
    CheckedCall { admission, ..checked(name, arguments) }
}

pub(super) fn fault(code: Code) -> Fault {
    Fault::new(code, "so it said")
}

pub(super) fn model_failed(code: Code, shown: &str) -> Outcome {
    Outcome::ModelFailed { fault: fault(code), shown: shown.to_owned(), used: None }
}

/// A failure of a tool with its cause: the tool, or the call's arguments.
pub(super) fn fails_by(cause: Cause, why: &str) -> Outcome {
    Outcome::Tool(ToolOutcome { cause: Some(cause), ..ToolOutcome::error(why) })
}

/// The effect of a call that may run again.
pub(super) fn runs(n: u32, name: &str, entry: i64, again: u32) -> Effect {
    let class = EffectClass::SideEffectFree;
    let (call_id, name) = (call_id(n), name.to_owned());
    Effect { n, kind: EffectKind::Tool { call_id, name, entry, class, edited_by: None, again } }
}

/// The effect of a model's first try, which sees the whole thread.
pub(super) fn asks(
    n: u32,
    role: &str,
    head: i64,
    tools: bool,
    purpose: Purpose,
    last_resort: bool,
) -> Effect {
    let (first, lowest) = if n == 0 { (None, None) } else { (Some(0), Some(0)) };
    let kind = EffectKind::Model {
        role: role.to_owned(),
        rung: 0,
        head,
        tools,
        message_id: call_id(n),
        attempt: 1,
        purpose,
        view: View { first, lowest, ..View::default() },
        last_resort,
    };
    Effect { n, kind }
}

/// Sends a user's decision.
pub(super) fn decide(drive: &mut Drive, approval_id: String, choice: Choice, arguments: Option<Value>) {
    drive.message(Message::Decision { approval_id, choice, arguments, reason: None });
}

/// The account line of a call that worked, with the rule that made it.
pub(super) fn worked(n: u32, name: &str, reason: Option<&str>) -> Value {
    let mut metadata = json!({"tool_name": name, "call_id": format!("#{n}")});
    if let Some(reason) = reason {
        metadata["reason"] = json!(reason);
    }
    json!({"type": "tool_call", "description": format!("{name} worked"), "metadata": metadata})
}
