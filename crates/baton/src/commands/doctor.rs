//! `baton doctor`: looks for what is wrong with this installation, and says what helps.
//!
//! It changes nothing but what every command changes: the data folder is made if it is not there. It does
//! not need an app, because what keeps one from opening is what it is there to find.

mod checks;

use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::cli::Globals;
use crate::config::{Config, Settled};
use crate::failure::{Failure, exit};
use crate::terminal::{BAD, CARE, GOOD, line, styled};

const EXAMPLES: &str = "\
Examples:
  baton doctor
  baton doctor --json      one document; exit code 1 if a check fails";

/// The arguments of `baton doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    Warning,
    Failed,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Check {
    fn ok(name: &'static str, detail: impl Into<String>) -> Check {
        Check { name, state: State::Ok, detail: detail.into(), fix: None }
    }

    fn warning(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { name, state: State::Warning, detail: detail.into(), fix: Some(fix.into()) }
    }

    fn failed(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Check {
        Check { name, state: State::Failed, detail: detail.into(), fix: Some(fix.into()) }
    }
}

/// Runs the command.
pub(crate) async fn run(globals: &Globals, _args: DoctorArgs) -> Result<u8, Failure> {
    let checks = examine(globals).await;
    let failed = checks.iter().any(|check| check.state == State::Failed);
    if globals.json {
        line(format!("{:#}", json!({"ok": !failed, "checks": checks})))?;
    } else {
        checks.iter().try_for_each(show)?;
    }
    Ok(if failed { exit::FAILED } else { exit::OK })
}

async fn examine(globals: &Globals) -> Vec<Check> {
    let mut checks = vec![Check::ok("version", format!("baton {}", env!("CARGO_PKG_VERSION")))];
    let settled = match Settled::find(globals, None) {
        Ok(settled) => settled,
        Err(failure) => {
            let fix = failure
                .hint
                .unwrap_or_else(|| "correct that line, or name another file with --config".to_owned());
            checks.push(Check::failed("configuration", failure.message, fix));
            return checks;
        }
    };
    let config = Config::from(&settled);
    checks.push(checks::configuration(&settled));
    checks.push(checks::model(&settled));
    let store = checks::store(&config);
    checks.push(checks::folder(&config));
    checks.push(checks::space(&config));
    match store {
        Ok((store, check)) => {
            checks.push(check);
            checks.extend(checks::tools_and_runs(&store).await);
        }
        Err(check) => checks.push(check),
    }
    checks
}

fn show(check: &Check) -> std::io::Result<()> {
    let mark = match check.state {
        State::Ok => styled(GOOD, "ok  "),
        State::Warning => styled(CARE, "note"),
        State::Failed => styled(BAD, "fail"),
    };
    line(format!("{mark}  {:<14} {}", check.name, check.detail))?;
    match &check.fix {
        Some(fix) => line(format!("                      {fix}")),
        None => Ok(()),
    }
}
