//! `clock`: the current time, in UTC or at a fixed offset.
//!
//! Named time zones are left out: their rules change, and an offset is never wrong.

use std::sync::Arc;

use baton_core::time::Timestamp;
use baton_core::tool::{EffectClass, Trust};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::tool::{Tool, ToolError};
use crate::typed::{Structured, ToolInfo, typed};

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;
const WEEKDAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClockArguments {
    /// "UTC" (if left out) or a fixed offset from it, like "+02:00" or "-05:30".
    #[schemars(regex(pattern = r"^(UTC|[+-](0[0-9]|1[0-4]):[0-5][0-9])$"))]
    timezone: Option<String>,
}

#[derive(Debug, PartialEq, Serialize, JsonSchema)]
struct Moment {
    /// RFC 3339 with milliseconds.
    time: String,
    weekday: &'static str,
    timezone: String,
    /// Milliseconds since 1970-01-01 in UTC.
    unix_ms: i64,
}

pub(crate) fn tool(now: fn() -> Timestamp) -> Arc<dyn Tool> {
    let about = ToolInfo {
        name: "clock",
        description: "Tells the current time, date and day of the week: what time it is now, what day is today.",
        class: EffectClass::SideEffectFree,
        timeout_ms: 1_000,
        trust: Trust::BUILT_IN,
    };
    typed(about, move |arguments: ClockArguments, _| {
        std::future::ready(moment(now(), arguments.timezone.as_deref().unwrap_or("UTC")).map(Structured))
    })
}

fn moment(at: Timestamp, timezone: &str) -> Result<Moment, ToolError> {
    let offset = offset_minutes(timezone).ok_or_else(|| {
        ToolError::invalid_call(format!(
            "{timezone:?} is no time zone here. Use \"UTC\" or an offset like \"+02:00\"."
        ))
    })?;
    let local = Timestamp(at.0.saturating_add(offset * MINUTE_MS));
    let time = match timezone {
        "UTC" => local.to_string(),
        offset => local.to_string().replace('Z', offset),
    };
    let day = usize::try_from(local.0.div_euclid(DAY_MS).rem_euclid(7)).unwrap_or_default();
    Ok(Moment { time, weekday: WEEKDAYS[day], timezone: timezone.to_owned(), unix_ms: at.0 })
}

fn offset_minutes(timezone: &str) -> Option<i64> {
    if timezone == "UTC" {
        return Some(0);
    }
    let (sign, rest) = match timezone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let two_digits = |text: &str| match text.as_bytes() {
        [a @ b'0'..=b'9', b @ b'0'..=b'9'] => Some(i64::from(a - b'0') * 10 + i64::from(b - b'0')),
        _ => None,
    };
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_moment_at_an_offset() {
        let at = Timestamp(1_767_225_600_000); // 2026-01-01, a Thursday
        let cases = [
            ("UTC", "2026-01-01T00:00:00.000Z", "Thursday"),
            ("+02:00", "2026-01-01T02:00:00.000+02:00", "Thursday"),
            ("-05:30", "2025-12-31T18:30:00.000-05:30", "Wednesday"),
            ("+14:59", "2026-01-01T14:59:00.000+14:59", "Thursday"),
        ];
        for (timezone, time, weekday) in cases {
            let expected = Moment {
                time: time.to_owned(),
                weekday,
                timezone: timezone.to_owned(),
                unix_ms: 1_767_225_600_000,
            };
            assert_eq!(moment(at, timezone), Ok(expected));
        }
        assert_eq!(moment(Timestamp(-1), "UTC").unwrap().weekday, "Wednesday");
    }

    #[test]
    fn other_zones_are_refused() {
        for timezone in
            ["", "+", "utc", "CET", "Europe/Berlin", "+2:00", "+15:00", "+02:60", "+é:00", "++1:00", "Z"]
        {
            let message =
                format!("{timezone:?} is no time zone here. Use \"UTC\" or an offset like \"+02:00\".");
            assert_eq!(moment(Timestamp(0), timezone), Err(ToolError::invalid_call(message)), "{timezone}");
        }
    }
}
