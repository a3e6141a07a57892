//! Comparison of two lists of tools: the patterns that one lacks to allow every tool that the other allows,
//! for any set of tools.
//!
//! Sound and not complete: a covered pattern is allowed by the looser list, and when in doubt a pattern is not
//! covered. `@built_in` and `@configured` together are everything, for one, and do not count as such here.

use super::WORDS;
use crate::policy::matches;

/// The patterns of the stricter list that the looser one does not cover, each once.
pub(super) fn left_out(looser: &[String], stricter: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for pattern in stricter {
        if !out.contains(pattern) && !looser.iter().any(|by| covers(by, pattern)) {
            out.push(pattern.clone());
        }
    }
    out
}

/// Whether every tool that fits the stricter pattern fits the looser one.
fn covers(looser: &str, stricter: &str) -> bool {
    let is_word = |pattern: &str| WORDS.contains(&pattern);
    let is_all = !looser.is_empty() && looser.chars().all(|c| c == '*');
    // Read as a name, a pattern fits another only if each of its own `*` lies within one of the other's: then
    // any text that its `*` stands for does, too.
    let is_wider = || !is_word(looser) && !is_word(stricter) && matches(looser, stricter);
    looser == stricter || is_all || is_wider()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pattern_covers_what_it_means_in_any_case() {
        let yes = [
            ("clock", "clock"),
            ("*", "clock"),
            ("*", "read_*"),
            ("*", "@side_effect_free"),
            ("**", "@configured"),
            ("@built_in", "@built_in"),
            ("read_*", "read_file"),
            ("read_*", "read_*_*"),
            ("*_*", "read_*_x"),
            ("a*c", "a*b*c"),
        ];
        let no = [
            ("clock", "cloc"),
            ("clock", "*"),
            ("", "clock"),
            ("read_*", "*_file"),
            ("read_file", "read_*"),
            ("a*b*c", "a*c"),
            ("@side_effect_free", "clock"),
            ("@built_in", "@side_effect_free"),
            ("@*", "@side_effect_free"),
            ("*_free", "@side_effect_free"),
        ];
        assert!(yes.iter().all(|(l, s)| covers(l, s)), "{:?}", yes.iter().find(|(l, s)| !covers(l, s)));
        assert!(!no.iter().any(|(l, s)| covers(l, s)), "{:?}", no.iter().find(|(l, s)| covers(l, s)));
    }

    #[test]
    fn what_is_left_out_is_named_once_and_in_order() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let out = left_out(&list(&["read_*", "@configured"]), &list(&["clock", "read_file", "*", "clock"]));
        assert_eq!(out, list(&["clock", "*"]));
    }

    proptest! {
        #[test]
        fn whatever_fits_what_is_covered_fits_what_covers_it(
            looser in "[ab*]{0,5}", stricter in "[ab*]{0,5}", name in "[ab]{0,7}",
        ) {
            if covers(&looser, &stricter) && matches(&stricter, &name) {
                prop_assert!(matches(&looser, &name), "{looser:?} does not cover {stricter:?}: {name:?}");
            }
        }
    }
}
