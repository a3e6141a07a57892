//! The log of this process: to standard error, and never to standard output.

use std::io::IsTerminal;

use baton_engine::spans::TARGET;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::Color;
use crate::telemetry::Telemetry;

/// Decides about colours, for the log and everything else that is written.
pub(crate) fn colours(choice: Color) {
    let choice = match choice {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Begins the log. A second time changes nothing.
pub(crate) fn begin(level: LevelFilter) {
    begin_with(level, None);
}

/// The same, and lets telemetry listen, too, if it is on.
///
/// The spans of runs are for telemetry alone. Where that is off nobody wants them, and they cost nothing.
pub(crate) fn begin_with(level: LevelFilter, telemetry: Option<&Telemetry>) {
    let coloured = match anstream::ColorChoice::global() {
        anstream::ColorChoice::Auto => std::io::stderr().is_terminal(),
        choice => choice != anstream::ColorChoice::Never,
    };
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = log.with_ansi(coloured).with_target(false);
    let log = log.with_filter(Targets::new().with_default(level).with_target(TARGET, LevelFilter::OFF));
    let both = tracing_subscriber::registry().with(log).with(telemetry.map(Telemetry::layer));
    let _ = both.try_init();
}
