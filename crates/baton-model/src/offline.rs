//! The offline model: it answers until a language model is connected.
//!
//! It works by rules and says so: it picks tools by the words of a request, fills in the arguments that it finds
//! there, and renders the tools' results in Markdown. The same request gets the same answer every time:
//! there is no randomness and no clock. It does not reason, has no memory beyond the messages of the request,
//! and only the latest user message can make it call a tool.

mod answer;
mod arguments;
mod choose;
mod clues;
mod conversation;
mod health;
mod markdown;
mod outline;
mod phrase;
mod property;
mod render;

use baton_core::chat::{FinishReason, TokenUsage};
use baton_core::tool::{ASK_USER, ToolSpec};
use serde_json::{Value, json};

use crate::playback::{PlaybackItem, TokenTally, play, words};
use crate::port::{Delta, DeltaStream, Model, ModelRequest};
use clues::Clues;
use conversation::Conversation;
use property::{Property, PropertyKind};

/// The built-in offline model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Offline;

impl Offline {
    /// The model; it has no settings.
    pub fn new() -> Self {
        Offline
    }
}

impl Model for Offline {
    fn name(&self) -> String {
        "offline".to_owned()
    }

    fn stream(&self, request: ModelRequest) -> DeltaStream {
        let mut deltas = match decide(&request) {
            OfflineAction::Call(calls) => called(calls),
            OfflineAction::Say(text) => said(&text, request.max_tokens),
        };
        let mut tally = TokenTally::for_messages(&request.messages);
        deltas.iter().for_each(|delta| tally.add(delta));
        let last = deltas.len() - 1; // both branches end with a finish
        deltas.insert(last, Delta::Usage(tally.usage()));
        play(deltas.into_iter().map(PlaybackItem::Send).collect())
    }

    fn cost(&self, _: &TokenUsage) -> Option<u64> {
        Some(0)
    }
}

/// The model's next action.
#[derive(Debug, PartialEq)]
enum OfflineAction {
    Call(Vec<(String, Value)>),
    Say(String),
}

fn decide(request: &ModelRequest) -> OfflineAction {
    let situation = Conversation::of(&request.messages);
    if !situation.only_answered() {
        return OfflineAction::Say(answer::results(&situation));
    }
    let free: Vec<&ToolSpec> = request.tools.iter().filter(|tool| !situation.has_asked(&tool.name)).collect();
    let clues = Clues::of(situation.user);
    let said = situation.answer();
    let mut calls = Vec::new();
    let mut lacking = None;
    for (at, tool) in choose::choose(&clues, &free).into_iter().enumerate() {
        let first = at == 0;
        match arguments::fill(tool, &clues, first, said.as_deref().filter(|_| first)) {
            Ok(arguments) => calls.push((tool.name.clone(), arguments)),
            Err(missing) if first => lacking = Some((tool, missing)),
            Err(_) => {}
        }
    }
    let asking = free.iter().find(|tool| tool.name == ASK_USER);
    match (lacking, asking) {
        // The question comes before any call: with its answer all tools are called at once.
        (Some((tool, missing)), Some(ask)) => {
            let question = answer::question(situation.user, tool, &missing);
            OfflineAction::Call(vec![(ASK_USER.to_owned(), asked(ask, question))])
        }
        (Some((tool, missing)), None) if calls.is_empty() => {
            OfflineAction::Say(answer::lacking(tool, &missing))
        }
        (None, _) if calls.is_empty() => OfflineAction::Say(answer::abilities(&request.tools)),
        _ => OfflineAction::Call(calls),
    }
}

/// A question under the name that the tool's schema gives it.
fn asked(ask: &ToolSpec, question: String) -> Value {
    let properties = Property::all(&ask.input_schema);
    let takes_text = |property: &&Property<'_>| property.required && property.kind() == PropertyKind::Text;
    let name = properties.iter().find(takes_text).map_or("question", |property| property.name);
    json!({ name: question })
}

fn called(calls: Vec<(String, Value)>) -> Vec<Delta> {
    let mut deltas = Vec::new();
    for (index, (name, arguments)) in (0..).zip(calls) {
        deltas.push(Delta::CallStart { index, id: None, name });
        deltas.push(Delta::CallArguments { index, text: arguments.to_string() });
    }
    deltas.push(Delta::Finish(FinishReason::ToolCalls));
    deltas
}

fn said(text: &str, max_tokens: u64) -> Vec<Delta> {
    // Tokens are counted as four characters, so they are limited as that too.
    let limit = usize::try_from(max_tokens.saturating_mul(4)).unwrap_or(usize::MAX);
    let (shown, finish) = match text.char_indices().nth(limit) {
        Some((end, _)) => (&text[..end], FinishReason::Length),
        None => (text, FinishReason::Stop),
    };
    let mut deltas: Vec<Delta> = words(shown).map(|word| Delta::Text(word.to_owned())).collect();
    deltas.push(Delta::Finish(finish));
    deltas
}

#[cfg(test)]
mod tests;
