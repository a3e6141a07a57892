//! The playback of a reply's items: pieces, placeholders, the token count and the implied finish.

use std::ops::ControlFlow;
use std::time::Duration;

use baton_core::chat::{ChatMessage, FinishReason, Role};

use super::script::ScriptItem;
use crate::playback::{PlaybackItem, TokenTally, words};
use crate::port::{Delta, ModelRequest};

/// The playback of one reply to one request.
pub(super) fn playback(items: &[ScriptItem], request: &ModelRequest, piece: Duration) -> Vec<PlaybackItem> {
    let mut player = ScriptPlayer {
        playback: Vec::new(),
        tally: TokenTally::for_messages(&request.messages),
        piece,
        calls: 0,
        usage_given: items.iter().any(|item| matches!(item, ScriptItem::Usage(_))),
        finished: false,
    };
    let has_calls = items.iter().any(|item| matches!(item, ScriptItem::Call { .. }));
    // A real model cannot call tools that are not offered: forced to answer, it can only write text.
    let words_only = request.tools.is_empty() && has_calls;
    player.usage_given &= !words_only;
    for item in items {
        if words_only && !matches!(item, ScriptItem::Text(_)) {
            continue;
        }
        if player.item(item, request).is_break() {
            return player.playback;
        }
    }
    if !player.finished {
        player.finish(if player.calls > 0 { FinishReason::ToolCalls } else { FinishReason::Stop });
    }
    player.playback
}

struct ScriptPlayer {
    playback: Vec<PlaybackItem>,
    tally: TokenTally,
    piece: Duration,
    calls: u32,
    usage_given: bool,
    finished: bool,
}

impl ScriptPlayer {
    /// Plays one item; a break where nothing is played after it.
    fn item(&mut self, item: &ScriptItem, request: &ModelRequest) -> ControlFlow<()> {
        match item {
            ScriptItem::Text(text) => {
                for word in words(&filled(text, &request.messages)) {
                    self.paced(Delta::Text(word.to_owned()));
                }
            }
            ScriptItem::Reasoning(text) => {
                for word in words(text) {
                    self.paced(Delta::Reasoning(word.to_owned()));
                }
            }
            ScriptItem::Call { name, arguments, id, split } => self.call(name, arguments, id.clone(), *split),
            ScriptItem::Pause(time) => self.playback.push(PlaybackItem::Pause(*time)),
            ScriptItem::Stall => {
                self.playback.push(PlaybackItem::Stall);
                return ControlFlow::Break(());
            }
            ScriptItem::Error { until_attempt: Some(last), .. } if request.attempt > *last => {}
            ScriptItem::Error { fault, .. } => {
                self.playback.push(PlaybackItem::Fail(fault.clone()));
                return ControlFlow::Break(());
            }
            ScriptItem::Usage(usage) => self.send(Delta::Usage(*usage)),
            ScriptItem::Finish(reason) => self.finish(*reason),
            ScriptItem::Cut => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    }

    fn call(&mut self, name: &str, arguments: &str, id: Option<String>, split: bool) {
        let index = self.calls;
        self.calls += 1;
        self.send(Delta::CallStart { index, id, name: name.to_owned() });
        if split {
            for c in arguments.chars() {
                self.paced(Delta::CallArguments { index, text: c.to_string() });
            }
        } else {
            self.send(Delta::CallArguments { index, text: arguments.to_owned() });
        }
    }

    fn finish(&mut self, reason: FinishReason) {
        if !self.usage_given {
            self.send(Delta::Usage(self.tally.usage()));
        }
        self.send(Delta::Finish(reason));
        self.finished = true;
    }

    fn paced(&mut self, delta: Delta) {
        if !self.piece.is_zero() {
            self.playback.push(PlaybackItem::Pause(self.piece));
        }
        self.send(delta);
    }

    fn send(&mut self, delta: Delta) {
        self.tally.add(&delta);
        self.playback.push(PlaybackItem::Send(delta));
    }
}

/// The text with its placeholders filled in, in one pass, so that text of a user or a tool is never a template.
fn filled(text: &str, messages: &[ChatMessage]) -> String {
    let latest = messages.iter().rposition(|m| m.role == Role::User);
    let user = latest.map_or("", |at| messages[at].content.as_str());
    let since = latest.map_or(messages, |at| &messages[at..]);
    let results: Vec<&str> =
        since.iter().filter(|m| m.role == Role::Tool).map(|m| m.content.as_str()).collect();

    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if let Some(after) = rest.strip_prefix("{user}") {
            out.push_str(user);
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{last_result}") {
            out.push_str(results.last().copied().unwrap_or_default());
            rest = after;
        } else if let Some(after) = rest.strip_prefix("{results}") {
            out.push_str(&results.join("\n"));
            rest = after;
        } else {
            out.push('{');
            rest = &rest[1..];
        }
    }
    out.push_str(rest);
    out
}
