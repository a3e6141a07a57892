//! A revision replaces the answer before it.

use serde_json::{Value, json};

use super::threads::{call, entry, note, result, says, summary, user};
use crate::chat::Reasoning;
use crate::render::{REVISION, chosen, messages};
use crate::thread::Entry;

fn revised(content: &str) -> Entry {
    entry("AssistantMessage", json!({"content": content, "meta": REVISION}))
}

fn shown(entries: &[Entry]) -> Value {
    serde_json::to_value(messages("", entries)).unwrap()
}

fn said(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

#[test]
fn a_draft_is_not_shown_again() {
    let entries = [user("six by seven?"), says("forty"), revised("forty-two"), user("thanks")];
    assert_eq!(
        shown(&entries),
        json!([said("user", "six by seven?"), said("assistant", "forty-two"), said("user", "thanks")])
    );
}

#[test]
fn until_there_is_a_revision_the_draft_is() {
    let entries = [user("six by seven?"), says("forty")];
    assert_eq!(shown(&entries), json!([said("user", "six by seven?"), said("assistant", "forty")]));
}

#[test]
fn what_no_model_sees_may_stand_between_them() {
    let plan = entry("baton.plan", json!({"plan": []}));
    let entries = [user("?"), says("forty"), note(), plan, revised("forty-two")];
    assert_eq!(shown(&entries), json!([said("user", "?"), said("assistant", "forty-two")]));

    let entries = [user("?"), says("forty"), summary("in short", Some(0)), revised("forty-two")];
    let window = chosen(&entries, 0, 1, [Some(2), Some(0)], &[]);
    assert_eq!(
        serde_json::to_value(messages("", window)).unwrap(),
        json!([
            said("user", &crate::render::summarised("in short")),
            said("user", "?"),
            said("assistant", "forty-two")
        ])
    );
}

#[test]
fn calls_and_their_results_stay() {
    let entries =
        [user("?"), says("on it"), call("1"), result("1", "6 * 7"), says("forty"), revised("forty-two")];
    let calls = json!([{"id": "1", "name": "look", "arguments": {}}]);
    let asked = json!({"role": "assistant", "content": "on it", "tool_calls": calls});
    let found = json!({"role": "tool", "content": "6 * 7", "tool_call_id": "1"});
    assert_eq!(shown(&entries), json!([said("user", "?"), asked, found, said("assistant", "forty-two")]));

    let odd = [user("?"), says("on it"), call("1"), revised("forty-two")];
    let open = json!({"role": "tool", "content": "Unknown outcome: no result yet", "tool_call_id": "1"});
    assert_eq!(
        shown(&odd),
        json!([
            said("user", "?"),
            json!({"role": "assistant", "content": "on it", "tool_calls": calls}),
            open,
            said("assistant", "forty-two")
        ])
    );
}

#[test]
fn a_window_may_begin_with_it() {
    assert_eq!(shown(&[revised("forty-two")]), json!([said("assistant", "forty-two")]));
    let entries = [user("?"), revised("forty-two")];
    assert_eq!(
        shown(&entries),
        json!([said("user", "?"), said("assistant", "forty-two")]),
        "it takes no question"
    );
}

#[test]
fn what_was_thought_of_the_draft_goes_with_it() {
    let thought = |block: &str| {
        let reasoning =
            Reasoning { model: "a/m".to_owned(), wire: "w".to_owned(), blocks: vec![json!(block)] };
        Some(reasoning)
    };
    let thinks = |content: &str, meta: Option<&str>, block: &str| {
        entry("AssistantMessage", json!({"content": content, "meta": meta, "reasoning": thought(block)}))
    };
    let entries = [user("?"), thinks("forty", None, "hm"), thinks("forty-two", Some(REVISION), "aha")];
    let private: Vec<_> = messages("", &entries).into_iter().map(|message| message.reasoning).collect();
    assert_eq!(private, [None, thought("aha")]);
}
