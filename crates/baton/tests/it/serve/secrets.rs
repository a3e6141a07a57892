//! Secrets that were planted everywhere: none of them is found in any output.
//!
//! At the most verbose level, as lines of text and as JSON, with success and with failure everywhere, and with
//! neighbours that repeat every secret that they were sent.

mod planted;
mod search;
mod way;

use base64::Engine as _;
use rustix::process::Signal;
use serde_json::json;

use super::served::{Served, until};
use crate::postgres_server::Schema;
use crate::server::{Answer, Server};
use crate::telemetry::collector::{Collector, Manner};
use crate::world::World;
use planted::{BATON_TOKEN, COLLECTOR, CONTEXT, DATABASE, EXECUTION, MODEL, PROXY, TOOLS, WORD};
use search::{Search, look_at_run};
use way::Way;

fn nothing_is_found_in(format: &str) {
    let (model, execution, context) = (planted::model(), planted::execution(), planted::context());
    let collector = Collector::new(Manner::Taking);
    let world = World::new();
    let token = world.baton(&["tokens", "add", "--json", "ci"]).json()["token"].as_str().unwrap().to_owned();
    world.settings(&format!(
        "model = \"lab/m\"\n[providers.lab]\nbase_url = \"{}\"\napi = \"chat_completions\"\nkey_env = \"LAB_KEY\"\n\
         [log]\nformat = \"{format}\"\n[services.execution]\nurl = \"{}\"\n[services.context]\nurl = \"{}\"\nwith_text = true\n\
         [telemetry]\nendpoint = \"{}\"\ncontent = true\n",
        model.url(), execution.url(), context.url(), collector.url(),
    ));
    let headers = format!("x-key={COLLECTOR}");
    let mut served = Served::on(
        world,
        &[],
        &[
            ("LOG_LEVEL", "trace"),
            ("BATON_TOKEN", BATON_TOKEN),
            ("EXECUTION_SERVICE_TOKEN", EXECUTION),
            ("CONTEXT_SERVICE_TOKEN", CONTEXT),
            ("LAB_KEY", MODEL),
            ("OTEL_EXPORTER_OTLP_HEADERS", &headers),
        ],
    );
    let mut search = Search::of(&[&token, &token[..20]]);
    search.look("what it said at the start", served.told.to_string());
    let bearer = format!("Bearer {token}");
    let known = [("authorization", bearer.as_str()), ("cookie", WORD), ("x-api-key", WORD)];
    ask_everything(&mut search, &served, &known);
    be_refused(&mut search, &served);
    for path in [
        "/metrics",
        "/health",
        "/openapi.json",
        "/tools",
        "/docs",
        "/v1/runs",
        "/v1/approvals",
        "/v1/threads",
    ] {
        search.look(path, served.send("GET", path, &known, None).body);
    }
    until("the context service refused", || context.requests().len() > 3);
    served.signal(Signal::TERM);
    assert_eq!(served.ended(), 0, "{}", served.log());
    let log = served.log();
    assert!(log.contains("DEBUG") && log.contains("the context service"), "{log}");
    search.look("the log", log);
    search.look("the audit trail", served.world.baton(&["audit", "ls", "--json"]).out);
    search.look("the tokens", served.world.baton(&["tokens", "ls", "--json"]).out);
    search.look_into_data(&served.world);
    let posted = collector.posted();
    assert!(!posted.is_empty());
    posted.iter().for_each(|posted| search.look("spans", &posted.body));
    for (server, own) in [(&model, MODEL), (&execution, EXECUTION), (&context, CONTEXT)] {
        for request in server.requests() {
            search.look(format!("what was sent to {}", request.path), &request.body);
            let headers = format!("{:?}", request.headers);
            assert!(headers.contains(own), "{headers}");
            search.look(format!("the headers of {}", request.path), headers.replace(own, "its own"));
        }
    }
    search.finds_nothing();
}

/// Asks for every behaviour of the neighbours.
fn ask_everything(search: &mut Search, served: &Served, known: &[(&str, &str)]) {
    let calls = TOOLS.iter().map(|tool| format!("call {tool}"));
    let messages = ["hello", "refuse", "break", "garble", "overflow", "stumble"].map(str::to_owned);
    for message in messages.into_iter().chain(calls) {
        let body = json!({"message": message}).to_string();
        let answer = served.send("POST", "/process", known, Some(&body));
        if message.starts_with("call") {
            let text = String::from_utf8_lossy(&answer.body).into_owned();
            assert!(answer.status == 200 && text.contains("It says: "), "{message}: {text}");
        }
        let run = answer.header("x-run-id").to_owned();
        search.look(format!("the answer to {message:?}"), answer.body);
        look_at_run(search, served, known, &run);
        let body = json!({"session_id": "s", "user_message": message}).to_string();
        let answer = served.send("POST", "/v1/requests", known, Some(&body));
        search.look(format!("the request {message:?}"), answer.body);
    }
}

