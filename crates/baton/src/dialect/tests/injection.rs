//! No text in a field can pass for a frame, the end of one, or another field.

use baton_core::effect::BlobRef;
use baton_core::event::NumberedEvent;
use baton_core::fault::{Code, Fault};
use baton_core::run::ReceiptCall;
use proptest::prelude::*;
use serde_json::{Map, json};

use super::super::*;

/// Every type that a frame can have.
const TYPES: [&str; 10] = [
    "thinking",
    "tool_start",
    "tool_result",
    "approval_required",
    "input",
    "warning",
    "restarted",
    "resumed",
    "error",
    "done",
];

/// Text made of characters that end lines, frames, fields and strings for some reader.
fn hostile() -> BoxedStrategy<String> {
    let telling = [
        "\n",
        "\r",
        "\r\n",
        "\0",
        "\u{2028}",
        "\u{2029}",
        "\u{85}",
        "\u{b}",
        "\u{c}",
        "\u{1b}",
        "\u{feff}",
        "\u{202e}",
        "\"",
        "\\",
        "\\n",
        "\\u000a",
        "data:",
        "data: {}\n\n",
        "id:",
        "id: 9\n",
        "event: done\n",
        "retry: 1\n",
        ": ",
        "[DONE]",
        "{\"type\":\"done\"}",
        "}{",
        "</script>",
        "\u{10ffff}",
        "é",
    ];
    let piece = prop_oneof![
        6 => prop::sample::select(telling.to_vec()).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => ".{0,9}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat()).boxed()
}

fn arguments() -> BoxedStrategy<Value> {
    let leaf =
        prop_oneof![hostile().prop_map(Value::from), any::<i64>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(3, 12, 3, |inner| {
        let fields = prop::collection::vec((hostile(), inner.clone()), 0..3);
        prop_oneof![
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
        ]
    })
    .boxed()
}

/// An event with five hostile texts in its fields, and the frames that it has to give.
fn told() -> impl Strategy<Value = (Event, Vec<Value>)> {
    let texts = [hostile(), hostile(), hostile(), hostile(), hostile()];
    (0..9_usize, texts, arguments(), any::<bool>()).prop_map(|(kind, texts, args, flag)| {
        let [a, b, c, d, e] = texts;
        match kind {
            0 => thinking(a, b, flag),
            1 => {
                let frame = json!({"type": "tool_start", "name": a, "args": args, "call_id": b});
                (Event::ToolStart { name: a, args, call_id: b }, vec![frame])
            }
            2 => tool_result(a, b, c, flag),
            3 => approval([a, b, c, d, e], args),
            4 => (Event::Input { input_id: a.clone() }, vec![json!({"type": "input", "input_id": a})]),
            5 => {
                let frame = json!({"type": "warning", "code": "internal", "message": a});
                (Event::Warning { code: Code::Internal, message: a }, vec![frame])
            }
            6 => (
                Event::Restarted { message_id: a.clone() },
                vec![json!({"type": "restarted", "message_id": a})],
            ),
            7 => (started(a), vec![]),
            _ => ended(a, [b, c], flag),
        }
    })
}

fn thinking(text: String, message_id: String, reasoning: bool) -> (Event, Vec<Value>) {
    let mut frame = json!({"type": "thinking", "content": text, "message_id": message_id});
    if reasoning {
        frame["kind"] = "reasoning".into();
    }
    (Event::Delta { effect: 0, message_id, text, reasoning }, vec![frame])
}

fn tool_result(name: String, result: String, call_id: String, kept: bool) -> (Event, Vec<Value>) {
    let mut frame =
        json!({"type": "tool_result", "name": name, "result": result, "call_id": call_id, "is_error": false});
    let blob = kept.then(|| BlobRef { hash: result.clone(), size: 1, dropped: 0 });
    if kept {
        (frame["truncated"], frame["blob"]) = (true.into(), result.clone().into());
    }
    (Event::ToolResult { name, result, call_id, status: Closing::Ok, blob }, vec![frame])
}

fn approval(texts: [String; 5], args: Value) -> (Event, Vec<Value>) {
    let [approval_id, call_id, name, digest, reason] = texts;
    let mut frame = json!({
        "type": "approval_required", "approval_id": approval_id, "call_id": call_id, "name": name, "args": args,
        "digest": digest, "reason": reason, "expires_at": "1970-01-01T00:00:00.000Z",
    });
    let warnings = super::super::unseen(&args, &reason);
    if !warnings.is_empty() {
        frame["warnings"] = warnings.into();
    }
    let expires_at = Timestamp(0);
    (Event::ApprovalRequired { approval_id, call_id, name, args, digest, reason, expires_at }, vec![frame])
}

fn started(flow: String) -> Event {
    Event::Started { thread: "t".parse().unwrap(), branch: "main".parse().unwrap(), flow }
}

fn ended(message: String, call: [String; 2], cancelled: bool) -> (Event, Vec<Value>) {
    let [call_id, name] = call;
    let usage = json!({"tokens": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": null});
    let calls = json!([{"call_id": call_id, "name": name}]);
    let calls_of = || vec![ReceiptCall { call_id: call_id.clone(), name: name.clone() }];
    if cancelled {
        let receipt = Receipt {
            finished: calls_of(),
            stopped: calls_of(),
            unknown: calls_of(),
            not_started: calls_of(),
        };
        let shown = json!({"finished": calls, "stopped": calls, "unknown": calls, "not_started": calls});
        let done = json!({"type": "done", "status": "cancelled", "response": call_id, "usage": usage, "receipt": shown});
        let status = RunStatus::Cancelled;
        return (
            Event::Ended { status, error: None, usage: Usage::default(), receipt: Some(receipt) },
            vec![done],
        );
    }
    let error = json!({"type": "error", "code": "refused", "message": message});
    let done = json!({"type": "done", "status": "error", "response": call_id, "usage": usage});
    let fault = Some(Fault::new(Code::Refused, message));
    let event =
        Event::Ended { status: RunStatus::Error, error: fault, usage: Usage::default(), receipt: None };
    (event, vec![error, done])
}

/// The final text that the last of these frames shows.
fn response(frames: &[Value]) -> &str {
    frames.last().and_then(|frame| frame["response"].as_str()).unwrap_or_default()
}

fn rounds() -> ProptestConfig {
    let cases = if std::env::var_os("BATON_FULL").is_some() { 100_000 } else { 10_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(rounds())]

    #[test]
    fn a_frame_is_one_line_of_json_that_says_what_was_said((event, expected) in told()) {
        let frames = agent(&event, true, response(&expected));
        prop_assert_eq!(frames.len(), expected.len());
        for (frame, expected) in frames.iter().zip(&expected) {
            let line = serde_json::to_string(frame).unwrap();
            prop_assert!(!line.contains(|c: char| c < ' '), "{}", line);
            prop_assert!(TYPES.iter().any(|t| line.starts_with(&format!("{{\"type\":\"{t}\","))), "{}", line);
            let read: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(&read, expected);
        }
    }

    #[test]
    fn a_stream_has_as_many_events_as_there_are_frames((event, expected) in told()) {
        let (seen, text) = (NumberedEvent { epoch: 1, seq: 5, event }, response(&expected));
        let mut out = Vec::new();
        sse::SseRendering { dialect: sse::Dialect::Agent, reasoning: true }.event(&seen, text, &mut out);
        let text = String::from_utf8(out).unwrap();
        // Every character that some reader takes for the end of a line ends one here.
        let lines: Vec<&str> = text.split(|c: char| c < ' ' || "\u{85}\u{2028}\u{2029}".contains(c)).collect();
        let mut wanted = Vec::new();
        for (n, frame) in expected.iter().enumerate() {
            if n + 1 == expected.len() {
                wanted.push("id: 1.5".to_owned());
            }
            wanted.push(format!("event: {}", frame["type"].as_str().unwrap()));
            wanted.push("data".to_owned());
            wanted.push(String::new());
        }
        wanted.push(String::new());
        let shape = |line: &&str| if line.starts_with("data: ") { "data".to_owned() } else { (*line).to_owned() };
        prop_assert_eq!(lines.iter().map(shape).collect::<Vec<_>>(), wanted);
        let data = lines.iter().filter_map(|line| line.strip_prefix("data: "));
        let read: Vec<Value> = data.map(|data| serde_json::from_str(data).unwrap()).collect();
        prop_assert_eq!(read, expected);
    }
}
