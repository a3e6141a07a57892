//! `baton doctor`: checks this installation, and prints a fix for each problem.
//!
//! Like every command it creates the data folder if there is none, and changes nothing else. It does not need an app:
//! the reasons why one does not open are what it has to find.

mod agent;
mod checks;
mod providers;
mod services;
mod web;

use std::borrow::Cow;

use baton_core::tool::ToolSpec;
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::cli::Globals;
use crate::config::{Config, ConfigWarning, ResolvedConfig};
use crate::failure::{Failure, exit};
use crate::models::Models;
use crate::terminal::{BAD, CARE, GOOD, line, styled};

const EXAMPLES: &str = "\
Examples:
  baton doctor
  baton doctor --json      one document; exit code 1 if a check fails";

/// The arguments of `baton doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DoctorArgs {}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum CheckState {
    Ok,
    Warning,
    Failed,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Check {
    name: Cow<'static, str>,
    state: CheckState,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

impl Check {
    fn ok(name: impl Into<Cow<'static, str>>, detail: impl Into<String>) -> Check {
        Check { name: name.into(), state: CheckState::Ok, detail: detail.into(), fix: None }
    }

    fn warning(
        name: impl Into<Cow<'static, str>>,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Check {
        Check { name: name.into(), state: CheckState::Warning, detail: detail.into(), fix: Some(fix.into()) }
    }

    fn failed(
        name: impl Into<Cow<'static, str>>,
        detail: impl Into<String>,
        fix: impl Into<String>,
    ) -> Check {
        Check { name: name.into(), state: CheckState::Failed, detail: detail.into(), fix: Some(fix.into()) }
    }

    /// A failed check, from the failure with which a command would have refused to begin.
    fn refused(name: impl Into<Cow<'static, str>>, failure: Failure) -> Check {
        let otherwise = || "correct that line, or name another file with --config".to_owned();
        Check::failed(name, failure.message, failure.hint.unwrap_or_else(otherwise))
    }
}

/// Runs the command.
pub(crate) async fn run(globals: &Globals, _args: DoctorArgs) -> Result<u8, Failure> {
    let checks = examine(globals).await;
    let failed = checks.iter().any(|check| check.state == CheckState::Failed);
    if globals.json {
        line(format!("{:#}", json!({"ok": !failed, "checks": checks})))?;
    } else {
        let widest = checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
        checks.iter().try_for_each(|check| show(check, widest))?;
    }
    Ok(if failed { exit::FAILED } else { exit::OK })
}

async fn examine(globals: &Globals) -> Vec<Check> {
    let mut checks = vec![Check::ok("version", format!("baton {}", env!("CARGO_PKG_VERSION")))];
    let resolved = match ResolvedConfig::find(globals, None) {
        Ok(resolved) => resolved,
        Err(failure) => {
            checks.push(Check::refused("configuration", failure));
            return checks;
        }
    };
    checks.push(checks::configuration(&resolved));
    let config = match Config::new(&resolved) {
        Ok(config) => config,
        Err(failure) => {
            checks.push(Check::refused("settings", failure));
            return checks;
        }
    };
    let doubt = |doubt: ConfigWarning| Check::warning("roles", doubt.what, doubt.fix);
    checks.extend(resolved.doubts().into_iter().map(doubt));
    let models = Models::new(&config);
    checks.extend(providers::checks(&models).await);
    checks.extend(agent::open_keys(&models, &config.web));
    checks.extend(web::checks(&config.web).await);
    let store = checks::store(&config).await;
    checks.extend(services::checks(&config, store.as_ref().ok().map(|(store, _)| store)).await);
    checks.push(checks::folder(&config));
    checks.push(checks::space(&config));
    match store {
        Ok((store, check)) => {
            checks.push(check);
            checks.push(checks::service(&config, &store).await);
            let agent = |tools: &[ToolSpec]| agent::checks(&resolved, &config, &models, tools);
            checks.extend(checks::tools_and_runs(&config, &store, agent).await);
        }
        Err(check) => checks.push(check),
    }
    checks
}

fn show(check: &Check, widest: usize) -> std::io::Result<()> {
    let mark = match check.state {
        CheckState::Ok => styled(GOOD, "ok  "),
        CheckState::Warning => styled(CARE, "note"),
        CheckState::Failed => styled(BAD, "fail"),
    };
    line(format!("{mark}  {:<widest$}  {}", check.name, check.detail))?;
    match &check.fix {
        Some(fix) => line(format!("      {:<widest$}  {fix}", "")),
        None => Ok(()),
    }
}
