//! `web_search` against a server that answers in the shapes of the three services' public documentation.

use baton_core::tool::{EffectClass, Trust};
use baton_tools::{
    Registry, SearchProvider, Secret, ToolCallResult, Web, WebError, is_search_result, probe_search, web,
};
use serde_json::{Value, json};

use crate::server::{Canary, CannedResponse, FakeServer};
use crate::{call, failed, not_taken, ok};

const KEY: &str = "key-0123456789abcdef";

const SEARXNG: &str = r#"{
  "query": "baton", "number_of_results": 2, "answers": [], "corrections": [], "infoboxes": [], "suggestions": ["batons"],
  "unresponsive_engines": [["duckduckgo", "timeout"]],
  "results": [
    {"url": "https://a.example/1", "title": "One", "content": "First\n  snippet", "engine": "brave", "score": 1.5,
     "parsed_url": ["https", "a.example", "/1", "", "", ""], "category": "general", "publishedDate": null},
    {"url": "magnet:?xt=1", "title": "No page", "content": ""},
    {"url": "https://a.example/2", "title": "", "engine": "bing"},
    {"title": "No address"},
    {"url": "https://a.example/3", "title": "Three", "content": null}
  ]
}"#;

const BRAVE: &str = r#"{
  "type": "search", "query": {"original": "baton", "more_results_available": true}, "mixed": {"main": []},
  "web": {"type": "search", "family_friendly": true, "results": [
    {"title": "One", "url": "https://a.example/1", "is_source_local": false, "language": "en",
     "description": "First snippet", "age": "2 days ago", "meta_url": {"scheme": "https", "netloc": "a.example"}},
    {"title": "Two", "url": "https://a.example/2", "description": "Second snippet"}
  ]}
}"#;

const TAVILY: &str = r#"{
  "query": "baton", "answer": null, "images": [], "follow_up_questions": null, "response_time": 1.67,
  "results": [
    {"title": "One", "url": "https://a.example/1", "content": "First snippet", "score": 0.81, "raw_content": null},
    {"title": "Two", "url": "https://a.example/2", "content": "Second snippet", "score": 0.4, "raw_content": null}
  ],
  "request_id": "123e4567-e89b-12d3-a456-426614174111"
}"#;

fn registry(search: SearchProvider) -> Registry {
    Registry::new(
        web(Web { search: Some(search), egress: Default::default(), limits: Default::default() }).unwrap(),
    )
    .unwrap()
}

fn searxng(base: &str) -> Registry {
    registry(SearchProvider::Searxng { base: base.to_owned() })
}

fn brave(server: &FakeServer) -> Registry {
    registry(SearchProvider::Brave { key: Secret::new(KEY), base: Some(server.at("/")) })
}

fn tavily(server: &FakeServer) -> Registry {
    registry(SearchProvider::Tavily { key: Secret::new(&format!("{KEY}\n")), base: Some(server.at("")) })
}

async fn search(registry: &Registry, arguments: Value) -> ToolCallResult {
    call(registry, "web_search", arguments).await
}

fn hit(n: u32, title: &str, snippet: &str) -> Value {
    json!({ "title": title, "url": format!("https://a.example/{n}"), "snippet": snippet })
}

fn two_hits() -> ToolCallResult {
    ok(json!({ "results": [hit(1, "One", "First snippet"), hit(2, "Two", "Second snippet")] }))
}

/// The head of the only request, without the headers that every request has, and its body.
fn asked(server: &FakeServer) -> (Vec<String>, String) {
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let (head, body) = requests[0].split_once("\r\n\r\n").unwrap();
    let usual = ["accept: application/json", "accept-encoding: identity", "user-agent: baton/", "host: "];
    let lines = head.lines().filter(|line| !usual.iter().any(|start| line.starts_with(start)));
    (lines.map(str::to_owned).collect(), body.to_owned())
}

#[tokio::test]
async fn searxng_is_asked_and_understood() {
    let server = FakeServer::start(|_| CannedResponse::page("application/json", SEARXNG)).await;
    let ran = search(&searxng(&server.at("/sub/")), json!({ "query": " what is a bâton & co? " })).await;
    let expected = [hit(1, "One", "First snippet"), hit(2, "https://a.example/2", ""), hit(3, "Three", "")];
    assert_eq!(ran, ok(json!({ "results": expected })));
    let line = "GET /sub/search?q=what+is+a+b%C3%A2ton+%26+co%3F&format=json HTTP/1.1".to_owned();
    assert_eq!(asked(&server), (vec![line], String::new()));
}

