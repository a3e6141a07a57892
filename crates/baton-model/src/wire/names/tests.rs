use std::collections::BTreeSet;

use baton_core::chat::{ChatCall, ChatMessage, Role};
use baton_core::tool::{EffectClass, ToolSpec};
use proptest::prelude::*;
use serde_json::json;

use super::{WireNames, fits};

fn tools(names: &[impl AsRef<str>]) -> Vec<ToolSpec> {
    let tool = |name: &str| ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1000,
        ..ToolSpec::default()
    };
    names.iter().map(|name| tool(name.as_ref())).collect()
}

/// A history of calls, each a name and an id, and their results.
fn history(calls: &[(impl AsRef<str>, impl AsRef<str>)]) -> Vec<ChatMessage> {
    let said = |name: &str, id: &str| {
        let call = ChatCall { id: id.to_owned(), name: name.to_owned(), arguments: json!({}) };
        let asked = ChatMessage { tool_calls: vec![call], ..ChatMessage::text(Role::Assistant, "") };
        [asked, ChatMessage { tool_call_id: Some(id.to_owned()), ..ChatMessage::text(Role::Tool, "done") }]
    };
    calls.iter().flat_map(|(name, id)| said(name.as_ref(), id.as_ref())).collect()
}

const NOTHING: [(&str, &str); 0] = [];

#[test]
fn names_that_fit_stay_and_dots_become_underscores() {
    let names =
        WireNames::new(&tools(&["plain-1_A", "exec.calculator", "a.b.c"]), &history(&[("old.one", "i-1")]));
    let table = [
        ("plain-1_A", "plain-1_A"),
        ("exec.calculator", "exec__calculator"),
        ("a.b.c", "a__b__c"),
        ("old.one", "old__one"),
    ];
    for (ours, theirs) in table {
        assert_eq!((names.to_provider(ours), names.from_provider(theirs)), (theirs, ours));
    }
    assert_eq!(names.call_id("i-1"), "i-1");
}

#[test]
fn a_name_that_is_taken_too_long_or_strange_gets_a_hash() {
    let long = "x".repeat(65);
    let offered = tools(&["a.b", "a__b", &long, "c.d__e", "c__d.e"]);
    let names = WireNames::new(
        &offered,
        &history(&[("", "1"), ("sag: Grüße! 🦀", "2"), ("a..b", "3"), ("a____b", "4")]),
    );
    let cut = format!("{}_9537c5fd", "x".repeat(55));
    let table = [
        ("a__b", "a__b"), // its own name wins, though it comes second
        ("a.b", "a__b_2e7336dc"),
        (&long, &cut),
        ("c.d__e", "c__d__e"),
        ("c__d.e", "c__d__e_5cb63c61"),
        ("", "_e3b0c442"),
        ("sag: Grüße! 🦀", "sag__Gr__e____6ec2f6df"),
        ("a..b", "a____b"),
        ("a____b", "a____b_bccb6474"),
    ];
    for (ours, theirs) in table {
        assert_eq!((names.to_provider(ours), names.from_provider(names.to_provider(ours))), (theirs, ours));
    }
}

#[test]
fn a_hash_that_is_taken_is_not_used() {
    let hashed = WireNames::new(&tools(&["a b"]), &[]).to_provider("a b").to_owned();
    let names = WireNames::new(&tools(&["a b", &hashed]), &[]);
    assert_eq!(names.to_provider(&hashed), hashed);
    assert_eq!(names.from_provider(names.to_provider("a b")), "a b");
    assert!(fits(names.to_provider("a b"), 64) && names.to_provider("a b") != hashed);
}

#[test]
fn unknown_names_stay_as_they_are() {
    let names = WireNames::new(&tools(&["a.b"]), &[]);
    assert_eq!(
        (names.to_provider("c.d"), names.from_provider("c__d"), names.from_provider("a.b")),
        ("c.d", "c__d", "a.b")
    );
}

#[test]
fn ids_of_calls_fit_the_strictest_provider() {
    let (longest, longer) = ("f".repeat(40), "f".repeat(41));
    let ids = ["00000000000000000000000000000007-2-0-5", &longest, &longer, "call:1", "", "toolu_01A.b"];
    let names = WireNames::new(&[], &history(&ids.map(|id| ("t", id))));
    let expected = [
        "00000000000000000000000000000007-2-0-5",
        &longest,
        "fffffffffffffffffffffffffffffff_d5d8fc89",
        "call_1_0af63155",
        "_e3b0c442",
        "toolu_01A__b",
    ];
    assert_eq!(ids.map(|id| names.call_id(id)), expected.map(str::to_owned));
    assert_eq!(ids.map(|id| WireNames::default().call_id(id)), expected.map(str::to_owned));
}

fn written() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ab]{0,2}(\\.|__|_)?[ab.]{0,2}",
        1 => "\\PC{0,80}",
        1 => "[a-z._-]{50,90}",
    ]
}

proptest! {
    #[test]
    fn no_two_names_become_one_and_each_comes_back(
        offered in prop::collection::vec(written(), 0..8),
        said in prop::collection::vec((written(), written()), 0..12),
    ) {
        let names = WireNames::new(&tools(&offered), &history(&said));
        let ours: BTreeSet<&str> = offered.iter().chain(said.iter().map(|(name, _)| name)).map(String::as_str).collect();
        let theirs: BTreeSet<&str> = ours.iter().map(|name| names.to_provider(name)).collect();
        prop_assert_eq!(ours.len(), theirs.len());
        for name in &ours {
            prop_assert!(fits(names.to_provider(name), 64));
            prop_assert_eq!(names.from_provider(names.to_provider(name)), *name);
        }
        let ids: BTreeSet<&str> = said.iter().map(|(_, id)| id.as_str()).collect();
        let called: BTreeSet<String> = ids.iter().map(|id| names.call_id(id)).collect();
        prop_assert_eq!(ids.len(), called.len());
        prop_assert!(called.iter().all(|id| fits(id, 40)));
    }

    #[test]
    fn names_stay_the_same_as_the_history_grows(
        offered in prop::collection::vec(written(), 0..8),
        said in prop::collection::vec((written(), written()), 1..12),
        at in any::<prop::sample::Index>(),
    ) {
        let tools = tools(&offered);
        let (earlier, whole) = (&said[..at.index(said.len())], WireNames::new(&tools, &history(&said)));
        let before = WireNames::new(&tools, &history(earlier));
        let alone = WireNames::new(&tools, &history(&NOTHING));
        for name in &offered {
            prop_assert_eq!(alone.to_provider(name), whole.to_provider(name));
        }
        for (name, id) in earlier {
            prop_assert_eq!(before.to_provider(name), whole.to_provider(name));
            prop_assert_eq!(before.call_id(id), whole.call_id(id));
        }
    }
}
