//! Ollama's format, spoken by aimock, and reasoning that is signed, which llama-server has none of. No real Ollama
//! was available.
//!
//! aimock imitates `/api/chat`. It differs from Ollama's own source in three things: reasoning comes in
//! `reasoning_content` and not in `thinking`, an error is an object and not a text, and calls have no id.

use serde_json::{Value, json};

use crate::http;
use crate::mask::Mask;
use crate::peer::Peer;
use crate::tap::Tap;
use crate::told::{entries, is_said_by, outline, pieces, settings};
use crate::world::World;

/// Starts a server with these answers.
fn serve(fixtures: &Value) -> Peer {
    let folder = tempfile::tempdir().unwrap();
    let text = json!({"fixtures": fixtures}).to_string();
    std::fs::write(folder.path().join("fixtures.json"), text).unwrap();
    let arguments = ["-h", "127.0.0.1", "-p", "0", "-f", "fixtures.json"].map(str::to_owned);
    Peer::start("aimock", &arguments, folder)
}

/// A machine that uses this server.
fn world(url: &str, more: &str) -> World {
    let world = World::new();
    settings(&world, url, Some("ollama"), "llama3.2:3b", more);
    world
}

/// The number of chat requests in its journal.
fn asked(peer: &Peer) -> usize {
    let journal = http::get(peer, "/__aimock/journal");
    journal.as_array().unwrap().iter().filter(|entry| entry["path"] == "/api/chat").count()
}

/// Asks, and returns the outline of the output, the exit code, and the number of requests to the server.
fn ask(fixtures: &Value, message: &str) -> (i32, String, usize) {
    let peer = serve(fixtures);
    let did = world(&peer.url(), "").baton(&["ask", "--json", message]);
    (did.code, outline(&did.objects()), asked(&peer))
}

#[test]
fn text_is_streamed_and_reasoning_is_kept_apart() {
    const WORDS: [&str; 4] = ["Hi ther", "e, naïv", "e 世界 🙂", "!"];
    let peer = serve(&json!([
        {"match": {"userMessage": "hello"}, "chunkSize": 7,
         "response": {"content": "Hi there, naïve 世界 🙂!", "reasoning": "Let me think."}},
    ]));
    let world = world(&peer.url(), "");
    let did = world.baton(&["ask", "--json", "--thread", "t", "hello"]);
    assert_eq!((did.code, outline(&did.objects()).as_str()), (0, "thinking, done ok"), "{did:?}");
    assert!(is_said_by(&pieces(&did.objects()), &WORDS), "{did:?}");
    let kept = entries(&world, "t");
    assert_eq!(kept[1]["data"], json!({"content": "Hi there, naïve 世界 🙂!"}));
    let objects = world.baton(&["ask", "--json", "--show-reasoning", "hello"]).objects();
    let thoughts = objects.iter().take_while(|object| object["kind"] == "reasoning").count();
    let (thought, said) = objects.split_at(thoughts);
    assert!(is_said_by(&pieces(thought), &["Let me ", "think."]), "{objects:?}");
    assert!(is_said_by(&pieces(said), &WORDS), "{objects:?}");
}

#[test]
fn two_calls_at_once_are_answered_together() {
    let call = |expression: &str| {
        let arguments = json!({"expression": expression}).to_string();
        json!({"name": "calculator", "arguments": arguments})
    };
    let peer = serve(&json!([
        {"match": {"userMessage": "both", "hasToolResult": false},
         "response": {"content": "I will look.", "toolCalls": [call("1+2"), call("6*7")]}},
        {"match": {"userMessage": "both", "hasToolResult": true}, "response": {"content": "They are 3 and 42."}},
    ]));
    let tap = Tap::to(&peer);
    let world = world(&tap.url(), "[policy]\ntools = [\"calculator\"]\n[tools.ask_user]\nenabled = false\n");
    let did = world.baton(&["ask", "--thread", "t", "both"]);
    assert_eq!((did.code, did.out.as_str()), (0, "I will look.\nThey are 3 and 42.\n"), "{did:?}");
    let requests = tap.requests();
    let paths: Vec<&str> = requests.iter().map(|(path, _)| path.as_str()).collect();
    assert_eq!(paths, ["/api/chat", "/api/chat"]);
    let body = Mask::default().value(requests[1].1.clone());
    let told = json!({"model": body["model"], "stream": body["stream"], "options": body["options"]});
    let expected =
        json!({"model": "llama3.2:3b", "stream": true, "options": {"num_predict": 4096, "temperature": 0.0}});
    assert_eq!(told, expected);
    assert_eq!(body["tools"][0]["function"]["name"], "calculator");
    let asks = |index: u32, expression: &str| {
        let function = json!({"index": index, "name": "calculator", "arguments": {"expression": expression}});
        json!({"id": format!("ID1-{}", index + 1), "type": "function", "function": function})
    };
    let result = |id: &str, result: &str| {
        let content = json!({"exact": true, "result": result}).to_string();
        json!({"role": "tool", "tool_call_id": id, "tool_name": "calculator", "content": content})
    };
    let expected = [
        json!({"role": "user", "content": "both"}),
        json!({"role": "assistant", "content": "I will look.", "tool_calls": [asks(0, "1+2"), asks(1, "6*7")]}),
        result("ID1-1", "3"),
        result("ID1-2", "42"),
    ];
    assert_eq!(body["messages"].as_array().unwrap()[1..], expected);
}

