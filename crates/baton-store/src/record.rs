//! Stored values: JSON, compressed when long, with a checksum. Old versions are upgraded here.

use std::borrow::Cow;

use baton_core::event::Event;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// The size above which bytes are compressed.
pub(crate) const COMPRESS_OVER: usize = 2048;
/// The largest size to which a row may be decompressed.
const MOST_BYTES: usize = 64 << 20;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Encodes a value; returns its bytes and their checksum.
pub(crate) fn encode<T: Serialize>(value: &T) -> Result<(Vec<u8>, u32), StoreError> {
    let mut plain = Vec::with_capacity(COMPRESS_OVER);
    serde_json::to_writer(&mut plain, value).map_err(|e| StoreError::corrupt("record", "", e))?;
    let bytes = if plain.len() > COMPRESS_OVER { compress(&plain)? } else { plain };
    let crc = crc32fast::hash(&bytes);
    Ok((bytes, crc))
}

/// Decodes a value from stored bytes; `what` and `id` name it in the error.
pub(crate) fn decode<T: DeserializeOwned>(
    what: &'static str,
    id: impl ToString,
    bytes: &[u8],
    crc: u32,
) -> Result<T, StoreError> {
    let read =
        || -> Result<T, String> { serde_json::from_slice(&plain(bytes, crc)?).map_err(|e| e.to_string()) };
    read().map_err(|why| StoreError::corrupt(what, id, why))
}

/// The JSON of stored bytes.
pub(crate) fn plain(bytes: &[u8], crc: u32) -> Result<Cow<'_, [u8]>, String> {
    if crc32fast::hash(bytes) != crc {
        return Err("its checksum does not fit: the file was damaged".to_owned());
    }
    if bytes.starts_with(&ZSTD_MAGIC) { decompress(bytes).map(Cow::Owned) } else { Ok(Cow::Borrowed(bytes)) }
}

/// Like [`decode`], for a record with a version: one newer than this build knows is not reported as damaged.
pub(crate) fn decode_known<T: DeserializeOwned>(
    what: &'static str,
    id: impl ToString,
    bytes: &[u8],
    crc: u32,
    known: u32,
) -> Result<T, StoreError> {
    #[derive(Deserialize)]
    struct Versioned {
        v: u32,
    }
    let id = id.to_string();
    decode(what, &id, bytes, crc).map_err(|error| match decode::<Versioned>(what, &id, bytes, crc) {
        Ok(Versioned { v }) if v > known => {
            StoreError::corrupt(what, &id, format!("it has version {v}, and this build knows up to {known}"))
        }
        _ => error,
    })
}

/// Compresses bytes. Values too long to be read back are refused here, before they are written.
pub(crate) fn compress(plain: &[u8]) -> Result<Vec<u8>, StoreError> {
    if plain.len() > MOST_BYTES {
        return Err(StoreError::TooLong { bytes: plain.len() });
    }
    zstd::bulk::compress(plain, 1).map_err(|e| StoreError::Unavailable(e.to_string()))
}

pub(crate) fn decompress(bytes: &[u8]) -> Result<Vec<u8>, String> {
    zstd::bulk::decompress(bytes, MOST_BYTES).map_err(|e| e.to_string())
}

