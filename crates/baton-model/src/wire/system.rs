//! System messages: every format takes one, at the beginning.
//!
//! Several at the beginning become one text. A later one, such as a remark of the engine's, stays at
//! its place and becomes a user message with a tag around it: many servers' templates refuse a second system
//! message, and in the first one it would change the very beginning of the prompt, which caches are keyed
//! by. Blank messages are left out.

use baton_core::chat::{ChatMessage, Role};

/// The text of the system messages at the beginning, none if they are blank, and the messages after them.
pub(super) fn split(messages: &[ChatMessage]) -> (Option<String>, &[ChatMessage]) {
    let leading = messages.iter().take_while(|message| message.role == Role::System).count();
    let (leading, rest) = messages.split_at(leading);
    let texts = leading.iter().map(|message| message.content.as_str());
    let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
    ((!texts.is_empty()).then(|| texts.join("\n\n")), rest)
}

/// A later system message as the text of a user message.
pub(super) fn inline(content: &str) -> Option<String> {
    (!content.trim().is_empty()).then(|| format!("<system_message>\n{content}\n</system_message>"))
}
