//! What goes out, what comes back, and what one call leaves behind for the next.

use baton_core::fault::{Code, Fault};
use baton_model::wire::Wire;
use baton_model::{Catalog, Delta, Model, ModelEntry, ModelRequest, Price, Provider};
use futures_util::StreamExt;
use serde_json::Value;
use std::sync::Arc;

use crate::proxies::is_alone;
use crate::server::{Answer, Barrier, Request, Server};
use crate::talk::{
    MODEL, NDJSON, at, done, failed, heard, keyed, limits, line, model, paused, provider, question, said,
    said_at, says,
};

/// The headers that we chose, of the only request.
fn chosen(server: &Server) -> Vec<(String, String)> {
    let [request]: [Request; 1] = server.requests().try_into().unwrap();
    let mut headers = request.headers;
    headers.retain(|(name, _)| name != "content-length" && name != "host");
    headers.sort();
    headers
}

#[tokio::test]
async fn each_format_is_asked_at_its_address_with_its_headers() {
    let agent = concat!("baton/", env!("CARGO_PKG_VERSION"));
    let events = "text/event-stream, application/json";
    let lines = "application/x-ndjson, application/json";
    let bearer = ("authorization", "Bearer sk-key");
    let table = [
        (Wire::Ollama, "/api/chat", vec![("accept", lines), bearer]),
        (Wire::ChatCompletions, "/v1/chat/completions", vec![("accept", events), bearer]),
        (Wire::Responses, "/v1/responses", vec![("accept", events), bearer]),
        (
            Wire::Anthropic,
            "/v1/messages",
            vec![("accept", events), ("anthropic-version", "2023-06-01"), ("x-api-key", "sk-key")],
        ),
    ];
    for (wire, path, mut expected) in table {
        let server = Server::answering([]);
        failed(&at(keyed(&server.url(), wire, "sk-key\n"), ModelEntry::new(MODEL))).await;
        assert_eq!((&server.requests()[0].method[..], &server.paths()[0][..]), ("POST", path));
        // Nothing else is sent; no compression is asked for.
        expected.extend([("content-type", "application/json"), ("user-agent", agent)]);
        expected.sort_unstable();
        let expected: Vec<_> =
            expected.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        assert_eq!(chosen(&server), expected, "{wire:?}");
        let body: Value = serde_json::from_str(&server.requests()[0].body).unwrap();
        assert_eq!((&body["model"], &body["stream"]), (&Value::from("m"), &Value::from(true)), "{wire:?}");
    }
}

#[tokio::test]
async fn without_a_key_none_is_sent() {
    let server = Server::answering([says("hi")]);
    assert_eq!(heard(&model(&server.url())).await, (said("hi"), None));
    let sent: Vec<_> = chosen(&server).into_iter().map(|(name, _)| name).collect();
    assert_eq!(sent, ["accept", "content-type", "user-agent"]);
}

#[tokio::test]
async fn a_text_split_at_every_byte_arrives_whole() {
    let text = "né 🦀 漢字 👩‍👩‍👧 end";
    let body = [line(text), done()].concat();
    let answers = (1..body.len()).map(|split| {
        let (one, two) = body.as_bytes().split_at(split);
        Answer::stream(NDJSON).chunk(one).chunk(two).end()
    });
    let server = Server::answering(answers);
    let model = model(&server.url());
    for split in 1..body.len() {
        assert_eq!(heard(&model).await, (said(text), None), "at {split}");
    }
}

