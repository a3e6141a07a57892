//! Limits of a tool's output: how much is shown, stored and dropped.
//!
//! Up to [`MAX_WHOLE`] bytes go to the model as they are. Of anything longer the model sees the first
//! [`HEAD`] and the last [`TAIL`] bytes; the first [`MAX_STORED`] bytes are kept in a blob that
//! `read_blob` and `search_blob` reach; the rest is dropped, and the text says so.
//!
//! Escape sequences, NUL and bidi controls are data: they stay, and nothing here interprets them.

use std::ops::Range;

use baton_core::effect::BlobRef;
use baton_core::json;
use serde_json::Value;

use crate::tool::Output;

/// The longest output that is shown whole, in bytes of its text or compact JSON.
pub const MAX_WHOLE: usize = 32 * 1024;
/// How much of the beginning of a longer output is shown.
pub const HEAD: usize = 24 * 1024;
/// How much of the end of a longer output is shown.
pub const TAIL: usize = 4 * 1024;
/// How much of an output is stored at most.
pub const MAX_STORED: usize = 16 * 1024 * 1024;

/// Text grows where it is stored and sent: a quotation mark to two bytes, a control character to six. So
/// much of that is allowed; of text that grows more, less is shown.
const GROWTH: usize = 2;
/// A replacement character is three bytes for one: bytes that are not text are shown a third as far.
const LOSSY_GROWTH: usize = 3;

/// An output to store as a blob: its reference and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputBlob {
    /// The hash that it is stored under, and its size.
    pub reference: BlobRef,
    /// The bytes, at most [`MAX_STORED`].
    pub bytes: Vec<u8>,
}

/// An output within the limits.
#[derive(Debug, Clone, PartialEq)]
pub struct LimitedOutput {
    /// The result as the model sees it.
    pub result: Value,
    /// The blob that `result` names, to be stored with it.
    pub blob: Option<OutputBlob>,
}

/// Brings an output within the limits.
pub fn limit(output: Output) -> LimitedOutput {
    match output {
        // JSON that is too deep to be read back is still fine as text.
        Output::Json(value) if json::is_deeper_than(&value, json::MAX_DEPTH) => limit_text(value.to_string()),
        Output::Json(value) => {
            let text = value.to_string();
            if is_short(&text) { LimitedOutput { result: value, blob: None } } else { limit_text(text) }
        }
        Output::Text(text) => limit_text(text),
        Output::Bytes(bytes) => match String::from_utf8(bytes) {
            Ok(text) => limit_text(text),
            Err(not_text) => limit_bytes(not_text.into_bytes()),
        },
    }
}

/// A blob of as many bytes as may be stored. Text is never cut inside a character.
pub fn into_blob(mut bytes: Vec<u8>) -> OutputBlob {
    let all = bytes.len();
    if all > MAX_STORED {
        let end = match std::str::from_utf8(&bytes) {
            Ok(text) => text.floor_char_boundary(MAX_STORED),
            Err(_) => MAX_STORED,
        };
        bytes.truncate(end);
    }
    let hash = json::sha256_hex(&bytes);
    OutputBlob {
        reference: BlobRef { hash, size: bytes.len() as u64, dropped: (all - bytes.len()) as u64 },
        bytes,
    }
}

fn limit_text(text: String) -> LimitedOutput {
    if is_short(&text) {
        return LimitedOutput { result: Value::String(text), blob: None };
    }
    let head = json::cut_encoded(json::cut(&text, HEAD), GROWTH * HEAD).to_owned();
    let tail = end_of(&text).to_owned();
    let hidden = head.len()..text.len() - tail.len();
    let blob = into_blob(text.into_bytes());
    let result = abridged(&head, hidden, &tail, &blob.reference);
    LimitedOutput { result: Value::String(result), blob: Some(blob) }
}

/// Whether a text can be shown whole.
fn is_short(text: &str) -> bool {
    text.len() <= MAX_WHOLE && json::cut_encoded(text, GROWTH * (HEAD + TAIL)).len() == text.len()
}

/// As much of the end of a text as is shown.
fn end_of(text: &str) -> &str {
    let end = &text[text.ceil_char_boundary(text.len().saturating_sub(TAIL))..];
    // A text grows by as much when it is reversed, so the cut of the reversed text gives the length of the end.
    let turned: String = end.chars().rev().collect();
    &end[end.len() - json::cut_encoded(&turned, GROWTH * TAIL).len()..]
}

