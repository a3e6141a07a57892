//! A thread begun with one provider goes on with any other.
//!
//! For each pair of formats: an answer of the first, with reasoning and two calls, is read from its bytes
//! and put, with our ids, into a thread that somebody else began; the whole of it is then written for the
//! second. What is sent stands in `tests/recorded/pairs/A_to_B.json`; run with `UPDATE=1` to write it anew,
//! and read the difference.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::chat::{ChatCall, ChatMessage, RawCall, RawReply, Reasoning, Role};
use baton_core::tool::{EffectClass, ToolSpec};
use baton_model::wire::{InlineTags, Wire, WireNames, WireRequest};
use baton_model::{ModelRequest, ReplyCollector};
use serde_json::{Value, json};

/// A run's id, as the ids of its calls begin.
const RUN: &str = "0193307a8d2f7c41b5e6f0a1b2c3d4e5";

/// A call as another program named it, which no provider would take.
const FOREIGN: (&str, &str) = ("call:1/é", "agent.Grüße an alle");

/// What is in the recorded reasoning, readable and sealed.
const THOUGHTS: [&str; 4] = ["a thought of", "c2lnbmVk", "cmVkYWN0ZWQ=", "c2VhbGVk"];

fn model(wire: Wire) -> &'static str {
    match wire {
        Wire::Ollama => "ollama/qwen3:8b",
        Wire::ChatCompletions => "vllm/glm-5",
        Wire::Responses => "openai/gpt-5-mini",
        Wire::Anthropic => "anthropic/claude-x",
    }
}

fn tools() -> Arc<[ToolSpec]> {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: format!("Does {name}."),
        input_schema: json!({"type": "object", "properties": {"sum": {"type": "string"}}}),
        output_schema: None,
        class: EffectClass::SideEffectFree,
        timeout_ms: 1000,
        ..ToolSpec::default()
    };
    Arc::new([tool("exec.calculator"), tool("get_time")])
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/pairs")
}

/// The recorded answer of a format, read.
fn answer(wire: Wire) -> RawReply {
    let kind = if wire == Wire::Ollama { "ndjson" } else { "sse" };
    let body = std::fs::read(folder().join(format!("answer_of_{}.{kind}", wire.as_str()))).unwrap();
    let mut decoder = wire.decoder(WireNames::new(&tools(), &[]), InlineTags::default());
    let (mut deltas, mut collector) = (Vec::new(), ReplyCollector::new());
    decoder.push(&body, &mut deltas).unwrap();
    decoder.end(&mut deltas).unwrap();
    deltas.iter().for_each(|delta| collector.push(delta).unwrap());
    collector.finish().unwrap()
}

fn assistant(text: &str, tool_calls: Vec<ChatCall>) -> ChatMessage {
    ChatMessage { tool_calls, ..ChatMessage::text(Role::Assistant, text) }
}

fn result(id: &str, text: &str) -> ChatMessage {
    ChatMessage { tool_call_id: Some(id.to_owned()), ..ChatMessage::text(Role::Tool, text) }
}

/// A thread that another program began, which goes on with an answer of this format.
fn thread(wire: Wire) -> ModelRequest {
    let reply = answer(wire);
    let ours = |(n, raw): (usize, &RawCall)| ChatCall {
        id: format!("{RUN}-{}", n + 2),
        name: raw.name.clone(),
        arguments: serde_json::from_str(&raw.arguments).unwrap(),
    };
    let calls: Vec<ChatCall> = reply.calls.iter().enumerate().map(ours).collect();
    let foreign = ChatCall { id: FOREIGN.0.into(), name: FOREIGN.1.into(), arguments: json!("just words") };
    let thought =
        Reasoning { model: model(wire).into(), wire: wire.as_str().into(), blocks: reply.reasoning };
    let mut messages = vec![
        ChatMessage::text(Role::System, "Be kind."),
        ChatMessage::text(Role::System, "Before: they said hello."),
        ChatMessage::text(Role::User, "Greet everybody."),
        assistant("I will.", vec![foreign]),
        result(FOREIGN.0, "Unknown outcome: nobody knows"),
        assistant("", vec![]),
        ChatMessage::text(Role::User, "Then what is 2+2, and when?"),
    ];
    let results: Vec<ChatMessage> =
        calls.iter().map(|call| result(&call.id, &format!("done {}", call.name))).collect();
    messages.push(ChatMessage { reasoning: Some(thought), ..assistant(&reply.text, calls) });
    messages.extend(results);
    messages.push(ChatMessage::text(Role::System, "Meanwhile: a summary."));
    messages.push(ChatMessage::text(Role::User, "So?"));
    ModelRequest {
        tools: tools(),
        temperature: Some(0.0),
        context_window: Some(8192),
        ..ModelRequest::new("reasoning", messages)
    }
}

