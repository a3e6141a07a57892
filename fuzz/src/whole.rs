//! Answers that come as one JSON document.

use baton_model::wire::Wire;

use crate::answer::{self, Read};
use crate::chosen;

/// Any bytes, in each format, are a sound answer or a failure. The first byte chooses habits and names.
pub fn check(input: &[u8]) {
    let Some((settings, body)) = input.split_first() else { return };
    for wire in Wire::ALL {
        let read = read(wire, *settings, body);
        answer::check(&read);
        let unmarked = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body);
        let is_object = serde_json::from_slice::<serde_json::Value>(unmarked).is_ok_and(|it| it.is_object());
        assert!(read.1.is_err() || is_object, "{wire:?} made an answer of no object: {read:?}");
    }
}

fn read(wire: Wire, settings: u8, body: &[u8]) -> Read {
    let (habits, names) = chosen(settings);
    let mut decoder = wire.decoder(names, habits);
    let mut deltas = Vec::new();
    let end = decoder.whole(body, &mut deltas);
    assert_eq!(decoder.is_done(), end.is_ok());
    let count = deltas.len();
    assert_eq!(decoder.whole(body, &mut deltas), end);
    assert_eq!(deltas.len(), count, "more came after the end: {deltas:?}");
    (deltas, end)
}
