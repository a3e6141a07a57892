//! The gate of a model: a semaphore that is first in, first out within a tenant, and fair among tenants.
//!
//! A free permit goes to the waiting tenant that holds the fewest; among equals, to the one that was served
//! longest ago. So one tenant's flood delays a call of another by at most one permit, and a tenant that is alone has
//! all of them. Waiting is part of the call: it counts against the call's total time, and a caller that stops waiting
//! leaves the queue. A wait that times out proves nothing about the model, so no breaker counts it.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::fault::{Code, Fault};
use baton_core::id::Tenant;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::http::format_duration;

/// A gate. Clones share its state.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    state: Arc<Mutex<GateState>>,
    capacity: u32,
}

/// The permit of one call; dropping it frees its place.
#[derive(Debug)]
pub(crate) struct GatePermit {
    /// None once the permit was released.
    held: Option<(Gate, Tenant)>,
    /// How long the call waited.
    pub(crate) waited: Duration,
}

#[derive(Debug, Default)]
struct GateState {
    taken: u32,
    /// Only tenants that hold a permit or wait for one.
    tenants: HashMap<Tenant, TenantQueue>,
    /// The last number used, for both tickets and grants.
    next: u64,
}

#[derive(Debug, Default)]
struct TenantQueue {
    held: u32,
    /// The number of the latest grant; 0: none.
    served: u64,
    /// The waiting calls with their tickets, in the order of the tickets.
    waiting: VecDeque<(u64, oneshot::Sender<GatePermit>)>,
}

impl GateState {
    fn next_number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Counts a permit for a tenant.
    fn take(&mut self, tenant: &Tenant) {
        let turn = self.next_number();
        let queue = self.tenants.entry(tenant.clone()).or_default();
        (queue.held, queue.served) = (queue.held + 1, turn);
        self.taken += 1;
    }

    fn release(&mut self, tenant: &Tenant) {
        self.taken = self.taken.saturating_sub(1);
        if let Some(queue) = self.tenants.get_mut(tenant) {
            queue.held = queue.held.saturating_sub(1);
        }
        self.forget(tenant);
    }

    fn forget(&mut self, tenant: &Tenant) {
        if self.tenants.get(tenant).is_some_and(|queue| queue.held == 0 && queue.waiting.is_empty()) {
            self.tenants.remove(tenant);
        }
    }

    /// The waiting tenant that gets the next permit.
    fn next_tenant(&self) -> Option<Tenant> {
        let waits = |(tenant, queue): (&Tenant, &TenantQueue)| {
            let (ticket, _) = queue.waiting.front()?;
            Some(((queue.held, queue.served, *ticket), tenant.clone()))
        };
        self.tenants.iter().filter_map(waits).min_by_key(|(rank, _)| *rank).map(|(_, tenant)| tenant)
    }
}

impl Gate {
    /// A gate for so many calls at a time.
    pub(crate) fn new(capacity: u32) -> Self {
        Gate { state: Arc::default(), capacity }
    }

    /// The number of a tenant's waiting calls.
    pub(crate) fn waiting(&self, tenant: &Tenant) -> usize {
        self.state().tenants.get(tenant).map_or(0, |queue| queue.waiting.len())
    }

    /// Waits for a permit.
    pub(crate) async fn enter(&self, tenant: &Tenant, until: Instant) -> Result<GatePermit, Fault> {
        let came = Instant::now();
        let Some((ticket, place)) = self.try_enter(tenant) else {
            return Ok(GatePermit { held: Some((self.clone(), tenant.clone())), waited: Duration::ZERO });
        };
        let _leave_on_drop = LeaveOnDrop { gate: self, tenant, ticket };
        let place = tokio::time::timeout_at(until, place).await;
        let waited = came.elapsed();
        match place {
            Ok(Ok(mut place)) => {
                place.waited = waited;
                Ok(place)
            }
            // A sender is never dropped before it has sent, so the second case does not happen.
            Err(_) | Ok(Err(_)) => Err(Fault::new(
                Code::LlmTimeout,
                format!(
                    "the call waited {} for a free place: at most {} at a time (max_concurrency)",
                    format_duration(waited),
                    self.capacity
                ),
            )
            .unsent()),
        }
    }

