//! How much is taken on at once. What does not fit is refused before anything is begun, with the seconds after which it is
//! worth another try: nothing that was taken is ever dropped for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use baton_core::id::{RunId, Tenant};

use super::limits::Limits;
use super::problem::{Code, Problem};

/// Tenants whose requests are counted, beyond which those who asked for nothing lately are forgotten.
const MOST_TENANTS: usize = 10_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Admission {
    streams: Arc<Mutex<Streams>>,
    buckets: Mutex<HashMap<Tenant, Bucket>>,
}

#[derive(Debug, Default)]
struct Streams {
    all: usize,
    of_runs: HashMap<(Tenant, RunId), usize>,
    of_tenants: HashMap<Tenant, usize>,
}

/// What a tenant may still ask for: refilled as time passes, at most twice what one second gives.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl Admission {
    /// Whether one more run can be driven, or call be made, beside those that are.
    pub(crate) fn run(&self, live: u64, limits: &Limits) -> Result<(), Problem> {
        if live < limits.runs as u64 {
            return Ok(());
        }
        let detail =
            format!("this process has {live} runs and calls to see to already: try again in a moment");
        Err(Problem::new(Code::Overloaded, detail).after(1))
    }

    /// A place for one more stream of a tenant, until it is given back. Of which run is said with [`StreamPermit::of`].
    pub(crate) fn stream(&self, tenant: &Tenant, limits: &Limits) -> Result<StreamPermit, Problem> {
        let mut streams = lock(&self.streams);
        if let Some(most) = limits.streams_per_tenant
            && streams.of_tenants.get(tenant).is_some_and(|open| *open >= most)
        {
            return refused(format!("there are {most} open streams already: close one"));
        }
        streams.all += 1;
        *streams.of_tenants.entry(tenant.clone()).or_default() += 1;
        Ok(StreamPermit { streams: self.streams.clone(), tenant: tenant.clone(), run: None })
    }

    /// Whether a tenant may ask once more.
    pub(crate) fn request(&self, tenant: &Tenant, now: Instant, limits: &Limits) -> Result<(), Problem> {
        let Some(rate) = limits.requests_per_s.map(f64::from) else { return Ok(()) };
        let full = rate * 2.0;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let refilled = |it: &Bucket| (it.left + now.duration_since(it.at).as_secs_f64() * rate).min(full);
        if buckets.len() >= MOST_TENANTS && !buckets.contains_key(tenant) {
            // One that is full again says nothing.
            buckets.retain(|_, bucket| refilled(bucket) < full);
        }
        let bucket = buckets.entry(tenant.clone()).or_insert(Bucket { left: full, at: now });
        *bucket = Bucket { left: refilled(bucket), at: now };
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        let seconds = ((1.0 - bucket.left) / rate).ceil().max(1.0);
        let detail = format!("there were too many requests: {rate} a second are answered");
        Err(Problem::new(Code::RateLimited, detail).after(seconds as u64))
    }

    /// How many streams are open.
    pub(crate) fn open_streams(&self) -> usize {
        lock(&self.streams).all
    }
}

/// A place for a stream. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct StreamPermit {
    streams: Arc<Mutex<Streams>>,
    tenant: Tenant,
    run: Option<RunId>,
}

impl StreamPermit {
    /// The same as a place among the streams of one run.
    pub(crate) fn of(mut self, run: RunId, limits: &Limits) -> Result<StreamPermit, Problem> {
        let mut streams = lock(&self.streams);
        let open = streams.of_runs.entry((self.tenant.clone(), run)).or_default();
        if *open < limits.streams_per_run {
            *open += 1;
            drop(streams);
            self.run = Some(run);
            return Ok(self);
        }
        drop(streams); // before the place itself is given back
        refused(format!("this run has {} open streams already: close one", limits.streams_per_run))
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        let mut streams = lock(&self.streams);
        streams.all = streams.all.saturating_sub(1);
        give_back(&mut streams.of_tenants, &self.tenant);
        if let Some(run) = self.run {
            give_back(&mut streams.of_runs, &(self.tenant.clone(), run));
        }
    }
}

fn refused<T>(detail: String) -> Result<T, Problem> {
    Err(Problem::new(Code::RateLimited, detail).after(1))
}

