//! Patterns that a model wrote to keep a thread busy.

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
