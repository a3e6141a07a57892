//! The log of this process: to standard error, and never to standard output.
//!
//! Lines for people, or one JSON object per line with fixed names. Other crates are logged no closer than `info`: their
//! messages below that may hold headers, statements and their values, and with them secrets.

mod json;

use std::io::IsTerminal;

use baton_engine::spans::TARGET;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::Color;
use crate::telemetry::Telemetry;

/// The format of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// The settings of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logging {
    /// The least important level that is logged.
    pub(crate) level: LevelFilter,
    /// Whether the user chose the level.
    pub(crate) is_stated: bool,
    /// The format; absent: the one that suits the command.
    pub(crate) format: Option<Format>,
}

impl Logging {
    /// The settings of a service that states none: more than a command logs, and for programs unless a person looks.
    pub(crate) fn of_a_service(self) -> Logging {
        let usual = if std::io::stderr().is_terminal() { Format::Text } else { Format::Json };
        Logging {
            level: if self.is_stated { self.level } else { LevelFilter::INFO },
            format: self.format.or(Some(usual)),
            ..self
        }
    }
}

/// Sets the colours of the log and of all other output.
pub(crate) fn colours(choice: Color) {
    let choice = match choice {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    };
    choice.write_global();
}

/// Starts the log. A second call changes nothing.
pub(crate) fn begin(logging: Logging) {
    begin_with(logging, None);
}

/// The same, with a layer for telemetry if it is on.
///
/// The spans of runs are for telemetry alone. Where that is off they are disabled, and cost nothing.
pub(crate) fn begin_with(logging: Logging, telemetry: Option<&Telemetry>) {
    let coloured = match anstream::ColorChoice::global() {
        anstream::ColorChoice::Auto => std::io::stderr().is_terminal(),
        choice => choice != anstream::ColorChoice::Never,
    };
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match logging.format {
        Some(Format::Json) => log.with_ansi(false).event_format(json::JsonLines).boxed(),
        _ => log.with_ansi(coloured).with_target(false).boxed(),
    };
    let (heard, registry) = (heard(logging.level), tracing_subscriber::registry());
    let _ = match telemetry {
        // A per-layer filter keeps its last decision per thread, and a span that no layer wants can make it swallow the
        // next line. So there are such filters only where there are two layers.
        None => registry.with(log).with(heard).try_init(),
        Some(telemetry) => registry.with(log.with_filter(heard)).with(telemetry.layer()).try_init(),
    };
}

/// The level of each target.
fn heard(level: LevelFilter) -> Targets {
    let others = level.min(LevelFilter::INFO);
    Targets::new().with_default(others).with_target("baton", level).with_target(TARGET, LevelFilter::OFF)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn others_are_never_heard_closely_enough_to_hear_a_secret() {
        let heard = heard(LevelFilter::TRACE);
        let told = ["baton_engine::driver", "baton::serve", "hyper::proto", "tokio_postgres::query", TARGET]
            .map(|target| {
                (heard.would_enable(target, &Level::TRACE), heard.would_enable(target, &Level::INFO))
            });
        assert_eq!(told, [(true, true), (true, true), (false, true), (false, true), (false, false)]);
        let quiet = super::heard(LevelFilter::WARN);
        assert!(
            !quiet.would_enable("hyper::proto", &Level::INFO) && quiet.would_enable("hyper", &Level::WARN)
        );
    }

    #[test]
    fn a_service_says_more_unless_somebody_said_otherwise() {
        let silent = Logging { level: LevelFilter::WARN, is_stated: false, format: Some(Format::Text) };
        let stated = Logging { is_stated: true, ..silent };
        assert_eq!(silent.of_a_service(), Logging { level: LevelFilter::INFO, ..silent });
        assert_eq!(stated.of_a_service(), stated);
    }
}
