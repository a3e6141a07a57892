//! The log of this process: to standard error, and never to standard output.
//!
//! As lines for people, or as one JSON object a line with fixed names. Other people's crates are heard no closer than
//! `info`: what they say below that may hold headers, statements and their values, and with them secrets.

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

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// What is logged, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Logging {
    /// What is logged.
    pub(crate) level: LevelFilter,
    /// Whether somebody said so.
    pub(crate) is_stated: bool,
    /// How; absent: whatever suits the command.
    pub(crate) format: Option<Format>,
}

impl Logging {
    /// What suits a service, where nothing is said: more than a command says, and for programs unless a person looks.
    pub(crate) fn of_a_service(self) -> Logging {
        let usual = if std::io::stderr().is_terminal() { Format::Text } else { Format::Json };
        Logging {
            level: if self.is_stated { self.level } else { LevelFilter::INFO },
            format: self.format.or(Some(usual)),
            ..self
        }
    }
}

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
pub(crate) fn begin(logging: Logging) {
    begin_with(logging, None);
}

/// The same, and lets telemetry listen, too, if it is on.
///
/// The spans of runs are for telemetry alone. Where that is off nobody wants them, and they cost nothing.
pub(crate) fn begin_with(logging: Logging, telemetry: Option<&Telemetry>) {
    let coloured = match anstream::ColorChoice::global() {
        anstream::ColorChoice::Auto => std::io::stderr().is_terminal(),
        choice => choice != anstream::ColorChoice::Never,
    };
    let log = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match logging.format {
        Some(Format::Json) => log.with_ansi(false).event_format(json::Lines).boxed(),
        _ => log.with_ansi(coloured).with_target(false).boxed(),
    };
    let (heard, registry) = (heard(logging.level), tracing_subscriber::registry());
    let _ = match telemetry {
        // A filter of one layer alone remembers for each thread what it said last, and a span that nobody wants can make it
        // swallow the next line. So there is one only where there are two who listen.
        None => registry.with(log).with(heard).try_init(),
        Some(telemetry) => registry.with(log.with_filter(heard)).with(telemetry.layer()).try_init(),
    };
}

/// Who is heard how closely.
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