fn sent(to: Wire, name: &str, request: &ModelRequest) -> Value {
    let names = WireNames::new(&request.tools, &request.messages);
    let model = name.split_once('/').unwrap().1;
    let is_openai = name.starts_with("openai/");
    serde_json::from_slice(&to.encode(&WireRequest { model, name, request, names: &names, is_openai }))
        .unwrap()
}

/// What a body says of calls: their ids and names in order, the ids that results are for, the tools' names.
#[derive(Debug, Default, PartialEq)]
struct Calls {
    made: Vec<(String, String)>,
    answered: Vec<String>,
    offered: Vec<String>,
}

impl Calls {
    fn of(wire: Wire, body: &Value) -> Calls {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let mut calls = Calls::default();
        for tool in list(&body["tools"]) {
            calls.offered.push(text(if tool["function"].is_null() {
                &tool["name"]
            } else {
                &tool["function"]["name"]
            }));
        }
        for message in list(&body["messages"]).into_iter().chain(list(&body["input"])) {
            for call in list(&message["tool_calls"]) {
                calls.made.push((text(&call["id"]), text(&call["function"]["name"])));
            }
            if message["role"] == "tool" {
                calls.answered.push(text(&message["tool_call_id"]));
            }
            if message["type"] == "function_call" {
                calls.made.push((text(&message["call_id"]), text(&message["name"])));
            }
            if message["type"] == "function_call_output" {
                calls.answered.push(text(&message["call_id"]));
            }
            for block in list(&message["content"]).iter().filter(|_| wire == Wire::Anthropic) {
                if block["type"] == "tool_use" {
                    calls.made.push((text(&block["id"]), text(&block["name"])));
                }
                if block["type"] == "tool_result" {
                    calls.answered.push(text(&block["tool_use_id"]));
                }
            }
        }
        calls
    }
}

fn is_valid(text: &str, longest: usize) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=longest).contains(&text.len()) && text.chars().all(plain)
}

fn pairs() -> impl Iterator<Item = (Wire, Wire)> {
    Wire::ALL.into_iter().flat_map(|from| Wire::ALL.map(|to| (from, to)))
}

#[test]
fn answers_of_all_formats_say_the_same() {
    let calls = answer(Wire::Ollama).calls.into_iter().map(|call| (call.name, call.arguments));
    let calls: Vec<(String, String)> = calls.collect();
    let expected = [("exec.calculator", r#"{"sum":"2+2"}"#), ("get_time", "{}")];
    assert_eq!(calls, expected.map(|(name, arguments)| (name.to_owned(), arguments.to_owned())));
    for wire in Wire::ALL {
        let reply = answer(wire);
        let same: Vec<_> = reply.calls.into_iter().map(|call| (call.name, call.arguments)).collect();
        assert_eq!(same, calls, "{}", wire.as_str());
        let thought = Value::from(reply.reasoning).to_string();
        assert!(thought.contains(&format!("a thought of {}", wire.as_str())), "{thought}");
    }
}

#[test]
fn a_thread_begun_with_one_goes_on_with_any_other() {
    for (from, to) in pairs() {
        let body = sent(to, model(to), &thread(from));
        let file = folder().join(format!("{}_to_{}.json", from.as_str(), to.as_str()));
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(&file, format!("{body:#}\n")).unwrap();
        }
        let expected = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let expected: Value = serde_json::from_slice(&expected).unwrap();
        assert_eq!(body, expected, "{}", file.display());
    }
}

#[test]
fn reasoning_goes_back_to_the_model_that_it_came_from_and_to_no_other() {
    for (from, to) in pairs() {
        let request = thread(from);
        let shows = |name: &str| {
            let body = sent(to, name, &request).to_string();
            THOUGHTS.iter().any(|thought| body.contains(thought))
        };
        assert_eq!(shows(model(to)), from == to, "{} to {}", from.as_str(), to.as_str());
        assert!(!shows("another/model"), "{} to another model", from.as_str());
    }
}

#[test]
fn every_call_has_one_result_and_every_name_is_valid_and_comes_back() {
    for (from, to) in pairs() {
        let request = thread(from);
        let names = WireNames::new(&request.tools, &request.messages);
        let calls = Calls::of(to, &sent(to, model(to), &request));
        let made: Vec<String> = calls.made.iter().map(|(id, _)| id.clone()).collect();
        assert_eq!(made, calls.answered);
        assert_eq!(made.iter().collect::<BTreeSet<_>>().len(), 3);
        assert_eq!(made[1..], [format!("{RUN}-2"), format!("{RUN}-3")]);
        assert!(made.iter().all(|id| is_valid(id, 40)), "{made:?}");
        let ours: Vec<&str> = calls.made.iter().map(|(_, name)| names.from_provider(name)).collect();
        assert_eq!(ours, [FOREIGN.1, "exec.calculator", "get_time"]);
        assert_eq!(calls.offered, ["exec__calculator", "get_time"]);
        assert!(calls.made.iter().all(|(_, name)| is_valid(name, 64)), "{calls:?}");
    }
}
