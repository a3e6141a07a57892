//! Points in time, as values. This module reads no clock.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Milliseconds since the Unix epoch. On the wire: RFC 3339 in UTC with milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

/// The last day but one of the year 9999: a later time could be stored and never read again.
const LATEST: i64 = 253_402_128_000_000;

impl Timestamp {
    /// This moment plus some milliseconds; the last moment that can be shown, if that is later.
    pub fn plus_ms(self, ms: u64) -> Self {
        Timestamp(self.0.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX)).min(LATEST))
    }

    /// Milliseconds from `earlier` to this moment; 0 if the clock went backwards.
    pub fn ms_since(self, earlier: Timestamp) -> u64 {
        u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0)
    }

    /// Unix seconds with a fraction, as the stored envelope has them.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// From Unix seconds with a fraction.
    pub fn from_seconds(seconds: f64) -> Self {
        Timestamp((seconds * 1000.0).round() as i64)
    }

    /// Reads RFC 3339.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|t| Timestamp(t.as_millisecond()))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(time) => write!(f, "{time:.3}"),
            Err(_) => write!(f, "{}ms", self.0),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text)
            .ok_or_else(|| serde::de::Error::custom("expected RFC 3339, like 2026-01-31T12:00:00.000Z"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_with_milliseconds_and_read_back() {
        let at = Timestamp(1_767_225_600_000);
        assert_eq!(at.to_string(), "2026-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
        assert_eq!(Timestamp::from_seconds(at.plus_ms(25).as_seconds()), at.plus_ms(25));
        assert_eq!(Timestamp::parse("yesterday"), None);
    }

    #[test]
    fn however_far_away_it_is_read_back() {
        for ms in [0, 253_402_127_999_999, 253_402_128_000_000, 253_402_207_200_999, u64::MAX] {
            let far = Timestamp(0).plus_ms(ms);
            assert_eq!(Timestamp::parse(&far.to_string()), Some(far), "{ms}");
        }
        assert_eq!(Timestamp(0).plus_ms(u64::MAX), Timestamp(LATEST));
    }
}
