//! `fetch_url` over real sockets, through a registry, as the engine calls it.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use baton_core::chat::RawCall;
use baton_core::effect::Admission;
use baton_core::tool::{EffectClass, Egress, Trust};
use baton_tools::egress::{EgressClient, FetchLimits, Resolver, Rules};
use baton_tools::{Registry, ToolCallResult, VisibleTools, Web, fetch_url, web};
use futures_util::FutureExt;
use serde_json::{Value, json};

use crate::server::{Canary, CannedResponse, FakeServer};
use crate::{call, failed, not_taken, ok, refused};

/// A name server that knows one public name, which leads to this computer.
fn resolver() -> Resolver {
    Arc::new(|name| {
        let found = match name.as_str() {
            "a.example" => Ok(vec![IpAddr::from([127, 0, 0, 1])]),
            "silent.example" => return std::future::pending().boxed(),
            _ => Err(std::io::Error::other("no such name")),
        };
        std::future::ready(found).boxed()
    })
}

/// The tool as an operator has it who allows one server.
fn tool(server: &FakeServer, limits: FetchLimits) -> Registry {
    let allow = [server.address.to_string(), format!("a.example:{}", server.port())];
    let rules = Rules::allowing(&allow).unwrap();
    Registry::new(vec![fetch_url(EgressClient::with(rules, limits, resolver()))]).unwrap()
}

async fn fetch(server: &FakeServer, path: &str) -> ToolCallResult {
    call(&tool(server, FetchLimits::default()), "fetch_url", json!({ "url": server.at(path) })).await
}

#[tokio::test]
async fn a_page_is_read_and_nothing_is_given_away() {
    let server = FakeServer::start(|_| {
        let html = "<title>T</title><h1>Hello</h1><p>A <a href=/b>link</a> &amp; more<p>Not closed <b>at all";
        CannedResponse::new(
            "200 OK",
            &[("Content-Type", "text/html; charset=utf-8"), ("Set-Cookie", "a=b")],
            html,
        )
    })
    .await;
    let address = server.at("/dir/?q=1");
    let expected = format!(
        "Title: T\nAddress: {address}\n\n# Hello\n\nA [link]({}) & more\n\nNot closed **at all**",
        server.at("/b")
    );
    assert_eq!(fetch(&server, "/dir/?q=1#secret").await, ok(Value::String(expected)));
    let request = format!(
        "GET /dir/?q=1 HTTP/1.1\r\n\
         accept: text/html, application/xhtml+xml, application/json;q=0.9, text/*;q=0.8\r\n\
         accept-encoding: identity\r\n\
         user-agent: baton/{}\r\n\
         host: {}\r\n\r\n",
        env!("CARGO_PKG_VERSION"),
        server.address
    );
    assert_eq!(server.requests(), [request]);
}

#[tokio::test]
async fn json_text_and_old_encodings_are_read() {
    let server = FakeServer::start(|path| match path {
        "/json" => CannedResponse::page("application/json", "{\"a\": [1, 2]}"),
        "/text" => CannedResponse::page("text/plain", "*a*\n\n\n  b"),
        "/latin" => CannedResponse::page("text/plain; charset=ISO-8859-1", b"gr\xfcn \x80"),
        "/meta" => CannedResponse::page("text/html", b"<meta charset=windows-1252><p>\x93\xfc\x94"),
        "/utf16" => CannedResponse::page("text/html", b"\xff\xfe<\0p\0>\0\xfc\0"),
        "/koi" => CannedResponse::page("text/plain; charset=koi8-r", b"\xf0"),
        _ => CannedResponse::page("text/plain", ""),
    })
    .await;
    let table = [
        ("/json", "\n{\"a\": [1, 2]}"),
        ("/text", "\n*a*\n\n\n  b"),
        ("/latin", "\ngrün €"),
        ("/meta", "\n“ü”"),
        ("/utf16", "\nü"),
        (
            "/koi",
            "Note: The encoding koi8-r is not known here: some characters are not readable.\n\n\u{fffd}",
        ),
        ("/empty", "\n[The page holds no text.]"),
    ];
    for (path, expected) in table {
        let expected = format!("Address: {}\n{expected}", server.at(path));
        assert_eq!(fetch(&server, path).await, ok(Value::String(expected)), "{path}");
    }
}

