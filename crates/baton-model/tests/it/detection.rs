//! Finding out what a server speaks and what it has.

use std::time::Duration;

use baton_core::chat::TokenUsage;
use baton_core::fault::{Code, Fault};
use baton_model::wire::Wire;
use baton_model::{Catalog, Delta, ModelProbe, ProbeAnswer, ProbeFinding, Provider};
use serde_json::json;

use crate::server::{Answer, Request, Server};
use crate::talk::{NDJSON, done, failed, heard, keyed, line, provider, said, says};

/// A provider of which nobody said what it speaks.
fn unknown(url: &str) -> Provider {
    Provider { name: "mine".to_owned(), ..provider(url) }
}

fn catalog(url: &str) -> Catalog {
    Catalog::new(vec![unknown(url)], vec![]).unwrap()
}

/// An answer of Chat Completions.
fn chat(text: &str) -> Answer {
    let event = |body: serde_json::Value| format!("data: {body}\n\n");
    let delta = json!({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}]});
    let stop = json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}});
    let body = [event(delta), event(stop), event(usage), "data: [DONE]\n\n".to_owned()].concat();
    Answer::stream("text/event-stream").chunk(body).end()
}

fn texts(deltas: Vec<Delta>) -> String {
    deltas
        .into_iter()
        .filter_map(|delta| if let Delta::Text(text) = delta { Some(text) } else { None })
        .collect()
}

