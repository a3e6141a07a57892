//! Answers and rounds of tools.

use serde_json::json;

use super::drive::{Drive, call_id, calls, checked, definition, failed, no_usage, ok, refused, said, text};
use crate::chat::FinishReason;
use crate::effect::{BlobRef, Effect, EffectKind, Outcome, Purpose, Reply, ToolOutcome, Trim, View};
use crate::flow::{Input, Next, NextAction, Node};
use crate::run::Verdict;
use crate::thread::Closing;
use crate::tool::{ASK_USER, EffectClass};

fn model(n: u32, head: i64, tools: bool) -> Effect {
    let kind = EffectKind::Model {
        role: "reasoning".to_owned(),
        rung: 0,
        head,
        tools,
        message_id: call_id(n),
        attempt: 1,
        purpose: Purpose::Answer,
        view: View { first: (n > 0).then_some(0), lowest: (n > 0).then_some(0), trim: Trim::None },
        last_resort: true,
    };
    Effect { n, kind }
}

fn tool(n: u32, name: &str, entry: i64) -> Effect {
    let class = EffectClass::SideEffectFree;
    let kind = EffectKind::Tool {
        call_id: call_id(n),
        name: name.to_owned(),
        entry,
        class,
        edited_by: None,
        again: 0,
    };
    Effect { n, kind }
}

#[test]
fn an_answer_without_tools_is_two_entries() {
    let mut drive = Drive::begin(definition());
    assert_eq!(drive.flow.next(), Next::Want(vec![]), "nothing is wanted before anything was said");
    drive.apply(Input::Start { text: "hi".to_owned(), untrusted: None, private: None });
    assert_eq!((drive.last.node, drive.last.next_action), (Node::Start, None));
    assert_eq!(drive.wants(), [model(0, 0, true)]);
    drive.reply(text("hello"));
    assert_eq!(
        said(&drive.entries),
        json!([{"UserMessage": {"text": "hi"}}, {"AssistantMessage": {"content": "hello"}}])
    );
    assert_eq!((drive.last.node, drive.last.next_action), (Node::Respond, Some(NextAction::Respond)));
    assert_eq!(drive.events, []);
    assert_eq!(
        drive.account(),
        json!([{"type": "llm_call", "description": "m/x answered", "metadata": {"model": "m/x", "model_role": "reasoning", "usage": no_usage()}}])
    );
    assert_eq!(drive.verdict(), Verdict::Ok);
    let before = drive.flow.record();
    drive.input("too late");
    drive.apply(Input::Cancel { in_flight: vec![] });
    assert_eq!(drive.flow.record(), before, "what comes after the end changes nothing");
    assert_eq!(drive.entries.len(), 2);
}

#[test]
fn a_round_of_one_tool() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({"at": 1}))]));
    assert_eq!(
        drive.said(),
        json!([
            {"AssistantMessage": {"content": "on it", "tool_calls": [{"id": "#1", "name": "look", "arguments": {"at": 1}}]}},
            {"ToolCall": {"id": "#1", "function_name": "look", "arguments": {"at": 1}, "provider_id": "p-look"}},
        ])
    );
    assert_eq!(
        drive.shown(),
        json!([{"type": "tool_start", "name": "look", "args": {"at": 1}, "call_id": "#1"}])
    );
    assert_eq!(
        drive.account(),
        json!([{"type": "llm_call", "description": "m/x asked for look", "metadata": {"model": "m/x", "model_role": "reasoning", "usage": no_usage()}}])
    );
    assert_eq!((drive.last.node, drive.last.next_action), (Node::Reasoning, Some(NextAction::CallTool)));
    assert_eq!(drive.wants(), [tool(1, "look", 2)]);

    drive.outcome(1, ok("found"));
    assert_eq!(
        drive.said(),
        json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "look", "result": "found"}}])
    );
    assert_eq!(
        drive.shown(),
        json!([{"type": "tool_result", "name": "look", "result": "found", "call_id": "#1", "status": "ok"}])
    );
    assert_eq!(
        drive.account(),
        json!([{"type": "tool_call", "description": "look worked", "metadata": {"tool_name": "look", "call_id": "#1"}}])
    );
    assert_eq!((drive.last.node, drive.last.next_action), (Node::ToolCall, None));
    assert_eq!(drive.wants(), [model(2, 3, true)], "asked again, with the result in sight");

    drive.reply(text("done"));
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "done"}}]));
    assert_eq!((drive.entries.len(), drive.verdict()), (5, Verdict::Ok));
}

