//! Names of tools and ids of calls.

use std::collections::BTreeMap;

use baton_core::chat::{ChatCall, ChatMessage, Role};
use baton_model::wire::WireNames;
use serde_json::json;

use crate::tool;

/// Any names, offered and in a history, become names that providers take, each its own and each back to
/// what it was; and what is said later changes nothing. An input is lines: `t` and the name of an offered
/// tool, `c` and the name and id of a call, anything else and the id of a call that is answered.
pub fn check(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let lines = || text.split('\n').filter_map(|line| line.split_at_checked(1));
    let of_kind = |kind| lines().filter(move |(first, _)| *first == kind).map(|(_, name)| name);
    let tools: Vec<_> = of_kind("t").map(tool).collect();
    let messages: Vec<_> =
        lines().filter(|(kind, _)| *kind != "t").map(|(kind, it)| said(kind, it)).collect();
    let names = WireNames::new(&tools, &messages);

    let mut theirs = BTreeMap::new();
    for ours in of_kind("t").chain(of_kind("c")) {
        let mapped = names.to_provider(ours);
        assert!(is_taken(mapped, 64), "{ours:?} became {mapped:?}");
        assert_eq!(names.from_provider(mapped), ours, "{mapped:?} goes back to another");
        assert_eq!(*theirs.entry(mapped).or_insert(ours), ours, "two became {mapped:?}");
    }
    let mut ids = BTreeMap::new();
    for ours in messages.iter().flat_map(ids_of) {
        let mapped = names.call_id(ours);
        assert!(is_taken(&mapped, 40), "{ours:?} became {mapped:?}");
        assert_eq!(*ids.entry(mapped.clone()).or_insert(ours), ours, "two became {mapped:?}");
    }
    for offered in of_kind("t").filter(|name| is_taken(name, 64)) {
        assert_eq!(names.to_provider(offered), offered, "it fitted");
    }
    stays(&tools, &messages, &names);
}

/// With less said, what is known is called the same.
fn stays(tools: &[baton_core::tool::ToolSpec], messages: &[ChatMessage], all: &WireNames) {
    let before = &messages[..messages.len() / 2];
    let earlier = WireNames::new(tools, before);
    for name in tools.iter().map(|tool| tool.name.as_str()).chain(before.iter().flat_map(names_of)) {
        assert_eq!(earlier.to_provider(name), all.to_provider(name));
    }
    for id in before.iter().flat_map(ids_of) {
        assert_eq!(earlier.call_id(id), all.call_id(id));
    }
}

fn said(kind: &str, it: &str) -> ChatMessage {
    if kind == "c" {
        let call = ChatCall { id: it.to_owned(), name: it.to_owned(), arguments: json!({}) };
        return ChatMessage { tool_calls: vec![call], ..ChatMessage::text(Role::Assistant, "") };
    }
    ChatMessage { tool_call_id: Some(it.to_owned()), ..ChatMessage::text(Role::Tool, "") }
}

fn names_of(message: &ChatMessage) -> impl Iterator<Item = &str> {
    message.tool_calls.iter().map(|call| call.name.as_str())
}

fn ids_of(message: &ChatMessage) -> impl Iterator<Item = &str> {
    message.tool_calls.iter().map(|call| call.id.as_str()).chain(message.tool_call_id.as_deref())
}

/// Whether the strictest provider takes it.
fn is_taken(name: &str, longest: usize) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=longest).contains(&name.len()) && name.chars().all(is_plain)
}
