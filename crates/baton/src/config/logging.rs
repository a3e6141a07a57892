//! The level and format of the log, from the settings.

use tracing::level_filters::LevelFilter;

use super::{ResolvedConfig, ValueOrigin};
use crate::log::{Format, Logging};

/// Reads the settings of the log.
pub(super) fn logging(resolved: &ResolvedConfig) -> Logging {
    Logging {
        level: resolved.text("log.level").parse().unwrap_or(LevelFilter::WARN),
        is_stated: resolved.get("log.level").is_some_and(|found| found.origin != ValueOrigin::Default),
        format: match resolved.text("log.format").as_str() {
            "text" => Some(Format::Text),
            "json" => Some(Format::Json),
            _ => None,
        },
    }
}
