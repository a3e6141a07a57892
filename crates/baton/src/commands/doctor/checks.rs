//! The doctor's checks of the configuration, the data, the service, the tools and the runs.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use baton_core::flow::{Flow, Setting};
use baton_core::id::{FramePath, RunId, Tenant};
use baton_core::run::RUN_VERSION;
use baton_core::tool::ToolSpec;
use baton_engine::{Clock, SystemClock};
use baton_store::{Store, sqlite_version};
use baton_tools::{CallContext, Registry};
use serde_json::json;

use super::Check;
use crate::columns::count;
use crate::config::{Config, ResolvedConfig, ValueOrigin};
use crate::open;
use crate::serve::auth::{Auth, exposure};

/// With less free space than this, nothing can be relied on.
const TOO_LITTLE: u64 = 64 << 20;
/// With less free space than this, the user should know.
const LITTLE: u64 = 1 << 30;

pub(super) fn configuration(resolved: &ResolvedConfig) -> Check {
    let file = resolved.config_file();
    if file.exists() {
        let fixed = resolved.fixed.iter().map(|found| &found.origin);
        let stated = resolved.groups.iter().flat_map(|group| &group.values).map(|stated| &stated.origin);
        let settings = fixed.chain(stated).filter(|origin| matches!(origin, ValueOrigin::File(..))).count();
        let settings = count(i64::try_from(settings).unwrap_or(i64::MAX), "setting", "settings");
        return Check::ok("configuration", format!("{} ({settings})", file.display()));
    }
    Check::ok("configuration", format!("no file at {}; baton init writes one", file.display()))
}

pub(super) async fn store(config: &Config) -> Result<(Store, Check), Check> {
    match open::store(config).await {
        Ok(store) => {
            let detail = match &config.store.url {
                Some(url) => format!("{} answers", url.shown()),
                None => {
                    format!("{} opens; SQLite {}", config.data.join("baton.db").display(), sqlite_version())
                }
            };
            Ok((store, Check::ok("store", detail)))
        }
        Err(failure) => Err(Check::failed("store", failure.message, failure.hint.unwrap_or_default())),
    }
}

pub(super) fn folder(config: &Config) -> Check {
    let shown = config.data.display();
    let metadata = match std::fs::metadata(&config.data) {
        Ok(metadata) => metadata,
        Err(error) => {
            let fix = "name a folder that you can write to with --data or BATON_DATA";
            return Check::failed("data folder", format!("{shown}: {error}"), fix);
        }
    };
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let detail = format!("{shown} can be read by others (mode {mode:o})");
        return Check::failed("data folder", detail, format!("chmod 700 {shown}"));
    }
    Check::ok("data folder", format!("{shown} (mode {mode:o})"))
}

pub(super) fn space(config: &Config) -> Check {
    let free = match rustix::fs::statvfs(&config.data) {
        Ok(space) => space.f_bavail.saturating_mul(space.f_frsize),
        Err(error) => {
            return Check::warning("disk space", error.to_string(), "look at the data folder's disk");
        }
    };
    let detail = format!("{} MiB free", free >> 20);
    let fix = "make room, or move the data with --data or BATON_DATA";
    match free {
        0..TOO_LITTLE => Check::failed("disk space", detail, fix),
        TOO_LITTLE..LITTLE => Check::warning("disk space", detail, fix),
        _ => Check::ok("disk space", detail),
    }
}

/// Whether the service needs a token, and whether it can be reached from elsewhere without one.
pub(super) async fn service(config: &Config, store: &Store) -> Check {
    let setting = &config.serve;
    let fixed = match exposure::fixed_tokens(setting) {
        Ok(fixed) => fixed,
        Err(failure) => return Check::refused("service", failure),
    };
    let auth = Auth::new(store.clone(), fixed);
    if let Err(error) = auth.refresh().await {
        return Check::failed("service", error.to_string(), "the check of the store says more");
    }
    let detail = exposure::summary(auth.is_open(), auth.count());
    match exposure::reachable(setting).filter(|_| auth.is_open()) {
        Some(why) => {
            let detail =
                format!("{why}, and there is no token that keeps them out: baton serve does not begin");
            Check::failed("service", detail, exposure::FIX)
        }
        None if !auth.is_open() && auth.count() == 0 => Check::warning(
            "service",
            detail,
            "or baton tokens reopen, which lets everybody on this machine in",
        ),
        None => Check::ok("service", detail),
    }
}