#[tokio::test]
async fn a_document_instead_of_a_stream_is_an_answer_too() {
    let counts = r#""prompt_eval_count":7,"eval_count":3"#;
    let ollama = format!(
        "{{\"message\":{{\"role\":\"assistant\",\"content\":\"hi\"}},\n\"done\":true,\"done_reason\":\"stop\",{counts}}}"
    );
    let chat = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],
        "usage":{"prompt_tokens":7,"completion_tokens":3}}"#;
    let anthropic = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"hi"}],
        "stop_reason":"end_turn","usage":{"input_tokens":7,"output_tokens":3}}"#;
    let responses = r#"{"object":"response","status":"completed","output":[{"type":"message","role":"assistant",
        "content":[{"type":"output_text","text":"hi"}]}],"usage":{"input_tokens":7,"output_tokens":3}}"#;
    let events = format!("data: {}\n\ndata: [DONE]\n\n", chat.replace('\n', "").replace("message", "delta"));
    let table = [
        (Wire::Ollama, ollama),
        (Wire::Ollama, [line("hi"), done()].concat()), // a stream after all
        (Wire::ChatCompletions, chat.to_owned()),
        (Wire::ChatCompletions, events), // the same
        (Wire::Anthropic, anthropic.to_owned()),
        (Wire::Responses, responses.to_owned()),
    ];
    for (wire, body) in table {
        let server = Server::answering([Answer::json(200, &body)]);
        let provider = Provider { api: Some(wire), ..provider(&server.url()) };
        let (mut deltas, fault) = heard(&at(provider, ModelEntry::new(MODEL))).await;
        // Whether usage comes before the end is the codec's to say.
        let mut expected = said("hi");
        expected.sort_by_key(|delta| format!("{delta:?}"));
        deltas.sort_by_key(|delta| format!("{delta:?}"));
        assert_eq!((deltas, fault), (expected, None), "{body}");
    }
}

/// Local servers break their promise to keep a connection, and a new one to them costs little. Ollama does not.
#[tokio::test]
async fn a_connection_is_used_again_where_the_server_keeps_its_promise() {
    if !is_alone("calls::a_connection_is_used_again_where_the_server_keeps_its_promise") {
        return;
    }
    let chat = r#"{"choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]}"#;
    let table = [
        ("0.0.0.0", Wire::ChatCompletions, [0, 0, 0]),
        ("127.0.0.1", Wire::ChatCompletions, [0, 1, 2]),
        ("127.0.0.1", Wire::Ollama, [0, 0, 0]),
    ];
    for (host, wire, expected) in table {
        let answer = || match wire {
            Wire::Ollama => says("hi"),
            _ => Answer::json(200, chat),
        };
        let server = Server::answering([answer(), answer(), answer()]);
        let url = server.url().replace("127.0.0.1", host);
        let model = at(Provider { api: Some(wire), ..provider(&url) }, ModelEntry::new(MODEL));
        for _ in expected {
            let (deltas, fault) = heard(&model).await;
            assert_eq!((deltas.first(), fault), (Some(&Delta::Text("hi".to_owned())), None));
        }
        let connections: Vec<usize> = server.requests().iter().map(|request| request.connection).collect();
        assert_eq!(connections, expected, "{host} {wire:?}");
    }
}

#[tokio::test]
async fn bytes_after_the_terminal_marker_are_not_awaited() {
    let open_end = Answer::stream(NDJSON).chunk(line("hi")).chunk(done()).stall();
    let server = Server::answering([open_end]);
    assert_eq!(heard(&model(&server.url())).await, (said("hi"), None));
}

#[tokio::test]
async fn a_call_costs_what_its_price_says() {
    let price = Some(Price { input_usd_per_million: 3.0, output_usd_per_million: 15.0 });
    let table = [(None, Some(0)), (price, Some(66))];
    for (price, cost) in table {
        let server = Server::answering([says("hi")]);
        let model = at(provider(&server.url()), ModelEntry { price, ..ModelEntry::new(MODEL) });
        assert_eq!(heard(&model).await, (said_at("hi", cost), None));
    }
}

#[tokio::test]
async fn an_unknown_price_is_not_zero() {
    if !is_alone("calls::an_unknown_price_is_not_zero") {
        return;
    }
    // This address leads to this machine, but nobody can tell that from its name.
    let server = Server::answering([says("hi")]);
    let url = server.url().replace("127.0.0.1", "0.0.0.0");
    assert_eq!(heard(&model(&url)).await, (said_at("hi", None), None));
}

/// The answer of a model to somebody who could ask another one.
async fn if_it_is_well(model: &Arc<dyn Model>) -> Option<Fault> {
    let request = ModelRequest { last_resort: false, ..question() };
    let mut fault = model.stream(request).next().await.unwrap().err()?;
    // A machine that is busy may take a second from one call to the next.
    fault.message = fault.message.replace("for 29 more", "for 30 more").replace("for 28 more", "for 30 more");
    Some(fault)
}

