//! Retention: removes runs that ended long ago, long outputs that nothing names, threads past their time, and expired
//! keys.
//!
//! `baton gc` does it at once; a service does it beside its runs ([`begin`]). Of the processes on one store the first
//! does it, and the others skip that turn. The store removes in small writes and checks again before each, so no run
//! waits for this, none fails because of it, and an interrupted one has removed whole things only. A failure is logged,
//! and tried again the next time.

use std::time::Duration;

use baton_core::id::Tenant;
use baton_core::time::Timestamp;
use baton_engine::{Clock, Engine, EngineError, SystemClock};
use baton_store::{Collected, GcRequest, NewKey};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::config::Retention;

/// The row that names the process of this turn.
const ROUTE: &str = "retention";
const KEY: &str = "turn";

/// The request to remove everything that is too old at a moment.
pub(crate) fn request(retention: &Retention, now: Timestamp, dry_run: bool) -> GcRequest {
    GcRequest {
        now,
        runs_before: retention.runs.map(|age| before(now, age)),
        blobs_before: Some(before(now, retention.blobs)),
        dry_run,
    }
}

fn before(now: Timestamp, age: Duration) -> Timestamp {
    Timestamp(now.0.saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)))
}

/// Removes now, and from then on as often as the settings say, until the process ends.
pub(crate) fn begin(app: &App, closing: CancellationToken) -> JoinHandle<()> {
    let (engine, retention) = (app.engine.clone(), app.config.retention.clone());
    let keeping = async move {
        loop {
            match turn(&engine, &retention).await {
                Ok(None) => {}
                Ok(Some(gone)) if gone == Collected::default() => tracing::debug!("nothing has had its time"),
                Ok(Some(gone)) => {
                    let Collected { threads, runs, blobs, blob_bytes, keys } = gone;
                    tracing::info!(threads, runs, blobs, blob_bytes, keys, "what has had its time is gone");
                }
                Err(error) => tracing::warn!(%error, "what has had its time was not thrown away"),
            }
            tokio::time::sleep(retention.every).await;
        }
    };
    tokio::spawn(async move {
        closing.run_until_cancelled(keeping).await;
    })
}

/// Removes, unless another process has taken this turn.
async fn turn(engine: &Engine, retention: &Retention) -> Result<Option<Collected>, EngineError> {
    let (store, now) = (engine.store(), SystemClock.now());
    let until = now.plus_ms(u64::try_from(retention.every.as_millis()).unwrap_or(u64::MAX));
    let (route, key, body_hash) = (ROUTE.to_owned(), KEY.to_owned(), String::new());
    let new = NewKey { route, key, body_hash, expires_at: until };
    if store.begin_key(&Tenant::local(), &new, None, Some(engine.owner()), now).await?.is_some() {
        return Ok(None);
    }
    engine.collect(&request(retention, now, false), "retention").await.map(Some)
}

#[cfg(test)]
mod tests;
