//! Disk space of the data folder, and which tenants may still write when it runs low.
//!
//! While there is space no tenant is limited. Once less than `serve.low_space_mb` is free, tenants have equal shares of
//! half of that, counted by the bodies that they send; the other half is for the runs that are under way. So a tenant
//! that fills the disk is stopped before the others are, and every tenant can still read, cancel, decide and delete.
//! The counts are forgotten as soon as there is space again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, header};
use baton_core::id::Tenant;
use baton_store::Store;

use super::problem::{Problem, ProblemCode};
use crate::app::App;

/// How long one reading of the free space is reused.
const FRESH: Duration = Duration::from_secs(1);
/// The approximate cost of a request beside its body: the pages of a run's first and last transition.
const OVERHEAD: u64 = 64 << 10;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Space(Mutex<SpaceState>);

#[derive(Debug, Default)]
struct SpaceState {
    looked: Option<Instant>,
    is_low: bool,
    /// The bytes that each tenant has written since the space ran low.
    written: HashMap<Tenant, u64>,
}

impl Space {
    /// Whether a tenant may write this many bytes; `tenants` is how many share the space.
    pub(crate) fn admit(
        &self,
        tenant: &Tenant,
        bytes: u64,
        tenants: impl FnOnce() -> usize,
        limit: u64,
        free: impl FnOnce() -> Option<u64>,
        now: Instant,
    ) -> Result<(), Problem> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.looked.is_none_or(|at| now.duration_since(at) >= FRESH) {
            (state.looked, state.is_low) = (Some(now), free().is_some_and(|free| free < limit));
        }
        if !state.is_low {
            state.written.clear();
            return Ok(());
        }
        let share = limit / 2 / (tenants().max(1) as u64);
        let written = state.written.entry(tenant.clone()).or_default();
        let more = written.saturating_add(bytes).saturating_add(OVERHEAD);
        if more <= share {
            *written = more;
            return Ok(());
        }
        let detail = "the disk is almost full, and this tenant has written its share of what is left: delete threads, or ask the operator to make room";
        Err(Problem::new(ProblemCode::Overloaded, detail).after(30))
    }
}

/// The free bytes on the disk of the data folder, if the store is there.
pub(crate) fn free(app: &App) -> Option<u64> {
    if !matches!(app.store(), Store::Sqlite(_)) {
        return None;
    }
    let space = rustix::fs::statvfs(&app.config.data).ok()?;
    Some(space.f_bavail.saturating_mul(space.f_frsize))
}

/// How many bytes a request may add to the store; none if it ends or frees something.
pub(crate) fn added(request: &Request<Body>, most: usize) -> Option<u64> {
    if !matches!(*request.method(), Method::POST | Method::PUT) {
        return None;
    }
    let path = request.uri().path();
    let frees = path.ends_with("/cancel") || path.ends_with("/prune") || path.contains("/approvals/");
    let length =
        request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    // A body in chunks states no length, and counts as the longest.
    (!frees).then(|| length.unwrap_or(most as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 256 << 20;
    const MIB: u64 = 1 << 20;

    fn tenant(name: &str) -> Tenant {
        name.parse().unwrap()
    }

    /// How many requests of a MiB a tenant gets through, one of two tenants, with this many free bytes.
    fn gets(space: &Space, name: &str, free: u64, now: Instant) -> usize {
        let admit = || space.admit(&tenant(name), MIB, || 2, LIMIT, || Some(free), now);
        (0..1000).take_while(|_| admit().is_ok()).count()
    }

    #[test]
    fn who_fills_the_disk_is_stopped_before_the_others_and_goes_on_when_there_is_room() {
        let (space, mut now) = (Space::default(), Instant::now());
        assert_eq!(gets(&space, "a", LIMIT, now), 1000, "there is room");
        now += FRESH;
        // A share is 64 MiB, and a request costs a little beside its body.
        assert_eq!(gets(&space, "a", LIMIT - 1, now), 60);
        assert_eq!(gets(&space, "a", LIMIT - 1, now + FRESH), 0);
        assert_eq!(gets(&space, "b", LIMIT - 1, now + FRESH), 60, "the other has its share");
        let refused = space.admit(&tenant("a"), MIB, || 2, LIMIT, || Some(0), now).unwrap_err();
        assert_eq!((refused.code, refused.retry_after), (ProblemCode::Overloaded, Some(30)));
        now += FRESH * 2;
        assert_eq!(gets(&space, "a", LIMIT, now), 1000, "there is room again");
        assert_eq!(gets(&space, "a", LIMIT - 1, now + FRESH), 60, "and it is counted anew");
    }

    #[test]
    fn a_disk_that_is_not_looked_at_holds_nobody() {
        let space = Space::default();
        let admit = || space.admit(&tenant("a"), LIMIT, || 1, LIMIT, || None, Instant::now());
        assert!((0..100).all(|_| admit().is_ok()));
    }

    #[test]
    fn what_ends_or_frees_something_costs_nothing() {
        let added = |method: &str, path: &str, length: Option<&str>| {
            let mut request = axum::http::Request::builder().method(method).uri(path);
            if let Some(length) = length {
                request = request.header("content-length", length);
            }
            added(&request.body(Body::empty()).unwrap(), 1000)
        };
        for (method, path) in [
            ("GET", "/v1/runs"),
            ("DELETE", "/v1/threads/t"),
            ("POST", "/v1/runs/r/cancel"),
            ("POST", "/v1/runs/r/approvals/a"),
            ("POST", "/v1/threads/t/prune"),
        ] {
            assert_eq!(added(method, path, Some("7")), None, "{method} {path}");
        }
        assert_eq!(added("POST", "/events", Some("7")), Some(7));
        assert_eq!(added("PUT", "/v1/agents/a", None), Some(1000), "a body in chunks may be as long as any");
        assert_eq!(added("POST", "/v1/runs", Some("many")), Some(1000));
    }
}