    /// Takes a permit, or else a ticket in the queue.
    fn try_enter(&self, tenant: &Tenant) -> Option<(u64, oneshot::Receiver<GatePermit>)> {
        let mut state = self.state();
        if state.taken < self.capacity {
            state.take(tenant);
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        let ticket = state.next_number();
        state.tenants.entry(tenant.clone()).or_default().waiting.push_back((ticket, sender));
        Some((ticket, receiver))
    }

    /// Gives free permits to waiting calls.
    fn grant_waiting(&self) {
        let mut state = self.state();
        while state.taken < self.capacity
            && let Some(tenant) = state.next_tenant()
        {
            let first = state.tenants.get_mut(&tenant).and_then(|queue| queue.waiting.pop_front());
            let Some((_, waits)) = first else { return };
            state.take(&tenant);
            let place = GatePermit { held: Some((self.clone(), tenant.clone())), waited: Duration::ZERO };
            if let Err(mut place) = waits.send(place) {
                place.held = None; // the receiver is gone; the lock is held here, so the permit must not release itself
                state.release(&tenant);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for GatePermit {
    fn drop(&mut self) {
        if let Some((gate, tenant)) = self.held.take() {
            gate.state().release(&tenant);
            gate.grant_waiting();
        }
    }
}

/// Removes a ticket from the queue when its holder stops waiting.
struct LeaveOnDrop<'a> {
    gate: &'a Gate,
    tenant: &'a Tenant,
    ticket: u64,
}

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        let mut state = self.gate.state();
        if let Some(queue) = state.tenants.get_mut(self.tenant) {
            queue.waiting.retain(|(ticket, _)| *ticket != self.ticket);
        }
        state.forget(self.tenant);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use futures_util::FutureExt;

    fn a() -> Tenant {
        "a".parse().unwrap()
    }

    fn b() -> Tenant {
        "b".parse().unwrap()
    }

    fn soon(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_past_the_total_limit_is_a_timeout_that_names_max_concurrency() {
        let gate = Gate::new(2);
        let held = [gate.enter(&a(), soon(1)).await.unwrap(), gate.enter(&a(), soon(1)).await.unwrap()];
        assert_eq!(held.each_ref().map(|place| place.waited), [Duration::ZERO; 2]);
        let words = "the call waited 1.5 s for a free place: at most 2 at a time (max_concurrency)";
        assert_eq!(
            gate.enter(&a(), soon(1500)).await.unwrap_err(),
            Fault::new(Code::LlmTimeout, words).unsent()
        );
        drop(held);
        assert_eq!(gate.enter(&a(), soon(1)).await.unwrap().waited, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn permits_of_one_tenant_are_granted_in_order() {
        let gate = Gate::new(1);
        let held = gate.enter(&a(), soon(1)).await.unwrap();
        let (told, mut order) = tokio::sync::mpsc::unbounded_channel();
        for n in 0..4 {
            let (asking, told) = (gate.clone(), told.clone());
            tokio::spawn(async move {
                let place = asking.enter(&a(), soon(1000)).await.unwrap();
                told.send(n).unwrap();
                drop(place);
            });
            tokio::task::yield_now().await; // so that it stands in the queue before the next one asks
        }
        drop((held, told));
        let mut seen = Vec::new();
        while let Some(n) = order.recv().await {
            seen.push(n);
        }
        assert_eq!(seen, [0, 1, 2, 3]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_stops_waiting_leaves_the_queue() {
        let gate = Gate::new(1);
        let held = gate.enter(&a(), soon(1)).await.unwrap();
        let gone = tokio::time::timeout(Duration::from_millis(5), gate.enter(&a(), soon(1000))).await;
        assert!(gone.is_err());
        drop(held);
        let waited = gate.enter(&a(), soon(1)).await.unwrap().waited;
        assert_eq!(waited, Duration::ZERO);
    }

    /// The tenants in the order of their grants: twelve calls of `a` wait before one (or more) of `b` comes, and
    /// permits are released one after the other.
    async fn order(most: u32, of_b: usize) -> Vec<Tenant> {
        let gate = Gate::new(most);
        let mut held = VecDeque::new();
        for _ in 0..most {
            held.push_back(gate.enter(&a(), soon(1)).await.unwrap());
        }
        let (told, mut came) = tokio::sync::mpsc::unbounded_channel();
        for tenant in std::iter::repeat_n(a(), 12).chain(std::iter::repeat_n(b(), of_b)) {
            let (asking, told) = (gate.clone(), told.clone());
            tokio::spawn(async move {
                let place = asking.enter(&tenant, soon(60_000)).await.unwrap();
                told.send((tenant, place)).unwrap();
            });
            tokio::task::yield_now().await; // so that it stands in the queue before the next one asks
        }
        let mut seen = Vec::new();
        for _ in 0..12 + of_b {
            held.pop_front();
            let (tenant, place) = came.recv().await.unwrap();
            seen.push(tenant);
            held.push_back(place);
        }
        seen
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_of_another_tenant_gets_the_next_free_place() {
        for most in [1, 4] {
            let seen = order(most, 1).await;
            assert_eq!(seen.iter().position(|tenant| *tenant == b()), Some(0), "of {most} places: {seen:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn tenants_that_wait_take_turns() {
        let names = |seen: Vec<Tenant>| seen.iter().map(ToString::to_string).collect::<String>();
        assert_eq!(names(order(1, 4).await), "babababaaaaaaaaa");
        assert_eq!(names(order(4, 4).await), "bbaabbaaaaaaaaaa", "two each, as long as both wait");
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_granted_to_a_dropped_wait_is_free_again() {
        let gate = Gate::new(1);
        let held = gate.enter(&a(), soon(1)).await.unwrap();
        let other = b();
        let mut waits = Box::pin(gate.enter(&other, soon(1000)));
        assert!((&mut waits).now_or_never().is_none());
        drop(held); // the permit is granted, and not yet received
        drop(waits);
        assert_eq!(gate.enter(&a(), soon(1)).await.unwrap().waited, Duration::ZERO);
        assert_eq!(gate.state().tenants.len(), 0, "tenants that neither hold nor wait are forgotten");
    }
}
