//! Admission: how many runs, streams and requests are accepted at once. A request over a limit is refused before
//! anything begins, with the seconds after which to retry; nothing that was accepted is ever dropped to make room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_core::id::{RunId, Tenant};
use baton_engine::Load;

use super::limits::ServeLimits;
use super::problem::{Problem, ProblemCode};

/// The most tenants whose requests are counted; above it, tenants whose bucket is full again are forgotten.
const MOST_TENANTS: usize = 10_000;

/// How long a refused tenant counts as waiting; the refusal says to retry after one second.
const WAITS: Duration = Duration::from_secs(3);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct AdmissionGate {
    runs: Arc<Mutex<Runs>>,
    streams: Arc<Mutex<Streams>>,
    buckets: Mutex<HashMap<Tenant, Bucket>>,
}

/// Runs that were admitted but are not driven yet, and the tenants that wait for a place.
#[derive(Debug, Default)]
struct Runs {
    beginning: HashMap<Tenant, u64>,
    /// Tenants that were refused although they had less than their share.
    waiting: HashMap<Tenant, WaitingTenant>,
}

#[derive(Debug, Clone, Copy)]
struct WaitingTenant {
    at: Instant,
    /// Whether it has no run at all, and is therefore not counted among the tenants that have some.
    has_none: bool,
}

#[derive(Debug, Default)]
struct Streams {
    all: usize,
    of_runs: HashMap<(Tenant, RunId), usize>,
    of_tenants: HashMap<Tenant, usize>,
}

