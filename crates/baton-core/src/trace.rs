//! Trace and span ids of a run. They are derived from the run's own id, so they are the same in every process.
//!
//! The format of a parent is W3C Trace Context, version 00.

use std::fmt;
use std::str::FromStr;

use crate::id::{BadId, EffectId, RunId, excerpt};
use crate::json::sha256_hex;

/// The span of the caller's trace that a run was started in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace: 32 hexadecimal digits.
    pub trace_id: String,
    /// The span: 16 hexadecimal digits.
    pub span_id: String,
    /// Whether the caller records it.
    pub sampled: bool,
}

impl FromStr for TraceParent {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId {
            what: "traceparent",
            given: excerpt(text),
            expected: "expected 00-TRACE-SPAN-FLAGS with 32, 16 and 2 lower-case hexadecimal digits",
        };
        let hex = |part: &str, length: usize| {
            let plain = part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            part.len() == length && plain
        };
        let some = |part: &str| part.bytes().any(|b| b != b'0');
        let parts: Vec<&str> = text.split('-').collect();
        let [version, trace, span, flags, rest @ ..] = &parts[..] else { return Err(bad()) };
        // A later version may have more fields; those of version 00 keep their places.
        let known = hex(version, 2) && *version != "ff" && (*version != "00" || rest.is_empty());
        let ids = hex(trace, 32) && some(trace) && hex(span, 16) && some(span) && hex(flags, 2);
        if !known || !ids {
            return Err(bad());
        }
        let flags = u8::from_str_radix(flags, 16).map_err(|_| bad())?;
        let (trace_id, span_id) = ((*trace).to_owned(), (*span).to_owned());
        Ok(TraceParent { trace_id, span_id, sampled: flags & 1 == 1 })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, u8::from(self.sampled))
    }
}

impl RunId {
    /// The trace of a run that was not started in a caller's trace.
    pub fn trace_id(self) -> String {
        self.0.simple().to_string()
    }

    /// The span of one process's work on a run, from one claim to the next.
    pub fn span_id(self, epoch: u32) -> String {
        short_hash(&format!("{self}#{epoch}"))
    }
}

impl EffectId {
    /// The span of the flow's first try of this effect.
    pub fn span_id(&self) -> String {
        self.span_id_of(0)
    }

    /// The span of one try of it, from 0. A try that runs again after a crash keeps its span.
    pub fn span_id_of(&self, again: u32) -> String {
        match again {
            0 => short_hash(&self.to_string()),
            _ => short_hash(&format!("{self}~{again}")),
        }
    }
}

/// The id of a span: the beginning of the SHA-256 of its name.
pub fn short_hash(text: &str) -> String {
    sha256_hex(text.as_bytes())[..16].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::FramePath;
    use uuid::Uuid;

    #[test]
    fn a_parent_is_read_as_the_standard_has_it() {
        let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
        let parent = TraceParent { trace_id: trace.to_owned(), span_id: span.to_owned(), sampled: true };
        let text = format!("00-{trace}-{span}-01");
        assert_eq!((text.parse(), parent.to_string()), (Ok(parent.clone()), text.clone()));
        let unsampled = TraceParent { sampled: false, ..parent.clone() };
        assert_eq!(format!("00-{trace}-{span}-00").parse(), Ok(unsampled));
        assert_eq!(format!("cc-{trace}-{span}-09-what-comes").parse(), Ok(parent), "a later version");
        let zero = "0".repeat(32);
        for wrong in [
            String::new(),
            "00".to_owned(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}-01-more"),
            format!("00-{zero}-{span}-01"),
            format!("00-{trace}-{}-01", &zero[..16]),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{span}-1"),
            format!("00-{span}-{trace}-01"),
        ] {
            assert!(wrong.parse::<TraceParent>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_ids_of_a_run_are_its_own_and_differ() {
        let run = RunId(Uuid::from_u128(7));
        let effect = |n, again| EffectId { run, path: FramePath::root(), n }.span_id_of(again);
        assert_eq!(run.trace_id(), format!("{:032x}", 7));
        let first = EffectId { run, path: FramePath::root(), n: 1 };
        assert_eq!(
            first.span_id(),
            short_hash(&first.to_string()),
            "as it was before there were other tries"
        );
        let ids = [
            run.span_id(1),
            run.span_id(2),
            first.span_id(),
            effect(1, 1),
            effect(1, 2),
            effect(2, 0),
            effect(2, 1),
        ];
        assert!(ids.iter().all(|id| id.len() == 16 && u64::from_str_radix(id, 16).is_ok()), "{ids:?}");
        let different: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
    }
}
