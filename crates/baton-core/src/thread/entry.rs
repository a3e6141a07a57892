//! The types of entries and their fields.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::chat::Reasoning;
use crate::id::{EntryId, RunId};
use crate::time::Timestamp;

/// A message, a call, a result or another typed record on a thread.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A message of the user.
    UserMessage(UserMessage),
    /// The user's answer to a question.
    UserResponse(UserResponse),
    /// A message of the agent.
    AssistantMessage(AssistantMessage),
    /// A call of a tool. Opens its id.
    ToolCall(ToolCall),
    /// The end of a tool's call. Closes its id.
    ToolResult(ToolResult),
    /// A call of another agent. Opens its correlation id.
    AgentCall(AgentCall),
    /// The end of another agent's call. Closes its correlation id.
    AgentResult(AgentResult),
    /// The agent waits for an event.
    Waiting(Waiting),
    /// The conversation is complete.
    Finished,
    /// A summary of the conversation so far.
    Summary(Summary),
    /// An entry of a type that a client defined: stored unchanged.
    Custom(Custom),
}

/// See [`Entry::UserMessage`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserMessage {
    /// The text.
    pub text: String,
    /// Free remarks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<String>,
}

/// See [`Entry::UserResponse`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserResponse {
    /// The text.
    pub text: String,
}

/// See [`Entry::AssistantMessage`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AssistantMessage {
    /// The text.
    pub content: String,
    /// The calls that the model asked for. They open nothing; the `ToolCall` entries do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<SaidCall>,
    /// `error:CODE`, `cancelled`, `reflection:…` or free remarks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta: Option<String>,
    /// The model's reasoning before this message. Private: it is stored and goes back to that model, and
    /// [`Entry::data`] leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<Reasoning>,
}

/// A call as an assistant message repeats it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SaidCall {
    /// Our id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Value,
}

/// See [`Entry::ToolCall`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// Our id of the call.
    pub id: String,
    /// The tool.
    pub function_name: String,
    /// Its arguments.
    pub arguments: Value,
    /// The provider's id of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

/// The status of a closed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Closing {
    /// It worked.
    #[default]
    Ok,
    /// It failed.
    Error,
    /// A user or the policy refused it.
    Denied,
    /// It was not decided before its deadline.
    Expired,
    /// It was stopped, or never started.
    Cancelled,
    /// It is not known whether it happened.
    Unknown,
}

impl Closing {
    fn is_ok(&self) -> bool {
        *self == Closing::Ok
    }
}

/// See [`Entry::ToolResult`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolResult {
    /// The call that it closes.
    pub tool_call_id: String,
    /// The tool.
    pub tool_name: String,
    /// The result, or the reason why there is none.
    pub result: Value,
    /// How it was closed; absent where it worked.
    #[serde(default, skip_serializing_if = "Closing::is_ok")]
    pub status: Closing,
    /// A reward signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reward: Option<f64>,
    /// Where the whole result is, if it was too long to stand here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<crate::effect::BlobRef>,
    /// Whether the result is untrusted: its authors are not known here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untrusted: bool,
    /// Whether the result is private: it comes from a file, a log or another record of the user or the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
    /// Where the cause lies, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<crate::tool::Cause>,
}

/// See [`Entry::AgentCall`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentCall {
    /// The agent.
    pub agent_id: String,
    /// The message to it.
    pub message: String,
    /// The id that its result closes; made for the caller where it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
}

/// See [`Entry::AgentResult`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentResult {
    /// The call that it closes.
    pub correlation_id: String,
    /// The result.
    pub result: Value,
    /// A quality score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// How it was closed; absent where it worked.
    #[serde(default, skip_serializing_if = "Closing::is_ok")]
    pub status: Closing,
}

/// The event that a [`Waiting`] waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingKind {
    /// A tool that runs in the background.
    Tool,
    /// Another agent.
    Agent,
    /// A model.
    Llm,
    /// A user's answer.
    UserInput,
    /// A user's decision.
    Approval,
}

/// See [`Entry::Waiting`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Waiting {
    /// The event that is waited for.
    pub kind: WaitingKind,
    /// The deadline, in Unix seconds.
    pub deadline: f64,
    /// The call that waits.
    pub correlation_id: String,
}

/// See [`Entry::Summary`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// The text.
    pub text: String,
    /// The last index that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_to: Option<i64>,
}

/// See [`Entry::Custom`].
#[derive(Debug, Clone, PartialEq)]
pub struct Custom {
    /// Its type's name.
    pub t: String,
    /// Its type's version.
    pub v: u32,
    /// Its fields.
    pub data: Map<String, Value>,
}

/// Why a type name and fields do not form an entry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadEntry {
    /// The fields do not fit the type.
    #[error("the fields of {t} are not right: {why}")]
    Fields {
        /// The type.
        t: String,
        /// The mismatch.
        why: String,
    },
    /// The type's name is not allowed.
    #[error("{0:?} is not a type name: use 1 to 64 letters, digits, '_', '.', ':' or '-'")]
    Name(String),
    /// The version is newer than this build knows.
    #[error("{t} has version {v}, and this build knows up to {known}")]
    Version {
        /// The type.
        t: String,
        /// Its version.
        v: u32,
        /// The newest known.
        known: u32,
    },
}