#[test]
fn calls_run_side_by_side_and_end_in_any_order() {
    let orders = [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]];
    for order in orders {
        let mut drive = Drive::start();
        drive.reply(calls(&[("look", json!({})), ("peek", json!({})), ("look", json!({"x": 1}))]));
        assert_eq!(drive.wants(), [tool(1, "look", 2), tool(2, "peek", 3), tool(3, "look", 4)]);
        let mut open = vec![1, 2, 3];
        for n in order {
            assert_eq!(drive.numbers(), open, "only what has ended is no longer wanted");
            drive.outcome(n, ok(&format!("result {n}")));
            open.retain(|other| *other != n);
        }
        let results: Vec<_> = order
            .iter()
            .map(|n| json!({"ToolResult": {"tool_call_id": format!("#{n}"), "tool_name": if *n == 2 { "peek" } else { "look" }, "result": format!("result {n}")}}))
            .collect();
        assert_eq!(said(&drive.entries[5..]), json!(results), "in the order of their ends");
        assert_eq!(drive.wants(), [model(4, 7, true)]);
    }
}

#[test]
fn what_a_tool_returns_is_kept_as_it_is_and_shown_as_text() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({}))]));
    let blob = BlobRef { hash: "ab".repeat(32), size: 90_000, dropped: 0 };
    let done =
        ToolOutcome { blob: Some(blob.clone()), ..ToolOutcome::new(Closing::Ok, json!({"n": [1, null]})) };
    drive.outcome(1, Outcome::Tool(done));
    assert_eq!(
        drive.said(),
        json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "look", "result": {"n": [1, null]}, "blob": blob}}])
    );
    assert_eq!(
        drive.shown(),
        json!([{"type": "tool_result", "name": "look", "result": "{\"n\":[1,null]}", "call_id": "#1", "status": "ok", "blob": blob}])
    );
}

#[test]
fn a_call_that_cannot_run_is_told_to_the_model_and_its_siblings_run() {
    let mut drive = Drive::start();
    let reply = Reply {
        calls: vec![refused("gone", "there is no tool gone; there is look"), checked("look", json!({}))],
        ..calls(&[])
    };
    drive.reply(reply);
    assert_eq!(
        drive.said(),
        json!([
            {"AssistantMessage": {"content": "on it", "tool_calls": [
                {"id": "#1", "name": "gone", "arguments": {}}, {"id": "#2", "name": "look", "arguments": {}}]}},
            {"ToolCall": {"id": "#1", "function_name": "gone", "arguments": {}, "provider_id": "p-gone"}},
            {"ToolCall": {"id": "#2", "function_name": "look", "arguments": {}, "provider_id": "p-look"}},
            {"ToolResult": {"tool_call_id": "#1", "tool_name": "gone", "result": "there is no tool gone; there is look", "status": "error"}},
        ])
    );
    assert_eq!(
        drive.shown(),
        json!([
            {"type": "tool_start", "name": "gone", "args": {}, "call_id": "#1"},
            {"type": "tool_result", "name": "gone", "result": "there is no tool gone; there is look", "call_id": "#1", "status": "error"},
            {"type": "tool_start", "name": "look", "args": {}, "call_id": "#2"},
        ])
    );
    assert_eq!(
        drive.account()[1],
        json!({"type": "tool_call", "description": "gone did not work", "metadata": {"tool_name": "gone", "call_id": "#1", "error": "there is no tool gone; there is look"}})
    );
    assert_eq!(drive.wants(), [tool(2, "look", 3)]);
}

#[test]
fn when_no_call_can_run_the_model_is_asked_again_at_once() {
    let mut drive = Drive::start();
    let reply = Reply { calls: vec![refused("gone", "no"), refused("look", "at is missing")], ..calls(&[]) };
    drive.reply(reply);
    assert_eq!(drive.wants(), [model(3, 5, true)]);
    assert_eq!(drive.last.next_action, Some(NextAction::CallTool));
    drive.reply(text("then not"));
    assert_eq!(drive.verdict(), Verdict::Ok);
}

