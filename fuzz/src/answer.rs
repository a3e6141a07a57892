//! What holds for the deltas of any answer, whole or not.

use std::collections::BTreeSet;

use baton_core::fault::Fault;
use baton_core::json::{MAX_DEPTH, is_deeper_than};
use baton_model::{Delta, MAX_CALLS, MAX_REPLY_BYTES, ReplyCollector};

/// What came of some bytes: the deltas, and whether they are a whole answer.
pub(crate) type Read = (Vec<Delta>, Result<(), Fault>);

/// Checks what a decoder gave: it finishes exactly once, at its end, if and only if the answer is whole;
/// what a collector makes of it is what the deltas say.
pub(crate) fn check((deltas, end): &Read) {
    let finishes = deltas.iter().filter(|delta| matches!(delta, Delta::Finish(_))).count();
    let is_last = matches!(deltas.last(), Some(Delta::Finish(_)));
    assert_eq!((finishes, is_last), if end.is_ok() { (1, true) } else { (0, false) }, "{end:?}: {deltas:?}");
    calls_are_sound(deltas);

    let mut collector = ReplyCollector::new();
    let collected = deltas.iter().try_for_each(|delta| collector.push(delta));
    match collected.and_then(|()| collector.finish()) {
        Ok(reply) => {
            assert_eq!(*end, Ok(()), "half an answer was taken for a whole one: {deltas:?}");
            assert_eq!(reply.text, text(deltas));
            let starts = deltas.iter().filter(|delta| matches!(delta, Delta::CallStart { .. })).count();
            assert_eq!(reply.calls.len(), starts);
            assert!(starts <= MAX_CALLS && reply.text.len() <= MAX_REPLY_BYTES);
            // It is stored, and what is stored has to be readable.
            let deep = reply.reasoning.iter().any(|block| is_deeper_than(block, MAX_DEPTH));
            assert!(!deep, "reasoning is nested too deeply to be read back");
        }
        // A refusal, too many calls, or half an answer.
        Err(fault) => assert!(!fault.message.is_empty()),
    }
}

/// No call begins twice, and no arguments come for one that has not begun.
fn calls_are_sound(deltas: &[Delta]) {
    let mut begun = BTreeSet::new();
    for delta in deltas {
        match delta {
            Delta::CallStart { index, .. } => assert!(begun.insert(index), "{index} began twice: {deltas:?}"),
            Delta::CallArguments { index, .. } => {
                assert!(begun.contains(index), "{index} had not begun: {deltas:?}");
            }
            _ => {}
        }
    }
}

fn text(deltas: &[Delta]) -> String {
    let texts = deltas.iter().filter_map(|delta| match delta {
        Delta::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect()
}