/// The newest version of the built-in types. Version 2 adds the private field of [`AssistantMessage`],
/// version 3 the trust mark and the failure's cause of a [`ToolResult`], version 4 its private mark.
pub const ENTRY_VERSION: u32 = 4;

impl Entry {
    /// The type's name, as the API shows it.
    pub fn type_name(&self) -> &str {
        match self {
            Entry::UserMessage(_) => "UserMessage",
            Entry::UserResponse(_) => "UserResponse",
            Entry::AssistantMessage(_) => "AssistantMessage",
            Entry::ToolCall(_) => "ToolCall",
            Entry::ToolResult(_) => "ToolResult",
            Entry::AgentCall(_) => "AgentCall",
            Entry::AgentResult(_) => "AgentResult",
            Entry::Waiting(_) => "Waiting",
            Entry::Finished => "Finished",
            Entry::Summary(_) => "Summary",
            Entry::Custom(custom) => &custom.t,
        }
    }

    /// The type's version: the oldest that can hold these fields.
    pub fn version(&self) -> u32 {
        match self {
            Entry::Custom(custom) => custom.v,
            Entry::AssistantMessage(message) if message.reasoning.is_some() => 2,
            Entry::ToolResult(result) if result.private => 4,
            Entry::ToolResult(result) if result.untrusted || result.cause.is_some() => 3,
            _ => 1,
        }
    }

    /// Whether it holds untrusted content: text whose authors are not known here.
    pub fn is_untrusted(&self) -> bool {
        matches!(self, Entry::ToolResult(result) if result.untrusted)
    }

    /// Whether it holds private data, which no call may send out without approval.
    pub fn is_private(&self) -> bool {
        matches!(self, Entry::ToolResult(result) if result.private)
    }

    /// The public fields.
    pub fn data(&self) -> Value {
        let mut data: Value = serde_json::from_str(&self.data_text()).unwrap_or_default();
        if let (Entry::AssistantMessage(_), Some(fields)) = (self, data.as_object_mut()) {
            fields.remove("reasoning");
        }
        data
    }

    /// All fields as JSON text, as they are stored.
    pub fn data_text(&self) -> String {
        let text = match self {
            Entry::UserMessage(e) => serde_json::to_string(e),
            Entry::UserResponse(e) => serde_json::to_string(e),
            Entry::AssistantMessage(e) => serde_json::to_string(e),
            Entry::ToolCall(e) => serde_json::to_string(e),
            Entry::ToolResult(e) => serde_json::to_string(e),
            Entry::AgentCall(e) => serde_json::to_string(e),
            Entry::AgentResult(e) => serde_json::to_string(e),
            Entry::Waiting(e) => serde_json::to_string(e),
            Entry::Finished => Ok("{}".to_owned()),
            Entry::Summary(e) => serde_json::to_string(e),
            Entry::Custom(e) => serde_json::to_string(&e.data),
        };
        // Plain structs of text, numbers and JSON: serializing them cannot fail.
        text.unwrap_or_default()
    }

    /// An entry from a type name (`UserMessage` or the long form `UserMessageState`) and its public fields, which
    /// every client may see and write.
    pub fn from_parts(t: &str, v: u32, data: Value) -> Result<Entry, BadEntry> {
        match Entry::from_stored(t, v, data)? {
            Entry::AssistantMessage(message) if message.reasoning.is_some() => {
                let why = "`reasoning` is private: only a model's own answer has it".to_owned();
                Err(BadEntry::Fields { t: "AssistantMessage".to_owned(), why })
            }
            entry => Ok(entry),
        }
    }

    /// An entry from its type's name and all its fields, as they are stored.
    pub fn from_stored(t: &str, v: u32, data: Value) -> Result<Entry, BadEntry> {
        let short = t.strip_suffix("State").unwrap_or(t);
        if !ENTRY_TYPES.contains(&short) {
            return custom(t, v, data);
        }
        if v > ENTRY_VERSION {
            return Err(BadEntry::Version { t: short.to_owned(), v, known: ENTRY_VERSION });
        }
        let fit = |result: Result<Entry, serde_json::Error>| {
            result.map_err(|e| BadEntry::Fields { t: short.to_owned(), why: e.to_string() })
        };
        fit(match short {
            "UserMessage" => serde_json::from_value(data).map(Entry::UserMessage),
            "UserResponse" => serde_json::from_value(data).map(Entry::UserResponse),
            "AssistantMessage" => serde_json::from_value(data).map(Entry::AssistantMessage),
            "ToolCall" => serde_json::from_value(data).map(Entry::ToolCall),
            "ToolResult" => serde_json::from_value(data).map(Entry::ToolResult),
            "AgentCall" => serde_json::from_value(data).map(Entry::AgentCall),
            "AgentResult" => serde_json::from_value(data).map(Entry::AgentResult),
            "Waiting" => serde_json::from_value(data).map(Entry::Waiting),
            "Summary" => serde_json::from_value(data).map(Entry::Summary),
            _ => serde_json::from_value::<Empty>(data).map(|_| Entry::Finished),
        })
    }

