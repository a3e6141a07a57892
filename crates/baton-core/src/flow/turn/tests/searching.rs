//! A request that asks to look something up searches first, by rule.

use serde_json::json;

use super::decisions::{by, chat, decide, runs, worked};
use super::drive::{Drive, call_id, failed, ok, text};
use crate::run::{Choice, Verdict};

#[test]
fn a_request_to_look_something_up_searches_first() {
    let mut drive = Drive::told(chat(), "Please look up the height of K2.");
    let arguments = json!({"query": "the height of K2"});
    assert_eq!(
        drive.said(),
        json!([
            {"UserMessage": {"text": "Please look up the height of K2."}},
            {"AssistantMessage": {"content": "", "meta": "rule", "tool_calls": [{"id": "#0", "name": "search", "arguments": arguments}]}},
            {"ToolCall": {"id": "#0", "function_name": "search", "arguments": arguments}},
        ])
    );
    assert_eq!(
        drive.shown(),
        json!([{"type": "tool_start", "name": "search", "args": arguments, "call_id": "#0"}])
    );
    assert_eq!(drive.wants(), [runs(0, "search", 2, 0)]);
    drive.outcome(0, ok("8611 m"));
    assert_eq!(drive.account(), json!([worked(0, "search", Some("the request asks to look something up"))]));
    assert_eq!(drive.asked_for(), "reasoning: answer with tools");
    drive.reply(by("a/big", text("8611 m")));
    assert_eq!(
        drive.told_steps(),
        [
            "tool_call: search worked (the request asks to look something up)",
            "llm_call as reasoning: a/big answered (an open request)"
        ]
    );
    assert_eq!((drive.verdict(), drive.warnings()), (Verdict::Ok, vec![]));
}

#[test]
fn a_search_by_rule_is_no_round() {
    for (iterations, offered) in [(0, false), (1, true)] {
        let mut definition = chat();
        definition.decision.limits.iterations = iterations;
        let mut drive = Drive::told(definition, "Look up K2");
        drive.outcome(0, ok("8611 m"));
        assert_eq!(drive.model().2, offered);
        if offered {
            drive.round(&[("look", json!({}))]);
            assert!(!drive.model().2);
        }
        drive.reply(text("8611 m"));
        assert_eq!(drive.verdict(), Verdict::Ok);
    }
}

#[test]
fn a_search_that_fails_is_told_to_whoever_answers() {
    let mut drive = Drive::told(chat(), "Look up K2");
    drive.outcome(0, failed("no network"));
    let error = json!({"ToolResult": {"tool_call_id": "#0", "tool_name": "search", "result": "no network", "status": "error", "untrusted": true}});
    assert_eq!(
        (drive.said(), drive.asked_for()),
        (json!([error]), "reasoning: answer with tools".to_owned())
    );
}

#[test]
fn nothing_is_searched_where_nobody_asked_for_it_or_nothing_can() {
    let mut gone = chat();
    gone.decision.search_first = Some("gone".to_owned());
    let mut unset = chat();
    unset.decision.search_first = None;
    let rows = [(chat(), "The height of K2, please"), (gone, "Look up K2"), (unset, "Look up K2")];
    for (definition, message) in rows {
        let drive = Drive::told(definition, message);
        assert!(drive.asked_for().ends_with(": answer with tools"), "{message}");
        assert_eq!(drive.entries.len(), 1);
    }
}

#[test]
fn a_search_is_judged_like_any_call() {
    let mut denied = chat();
    denied.decision.tools.retain(|name| name != "search");
    let mut drive = Drive::told(denied, "Look up K2");
    assert_eq!(
        (drive.warnings(), drive.asked_for().as_str()),
        (vec!["refused"], "reasoning: answer with tools")
    );
    drive.reply(text("8611 m"));
    assert_eq!(drive.verdict(), Verdict::Ok);

    let mut asked = chat();
    asked.decision.approvals.push("search".to_owned());
    let mut drive = Drive::told(asked, "Look up K2");
    assert_eq!(drive.asked[0].args, json!({"query": "K2"}));
    decide(&mut drive, format!("ap-{}", call_id(0)), Choice::Approve, Some(json!({"query": "K2"})));
    assert_eq!(drive.wants(), [runs(0, "search", 2, 0)]);
}
