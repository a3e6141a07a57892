//! Every class of failure of a model, over a real socket: the whole output is compared.

use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::world::World;

const SSE: &str = "text/event-stream";

/// A whole answer in Chat Completions' format.
fn says(text: &str) -> Answer {
    let frame = |choice: Value| format!("data: {}\n\n", json!({"choices": [choice]}));
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}});
    Answer::stream(SSE)
        .chunk(frame(json!({"index": 0, "delta": {"content": text}})))
        .chunk(frame(json!({"index": 0, "delta": {}, "finish_reason": "stop"})))
        .chunk(format!("data: {usage}\n\n"))
        .chunk("data: [DONE]\n\n")
        .end()
}

/// Neither short nor a question for a fact, so it goes to `reasoning`.
const OPEN: &str = "Tell me about the sea.";

/// Asks once; `lab/one` answers, and `lab/two` where it is named. Returns the exit code and the objects.
fn ask(server: &Server, more: &str) -> (i32, Vec<Value>) {
    let world = World::new();
    world.settings(&format!(
        "[providers.lab]\nbase_url = \"{}\"\napi = \"chat_completions\"\n\n[[roles.reasoning]]\nmodel = \"lab/one\"\nfirst_byte_s = 1\nidle_s = 1\n{more}",
        server.url()
    ));
    let did = world.baton(&["ask", "--json", "--steps", OPEN]);
    (did.code, did.objects())
}

fn warning(seq: u64, code: &str, message: &str) -> Value {
    json!({"type": "warning", "code": code, "message": message, "seq": seq, "run_id": "ID1"})
}

fn step(span: u32, description: &str, error: &str, reason: Option<&str>) -> Value {
    let span = format!("SPAN{span}");
    let mut metadata =
        json!({"span_id": span, "error": error, "model": "lab/one", "model_role": "reasoning"});
    if let Some(reason) = reason {
        metadata["reason"] = json!(reason);
    }
    json!({"type": "warning", "description": description, "metadata": metadata})
}

