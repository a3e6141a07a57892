//! Threads to render.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::chat::ChatMessage;
use crate::effect::View;
use crate::render::{Look, RenderPolicy, Window, chosen, messages};
use crate::thread::{Entry, Tail};

pub(super) fn entry(t: &str, data: Value) -> Entry {
    Entry::from_stored(t, 1, data).unwrap()
}

pub(super) fn user(text: &str) -> Entry {
    entry("UserMessage", json!({"text": text}))
}

pub(super) fn steering(text: &str) -> Entry {
    entry("UserMessage", json!({"text": text, "meta": "steering"}))
}

pub(super) fn says(content: &str) -> Entry {
    entry("AssistantMessage", json!({"content": content}))
}

pub(super) fn failed(content: &str) -> Entry {
    entry("AssistantMessage", json!({"content": content, "meta": "error:llm_server"}))
}

pub(super) fn call(id: &str) -> Entry {
    entry("ToolCall", json!({"id": id, "function_name": "look", "arguments": {}}))
}

pub(super) fn result(id: &str, text: &str) -> Entry {
    entry("ToolResult", json!({"tool_call_id": id, "tool_name": "look", "result": text}))
}

pub(super) fn summary(text: &str, up_to: Option<i64>) -> Entry {
    match up_to {
        Some(up_to) => entry("Summary", json!({"text": text, "up_to": up_to})),
        None => entry("Summary", json!({"text": text})),
    }
}

pub(super) fn note() -> Entry {
    entry("note", json!({"about": "nothing that a model sees"}))
}

/// One token a character, so that tests can count.
pub(super) fn count(text: &str) -> u64 {
    text.chars().count() as u64
}

/// The input of a window over a whole thread.
pub(super) fn look(entries: &[Entry], policy: RenderPolicy, room: Option<u64>) -> Look<'_> {
    Look { entries, from: 0, policy, last_n: None, room, view: View::default(), count: &count }
}

/// The messages of a window.
pub(super) fn rendered(look: &Look<'_>, window: &Window) -> Vec<ChatMessage> {
    let Window::From { first, summary, question, .. } = window else { panic!("{window:?}") };
    messages("", chosen(look.entries, look.from, *first, [*summary, *question], &[]))
}

/// The same as texts that can be compared byte for byte.
pub(super) fn bytes(messages: &[ChatMessage]) -> Vec<String> {
    messages.iter().map(|message| serde_json::to_string(message).unwrap()).collect()
}

/// A piece of a thread: a turn's question, an answer, calls with their results in some order, or an entry
/// that other clients may write in between.
#[derive(Debug, Clone)]
pub(super) enum Piece {
    Question(usize),
    Answer(usize),
    Failure,
    Steering(usize),
    Calls { text: usize, lengths: Vec<usize>, backwards: bool, agent: bool },
    Bare(usize),
    Note,
    Remark(usize),
    Summary { back: usize, length: usize },
}

fn length() -> std::ops::Range<usize> {
    0..60
}

/// The piece of a model's answer within a turn: calls, or a text that a steering message follows.
pub(super) fn any_round() -> impl Strategy<Value = Piece> {
    let calls = (length(), prop::collection::vec(0usize..90, 1..4), any::<bool>(), any::<bool>());
    prop_oneof![
        4 => length().prop_map(Piece::Answer),
        6 => calls.prop_map(|(text, lengths, backwards, agent)| Piece::Calls { text, lengths, backwards, agent }),
    ]
}

/// A piece that other clients may write between two turns.
pub(super) fn any_aside() -> impl Strategy<Value = Piece> {
    prop_oneof![
        Just(Piece::Note),
        length().prop_map(Piece::Remark),
        length().prop_map(Piece::Bare),
        (0usize..12, length()).prop_map(|(back, length)| Piece::Summary { back, length }),
    ]
}

/// Any piece.
pub(super) fn any_piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        4 => length().prop_map(Piece::Question),
        10 => any_round(),
        4 => any_aside(),
        1 => Just(Piece::Failure),
        1 => length().prop_map(Piece::Steering),
    ]
}

/// A thread that grows by pieces, each at a place that the order allows.
#[derive(Default)]
pub(super) struct Growing {
    pub(super) entries: Vec<Entry>,
    tail: Tail,
}

impl Growing {
    pub(super) fn push(&mut self, entry: Entry) {
        self.tail.append(&entry).unwrap();
        self.entries.push(entry);
    }

    /// A text that no other entry has.
    pub(super) fn text(&self, length: usize) -> String {
        format!("{}:{}", self.entries.len(), "x".repeat(length))
    }

    pub(super) fn grow(&mut self, piece: &Piece) {
        match piece {
            Piece::Question(length) => self.push(user(&self.text(*length))),
            Piece::Answer(length) => self.push(says(&self.text(*length))),
            Piece::Failure => self.push(failed(&self.text(0))),
            Piece::Steering(length) => self.push(steering(&self.text(*length))),
            Piece::Calls { text, lengths, backwards, agent } => {
                self.push(says(&self.text(*text)));
                self.calls(lengths, *backwards, *agent);
            }
            Piece::Bare(length) => self.calls(&[*length], false, false),
            Piece::Note => self.push(note()),
            Piece::Remark(length) => self.push(summary(&self.text(*length), None)),
            Piece::Summary { back, length } => {
                let up_to = self.entries.len() as i64 - 1 - *back as i64;
                self.push(summary(&self.text(*length), Some(up_to)));
            }
        }
    }

    /// Calls side by side, a remark among them, and their results.
    fn calls(&mut self, lengths: &[usize], backwards: bool, agent: bool) {
        let base = self.entries.len();
        let id = |at: usize| format!("{base}-{at}");
        for at in 0..lengths.len() {
            if agent {
                let data = json!({"agent_id": "a", "message": "m", "correlation_id": id(at)});
                self.push(entry("AgentCall", data));
            } else {
                self.push(call(&id(at)));
            }
        }
        self.push(note());
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        if backwards {
            order.reverse();
        }
        for at in order {
            let text = self.text(lengths[at]);
            if agent {
                self.push(entry("AgentResult", json!({"correlation_id": id(at), "result": text})));
            } else {
                self.push(result(&id(at), &text));
            }
        }
    }
}

/// Checks `cases` threads, the same ones every time; twenty times as many in a full run.
pub(super) fn for_any<S: Strategy>(cases: u32, strategy: S, check: impl Fn(S::Value)) {
    let full = std::env::var_os("BATON_FULL").is_some_and(|value| value == "1");
    let cases = if full { 20 * cases } else { cases };
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let run = TestRunner::new_with_rng(config, rng).run(&strategy, |value| {
        check(value);
        Ok(())
    });
    if let Err(error) = run {
        panic!("{error}");
    }
}
