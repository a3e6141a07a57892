//! The order of entries: one table of allowed successors, checked on every append.
//!
//! [`Tail`] is the part of a branch that the check of its next entry needs. It can be found by reading
//! backwards to the last entry that needs nothing open, so its cost does not grow with history.

use serde::{Deserialize, Serialize};

use super::entry::{AgentResult, Closing, Entry, ToolResult, WaitingKind};

/// An open call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenId {
    /// The id.
    pub id: String,
    /// The tool, or nothing for an agent.
    pub tool: Option<String>,
}

/// The end of a branch, as far as its next entry depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tail {
    /// Calls without a result, in call order.
    pub open: Vec<OpenId>,
    /// Questions without an answer.
    pub questions: u32,
    /// Whether the conversation was finished.
    pub finished: bool,
}

/// An entry that the order does not allow at its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{t} cannot stand here: {why}; expected {expected}")]
pub struct OrderError {
    /// The type that was refused.
    pub t: String,
    /// The obstacle.
    pub why: String,
    /// The entries that are allowed here.
    pub expected: String,
}

/// The condition of an entry on the branch before it.
enum Needs<'a> {
    Anything,
    NothingOpen,
    NewId(&'a str),
    OpenTool(&'a str),
    OpenAgent(&'a str),
    OpenIdUnlessAsked(&'a str, WaitingKind),
    AQuestion,
}

/// The table of conditions.
fn needs(entry: &Entry) -> Needs<'_> {
    match entry {
        Entry::UserMessage(_) | Entry::AssistantMessage(_) | Entry::Summary(_) | Entry::Finished => {
            Needs::NothingOpen
        }
        Entry::ToolCall(call) => Needs::NewId(&call.id),
        Entry::AgentCall(call) => Needs::NewId(call.correlation_id.as_deref().unwrap_or_default()),
        Entry::ToolResult(result) => Needs::OpenTool(&result.tool_call_id),
        Entry::AgentResult(result) => Needs::OpenAgent(&result.correlation_id),
        Entry::Waiting(waiting) => Needs::OpenIdUnlessAsked(&waiting.correlation_id, waiting.kind),
        Entry::UserResponse(_) => Needs::AQuestion,
        Entry::Custom(_) => Needs::Anything,
    }
}

impl Tail {
    /// The tail of entries, oldest first, from one on for which [`Tail::is_enough`] holds.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Tail {
        let mut tail = Tail::default();
        entries.into_iter().for_each(|entry| tail.note(entry));
        tail
    }

    /// Whether reading backwards may stop at this entry: nothing before it can still be open.
    pub fn is_enough(entry: &Entry) -> bool {
        matches!(needs(entry), Needs::NothingOpen)
    }

    /// Checks an entry against the table and adds it.
    pub fn append(&mut self, entry: &Entry) -> Result<(), OrderError> {
        if let Some(why) = self.objection(entry) {
            return Err(OrderError { t: entry.type_name().to_owned(), why, expected: self.expected() });
        }
        self.note(entry);
        Ok(())
    }

    fn objection(&self, entry: &Entry) -> Option<String> {
        if self.finished {
            return Some("the conversation is finished".to_owned());
        }
        let is_open = |id: &str| self.open.iter().any(|open| open.id == id);
        match needs(entry) {
            Needs::Anything => None,
            Needs::NothingOpen => self.open.first().map(|open| format!("call {:?} is still open", open.id)),
            Needs::NewId("") => Some("its id is empty".to_owned()),
            Needs::NewId(id) => is_open(id).then(|| format!("call {id:?} is already open")),
            Needs::OpenTool(id) => self.objection_to_closing(id, true),
            Needs::OpenAgent(id) => self.objection_to_closing(id, false),
            Needs::OpenIdUnlessAsked(_, WaitingKind::UserInput | WaitingKind::Llm) => None,
            Needs::OpenIdUnlessAsked(id, _) => (!is_open(id)).then(|| format!("call {id:?} is not open")),
            Needs::AQuestion => (self.questions == 0).then(|| "nothing was asked".to_owned()),
        }
    }

    fn objection_to_closing(&self, id: &str, by_tool: bool) -> Option<String> {
        match self.open.iter().find(|open| open.id == id) {
            None => Some(format!("call {id:?} is not open")),
            Some(open) if open.tool.is_some() != by_tool => {
                Some(format!("call {id:?} is {}'s", if by_tool { "an agent" } else { "a tool" }))
            }
            Some(_) => None,
        }
    }

    fn expected(&self) -> String {
        if self.finished {
            return "nothing: fork before the Finished entry to go on".to_owned();
        }
        if self.open.is_empty() {
            return "UserMessage, AssistantMessage, ToolCall, AgentCall, Summary or Finished".to_owned();
        }
        let ids: Vec<String> = self.open.iter().map(|open| format!("{:?}", open.id)).collect();
        format!("a result for {}", ids.join(", "))
    }

    /// Adds an entry that is already on the branch.
    fn note(&mut self, entry: &Entry) {
        match entry {
            Entry::ToolCall(call) => {
                self.open.push(OpenId { id: call.id.clone(), tool: Some(call.function_name.clone()) });
            }
            Entry::AgentCall(call) => {
                let id = call.correlation_id.clone().unwrap_or_default();
                self.open.push(OpenId { id, tool: None });
            }
            Entry::ToolResult(result) => self.open.retain(|open| open.id != result.tool_call_id),
            Entry::AgentResult(result) => self.open.retain(|open| open.id != result.correlation_id),
            Entry::Waiting(waiting) => self.questions += u32::from(waiting.kind == WaitingKind::UserInput),
            Entry::UserResponse(_) => self.questions = self.questions.saturating_sub(1),
            Entry::Finished => self.finished = true,
            Entry::UserMessage(_) | Entry::AssistantMessage(_) | Entry::Summary(_) => self.questions = 0,
            Entry::Custom(_) => {}
        }
    }

    /// The entries that close all open calls, so that the branch is valid for every provider.
    pub fn closing(&self, status: Closing, why: &str) -> Vec<Entry> {
        let why = serde_json::Value::String(why.to_owned());
        let close = |open: &OpenId| match &open.tool {
            Some(tool) => Entry::ToolResult(ToolResult {
                tool_call_id: open.id.clone(),
                tool_name: tool.clone(),
                result: why.clone(),
                status,
                reward: None,
                blob: None,
                untrusted: false,
                private: false,
                cause: None,
            }),
            None => Entry::AgentResult(AgentResult {
                correlation_id: open.id.clone(),
                result: why.clone(),
                score: None,
                status,
            }),
        };
        self.open.iter().map(close).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entry(t: &str) -> Entry {
        let data: Value = match t {
            "UserMessage" | "UserResponse" | "Summary" => json!({"text": "x"}),
            "AssistantMessage" => json!({"content": "x"}),
            "ToolCall" => json!({"id": "1", "function_name": "t", "arguments": {}}),
            "ToolResult" => json!({"tool_call_id": "1", "tool_name": "t", "result": 1}),
            "AgentCall" => json!({"agent_id": "a", "message": "m", "correlation_id": "2"}),
            "AgentResult" => json!({"correlation_id": "2", "result": 1}),
            "Waiting:tool" => json!({"kind": "tool", "deadline": 1.0, "correlation_id": "1"}),
            "Waiting:agent" => json!({"kind": "agent", "deadline": 1.0, "correlation_id": "2"}),
            "Waiting:approval" => json!({"kind": "approval", "deadline": 1.0, "correlation_id": "1"}),
            "Waiting:llm" => json!({"kind": "llm", "deadline": 1.0, "correlation_id": "9"}),
            "Waiting:user_input" => json!({"kind": "user_input", "deadline": 1.0, "correlation_id": "9"}),
            _ => json!({}),
        };
        Entry::from_parts(t.split(':').next().unwrap(), 1, data).unwrap()
    }

    const ALL: [&str; 15] = [
        "UserMessage",
        "UserResponse",
        "AssistantMessage",
        "Summary",
        "Finished",
        "ToolCall",
        "ToolResult",
        "AgentCall",
        "AgentResult",
        "Waiting:tool",
        "Waiting:agent",
        "Waiting:approval",
        "Waiting:llm",
        "Waiting:user_input",
        "note",
    ];

    /// For each history: exactly the entries that may come next.
    #[test]
    fn the_whole_table() {
        let quiet = "UserMessage AssistantMessage Summary Finished ToolCall AgentCall Waiting:llm Waiting:user_input note";
        let with_tool =
            "ToolResult AgentCall Waiting:tool Waiting:approval Waiting:llm Waiting:user_input note";
        let with_both = "ToolResult AgentResult Waiting:tool Waiting:agent Waiting:approval Waiting:llm Waiting:user_input note";
        let rows = [
            ("", quiet.to_owned()),
            ("UserMessage", quiet.to_owned()),
            ("AssistantMessage", quiet.to_owned()),
            ("UserMessage AssistantMessage ToolCall", with_tool.to_owned()),
            ("ToolCall AgentCall", with_both.to_owned()),
            (
                "ToolCall AgentCall ToolResult",
                "ToolCall AgentResult Waiting:agent Waiting:llm Waiting:user_input note".to_owned(),
            ),
            ("ToolCall ToolResult", quiet.to_owned()),
            ("Waiting:user_input", format!("{quiet} UserResponse")),
            ("ToolCall Waiting:user_input", format!("{with_tool} UserResponse")),
            ("ToolCall Waiting:user_input UserResponse", with_tool.to_owned()),
            ("Waiting:user_input UserMessage", quiet.to_owned()),
            ("note", quiet.to_owned()),
            ("Finished", String::new()),
        ];
        for (history, allowed) in rows {
            let history: Vec<Entry> = history.split_whitespace().map(entry).collect();
            let tail = Tail::of(&history);
            let mut expected: Vec<&str> = allowed.split_whitespace().collect();
            let mut actual: Vec<&str> =
                ALL.into_iter().filter(|t| tail.clone().append(&entry(t)).is_ok()).collect();
            expected.sort_unstable();
            actual.sort_unstable();
            assert_eq!(actual, expected, "after {history:?}");
        }
    }

    #[test]
    fn a_refusal_says_what_was_expected() {
        let mut tail = Tail::of([&entry("ToolCall")]);
        assert_eq!(
            tail.append(&entry("UserMessage")).unwrap_err().to_string(),
            "UserMessage cannot stand here: call \"1\" is still open; expected a result for \"1\""
        );
        let mut done = Tail::of([&entry("Finished")]);
        assert_eq!(
            done.append(&entry("note")).unwrap_err().to_string(),
            "note cannot stand here: the conversation is finished; expected nothing: fork before the Finished entry to go on"
        );
    }

    #[test]
    fn closing_leaves_nothing_open() {
        let mut tail = Tail::of([&entry("ToolCall"), &entry("AgentCall")]);
        for closing in tail.closing(Closing::Cancelled, "gone") {
            tail.append(&closing).unwrap();
        }
        assert_eq!(tail, Tail::default());
    }
}
