//! The same bytes, however they arrive, give the same deltas and the same end; fewer bytes never give a
//! whole answer.

use baton_core::fault::{Code, Fault};
use baton_model::wire::Wire;
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

/// Longer recordings are split at random below: every byte of each would take a minute.
const SHORT: usize = 2_000;

#[test]
fn split_in_two_at_any_byte_gives_the_same() {
    for recording in Recording::all().iter().filter(|recording| recording.body.len() < SHORT) {
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

/// Every format has a text with characters of several bytes, whose splits are tried above; none of them
/// may make a replacement character, so none is expected.
#[test]
fn t14_emoji_and_cjk_are_among_the_recordings() {
    let is_wide =
        |recording: &&Recording| recording.expected.deltas.iter().any(|delta| !delta.to_string().is_ascii());
    let all = Recording::all();
    let wide: Vec<&Recording> =
        all.iter().filter(|recording| !recording.body.is_ascii()).filter(is_wide).collect();
    for wire in Wire::ALL {
        let short = |recording: &&&Recording| {
            recording.name.starts_with(wire.as_str()) && recording.body.len() < SHORT
        };
        assert!(wide.iter().any(|recording| short(&recording)), "{}", wire.as_str());
    }
    let replaced = |recording: &&&Recording| {
        recording.expected.deltas.iter().any(|delta| delta.to_string().contains('\u{fffd}'))
    };
    assert_eq!(wide.iter().filter(replaced).count(), 0);
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