fn give_back<K: std::hash::Hash + Eq>(open: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = open.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            open.remove(key);
        }
    }
}

fn lock(streams: &Mutex<Streams>) -> MutexGuard<'_, Streams> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uuid::Uuid;

    use super::*;

    fn said<T>(result: Result<T, Problem>) -> Result<(), (Code, Option<u64>)> {
        result.map(|_| ()).map_err(|problem| (problem.code, problem.retry_after))
    }

    #[test]
    fn one_run_too_many_is_told_to_come_back() {
        let limits = Limits { runs: 3, ..Limits::default() };
        let said = |live| said(Admission::default().run(live, &limits));
        assert_eq!(
            [2, 3, 4].map(said),
            [Ok(()), Err((Code::Overloaded, Some(1))), Err((Code::Overloaded, Some(1)))]
        );
    }

    #[test]
    fn streams_are_counted_by_run_and_by_tenant_and_given_back() {
        let admission = Admission::default();
        let limits = Limits { streams_per_run: 2, streams_per_tenant: Some(3), ..Limits::default() };
        let run = |n| RunId(Uuid::from_u128(n));
        let (a, b): (Tenant, Tenant) = ("a".parse().unwrap(), "b".parse().unwrap());
        let open = |tenant: &Tenant, n| admission.stream(tenant, &limits)?.of(run(n), &limits);
        let refused = Err((Code::RateLimited, Some(1)));
        let first = open(&a, 1).unwrap();
        let _second = open(&a, 1).unwrap();
        assert_eq!(said(open(&a, 1)), refused);
        let _third = open(&a, 2).unwrap();
        assert_eq!(said(open(&a, 3)), refused);
        let _others = open(&b, 1).unwrap();
        assert_eq!(admission.open_streams(), 4);
        drop(first);
        assert_eq!((said(open(&a, 3)), admission.open_streams()), (Ok(()), 3));
        let unlimited = Limits { streams_per_tenant: None, ..limits.clone() };
        let one = |n| admission.stream(&a, &unlimited)?.of(run(n), &unlimited);
        let many: Result<Vec<_>, _> = (10..500).map(one).collect();
        drop(many.unwrap());
        assert_eq!(admission.open_streams(), 3);
    }

    #[test]
    fn a_place_that_was_kept_counts_before_its_run_is_known() {
        let admission = Admission::default();
        let limits = Limits { streams_per_run: 1, streams_per_tenant: Some(2), ..Limits::default() };
        let (tenant, run): (Tenant, _) = ("a".parse().unwrap(), RunId(Uuid::from_u128(1)));
        let refused = Err((Code::RateLimited, Some(1)));
        let kept = admission.stream(&tenant, &limits).unwrap();
        let first = admission.stream(&tenant, &limits).unwrap().of(run, &limits).unwrap();
        assert_eq!(said(admission.stream(&tenant, &limits)), refused);
        assert_eq!((said(kept.of(run, &limits)), admission.open_streams()), (refused, 1));
        drop(first);
        assert_eq!((admission.open_streams(), lock(&admission.streams).of_runs.len()), (0, 0));
    }

    #[test]
    fn a_tenant_may_ask_so_often_and_no_more() {
        let admission = Admission::default();
        let limits = Limits { requests_per_s: Some(2), ..Limits::default() };
        let began = Instant::now();
        let (a, b): (Tenant, Tenant) = ("a".parse().unwrap(), "b".parse().unwrap());
        let ask =
            |tenant: &Tenant, ms| said(admission.request(tenant, began + Duration::from_millis(ms), &limits));
        let refused = Err((Code::RateLimited, Some(1)));
        assert_eq!([0, 0, 0, 0, 0].map(|ms| ask(&a, ms)), [Ok(()), Ok(()), Ok(()), Ok(()), refused]);
        assert_eq!(ask(&b, 0), Ok(()));
        assert_eq!([400, 500, 501, 60_000].map(|ms| ask(&a, ms)), [refused, Ok(()), refused, Ok(())]);
        let free = Limits::default();
        assert!((0..10_000).all(|_| admission.request(&a, began, &free).is_ok()));
    }
}