#[tokio::test]
async fn redirects_are_followed_three_times() {
    let server = FakeServer::start(|path| match path {
        "/0" => CannedResponse::page("text/plain", "there"),
        "/loop" => CannedResponse::redirect("/loop"),
        "/broken" => CannedResponse::redirect("http://[/"),
        "/nowhere" => CannedResponse::new("302 Found", &[], ""),
        "/unchanged" => CannedResponse::new("304 Not Modified", &[], ""),
        path => CannedResponse::redirect(&(path[1..].parse::<u32>().unwrap() - 1).to_string()),
    })
    .await;
    let there = ok(json!(format!("Address: {}\n\nthere", server.at("/0"))));
    let astray = |times: u32| {
        not_taken(&format!("The address was redirected {times} times without arriving: try another one."))
    };
    let status = |status: &str| not_taken(&format!("{} answered with status {status}.", server.address));
    assert_eq!(fetch(&server, "/3").await, there);
    assert_eq!(fetch(&server, "/4").await, astray(3));
    assert_eq!(fetch(&server, "/loop").await, astray(3));
    assert_eq!(fetch(&server, "/broken").await, astray(1));
    assert_eq!(fetch(&server, "/nowhere").await, status("302 Found"));
    assert_eq!(fetch(&server, "/unchanged").await, status("304 Not Modified"));
    let loops = server.asked().iter().filter(|line| line.contains("/loop")).count();
    assert_eq!(loops, 4);
}

#[tokio::test]
async fn a_redirect_to_another_port_is_refused() {
    let canary = Canary::start();
    let target = format!("127.0.0.1:{}", canary.port);
    let location = format!("http://{target}/");
    let server = FakeServer::start(move |path| match path {
        "/first" => CannedResponse::redirect("/second"),
        _ => CannedResponse::redirect(&location),
    })
    .await;
    let expected = format!(
        "The page at {} redirects to an address that is refused. {target} is not visited: it leads to this computer \
         itself. The operator can allow it with `[egress] allow = [\"{target}\"]`.",
        server.address
    );
    assert_eq!(fetch(&server, "/first").await, not_taken(&expected));
    assert_eq!((server.requests().len(), canary.reached()), (2, 0));
}

/// Both servers may be visited directly; a redirect from one to the other is refused.
#[tokio::test]
async fn a_redirect_from_elsewhere_reaches_no_exception() {
    let inner = FakeServer::start(|_| CannedResponse::page("text/plain", "done")).await;
    let (away, port) = (inner.at("/reset?now=1"), inner.port());
    let outer = FakeServer::start(move |path| match path {
        "/name" => CannedResponse::redirect(&format!("http://a.example:{port}/reset?now=1")),
        _ => CannedResponse::redirect(&away),
    })
    .await;
    let allow = [outer.address.to_string(), inner.address.to_string(), format!("a.example:{port}")];
    let rules = Rules::allowing(&allow).unwrap();
    let registry =
        Registry::new(vec![fetch_url(EgressClient::with(rules, FetchLimits::default(), resolver()))])
            .unwrap();
    let fetch = async |url: String| call(&registry, "fetch_url", json!({ "url": url })).await;
    let refused = |to: &str| {
        not_taken(&format!(
            "The page at {} redirects to an address that is refused. {to} is not visited: the operator allows it to \
             whoever asks for it, and not to a page that leads there.",
            outer.address
        ))
    };
    assert_eq!(fetch(outer.at("/")).await, refused(&inner.address.to_string()));
    assert_eq!(fetch(outer.at("/name")).await, refused(&format!("a.example:{port}")));
    assert_eq!(inner.asked(), Vec::<String>::new());
    let expected = ok(json!(format!("Address: {}\n\ndone", inner.at("/reset?now=1"))));
    assert_eq!(fetch(inner.at("/reset?now=1")).await, expected, "by its own address it is visited");
}

