//! Patterns that a model wrote to keep a thread busy.

use std::time::{Duration, Instant};

use crate::serve::several::Die;
use crate::world::World;

#[test]
fn a_pattern_that_is_too_large_is_refused_with_what_to_do() {
    let world = World::new();
    world.write("work/letters.txt", "abc");
    for pattern in ["[ab]*a[ab]{90000}c", r"\w{1000}", "((a{100}){100}){100}"] {
        let did = world.baton(&["tools", "call", "search_files", &format!("pattern={pattern}")]);
        let told = "error: The pattern is too large: with its repetitions written out it takes more than 256 KiB. \
                    Use smaller repetitions like `{1,20}` or `+`, or search for a plain word.\n";
        assert_eq!((did.code, did.err.as_str()), (1, told), "{did:?}");
    }
}

/// Letters without a pattern, so that no state of a search comes twice.
fn letters(count: usize) -> String {
    let mut die = Die(1);
    (0..count).map(|_| if die.roll(2) == 0 { 'a' } else { 'b' }).collect()
}

/// Searching all of the file takes minutes; the process ends as soon as the search has timed out.
#[test]
fn a_search_whose_time_is_up_takes_no_more_time() {
    let world = World::new();
    world.settings("[tools.search_files]\ntimeout_s = 1\n");
    world.write("work/letters.txt", &letters(4 << 20));
    let began = Instant::now();
    let did = world.baton(&["tools", "call", "search_files", "pattern=[ab]*a[ab]{300}[cd]"]);
    assert!(did.code == 1 && did.err.contains("was stopped"), "{did:?}");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}
