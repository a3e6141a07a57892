//! The context limit in a server's words: whether an error means it, and how many tokens would fit.
//!
//! For the servers that have no code for it. Each phrase is known from a real server; other words are not
//! interpreted.

/// Names of the context window; an error about it also has one of [`EXCEEDED`].
const CONTEXT: [&str; 7] = [
    "context length",
    "context size",
    "context window",
    "context limit",
    "context the overflows",
    "maximum context",
    "max context",
];

/// Words for exceeding it.
const EXCEEDED: [&str; 9] = [
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

/// Phrases that are enough by themselves.
const TOO_LONG: [&str; 5] = [
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input length exceeds",
    "request too large",
];

/// Phrases that the number of fitting tokens follows.
const BEFORE_LIMIT: [&str; 7] = [
    "maximum context length is ",
    "context length of only ",
    "context size (",
    "context length (",
    "exceeds context length ",
    "too large for model with ",
    " > ",
];

/// Whether these words mean that the conversation is too long.
pub(super) fn is_too_long(words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| words.contains(phrase));
    says(&TOO_LONG) || (says(&CONTEXT) && says(&EXCEEDED))
}

/// The number of tokens that would fit, where the words have it.
pub(super) fn limit(words: &str) -> Option<u64> {
    let words = words.to_ascii_lowercase();
    BEFORE_LIMIT.iter().find_map(|phrase| {
        let (_, after) = words.split_once(phrase)?;
        let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
        after[..digits].parse().ok()
    })
}