#[tokio::test]
async fn statuses_and_contents_that_are_no_page_are_explained() {
    let server = FakeServer::start(|path| match path {
        "/404" => CannedResponse::new("404 Not Found", &[("Content-Type", "text/html")], "<h1>no</h1>"),
        "/408" => CannedResponse::new("408 Request Timeout", &[], ""),
        "/429" => CannedResponse::new("429 Too Many Requests", &[], ""),
        "/500" => CannedResponse::new("500 Internal Server Error", &[], "a secret trace"),
        "/png" => CannedResponse::page("image/png", b"\x89PNG"),
        "/none" => CannedResponse::new("200 OK", &[], "x"),
        "/gzip" => {
            let headers = [("Content-Type", "text/html"), ("Content-Encoding", "gzip")];
            CannedResponse::new("200 OK", &headers, b"\x1f\x8b")
        }
        _ => CannedResponse::page("application/octet-stream", "x"),
    })
    .await;
    let at = server.address;
    let media = |name: &str| {
        format!("The address holds no text but `{name}`: only HTML, JSON and other text can be read.")
    };
    let table = [
        ("/404", format!("{at} answered with status 404 Not Found.")),
        ("/png", media("image/png")),
        ("/none", media("")),
        ("/binary", media("application/octet-stream")),
        (
            "/gzip",
            "The server sent compressed data although none was asked for, so it was not read.".to_owned(),
        ),
    ];
    for (path, expected) in table {
        assert_eq!(fetch(&server, path).await, not_taken(&expected), "{path}");
    }
    for status in ["408 Request Timeout", "429 Too Many Requests", "500 Internal Server Error"] {
        let expected = failed(&format!("{at} answered with status {status}."));
        assert_eq!(fetch(&server, &format!("/{}", &status[..3])).await, expected);
    }
}

#[tokio::test]
async fn a_long_body_is_cut_and_said() {
    let whole = "x".repeat(1000);
    let body = whole.clone();
    let server = FakeServer::start(move |path| match path {
        // It promises far more than it sends, and would keep us waiting for the rest.
        "/endless" => CannedResponse::and_silence(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 9999999999\r\n\r\n{}",
            "x".repeat(1001)
        )),
        _ => CannedResponse::page("text/plain", &body),
    })
    .await;
    let limits = FetchLimits { bytes: 1000, ..FetchLimits::default() };
    for (path, note) in
        [("/", ""), ("/endless", "Note: The page is longer than 1000 bytes: the rest is left out.\n")]
    {
        let expected = format!("Address: {}\n{note}\n{whole}", server.at(path));
        let ran = call(&tool(&server, limits), "fetch_url", json!({ "url": server.at(path) })).await;
        assert_eq!(ran, ok(Value::String(expected)), "{path}");
    }
}

#[tokio::test]
async fn a_slow_server_or_name_server_runs_into_the_time_limit() {
    let server = FakeServer::start(|path| match path {
        "/head" => CannedResponse::and_silence(""),
        "/half" => CannedResponse::and_silence("HTTP/1.1 200 OK\r\nContent-Ty"),
        _ => CannedResponse::and_silence(
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100\r\n\r\n<p>the beginning",
        ),
    })
    .await;
    let limits = FetchLimits { time: Duration::from_millis(250), ..FetchLimits::default() };
    let registry = tool(&server, limits);
    let get = async |url: String| call(&registry, "fetch_url", json!({ "url": url })).await;
    let late = |host: &str| {
        failed(&format!("{host} did not answer within 0.25 s: try again later, or another address."))
    };
    assert_eq!(get(server.at("/head")).await, late(&server.address.to_string()));
    assert_eq!(get(server.at("/half")).await, late(&server.address.to_string()));
    assert_eq!(get("https://silent.example/".to_owned()).await, late("silent.example:443"));
    let expected = format!(
        "Address: {}\nNote: The page was not complete after 0.25 s: the rest is left out.\n\nthe beginning",
        server.at("/body")
    );
    assert_eq!(get(server.at("/body")).await, ok(Value::String(expected)));
}

