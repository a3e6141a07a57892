//! The wait before the same request is sent again.
//!
//! The server's `Retry-After` wins; without one, two retries of our own fit into two seconds.
//! Whether there is a retry at all is the flow's decision.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use baton_core::fault::{Code, Fault};
use jiff::fmt::rfc2822::DateTimeParser;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// The longest wait that a server can ask for.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);

/// The pauses before the second and the third try, in milliseconds.
const PAUSES: [u64; 2] = [500, 1300];

/// A fault with the wait before the next try: the server's, or our own. A fault that is not marked as worth a
/// retry stays so.
pub(crate) fn with_retry_after(mut fault: Fault, attempt: u32, asked_ms: Option<u64>) -> Fault {
    let is_transient = matches!(fault.code, Code::LlmConnection | Code::LlmServer | Code::LlmRateLimited);
    fault.retry_after_ms = match fault.retry_after_ms {
        Some(_) if is_transient => {
            Some(asked_ms.unwrap_or_else(|| pause(attempt, RandomState::new().hash_one(attempt))))
        }
        _ => None,
    };
    fault
}

/// The pause before the next attempt with a jitter of a tenth, so that runs that failed together do not
/// come back together.
fn pause(attempt: u32, random: u64) -> u64 {
    let pause = PAUSES[(attempt.max(1) as usize - 1).min(PAUSES.len() - 1)];
    pause - pause / 10 + random % (pause / 5 + 1)
}

/// The wait that a server asks for, in milliseconds. It is written as seconds, with a fraction or not, or as a
/// date.
pub(super) fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
    // OpenAI and Azure are more precise with this one.
    let ms = match text("retry-after-ms".parse().ok()?).and_then(number) {
        Some(ms) => ms,
        None => {
            let value = text(RETRY_AFTER)?;
            match number(value) {
                Some(seconds) => seconds * 1000.0,
                None => ms_until(value, text(DATE)?)?,
            }
        }
    };
    Some(ms.ceil().min(MAX_RETRY_AFTER.as_millis() as f64) as u64)
}

/// Milliseconds up to a date by the server's own clock, so that ours does not have to agree.
fn ms_until(date: &str, now: &str) -> Option<f64> {
    let parser = DateTimeParser::new();
    let (then, now) = (parser.parse_timestamp(date).ok()?, parser.parse_timestamp(now).ok()?);
    Some((then.as_millisecond() - now.as_millisecond()).max(0) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn retry_after_is_seconds_a_fraction_or_a_date() {
        const DATE: (&str, &str) = ("date", "Wed, 21 Oct 2026 07:28:00 GMT");
        type Headers = &'static [(&'static str, &'static str)];
        let table: [(Headers, Option<u64>); 16] = [
            (&[], None),
            (&[("retry-after", "7")], Some(7000)),
            (&[("retry-after", " 0 ")], Some(0)),
            (&[("retry-after", "1.25")], Some(1250)),
            (&[("retry-after", "0.0001")], Some(1)),
            (&[("retry-after", "99999999999999999999")], Some(3_600_000)),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "inf")], None),
            (&[("retry-after", "NaN")], None),
            (&[("retry-after", "soon"), DATE], None),
            (&[("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT"), DATE], Some(30_000)),
            (&[("retry-after", "Wed, 21 Oct 2026 07:27:00 GMT"), DATE], Some(0)),
            (&[("retry-after", "Thu, 22 Oct 2026 07:28:00 GMT"), DATE], Some(3_600_000)),
            (&[("retry-after", "Wed, 21 Oct 2026 07:28:30 GMT")], None),
            (&[("retry-after", "9"), ("retry-after-ms", "125")], Some(125)),
            (&[("retry-after", "9"), ("retry-after-ms", "?")], Some(9000)),
        ];
        for (pairs, expected) in table {
            assert_eq!(retry_after_ms(&headers(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn both_retries_fit_into_two_seconds() {
        let ends = |attempt, least: u64, most: u64| {
            let pauses: Vec<u64> = (0..2000).map(|chance| pause(attempt, chance)).collect();
            assert_eq!((pauses.iter().min(), pauses.iter().max()), (Some(&least), Some(&most)), "{attempt}");
            most
        };
        assert!(ends(1, 450, 550) + ends(2, 1170, 1430) < 2000);
        ends(0, 450, 550);
        ends(u32::MAX, 1170, 1430);
    }

    #[test]
    fn only_a_transient_fault_gets_a_retry_wait() {
        let marked = |code| Fault::new(code, "x").retry_after_ms(0);
        let settled = |fault, said| with_retry_after(fault, 1, said).retry_after_ms;
        for code in [Code::LlmConnection, Code::LlmServer, Code::LlmRateLimited] {
            assert_eq!(settled(marked(code), Some(7)), Some(7));
            assert!((450..=550).contains(&settled(marked(code), None).unwrap()));
            assert_eq!(settled(Fault::new(code, "x"), Some(7)), None);
        }
        for code in [Code::LlmTimeout, Code::LlmAuth, Code::LlmInvalidResponse, Code::ContextTooLong] {
            assert_eq!(settled(marked(code), Some(7)), None);
        }
    }
}
