//! What servers say about their failures.

use baton_core::fault::{Code, Fault};
use baton_model::wire::{fault_from_status, fault_in_answer};
use serde_json::Value;

/// The most characters that a fault's message has: an excerpt of 300, and our own words.
const LONGEST: usize = 450;

/// Any bytes are a fault of a known kind whose message is short, plain and without keys. The first two
/// bytes are the status.
pub fn check(input: &[u8]) {
    let [high, low, body @ ..] = input else { return };
    // Half of all inputs have a status that there is.
    let number = u16::from_be_bytes([*high, *low]);
    let status = if number & 1 == 0 { 300 + (number >> 1) % 300 } else { number };
    sound(&fault_from_status(status, body));
    let error = serde_json::from_slice(body);
    sound(&fault_in_answer(&error.unwrap_or_else(|_| Value::from(String::from_utf8_lossy(body)))));
}

fn sound(fault: &Fault) {
    let known = [
        Code::LlmAuth,
        Code::LlmConnection,
        Code::LlmTimeout,
        Code::ContextTooLong,
        Code::LlmRateLimited,
        Code::LlmServer,
        Code::Refused,
        Code::LlmInvalidResponse,
    ];
    assert!(known.contains(&fault.code), "{fault:?}");
    assert!(fault.message.chars().count() <= LONGEST, "it is long: {fault:?}");
    assert!(!fault.message.contains(char::is_control), "it is not plain: {fault:?}");
    assert!(matches!(fault.retry_after_ms, None | Some(0)), "{fault:?}");
    assert!(fault.fits_tokens.is_none() || fault.code == Code::ContextTooLong, "{fault:?}");
    for word in fault.message.split(|c: char| !c.is_ascii_alphanumeric() && !"-_*.+=".contains(c)) {
        assert!(!word.starts_with("sk-"), "it shows a key: {fault:?}");
        let is_key = word.len() >= 20 && word.contains(|c: char| c.is_ascii_digit() || c == '*');
        assert!(fault.code != Code::LlmAuth || !is_key, "it shows a key: {fault:?}");
    }
}
