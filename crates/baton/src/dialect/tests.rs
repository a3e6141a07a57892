mod injection;

use baton_core::effect::BlobRef;
use baton_core::fault::{Code, Fault};
use baton_core::run::ReceiptCall;
use serde_json::json;

use super::*;

const USAGE: Usage =
    Usage { tokens: 5, prompt_tokens: 3, completion_tokens: 2, cost_usd: None, estimated: false };

fn shown(event: &Event, show_reasoning: bool) -> Value {
    serde_json::to_value(agent(event, show_reasoning, "the text")).unwrap()
}

fn delta(reasoning: bool) -> Event {
    Event::Delta { effect: 0, message_id: "m".into(), text: "piece".into(), reasoning }
}

fn result(status: Closing, result: &str, blob: Option<BlobRef>) -> Event {
    Event::ToolResult { name: "t".into(), result: result.into(), call_id: "c".into(), status, blob }
}

fn ended(status: RunStatus, error: Option<Fault>, receipt: Option<Receipt>) -> Event {
    Event::Ended { status, error, usage: USAGE, receipt }
}

#[test]
fn every_event_has_its_frames() {
    let started =
        Event::Started { thread: "t".parse().unwrap(), branch: "main".parse().unwrap(), flow: "turn".into() };
    let approval = Event::ApprovalRequired {
        approval_id: "a".into(),
        call_id: "c".into(),
        name: "t".into(),
        args: json!({"x": 1}),
        digest: "d".into(),
        reason: "r".into(),
        expires_at: Timestamp(1_767_225_600_000),
    };
    let table = [
        (started, json!([])),
        (delta(false), json!([{"type": "thinking", "content": "piece", "message_id": "m"}])),
        (delta(true), json!([])),
        (
            Event::ToolStart { name: "t".into(), args: json!({"x": 1}), call_id: "c".into() },
            json!([{"type": "tool_start", "name": "t", "args": {"x": 1}, "call_id": "c"}]),
        ),
        (
            result(Closing::Ok, "fine", None),
            json!([{"type": "tool_result", "name": "t", "result": "fine", "call_id": "c", "is_error": false}]),
        ),
        (
            approval,
            json!([{"type": "approval_required", "approval_id": "a", "call_id": "c", "name": "t", "args": {"x": 1},
                    "digest": "d", "reason": "r", "expires_at": "2026-01-01T00:00:00.000Z"}]),
        ),
        (Event::Input { input_id: "i".into() }, json!([{"type": "input", "input_id": "i"}])),
        (
            Event::Warning { code: Code::NoProgress, message: "w".into() },
            json!([{"type": "warning", "code": "no_progress", "message": "w"}]),
        ),
        (Event::Restarted { message_id: "m".into() }, json!([{"type": "restarted", "message_id": "m"}])),
    ];
    for (event, expected) in table {
        assert_eq!(shown(&event, false), expected, "{event:?}");
    }
}

#[test]
fn reasoning_is_shown_only_to_those_who_asked() {
    let expected = json!([{"type": "thinking", "content": "piece", "message_id": "m", "kind": "reasoning"}]);
    assert_eq!(shown(&delta(true), true), expected);
    assert_eq!(shown(&delta(false), true)[0]["kind"], Value::Null);
}

#[test]
fn every_way_of_closing_but_one_is_an_error() {
    for status in [Closing::Error, Closing::Denied, Closing::Expired, Closing::Cancelled, Closing::Unknown] {
        assert_eq!(shown(&result(status, "", None), false)[0]["is_error"], true, "{status:?}");
    }
}

#[test]
fn a_long_result_is_cut_and_says_where_the_rest_is() {
    let blob = BlobRef { hash: "h".into(), size: 99_000, dropped: 0 };
    let frame = &shown(&result(Closing::Ok, "begin … end", Some(blob)), false)[0];
    assert_eq!((&frame["truncated"], &frame["blob"]), (&json!(true), &json!("h")));
    let frame = &shown(&result(Closing::Ok, &"é".repeat(20_000), None), false)[0];
    assert_eq!((frame["result"].as_str().unwrap().len(), &frame["truncated"]), (MOST_RESULT, &json!(true)));
    let frame = &shown(&result(Closing::Ok, &"x".repeat(MOST_RESULT), None), false)[0];
    assert_eq!(frame.get("truncated"), None);
}

#[test]
fn an_end_is_done_and_before_it_the_error() {
    let usage = json!({"tokens": 5, "prompt_tokens": 3, "completion_tokens": 2, "cost_usd": null});
    assert_eq!(
        shown(&ended(RunStatus::Ok, None, None), false),
        json!([{"type": "done", "status": "ok", "response": "the text", "usage": usage}])
    );
    let fault = Fault::new(Code::LlmServer, "down");
    assert_eq!(
        shown(&ended(RunStatus::Error, Some(fault), None), false),
        json!([
            {"type": "error", "code": "llm_server", "message": "down"},
            {"type": "done", "status": "error", "response": "the text", "usage": usage},
        ])
    );
    let stopped = vec![ReceiptCall { call_id: "c".into(), name: "t".into() }];
    let receipt = Receipt { stopped, ..Receipt::default() };
    assert_eq!(
        shown(&ended(RunStatus::Cancelled, None, Some(receipt)), false),
        json!([{"type": "done", "status": "cancelled", "response": "the text", "usage": usage, "receipt":
                {"finished": [], "stopped": [{"call_id": "c", "name": "t"}], "unknown": [], "not_started": []}}])
    );
    let suspended = serde_json::to_value(suspended(USAGE, "Which?")).unwrap();
    let expected = json!({"type": "done", "status": "suspended", "response": "Which?", "usage": usage});
    assert_eq!(suspended, expected);
    let resumed = serde_json::to_value(Frame::Resumed { last_seq: 7 }).unwrap();
    assert_eq!(resumed, json!({"type": "resumed", "last_seq": 7}));
}

#[test]
fn the_type_comes_first() {
    let event = delta(false);
    let text = serde_json::to_string(&agent(&event, false, "")[0]).unwrap();
    assert_eq!(text, r#"{"type":"thinking","content":"piece","message_id":"m"}"#);
}
