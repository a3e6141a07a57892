//! Seals the audit chain, adds tool calls to it, and keeps the outbox within bounds.
//!
//! Every process tries; the store lets one do it at a time. The events of a busy process are sealed within a moment; an
//! idle one looks for events seldom. Tool calls are added when nothing else happens, and for a process that is never
//! idle after [`CALLS_EVERY`].

use std::time::Duration;

use baton_core::time::Timestamp;
use baton_engine::{Clock, Engine, SystemClock};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::wait;

/// How soon written events are sealed, and how seldom they are looked for where none are written.
const SOON: Duration = Duration::from_millis(250);
const SELDOM: Duration = Duration::from_secs(2);
/// How often tool calls are added at the least: for processes that are never idle, and for those that are gone.
const CALLS_EVERY: Duration = Duration::from_secs(20);
/// How often the outbox is checked for events that wait for too long, or are too many.
const TRIM_EVERY: Duration = Duration::from_secs(60);
/// How long events wait for a service that does not take them, and how many bytes of them are kept.
const KEPT_MS: i64 = 7 * 24 * 60 * 60 * 1000;
const KEPT_BYTES: u64 = 1 << 30;

/// Seals, adds tool calls and trims until the process ends, and then adds and seals the rest.
pub(super) async fn keep(engine: Engine, closing: CancellationToken) {
    let mut pause = SOON;
    let (mut trim_at, mut calls_at, mut has_news) = (Instant::now(), Instant::now(), false);
    loop {
        pause = match engine.seal_trail().await {
            Ok(0) => (pause * 2).min(SELDOM),
            Ok(_) => {
                has_news = true;
                SOON
            }
            Err(error) => {
                tracing::debug!(%error, "the audit trail was not sealed");
                SELDOM
            }
        };
        let is_quiet = has_news && pause != SOON;
        if is_quiet || Instant::now() >= calls_at {
            (has_news, calls_at) = (false, Instant::now() + CALLS_EVERY);
            tell_calls(&engine).await;
        }
        if Instant::now() >= trim_at {
            trim_at = Instant::now() + TRIM_EVERY;
            trim(&engine).await;
        }
        if !wait(pause, &closing).await {
            break;
        }
    }
    tell_calls(&engine).await;
}

async fn tell_calls(engine: &Engine) {
    if let Err(error) = engine.tell_calls().await {
        tracing::debug!(%error, "the audit trail was not told of tool calls");
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