/// The checks of the tools, of the agent that is offered them (`agent` makes those), and of the runs that need them.
pub(super) async fn tools_and_runs(
    config: &Config,
    store: &Store,
    agent: impl Fn(&[ToolSpec]) -> Vec<Check>,
) -> Vec<Check> {
    let tenant = Tenant::local();
    match open::registry(store, config, cfg!(feature = "failpoints")) {
        Ok(tools) => {
            let mut checks = agent(&tools.specs());
            checks.extend([logs(&tools).await, runs(store, &tenant, &tools).await]);
            checks
        }
        Err(failure) => {
            let otherwise = || "run Baton in a folder that it can read".to_owned();
            vec![Check::failed("tools", failure.message, failure.hint.unwrap_or_else(otherwise))]
        }
    }
}

async fn logs(tools: &Registry) -> Check {
    let cancel = tokio_util::sync::CancellationToken::new();
    let (call_id, key, roots) = ("doctor".to_owned(), "doctor".to_owned(), Vec::new());
    let context = CallContext {
        call_id,
        key,
        cancel,
        roots,
        tenant: Tenant::local(),
        metadata: serde_json::Value::Null,
        permit: Default::default(),
    };
    let ran = tools.call("system_logs", json!({"limit": 1}), context).await;
    let result = ran.outcome.result;
    if result["available"] == json!(true) {
        return Check::ok("system log", "can be read");
    }
    let detail = result["note"].as_str().unwrap_or("cannot be read").to_owned();
    Check::warning(
        "system log",
        detail,
        "only the tool system_logs needs it; on Linux it reads systemd's journal, with journalctl",
    )
}

/// Checks for runs that are due and have no owner, with the reason where this build cannot drive them.
async fn runs(store: &Store, tenant: &Tenant, tools: &Registry) -> Check {
    let due = match store.due(SystemClock.now()).await {
        Ok(due) => due,
        Err(error) => return Check::failed("runs", error.to_string(), "baton runs ls shows what there is"),
    };
    let mut left = Vec::new();
    let mut unclaimable = Vec::new();
    for run in due.into_iter().filter(|(whose, _)| whose == tenant).map(|(_, run)| run) {
        match cannot_claim(store, tenant, tools, run).await {
            Some(why) => unclaimable.push(format!("{} ({why})", run.short())),
            None => left.push(run.short()),
        }
    }
    if !unclaimable.is_empty() {
        let detail = format!("this build cannot go on with: {}", unclaimable.join(", "));
        return Check::failed(
            "runs",
            detail,
            "use the Baton that began them, or end them with baton runs cancel ID",
        );
    }
    match left.as_slice() {
        [] => Check::ok("runs", "every unfinished run is driven, or waits for somebody"),
        [first, ..] => {
            let fix = format!("baton runs resume {first} goes on with it; baton chat takes up all of them");
            Check::warning("runs", format!("nobody drives: {}", left.join(", ")), fix)
        }
    }
}

async fn cannot_claim(store: &Store, tenant: &Tenant, tools: &Registry, run: RunId) -> Option<String> {
    let row = match store.run(tenant, run).await {
        Ok(row) => row,
        Err(error) => return Some(error.to_string()),
    };
    if row.min_version > RUN_VERSION {
        return Some(format!("it needs version {}, this build knows {RUN_VERSION}", row.min_version));
    }
    let definition = match store.definition(tenant, &row.definition).await {
        Ok(definition) => Arc::new(definition),
        Err(error) => return Some(error.to_string()),
    };
    let missing: Vec<&str> = definition
        .tools
        .iter()
        .map(|tool| tool.name.as_str())
        .filter(|name| tools.get(name).is_none())
        .collect();
    if !missing.is_empty() {
        return Some(format!("its tools are not here: {}", missing.join(", ")));
    }
    let setting = Setting { run, path: FramePath::root(), definition };
    Flow::begin(setting).err().map(|error| error.to_string())
}
