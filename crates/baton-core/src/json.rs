//! JSON from untrusted senders: bounded when read, canonical when compared.
//!
//! `serde_json` refuses depth 128 on read but not on write, so a value that is wrapped once too
//! often could be stored and never read again. Values from outside may therefore be [`MAX_DEPTH`] deep at most.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// The deepest nesting that is accepted from outside.
pub const MAX_DEPTH: usize = 64;

/// The most bytes that JSON's escapes make of one byte.
const LONGEST_ESCAPE: usize = 6;

/// Why a text was not accepted as JSON.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadJson {
    /// Not JSON at all.
    #[error("not valid JSON: {0}")]
    Syntax(String),
    /// Nested beyond [`MAX_DEPTH`].
    #[error("nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
}

/// Reads JSON of bounded depth.
pub fn parse(text: &str) -> Result<Value, BadJson> {
    let value = serde_json::from_str(text).map_err(|error| {
        if error.to_string().starts_with("recursion limit") {
            BadJson::TooDeep
        } else {
            BadJson::Syntax(error.to_string())
        }
    })?;
    if is_deeper_than(&value, MAX_DEPTH) { Err(BadJson::TooDeep) } else { Ok(value) }
}

/// Whether a value nests beyond a depth; a scalar has depth 0.
pub fn is_deeper_than(value: &Value, depth: usize) -> bool {
    let mut children: Box<dyn Iterator<Item = &Value>> = match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(map) => Box::new(map.values()),
        _ => return false,
    };
    depth == 0 || children.any(|child| is_deeper_than(child, depth - 1))
}

/// The canonical text of a value: keys sorted, no white space. The fields of a type of ours have to stand in that order.
pub fn canonical(value: &impl Serialize) -> String {
    // serde_json's map is ordered by key (the `preserve_order` feature is banned by the tidy test), and a value
    // that was read as JSON can always be written. This way it is written without the detour of `Display`.
    serde_json::to_string(value).unwrap_or_default()
}

/// SHA-256 in hexadecimal.
pub fn sha256_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha256::digest(bytes);
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let mut hex = String::with_capacity(64);
    hex.extend(digits.map(|digit| char::from(DIGITS[usize::from(digit)])));
    hex
}

/// The digest of a tool and its exact arguments: approvals are bound to it, and equal calls recognised by it.
pub fn call_digest(name: &str, arguments: &Value) -> String {
    sha256_hex(format!("{name}\n{}", canonical(arguments)).as_bytes())
}

/// A result as text: text as it is, anything else as compact JSON.
pub fn as_text(value: &Value) -> String {
    text_of(value).into_owned()
}

/// The same, borrowed where the value is a text.
pub fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(canonical(other)),
    }
}

/// Cuts a text at a byte limit without splitting a character.
pub fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// Cuts a text so that its JSON is no longer than a limit, quotation marks aside.
pub fn cut_encoded(text: &str, limit: usize) -> &str {
    if text.len().saturating_mul(LONGEST_ESCAPE) <= limit {
        return text;
    }
    let mut length = 0;
    for (at, c) in text.char_indices() {
        length += match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => LONGEST_ESCAPE,
            plain => plain.len_utf8(),
        };
        if length > limit {
            return &text[..at];
        }
    }
    text
}

/// Whether a field has its default value, so that it need not be stored.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn nested(depth: usize) -> String {
        format!("{}{}", "[".repeat(depth), "]".repeat(depth))
    }

    #[test]
    fn depth_is_bounded_at_64() {
        assert!(parse(&nested(63)).is_ok());
        assert!(parse(&nested(64)).is_ok());
        for depth in [65, 127, 128, 100_000] {
            assert_eq!(parse(&nested(depth)), Err(BadJson::TooDeep), "{depth}");
        }
    }

    #[test]
    fn equal_calls_have_equal_digests() {
        let one = call_digest("t", &json!({"a": 1, "b": [2]}));
        assert_eq!(one, call_digest("t", &parse(r#"{"b":[2], "a":1}"#).unwrap()));
        assert_ne!(one, call_digest("u", &json!({"a": 1, "b": [2]})));
        assert_ne!(one, call_digest("t", &json!({"a": 1, "b": [3]})));
    }

    #[test]
    fn cutting_never_splits_a_character() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("a", 9), "a");
    }

    #[test]
    fn what_was_cut_for_its_json_fits() {
        for text in ["plain", "é\"\\\n\t\u{0}\u{1f}\u{7f}x", &"\u{1}é\"".repeat(50)] {
            for limit in 0..200 {
                let (cut, whole) = (cut_encoded(text, limit), Value::from(text).to_string().len() - 2);
                let length = Value::from(cut).to_string().len() - 2;
                assert!(text.starts_with(cut) && length <= limit, "{text:?} at {limit}");
                assert_eq!(cut == text, whole <= limit, "{text:?} at {limit}");
            }
        }
    }
}