#[tokio::test]
async fn brave_is_asked_and_understood() {
    let server = FakeServer::start(|_| CannedResponse::page("application/json", BRAVE)).await;
    assert_eq!(search(&brave(&server), json!({ "query": "baton", "count": 7 })).await, two_hits());
    let head = [
        "GET /res/v1/web/search?q=baton&count=7&text_decorations=false HTTP/1.1".to_owned(),
        format!("x-subscription-token: {KEY}"),
    ];
    assert_eq!(asked(&server), (head.to_vec(), String::new()));
}

#[tokio::test]
async fn tavily_is_asked_and_understood() {
    let server = FakeServer::start(|_| CannedResponse::page("application/json", TAVILY)).await;
    assert_eq!(search(&tavily(&server), json!({ "query": "baton" })).await, two_hits());
    let body = r#"{"max_results":5,"query":"baton"}"#;
    let head = [
        "POST /search HTTP/1.1".to_owned(),
        format!("authorization: Bearer {KEY}"),
        "content-type: application/json".to_owned(),
        format!("content-length: {}", body.len()),
    ];
    assert_eq!(asked(&server), (head.to_vec(), body.to_owned()));
}

#[tokio::test]
async fn no_more_results_are_returned_than_were_asked_for() {
    let server = FakeServer::start(|_| CannedResponse::page("application/json", SEARXNG)).await;
    let ran = search(&searxng(&server.at("")), json!({ "query": "baton", "count": 1 })).await;
    assert_eq!(ran, ok(json!({ "results": [hit(1, "One", "First snippet")] })));
    let registry = searxng(&server.at(""));
    for wrong in
        [json!({ "query": "" }), json!({ "query": "a", "count": 0 }), json!({ "query": "a", "count": 21 })]
    {
        assert!(registry.validate("web_search", &wrong).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn a_search_without_hits_has_an_empty_list() {
    let server = FakeServer::start(|path| {
        CannedResponse::page(
            "application/json",
            if path.starts_with("/res") { r#"{"type":"search"}"# } else { r#"{"results":[]}"# },
        )
    })
    .await;
    for registry in [searxng(&server.at("")), brave(&server), tavily(&server)] {
        assert_eq!(search(&registry, json!({ "query": "x" })).await, ok(json!({ "results": [] })));
    }
}

#[tokio::test]
async fn long_texts_are_cut() {
    let entry =
        json!({ "title": "é".repeat(1000), "url": "https://a.example/1", "content": "ü".repeat(5000) });
    let body = json!({ "results": [entry] }).to_string();
    let server = FakeServer::start(move |_| CannedResponse::page("application/json", &body)).await;
    let expected = hit(1, &"é".repeat(200), &"ü".repeat(1000));
    let ran = search(&searxng(&server.at("")), json!({ "query": "x" })).await;
    assert_eq!(ran, ok(json!({ "results": [expected] })));
}

#[tokio::test]
async fn an_odd_result_costs_no_other() {
    let longest = format!("https://a.example/{}", "x".repeat(4096 - 18));
    let entries = json!([
        { "title": "One", "url": "https://a.example/1", "content": "First", "description": "Beside" },
        { "title": 2, "url": "https://a.example/2", "content": ["no text"], "description": "Second" },
        { "title": "No text", "url": 3 },
        "no object",
        null,
        { "title": "As long as can be", "url": longest },
        { "title": "Longer", "url": format!("{longest}x") },
        { "title": ["no text"], "url": "https://a.example/3" },
    ]);
    let body =
        [json!({ "results": entries }), json!({ "web": { "results": entries } })].map(|it| it.to_string());
    let server = FakeServer::start(move |path| {
        CannedResponse::page("application/json", &body[usize::from(path.starts_with("/res"))])
    })
    .await;
    let expected = ok(json!({ "results": [
        hit(1, "One", "First"),
        hit(2, "https://a.example/2", "Second"),
        { "title": "As long as can be", "url": longest, "snippet": "" },
        hit(3, "https://a.example/3", ""),
    ] }));
    for registry in [searxng(&server.at("")), brave(&server), tavily(&server)] {
        assert_eq!(search(&registry, json!({ "query": "x", "count": 20 })).await, expected);
    }
}

/// The server repeats the key in every body; no message does.
#[tokio::test]
async fn failures_say_who_can_do_what_and_show_no_key() {
    let table = [
        (
            "401 Unauthorized",
            "The search service refused the request (status 401): the operator should check the key and the plan.",
        ),
        (
            "403 Forbidden",
            "The search service refused the request (status 403): the operator should check the key and the plan.",
        ),
        ("408 Request Timeout", "The search service waited too long (status 408): try again later."),
        (
            "429 Too Many Requests",
            "The search service allows no more requests for now (status 429): try again later.",
        ),
        ("503 Service Unavailable", "The search service failed (status 503): try again later."),
        ("200 OK", "The search service answered with something that is not a list of results."),
    ];
    for (status, expected) in table {
        let server = FakeServer::start(move |_| CannedResponse::new(status, &[], KEY)).await;
        for registry in [brave(&server), tavily(&server)] {
            assert_eq!(search(&registry, json!({ "query": "x" })).await, failed(expected), "{status}");
        }
    }
    for status in ["400 Bad Request", "422 Unprocessable Entity"] {
        let server = FakeServer::start(move |_| CannedResponse::new(status, &[], KEY)).await;
        let code = &status[..3];
        let message =
            format!("The search service did not accept the request (status {code}): rephrase the query.");
        for registry in [brave(&server), tavily(&server)] {
            assert_eq!(search(&registry, json!({ "query": "x" })).await, not_taken(&message));
        }
    }
    let server = FakeServer::start(|_| CannedResponse::new("403 Forbidden", &[], "")).await;
    let advice = "The search service refused the request (status 403): the operator should add `json` to \
                  `search.formats` in its settings.yml.";
    assert_eq!(search(&searxng(&server.at("")), json!({ "query": "x" })).await, failed(advice));
}

#[tokio::test]
async fn a_key_follows_no_redirect() {
    let canary = Canary::start();
    let location = format!("http://127.0.0.1:{}/", canary.port);
    let server = FakeServer::start(move |_| CannedResponse::redirect(&location)).await;
    let expected = "The search service redirects (status 302): the operator should set its final address.";
    for registry in [searxng(&server.at("")), brave(&server), tavily(&server)] {
        assert_eq!(search(&registry, json!({ "query": "x" })).await, failed(expected));
    }
    assert_eq!(canary.reached(), 0);
}

#[tokio::test]
async fn an_answer_that_is_too_long_or_broken_is_refused() {
    let server = FakeServer::start(|path| match path {
        path if path.starts_with("/long") => {
            CannedResponse::page("application/json", vec![b' '; 2 * 1024 * 1024 + 1])
        }
        _ => CannedResponse::and_end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"results\":["),
    })
    .await;
    let long = search(&searxng(&server.at("/long")), json!({ "query": "x" })).await;
    assert_eq!(long, not_taken("The search service sent far too much: ask for fewer results."));
    let broken = search(&searxng(&server.at("/broken")), json!({ "query": "secret words" })).await;
    let message = broken.outcome.result.as_str().unwrap_or_default();
    assert!(message.starts_with("The search service cannot be reached: "), "{message}");
    assert!(!message.contains("secret"), "{message}");
}

#[test]
fn the_facts_of_the_tool() {
    let registry = searxng("http://127.0.0.1:1");
    let spec = registry.get("web_search").unwrap().spec();
    let trust = Trust { untrusted_output: true, to_service: true, ..Trust::BUILT_IN };
    assert_eq!((spec.class, spec.trust), (EffectClass::SideEffectFree, trust));
}

#[tokio::test]
async fn a_service_without_its_key_says_so_when_it_is_called() {
    let why = "The key of the search service is expected in SEARCH_KEY.";
    let registry = registry(SearchProvider::Keyless { why: why.to_owned() });
    let ran = search(&registry, json!({ "query": "x" })).await;
    assert_eq!(ran, ToolCallResult { before_start: true, ..failed(why) });
}

/// The responses of a service to a probe, and whether the service counts as usable.
#[tokio::test]
async fn a_service_is_probed_without_a_search_and_without_its_key() {
    let server = FakeServer::start(|path| {
        let status = &path[1..4];
        CannedResponse::new(
            status,
            &[],
            if path.starts_with("/200/odd") { KEY } else { r#"{"results": []}"# },
        )
    })
    .await;
    let at = |status: u16| server.at(&format!("/{status}"));
    let odd = server.at("/200/odd");
    let searxng = |status| SearchProvider::Searxng { base: at(status) };
    let brave = |status| SearchProvider::Brave { key: Secret::new(KEY), base: Some(at(status)) };
    let tavily = |status| SearchProvider::Tavily { key: Secret::new(KEY), base: Some(at(status)) };
    let misses = [400, 401, 403, 405, 422].into_iter().flat_map(|status| [brave(status), tavily(status)]);
    for there in [searxng(400), searxng(200), brave(200), tavily(200)].into_iter().chain(misses) {
        assert_eq!(probe_search(there.clone()).await, Ok(()), "{there:?}");
    }
    let failing = |code: u16| format!("The search service failed (status {code}): try again later.");
    let no_list = "It answers with something that is not a list of results: is this its address?".to_owned();
    let table = [
        (SearchProvider::Searxng { base: odd.clone() }, no_list.clone()),
        (SearchProvider::Brave { key: Secret::new(KEY), base: Some(odd.clone()) }, no_list.clone()),
        (SearchProvider::Tavily { key: Secret::new(KEY), base: Some(odd) }, no_list),
        (brave(404), "It answers with status 404 Not Found: is this its address?".to_owned()),
        (tavily(410), "It answers with status 410 Gone: is this its address?".to_owned()),
        (brave(503), failing(503)),
        (tavily(500), failing(500)),
        (
            searxng(403),
            "The search service refused the request (status 403): the operator should add `json` to \
             `search.formats` in its settings.yml."
                .to_owned(),
        ),
        (searxng(404), "It answers with status 404 Not Found: is this its address?".to_owned()),
        (
            searxng(301),
            "The search service redirects (status 301): the operator should set its final address."
                .to_owned(),
        ),
    ];
    for (absent, expected) in table {
        assert_eq!(probe_search(absent).await, Err(expected));
    }
    assert!(server.requests().iter().all(|request| !request.contains(KEY) && !request.contains("q=")));
    let gone = SearchProvider::Searxng { base: "http://127.0.0.1:1".to_owned() };
    let message = probe_search(gone).await.unwrap_err();
    assert!(message.starts_with("It cannot be reached: "), "{message}");
}

#[tokio::test]
async fn an_address_from_the_results_of_a_search_is_a_search_result() {
    let server = FakeServer::start(|_| CannedResponse::page("application/json", SEARXNG)).await;
    let results = [search(&searxng(&server.at("")), json!({ "query": "x" })).await.outcome.result];
    let found = |url: &str| is_search_result(url, &results);
    assert_eq!(
        ["https://a.example/1", "https://a.example/3#x", "https://a.example/4"].map(found),
        [true, true, false]
    );
}

#[test]
fn unusable_settings_are_refused_and_show_no_secret() {
    let made = |search| {
        web(Web { search: Some(search), egress: Default::default(), limits: Default::default() })
            .map(|tools| tools.len())
    };
    for base in
        ["", "search.example.com", "ftp://a.example", "https://me:pw@a.example", "https://a.example?x"]
    {
        assert_eq!(made(SearchProvider::Searxng { base: base.to_owned() }), Err(WebError::Base), "{base}");
    }
    for key in ["", " \n", "two\nlines"] {
        assert_eq!(
            made(SearchProvider::Brave { key: Secret::new(key), base: None }),
            Err(WebError::Key),
            "{key:?}"
        );
    }
    assert_eq!(made(SearchProvider::Tavily { key: Secret::new(KEY), base: None }), Ok(2));
    let shown = format!("{:?}", SearchProvider::Brave { key: Secret::new(KEY), base: None });
    assert_eq!(shown, "Brave { key: Secret, base: None }");
}
