//! llama.cpp's server, with models that this project makes: text, tool calls, limits and cancels, over each of the
//! three formats that it speaks, and once with the format left to be found out.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::gguf::{self, CALCULATED, Habit, PIECES, RECITED};
use crate::http;
use crate::peer::Peer;
use crate::tap::Tap;
use crate::told::{entries, is_said_by, outline, pieces, settings};
use crate::world::World;

/// Starts the server with a model of this habit, and one slot.
fn serve(habit: Habit, more: &[&str]) -> Peer {
    let folder = tempfile::tempdir().unwrap();
    gguf::write(&folder.path().join("model.gguf"), habit);
    let arguments =
        "-m model.gguf --alias habits --host 127.0.0.1 --port 0 --jinja -np 1 -t 1 --no-webui --offline";
    let arguments = arguments.split(' ').chain(more.iter().copied()).map(str::to_owned).collect::<Vec<_>>();
    Peer::start("llama-server", &arguments, folder)
}

/// A machine that uses this server.
fn world(url: &str, api: Option<&str>, more: &str) -> World {
    let world = World::new();
    settings(&world, url, api, "habits", more);
    world
}

/// Makes a test of every scenario, for every format. The slow scenario is not done twice in the same format.
macro_rules! in_every_format {
    ($($scenario:ident),+ ; slow: $slow:ident $(,)?) => {
        in_every_format! { @ chat_completions Some("chat_completions"), $($scenario)+ $slow }
        in_every_format! { @ responses Some("responses"), $($scenario)+ $slow }
        in_every_format! { @ anthropic Some("anthropic"), $($scenario)+ $slow }
        in_every_format! { @ found_out None, $($scenario)+ }
    };
    (@ $format:ident $api:expr, $($scenario:ident)+) => {
        mod $format {
            $(#[test]
            fn $scenario() {
                super::$scenario($api);
            })+
        }
    };
}

in_every_format! {
    text_is_streamed,
    a_tool_is_called_and_its_result_answered,
    a_call_that_was_cut_never_runs,
    an_answer_that_was_cut_is_said_to_be,
    a_message_that_does_not_fit_is_a_failure,
    a_history_that_does_not_fit_is_shortened,
    a_cancel_frees_the_slot;
    slow: comments_in_a_stream_are_no_text,
}

/// No tools, and room for the whole recited text.
const TEXT: &str = "max_tokens = 300\n[policy]\ntools = []\n";

/// One tool, and room for a call.
const CALCULATOR: &str =
    "max_tokens = 300\n[policy]\ntools = [\"calculator\"]\n[tools.ask_user]\nenabled = false\n";

/// One tool. The answer ends inside the arguments of a call.
const CUT: &str = "max_tokens = 30\n[policy]\ntools = [\"calculator\"]\n[tools.ask_user]\nenabled = false\n";

/// No tools. The answer ends after a few words.
const BRIEF: &str = "max_tokens = 4\n[policy]\ntools = []\n";

/// No tools, and no end.
const ENDLESS: &str = "max_tokens = 1000000\n[policy]\ntools = []\n";

fn text_is_streamed(api: Option<&str>) {
    let peer = serve(Habit::Recites, &["-c", "4096"]);
    let world = world(&peer.url(), api, TEXT);
    let did = world.baton(&["ask", "--json", "--thread", "t", "hello"]);
    let objects = did.objects();
    assert_eq!((did.code, outline(&objects).as_str()), (0, "thinking, done ok"), "{did:?}");
    // One token a piece, but for the face: its four quarters are no text until they are together.
    assert!(is_said_by(&pieces(&objects), &PIECES), "{objects:?}");
    let usage = &objects.last().unwrap()["usage"];
    assert_eq!(usage["completion_tokens"], 17, "{usage}");
    assert_eq!(entries(&world, "t"), [user("hello"), assistant(RECITED)]);
}

fn a_tool_is_called_and_its_result_answered(api: Option<&str>) {
    let peer = serve(Habit::Calls, &["-c", "4096"]);
    let world = world(&peer.url(), api, CALCULATOR);
    let did = world.baton(&["ask", "--json", "--thread", "t", "hello"]);
    let expected = "tool_start, tool_result, thinking, done ok";
    assert_eq!((did.code, outline(&did.objects()).as_str()), (0, expected), "{did:?}");
    let result =
        json!({"tool_call_id": "ID1-1", "tool_name": "calculator", "result": {"exact": true, "result": "3"}});
    assert_eq!(entries(&world, "t"), around(&json!({"expression": CALCULATED}), &result));
}

/// With Responses this server calls even a cut answer `completed`, so that there only the arguments show that it was
/// cut.
fn a_call_that_was_cut_never_runs(api: Option<&str>) {
    let peer = serve(Habit::Calls, &["-c", "4096"]);
    let world = world(&peer.url(), api, CUT);
    let did = world.baton(&["ask", "--json", "--thread", "t", "hello"]);
    let expected = "tool_start, tool_result, thinking, done ok";
    assert_eq!((did.code, outline(&did.objects()).as_str()), (0, expected), "{did:?}");
    let why = "the answer was cut off at the token limit, so this call was not run; ask for less at once";
    let result =
        json!({"tool_call_id": "ID1-1", "tool_name": "calculator", "status": "error", "result": why});
    assert_eq!(entries(&world, "t"), around(&json!({}), &result));
}

