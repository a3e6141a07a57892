//! The stored envelope of an entry: `{v, t, ts, data, compressed}`.
//!
//! `t` is the long class name (`UserMessageState`), `ts` Unix seconds, and `data` the fields, or their
//! zstd bytes in base64 where they are longer than 2 KiB. Unknown types survive as they are.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use baton_core::thread::Entry;
use baton_core::thread::entry::BadEntry;
use baton_core::time::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::StoreError;
use crate::record::{COMPRESS_OVER, compress, decompress};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    v: u32,
    t: String,
    ts: f64,
    #[serde(borrow)]
    data: &'a RawValue,
    compressed: bool,
}

/// Puts an entry into its envelope.
pub fn encode(entry: &Entry, at: Timestamp) -> Result<Vec<u8>, StoreError> {
    let fail = |e: serde_json::Error| StoreError::corrupt("entry", entry.type_name(), e);
    let plain = entry.data_text();
    let compressed = plain.len() > COMPRESS_OVER;
    let text = if compressed {
        Value::String(STANDARD.encode(compress(plain.as_bytes())?)).to_string()
    } else {
        plain
    };
    let mut out = Vec::with_capacity(text.len() + 96);
    out.extend_from_slice(br#"{"v":"#);
    serde_json::to_writer(&mut out, &entry.version()).map_err(fail)?;
    out.extend_from_slice(br#","t":"#);
    match entry {
        Entry::Custom(custom) => serde_json::to_writer(&mut out, &custom.t).map_err(fail)?,
        known => {
            out.push(b'"');
            out.extend_from_slice(known.type_name().as_bytes());
            out.extend_from_slice(br#"State""#);
        }
    }
    out.extend_from_slice(br#","ts":"#);
    serde_json::to_writer(&mut out, &at.as_seconds()).map_err(fail)?;
    out.extend_from_slice(br#","data":"#);
    out.extend_from_slice(text.as_bytes()); // JSON already: it is not read again
    out.extend_from_slice(br#","compressed":"#);
    serde_json::to_writer(&mut out, &compressed).map_err(fail)?;
    out.push(b'}');
    Ok(out)
}

impl Envelope<'_> {
    /// The fields as JSON.
    fn plain(&self) -> Result<Cow<'_, [u8]>, String> {
        if !self.compressed {
            return Ok(Cow::Borrowed(self.data.get().as_bytes()));
        }
        let text: String = serde_json::from_str(self.data.get()).map_err(|e| e.to_string())?;
        decompress(&STANDARD.decode(text).map_err(|e| e.to_string())?).map(Cow::Owned)
    }
}

/// The fields of an entry as JSON, of any type and version.
pub(crate) fn plain(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    envelope.plain().map(Cow::into_owned)
}

/// Takes an entry out of its envelope.
pub fn decode(bytes: &[u8]) -> Result<(Entry, Timestamp), String> {
    let envelope: Envelope<'_> = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    let data: Value = serde_json::from_slice(&envelope.plain()?).map_err(|e| e.to_string())?;
    let entry = Entry::from_stored(&envelope.t, envelope.v, data).map_err(|e: BadEntry| e.to_string())?;
    Ok((entry, Timestamp::from_seconds(envelope.ts)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const AT: Timestamp = Timestamp(1_234_567_890_123);

    #[test]
    fn the_envelope_has_the_documented_fields() {
        let entry = Entry::from_parts("UserMessage", 1, json!({"text": "Hi \u{0}"})).unwrap();
        let bytes = encode(&entry, AT).unwrap();
        assert_eq!(
            String::from_utf8(bytes.clone()).unwrap(),
            r#"{"v":1,"t":"UserMessageState","ts":1234567890.123,"data":{"text":"Hi \u0000"},"compressed":false}"#
        );
        assert_eq!(decode(&bytes), Ok((entry, AT)));
    }

    #[test]
    fn long_data_is_compressed_and_custom_types_survive() {
        let entry = Entry::from_parts("my.Note", 7, json!({"text": "x".repeat(3000)})).unwrap();
        let bytes = encode(&entry, AT).unwrap();
        let shown: Value = serde_json::from_slice(&bytes).unwrap();
        assert_eq!(
            (&shown["t"], &shown["v"], &shown["compressed"]),
            (&json!("my.Note"), &json!(7), &json!(true))
        );
        assert!(bytes.len() < 300);
        assert_eq!(decode(&bytes), Ok((entry, AT)));
    }

    #[test]
    fn exactly_two_kib_is_not_compressed() {
        let sized =
            |n: usize| Entry::from_parts("n", 1, json!({"t": "x".repeat(n - r#"{"t":""}"#.len())})).unwrap();
        let flag = |n| {
            let bytes = encode(&sized(n), AT).unwrap();
            serde_json::from_slice::<Value>(&bytes).unwrap()["compressed"].clone()
        };
        assert_eq!((flag(2047), flag(2048), flag(2049)), (json!(false), json!(false), json!(true)));
    }

    #[test]
    fn a_bad_envelope_is_an_error() {
        for bad in [
            "",
            "{}",
            r#"{"v":1,"t":"UserMessageState","ts":1.0,"data":{},"compressed":false}"#,
            r#"{"v":1,"t":"x","ts":1.0,"data":"!!","compressed":true}"#,
            r#"{"v":9,"t":"FinishedState","ts":1.0,"data":{},"compressed":false}"#,
        ] {
            assert!(decode(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