/// Two models at one server; the first byte of the first one has to come within so many milliseconds.
fn two_models(server: &Server, first_byte: u64) -> [Arc<dyn Model>; 2] {
    let entry = limits(first_byte, 60_000, 60_000);
    let catalog = Catalog::new(vec![provider(&server.url())], vec![entry]).unwrap();
    [MODEL, "ollama/other"].map(|name| catalog.model(name).unwrap())
}

#[tokio::test]
async fn a_server_that_fails_and_fails_is_left_alone() {
    let server = Server::answering(vec![Answer::json(500, "{}"); 5]);
    let [model, other] = two_models(&server, 60_000);
    for _ in 0..5 {
        assert_eq!(if_it_is_well(&model).await.unwrap().code, Code::LlmServer);
    }
    let words = format!("{} is marked as degraded for 30 more seconds after 5 failures", server.url());
    for model in [&model, &other] {
        assert_eq!(if_it_is_well(model).await, Some(Fault::new(Code::LlmServer, words.clone()).unsent()));
    }
    assert_eq!(server.requests().len(), 5);
    // Who has nobody else to ask is let through, and told when to try again.
    for model in [&model, &other] {
        assert_eq!(paused(failed(model).await).code, Code::LlmServer);
    }
    assert_eq!(server.requests().len(), 7);
}

#[tokio::test]
async fn a_timeout_marks_the_model_and_not_its_neighbour() {
    let server = Server::deciding(|_, request| match request.body.contains("\"other\"") {
        true => says("quick"),
        false => Answer::nothing().stall(),
    });
    let [slow, quick] = two_models(&server, 50);
    let late = Fault::new(Code::LlmTimeout, "no answer began within 50 ms (first_byte)");
    assert_eq!(if_it_is_well(&slow).await, Some(late));
    let words = "ollama/m is marked as degraded for 30 more seconds after 1 failure";
    assert_eq!(if_it_is_well(&slow).await, Some(Fault::new(Code::LlmTimeout, words).unsent()));
    assert_eq!(if_it_is_well(&quick).await, None);
}

#[tokio::test]
async fn refusals_and_slow_downs_do_not_mark_a_server() {
    let answers = (0..12).map(|n| Answer::json(if n % 2 == 0 { 429 } else { 401 }, "{}"));
    let server = Server::answering(answers);
    let model = model(&server.url());
    for _ in 0..12 {
        if_it_is_well(&model).await.unwrap();
    }
    assert_eq!(server.requests().len(), 12);
}

#[tokio::test]
async fn providers_at_one_address_share_its_breaker() {
    let server = Server::answering(vec![Answer::json(500, "{}"); 5]);
    let other = Provider { name: "other".to_owned(), api: Some(Wire::Ollama), ..provider(&server.url()) };
    let catalog = Catalog::new(vec![provider(&server.url()), other], vec![]).unwrap();
    for _ in 0..5 {
        failed(&catalog.model("ollama/m").unwrap()).await;
    }
    let words = format!("{} is marked as degraded for 30 more seconds after 5 failures", server.url());
    let fault = if_it_is_well(&catalog.clone().model("other/m").unwrap()).await;
    assert_eq!(fault, Some(Fault::new(Code::LlmServer, words).unsent()));
}

#[tokio::test]
async fn words_that_arrive_together_are_one_piece() {
    let thought =
        "{\"message\":{\"role\":\"assistant\",\"content\":\"\",\"thinking\":\"so\"},\"done\":false}\n";
    let chunk = |bytes: &str| format!("{:x}\r\n{bytes}\r\n", bytes.len());
    let together = [thought, &line("one "), &line("two "), &line("three ")].map(chunk).concat();
    let barrier = Barrier::new();
    let answer = Answer::stream(NDJSON).raw(together).wait(&barrier).chunk(line("four")).chunk(done()).end();
    let server = Server::answering([answer]);
    let mut stream = model(&server.url()).stream(question());
    assert_eq!(stream.next().await, Some(Ok(Delta::Reasoning("so".to_owned()))));
    assert_eq!(stream.next().await, Some(Ok(Delta::Text("one two three ".to_owned()))));
    barrier.open();
    let thought = Delta::ReasoningBlock(serde_json::json!({"thinking": "so"}));
    let [four, usage, finish]: [Delta; 3] = said("four").try_into().unwrap();
    let rest: Vec<_> = stream.collect().await;
    assert_eq!(rest, [four, thought, usage, finish].map(Ok));
}
