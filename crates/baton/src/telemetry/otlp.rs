//! Spans as OTLP has them: Protocol Buffers, written by hand.
//!
//! Pure. The messages are `opentelemetry.proto.trace.v1` of OTLP 1; the field numbers stand beside the fields.
//! Writing them takes a page, and a test has the published definitions read every byte of it.

use baton_engine::spans::names;

use super::layer::{Attribute, Finished};

const INTERNAL: u64 = 1;
const CLIENT: u64 = 3;
const ERROR: u64 = 2;
/// The flag of a trace that is recorded.
const SAMPLED: u32 = 1;

/// An `ExportTraceServiceRequest` with these spans of one process.
pub(super) fn request(service: &str, version: &str, spans: &[Finished]) -> Vec<u8> {
    let resource = OtlpMessage::default()
        .message(1, pair("service.name", &Attribute::Text(service.to_owned())))
        .message(1, pair("service.version", &Attribute::Text(version.to_owned())));
    let scope = OtlpMessage::default().text(1, "baton").text(2, version);
    let scope_spans = OtlpMessage::default().message(1, scope);
    let scope_spans = spans.iter().fold(scope_spans, |all, one| all.message(2, span(one)));
    let scope_spans = scope_spans.text(3, names::SCHEMA_URL);
    let resource_spans =
        OtlpMessage::default().message(1, resource).message(2, scope_spans).text(3, names::SCHEMA_URL);
    OtlpMessage::default().message(1, resource_spans).0
}

fn span(span: &Finished) -> OtlpMessage {
    let trace_id = from_hex(&span.trace_id);
    let mut message = OtlpMessage::default()
        .bytes(1, &trace_id)
        .bytes(2, &from_hex(&span.span_id))
        .bytes(4, &from_hex(&span.parent))
        .text(5, &span.name)
        .number(6, if span.is_client { CLIENT } else { INTERNAL })
        .fixed64(7, span.start)
        .fixed64(8, span.end);
    for (name, value) in &span.attributes {
        message = message.message(9, pair(name, value));
    }
    if !span.link.is_empty() {
        let link =
            OtlpMessage::default().bytes(1, &trace_id).bytes(2, &from_hex(&span.link)).fixed32(6, SAMPLED);
        message = message.message(13, link);
    }
    if span.has_failed() {
        message = message.message(15, OtlpMessage::default().number(3, ERROR));
    }
    message.fixed32(16, SAMPLED)
}

/// A `KeyValue`.
fn pair(name: &str, attribute: &Attribute) -> OtlpMessage {
    OtlpMessage::default().text(1, name).message(2, value(attribute))
}

/// An `AnyValue`: one of its fields, written also where it is 0.
fn value(attribute: &Attribute) -> OtlpMessage {
    let mut message = OtlpMessage::default();
    match attribute {
        Attribute::Text(text) => message.delimited(1, text.as_bytes()),
        Attribute::Switch(is_on) => message.varint_field(2, u64::from(*is_on)),
        // Two's complement, as Protocol Buffers have it.
        Attribute::Whole(number) => message.varint_field(3, number.cast_unsigned()),
        Attribute::Decimal(number) => {
            message.key(4, 1);
            message.0.extend_from_slice(&number.to_le_bytes());
        }
        Attribute::Texts(texts) => {
            let text = |text: &String| value(&Attribute::Text(text.clone()));
            let list = texts.iter().map(text).fold(OtlpMessage::default(), |list, one| list.message(1, one));
            return message.message(5, list);
        }
    }
    message
}

/// The bytes of an id; none if it is no id.
fn from_hex(text: &str) -> Vec<u8> {
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    (0..text.len()).step_by(2).map(byte).collect::<Option<_>>().unwrap_or_default()
}

/// A message that is being written. Empty fields and those that are 0 are left out, as in the format.
#[derive(Debug, Default)]
struct OtlpMessage(Vec<u8>);

impl OtlpMessage {
    fn message(mut self, field: u32, message: OtlpMessage) -> Self {
        self.delimited(field, &message.0);
        self
    }

    fn text(self, field: u32, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn bytes(mut self, field: u32, bytes: &[u8]) -> Self {
        if !bytes.is_empty() {
            self.delimited(field, bytes);
        }
        self
    }

    fn number(mut self, field: u32, number: u64) -> Self {
        if number != 0 {
            self.varint_field(field, number);
        }
        self
    }

    fn fixed64(mut self, field: u32, number: u64) -> Self {
        if number != 0 {
            self.key(field, 1);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
        self
    }

    fn fixed32(mut self, field: u32, number: u32) -> Self {
        if number != 0 {
            self.key(field, 5);
            self.0.extend_from_slice(&number.to_le_bytes());
        }
        self
    }

    fn delimited(&mut self, field: u32, bytes: &[u8]) {
        self.key(field, 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn varint_field(&mut self, field: u32, number: u64) {
        self.key(field, 0);
        self.varint(number);
    }

    fn key(&mut self, field: u32, wire: u32) {
        self.varint(u64::from(field << 3 | wire));
    }

    fn varint(&mut self, mut number: u64) {
        while number > 0x7f {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }
}