#[test]
fn a_reply_that_was_cut_off_runs_none_of_its_calls() {
    let mut drive = Drive::start();
    let wanted = [("look", json!({})), ("write", json!({})), (ASK_USER, json!({"question": "wh"}))];
    drive.reply(Reply { finish: FinishReason::Length, ..calls(&wanted) });
    let why = "the answer was cut off at the token limit, so this call was not run; ask for less at once";
    assert_eq!(
        said(&drive.last.entries[4..]),
        json!([
            {"ToolResult": {"tool_call_id": "#1", "tool_name": "look", "result": why, "status": "error"}},
            {"ToolResult": {"tool_call_id": "#2", "tool_name": "write", "result": why, "status": "error"}},
            {"ToolResult": {"tool_call_id": "#3", "tool_name": "ask_user", "result": why, "status": "error"}},
        ])
    );
    assert_eq!((drive.asked.len(), drive.waiting().len()), (0, 0), "nobody is asked either");
    assert_eq!(drive.wants(), [model(4, 7, true)]);
}

#[test]
fn an_answer_that_was_cut_off_is_an_answer_with_a_warning() {
    let mut drive = Drive::start();
    drive.reply(Reply { finish: FinishReason::Length, ..text("so far") });
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "so far"}}]));
    assert_eq!((drive.warnings(), drive.verdict()), (vec!["budget_exceeded"], Verdict::Ok));
}

#[test]
fn a_call_outside_the_decision_is_denied_and_never_wanted() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("forbidden", json!({"x": 1}))]));
    let why = "forbidden is not allowed here (rule \"tests\")";
    assert_eq!(
        said(&drive.last.entries[2..]),
        json!([{"ToolResult": {"tool_call_id": "#1", "tool_name": "forbidden", "result": why, "status": "denied"}}])
    );
    assert_eq!(
        drive.shown(),
        json!([
            {"type": "tool_start", "name": "forbidden", "args": {"x": 1}, "call_id": "#1"},
            {"type": "tool_result", "name": "forbidden", "result": why, "call_id": "#1", "status": "denied"},
            {"type": "warning", "code": "refused", "message": why},
        ])
    );
    assert_eq!(
        json!(drive.account().as_array().unwrap()[1..]),
        json!([
            {"type": "tool_call", "description": "forbidden did not work", "metadata": {"tool_name": "forbidden", "call_id": "#1", "error": why}},
            {"type": "warning", "description": why, "metadata": {"tool_name": "forbidden", "call_id": "#1", "reason": "tests", "escalated_to": "person"}},
        ])
    );
    assert_eq!(drive.wants(), [model(2, 3, true)]);
}

#[test]
fn what_would_allow_a_call_outside_the_decision_is_said_to_the_person_alone() {
    let mut helpful = definition();
    helpful.decision.denied = [("forbidden".to_owned(), "mode EXPLORATORY".to_owned())].into();
    let mut drive = Drive::start_with(helpful);
    drive.reply(calls(&[("forbidden", json!({}))]));
    let why = "forbidden is not allowed here (rule \"tests\")";
    assert_eq!(drive.last.entries[2].data()["result"], why);
    let message = format!("{why}; mode EXPLORATORY would allow it");
    assert_eq!(drive.shown()[2], json!({"type": "warning", "code": "refused", "message": message}));
    assert_eq!(drive.account()[2]["description"], json!(message));
}

#[test]
fn a_turn_without_tools_offers_none_and_obeys_none() {
    let mut bare = definition();
    bare.tools = [].into();
    let mut drive = Drive::start_with(bare);
    assert_eq!(drive.wants(), [model(0, 0, false)]);
    drive.reply(calls(&[("look", json!({}))]));
    assert_eq!(drive.said(), json!([{"AssistantMessage": {"content": "on it"}}]), "its text is the answer");
    assert_eq!((drive.events.len(), drive.verdict()), (0, Verdict::Ok));
}

#[test]
fn an_outcome_that_nobody_waits_for_changes_nothing() {
    let mut drive = Drive::start();
    drive.reply(calls(&[("look", json!({}))]));
    let before = drive.flow.record();
    for (n, result) in [(0, ok("late")), (7, failed("never wanted")), (0, Outcome::Reply(text("twice")))] {
        drive.outcome(n, result);
        assert_eq!((&drive.flow.record(), drive.last.entries.len()), (&before, 0));
    }
}
