use super::*;
use crate::fault::Code;
use serde_json::json;

/// Intents and outcomes are stored, so records of older builds must still be read.
#[test]
fn what_was_stored_before_there_were_ladders_is_read() {
    let stored = json!({"n": 2, "kind": {"kind": "model", "role": "reasoning", "head": 4, "tools": true, "message_id": "m", "attempt": 1}});
    let kind = EffectKind::Model {
        role: "reasoning".to_owned(),
        rung: 0,
        head: 4,
        tools: true,
        message_id: "m".to_owned(),
        attempt: 1,
        purpose: Purpose::Answer,
        view: View { first: None, lowest: None, trim: Trim::None },
        last_resort: false,
    };
    assert_eq!(serde_json::from_value::<Effect>(stored).unwrap(), Effect { n: 2, kind });

    let usage = json!({"prompt_tokens": 1, "completion_tokens": 2});
    let stored = json!({"outcome": "reply", "text": "hi", "calls": [], "finish": "stop", "usage": usage, "model": "m/x"});
    let reply = Reply {
        text: "hi".to_owned(),
        calls: Vec::new(),
        finish: FinishReason::Stop,
        usage: TokenUsage { prompt_tokens: 1, completion_tokens: 2, cost_micro_usd: None, estimated: false },
        model: "m/x".to_owned(),
        reasoning: None,
        first: 0,
        lowest: 0,
        cut: None,
    };
    assert_eq!(serde_json::from_value::<Outcome>(stored).unwrap(), Outcome::Reply(reply));

    let stored =
        json!({"outcome": "model_failed", "fault": {"code": "llm_server", "message": "down"}, "shown": ""});
    let fault = Fault::new(Code::LlmServer, "down");
    let failed = Outcome::ModelFailed { fault, shown: String::new(), used: None };
    assert_eq!(serde_json::from_value::<Outcome>(stored).unwrap(), failed);
}

#[test]
fn what_a_call_is_for_and_what_it_sees_survive_a_round_trip() {
    let kind = EffectKind::Model {
        role: "router".to_owned(),
        rung: 1,
        head: 4,
        tools: false,
        message_id: "m".to_owned(),
        attempt: 2,
        purpose: Purpose::Summary { up_to: 3 },
        view: View { first: Some(2), lowest: Some(2), trim: Trim::Compact { fits: Some(900) } },
        last_resort: true,
    };
    let stored = json!({
        "kind": "model", "role": "router", "rung": 1, "head": 4, "tools": false, "message_id": "m",
        "attempt": 2, "purpose": {"for": "summary", "up_to": 3},
        "view": {"first": 2, "lowest": 2, "trim": {"trim": "compact", "fits": 900}}, "last_resort": true,
    });
    assert_eq!(serde_json::to_value(&kind).unwrap(), stored);
    assert_eq!(serde_json::from_value::<EffectKind>(stored).unwrap(), kind);
    assert_eq!(
        serde_json::to_value(Outcome::TooLong { up_to: 7 }).unwrap(),
        json!({"outcome": "too_long", "up_to": 7})
    );
}