fn limit_bytes(bytes: Vec<u8>) -> LimitedOutput {
    let (head, tail) = (HEAD / LOSSY_GROWTH, TAIL / LOSSY_GROWTH);
    let whole = head + tail;
    let lossy = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
    let (body, blob) = if bytes.len() <= whole {
        (lossy(&bytes), into_blob(bytes))
    } else {
        let (start, end) = (lossy(&bytes[..head]), lossy(&bytes[bytes.len() - tail..]));
        let hidden = head..bytes.len() - tail;
        let blob = into_blob(bytes);
        (abridged(&start, hidden, &end, &blob.reference), blob)
    };
    let note = format!(
        "[not UTF-8 text: {} bytes are stored as blob {}; unreadable ones are shown as \u{fffd}]",
        blob.reference.size, blob.reference.hash
    );
    LimitedOutput { result: Value::String(format!("{note}\n{body}")), blob: Some(blob) }
}

fn abridged(head: &str, hidden: Range<usize>, tail: &str, blob: &BlobRef) -> String {
    let dropped = match blob.dropped {
        0 => String::new(),
        bytes => format!(" The output was too long to keep: its last {bytes} bytes were dropped."),
    };
    format!(
        "{head}\n[{} bytes are left out here. Read them with read_blob from offset {}, or look for something \
         with search_blob; hash {}.{dropped}]\n{tail}",
        hidden.len(),
        hidden.start,
        blob.hash
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(limited: &LimitedOutput) -> &str {
        limited.result.as_str().unwrap()
    }

    #[test]
    fn text_up_to_the_limit_is_whole() {
        for length in [0, 1, MAX_WHOLE - 1, MAX_WHOLE] {
            let text = "x".repeat(length);
            let whole = LimitedOutput { result: json!(text), blob: None };
            assert_eq!(limit(Output::Text(text.clone())), whole, "{length}");
            assert_eq!(limit(Output::Bytes(text.into_bytes())), whole, "{length} as bytes");
        }
    }

    #[test]
    fn text_beyond_the_limit_is_abridged_and_kept() {
        let text = format!("{}{}", "a".repeat(MAX_WHOLE), "z");
        let limited = limit(Output::Text(text.clone()));
        let hash = json::sha256_hex(text.as_bytes());
        let blob = BlobRef { hash: hash.clone(), size: text.len() as u64, dropped: 0 };
        let expected = format!(
            "{}\n[4097 bytes are left out here. Read them with read_blob from offset 24576, or look for something \
             with search_blob; hash {hash}.]\n{}z",
            "a".repeat(HEAD),
            "a".repeat(TAIL - 1)
        );
        assert_eq!(
            limited,
            LimitedOutput {
                result: json!(expected),
                blob: Some(OutputBlob { reference: blob, bytes: text.into_bytes() })
            }
        );
    }

    #[test]
    fn json_is_measured_as_compact_text() {
        let longest = json!({"a": "x".repeat(MAX_WHOLE - r#"{"a":""}"#.len())});
        assert_eq!(limit(Output::Json(longest.clone())), LimitedOutput { result: longest, blob: None });
        let beyond = json!({"a": "x".repeat(MAX_WHOLE - r#"{"a":""}"#.len() + 1)});
        let limited = limit(Output::Json(beyond.clone()));
        assert!(shown(&limited).starts_with(r#"{"a":"xx"#));
        assert_eq!(limited.blob.unwrap().bytes, beyond.to_string().into_bytes());
    }

    #[test]
    fn json_that_could_not_be_read_back_becomes_text() {
        let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(limit(Output::Json(nested(64))).result, nested(64));
        assert_eq!(limit(Output::Json(nested(65))).result, json!(nested(65).to_string()));
    }

    #[test]
    fn characters_are_never_split() {
        for shift in 0..4 {
            let text = format!("{}{}", "x".repeat(shift), "\u{1f680}".repeat(MAX_WHOLE));
            let limited = limit(Output::Text(text.clone()));
            let parts: Vec<&str> = shown(&limited).split('\n').collect();
            assert_eq!(parts.len(), 3, "{shift}");
            assert!(text.starts_with(parts[0]) && parts[0].len() > HEAD - 4 && parts[0].len() <= HEAD);
            assert!(text.ends_with(parts[2]) && parts[2].len() > TAIL - 4 && parts[2].len() <= TAIL);
            let hidden = text.len() - parts[0].len() - parts[2].len();
            assert!(parts[1].starts_with(&format!("[{hidden} bytes are left out")), "{}", parts[1]);
        }
    }

    #[test]
    fn text_that_grows_is_bounded_where_it_is_stored() {
        for piece in ["\0", "\"", "\\\u{1b}", "é\n\u{1}", "\u{7f}x\""] {
            for length in [MAX_WHOLE / 6, MAX_WHOLE - 9, MAX_WHOLE, MAX_WHOLE + 1, 4 * MAX_WHOLE] {
                let text = piece.repeat(length / piece.len());
                let broken = [text.as_bytes(), &[0xff]].concat();
                for output in [Output::Text(text.clone()), Output::Json(json!([text])), Output::Bytes(broken)]
                {
                    let limited = limit(output);
                    let stored = json::as_text(&limited.result);
                    let stored = Value::from(stored).to_string().len();
                    assert!(stored < GROWTH * (HEAD + TAIL) + 1024, "{stored} bytes of {length} {piece:?}");
                }
            }
        }
        let (head, tail) = ("\0".repeat(GROWTH * HEAD / 6), "\0".repeat(GROWTH * TAIL / 6));
        let limited = limit(Output::Text("\0".repeat(MAX_WHOLE)));
        assert!(shown(&limited).starts_with(&format!("{head}\n[")));
        assert!(shown(&limited).ends_with(&format!("]\n{tail}")));
    }

    #[test]
    fn output_beyond_the_stored_limit_is_dropped_and_the_text_says_so() {
        for (length, dropped) in [(MAX_STORED - 1, 0), (MAX_STORED, 0), (MAX_STORED + 1, 1)] {
            let limited = limit(Output::Text("x".repeat(length)));
            let blob = limited.blob.clone().unwrap();
            assert_eq!(
                (blob.reference.size, blob.reference.dropped),
                ((length - dropped) as u64, dropped as u64)
            );
            assert_eq!(blob.bytes.len() as u64, blob.reference.size);
            assert_eq!(blob.reference.hash, json::sha256_hex(&blob.bytes));
            assert_eq!(shown(&limited).contains("its last 1 bytes were dropped"), dropped == 1);
        }
        let blob = into_blob("é".repeat(MAX_STORED / 2 + 1).into_bytes());
        assert_eq!((blob.reference.size, blob.reference.dropped), (MAX_STORED as u64, 2));
        let blob = into_blob(format!("x{}", "é".repeat(MAX_STORED / 2)).into_bytes());
        assert_eq!((blob.reference.size, blob.reference.dropped), (MAX_STORED as u64 - 1, 2));
    }

    #[test]
    fn bytes_that_are_not_text_are_stored_and_shown_lossily() {
        let limited = limit(Output::Bytes(vec![b'a', 0xff, b'b']));
        let hash = json::sha256_hex(&[b'a', 0xff, b'b']);
        let expected = format!(
            "[not UTF-8 text: 3 bytes are stored as blob {hash}; unreadable ones are shown as \u{fffd}]\na\u{fffd}b"
        );
        let blob = BlobRef { hash, size: 3, dropped: 0 };
        assert_eq!(
            limited,
            LimitedOutput {
                result: json!(expected),
                blob: Some(OutputBlob { reference: blob, bytes: vec![b'a', 0xff, b'b'] })
            }
        );
        for length in [MAX_WHOLE / 3, MAX_WHOLE / 3 + 1, MAX_WHOLE, MAX_STORED + 1] {
            let limited = limit(Output::Bytes(vec![0xff; length]));
            assert!(shown(&limited).len() < MAX_WHOLE + 1024, "{length}");
            assert_eq!(limited.blob.unwrap().reference.size, length.min(MAX_STORED) as u64);
        }
    }

    #[test]
    fn control_characters_stay_data() {
        let text = "\0\u{1b}[31mred\u{1b}[0m\u{202e}evil\u{7}";
        assert_eq!(limit(Output::Text(text.to_owned())).result, json!(text));
        assert_eq!(limit(Output::Json(json!({"t": text}))).result, json!({"t": text}));
    }
}
