//! Whether a server means that the conversation is too long, and how much would have fitted.
//!
//! By its words, for the servers that have no code for it. Each phrase is one that a server is known to
//! say; what none of them says is not guessed at.

/// What it is about …
const ABOUT: [&str; 7] = [
    "context length",
    "context size",
    "context window",
    "context limit",
    "context the overflows",
    "maximum context",
    "max context",
];

/// … and what is wrong with it.
const WRONG: [&str; 9] = [
    "exceed",
    "too long",
    "too large",
    "larger than",
    "greater than",
    "longer than",
    "maximum",
    "overflow",
    "reduce",
];

/// What says both at once.
const BOTH: [&str; 5] = [
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input length exceeds",
    "request too large",
];

/// What the number of tokens that fit stands behind.
const BEFORE: [&str; 7] = [
    "maximum context length is ",
    "context length of only ",
    "context size (",
    "context length (",
    "exceeds context length ",
    "too large for model with ",
    " > ",
];

/// Whether these words say so.
pub(super) fn is_too_long(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    says(&BOTH) || (says(&ABOUT) && says(&WRONG))
}

/// How many tokens would have fitted, where they say it.
pub(super) fn limit(words: &str) -> Option<u64> {
    let words = words.to_ascii_lowercase();
    BEFORE.iter().find_map(|phrase| {
        let (_, after) = words.split_once(phrase)?;
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        after[..digits].parse().ok()
    })
}