/// With Responses nothing shows it: this server calls the answer `completed`.
fn an_answer_that_was_cut_is_said_to_be(api: Option<&str>) {
    let peer = serve(Habit::Recites, &["-c", "4096"]);
    let world = world(&peer.url(), api, BRIEF);
    let did = world.baton(&["ask", "--json", "hello"]);
    let expected = match api {
        Some("responses") => "thinking, done ok",
        _ => "thinking, warning budget_exceeded, done ok",
    };
    assert_eq!((did.code, outline(&did.objects()).as_str()), (0, expected), "{did:?}");
    assert!(is_said_by(&pieces(&did.objects()), &PIECES[..4]), "{did:?}");
}

fn a_message_that_does_not_fit_is_a_failure(api: Option<&str>) {
    let peer = serve(Habit::Recites, &["-c", "512"]);
    let world = world(&peer.url(), api, TEXT);
    let did = world.baton(&["ask", "--json", "--thread", "t", &"x".repeat(2000)]);
    let expected = "warning context_too_long, error context_too_long, done error";
    assert_eq!((did.code, outline(&did.objects()).as_str()), (1, expected), "{did:?}");
}

/// Two messages fit alone and not together.
fn a_history_that_does_not_fit_is_shortened(api: Option<&str>) {
    let peer = serve(Habit::Recites, &["-c", "768"]);
    let world = world(&peer.url(), api, TEXT);
    let ask = |text: &str| world.baton(&["ask", "--json", "--thread", "t", text]);
    let did = ask(&"x".repeat(300));
    assert_eq!((did.code, outline(&did.objects()).as_str()), (0, "thinking, done ok"), "{did:?}");
    let did = ask(&"y".repeat(300));
    let expected = "warning context_too_long, thinking, done ok";
    assert_eq!((did.code, outline(&did.objects()).as_str()), (0, expected), "{did:?}");
    assert_eq!(pieces(&did.objects()).concat(), RECITED);
}

fn a_cancel_frees_the_slot(api: Option<&str>) {
    let peer = serve(Habit::Babbles, &["-c", "1024", "--context-shift"]);
    let world = world(&peer.url(), api, ENDLESS);
    let mut running = world.start(&["ask", "--thread", "t", "hello"]);
    running.until(RECITED);
    assert_eq!(http::get(&peer, "/slots")[0]["is_processing"], true);
    running.signal(Signal::INT);
    let did = running.end();
    assert_eq!((did.code, did.out.starts_with(RECITED)), (130, true), "{}", did.err);
    peer.until_logged("cancel task");
    peer.until_logged("stop processing");
    assert_eq!(http::get(&peer, "/slots")[0]["is_processing"], false);
}

/// While it reads a long prompt the server sends a comment every second. How much is long depends on the machine.
fn comments_in_a_stream_are_no_text(api: Option<&str>) {
    let peer = serve(Habit::Recites, &["-c", "32768", "--sse-ping-interval", "1"]);
    let tap = Tap::to(&peer);
    let world = world(&tap.url(), api, TEXT);
    for length in [3_000, 12_000, 24_000] {
        let did = world.baton(&["ask", &"x".repeat(length)]);
        assert_eq!((did.code, did.out.trim_end()), (0, RECITED), "{}", did.err);
        if tap.answered().contains("\n:\n\n") {
            return;
        }
    }
    panic!("the server sent no comment: {}", tap.answered());
}

#[test]
fn models_test_says_what_answers_and_in_which_format() {
    let peer = serve(Habit::Recites, &["-c", "4096"]);
    for (api, told) in
        [(None, "chat_completions"), (Some("responses"), "responses"), (Some("anthropic"), "anthropic")]
    {
        let world = world(&peer.url(), api, TEXT);
        let did = world.baton(&["models", "test", "--json"]);
        assert_eq!(did.code, 0, "{did:?}");
        let tried = did.json()["models"][0].clone();
        let seen = json!([tried["model"], tried["api"], tried["answers"], tried["streamed"], tried["local"]]);
        assert_eq!(seen, json!(["peer/habits", told, true, true, true]), "{did:?}");
    }
}

#[test]
fn the_format_is_found_out_once() {
    let peer = serve(Habit::Calls, &["-c", "4096"]);
    let tap = Tap::to(&peer);
    let world = world(&tap.url(), None, CALCULATOR);
    world.baton(&["ask", "--thread", "t", "hello"]).ok();
    let paths: Vec<String> = tap.requests().into_iter().map(|(path, _)| path).collect();
    assert_eq!(paths, ["/v1/chat/completions", "/v1/chat/completions"]);
}

fn user(text: &str) -> Value {
    json!({"t": "UserMessage", "data": {"text": text}})
}

fn assistant(text: &str) -> Value {
    json!({"t": "AssistantMessage", "data": {"content": text}})
}

/// The stored entries of a turn with one call of the calculator and its answered result.
fn around(arguments: &Value, result: &Value) -> Vec<Value> {
    let call = json!({"id": "ID1-1", "name": "calculator", "arguments": arguments});
    vec![
        user("hello"),
        json!({"t": "AssistantMessage", "data": {"content": "", "tool_calls": [call]}}),
        json!({"t": "ToolCall", "data": {"id": "ID1-1", "function_name": "calculator", "arguments": arguments}}),
        json!({"t": "ToolResult", "data": result}),
        assistant(RECITED),
    ]
}

/// This server promises to keep a connection, and closes it after every stream all the same. A request that crosses
/// the close would be lost, so no connection to a local server is used twice.
#[test]
fn a_connection_that_the_server_has_closed_costs_no_answer() {
    let peer = serve(Habit::Calls, &["-c", "4096"]);
    let tap = Tap::late(&peer);
    let world = world(&tap.url(), Some("chat_completions"), CALCULATOR);
    let did = world.baton(&["ask", "hello"]);
    assert_eq!((did.code, did.out.trim_end()), (0, RECITED), "{did:?}");
    assert!(!did.err.contains("warning"), "{}", did.err);
}
