//! The log of this process: to standard error, and never to standard output.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;

use crate::cli::Color;

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
    let coloured = match anstream::ColorChoice::global() {
        anstream::ColorChoice::Auto => std::io::stderr().is_terminal(),
        choice => choice != anstream::ColorChoice::Never,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    let _ = log.with_ansi(coloured).with_target(false).try_init();
}
