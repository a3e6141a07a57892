//! Telemetry: the spans that a collector receives over a real socket, and that nothing depends on it.

pub(crate) mod collector;
mod content;
mod trees;

use serde_json::{Value, json};

use crate::imitation::compatible;
use crate::mask::Mask;
use crate::stage::Did;
use crate::world::World;
use collector::{Collector, Manner, attributes, hex, trees};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A machine whose agent calculates once and then answers; returns the model's name, too.
fn calculating() -> (World, String) {
    let world = World::new();
    let call = json!({"call": {"name": "calculator", "arguments": {"expression": "6 * 7"}}});
    let model = world.script(&json!({"v": 1, "replies": [
        {"do": [call, {"usage": {"prompt_tokens": 20, "completion_tokens": 4}}]},
        {"do": [{"text": "It is 42."}, {"usage": {"prompt_tokens": 30, "completion_tokens": 5}}]},
    ]}));
    (world, model)
}

fn ask(world: &World, model: &str, variables: &[(&str, &str)]) -> Did {
    let args = ["ask", "--json", "--steps", "--thread", "sums", "--model", model, "What is 6 * 7?"];
    let did = world.baton_with(variables, &args);
    assert_eq!(did.code, 0, "{did:?}");
    did
}

fn commit(step: u32) -> Value {
    json!({"name": "commit", "kind": "SPAN_KIND_INTERNAL", "attributes": {"baton.step": step}, "status": null, "children": []})
}

/// The last object that `ask --json` prints.
fn last(did: &Did) -> Value {
    serde_json::from_str(did.out.lines().last().unwrap()).unwrap()
}

