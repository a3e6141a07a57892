//! The tools of an execution service, against a server that answers in every way.

mod time;

use std::time::Duration;

use baton_core::thread::Closing;
use baton_core::tool::{EffectClass, ToolSpec};
use baton_tools::execution::{BadService, DiscoveryError, ExecutionService, ServiceOptions, SkippedTool};
use baton_tools::{CallContext, CallPermit, Registry, Secret, ToolCallResult};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::server::{Canary, CannedResponse, FakeServer};
use crate::{context, failed, not_taken, ok, refused};

const TOKEN: &str = "token-0123456789abcdef";
const TOOLS: &str = r#"{"tools": [
    {"name": "look", "parameters": {"type": "object"}, "side_effect_free": true},
    {"name": "pay", "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}}, "timeout_s": 8},
    {"name": "greet", "requires_context": true, "idempotent": true}
]}"#;

fn service(url: &str) -> ExecutionService {
    let options = ServiceOptions {
        url: url.to_owned(),
        token: Some(Secret::new(TOKEN)),
        timeout: Duration::from_secs(30),
    };
    ExecutionService::new(options).unwrap()
}

async fn registry(service: &ExecutionService) -> Registry {
    let offer = service.discover().await.unwrap();
    let (tools, skipped) = service.tools(&offer, &|_| false, &|_| None);
    assert_eq!(skipped, vec![]);
    Registry::new(tools).unwrap()
}

/// A service with the tools above that answers every call like this.
async fn answering(answer: impl Fn() -> CannedResponse + Send + Sync + 'static) -> (FakeServer, Registry) {
    let server = FakeServer::start(move |path| match path {
        "/tools" => CannedResponse::page("application/json", TOOLS),
        _ => answer(),
    })
    .await;
    let registry = registry(&service(&server.at("/"))).await;
    (server, registry)
}

async fn saying(
    status: &'static str,
    headers: &'static [(&'static str, &'static str)],
    body: &str,
) -> ToolCallResult {
    let body = body.to_owned();
    let (_server, registry) = answering(move || CannedResponse::new(status, headers, &body)).await;
    registry.call("pay", json!({}), context("k")).await
}

/// A call whose outcome is unknown.
fn unknown(message: &str) -> ToolCallResult {
    ToolCallResult { timed_out: true, ..failed(message) }
}

/// A call that failed before anything was done.
fn unsent(message: &str) -> ToolCallResult {
    ToolCallResult { before_start: true, ..failed(message) }
}

fn undecided(status: u16) -> ToolCallResult {
    unknown(&format!(
        "The execution service answered with status {status} and no result, so nobody knows whether the call took effect."
    ))
}

/// One request, without the headers that every request has.
fn asked(server: &FakeServer, nth: usize) -> (Vec<String>, String) {
    let requests = server.requests();
    let (head, body) = requests[nth].split_once("\r\n\r\n").unwrap();
    let usual = ["user-agent: baton/", "host: ", "content-length: "];
    let mut lines: Vec<String> = head.lines().map(str::to_owned).collect();
    lines.retain(|line| !usual.iter().any(|start| line.starts_with(start)));
    lines[1..].sort();
    (lines, body.to_owned())
}

fn strings(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| (*line).to_owned()).collect()
}

