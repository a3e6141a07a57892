//! Admission of calls: a model's text becomes a call that can run, or a reason from which the model can repair it.
//!
//! Nothing is guessed: a code fence, a trailing comma or a wrapped object is refused with a reason,
//! because a repaired call may not be the call that was meant. Of keys that occur twice the last
//! one counts, as everywhere in JSON practice.

use baton_core::chat::RawCall;
use baton_core::effect::{Admission, CheckedCall};
use baton_core::json::{self, BadJson};
use baton_core::tool::Egress;
use serde_json::{Value, json};

use super::{MAX_NAME, Registry, is_tool_name};

/// The longest arguments that are read.
pub const MAX_ARGUMENT_BYTES: usize = 1024 * 1024;
const MAX_PROVIDER_ID: usize = 256;

/// The tools that a caller can see.
///
/// A tool that is known and not offered is refused elsewhere, where the reason is known; to suggest it here would only
/// lead to that refusal.
pub struct VisibleTools<'a> {
    /// Whether the caller knows a tool. A tool that exists and is not known is refused like one that does not exist.
    pub known: &'a dyn Fn(&str) -> bool,
    /// Whether a tool was offered, so that it may be suggested in place of one that does not exist.
    pub offered: &'a dyn Fn(&str) -> bool,
}

impl VisibleTools<'static> {
    /// Every tool, for callers that may see all of them.
    pub const ALL: VisibleTools<'static> = VisibleTools { known: &|_| true, offered: &|_| true };
}

impl Registry {
    /// Checks a call as a model wrote it.
    pub fn check(&self, call: &RawCall, tools: &VisibleTools<'_>) -> CheckedCall {
        let provider_id = call.id.clone().filter(|id| is_usable_id(id));
        let (arguments, unreadable) = match read_arguments(&call.arguments) {
            Ok(arguments) => (arguments, None),
            Err(reason) => (json!({}), Some(reason)),
        };
        let admission = match (self.check_name(&call.name, tools), unreadable) {
            (Err(reason), _) | (Ok(()), Some(reason)) => Admission::Refused { reason },
            (Ok(()), None) => self.admit(&call.name, &arguments),
        };
        CheckedCall { provider_id, name: recordable_name(&call.name), arguments, admission }
    }

    fn check_name(&self, name: &str, tools: &VisibleTools<'_>) -> Result<(), String> {
        if self.tools.contains_key(name) && (tools.known)(name) {
            return Ok(());
        }
        let written = json::cut(name, MAX_NAME);
        Err(match self.nearest(written, tools.offered) {
            Some(nearest) => format!("There is no tool {written:?}. The nearest one is `{nearest}`."),
            None => format!("There is no tool {written:?}, and no other tool is offered. Answer in words."),
        })
    }

    fn admit(&self, name: &str, arguments: &Value) -> Admission {
        match (self.get(name), self.validate(name, arguments)) {
            (Some(tool), Ok(())) => Admission::Fits {
                class: tool.class(arguments),
                // Whether an address is a search result of the run is decided later, by the engine.
                egress: tool.spec().trust.egress != Egress::No,
            },
            (_, Err(reason)) => Admission::Refused { reason },
            (None, Ok(())) => Admission::Refused { reason: format!("There is no tool {name:?}.") },
        }
    }
}

/// Reads arguments as a bounded JSON object; nothing at all counts as an empty one.
fn read_arguments(text: &str) -> Result<Value, String> {
    if text.len() > MAX_ARGUMENT_BYTES {
        return Err(format!(
            "The arguments are {} bytes long; at most {MAX_ARGUMENT_BYTES} are accepted. Send shorter ones.",
            text.len()
        ));
    }
    let text = text.trim();
    if text.is_empty() || text == "null" {
        return Ok(json!({}));
    }
    let value = json::parse(text).map_err(|bad| explain(text, &bad))?;
    let kind = match value {
        Value::Object(_) => return Ok(value),
        Value::Array(_) => "an array",
        Value::String(_) => "a string",
        Value::Number(_) => "a number",
        Value::Bool(_) | Value::Null => "a bare word",
    };
    Err(format!("The arguments are {kind}. Send one JSON object, like {{\"key\": \"value\"}}."))
}

fn explain(text: &str, bad: &BadJson) -> String {
    match bad {
        BadJson::TooDeep => format!("The arguments are {bad}. Send flatter ones."),
        BadJson::Syntax(_) if text.starts_with("```") => {
            "The arguments are wrapped in a code fence. Send the bare JSON object, without ``` marks."
                .to_owned()
        }
        BadJson::Syntax(_) => format!("The arguments are {bad}. Send one complete JSON object."),
    }
}

/// Whether a provider's id for a call may be sent back. Providers put strange things here; odd ids are dropped.
fn is_usable_id(id: &str) -> bool {
    (1..=MAX_PROVIDER_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The name as it is recorded in the history: a provider would refuse every later request over one odd
/// name in an earlier answer.
fn recordable_name(name: &str) -> String {
    if is_tool_name(name) {
        return name.to_owned();
    }
    let usable = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().take(MAX_NAME).map(usable).collect();
    if name.is_empty() { "_".to_owned() } else { name }
}