/// Events as they are stored: neighbouring pieces of one message become a block of text with the
/// lengths of its pieces, so that a thousand tokens do not cost a thousand records.
pub(crate) mod blocks {
    use super::{Event, from_stored, to_stored};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(events: &[Event], serializer: S) -> Result<S::Ok, S::Error> {
        to_stored(events).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Event>, D::Error> {
        from_stored(Vec::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Stored<E> {
    Deltas(Block),
    One(E),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Block {
    deltas: u32,
    message_id: String,
    text: String,
    lens: Vec<u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    reasoning: bool,
}

fn to_stored(events: &[Event]) -> Vec<Stored<&Event>> {
    let mut out = Vec::new();
    for event in events {
        let Event::Delta { effect, message_id, text, reasoning } = event else {
            out.push(Stored::One(event));
            continue;
        };
        let len = u32::try_from(text.len()).unwrap_or(u32::MAX);
        match out.last_mut() {
            Some(Stored::Deltas(block)) if block.deltas == *effect && block.reasoning == *reasoning => {
                block.text.push_str(text);
                block.lens.push(len);
            }
            _ => out.push(Stored::Deltas(Block {
                deltas: *effect,
                message_id: message_id.clone(),
                text: text.clone(),
                lens: vec![len],
                reasoning: *reasoning,
            })),
        }
    }
    out
}

fn from_stored(stored: Vec<Stored<Event>>) -> Result<Vec<Event>, String> {
    let mut out = Vec::new();
    for item in stored {
        match item {
            Stored::One(event) => out.push(event),
            Stored::Deltas(block) => unpack(block, &mut out)?,
        }
    }
    Ok(out)
}

fn unpack(block: Block, out: &mut Vec<Event>) -> Result<(), String> {
    let mut rest = block.text.as_str();
    for len in block.lens {
        let (piece, after) =
            rest.split_at_checked(len as usize).ok_or("a block of text has wrong lengths")?;
        rest = after;
        out.push(Event::Delta {
            effect: block.deltas,
            message_id: block.message_id.clone(),
            text: piece.to_owned(),
            reasoning: block.reasoning,
        });
    }
    if rest.is_empty() { Ok(()) } else { Err("a block of text has wrong lengths".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use baton_core::fault::Code;
    use proptest::prelude::*;

    fn delta(effect: u32, text: &str) -> Event {
        Event::Delta { effect, message_id: format!("m{effect}"), text: text.to_owned(), reasoning: false }
    }

    #[test]
    fn neighbouring_pieces_share_a_block() {
        let events = vec![
            delta(1, "Hé"),
            delta(1, ""),
            delta(1, "llo"),
            Event::Warning { code: Code::Internal, message: "w".to_owned() },
            delta(2, "x"),
        ];
        let stored = to_stored(&events);
        assert_eq!(stored.len(), 3);
        assert_eq!(read_back(&events), Ok(events));
    }

    fn read_back(events: &[Event]) -> Result<Vec<Event>, String> {
        from_stored(serde_json::from_value(serde_json::to_value(to_stored(events)).unwrap()).unwrap())
    }

    #[test]
    fn what_could_not_be_read_again_is_never_written() {
        let sized = |bytes: usize| encode(&"x".repeat(bytes - 2));
        let (bytes, crc) = sized(MOST_BYTES).unwrap();
        assert_eq!(decode::<String>("step", 1, &bytes, crc).unwrap().len(), MOST_BYTES - 2);
        assert_eq!(sized(MOST_BYTES + 1), Err(StoreError::TooLong { bytes: MOST_BYTES + 1 }));
    }

    #[test]
    fn a_newer_record_is_not_called_damaged() {
        #[derive(Debug, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Old {
            v: u32,
        }
        let read = |record: serde_json::Value| {
            let (bytes, crc) = encode(&record).unwrap();
            decode_known::<Old>("step", 7, &bytes, crc, 2).map_err(|error| error.to_string())
        };
        assert_eq!(read(serde_json::json!({"v": 2})), Ok(Old { v: 2 }));
        let newer = "step \"7\" cannot be read: it has version 3, and this build knows up to 2";
        assert_eq!(read(serde_json::json!({"v": 3, "new": 1})), Err(newer.to_owned()));
        assert!(read(serde_json::json!({"v": 2, "new": 1})).unwrap_err().contains("unknown field `new`"));
    }

    #[test]
    fn damaged_bytes_are_named_and_never_panic() {
        let (bytes, crc) = encode(&vec!["x".repeat(5000)]).unwrap();
        assert!(bytes.len() < 200, "compressed");
        assert_eq!(decode::<Vec<String>>("step", 7, &bytes, crc).unwrap()[0].len(), 5000);
        for at in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            let error = decode::<Vec<String>>("step", 7, &bad, crc).unwrap_err();
            assert_eq!(
                error.to_string(),
                "step \"7\" cannot be read: its checksum does not fit: the file was damaged"
            );
        }
    }

    proptest! {
        #[test]
        fn any_events_survive_storage(pieces in prop::collection::vec((0u32..3, ".{0,5}"), 0..20)) {
            let events: Vec<Event> = pieces.iter().map(|(e, t)| delta(*e, t)).collect();
            prop_assert_eq!(read_back(&events), Ok(events));
        }
    }
}
