use std::sync::Arc;

use baton_core::chat::{ChatCall, ChatMessage, Role};
use baton_core::effect::{Effect, Purpose, ToolOutcome, View};
use baton_core::fault::Fault;
use baton_core::policy::{Mode, default_decision};
use baton_core::time::Timestamp;
use serde_json::json;
use uuid::Uuid;

use super::*;

const PARENT_TEXT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn row(metadata: Value) -> RunRow {
    let id = RunId(Uuid::from_u128(7));
    let row = RunRow::begun(id, &"t".parse().unwrap(), &"main".parse().unwrap(), -1, Timestamp(0));
    RunRow { metadata, ..row }
}

fn asking() -> Intent {
    let kind = EffectKind::Model {
        role: "router".to_owned(),
        rung: 0,
        head: 0,
        tools: false,
        message_id: "m".to_owned(),
        attempt: 1,
        purpose: Purpose::Answer,
        view: View::default(),
        last_resort: true,
    };
    Intent { effect: Effect { n: 1, kind }, attempt: 1, shown: false }
}

#[test]
fn a_run_belongs_to_the_trace_of_whoever_started_it_else_to_its_own() {
    let own = format!("{:032x}", 7);
    for metadata in [Value::Null, json!({}), json!({"traceparent": 7}), json!({"traceparent": "00-x-y-01"})] {
        assert_eq!(trace_id_of(&row(metadata.clone())), own, "{metadata}");
    }
    assert_eq!(trace_id_of(&row(json!({"traceparent": PARENT_TEXT}))), "4bf92f3577b34da6a3ce929d0e0e4736");
}

#[test]
fn each_try_of_a_tool_has_a_span_of_its_own_and_each_attempt_of_it_the_same() {
    let track = Track::of(&row(Value::Null));
    let span = |again, attempt| {
        let (call_id, name, class) = ("c".to_owned(), "look".to_owned(), Default::default());
        let kind = EffectKind::Tool { call_id, name, entry: 2, class, edited_by: None, again };
        track.span_of(&Intent { effect: Effect { n: 1, kind }, attempt, shown: false })
    };
    assert_eq!((span(0, 1), span(1, 1)), (span(0, 2), span(1, 2)));
    assert_eq!(span(0, 1), track.span_of(&asking()), "the first try is the effect's own");
    assert_ne!(span(0, 1), span(1, 1));
}

#[test]
fn where_nobody_looks_nothing_is_made_and_a_parent_is_passed_on() {
    let definition = Definition {
        v: 1,
        flow: "turn".to_owned(),
        system: String::new(),
        model: "lab/big".to_owned(),
        roles: Default::default(),
        mode: Mode::Moderate,
        channel: "CHAT".to_owned(),
        decision: default_decision(),
        tools: Arc::default(),
        last_n: None,
        render: Default::default(),
        roots: Vec::new(),
    };
    let (alone, called) =
        (Track::of(&row(Value::Null)), Track::of(&row(json!({"traceparent": PARENT_TEXT}))));
    assert_eq!((alone.now(), called.now()), (None, None));
    assert!(called.call(&asking(), &definition).span.is_disabled());
    let mut run = RunSpan::planned(&called);
    run.begin(&called, &row(Value::Null), &definition);
    assert!(run.span.is_disabled());
    assert_eq!((alone.outgoing(&asking()), called.outgoing(&asking())), (None, Some(PARENT_TEXT.to_owned())));
}

#[test]
fn every_outcome_that_is_a_failure_has_a_kind() {
    let tool = |status| Outcome::Tool(ToolOutcome { status, ..ToolOutcome::error("words") });
    let cases = [
        (tool(Closing::Ok), None),
        (tool(Closing::Error), Some("tool_failed")),
        (tool(Closing::Denied), Some("denied")),
        (Outcome::TooLong { up_to: 3 }, None),
        (Outcome::Unknown, Some("unknown")),
        (Outcome::Expired, Some("expired")),
        (Outcome::Stopped { shown: String::new(), used: None }, Some("stopped")),
        (
            Outcome::ModelFailed {
                fault: Fault::new(Code::LlmAuth, "words"),
                shown: String::new(),
                used: None,
            },
            Some("llm_auth"),
        ),
    ];
    for (outcome, expected) in cases {
        assert_eq!(error_type(&outcome), expected, "{outcome:?}");
    }
}

#[test]
fn content_is_cut_and_of_a_long_conversation_the_end_is_told() {
    let call = ChatCall { id: "c".to_owned(), name: "look".to_owned(), arguments: json!({"at": 1}) };
    let mut messages = vec![
        ChatMessage::text(Role::System, "Be brief."),
        ChatMessage::text(Role::User, "hi"),
        ChatMessage { tool_calls: vec![call], ..ChatMessage::text(Role::Assistant, "") },
        ChatMessage { tool_call_id: Some("c".to_owned()), ..ChatMessage::text(Role::Tool, "seen") },
    ];
    let (system, said) = content::asked(&messages);
    assert_eq!(system, Some(json!([{"type": "text", "content": "Be brief."}]).to_string()));
    let expected = json!([
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "look", "arguments": "{\"at\":1}"}]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": "seen"}]},
    ]);
    assert_eq!(said, expected.to_string());

    messages.extend((0..20).map(|_| ChatMessage::text(Role::User, "long ".repeat(10_000))));
    let (_, said) = content::asked(&messages);
    let told: Vec<Value> = serde_json::from_str(&said).unwrap();
    assert!(said.len() <= 64 << 10, "{}", said.len());
    let lengths: Vec<usize> =
        told.iter().map(|message| message["parts"][0]["content"].as_str().unwrap().len()).collect();
    assert_eq!(lengths, [8 << 10; 7]);
    assert_eq!(content::asked(&[]), (None, "[]".to_owned()));
}
