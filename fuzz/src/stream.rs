//! Bodies that arrive in pieces.
//!
//! An input begins with how it is read: one byte of settings (three bits for habits and names, five for the
//! number of lengths), two that say where it is cut off once more, and the lengths of the pieces, which are
//! used over and over. The rest is the body.

use baton_model::wire::Wire;

use crate::answer::{self, Read};
use crate::{chosen, marker};

/// The same bytes give the same deltas and the same end, in pieces and all at once; cut off earlier they
/// give the beginning of the same deltas; and without the format's marker they are never a whole answer.
pub fn check(wire: Wire, input: &[u8]) {
    let [settings, cut_high, cut_low, rest @ ..] = input else { return };
    let (lengths, body) = rest.split_at(usize::from(settings >> 3).min(rest.len()));
    let read = |pieces: &[&[u8]]| read(wire, *settings, pieces);

    let at_once = read(&[body]);
    assert_eq!(read(&split(body, lengths)), at_once, "split differently");
    answer::check(&at_once);
    assert!(at_once.1.is_err() || marker::is_in(body, wire), "whole without its marker: {at_once:?}");

    let at = usize::from(u16::from_be_bytes([*cut_high, *cut_low])) % (body.len() + 1);
    let cut = read(&[&body[..at]]);
    answer::check(&cut);
    assert!(cut.1.is_err() || marker::is_in(&body[..at], wire), "whole without its marker: {cut:?}");
    // An end that looks whole may still have gone on.
    assert!(cut.1.is_ok() || at_once.0.starts_with(&cut.0), "cut at {at}: {cut:?}, not cut: {at_once:?}");
}

/// Feeds the pieces, and the end after them. After an end nothing changes it any more.
fn read(wire: Wire, settings: u8, pieces: &[&[u8]]) -> Read {
    let (habits, names) = chosen(settings);
    let mut decoder = wire.decoder(names, habits);
    let mut deltas = Vec::new();
    let pushed = pieces.iter().try_for_each(|piece| decoder.push(piece, &mut deltas));
    let end = pushed.and_then(|()| decoder.end(&mut deltas));
    assert_eq!(decoder.is_done(), end.is_ok());
    let count = deltas.len();
    assert_eq!(decoder.push(b"data: {}\n\n", &mut deltas), end);
    assert_eq!(decoder.end(&mut deltas), end);
    assert_eq!(deltas.len(), count, "more came after the end: {deltas:?}");
    (deltas, end)
}

/// The body in pieces of these lengths, over and over; byte by byte if there are none.
fn split<'a>(body: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let (mut rest, mut pieces) = (body, Vec::new());
    // The last length is one that ends.
    let lengths = lengths.iter().map(|length| usize::from(*length)).chain([1]);
    for length in lengths.cycle() {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        pieces.push(piece);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    pieces
}