/// Makes every kind of wrong request.
fn be_refused(search: &mut Search, served: &Served) {
    let good = format!("Bearer {BATON_TOKEN}");
    let wrong = [
        ("GET", "/v1/runs", "Bearer 5ecre7-wrong", None, 401),
        ("GET", "/v1/runs", "Basic 5ecre7", None, 401),
        ("GET", "/v1/runs", "5ecre7", None, 401),
        ("POST", "/process", "Bearer 5ecre7-wrong", Some(r#"{"message": "hi"}"#), 401),
        ("GET", "/nowhere", good.as_str(), None, 404),
        ("PUT", "/process", good.as_str(), Some("{}"), 405),
        ("POST", "/process", good.as_str(), Some("{"), 400),
        ("GET", "/v1/threads/nobodys", good.as_str(), None, 404),
    ];
    for (method, path, authorization, body, status) in wrong {
        let answer = served.send(method, path, &[("authorization", authorization)], body);
        assert_eq!(answer.problem().0, status, "{method} {path}");
        search.look(format!("{method} {path}"), answer.body);
        search.look("its headers", format!("{:?}", answer.headers));
    }
    let asked = format!(
        "GET /health HTTP/1.1\r\nhost: evil.example\r\nauthorization: {good}\r\nconnection: close\r\n\r\n"
    );
    search.look("a wrong host", served.raw(asked.as_bytes()));
    search.look("no request at all", served.raw(format!("authorization: {good}\r\n\r\n").as_bytes()));
}

#[test]
fn nothing_is_found_in_lines_for_people() {
    nothing_is_found_in("text");
}

#[test]
fn nothing_is_found_in_json() {
    nothing_is_found_in("json");
}

/// A proxy that requires a password, and repeats the password that it was given.
#[test]
fn the_password_of_a_proxy_is_not_found() {
    let said = format!("me:{PROXY}");
    let encoded = base64::engine::general_purpose::STANDARD.encode(&said);
    let proxy = Server::deciding(|n, request| {
        let told = format!("{:?}", request.headers);
        match n % 2 {
            0 => Answer::json(407, &json!({"error": {"message": told}}).to_string()),
            _ => Answer::json(502, &told),
        }
    });
    let address = proxy.url().replace("http://", &format!("http://{said}@"));
    let world = World::new();
    world.settings(
        "model = \"lab/m\"\n[providers.lab]\nbase_url = \"http://models.example/v1\"\napi = \"chat_completions\"\n\
         key_env = \"LAB_KEY\"\n[services.execution]\nurl = \"http://tools.example\"\n",
    );
    let variables = [
        ("LOG_LEVEL", "trace"),
        ("LAB_KEY", MODEL),
        ("HTTP_PROXY", address.as_str()),
        ("HTTPS_PROXY", address.as_str()),
        ("EXECUTION_SERVICE_TOKEN", EXECUTION),
    ];
    let mut served = Served::on(world, &[], &variables);
    let mut search = Search::of(&[&encoded, encoded.trim_end_matches('=')]);
    for _ in 0..2 {
        let answer = served.send("POST", "/process", &[], Some(r#"{"message": "hi"}"#));
        assert!(answer.status >= 500, "{answer:?}");
        let run = answer.header("x-run-id").to_owned();
        search.look("the answer", answer.body);
        look_at_run(&mut search, &served, &[], &run);
    }
    let asked = |host: &str| {
        proxy
            .requests()
            .iter()
            .any(|request| request.path.contains(host) && request.header("proxy-authorization").is_some())
    };
    assert!(asked("models.example"), "{:?}", proxy.requests());
    served.signal(Signal::TERM);
    served.ended();
    search.look("the log", served.log());
    search.look_into_data(&served.world);
    search.finds_nothing();
}

#[test]
fn the_password_of_a_database_is_not_found() {
    let schema = Schema::new();
    let (before, rest) = schema.url.split_once("@127.0.0.1:").unwrap();
    let (port, rest) = rest.split_once('/').unwrap();
    let way = Way::to(port.parse().unwrap());
    let url = format!("{before}:{DATABASE}@127.0.0.1:{}/{rest}", way.port)
        .replace("sslmode=prefer", "sslmode=disable");
    let world = World::new();
    world.settings("model = \"offline\"\n[store]\nlease_s = 5\n[engine]\nstore_patience_s = 1\n");
    // Bytes are shown in hex.
    let hex: String = WORD.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut search = Search::of(&[&hex]);
    let variables = [("LOG_LEVEL", "trace"), ("DATABASE_URL", url.as_str())];
    let mut served = Served::on(world, &[], &variables);
    search.look("what it said at the start", served.told.to_string());
    let answer = served.send("POST", "/process", &[], Some(r#"{"message": "What is 6 * 7?"}"#));
    assert_eq!(answer.status, 200, "{answer:?}");
    look_at_run(&mut search, &served, &[], answer.header("x-run-id"));
    let tables = "SELECT string_agg(format('SELECT t::text FROM %I t', table_name), ' UNION ALL ') \
                  FROM information_schema.tables WHERE table_schema = current_schema()";
    let rows = schema.run(&schema.run(tables));
    assert!(rows.contains(answer.header("x-run-id")), "{rows}");
    search.look("the tables", rows);
    search.look("the command beside it", format!("{:?}", served.world.baton_with(&variables, &["doctor"])));
    way.close();
    for (method, path, body) in [
        ("POST", "/process", Some(r#"{"message": "hi"}"#)),
        ("GET", "/v1/runs", None),
        ("GET", "/v1/threads", None),
        ("GET", "/health", None),
        ("GET", "/metrics", None),
    ] {
        let answer = served.send(method, path, &[], body);
        search.look(format!("{method} {path} without a database"), answer.body);
    }
    let refused = served.send("GET", "/v1/runs", &[], None);
    assert_eq!(refused.problem(), (503, "store_unavailable".to_owned()));
    for command in ["doctor", "serve"] {
        let did = served.world.baton_with(&variables, &[command]);
        assert_ne!(did.code, 0, "{did:?}");
        search.look(format!("{command} without a database"), format!("{did:?}"));
    }
    served.signal(Signal::TERM);
    served.ended();
    search.look("the log", served.log());
    search.finds_nothing();
}

/// A password in the wrong setting is refused, and not repeated.
#[test]
fn a_password_in_an_address_is_refused_without_being_repeated() {
    let address = "http://me:5ecre7@127.0.0.1:1";
    let settings = [
        format!("model = \"lab/m\"\n[providers.lab]\nbase_url = \"{address}/v1\"\n"),
        format!("[services.execution]\nurl = \"{address}\"\n"),
        format!("[services.context]\nurl = \"{address}\"\n"),
        format!("[search]\nprovider = \"searxng\"\nurl = \"{address}\"\n"),
        format!("[telemetry]\nendpoint = \"{address}\"\n"),
        "[store]\nurl = \"postgresql://me:5ecre7@127.0.0.1:1/baton\"\n".to_owned(),
        "[serve.tokens.ci]\nhash = \"5ecre7\"\n".to_owned(),
        "[serve.tokens.ci]\ntoken = \"5ecre7\"\n".to_owned(),
        "[providers.lab]\nkey = \"5ecre7\"\n".to_owned(),
    ];
    let mut search = Search::of(&[]);
    for text in settings {
        let world = World::new();
        world.settings(&text);
        let did = world.baton_with(&[("LOG_LEVEL", "trace")], &["serve", "--port", "0"]);
        assert_eq!(did.code, 2, "{text}: {did:?}");
        search.look(text.replace(WORD, "…"), format!("{did:?}"));
    }
    let wrong = [
        ("DATABASE_URL", "postgresql://me:5ecre7@[bad/baton"),
        ("DATABASE_URL", "mysql://me:5ecre7@127.0.0.1:1/baton"),
        ("DATABASE_URL", "postgresql://me:5ecre7@127.0.0.1:1/baton?sslmode=never"),
        ("DATABASE_URL", "postgresql://me:5ecre7@127.0.0.1:1/baton"),
        ("DATABASE_URL", "postgresql://me:x/5ecre7@127.0.0.1:1/baton"),
        ("DATABASE_URL", "postgresql://me:x#5ecre7@127.0.0.1:1/baton"),
        ("DATABASE_URL", "postgresql://me:x?5ecre7@127.0.0.1:1/baton"),
        ("DATABASE_URL", "postgresql://me:x@5ecre7@127.0.0.1:1/baton"),
        ("DATABASE_URL", "postgresql://me:x:5ecre7@127.0.0.1:1/baton"),
        ("DATABASE_URL", "postgresql://127.0.0.1:1/baton?user=me&password=5ecre7&nonsense=1"),
        ("EXECUTION_SERVICE_URL", address),
        ("CONTEXT_SERVICE_URL", address),
        ("EXECUTION_SERVICE_TOKEN", "5ecre7\u{1}"),
        ("BATON_TOKEN", "5ecre7 \u{1}"),
        ("OLLAMA_BASE_URL", address),
    ];
    for (name, value) in wrong {
        let world = World::new();
        world.settings("model = \"offline\"\n[services.execution]\nurl = \"http://127.0.0.1:1\"\n");
        for command in ["doctor", "models"] {
            let did = world.baton_with(&[("LOG_LEVEL", "trace"), (name, value)], &[command]);
            search.look(format!("{command} with {name}"), format!("{did:?}"));
        }
    }
    search.finds_nothing();
}
