//! Sealing the chain of what happened, and keeping the outbox within bounds.
//!
//! Every process tries; the store lets one do it at a time. Behind a busy process the chain follows within a moment,
//! and behind an idle one it is looked for seldom.

use std::time::Duration;

use baton_core::time::Timestamp;
use baton_engine::{Clock, Engine, SystemClock};
use baton_store::StoreError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::wait;

/// The most events that are sealed at once.
const BATCH: u32 = 500;
/// How soon what was written is sealed, and how seldom it is looked for where nothing is written.
const SOON: Duration = Duration::from_millis(250);
const SELDOM: Duration = Duration::from_secs(2);
/// How often it is looked whether events wait for too long, or are too many.
const TRIM_EVERY: Duration = Duration::from_secs(60);
/// How long events wait for a service that does not take them, and how much of them is kept.
const KEPT_MS: i64 = 7 * 24 * 60 * 60 * 1000;
const KEPT_BYTES: u64 = 1 << 30;

/// Seals and trims until the process ends, and then seals what is left.
pub(super) async fn keep(engine: Engine, closing: CancellationToken) {
    let mut pause = SOON;
    let mut trim_at = Instant::now();
    loop {
        pause = match seal(&engine).await {
            Ok(0) => (pause * 2).min(SELDOM),
            Ok(_) => SOON,
            Err(error) => {
                tracing::debug!(%error, "the audit trail was not sealed");
                SELDOM
            }
        };
        if Instant::now() >= trim_at {
            trim_at = Instant::now() + TRIM_EVERY;
            trim(&engine).await;
        }
        if !wait(pause, &closing).await {
            break;
        }
    }
    if let Err(error) = seal(&engine).await {
        tracing::debug!(%error, "the audit trail was not sealed");
    }
}

/// Seals all that there is; answers how much.
pub(crate) async fn seal(engine: &Engine) -> Result<u64, StoreError> {
    let mut count = 0;
    loop {
        let sealed = engine.store().seal(BATCH).await?;
        count += sealed;
        if sealed < u64::from(BATCH) {
            return Ok(count);
        }
    }
}

async fn trim(engine: &Engine) {
    let now = SystemClock.now();
    match engine.store().trim_outbox(Timestamp(now.0 - KEPT_MS), KEPT_BYTES, now).await {
        Ok(0) => {}
        Ok(dropped) => {
            tracing::warn!(dropped, "events waited for the context service for too long, and were dropped");
        }
        Err(error) => tracing::debug!(%error, "the outbox was not trimmed"),
    }
}