    /// Fills in the ids that the caller may leave out.
    pub fn with_id(mut self, id: EntryId) -> Entry {
        if let Entry::AgentCall(call) = &mut self {
            call.correlation_id.get_or_insert_with(|| id.to_string());
        }
        self
    }
}

/// The names of the built-in types.
pub const ENTRY_TYPES: [&str; 10] = [
    "UserMessage",
    "UserResponse",
    "AssistantMessage",
    "ToolCall",
    "ToolResult",
    "AgentCall",
    "AgentResult",
    "Waiting",
    "Finished",
    "Summary",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Empty {}

fn custom(t: &str, v: u32, data: Value) -> Result<Entry, BadEntry> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b':' | b'-');
    if !(1..=64).contains(&t.len()) || !t.bytes().all(plain) {
        return Err(BadEntry::Name(crate::id::excerpt(t)));
    }
    match data {
        Value::Object(data) => Ok(Entry::Custom(Custom { t: t.to_owned(), v, data })),
        _ => Err(BadEntry::Fields { t: t.to_owned(), why: "expected an object".to_owned() }),
    }
}

/// An entry that is about to be appended.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEntry {
    /// Its id.
    pub id: EntryId,
    /// When it was made.
    pub at: Timestamp,
    /// Its content.
    pub entry: Entry,
}

/// An entry with its index on the branch.
#[derive(Debug, Clone, PartialEq)]
pub struct PlacedEntry {
    /// Its index, the same on every branch that holds it.
    pub index: i64,
    /// Its id.
    pub id: EntryId,
    /// When it was made.
    pub at: Timestamp,
    /// The run that wrote it, if one did.
    pub run: Option<RunId>,
    /// Its content.
    pub entry: Entry,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_type_survives_a_round_trip_under_both_names() {
        let parts = [
            ("UserMessage", json!({"text": "hi", "meta": "m"})),
            ("UserResponse", json!({"text": "yes"})),
            (
                "AssistantMessage",
                json!({"content": "c", "tool_calls": [{"id": "1", "name": "t", "arguments": {}}], "meta": "reflection:x"}),
            ),
            (
                "ToolCall",
                json!({"id": "1", "function_name": "t", "arguments": {"a": [1]}, "provider_id": "p"}),
            ),
            (
                "ToolResult",
                json!({"tool_call_id": "1", "tool_name": "t", "result": {"s": 1}, "status": "unknown", "reward": 0.8}),
            ),
            ("AgentCall", json!({"agent_id": "a", "message": "m", "correlation_id": "c"})),
            ("AgentResult", json!({"correlation_id": "c", "result": null, "score": 0.9})),
            ("Waiting", json!({"kind": "user_input", "deadline": 12.5, "correlation_id": "c"})),
            ("Finished", json!({})),
            ("Summary", json!({"text": "s", "up_to": 4})),
            ("my.Note", json!({"anything": ["goes", {"x": 1}]})),
        ];
        for (t, data) in parts {
            let entry = Entry::from_parts(t, 1, data.clone()).unwrap();
            assert_eq!((entry.type_name(), entry.data()), (t, data.clone()));
            if t != "my.Note" {
                assert_eq!(Entry::from_parts(&format!("{t}State"), 1, data), Ok(entry));
            }
        }
    }

    #[test]
    fn reasoning_is_stored_and_shown_to_nobody() {
        let stored = json!({"content": "c", "reasoning": {"model": "a/m", "wire": "anthropic", "blocks": [{"signed": 1}]}});
        let outside = Entry::from_parts("AssistantMessage", 2, stored.clone()).unwrap_err();
        let why = "the fields of AssistantMessage are not right: `reasoning` is private: only a model's own answer has it";
        assert_eq!(outside.to_string(), why);
        let entry = Entry::from_stored("AssistantMessage", 2, stored.clone()).unwrap();
        assert_eq!((entry.version(), entry.data()), (2, json!({"content": "c"})));
        assert_eq!(serde_json::from_str::<Value>(&entry.data_text()).unwrap(), stored);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_reason() {
        let why = |t: &str, v, data| Entry::from_parts(t, v, data).unwrap_err().to_string();
        assert!(why("UserMessage", 1, json!({"txt": "x"})).contains("unknown field `txt`"));
        assert!(why("UserMessage", 1, json!({})).contains("missing field `text`"));
        assert!(why("Finished", 1, json!({"x": 1})).contains("unknown field"));
        assert_eq!(
            why("UserMessage", 5, json!({"text": ""})),
            "UserMessage has version 5, and this build knows up to 4"
        );
        assert!(why("bad name", 1, json!({})).contains("not a type name"));
        assert!(why("note", 1, json!(3)).contains("expected an object"));
    }
}
