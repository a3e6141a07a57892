//! The playback of an answer that is known in advance, for the models that need no provider.
//!
//! The items are fixed when the stream is made; only the pauses happen at run time, and without them no
//! timer is needed.

use std::time::Duration;

use baton_core::chat::{ChatMessage, TokenUsage};
use baton_core::fault::Fault;
use futures_util::StreamExt;
use futures_util::stream;

use crate::port::{Delta, DeltaStream};

/// One item of a playback.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlaybackItem {
    /// Sends a delta.
    Send(Delta),
    /// Waits.
    Pause(Duration),
    /// Waits until the stream is dropped.
    Stall,
    /// Fails; nothing after it is played.
    Fail(Fault),
}

/// Plays items one after the other.
pub(crate) fn play(items: Vec<PlaybackItem>) -> DeltaStream {
    stream::unfold(items.into_iter(), |mut items| async move {
        loop {
            match items.next()? {
                PlaybackItem::Send(delta) => return Some((Ok(delta), items)),
                PlaybackItem::Pause(time) => tokio::time::sleep(time).await,
                PlaybackItem::Stall => std::future::pending().await,
                PlaybackItem::Fail(fault) => return Some((Err(fault), Vec::new().into_iter())),
            }
        }
    })
    .boxed()
}

/// A text in pieces of one word with the space after it. Together they are the text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let word = rest.len() - rest.trim_start().len();
        let word = word + rest[word..].find(char::is_whitespace).unwrap_or(rest.len() - word);
        let space = rest[word..].len() - rest[word..].trim_start().len();
        let (piece, left) = rest.split_at(word + space);
        rest = left;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The token count of models without a tokenizer: four characters are one token.
#[derive(Debug, Default)]
pub(crate) struct TokenTally {
    read: u64,
    written: u64,
}

impl TokenTally {
    /// A tally that counts the messages of a request as read.
    pub(crate) fn for_messages(messages: &[ChatMessage]) -> Self {
        let call = |call: &baton_core::chat::ChatCall| chars(&call.name) + chars(&call.arguments.to_string());
        let message = |m: &ChatMessage| chars(&m.content) + m.tool_calls.iter().map(call).sum::<u64>();
        TokenTally { read: messages.iter().map(message).sum(), written: 0 }
    }

    /// Counts a delta as written.
    pub(crate) fn add(&mut self, delta: &Delta) {
        self.written += match delta {
            Delta::Text(text) | Delta::Reasoning(text) | Delta::CallArguments { text, .. } => chars(text),
            Delta::CallStart { name, .. } => chars(name),
            Delta::Usage(_) | Delta::Finish(_) | Delta::ReasoningBlock(_) => 0,
        };
    }

    /// The usage so far. The cost is known: nothing.
    pub(crate) fn usage(&self) -> TokenUsage {
        TokenUsage {
            prompt_tokens: self.read.div_ceil(4),
            completion_tokens: self.written.div_ceil(4),
            cost_micro_usd: Some(0),
            estimated: false,
        }
    }
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::chat::{ChatCall, Role};
    use serde_json::json;

    #[test]
    fn words_keep_every_space() {
        let table: [(&str, &[&str]); 6] = [
            ("", &[]),
            ("one", &["one"]),
            ("two words", &["two ", "words"]),
            ("  lead", &["  lead"]),
            ("a \n\n  b\n", &["a \n\n  ", "b\n"]),
            (" \u{2003} ", &[" \u{2003} "]),
        ];
        for (text, pieces) in table {
            assert_eq!(words(text).collect::<Vec<_>>(), pieces, "{text:?}");
        }
    }

    #[test]
    fn four_characters_are_a_token() {
        let call = ChatCall { id: "not counted".into(), name: "ab".into(), arguments: json!({"x": 1}) };
        let messages = [
            ChatMessage::text(Role::User, "ééé"),
            ChatMessage { tool_calls: vec![call], ..ChatMessage::text(Role::Assistant, "") },
        ];
        let mut tally = TokenTally::for_messages(&messages);
        tally.add(&Delta::Text("12345".into()));
        assert_eq!(
            tally.usage(),
            TokenUsage { prompt_tokens: 3, completion_tokens: 2, cost_micro_usd: Some(0), estimated: false }
        );
    }
}