#[test]
fn a_server_that_is_busy_is_asked_again_when_it_says() {
    let fixtures = json!([
        {"match": {"userMessage": "busy", "sequenceIndex": 0},
         "response": {"error": {"message": "Slow down", "type": "rate_limit_error"}, "status": 429, "retryAfter": 1}},
        {"match": {"userMessage": "busy"}, "response": {"content": "Now I can."}},
    ]);
    let expected = (0, "warning llm_rate_limited, thinking, done ok".to_owned(), 2);
    assert_eq!(ask(&fixtures, "busy"), expected);
}

/// Text that was shown is no answer, and the request is not repeated.
#[test]
fn a_stream_that_is_cut_is_a_failure() {
    let fixtures = json!([
        {"match": {"userMessage": "cut"}, "response": {"content": "This stream will be cut before it ends."},
         "truncateAfterChunks": 3, "chunkSize": 8, "latency": 60},
    ]);
    assert_eq!(ask(&fixtures, "cut"), (1, "thinking, error llm_connection, done error".to_owned(), 1));
}

#[test]
fn a_body_that_makes_no_sense_is_asked_for_once_more() {
    let fixtures = json!([
        {"match": {"userMessage": "garbage"}, "response": {"content": "never"}, "chaos": {"malformedRate": 1}},
        {"match": {"userMessage": "could not be read"}, "response": {"content": "never"}, "chaos": {"malformedRate": 1}},
    ]);
    let told = "warning llm_invalid_response, error llm_invalid_response, done error";
    assert_eq!(ask(&fixtures, "garbage"), (1, told.to_owned(), 2));
}

#[test]
fn a_connection_that_is_dropped_is_tried_three_times() {
    let fixtures = json!([
        {"match": {"userMessage": "gone"}, "response": {"content": "never"}, "chaos": {"disconnectRate": 1}},
    ]);
    let told = "warning llm_connection, warning llm_connection, error llm_connection, done error";
    assert_eq!(ask(&fixtures, "gone"), (1, told.to_owned(), 3));
}

#[test]
fn a_server_that_fails_is_tried_three_times() {
    let fixtures = json!([
        {"match": {"userMessage": "broken"}, "response": {"content": "never"}, "chaos": {"dropRate": 1}},
    ]);
    let told = "warning llm_server, warning llm_server, error llm_server, done error";
    assert_eq!(ask(&fixtures, "broken"), (1, told.to_owned(), 3));
}

/// Anthropic's format: blocks of reasoning prove the model's thoughts, and only whole ones count.
#[test]
fn signed_reasoning_goes_back_unchanged_with_the_result() {
    let arguments = json!({"expression": "1+2"});
    let peer = serve(&json!([
        {"match": {"userMessage": "sum", "hasToolResult": false},
         "response": {"content": "I will look.", "reasoning": "Hm, a sum.", "reasoningSignature": "c2lnbmVk",
                      "redactedThinking": ["b3BhcXVl"],
                      "toolCalls": [{"id": "toolu_1", "name": "calculator", "arguments": arguments.to_string()}]}},
        {"match": {"userMessage": "sum", "hasToolResult": true}, "response": {"content": "It is 3."}},
    ]));
    let tap = Tap::to(&peer);
    let world = World::new();
    settings(
        &world,
        &tap.url(),
        Some("anthropic"),
        "claude-sonnet-4-5",
        "[policy]\ntools = [\"calculator\"]\n[tools.ask_user]\nenabled = false\n",
    );
    let did = world.baton(&["ask", "sum"]);
    assert_eq!((did.code, did.out.as_str()), (0, "I will look.\nIt is 3.\n"), "{did:?}");
    let body = Mask::default().value(tap.requests()[1].1.clone());
    let expected = json!([
        {"type": "redacted_thinking", "data": "b3BhcXVl"},
        {"type": "thinking", "thinking": "Hm, a sum.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "I will look."},
        {"type": "tool_use", "id": "ID1-1", "name": "calculator", "input": arguments},
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
}
