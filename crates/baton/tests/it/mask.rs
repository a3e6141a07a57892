//! Masks: values that differ from run to run are replaced by names, so that whole answers can be compared.

use serde_json::Value;

/// Gives every id the name of its first appearance (`ID1`, `ID2` …), and every span (`SPAN1` …); moments
/// become `TIME`, hashes `HASH`.
#[derive(Default)]
pub(crate) struct Mask {
    ids: Vec<String>,
    spans: Vec<String>,
}

const PATTERNS: [(&str, Kind); 6] = [
    ("hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh", Kind::Hash),
    ("hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh", Kind::Id),
    ("hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh", Kind::Id),
    ("dddd-dd-ddTdd:dd:dd.dddZ", Kind::Time),
    ("dddd-dd-dd dd:dd:ddZ", Kind::Time),
    ("hhhhhhhhhhhhhhhh", Kind::Span),
];

#[derive(Clone, Copy)]
enum Kind {
    Id,
    Span,
    Hash,
    Time,
}

impl Mask {
    /// A text with its ids and moments replaced.
    pub(crate) fn text(&mut self, text: &str) -> String {
        let (mut masked, mut rest) = (String::new(), text);
        while let Some(first) = rest.chars().next() {
            match PATTERNS.iter().find(|(pattern, _)| fits(rest, pattern)) {
                Some((pattern, kind)) => {
                    let (found, after) = rest.split_at(pattern.len());
                    masked.push_str(&self.name(found, *kind));
                    rest = after;
                }
                None => {
                    masked.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        masked
    }

    /// A document with its ids and moments replaced.
    pub(crate) fn value(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => fields.into_iter().map(|(k, v)| (k, self.value(v))).collect(),
            other => other,
        }
    }

    fn name(&mut self, found: &str, kind: Kind) -> String {
        match kind {
            Kind::Hash => "HASH".to_owned(),
            Kind::Time => "TIME".to_owned(),
            Kind::Id => format!("ID{}", place(&mut self.ids, found.replace('-', ""))),
            Kind::Span => format!("SPAN{}", place(&mut self.spans, found.to_owned())),
        }
    }
}

/// The position among the values seen so far, from 1.
fn place(seen: &mut Vec<String>, found: String) -> usize {
    let known = seen.iter().position(|name| *name == found);
    known.unwrap_or_else(|| {
        seen.push(found);
        seen.len() - 1
    }) + 1
}

fn fits(text: &str, pattern: &str) -> bool {
    let matches = |(byte, wanted): (u8, u8)| match wanted {
        b'h' => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        b'd' => byte.is_ascii_digit(),
        _ => byte == wanted,
    };
    text.len() >= pattern.len() && text.bytes().zip(pattern.bytes()).all(matches)
}

#[test]
fn the_same_id_has_the_same_name() {
    let text = "a 01a1de14-034f-777e-a2d7-17de6c9dea0a b 01a1de14034f777ea2d717de6c9dea0a-2 \
                00000000-0000-0000-0000-000000000007 at 2026-01-01T00:00:00.000Z in 00000000000000ab, \
                00000000000000cd, 00000000000000ab";
    assert_eq!(Mask::default().text(text), "a ID1 b ID1-2 ID2 at TIME in SPAN1, SPAN2, SPAN1");
}