/// A token bucket: the requests that a tenant has left, refilled with time to at most twice the rate per second.
#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl AdmissionGate {
    /// Takes a place for one more run or call of a tenant; it is given back when the run is driven.
    ///
    /// A tenant may have all places while no other tenant waits. A tenant's share is the number of places divided by
    /// the number of tenants that have runs or wait. A tenant with less than its share is admitted beyond the limit, up
    /// to half as many places again; while a tenant with less than its share waits, no tenant with its full share is
    /// admitted.
    ///
    /// `load` is read under the lock that guards taking and giving back places: a run that begins to be driven counts
    /// in one or the other, so a burst takes no more places than there are.
    pub(crate) fn run(
        &self,
        tenant: &Tenant,
        load: impl FnOnce() -> Load,
        now: Instant,
        limits: &ServeLimits,
    ) -> Result<RunPermit, Problem> {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let (most, load) = (limits.runs as u64, load());
        let has_none = load.own == 0;
        let load = runs.with_beginning(tenant, load, now);
        let share = (most / load.tenants.max(1)).max(1);
        let has_less = load.own < share;
        let others_wait = runs.waiting.keys().any(|other| other != tenant);
        let is_in = load.all < most && (has_less || !others_wait);
        let is_in_beyond = has_less && load.all < most + most / 2;
        if is_in || is_in_beyond {
            runs.waiting.remove(tenant);
            *runs.beginning.entry(tenant.clone()).or_default() += 1;
            return Ok(RunPermit { runs: self.runs.clone(), tenant: tenant.clone() });
        }
        if has_less {
            runs.waiting.insert(tenant.clone(), WaitingTenant { at: now, has_none });
        }
        let detail =
            format!("this process has {} runs and calls to see to already: try again in a moment", load.all);
        Err(Problem::new(ProblemCode::Overloaded, detail).after(1))
    }

    /// Takes a place for one more stream of a tenant until it is dropped; [`StreamPermit::of`] counts it for a run.
    pub(crate) fn stream(&self, tenant: &Tenant, limits: &ServeLimits) -> Result<StreamPermit, Problem> {
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

    /// Takes one request from a tenant's bucket, or refuses it.
    pub(crate) fn request(&self, tenant: &Tenant, now: Instant, limits: &ServeLimits) -> Result<(), Problem> {
        let Some(rate) = limits.requests_per_s.map(f64::from) else { return Ok(()) };
        let full = rate * 2.0;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let refilled = |it: &Bucket| (it.left + now.duration_since(it.at).as_secs_f64() * rate).min(full);
        if buckets.len() >= MOST_TENANTS && !buckets.contains_key(tenant) {
            // A full bucket holds no information.
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
        Err(Problem::new(ProblemCode::RateLimited, detail).after(seconds as u64))
    }

    /// How many streams are open.
    pub(crate) fn open_streams(&self) -> usize {
        lock(&self.streams).all
    }
}

impl Runs {
    /// The load including the runs that begin and the tenants that wait. Tenants that did not retry in time are
    /// forgotten.
    fn with_beginning(&mut self, tenant: &Tenant, load: Load, now: Instant) -> Load {
        self.waiting.retain(|_, refused| now.duration_since(refused.at) < WAITS);
        let own = load.own + self.beginning.get(tenant).copied().unwrap_or_default();
        let others = self.waiting.iter().filter(|(other, refused)| *other != tenant && refused.has_none);
        let newcomers = others.count() as u64 + u64::from(load.own == 0);
        let all = load.all + self.beginning.values().sum::<u64>();
        Load { own, all, tenants: load.tenants + newcomers }
    }
}

/// A place for a run that begins. Dropping it gives the place back.
#[derive(Debug)]
pub(crate) struct RunPermit {
    runs: Arc<Mutex<Runs>>,
    tenant: Tenant,
}

impl Drop for RunPermit {
    fn drop(&mut self) {
        let mut runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = runs.beginning.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                runs.beginning.remove(&self.tenant);
            }
        }
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
    /// Counts the stream among those of one run, too; refuses it if the run has too many.
    pub(crate) fn of(mut self, run: RunId, limits: &ServeLimits) -> Result<StreamPermit, Problem> {
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
    Err(Problem::new(ProblemCode::RateLimited, detail).after(1))
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
    use uuid::Uuid;

    use super::*;

    fn said<T>(result: Result<T, Problem>) -> Result<(), (ProblemCode, Option<u64>)> {
        result.map(|_| ()).map_err(|problem| (problem.code, problem.retry_after))
    }

    /// Tenants and what each of them has, on a process that drives 20 runs.
    struct House {
        admission: AdmissionGate,
        limits: ServeLimits,
        now: Instant,
        driven: HashMap<Tenant, u64>,
    }

    impl House {
        fn new() -> House {
            let limits = ServeLimits { runs: 20, ..ServeLimits::default() };
            House { admission: AdmissionGate::default(), limits, now: Instant::now(), driven: HashMap::new() }
        }

        /// One more run of a tenant, which is driven from then on.
        fn begins(&mut self, tenant: &str) -> bool {
            let tenant: Tenant = tenant.parse().unwrap();
            let own = self.driven.get(&tenant).copied().unwrap_or_default();
            let load = Load { own, all: self.driven.values().sum(), tenants: self.driven.len() as u64 };
            match self.admission.run(&tenant, || load, self.now, &self.limits) {
                Ok(_) => *self.driven.entry(tenant).or_default() += 1,
                Err(problem) => {
                    assert_eq!((problem.code, problem.retry_after), (ProblemCode::Overloaded, Some(1)));
                    return false;
                }
            }
            true
        }

        fn ends(&mut self, tenant: &str) {
            *self.driven.get_mut(&tenant.parse::<Tenant>().unwrap()).unwrap() -= 1;
            self.driven.retain(|_, runs| *runs > 0);
        }

        /// How many more a tenant gets.
        fn gets(&mut self, tenant: &str) -> usize {
            (0..100).take_while(|_| self.begins(tenant)).count()
        }
    }

    #[test]
    fn one_run_too_many_is_told_to_come_back() {
        let mut house = House::new();
        assert_eq!(house.gets("a"), 20, "one tenant alone has all places");
        house.ends("a");
        assert_eq!(house.gets("a"), 1);
    }

    #[test]
    fn a_tenant_that_has_everything_leaves_others_their_share() {
        let mut house = House::new();
        assert_eq!((house.gets("a"), house.gets("b")), (20, 10));
        assert_eq!((house.gets("c"), house.gets("a")), (0, 0), "there are half as many again, and c waits");
        house.ends("a");
        assert_eq!((house.gets("a"), house.gets("b"), house.gets("c")), (0, 0, 1), "c is the next");
        (0..12).for_each(|_| house.ends("a")); // 18 are left, 7 of them a's
        assert_eq!((house.gets("a"), house.gets("b")), (0, 0), "c waits still");
        assert_eq!(house.gets("c"), 5, "up to its share");
        (0..10).for_each(|_| house.ends("b"));
        house.now += WAITS;
        assert_eq!(house.gets("a"), 7, "nobody else waits any more");
    }

    #[test]
    fn a_tenant_with_its_share_does_not_pass_one_that_waits() {
        let mut house = House::new();
        assert_eq!((house.gets("a"), house.gets("b"), house.gets("c")), (20, 10, 0));
        (0..11).for_each(|_| house.ends("a")); // 19 are left: 9 of a and 10 of b
        assert!(!house.begins("a"), "c waits, and a has more than a third");
        house.now += WAITS;
        assert!(house.begins("a"), "c did not come back");
    }

    #[test]
    fn what_is_beginning_counts() {
        let (admission, limits) =
            (AdmissionGate::default(), ServeLimits { runs: 2, ..ServeLimits::default() });
        let tenant: Tenant = "a".parse().unwrap();
        let begin = || admission.run(&tenant, Load::default, Instant::now(), &limits);
        let (first, _second) = (begin().unwrap(), begin().unwrap());
        assert_eq!(said(begin()), Err((ProblemCode::Overloaded, Some(1))));
        drop(first);
        assert_eq!(said(begin()), Ok(()));
    }

    #[test]
    fn streams_are_counted_by_run_and_by_tenant_and_given_back() {
        let admission = AdmissionGate::default();
        let limits =
            ServeLimits { streams_per_run: 2, streams_per_tenant: Some(3), ..ServeLimits::default() };
        let run = |n| RunId(Uuid::from_u128(n));
        let (a, b): (Tenant, Tenant) = ("a".parse().unwrap(), "b".parse().unwrap());
        let open = |tenant: &Tenant, n| admission.stream(tenant, &limits)?.of(run(n), &limits);
        let refused = Err((ProblemCode::RateLimited, Some(1)));
        let first = open(&a, 1).unwrap();
        let _second = open(&a, 1).unwrap();
        assert_eq!(said(open(&a, 1)), refused);
        let _third = open(&a, 2).unwrap();
        assert_eq!(said(open(&a, 3)), refused);
        let _others = open(&b, 1).unwrap();
        assert_eq!(admission.open_streams(), 4);
        drop(first);
        assert_eq!((said(open(&a, 3)), admission.open_streams()), (Ok(()), 3));
        let unlimited = ServeLimits { streams_per_tenant: None, ..limits.clone() };
        let one = |n| admission.stream(&a, &unlimited)?.of(run(n), &unlimited);
        let many: Result<Vec<_>, _> = (10..500).map(one).collect();
        drop(many.unwrap());
        assert_eq!(admission.open_streams(), 3);
    }

    #[test]
    fn a_place_that_was_kept_counts_before_its_run_is_known() {
        let admission = AdmissionGate::default();
        let limits =
            ServeLimits { streams_per_run: 1, streams_per_tenant: Some(2), ..ServeLimits::default() };
        let (tenant, run): (Tenant, _) = ("a".parse().unwrap(), RunId(Uuid::from_u128(1)));
        let refused = Err((ProblemCode::RateLimited, Some(1)));
        let kept = admission.stream(&tenant, &limits).unwrap();
        let first = admission.stream(&tenant, &limits).unwrap().of(run, &limits).unwrap();
        assert_eq!(said(admission.stream(&tenant, &limits)), refused);
        assert_eq!((said(kept.of(run, &limits)), admission.open_streams()), (refused, 1));
        drop(first);
        assert_eq!((admission.open_streams(), lock(&admission.streams).of_runs.len()), (0, 0));
    }

    #[test]
    fn a_tenant_may_ask_so_often_and_no_more() {
        let admission = AdmissionGate::default();
        let limits = ServeLimits { requests_per_s: Some(2), ..ServeLimits::default() };
        let began = Instant::now();
        let (a, b): (Tenant, Tenant) = ("a".parse().unwrap(), "b".parse().unwrap());
        let ask =
            |tenant: &Tenant, ms| said(admission.request(tenant, began + Duration::from_millis(ms), &limits));
        let refused = Err((ProblemCode::RateLimited, Some(1)));
        assert_eq!([0, 0, 0, 0, 0].map(|ms| ask(&a, ms)), [Ok(()), Ok(()), Ok(()), Ok(()), refused]);
        assert_eq!(ask(&b, 0), Ok(()));
        assert_eq!([400, 500, 501, 60_000].map(|ms| ask(&a, ms)), [refused, Ok(()), refused, Ok(())]);
        let free = ServeLimits::default();
        assert!((0..10_000).all(|_| admission.request(&a, began, &free).is_ok()));
    }
}
