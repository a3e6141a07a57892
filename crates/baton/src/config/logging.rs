//! The level and format of the log, from the settings.

use tracing::level_filters::LevelFilter;

use super::{Origin, Settled};
use crate::log::{Format, Logging};

/// Reads the settings of the log.
pub(super) fn logging(settled: &Settled) -> Logging {
    Logging {
        level: settled.text("log.level").parse().unwrap_or(LevelFilter::WARN),
        is_stated: settled.get("log.level").is_some_and(|found| found.origin != Origin::Default),
        format: match settled.text("log.format").as_str() {
            "text" => Some(Format::Text),
            "json" => Some(Format::Json),
            _ => None,
        },
    }
}