#[tokio::test]
async fn a_service_is_asked_for_its_tools_and_for_calls() {
    let (server, registry) = answering(|| {
        CannedResponse::page("application/json", r#"{"status": "success", "output": {"paid": 3}}"#)
    })
    .await;
    let ran = registry.call("pay", json!({ "amount": 3 }), context("run/0/7")).await;
    assert_eq!(ran, ok(json!({ "paid": 3 })));
    let token = format!("authorization: Bearer {TOKEN}");
    let list = ["GET /tools HTTP/1.1", "accept-encoding: identity", "accept: application/json", &token];
    assert_eq!(asked(&server, 0), (strings(&list), String::new()));
    let call = [
        "POST /execute HTTP/1.1",
        "accept-encoding: identity",
        "accept: application/json",
        &token,
        "content-type: application/json",
        "idempotency-key: run/0/7",
    ];
    // Its own limit ends a little before ours.
    let body = r#"{"tool_name":"pay","arguments":{"amount":3},"timeout":7.2}"#;
    assert_eq!(asked(&server, 1), (strings(&call), body.to_owned()));
}

#[tokio::test]
async fn every_success_status_and_any_output_is_a_result() {
    let answers = [
        (r#"{"status": "success", "output": "text", "execution_time_ms": 1.5}"#, json!("text")),
        (r#"{"status": "OK", "output": [1, null]}"#, json!([1, null])),
        (r#"{"status": "Completed", "output": null}"#, Value::Null),
        (r#"{"status": "success"}"#, Value::Null),
    ];
    for (body, result) in answers {
        assert_eq!(saying("200 OK", &[], body).await, ok(result), "{body}");
        assert_eq!(saying("201 Created", &[], body).await.outcome.status, Closing::Ok, "{body}");
    }
    let echoed = json!({"status": "success", "output": {"said": [TOKEN], "n": 1}}).to_string();
    assert_eq!(saying("200 OK", &[], &echoed).await, ok(json!({"said": ["[redacted]"], "n": 1})));
}

#[tokio::test]
async fn any_other_status_is_an_error_with_the_message_of_the_service() {
    let answers = [
        ("200 OK", r#"{"status": "error", "output": "no such account"}"#, "no such account"),
        ("200 OK", r#"{"status": "failed", "output": {"code": 7}}"#, r#"{"code":7}"#),
        ("200 OK", r#"{"status": "error", "output": null, "error": "broke"}"#, "broke"),
        (
            "200 OK",
            r#"{"status": "timeout", "output": " "}"#,
            r#"The execution service says "timeout" and nothing more."#,
        ),
        ("500 Oops", r#"{"status": "error", "output": "it broke"}"#, "it broke"),
        ("422 No", r#"{"status": "error", "output": "amount is missing"}"#, "amount is missing"),
    ];
    for (status, body, message) in answers {
        assert_eq!(saying(status, &[], body).await, not_taken(message), "{status} {body}");
    }
    let echoed = format!(r#"{{"status": "error", "output": "you sent {TOKEN}"}}"#);
    assert_eq!(saying("200 OK", &[], &echoed).await, not_taken("you sent [redacted]"));
}

#[tokio::test]
async fn a_refused_call_is_an_error_before_start() {
    let not_accepted = |status: u16, why: &str| {
        refused(&format!("The execution service did not accept the call (status {status}){why}"))
    };
    let problem =
        r#"{"type": "about:blank", "title": "Bad Request", "status": 400, "detail": "arguments is missing"}"#;
    assert_eq!(saying("400 Bad", &[], problem).await, not_accepted(400, ": arguments is missing"));
    let fastapi = r#"{"detail": [{"loc": ["body"], "msg": "field required"}]}"#;
    let said = r#": [{"loc":["body"],"msg":"field required"}]"#;
    assert_eq!(saying("422 No", &[], fastapi).await, not_accepted(422, said));
    assert_eq!(saying("404 No", &[], "<html>").await, not_accepted(404, "."));
    let echoed = format!(r#"{{"detail": "{TOKEN}"}}"#);
    assert_eq!(saying("400 Bad", &[], &echoed).await, not_accepted(400, ": [redacted]"));
    // A token at the cut and the credentials of a proxy are redacted, too.
    let long = format!("{}{TOKEN}", "x".repeat(990));
    let cut = format!(": {}[redacted]", "x".repeat(990));
    assert_eq!(saying("400 Bad", &[], &json!({"detail": long}).to_string()).await, not_accepted(400, &cut));
    let proxy = r#"{"detail": "you sent Proxy-Authorization: Basic bWU6cGFzcw=="}"#;
    let said = ": you sent Proxy-Authorization: Basic [redacted]";
    assert_eq!(saying("400 Bad", &[], proxy).await, not_accepted(400, said));

    for (status, code) in [("401 No", 401), ("403 No", 403)] {
        let expected = format!(
            "The execution service does not accept Baton's token (status {code}): the operator should check it."
        );
        assert_eq!(saying(status, &[], &echoed).await, unsent(&expected));
    }
    for (status, headers, code) in
        [("429 Later", &[][..], 429), ("503 Later", &[("Retry-After", "3")][..], 503)]
    {
        let expected =
            format!("The execution service takes no calls for now (status {code}): try again later.");
        assert_eq!(saying(status, headers, "{}").await, unsent(&expected));
    }
}

#[tokio::test]
async fn a_call_without_a_whole_response_has_an_unknown_outcome() {
    let answers = [
        ("200 OK", "<html>", 200),
        ("200 OK", r#"{"output": 3}"#, 200),
        ("200 OK", r#"{"status": 3}"#, 200),
        ("500 Oops", "", 500),
        ("500 Oops", r#"{"status": "error"}"#, 500),
        ("500 Oops", r#"{"status": "success", "output": 3}"#, 500),
        ("502 Bad Gateway", "<html>", 502),
        ("503 Down", "", 503),
        ("409 Conflict", r#"{"detail": "this key is being worked on"}"#, 409),
        ("408 Timeout", "", 408),
    ];
    for (status, body, code) in answers {
        assert_eq!(saying(status, &[], body).await, undecided(code), "{status} {body}");
    }
    let cuts =
        ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"status\": \"success\""];
    for cut in cuts {
        let (_server, registry) = answering(move || CannedResponse::and_end(cut)).await;
        let ran = registry.call("pay", json!({}), context("k")).await;
        let begins = "The execution service gave no answer, so nobody knows whether the call took effect: ";
        let said = ran.outcome.result.as_str().unwrap().to_owned();
        assert!(said.starts_with(begins), "{said}");
        assert_eq!(ran, unknown(&said), "{cut}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_an_error_before_start() {
    let (server, registry) = answering(|| CannedResponse::and_end("")).await;
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", gone.local_addr().unwrap());
    drop(gone);
    let (tools, _) =
        service(&address).tools(&service(&server.at("")).discover().await.unwrap(), &|_| false, &|_| None);
    let ran = Registry::new(tools).unwrap().call("pay", json!({}), context("k")).await;
    let said = ran.outcome.result.as_str().unwrap().to_owned();
    assert!(said.starts_with("The execution service cannot be reached, and nothing was done: "), "{said}");
    assert_eq!(ran, unsent(&said));
    drop(registry);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_takes_no_token_along() {
    let canary = Canary::start();
    let target = format!("http://127.0.0.1:{}/execute", canary.port);
    let (to, port) = (target.clone(), canary.port);
    let (_server, registry) = answering(move || CannedResponse::redirect(&to)).await;
    let ran = registry.call("pay", json!({}), context("k")).await;
    let said = "The execution service redirects (status 302): the operator should set its final address.";
    assert_eq!((ran, canary.reached()), (unsent(said), 0));

    let server =
        FakeServer::start(move |_| CannedResponse::redirect(&format!("http://127.0.0.1:{port}/tools"))).await;
    let no = DiscoveryError("it redirects (status 302): name its final address".to_owned());
    assert_eq!((service(&server.at("")).discover().await, canary.reached()), (Err(no), 0));
}

#[tokio::test]
async fn an_endless_response_is_cut_off() {
    let endless = || {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n";
        CannedResponse::and_silence([head.as_bytes(), &vec![b' '; (16 << 20) + 1]].concat())
    };
    let (_server, registry) = answering(endless).await;
    let said = "The execution service returned far too much, so its result is lost: ask for less.";
    assert_eq!(registry.call("pay", json!({}), context("k")).await, not_taken(said));
}

#[tokio::test]
async fn a_service_without_a_list_says_why() {
    let why = |status: &'static str, body: &'static str| async move {
        let server = FakeServer::start(move |_| CannedResponse::new(status, &[], body)).await;
        service(&server.at("")).discover().await.unwrap_err().0
    };
    assert_eq!(why("200 OK", "{}").await, "what it answers is no list of tools: is this its address?");
    assert_eq!(why("401 No", TOKEN).await, "it does not accept our token (status 401)");
    assert_eq!(why("404 No", "").await, "it answers with status 404");
    assert_eq!(why("500 No", "").await, "it answers with status 500");
    let long =
        FakeServer::start(|_| CannedResponse::page("application/json", vec![b' '; (4 << 20) + 1])).await;
    let no = DiscoveryError("its list of tools is longer than 4 MiB".to_owned());
    assert_eq!(service(&long.at("")).discover().await, Err(no));
}

#[tokio::test]
async fn a_name_that_is_taken_is_offered_under_another_and_called_by_its_own() {
    let list = r#"[{"name": "clock", "idempotent": true}, {"name": "own"}, {"name": "own"}, {"name": "no name"},
                   {"name": "odd", "input_schema": {"type": "object", "properties": {"n": {"type": "nothing"}}}},
                   {"name": "calculator"}, {"name": "exec.calculator"}]"#;
    let server = FakeServer::start(move |path| match path {
        "/tools" => CannedResponse::page("application/json", list),
        _ => CannedResponse::page("application/json", r#"{"status": "ok", "output": "done"}"#),
    })
    .await;
    let service = service(&server.at(""));
    let offer = service.discover().await.unwrap();
    let taken = |name: &str| matches!(name, "clock" | "calculator");
    let patience = |name: &str| (name == "exec.clock").then_some(5000);
    let (tools, skipped) = service.tools(&offer, &taken, &patience);
    let spec = |name: &str| ToolSpec {
        name: name.to_owned(),
        input_schema: json!({ "type": "object", "properties": {} }),
        timeout_ms: 30_000,
        service: Some("execution".to_owned()),
        ..ToolSpec::default()
    };
    let clock = ToolSpec { class: EffectClass::Idempotent, timeout_ms: 5000, ..spec("exec.clock") };
    let specs: Vec<ToolSpec> = tools.iter().map(|tool| tool.spec().clone()).collect();
    assert_eq!(specs, [clock, spec("own"), spec("exec.calculator")]);
    let names: Vec<(&str, &str)> = skipped
        .iter()
        .map(|SkippedTool { name, why }| (name.as_str(), why.split(';').next().unwrap()))
        .collect();
    let schema = skipped[2].why.as_str();
    assert!(schema.starts_with("the input schema of tool `odd` is not usable: "), "{schema}");
    let twice = "another tool has this name";
    let no_name = "\"no name\" is no name for a tool";
    assert_eq!(
        names,
        [("own", twice), ("no name", no_name), ("odd", names[2].1), ("exec.calculator", twice)]
    );

    let registry = Registry::new(tools).unwrap();
    assert_eq!(registry.call("exec.clock", json!({}), context("k")).await, ok(json!("done")));
    assert_eq!(asked(&server, 1).1, r#"{"tool_name":"clock","arguments":{},"timeout":4.5}"#);
}

#[tokio::test]
async fn a_tool_that_requires_context_is_told_of_the_run_and_no_other_is() {
    let (server, registry) =
        answering(|| CannedResponse::page("application/json", r#"{"status": "ok", "output": "done"}"#)).await;
    let metadata = json!({ "who": "Zoë 🎼", "line": "a\nb\u{7f}" });
    let with = |metadata: &Value| CallContext { metadata: metadata.clone(), ..context("k") };
    assert_eq!(registry.call("greet", json!({}), with(&metadata)).await, ok(json!("done")));
    assert_eq!(registry.call("look", json!({}), with(&metadata)).await, ok(json!("done")));
    let told =
        |nth: usize| asked(&server, nth).0.into_iter().find(|line| line.starts_with("x-baton-context"));
    let header = told(1).unwrap();
    assert_eq!(header, r#"x-baton-context: {"line":"a\nb\u007f","who":"Zo\u00eb \ud83c\udfbc"}"#);
    let read: Value = serde_json::from_str(header.split_once(": ").unwrap().1).unwrap();
    assert_eq!((read, told(2)), (metadata, None));

    let long = json!({ "who": "x".repeat(4096) });
    let said = "This tool is told what the caller said of the run, and that is longer than 4096 bytes.";
    assert_eq!(registry.call("greet", json!({}), with(&long)).await, refused(said));
}

/// Meanwhile the process may have been stopped, and another one may own the call.
#[tokio::test]
async fn a_call_that_is_not_permitted_once_there_is_a_connection_is_not_sent() {
    let (server, registry) =
        answering(|| CannedResponse::page("application/json", r#"{"status": "ok", "output": "done"}"#)).await;
    let permit = CallPermit::new(|| Box::pin(async { false }));
    let said = "The execution service cannot be reached, and nothing was done: it may not be sent any more.";
    let forbidden = CallContext { permit, ..context("k") };
    assert_eq!(registry.call("pay", json!({}), forbidden).await, unsent(said));
    assert!(registry.get("pay").unwrap().asks_permit(), "so nobody has to ask before the call");
    assert_eq!(server.requests().len(), 1, "only the tools were asked for");
    assert_eq!(registry.call("pay", json!({}), context("k")).await, ok(json!("done")));
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_and_the_token_is_not_shown() {
    let made = |url: &str, token: Option<&str>| {
        let token = token.map(Secret::new);
        ExecutionService::new(ServiceOptions { url: url.to_owned(), token, timeout: Duration::from_secs(1) })
            .err()
    };
    for url in [
        "",
        "localhost:8002",
        "ftp://host",
        "http://user@host",
        "http://:pw@host",
        "http://host?a=1",
        "http://host#a",
    ] {
        assert_eq!(made(url, None), Some(BadService::Address), "{url}");
    }
    for token in ["", " ", "two\nlines"] {
        assert_eq!(made("http://host", Some(token)), Some(BadService::Token), "{token:?}");
    }
    assert_eq!(made("https://host/base/", Some("token")), None);
    let shown = format!("{:?}", service("http://host/base/"));
    assert_eq!(
        shown,
        r#"ExecutionService { connection: ServiceClient { base: "http://host/base", .. }, timeout: 30s }"#
    );
}
