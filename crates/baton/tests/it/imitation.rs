//! Imitations of model servers on loopback, in Ollama's format and in OpenAI's.
//!
//! They answer with the given words, call the first tool where tools are offered and the question names one, and give
//! an object where a shape is asked for.

use serde_json::{Value, json};

use crate::server::{Answer, Request, Server};

/// An Ollama that has these models and answers with this text, in two pieces.
pub(crate) fn ollama(models: &'static [&'static str], says: [&'static str; 2]) -> Server {
    Server::deciding(move |_, request| match request.path.as_str() {
        "/api/tags" => tags(models),
        "/api/chat" => chat(request, says),
        _ => Answer::json(404, r#"{"error":"no such path"}"#),
    })
}

/// A server that is compatible with OpenAI's Chat Completions, has the model `big` and answers with this text.
pub(crate) fn compatible(says: [&'static str; 2]) -> Server {
    Server::deciding(move |_, request| {
        let path = request.path.split("/v1/").nth(1).unwrap_or_default();
        match path {
            "models" => Answer::json(200, r#"{"object":"list","data":[{"id":"big","object":"model"}]}"#),
            "chat/completions" => completions(request, says),
            _ => Answer::json(404, r#"{"error":{"message":"no such path"}}"#),
        }
    })
}

/// The list of an Ollama.
pub(crate) fn tags(models: &[&str]) -> Answer {
    let models: Vec<Value> = models.iter().map(|name| json!({"name": name, "model": name})).collect();
    Answer::json(200, &json!({ "models": models }).to_string())
}

fn chat(request: &Request, says: [&str; 2]) -> Answer {
    let asked: Value = serde_json::from_str(&request.body).unwrap();
    let line = |message: Value, done: bool| {
        let mut line = json!({"model": asked["model"], "created_at": "2026-01-01T00:00:00Z", "message": message, "done": done});
        if done {
            line["done_reason"] = json!("stop");
            line["prompt_eval_count"] = json!(12);
            line["eval_count"] = json!(3);
        }
        format!("{line}\n")
    };
    let message = |content: &str| json!({"role": "assistant", "content": content});
    let answer = Answer::stream("application/x-ndjson");
    let answer = if wants_call(&asked) {
        let mut calls = message("");
        calls["tool_calls"] =
            json!([{"function": {"name": "report_colour", "arguments": {"colour": "green"}}}]);
        answer.chunk(line(calls, false))
    } else if asked["format"].is_object() {
        answer.chunk(line(message("{\"is_green\": true}"), false))
    } else {
        says.iter().fold(answer, |answer, piece| answer.chunk(line(message(piece), false)))
    };
    answer.chunk(line(message(""), true)).end()
}

fn completions(request: &Request, says: [&str; 2]) -> Answer {
    let asked: Value = serde_json::from_str(&request.body).unwrap();
    let event = |delta: Value, finish: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": finish});
        let chunk = json!({"id": "c", "object": "chat.completion.chunk", "model": asked["model"], "choices": [choice]});
        format!("data: {chunk}\n\n")
    };
    let answer = Answer::stream("text/event-stream");
    let (answer, finish) = if wants_call(&asked) {
        let function = json!({"name": "report_colour", "arguments": "{\"colour\":\"green\"}"});
        let calls = json!([{"index": 0, "id": "call_1", "type": "function", "function": function}]);
        (answer.chunk(event(json!({"role": "assistant", "tool_calls": calls}), None)), "tool_calls")
    } else if asked["response_format"].is_object() {
        (answer.chunk(event(json!({"role": "assistant", "content": "{\"is_green\": true}"}), None)), "stop")
    } else {
        let said = |answer: Answer, piece: &&str| answer.chunk(event(json!({"content": piece}), None));
        (says.iter().fold(answer, said), "stop")
    };
    let usage = json!({"id": "c", "object": "chat.completion.chunk", "choices": [],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15}});
    answer
        .chunk(event(json!({}), Some(finish)))
        .chunk(format!("data: {usage}\n\n"))
        .chunk("data: [DONE]\n\n")
        .end()
}

fn wants_call(asked: &Value) -> bool {
    asked["tools"].to_string().contains("report_colour")
}

/// The messages of a request, without the instructions.
pub(crate) fn said_to(request: &Request) -> Vec<Value> {
    let body: Value = serde_json::from_str(&request.body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    messages.filter(|message| message["role"] != "system").cloned().collect()
}
