//! Secrets of every kind, and neighbours that repeat the secrets that they were sent.

use serde_json::{Value, json};

use crate::server::{Answer, Request, Server};

/// Every secret that a test makes up contains this word.
pub(super) const WORD: &str = "5ecre7";

/// The secrets, named by their purpose.
pub(super) const BATON_TOKEN: &str = "5ecre7-baton-token-0123456789";
pub(super) const EXECUTION: &str = "5ecre7-execution-0123456789";
pub(super) const CONTEXT: &str = "5ecre7-context-0123456789";
pub(super) const MODEL: &str = "sk-5ecre7-model-0123456789";
pub(super) const COLLECTOR: &str = "5ecre7-collector-0123456789";
pub(super) const DATABASE: &str = "5ecre7-database-0123456789";
pub(super) const PROXY: &str = "5ecre7-proxy-0123456789";

/// Everything that a neighbour was sent, in the words in which it repeats it.
fn confided(request: &Request) -> String {
    request.headers.iter().map(|(name, value)| format!("{name}: {value}; ")).collect()
}

/// A model's server. The user's latest message selects its behaviour; results of tools are repeated.
pub(super) fn model() -> Server {
    Server::deciding(|_, request| {
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let messages = body["messages"].as_array().cloned().unwrap_or_default();
        let last = messages.last().cloned().unwrap_or_default();
        let said = last["content"].as_str().unwrap_or_default().to_owned();
        if last["role"] == "tool" {
            return says(&[json!({"content": format!("It says: {said}")})], "stop");
        }
        let complaint = json!({"error": {"message": confided(request), "code": MODEL}});
        match said.as_str() {
            "refuse" => Answer::json(401, &complaint.to_string()),
            "break" => Answer::json(500, &complaint.to_string()),
            "garble" => Answer::whole(500, &[("content-type", "text/html")], &confided(request)),
            // The key lies where the message is cut off.
            "overflow" => {
                let long = format!("{}{}", "x".repeat(490), confided(request));
                Answer::json(400, &json!({"error": {"message": long}}).to_string())
            }
            "stumble" => Answer::stream("text/event-stream").chunk(format!("data: {complaint}\n\n")).end(),
            said => match said.strip_prefix("call ") {
                Some(name) => {
                    let function = json!({"name": name, "arguments": "{}"});
                    let call = json!({"index": 0, "id": "c", "type": "function", "function": function});
                    says(&[json!({"tool_calls": [call]})], "tool_calls")
                }
                None => says(&[json!({"content": "Hello."})], "stop"),
            },
        }
    })
}

fn says(deltas: &[Value], finish: &str) -> Answer {
    let event = |delta: &Value, finish: Option<&str>| {
        format!("data: {}\n\n", json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let stream = Answer::stream("text/event-stream");
    let stream = deltas.iter().fold(stream, |stream, delta| stream.chunk(event(delta, None)));
    stream.chunk(event(&json!({}), Some(finish))).chunk("data: [DONE]\n\n").end()
}

/// The tools of [`execution`].
pub(super) const TOOLS: [&str; 7] =
    ["succeeds", "has_fields", "fails", "is_refused", "overflows", "is_not_let_in", "breaks"];

/// An execution service that repeats its token in every possible way.
pub(super) fn execution() -> Server {
    Server::deciding(|_, request| {
        let told = confided(request);
        if request.path == "/tools" {
            let tool = |name: &&str| json!({"name": name, "description": format!("For {told}"), "side_effect_free": true});
            return Answer::json(
                200,
                &json!({"tools": TOOLS.iter().map(tool).collect::<Vec<_>>()}).to_string(),
            );
        }
        let body: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let answer = |status: u16, body: Value| Answer::json(status, &body.to_string());
        match body["tool_name"].as_str().unwrap_or_default() {
            "succeeds" => answer(200, json!({"status": "success", "output": told})),
            "has_fields" => {
                let mut fields = json!({"list": [{"deep": told}]});
                fields[EXECUTION] = json!(1);
                answer(200, json!({"status": "ok", "output": fields}))
            }
            "fails" => answer(200, json!({"status": format!("error {told}"), "output": null, "error": told})),
            "is_refused" => answer(422, json!({"detail": told})),
            "overflows" => answer(400, json!({"detail": format!("{}{EXECUTION}", "x".repeat(985))})),
            "is_not_let_in" => answer(401, json!({"detail": told})),
            _ => answer(500, json!({"detail": told})),
        }
    })
}

/// A context service that refuses everything, with a long reason.
pub(super) fn context() -> Server {
    Server::deciding(|n, request| match n % 3 {
        0 => Answer::json(401, &confided(request)),
        1 => Answer::json(500, &confided(request)),
        _ => Answer::json(400, &confided(request)),
    })
}
