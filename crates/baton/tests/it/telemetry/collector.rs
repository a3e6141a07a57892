//! A collector on loopback: it takes OTLP/HTTP requests, and decodes them with the published definitions of that
//! protocol. Threads of the standard library only.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use serde_json::{Map, Value, json};

/// The collector's reaction to a request.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Manner {
    /// It takes it.
    Taking,
    /// It answers with an error.
    Broken,
    /// It takes it and never answers.
    Silent,
}

/// One request as it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Posted {
    /// The request's line and headers, names in small letters.
    pub(crate) head: Vec<String>,
    pub(crate) body: Vec<u8>,
}

/// The running collector.
pub(crate) struct Collector {
    address: SocketAddr,
    posted: Arc<Mutex<Vec<Posted>>>,
}

impl Collector {
    pub(crate) fn new(manner: Manner) -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, posted) = (listener.local_addr().unwrap(), Arc::<Mutex<Vec<Posted>>>::default());
        let all = posted.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, all) = (stream.unwrap(), all.clone());
                std::thread::spawn(move || serve(stream, manner, &all));
            }
        });
        Collector { address, posted }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn posted(&self) -> Vec<Posted> {
        self.posted.lock().unwrap().clone()
    }

    /// Everything that was posted, as the protocol's own messages.
    pub(crate) fn requests(&self) -> Vec<ExportTraceServiceRequest> {
        let read = |posted: &Posted| ExportTraceServiceRequest::decode(&posted.body[..]).unwrap();
        self.posted().iter().map(read).collect()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let resources = self.requests().into_iter().flat_map(|request| request.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }
}

fn serve(stream: TcpStream, manner: Manner, all: &Mutex<Vec<Posted>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut writer = stream;
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            match line.trim_end() {
                "" => break,
                line => head.push(match line.split_once(": ") {
                    Some((name, value)) => format!("{}: {value}", name.to_ascii_lowercase()),
                    None => line.to_owned(),
                }),
            }
        }
        let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let mut body = vec![0; length.parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        all.lock().unwrap().push(Posted { head, body });
        let status = match manner {
            Manner::Taking => "200 OK",
            Manner::Broken => "500 Broken",
            Manner::Silent => continue,
        };
        let _ = writer.write_all(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").as_bytes());
    }
}

/// Spans as trees below those whose parents are not among them: times are checked and left out, ids too.
pub(crate) fn trees(spans: &[Span]) -> Vec<Value> {
    let is_here = |id: &[u8]| spans.iter().any(|span| span.span_id == id);
    let mut roots: Vec<&Span> = spans.iter().filter(|span| !is_here(&span.parent_span_id)).collect();
    roots.sort_by_key(|span| span.start_time_unix_nano);
    roots.into_iter().map(|root| tree(root, spans)).collect()
}

fn tree(span: &Span, spans: &[Span]) -> Value {
    assert!(
        0 < span.start_time_unix_nano && span.start_time_unix_nano <= span.end_time_unix_nano,
        "{span:?}"
    );
    let mut children: Vec<&Span> =
        spans.iter().filter(|child| child.parent_span_id == span.span_id).collect();
    children.sort_by_key(|span| span.start_time_unix_nano);
    for child in &children {
        assert!(span.start_time_unix_nano <= child.start_time_unix_nano, "{child:?} before {span:?}");
        assert!(child.end_time_unix_nano <= span.end_time_unix_nano, "{child:?} after {span:?}");
        assert_eq!(child.trace_id, span.trace_id);
    }
    let children: Vec<Value> = children.into_iter().map(|child| tree(child, spans)).collect();
    json!({
        "name": span.name,
        "kind": span.kind().as_str_name(),
        "attributes": attributes(&span.attributes),
        "status": span.status.as_ref().map(|status| status.code().as_str_name()),
        "children": children,
    })
}

/// Attributes by name. A name that comes twice fails.
pub(crate) fn attributes(all: &[KeyValue]) -> Value {
    let mut map = Map::new();
    for KeyValue { key, value, .. } in all {
        let before = map.insert(key.clone(), plain(value.as_ref()));
        assert_eq!(before, None, "{key} comes twice");
    }
    Value::Object(map)
}

fn plain(value: Option<&AnyValue>) -> Value {
    match value.and_then(|value| value.value.as_ref()) {
        Some(Any::StringValue(text)) => json!(text),
        Some(Any::BoolValue(is_on)) => json!(is_on),
        Some(Any::IntValue(number)) => json!(number),
        Some(Any::DoubleValue(number)) => json!(number),
        Some(Any::ArrayValue(list)) => list.values.iter().map(|value| plain(Some(value))).collect(),
        other => panic!("{other:?}"),
    }
}

/// An id in hexadecimal.
pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
