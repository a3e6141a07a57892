//! Items become beats: pieces, placeholders, the count of tokens and the finish that is left out.

use std::time::Duration;

use baton_core::chat::{ChatMessage, FinishReason, Role};

use super::script::Item;
use crate::playback::{Beat, Tally, words};
use crate::port::{Delta, ModelRequest};

/// The playback of one reply to one request.
pub(super) fn beats(items: &[Item], request: &ModelRequest, piece: Duration) -> Vec<Beat> {
    let mut player = Player {
        beats: Vec::new(),
        tally: Tally::of(&request.messages),
        piece,
        calls: 0,
        usage_given: items.iter().any(|item| matches!(item, Item::Usage(_))),
        finished: false,
    };
    let has_calls = items.iter().any(|item| matches!(item, Item::Call { .. }));
    // A real model cannot call what it is not offered: forced to answer, it has only its words.
    let words_only = request.tools.is_empty() && has_calls;
    player.usage_given &= !words_only;
    for item in items {
        if words_only && !matches!(item, Item::Text(_)) {
            continue;
        }
        if player.item(item, request) == Then::Nothing {
            return player.beats;
        }
    }
    if !player.finished {
        player.finish(if player.calls > 0 { FinishReason::ToolCalls } else { FinishReason::Stop });
    }
    player.beats
}

/// Whether anything comes after an item.
#[derive(PartialEq)]
enum Then {
    More,
    Nothing,
}

struct Player {
    beats: Vec<Beat>,
    tally: Tally,
    piece: Duration,
    calls: u32,
    usage_given: bool,
    finished: bool,
}

impl Player {
    fn item(&mut self, item: &Item, request: &ModelRequest) -> Then {
        match item {
            Item::Text(text) => {
                for word in words(&filled(text, &request.messages)) {
                    self.paced(Delta::Text(word.to_owned()));
                }
            }
            Item::Reasoning(text) => {
                for word in words(text) {
                    self.paced(Delta::Reasoning(word.to_owned()));
                }
            }
            Item::Call { name, arguments, id, split } => self.call(name, arguments, id.clone(), *split),
            Item::Pause(time) => self.beats.push(Beat::Pause(*time)),
            Item::Stall => {
                self.beats.push(Beat::Stall);
                return Then::Nothing;
            }
            Item::Error { until_attempt: Some(last), .. } if request.attempt > *last => {}
            Item::Error { fault, .. } => {
                self.beats.push(Beat::Fail(fault.clone()));
                return Then::Nothing;
            }
            Item::Usage(usage) => self.send(Delta::Usage(*usage)),
            Item::Finish(reason) => self.finish(*reason),
            Item::Cut => return Then::Nothing,
        }
        Then::More
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
            self.beats.push(Beat::Pause(self.piece));
        }
        self.send(delta);
    }

    fn send(&mut self, delta: Delta) {
        self.tally.wrote(&delta);
        self.beats.push(Beat::Send(delta));
    }
}

/// The text with its placeholders filled in, in one pass: what a user or a tool said is never a template.
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
