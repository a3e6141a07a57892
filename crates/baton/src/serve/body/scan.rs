//! One pass over the bytes of a body, before anything is built of them.
//!
//! It promises time and memory in proportion to the bytes, for any bytes, and no recursion. It does not check that they
//! are JSON, which the parser does: a body that is refused here would be refused there, or would cost too much.

use std::borrow::Cow;
use std::collections::HashSet;

/// How deep values may nest.
pub(super) const MOST_DEPTH: usize = 64;
/// How many keys an object may have.
pub(super) const MOST_KEYS: usize = 10_000;
/// How long a number may be: no number type holds more digits.
const MOST_DIGITS: usize = 1_000;

/// Why a body was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ScanRefusal {
    /// It is not text.
    #[error("the body is not UTF-8 text")]
    NotText,
    /// Too deep.
    #[error("the body is nested more than {MOST_DEPTH} levels deep")]
    TooDeep,
    /// Too wide.
    #[error("an object of the body has more than {MOST_KEYS} keys")]
    TooManyKeys,
    /// A number that is too long.
    #[error("a number of the body has more than {MOST_DIGITS} characters")]
    LongNumber,
    /// A duplicate key, which two programs may read differently.
    #[error("the key `{0}` stands twice in one object: send it once")]
    Twice(String),
}

/// One value that has begun and not ended.
enum OpenValue<'a> {
    List,
    Object {
        keys: HashSet<Cow<'a, [u8]>>,
        /// Whether the next string is a key.
        at_key: bool,
    },
}

/// Refuses bytes that are too deep or too wide, or have too long a number or a duplicate key.
pub(super) fn check(bytes: &[u8]) -> Result<(), ScanRefusal> {
    if std::str::from_utf8(bytes).is_err() {
        return Err(ScanRefusal::NotText);
    }
    let mut open: Vec<OpenValue<'_>> = Vec::new();
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' if open.len() == MOST_DEPTH => return Err(ScanRefusal::TooDeep),
            b'{' => open.push(OpenValue::Object { keys: HashSet::new(), at_key: true }),
            b'[' => open.push(OpenValue::List),
            b'}' | b']' => drop(open.pop()),
            b',' | b':' => {
                if let Some(OpenValue::Object { at_key, .. }) = open.last_mut() {
                    *at_key = *byte == b',';
                }
            }
            b'"' => {
                let end = string_end(bytes, at);
                let inside = bytes.get(at..end).unwrap_or_default();
                if let Some(OpenValue::Object { keys, at_key: true }) = open.last_mut() {
                    note_key(keys, inside)?;
                }
                at = end + 1;
            }
            b'-' | b'0'..=b'9' => {
                let is_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
                let digits = bytes[at..].iter().take_while(is_number).count();
                if digits >= MOST_DIGITS {
                    return Err(ScanRefusal::LongNumber);
                }
                at += digits;
            }
            _ => {}
        }
    }
    Ok(())
}

/// The end of the string that began before `at`: its quotation mark, or the end of the body.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at) {
            Some(b'"') | None => return at,
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

fn note_key<'a>(keys: &mut HashSet<Cow<'a, [u8]>>, inside: &'a [u8]) -> Result<(), ScanRefusal> {
    if keys.len() == MOST_KEYS {
        return Err(ScanRefusal::TooManyKeys);
    }
    // The same key may be written in several ways: its decoded text counts.
    let key = match inside.contains(&b'\\') {
        false => Cow::Borrowed(inside),
        true => {
            let quoted = [b"\"", inside, b"\""].concat();
            match serde_json::from_slice::<String>(&quoted) {
                Ok(meant) => Cow::Owned(meant.into_bytes()),
                Err(_) => Cow::Borrowed(inside),
            }
        }
    };
    if keys.contains(&key) {
        return Err(ScanRefusal::Twice(baton_core::id::excerpt(&String::from_utf8_lossy(&key))));
    }
    keys.insert(key);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn what_only_a_bomb_has_is_refused() {
        let twice = |key: &str| Err(ScanRefusal::Twice(key.to_owned()));
        let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let objects = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        let wide = |keys: usize| {
            let pairs: Vec<String> = (0..keys).map(|n| format!("\"k{n}\":0")).collect();
            format!("{{{}}}", pairs.join(","))
        };
        let cases: Vec<(String, Result<(), ScanRefusal>)> = vec![
            (nested(63), Ok(())),
            (nested(64), Ok(())),
            (nested(65), Err(ScanRefusal::TooDeep)),
            (objects(64), Ok(())),
            (objects(65), Err(ScanRefusal::TooDeep)),
            ("[".repeat(100_000), Err(ScanRefusal::TooDeep)),
            (wide(9_999), Ok(())),
            (wide(10_000), Ok(())),
            (wide(10_001), Err(ScanRefusal::TooManyKeys)),
            ("9".repeat(1_000), Ok(())),
            ("9".repeat(1_001), Err(ScanRefusal::LongNumber)),
            (format!("[-{}]", "0.1e+".repeat(200_000)), Err(ScanRefusal::LongNumber)),
            (r#"{"a":1,"a":2}"#.into(), twice("a")),
            (r#"{"a":1,"\u0061":2}"#.into(), twice("a")),
            (r#"{"a":{"a":1},"b":{"a":["a","a"]}}"#.into(), Ok(())),
            (r#"[{"x":1},{"x":1}]"#.into(), Ok(())),
            (r#"{"a":"[[[\"{","b":"}"}"#.into(), Ok(())),
            (r#"{"o":{"x":1,"x":1}}"#.into(), twice("x")),
            ("\"never ends \\".into(), Ok(())),
            (r#"{"a""#.into(), Ok(())),
            ("]]}}".into(), Ok(())),
            (String::new(), Ok(())),
        ];
        for (text, expected) in cases {
            assert_eq!(check(text.as_bytes()), expected, "{:.60}", text);
        }
        assert_eq!(check(b"\"\xff\""), Err(ScanRefusal::NotText));
    }

    #[test]
    fn a_megabyte_of_anything_costs_little() {
        let mega = 1 << 20;
        let texts = ["[", "{\"a\":", "9", "\"", "\\\"", "{\"\\u0061\":1,", "[],", "{},", "\"k\",", "-"];
        let began = Instant::now();
        for text in texts {
            let _ = check(text.repeat(mega / text.len()).as_bytes());
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}