#[test]
fn one_request_arrives_as_one_tree() {
    let ((world, model), collector) = (calculating(), Collector::new(Manner::Taking));
    let did = ask(&world, &model, &[(ENDPOINT, &collector.url())]);
    let name = model.strip_prefix("scripted/").unwrap();
    let chat = |role: &str, finish: &str, tokens: (u32, u32)| {
        json!({
            "name": format!("chat {name}"), "kind": "SPAN_KIND_CLIENT", "status": null, "children": [],
            "attributes": {
                "gen_ai.operation.name": "chat", "gen_ai.provider.name": "scripted", "gen_ai.request.model": name,
                "gen_ai.request.max_tokens": 4096, "gen_ai.request.stream": true,
                "gen_ai.response.finish_reasons": [finish],
                "gen_ai.usage.input_tokens": tokens.0, "gen_ai.usage.output_tokens": tokens.1,
                "baton.model_role": role, "baton.attempt": 1,
            },
        })
    };
    let tool = json!({
        "name": "execute_tool calculator", "kind": "SPAN_KIND_INTERNAL", "status": null, "children": [],
        "attributes": {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "calculator",
            "gen_ai.tool.call.id": "ID1-1", "gen_ai.tool.type": "function", "baton.attempt": 1,
        },
    });
    let run = json!({
        "name": "invoke_agent baton", "kind": "SPAN_KIND_INTERNAL", "status": null,
        "attributes": {
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "baton",
            "gen_ai.conversation.id": "sums", "baton.run.id": "ID1", "baton.epoch": 1,
            "baton.mode": "MODERATE", "baton.channel": "CHAT", "baton.status": "ok",
        },
        "children": [
            commit(1), chat("router", "tool_call", (20, 4)), commit(2), tool, commit(3),
            chat("reasoning", "stop", (30, 5)), commit(4),
        ],
    });
    let spans = collector.spans();
    assert_eq!(Mask::default().value(trees(&spans).into()), json!([run]));

    // The result's trace and steps are found among the spans.
    let done = last(&did);
    let root = spans.iter().find(|span| span.parent_span_id.is_empty()).unwrap();
    assert_eq!(done["trace_id"], hex(&root.trace_id));
    let told: Vec<(&str, &str)> = done["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| (step["type"].as_str().unwrap(), step["metadata"]["span_id"].as_str().unwrap()))
        .collect();
    let id = |name: &str, nth: usize| {
        hex(&spans.iter().filter(|span| span.name.starts_with(name)).nth(nth).unwrap().span_id)
    };
    let (first, call, second) = (id("chat", 0), id("execute_tool", 0), id("chat", 1));
    assert_eq!(told, [("llm_call", &*first), ("tool_call", &*call), ("llm_call", &*second)]);
}

#[test]
fn a_collector_is_told_whose_spans_they_are() {
    let ((world, model), collector) = (calculating(), Collector::new(Manner::Taking));
    world.settings(&format!(
        "[telemetry]\nendpoint = \"{}/otlp/\"\nheaders_env = \"HEADERS\"\nservice_name = \"sums\"\n",
        collector.url()
    ));
    ask(&world, &model, &[("HEADERS", "x-experiment=7, authorization=Basic%20abc=")]);
    for (posted, request) in collector.posted().iter().zip(collector.requests()) {
        let ours = |line: &&String| !line.starts_with("host: ") && !line.starts_with("content-length: ");
        let mut head: Vec<&str> = posted.head.iter().filter(ours).map(String::as_str).collect();
        head.sort_unstable();
        let agent = concat!("user-agent: baton/", env!("CARGO_PKG_VERSION"));
        let expected = [
            "POST /otlp/v1/traces HTTP/1.1",
            "accept: */*",
            "authorization: Basic abc=",
            "content-type: application/x-protobuf",
            agent,
            "x-experiment: 7",
        ];
        assert_eq!(head, expected);
        let [resource] = &request.resource_spans[..] else { panic!("{request:?}") };
        let [scope] = &resource.scope_spans[..] else { panic!("{request:?}") };
        let known = attributes(&resource.resource.as_ref().unwrap().attributes);
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(known, json!({"service.name": "sums", "service.version": version}));
        let by = scope.scope.as_ref().unwrap();
        assert_eq!((&*by.name, &*by.version), ("baton", version));
        let schema = "https://opentelemetry.io/schemas/1.41.0";
        assert_eq!((&*resource.schema_url, &*scope.schema_url), (schema, schema));
    }
    assert!(!collector.posted().is_empty());
}

#[test]
fn a_request_of_somebody_elses_trace_joins_it() {
    let (world, server, collector) =
        (World::new(), compatible(["Well ", "met."]), Collector::new(Manner::Taking));
    world.settings(&format!(
        "[[roles.router]]\nmodel = \"lab/big\"\ntemperature = 0.5\n\
         [telemetry]\nendpoint = \"{}\"\npropagate = true\n\
         [providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\nkey_env = \"LAB_KEY\"\n",
        collector.url(),
        server.url()
    ));
    let variables =
        [("TRACEPARENT", PARENT), ("LAB_KEY", "sk-5ecre7"), ("OTEL_EXPORTER_OTLP_HEADERS", "a=5ecre7")];
    let did = world.baton_with(&variables, &["ask", "--json", "--steps", "-vv", "Hello"]);
    assert_eq!(did.code, 0, "{did:?}");
    let spans = collector.spans();
    let [trace_id, parent] = ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"];
    let root = spans.iter().find(|span| span.name == "invoke_agent baton").unwrap();
    assert_eq!((hex(&root.trace_id), hex(&root.parent_span_id)), (trace_id.to_owned(), parent.to_owned()));
    assert_eq!(last(&did)["trace_id"], trace_id);
    let children = trees(&spans)[0]["children"].as_array().unwrap().clone();
    let port: u16 = server.url().rsplit(':').next().unwrap().parse().unwrap();
    let chat = json!({
        "name": "chat big", "kind": "SPAN_KIND_CLIENT", "status": null, "children": [],
        "attributes": {
            "gen_ai.operation.name": "chat", "gen_ai.provider.name": "lab", "gen_ai.request.model": "big",
            "gen_ai.request.max_tokens": 4096, "gen_ai.request.stream": true, "gen_ai.request.temperature": 0.5,
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3,
            "server.address": "127.0.0.1", "server.port": port,
            "baton.model_role": "router", "baton.attempt": 1,
        },
    });
    assert_eq!(children, [commit(1), chat, commit(2)]);
    let span = spans.iter().find(|span| span.name == "chat big").unwrap();
    let told = format!("00-{trace_id}-{}-01", hex(&span.span_id));
    assert_eq!(server.requests().last().unwrap().header("traceparent"), Some(told.as_str()));
    for posted in collector.posted() {
        assert!(!String::from_utf8_lossy(&posted.body).contains("5ecre7"), "a secret is in a span");
    }
    assert!(!did.err.contains("5ecre7") && !did.err.contains("invoke_agent"), "{}", did.err);
}

/// Models and search services get no trace headers unless the operator says so.
#[test]
fn models_are_not_told_of_spans_unasked() {
    let (world, server, collector) =
        (World::new(), compatible(["Well ", "met."]), Collector::new(Manner::Taking));
    world.settings(&format!(
        "model = \"lab/big\"\n[telemetry]\nendpoint = \"{}\"\n\
         [providers.lab]\nbase_url = \"{}/v1\"\napi = \"chat_completions\"\n",
        collector.url(),
        server.url()
    ));
    assert_eq!(world.baton_with(&[("TRACEPARENT", PARENT)], &["ask", "Hello"]).code, 0);
    let told: Vec<_> =
        server.requests().iter().map(|request| request.header("traceparent").is_some()).collect();
    assert_eq!(told, [false]);
    assert!(!collector.spans().is_empty());
}

#[test]
fn no_collector_changes_what_a_command_does() {
    let (world, model) = calculating();
    let masked = |did: Did, model: &str| (did.code, Mask::default().text(&did.out.replace(model, "MODEL")));
    let expected = masked(ask(&world, &model, &[]), &model);
    let gone = crate::server::Server::nobody();
    let (broken, silent) = (Collector::new(Manner::Broken), Collector::new(Manner::Silent));
    for (url, said) in [
        (gone, "telemetry was not taken; nothing else is affected"),
        (broken.url(), "it answered with the status 500"),
        (silent.url(), "the collector did not take all telemetry in time; the rest is dropped"),
        // Collectors for gRPC are named like this, for other programs.
        ("localhost:4317".to_owned(), "OTEL_EXPORTER_OTLP_ENDPOINT is ignored: no telemetry is sent"),
        ("https://me:5ecre7@otel.example".to_owned(), "a user or a password does not belong into a URL"),
    ] {
        let (world, model) = calculating();
        let did = ask(&world, &model, &[(ENDPOINT, &url)]);
        assert_eq!(did.err.matches(said).count(), 1, "{}", did.err);
        assert!(!did.err.contains("5ecre7"), "{}", did.err);
        assert_eq!(masked(did, &model), expected, "{url}");
    }
    assert_eq!((broken.posted().is_empty(), silent.posted().is_empty()), (false, false));
}

#[test]
fn an_endpoint_in_the_file_is_usable_or_refused() {
    let world = World::new();
    world.settings("\n[telemetry]\nendpoint = \"localhost:4317\"\n");
    let did = world.baton(&["threads", "ls"]);
    let file = world.path("home/config/baton/baton.toml").display().to_string();
    let expected = "error: FILE:3: `telemetry.endpoint`: only http and https are spoken\n  write it like \
                    http://127.0.0.1:4318; headers stand in the variable that headers_env names\n";
    assert_eq!((did.code, did.err.replace(&file, "FILE")), (2, expected.to_owned()));
}

/// As in a slim container. The collector also serves as a proxy, so that a collector on another host is reached.
#[test]
fn a_collector_without_encryption_needs_no_certificates() {
    let ((world, model), collector) = (calculating(), Collector::new(Manner::Taking));
    let (via, nowhere) = (collector.url(), world.path("nowhere").display().to_string());
    let none = [("SSL_CERT_FILE", nowhere.as_str()), ("SSL_CERT_DIR", &nowhere), ("HTTP_PROXY", &via)];
    let plain = [&none[..], &[(ENDPOINT, "http://otel.example:4318")]].concat();
    let did = ask(&world, &model, &plain);
    assert!(!did.err.contains("telemetry was not taken"), "{}", did.err);
    let posted = collector.posted();
    assert_eq!(posted[0].head[0], "POST http://otel.example:4318/v1/traces HTTP/1.1");
    assert!(collector.spans().iter().any(|span| span.name == "invoke_agent baton"));

    // An encrypted one does, and the error names the missing certificates.
    let (world, model) = calculating();
    let did = ask(&world, &model, &[&none[..], &[(ENDPOINT, "https://127.0.0.1:1")]].concat());
    assert_eq!(
        did.err.matches("telemetry was not taken; nothing else is affected").count(),
        1,
        "{}",
        did.err
    );
    assert!(did.err.contains("No CA certificates were loaded"), "{}", did.err);
    assert_eq!(collector.posted(), posted);
}

#[test]
fn a_failing_call_says_what_kind_of_failure_it_was() {
    let (world, collector) = (World::new(), Collector::new(Manner::Taking));
    let call = json!({"call": {"name": "read_file", "arguments": {"path": "not-there"}}});
    let model = world.script(&json!({"v": 1, "replies": [{"do": [call]}, {"do": [{"error": {"code": "llm_auth", "message": "sk-5ecre7"}}]}]}));
    let did = world.baton_with(&[(ENDPOINT, &collector.url())], &["ask", "--model", &model, "Read it"]);
    assert_eq!(did.code, 1, "{did:?}");
    let failed: Vec<(String, Value, Option<i32>)> = collector
        .spans()
        .iter()
        .filter(|span| span.name != "commit")
        .map(|span| {
            let error = attributes(&span.attributes)["error.type"].clone();
            (
                span.name.split(' ').next().unwrap().to_owned(),
                error,
                span.status.as_ref().map(|status| status.code),
            )
        })
        .collect();
    let expected = [
        ("chat", Value::Null, None),
        ("execute_tool", json!("tool_failed"), Some(2)),
        ("chat", json!("llm_auth"), Some(2)),
        ("invoke_agent", json!("llm_auth"), Some(2)),
    ];
    assert_eq!(failed, expected.map(|(name, error, status)| (name.to_owned(), error, status)));
    for posted in collector.posted() {
        assert!(
            !String::from_utf8_lossy(&posted.body).contains("5ecre7"),
            "the words of a failure are in a span"
        );
    }
}

#[test]
fn a_caller_that_records_nothing_is_sent_nothing_and_a_malformed_one_is_ignored() {
    for (parent, is_sent, trace) in [
        (
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00",
            false,
            "4bf92f3577b34da6a3ce929d0e0e4736",
        ),
        ("00-4bf9-00f067aa0ba902b7-01", true, "ID1"),
    ] {
        let ((world, model), collector) = (calculating(), Collector::new(Manner::Taking));
        let did = ask(&world, &model, &[(ENDPOINT, &collector.url()), ("TRACEPARENT", parent)]);
        assert_eq!(!collector.spans().is_empty(), is_sent, "{parent}");
        let run = only_run(&world).replace('-', "");
        assert_eq!(last(&did)["trace_id"], if is_sent { run } else { trace.to_owned() });
        assert_eq!(did.err.contains("TRACEPARENT is ignored"), is_sent, "{}", did.err);
    }
}

fn only_run(world: &World) -> String {
    let runs = world.baton(&["runs", "ls", "--json"]).json();
    runs["items"][0]["id"].as_str().unwrap().to_owned()
}