#[tokio::test]
async fn connections_that_fail_are_explained() {
    let server = FakeServer::start(|path| match path {
        "/nothing" => CannedResponse::and_end(""),
        "/cut" => CannedResponse::and_end(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nabc",
        ),
        _ => CannedResponse::and_end("no HTTP\r\n\r\n"),
    })
    .await;
    for path in ["/nothing", "/cut", "/other"] {
        let ran = fetch(&server, path).await;
        let message = ran.outcome.result.as_str().unwrap_or_default().to_owned();
        let start = format!("{} cannot be reached: ", server.address);
        assert!(message.starts_with(&start) && !message.contains(path), "{path}: {message}");
        assert_eq!(ran, failed(&message));
    }
    // Encryption is not given up because the server has none.
    let url = format!("https://a.example:{}/", server.port());
    let ran = call(&tool(&server, FetchLimits::default()), "fetch_url", json!({ "url": url })).await;
    let start = format!("a.example:{} cannot be reached: ", server.port());
    assert!(ran.outcome.result.as_str().unwrap_or_default().starts_with(&start), "{ran:?}");
    assert_eq!(server.requests().len(), 3);

    let ran =
        call(&tool(&server, FetchLimits::default()), "fetch_url", json!({ "url": "https://b.example/" }))
            .await;
    let unknown = "The name b.example cannot be looked up (no such name): check it, or try again later.";
    assert_eq!(ran, ToolCallResult { before_start: true, ..failed(unknown) });
}

#[tokio::test]
async fn refusals_reach_the_model_before_anything_is_sent() {
    let canary = Canary::start();
    let registry = Registry::new(
        web(Web { search: None, egress: Rules::default(), limits: FetchLimits::default() }).unwrap(),
    )
    .unwrap();
    let host = format!("127.0.0.1:{}", canary.port);
    let ran = call(&registry, "fetch_url", json!({ "url": format!("http://{host}/") })).await;
    let expected = format!(
        "{host} is not visited: it leads to this computer itself. The operator can allow it with `[egress] allow = \
         [\"{host}\"]`."
    );
    assert_eq!(ran, refused(&expected));
    assert_eq!(canary.reached(), 0);
}

#[tokio::test]
async fn the_tool_has_no_side_effects_and_takes_one_argument() {
    let registry = Registry::new(
        web(Web { search: None, egress: Rules::default(), limits: FetchLimits::default() }).unwrap(),
    )
    .unwrap();
    let specs = registry.specs();
    let facts: Vec<_> = specs.iter().map(|spec| (spec.name.as_str(), spec.class, spec.trust)).collect();
    let trust = Trust { untrusted_output: true, egress: Egress::UnlessFound, ..Trust::BUILT_IN };
    assert_eq!(facts, [("fetch_url", EffectClass::SideEffectFree, trust)]);
    let call = RawCall {
        id: None,
        name: "fetch_url".to_owned(),
        arguments: r#"{"url": "https://a.example/"}"#.into(),
    };
    let fits = Admission::Fits { class: EffectClass::SideEffectFree, egress: true };
    assert_eq!(registry.check(&call, &VisibleTools::ALL).admission, fits);
    for wrong in
        [json!({}), json!({ "url": "" }), json!({ "url": 1 }), json!({ "url": "x", "method": "POST" })]
    {
        assert!(registry.validate("fetch_url", &wrong).is_err(), "{wrong}");
    }
}

/// The environment belongs to the process, so the test runs itself again in another one.
#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "a test starts programs as a person does")]
async fn a_proxy_in_the_environment_is_not_used() {
    const INSIDE: &str = "BATON_TEST_BEHIND_A_PROXY";
    if std::env::var_os(INSIDE).is_some() {
        let server = FakeServer::start(|_| CannedResponse::page("text/plain", "direct")).await;
        let url = format!("http://a.example:{}/", server.port());
        let ran = call(&tool(&server, FetchLimits::default()), "fetch_url", json!({ "url": url })).await;
        assert_eq!(ran, ok(json!(format!("Address: {url}\n\ndirect"))));
        return;
    }
    let canary = Canary::start();
    let proxy = format!("http://127.0.0.1:{}", canary.port);
    let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "fetch_url::a_proxy_in_the_environment_is_not_used"]).env(INSIDE, "1");
    again.env_remove("NO_PROXY").env_remove("no_proxy");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        again.env(name, &proxy);
    }
    let output = again.kill_on_drop(true).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    assert_eq!(canary.reached(), 0);
}