/// The same with the usage of the call.
fn costly(mut step: Value, prompt_tokens: u64, completion_tokens: u64) -> Value {
    step["metadata"]["usage"] =
        json!({"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens, "cost_usd": 0.0});
    step
}

/// The last three objects of a run that failed.
fn failed(seq: u64, code: &str, message: &str, tokens: [u64; 2], steps: Vec<Value>) -> [Value; 3] {
    let usage = json!({"tokens": tokens[0] + tokens[1], "prompt_tokens": tokens[0], "completion_tokens": tokens[1], "cost_usd": 0.0});
    [
        json!({"type": "error", "code": code, "message": message, "seq": seq, "run_id": "ID1"}),
        json!({"type": "done", "status": "error", "response": "", "usage": usage, "seq": seq, "run_id": "ID1"}),
        json!({"reply": message, "steps": steps, "trace_id": "ID1"}),
    ]
}

/// A server that always does the same.
fn always(answer: fn() -> Answer) -> Server {
    Server::deciding(move |_, _| answer())
}

/// A run that fails at once, without another try.
fn fails_at_once(answer: fn() -> Answer, code: &str, detail: &str, message: &str) {
    let (exit, objects) = ask(&always(answer), "");
    let steps = vec![step(1, detail, code, None)];
    assert_eq!((exit, objects), (1, failed(2, code, message, [0, 0], steps).to_vec()));
}

/// A run whose model is asked three times, each time in vain.
fn fails_three_times(server: &Server, code: &str, detail: &str, message: &str) {
    let (exit, objects) = ask(server, "");
    let again = format!("{detail}; trying again");
    let steps = vec![
        step(1, &again, code, Some("retry")),
        step(2, &again, code, Some("retry")),
        step(3, detail, code, None),
    ];
    let warnings = vec![warning(2, code, &again), warning(3, code, &again)];
    let expected = [warnings, failed(4, code, message, [0, 0], steps).to_vec()].concat();
    assert_eq!((exit, objects), (1, expected));
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_connection_that_nobody_takes() {
    let world = World::new();
    let nobody = Server::nobody();
    let provider = format!("[providers.lab]\nbase_url = \"{nobody}\"\napi = \"chat_completions\"\n");
    world.settings(&format!("{provider}[[roles.reasoning]]\nmodel = \"lab/one\"\n"));
    let did = world.baton(&["ask", "--json", "--steps", OPEN]);
    let detail =
        format!("cannot connect to {nobody}: Connection refused (os error 111); is the server running?");
    let message = format!(
        "The connection to the model failed: {detail} `baton models test` shows which models answer; choose another one with --model."
    );
    let again = format!("{detail}; trying again");
    let code = "llm_connection";
    let steps = vec![
        step(1, &again, code, Some("retry")),
        step(2, &again, code, Some("retry")),
        step(3, &detail, code, None),
    ];
    let warnings = vec![warning(2, code, &again), warning(3, code, &again)];
    let expected = [warnings, failed(4, code, &message, [0, 0], steps).to_vec()].concat();
    assert_eq!((did.code, did.objects()), (1, expected));
}

#[test]
fn a_server_that_fails() {
    let server = always(|| Answer::json(500, r#"{"error":{"message":"boom"}}"#));
    let detail = "the model's server failed (status 500); it said: boom";
    let message = "The model's server failed (status 500); it said: boom. Ask again in a moment, or choose another model.";
    fails_three_times(&server, "llm_server", detail, message);
}

#[test]
fn a_server_that_asks_to_slow_down() {
    let headers = &[("retry-after", "0"), ("content-type", "application/json")];
    let server = Server::deciding(|_, _| Answer::whole(429, headers, r#"{"error":{"message":"slow down"}}"#));
    let detail = "the model's server asks to slow down (status 429); it said: slow down";
    let message = "The model's server asks to slow down (status 429); it said: slow down. Ask again in a moment, or choose another model.";
    fails_three_times(&server, "llm_rate_limited", detail, message);
}

#[test]
fn a_server_that_recovers() {
    let loading = r#"{"error":{"type":"unavailable_error","message":"Loading model"}}"#;
    let server = Server::deciding(move |n, _| if n < 2 { Answer::json(503, loading) } else { says("Up.") });
    let again = "the model's server failed (status 503); it said: Loading model; trying again";
    let answered = json!({"type": "llm_call", "description": "lab/one answered", "metadata": {
        "span_id": "SPAN3", "model": "lab/one", "model_role": "reasoning", "reason": "an open request",
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "cost_usd": 0.0}}});
    let retry = |span| step(span, again, "llm_server", Some("retry"));
    let expected = [
        warning(2, "llm_server", again),
        warning(3, "llm_server", again),
        json!({"type": "thinking", "content": "Up.", "message_id": "ID1-4", "seq": 4, "run_id": "ID1"}),
        json!({"type": "done", "status": "ok", "response": "Up.", "usage": {"tokens": 11, "prompt_tokens": 9, "completion_tokens": 2, "cost_usd": 0.0}, "seq": 5, "run_id": "ID1"}),
        json!({"reply": "Up.", "steps": [retry(1), retry(2), answered], "trace_id": "ID1"}),
    ];
    assert_eq!(ask(&server, ""), (0, expected.to_vec()));
}

#[test]
fn a_model_that_does_not_begin() {
    let detail = "no answer began within 1 s (first_byte)";
    let message = "The model did not answer in time: no answer began within 1 s (first_byte). Ask again later, or choose another model.";
    fails_at_once(|| Answer::nothing().stall(), "llm_timeout", detail, message);
}

#[test]
fn a_model_that_is_slow_has_one_that_stands_in() {
    let server = Server::deciding(|_, request| {
        if request.body.contains("\"one\"") { Answer::nothing().stall() } else { says("Two.") }
    });
    let (exit, objects) = ask(&server, "[[roles.reasoning]]\nmodel = \"lab/two\"\n");
    let told = "no answer began within 1 s (first_byte); asking lab/two";
    let answered = json!({"type": "llm_call", "description": "lab/two answered", "metadata": {
        "span_id": "SPAN2", "model": "lab/two", "model_role": "reasoning", "reason": "an open request",
        "usage": {"prompt_tokens": 9, "completion_tokens": 2, "cost_usd": 0.0}}});
    let expected = [
        warning(2, "llm_timeout", told),
        json!({"type": "thinking", "content": "Two.", "message_id": "ID1-1", "seq": 3, "run_id": "ID1"}),
        json!({"type": "done", "status": "ok", "response": "Two.", "usage": {"tokens": 11, "prompt_tokens": 9, "completion_tokens": 2, "cost_usd": 0.0}, "seq": 4, "run_id": "ID1"}),
        json!({"reply": "Two.", "steps": [step(1, told, "llm_timeout", Some("fallback")), answered], "trace_id": "ID1"}),
    ];
    assert_eq!((exit, objects), (0, expected.to_vec()));
    assert_eq!(server.requests().len(), 2, "the slow one is asked once");
}

#[test]
fn an_answer_that_is_no_json() {
    let server = always(|| Answer::stream(SSE).chunk("data: {nonsense\n\n").end());
    let (exit, objects) = ask(&server, "");
    let (code, detail) = ("llm_invalid_response", "the model's server sent what is no JSON: {nonsense");
    let again = format!("{detail}; asking again, more simply");
    let message = format!(
        "The model's answer could not be understood: {detail}. Ask again, perhaps in other words, or choose another model."
    );
    let steps = vec![step(1, &again, code, Some("simplified")), step(2, detail, code, None)];
    let expected =
        [vec![warning(2, code, &again)], failed(3, code, &message, [0, 0], steps).to_vec()].concat();
    assert_eq!((exit, objects), (1, expected));
    let bodies: Vec<String> = server.requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies.len(), 2, "exactly one more try");
    assert!(!bodies[0].contains("Answer in plain text") && bodies[1].contains("Answer in plain text"));
}

#[test]
fn a_key_that_is_not_accepted() {
    let detail = "the model's server did not accept the key (status 401); it said: bad key";
    let message = "The model's server did not accept the key (status 401); it said: bad key. Check the key and the account; `baton doctor` says where the key is read from.";
    fails_at_once(|| Answer::json(401, r#"{"error":{"message":"bad key"}}"#), "llm_auth", detail, message);
}

#[test]
fn a_question_that_is_too_long() {
    let body = r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_prompt_tokens":900,"n_ctx":512}}"#;
    let server = Server::deciding(move |_, _| Answer::json(400, body));
    let (exit, objects) = ask(&server, "");
    let code = "context_too_long";
    let again = "the conversation is too long for the model (status 400); it said: the request exceeds the available context size; asking again with less of the history";
    let detail = "nothing more can be left out of the conversation, and it still does not fit";
    let message = "Nothing more can be left out of the conversation, and it still does not fit. Begin a new thread, fork from an earlier point, or choose a model with a larger window.";
    let steps = vec![step(1, again, code, Some("compaction")), step(2, detail, code, None)];
    let expected = [vec![warning(2, code, again)], failed(3, code, message, [0, 0], steps).to_vec()].concat();
    assert_eq!((exit, objects), (1, expected));
    assert_eq!(server.requests().len(), 1, "never the same request again");
}

#[test]
fn a_model_that_refuses() {
    let frames = "data: {\"choices\":[{\"index\":0,\"delta\":{\"refusal\":\"I will not.\"}}]}\n\ndata: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n";
    let server = Server::deciding(move |_, _| Answer::stream(SSE).chunk(frames).end());
    let (exit, objects) = ask(&server, "");
    let message = "The model refused: I will not. Ask in another way, or ask another model.";
    let steps = vec![costly(step(1, "I will not.", "refused", None), 9, 3)];
    let [error, mut done, result] = failed(3, "refused", message, [9, 3], steps);
    done["response"] = json!("I will not.");
    let said = json!({"type": "thinking", "content": "I will not.", "message_id": "ID1-0", "seq": 2, "run_id": "ID1"});
    assert_eq!((exit, objects), (1, vec![said, error, done, result]));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_stream_that_is_cut_after_words_is_not_asked_for_again() {
    let server = always(|| {
        let frame = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Once upon\"}}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\n\n";
        Answer::stream(SSE).chunk(frame).end()
    });
    let (exit, objects) = ask(&server, "");
    let detail = "the model's stream ended before it was complete";
    let message = format!(
        "The connection to the model failed: {detail}. `baton models test` shows which models answer; choose another one with --model."
    );
    let steps = vec![costly(step(1, detail, "llm_connection", None), 9, 2)];
    let [error, mut done, mut result] = failed(3, "llm_connection", &message, [9, 2], steps);
    done["response"] = json!("Once upon");
    result["reply"] = json!(format!("{message}\n\nWhat was said until then:\n\nOnce upon"));
    let said =
        json!({"type": "thinking", "content": "Once upon", "message_id": "ID1-0", "seq": 2, "run_id": "ID1"});
    assert_eq!((exit, objects), (1, vec![said, error, done, result]));
    assert_eq!(server.requests().len(), 1);
}
