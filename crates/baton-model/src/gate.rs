//! The gate: at most so many calls of one model at a time, in the order in which they came.
//!
//! Waiting is part of the call: it counts against the call's total time, and whoever stops waiting leaves
//! the queue. A call that waits in vain says nothing about the model, so no breaker hears of it.

use std::sync::Arc;
use std::time::Duration;

use baton_core::fault::{Code, Fault};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::http::words;

/// A gate. Clones are the same gate.
#[derive(Debug, Clone)]
pub(crate) struct Gate {
    places: Arc<Semaphore>,
    most: u32,
}

/// A place inside; it is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    /// How long it was waited for.
    pub(crate) waited: Duration,
}

impl Gate {
    /// One with so many places.
    pub(crate) fn new(most: u32) -> Self {
        Gate { places: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// Waits for a place.
    pub(crate) async fn enter(&self, until: Instant) -> Result<Place, Fault> {
        let came = Instant::now();
        let place = tokio::time::timeout_at(until, self.places.clone().acquire_owned()).await;
        let waited = came.elapsed();
        match place {
            Ok(Ok(permit)) => Ok(Place { _permit: permit, waited }),
            // The semaphore is never closed, so the second case is the first in other words.
            Err(_) | Ok(Err(_)) => Err(Fault::new(
                Code::LlmTimeout,
                format!(
                    "the call waited {} for a free place: at most {} at a time (max_concurrency)",
                    words(waited),
                    self.most
                ),
            )
            .unsent()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon(ms: u64) -> Instant {
        Instant::now() + Duration::from_millis(ms)
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_is_told_so() {
        let gate = Gate::new(2);
        let held = [gate.enter(soon(1)).await.unwrap(), gate.enter(soon(1)).await.unwrap()];
        assert_eq!(held.each_ref().map(|place| place.waited), [Duration::ZERO; 2]);
        let words = "the call waited 1.5 s for a free place: at most 2 at a time (max_concurrency)";
        assert_eq!(gate.enter(soon(1500)).await.unwrap_err(), Fault::new(Code::LlmTimeout, words).unsent());
        drop(held);
        assert_eq!(gate.enter(soon(1)).await.unwrap().waited, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn places_are_given_in_the_order_of_asking() {
        let gate = Gate::new(1);
        let held = gate.enter(soon(1)).await.unwrap();
        let (told, mut order) = tokio::sync::mpsc::unbounded_channel();
        for n in 0..4 {
            let (asking, told) = (gate.clone(), told.clone());
            tokio::spawn(async move {
                let place = asking.enter(soon(1000)).await.unwrap();
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
    async fn who_stops_waiting_leaves_the_queue() {
        let gate = Gate::new(1);
        let held = gate.enter(soon(1)).await.unwrap();
        let gone = tokio::time::timeout(Duration::from_millis(5), gate.enter(soon(1000))).await;
        assert!(gone.is_err());
        drop(held);
        let waited = gate.enter(soon(1)).await.unwrap().waited;
        assert_eq!(waited, Duration::ZERO);
    }
}
