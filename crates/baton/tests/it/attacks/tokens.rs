//! A provider that reports no usage: tokens are estimated, so a token limit ends its runs all the same.

use serde_json::{Value, json};

use crate::server::{Answer, Server};
use crate::world::World;

const SAYS: &str = "Once more, and then once more, until the numbers have no end, as numbers do. ";
/// The token limit of a run in these tests; one of its calls uses about a third of it.
const LIMIT: u64 = 9_000;

/// A piece of Chat Completions.
fn completions(n: usize, usage: Option<Value>) -> Answer {
    let event = |data: Value| format!("data: {data}\n\n");
    let choice = |delta: Value, finish: Value| {
        event(json!({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}))
    };
    let arguments = json!({"expression": format!("{n} + 1")}).to_string();
    let function = json!({"name": "calculator", "arguments": arguments});
    let call = json!({"index": 0, "id": format!("c{n}"), "type": "function", "function": function});
    let answer = Answer::stream("text/event-stream")
        .chunk(choice(json!({"content": SAYS.repeat(40)}), Value::Null))
        .chunk(choice(json!({"tool_calls": [call]}), Value::Null))
        .chunk(choice(json!({}), json!("tool_calls")));
    let answer = match usage {
        Some(usage) => answer.chunk(event(json!({"choices": [], "usage": usage}))),
        None => answer,
    };
    answer.chunk("data: [DONE]\n\n").end()
}

/// The same in Ollama's format.
fn ollama(n: usize, usage: Option<Value>) -> Answer {
    let function = json!({"name": "calculator", "arguments": {"expression": format!("{n} + 1")}});
    let message =
        json!({"role": "assistant", "content": SAYS.repeat(40), "tool_calls": [{"function": function}]});
    let mut last =
        json!({"message": {"role": "assistant", "content": ""}, "done": true, "done_reason": "stop"});
    if let (Some(last), Some(Value::Object(usage))) = (last.as_object_mut(), usage) {
        last.extend(usage);
    }
    Answer::stream("application/x-ndjson")
        .chunk(format!("{}\n", json!({"message": message, "done": false})))
        .chunk(format!("{last}\n"))
        .end()
}

/// Runs a turn whose model calls a tool for ever; returns the number of model calls, the run's document, and the world.
fn run(api: &'static str, usage: Option<Value>) -> (usize, Value, World) {
    let models = Server::deciding(move |n, _| match api {
        "ollama" => ollama(n, usage.clone()),
        _ => completions(n, usage.clone()),
    });
    let world = World::new();
    world.settings(&format!(
        "model = \"lab/big\"\n[providers.lab]\nbase_url = \"{}\"\napi = \"{api}\"\n\
         [limits]\ntokens = {LIMIT}\nanswer_tokens = 1000\n[prices.\"lab/big\"]\ninput = 1\noutput = 10\n",
        models.url()
    ));
    let did = world.baton(&["ask", "--mode", "EXPLORATORY", "--thread", "t", "Count for ever"]);
    assert!(did.err.contains("the token limit was reached"), "{api}: {did:?}");
    let runs = world.baton(&["runs", "ls", "--json"]).json();
    let id = runs["items"][0]["id"].as_str().unwrap();
    let shown = world.baton(&["runs", "show", id, "--json"]).json();
    (models.requests().len(), shown, world)
}

#[test]
fn a_token_limit_ends_a_run_whose_provider_reports_no_usage() {
    for api in ["chat_completions", "ollama"] {
        let (asked, shown, world) = run(api, None);
        assert!((2..=4).contains(&asked), "{api}: asked {asked} times");
        let usage = &shown["usage"];
        assert_eq!(usage["estimated"], json!(true), "{api}: {usage}");
        let tokens = usage["tokens"].as_u64().unwrap();
        assert!((LIMIT / 2..LIMIT * 3 / 2).contains(&tokens), "{api}: {usage}");
        assert!(usage["completion_tokens"].as_u64().unwrap() > 700 * asked as u64, "{api}: {usage}");
        assert!(usage["cost_usd"].as_f64().unwrap() > 0.0, "{api}: {usage}");
        let calls = shown["steps"].as_array().unwrap().iter().filter(|step| step["type"] == "llm_call");
        let marked: Vec<&Value> = calls.map(|step| &step["metadata"]["usage"]["estimated"]).collect();
        assert_eq!(marked, vec![&json!(true); asked], "{api}");
        let sum = world.baton(&["usage", "--json"]).json()["items"][0].clone();
        assert_eq!(sum["estimated_calls"], json!(asked), "{api}: {sum}");
        let words =
            format!("the tokens of {asked} calls are estimated, because their providers report none\n");
        assert_eq!(world.baton(&["usage"]).err, words, "{api}");
        let words = world.baton(&["runs", "show", shown["id"].as_str().unwrap()]).ok();
        assert!(words.contains(" written, estimated), "), "{api}: {words}");
    }
}

#[test]
fn the_half_of_a_report_that_is_missing_is_estimated() {
    for (api, usage) in
        [("chat_completions", json!({"prompt_tokens": 3000})), ("ollama", json!({"prompt_eval_count": 3000}))]
    {
        let (asked, shown, _) = run(api, Some(usage));
        let usage = &shown["usage"];
        assert_eq!(
            (&usage["prompt_tokens"], &usage["estimated"]),
            (&json!(3000 * asked), &json!(true)),
            "{api}"
        );
        assert!(usage["completion_tokens"].as_u64().unwrap() > 700 * asked as u64, "{api}: {usage}");
    }
}

#[test]
fn what_a_provider_reports_is_taken_as_it_is() {
    for (api, usage) in [
        ("chat_completions", json!({"prompt_tokens": 3000, "completion_tokens": 1})),
        ("ollama", json!({"prompt_eval_count": 3000, "eval_count": 1})),
    ] {
        let (asked, shown, world) = run(api, Some(usage));
        let expected = json!({
            "tokens": 3001 * asked, "prompt_tokens": 3000 * asked, "completion_tokens": asked,
            "cost_usd": 0.00301 * asked as f64,
        });
        assert_eq!(shown["usage"], expected, "{api}");
        assert_eq!(world.baton(&["usage"]).err, "", "{api}");
    }
}
