//! The same bytes, however they arrive, give the same deltas and the same end; fewer bytes never give a
//! whole answer.

use baton_core::fault::{Code, Fault};
use proptest::prelude::*;

use super::recorded::{Read, Recording};

/// How many bytes are read when the answer is whole, without the line ends that close the marker's event.
fn marker_end(recording: &Recording) -> usize {
    let mut decoder = recording.decoder();
    let mut out = Vec::new();
    let read = recording.body.iter().position(|byte| {
        decoder.push(&[*byte], &mut out).expect("it ends well");
        decoder.is_done()
    });
    let read = read.map_or(recording.body.len(), |last| last + 1);
    recording.body[..read].trim_ascii_end().len()
}

fn cut() -> Fault {
    Fault::new(Code::LlmConnection, "the model's stream ended before it was complete").retry_after_ms(0)
}

#[test]
fn byte_by_byte_gives_the_same() {
    for recording in Recording::all() {
        assert_eq!(recording.read(recording.body.chunks(1)), recording.expected(), "{}", recording.name);
    }
}

#[test]
fn split_in_two_at_any_byte_gives_the_same() {
    for recording in Recording::all() {
        for at in 0..=recording.body.len() {
            let (head, tail) = recording.body.split_at(at);
            assert_eq!(recording.read([head, tail]), recording.expected(), "{} at {at}", recording.name);
        }
    }
}

#[test]
fn an_answer_cut_off_anywhere_before_its_marker_is_a_failure() {
    for recording in Recording::all().iter().filter(|recording| recording.expected.fault.is_none()) {
        let end = marker_end(recording);
        for at in 0..recording.body.len() {
            let (deltas, result) = recording.read([&recording.body[..at]]);
            let (all, _) = recording.expected();
            let place = format!("{} at {at} of {end}", recording.name);
            if at >= end {
                assert_eq!((deltas, result), (all, Ok(())), "{place}");
                continue;
            }
            assert_eq!(result, Err(cut()), "{place}");
            assert!(deltas.len() < all.len() && all.starts_with(&deltas), "{place}: {deltas:?}");
        }
    }
}

#[test]
fn a_failure_cut_off_anywhere_is_a_failure() {
    for recording in Recording::all().iter().filter(|recording| recording.expected.fault.is_some()) {
        let (all, fault) = recording.expected();
        for at in 0..recording.body.len() {
            let (deltas, result) = recording.read([&recording.body[..at]]);
            let known = [Err(cut()), fault.clone()].contains(&result);
            assert!(known && all.starts_with(&deltas), "{} at {at}: {deltas:?} {result:?}", recording.name);
        }
    }
}

#[test]
fn t14_no_split_makes_a_replacement_character() {
    let all = Recording::all();
    let wide: Vec<&Recording> = all.iter().filter(|recording| recording.name.contains("emoji")).collect();
    assert!(wide.len() >= 2, "a recording with emoji and CJK for each format");
    for recording in wide {
        assert!(!recording.body.is_ascii(), "{}", recording.name);
        for at in 0..recording.body.len() {
            let (head, tail) = recording.body.split_at(at);
            let (deltas, result) = recording.read([head, tail]);
            let replaced = deltas.iter().any(|delta| delta.to_string().contains('\u{fffd}'));
            assert_eq!((replaced, result), (false, Ok(())), "{} at {at}", recording.name);
        }
    }
}

/// Feeds a recording in pieces of these lengths, over and over.
fn read_in(recording: &Recording, lengths: &[usize]) -> Read {
    let mut rest = &recording.body[..];
    let mut pieces = Vec::new();
    for length in lengths.iter().cycle() {
        let (piece, after) = rest.split_at((*length).min(rest.len()));
        pieces.push(piece);
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    recording.read(pieces)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_split_gives_the_same(lengths in prop::collection::vec(0usize..400, 1..12)) {
        // Some bytes have to be taken, or the end is never reached.
        let lengths: Vec<usize> = lengths.into_iter().chain([1]).collect();
        for recording in Recording::all() {
            prop_assert_eq!(read_in(&recording, &lengths), recording.expected(), "{}", recording.name);
        }
    }
}