#[tokio::test]
async fn the_format_is_found_out_once_for_everyone() {
    // Each in its own way says that nothing is there.
    let server = Server::deciding(|_, request| match request.path.as_str() {
        "/v1/chat/completions" => Answer::whole(404, &[], "404 page not found"),
        "/v1/responses" => Answer::json(405, r#"{"detail":"Method Not Allowed"}"#),
        "/v1/messages" => Answer::json(501, "{}"),
        _ => says("found"),
    });
    let catalog = catalog(&server.url());
    let model = catalog.model("mine/m").unwrap();
    assert_eq!(model.wire(), "");
    assert_eq!(heard(&model).await, (said("found"), None));
    assert_eq!(model.wire(), "ollama");
    assert_eq!(heard(&catalog.clone().model("mine/another").unwrap()).await, (said("found"), None));
    let tried = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat", "/api/chat"];
    assert_eq!(server.paths(), tried);
}

#[tokio::test]
async fn the_commonest_format_is_tried_first() {
    let server = Server::answering([chat("one"), chat("two")]);
    let model = catalog(&server.url()).model("mine/m").unwrap();
    for text in ["one", "two"] {
        let (deltas, fault) = heard(&model).await;
        assert_eq!((texts(deltas), fault), (text.to_owned(), None));
    }
    assert_eq!(server.paths(), ["/v1/chat/completions"; 2]);
    assert_eq!(model.wire(), "chat_completions");
}

#[tokio::test]
async fn a_failure_settles_nothing() {
    let missing = Answer::json(404, r#"{"error":{"message":"model 'm' not found","type":"api_error"}}"#);
    let absent = Answer::whole(404, &[], "");
    let table = [
        (vec![missing], Code::LlmConnection, 1),
        (vec![Answer::json(401, "{}")], Code::LlmAuth, 1),
        (vec![Answer::json(500, "{}")], Code::LlmServer, 1),
        (vec![absent, Answer::json(429, "{}")], Code::LlmRateLimited, 2),
    ];
    for (answers, code, asked) in table {
        let server = Server::answering(answers);
        let model = catalog(&server.url()).model("mine/m").unwrap();
        assert_eq!(failed(&model).await.code, code);
        assert_eq!((server.requests().len(), model.wire()), (asked, ""), "{code:?}");
    }
}

#[tokio::test]
async fn a_format_is_found_out_when_its_answer_can_be_read() {
    // A gateway that says yes to everything, until what stands behind it is up.
    let server = Server::deciding(|n, request| match (n, request.path.as_str()) {
        (0, _) => Answer::stream("text/plain").chunk("data: welcome\n\n").end(),
        (1, _) => Answer::json(200, r#"{"status":"ok"}"#),
        (_, "/v1/chat/completions") => Answer::whole(404, &[], ""),
        (_, "/v1/responses") => Answer::whole(404, &[], ""),
        (_, "/v1/messages") => Answer::whole(404, &[], ""),
        _ => says("found"),
    });
    let model = catalog(&server.url()).model("mine/m").unwrap();
    for _ in 0..2 {
        assert_eq!((failed(&model).await.code, model.wire()), (Code::LlmInvalidResponse, ""));
    }
    assert_eq!(heard(&model).await, (said("found"), None));
    assert_eq!(model.wire(), "ollama");
    let tried = ["/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"];
    assert_eq!(server.paths(), [&tried[..1], &tried[..1], &tried].concat());
}

#[tokio::test]
async fn a_format_is_found_out_with_the_first_piece_of_an_answer() {
    let event = json!({"choices": [{"index": 0, "delta": {"content": "half"}}]});
    let half = Answer::stream("text/event-stream").chunk(format!("data: {event}\n\n")).hang_up();
    let server = Server::answering([half]);
    let model = catalog(&server.url()).model("mine/m").unwrap();
    let (deltas, fault) = heard(&model).await;
    assert_eq!(
        (texts(deltas), fault.map(|fault| fault.code)),
        ("half".to_owned(), Some(Code::LlmConnection))
    );
    assert_eq!(model.wire(), "chat_completions");
}

#[tokio::test]
async fn a_server_that_speaks_nothing_we_know() {
    let server = Server::deciding(|_, _| Answer::whole(404, &[], "404 page not found"));
    let words = format!(
        "{} speaks none of the known formats (chat_completions, responses, anthropic, ollama); \
         is base_url right? The provider's `api` names one",
        server.url()
    );
    let model = catalog(&server.url()).model("mine/m").unwrap();
    assert_eq!(failed(&model).await, Fault::new(Code::LlmConnection, words));
    assert_eq!(server.requests().len(), 4);
}

#[tokio::test]
async fn a_server_lists_its_models() {
    let tags = r#"{"models":[{"name":"a:1b"},{"name":"b:latest"},{"no":"name"}]}"#;
    let models = r#"{"object":"list","data":[{"id":"x/y"},{"id":"z"}]}"#;
    let absent = Answer::whole(404, &[], "");
    let table = [
        (Some(Wire::Ollama), vec![Answer::json(200, tags)], vec!["/api/tags"], vec!["a:1b", "b:latest"]),
        (Some(Wire::Anthropic), vec![Answer::json(200, models)], vec!["/v1/models"], vec!["x/y", "z"]),
        (None, vec![Answer::json(200, models)], vec!["/v1/models"], vec!["x/y", "z"]),
        (
            None,
            vec![absent, Answer::json(200, tags)],
            vec!["/v1/models", "/api/tags"],
            vec!["a:1b", "b:latest"],
        ),
    ];
    for (api, answers, paths, expected) in table {
        let server = Server::answering(answers);
        let catalog = Catalog::new(vec![Provider { api, ..unknown(&server.url()) }], vec![]).unwrap();
        assert_eq!(catalog.list("mine").await, Ok(expected.into_iter().map(str::to_owned).collect()));
        assert_eq!(server.paths(), paths);
    }
}

#[tokio::test]
async fn a_list_that_cannot_be_had() {
    let key = "hunter2-hunter2";
    let list = async |answer| {
        let server = Server::answering([answer]);
        let catalog = Catalog::new(vec![keyed(&server.url(), Wire::Ollama, key)], vec![]).unwrap();
        let fault = catalog.list("ollama").await.unwrap_err();
        assert!(!format!("{fault:?}").contains("hunter2"), "{fault:?}");
        assert_eq!(server.requests()[0].header("authorization"), Some("Bearer hunter2-hunter2"));
        (fault.code, fault.message.replace(&server.url(), "URL"))
    };
    let no_list =
        (Code::LlmInvalidResponse, "URL answered with something that is no list of models".to_owned());
    assert_eq!(list(Answer::json(200, "{}")).await, no_list);
    assert_eq!(list(Answer::json(200, "nonsense")).await, no_list);
    assert_eq!(list(Answer::json(401, &format!("{{\"error\":\"{key}\"}}"))).await.0, Code::LlmAuth);
    assert_eq!(list(Answer::json(404, "{}")).await.0, Code::LlmConnection);
    let nobody = catalog("http://127.0.0.1:1").list("nobody").await.unwrap_err();
    let words = "there is no provider \"nobody\"; there are mine/MODEL, scripted/FILE and offline";
    assert_eq!(nobody, Fault::new(Code::LlmConnection, words));
}

/// A model that does what it is asked, or answers in words whatever it is asked.
fn able(request: &Request, is_able: bool) -> Answer {
    let body: serde_json::Value = serde_json::from_str(&request.body).unwrap();
    let call = json!({"message": {"role": "assistant", "content": "", "tool_calls": [
        {"function": {"name": "report_colour", "arguments": {"colour": "green"}}}]}, "done": false});
    if is_able && body["tools"].is_array() {
        return Answer::stream(NDJSON).chunk(format!("{call}\n{}", done())).end();
    }
    if is_able && body["format"].is_object() {
        return says(r#"{"is_green": true}"#);
    }
    Answer::stream(NDJSON).chunk(line("one ")).chunk(line("two")).chunk(done()).end()
}

/// A probe with the times, which nobody knows before, taken out.
async fn probed(url: &str) -> ModelProbe {
    let mut probe = Catalog::new(vec![provider(url)], vec![]).unwrap().probe("ollama/m").await;
    if let Ok(answered) = &mut probe.answer {
        assert!(answered.first <= answered.total, "{answered:?}");
        (answered.first, answered.total) = (Duration::ZERO, Duration::ZERO);
    }
    probe
}

#[tokio::test]
async fn a_probe_reports_the_abilities_of_a_model() {
    let usage =
        TokenUsage { prompt_tokens: 7, completion_tokens: 3, cost_micro_usd: Some(0), estimated: false };
    let answered = ProbeAnswer { first: Duration::ZERO, total: Duration::ZERO, pieces: 2, usage };
    let expected = ModelProbe {
        model: "ollama/m".to_owned(),
        wire: "ollama",
        is_local: true,
        answer: Ok(answered),
        tools: ProbeFinding::Yes,
        structured: ProbeFinding::Yes,
    };
    let server = Server::deciding(|_, request| able(request, true));
    assert_eq!(probed(&server.url()).await, expected);
    let server = Server::deciding(|_, request| able(request, false));
    let no_json = "the model's answer is not the JSON that was asked for: \
                   not valid JSON: expected value at line 1 column 1";
    let expected = ModelProbe {
        tools: ProbeFinding::No("it answered in words and called no tool".to_owned()),
        structured: ProbeFinding::No(no_json.to_owned()),
        ..expected
    };
    assert_eq!(probed(&server.url()).await, expected);
}

#[tokio::test]
async fn a_probe_of_a_server_that_does_not_answer_has_the_fault() {
    let server = Server::answering([Answer::json(401, r#"{"error":"no"}"#)]);
    let fault =
        Fault::new(Code::LlmAuth, "the model's server did not accept the key (status 401); it said: no");
    let expected = ModelProbe {
        model: "ollama/m".to_owned(),
        wire: "ollama",
        is_local: true,
        answer: Err(fault),
        tools: ProbeFinding::NotAsked,
        structured: ProbeFinding::NotAsked,
    };
    assert_eq!(probed(&server.url()).await, expected);
    assert_eq!(server.requests().len(), 1);
    let unknown = Catalog::new(vec![], vec![]).unwrap().probe("who/knows").await;
    assert_eq!(unknown.answer.map_err(|fault| fault.code), Err(Code::LlmConnection));
}

#[tokio::test]
async fn the_offline_model_can_be_probed_too() {
    let probe = Catalog::new(vec![], vec![]).unwrap().probe("offline").await;
    assert!(probe.answer.is_ok() && probe.is_local, "{probe:?}");
    assert_eq!(probe.wire, "");
}
