//! A script, and the choice of the reply to a request.

use std::time::Duration;

use baton_core::chat::{ChatMessage, FinishReason, Role, TokenUsage};
use baton_core::fault::{Code, Fault};
use baton_core::json::cut;

/// A script.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Script {
    /// The pause before each piece.
    pub(super) piece: Duration,
    /// The replies in the order of the file.
    pub(super) replies: Vec<ScriptedReply>,
    /// The items that are played where no reply is left.
    pub(super) otherwise: Option<Vec<ScriptItem>>,
}

/// One reply.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ScriptedReply {
    /// Text that the latest user message must contain.
    pub(super) matches: Option<String>,
    /// The items in their order.
    pub(super) items: Vec<ScriptItem>,
}

/// One thing that a reply does.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ScriptItem {
    Text(String),
    Reasoning(String),
    Call { name: String, arguments: String, id: Option<String>, split: bool },
    Pause(Duration),
    Stall,
    Error { fault: Fault, until_attempt: Option<u32> },
    Usage(TokenUsage),
    Finish(FinishReason),
    Cut,
}

impl Script {
    /// The reply to these messages. It depends on them alone; the parent module says why.
    pub(super) fn choose(&self, messages: &[ChatMessage]) -> Result<&[ScriptItem], Fault> {
        let latest = messages.iter().rposition(|m| m.role == Role::User);
        let user = latest.map_or("", |at| messages[at].content.as_str());
        let by_match = self.replies.iter().any(|reply| reply.matches.is_some());
        let counted = if by_match { latest.map_or(messages, |at| &messages[at..]) } else { messages };
        let k = counted.iter().filter(|m| m.role == Role::Assistant).count();

        let fits = |reply: &&ScriptedReply| reply.matches.as_ref().is_none_or(|part| user.contains(part));
        let chosen = self.replies.iter().filter(fits).nth(k).map(|reply| &reply.items);
        match chosen.or(self.otherwise.as_ref()) {
            Some(items) => Ok(items),
            None => {
                let count = self.replies.iter().filter(fits).count();
                Err(no_reply(k, user, count))
            }
        }
    }
}

fn no_reply(k: usize, user: &str, count: usize) -> Fault {
    let shown = cut(user, 200);
    let message = format!(
        "the script has no reply {k} (counted from 0) to the user's message {shown:?}: {count} of its replies fit; \
         add one more, or an \"otherwise\""
    );
    Fault::new(Code::LlmInvalidResponse, message)
}
