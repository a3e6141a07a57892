use std::sync::atomic::Ordering;

use baton_engine::spans::{TARGET, names};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::Link;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;
use tracing_subscriber::layer::SubscriberExt;

use super::layer::{Attribute, Finished};
use super::*;

fn at(endpoint: &str) -> Result<String, BadEndpoint> {
    CollectorSetting::at(endpoint, String::new(), String::new()).map(|collector| collector.url.to_string())
}

#[test]
fn an_endpoint_is_a_base_without_secrets() {
    assert_eq!(at("http://127.0.0.1:4318").unwrap(), "http://127.0.0.1:4318/v1/traces");
    assert_eq!(at(" https://otel.example/in/ ").unwrap(), "https://otel.example/in/v1/traces");
    assert_eq!(at("http://otel.example/v1").unwrap(), "http://otel.example/v1/v1/traces");
    for (wrong, why) in [
        ("127.0.0.1:4318", BadEndpoint::Syntax("relative URL without a base".to_owned())),
        ("localhost:4318", BadEndpoint::Scheme("localhost".to_owned())),
        ("https://me:5ecre7@otel.example", BadEndpoint::UserInfo),
        ("https://otel.example?key=5ecre7", BadEndpoint::Query),
    ] {
        assert_eq!(at(wrong), Err(why));
    }
}

#[test]
fn headers_are_read_as_opentelemetry_writes_them() {
    let read = |text: &str| {
        let (headers, is_clean) = export::read_headers(text);
        let pair = |(name, value): (&reqwest::header::HeaderName, &reqwest::header::HeaderValue)| {
            assert!(value.is_sensitive());
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        (headers.iter().map(pair).collect::<Vec<_>>(), is_clean)
    };
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(read(""), (vec![], true));
    assert_eq!(read("X-A=1, b = Basic%20x==,"), (vec![pair("x-a", "1"), pair("b", "Basic x==")], true));
    for (text, rest) in
        [("a", vec![]), ("a=%2", vec![]), ("a=%0a", vec![]), ("a b=c,d=e", vec![pair("d", "e")])]
    {
        assert_eq!(read(text), (rest, false), "{text}");
    }
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

/// Our bytes, read by the protocol's published definitions: every field, and no unknown one.
#[test]
fn every_field_is_where_the_protocol_has_it() {
    let text = |text: &str| Value::StringValue(text.to_owned());
    let finished = Finished {
        trace_id: "4bf92f3577b34da6a3ce929d0e0e4736".to_owned(),
        span_id: "00f067aa0ba902b7".to_owned(),
        parent: "0102030405060708".to_owned(),
        link: "1112131415161718".to_owned(),
        name: "chat ünïcode".to_owned(),
        is_client: true,
        start: 1_700_000_000_000_000_001,
        end: u64::MAX,
        attributes: vec![
            ("text", Attribute::Text("x".repeat(300))),
            ("empty", Attribute::Text(String::new())),
            ("less", Attribute::Whole(-3)),
            ("none", Attribute::Whole(0)),
            ("most", Attribute::Whole(i64::MAX)),
            ("half", Attribute::Decimal(0.5)),
            ("off", Attribute::Switch(false)),
            ("list", Attribute::Texts(vec!["a".to_owned(), String::new()])),
            (names::ERROR_TYPE, Attribute::Text("llm_auth".to_owned())),
        ],
    };
    let plain = Finished { trace_id: "no hex".to_owned(), ..Finished::default() };
    let written = otlp::request("sums", "1.2", &[finished, plain]);

    let values = ["a", ""].map(|item| AnyValue { value: Some(text(item)) }).to_vec();
    let trace_id = 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes().to_vec();
    let span_id = |id: u64| id.to_be_bytes().to_vec();
    let span = Span {
        trace_id: trace_id.clone(),
        span_id: span_id(0x00f0_67aa_0ba9_02b7),
        parent_span_id: span_id(0x0102_0304_0506_0708),
        flags: 1,
        name: "chat ünïcode".to_owned(),
        kind: 3,
        start_time_unix_nano: 1_700_000_000_000_000_001,
        end_time_unix_nano: u64::MAX,
        attributes: vec![
            pair("text", text(&"x".repeat(300))),
            pair("empty", text("")),
            pair("less", Value::IntValue(-3)),
            pair("none", Value::IntValue(0)),
            pair("most", Value::IntValue(i64::MAX)),
            pair("half", Value::DoubleValue(0.5)),
            pair("off", Value::BoolValue(false)),
            pair("list", Value::ArrayValue(ArrayValue { values })),
            pair("error.type", text("llm_auth")),
        ],
        links: vec![Link { trace_id, span_id: span_id(0x1112_1314_1516_1718), flags: 1, ..Link::default() }],
        status: Some(Status { message: String::new(), code: 2 }),
        ..Span::default()
    };
    let schema_url = names::SCHEMA_URL.to_owned();
    let scope =
        InstrumentationScope { name: "baton".to_owned(), version: "1.2".to_owned(), ..Default::default() };
    let known = vec![pair("service.name", text("sums")), pair("service.version", text("1.2"))];
    let scope_spans = ScopeSpans {
        scope: Some(scope),
        spans: vec![span, Span { kind: 1, flags: 1, ..Span::default() }],
        schema_url: schema_url.clone(),
    };
    let resource = Resource { attributes: known, ..Resource::default() };
    let resource_spans =
        ResourceSpans { resource: Some(resource), scope_spans: vec![scope_spans], schema_url };
    let expected = ExportTraceServiceRequest { resource_spans: vec![resource_spans] };
    assert_eq!(ExportTraceServiceRequest::decode(&written[..]).unwrap(), expected);
    // Decoding leaves unknown fields out, so only the length would show one.
    assert_eq!(written.len(), expected.encoded_len());
}

#[test]
fn spans_of_runs_alone_are_taken_and_a_full_queue_drops_the_rest() {
    let (mut queue, spans) = layer::queue(1);
    let subscriber = tracing_subscriber::registry().with(spans.clone().layer());
    tracing::subscriber::with_default(subscriber, || {
        drop(tracing::info_span!("somebody else's"));
        let first = tracing::info_span!(
            target: TARGET, parent: None, "one",
            { names::NAME } = "first", { names::SINCE } = 5_u64, { names::STATUS } = "running",
        );
        assert_eq!(spans.open_now(), 1);
        first.record(names::STATUS, "ok");
        drop(first);
        drop(tracing::info_span!(target: TARGET, parent: None, "two", { names::NAME } = "second"));
    });
    let taken = queue.try_recv().unwrap();
    let status = (names::STATUS, Attribute::Text("ok".to_owned()));
    let expected = Finished {
        name: "first".to_owned(),
        start: 5,
        end: taken.end,
        attributes: vec![status],
        ..Finished::default()
    };
    assert_eq!(taken, expected);
    assert!(taken.end > 5 && queue.try_recv().is_err());
    assert_eq!((spans.dropped().load(Ordering::Relaxed), spans.open_now()), (1, 0));
}
