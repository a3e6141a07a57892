//! Watching runs that other processes drive: one store query per poll for all of them, however many readers watch.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use baton_core::id::{RunId, Tenant};
use baton_core::run::RunStatus;
use baton_store::Head;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::engine::Shared;

/// How often the owner of a run is notified that the run is watched, and for how long one notice holds.
const TELL_EVERY: Duration = Duration::from_secs(2);
const TOLD_FOR_MS: u64 = 5000;

/// The runs that are watched from this process.
#[derive(Debug, Default)]
pub(crate) struct Afar(Mutex<Watch>);

#[derive(Debug, Default)]
struct Watch {
    runs: HashMap<RunId, Watched>,
    /// Whether the task that asks for all of them is running.
    is_looking: bool,
}

impl Afar {
    fn lock(&self) -> MutexGuard<'_, Watch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Watched {
    tenant: Tenant,
    head: watch::Sender<Option<Head>>,
    watchers: usize,
    tell_at: Instant,
}

/// One watcher of a run; it counts until it is dropped.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    run: RunId,
    head: watch::Receiver<Option<Head>>,
}

impl Watcher {
    pub(crate) fn new(shared: &Arc<Shared>, tenant: &Tenant, run: RunId) -> Watcher {
        let mut watch = shared.afar.lock();
        let looks_already = std::mem::replace(&mut watch.is_looking, true);
        let watched = watch.runs.entry(run).or_insert_with(|| Watched {
            tenant: tenant.clone(),
            head: watch::Sender::new(None),
            watchers: 0,
            tell_at: Instant::now(),
        });
        watched.watchers += 1;
        let head = watched.head.subscribe();
        drop(watch);
        if !looks_already {
            tokio::spawn(look(shared.clone()));
        }
        Watcher { shared: shared.clone(), run, head }
    }

    /// Waits until the run's head is news to the reader.
    pub(crate) async fn wait_for(&mut self, is_news: impl Fn(&Head) -> bool) {
        // The sender lives as long as there is a watcher.
        let _ = self.head.wait_for(|head| head.as_ref().is_some_and(&is_news)).await;
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut watch = self.shared.afar.lock();
        if let Some(watched) = watch.runs.get_mut(&self.run) {
            watched.watchers -= 1;
            if watched.watchers == 0 {
                watch.runs.remove(&self.run);
            }
        }
    }
}

/// Polls the heads of the watched runs until none is watched.
async fn look(shared: Arc<Shared>) {
    let afar = &shared.afar;
    loop {
        let runs: Vec<(Tenant, RunId)> = {
            let mut watch = afar.lock();
            if watch.runs.is_empty() {
                watch.is_looking = false; // under the same lock: the next watcher starts a new task
                return;
            }
            watch.runs.iter().map(|(run, watched)| (watched.tenant.clone(), *run)).collect()
        };
        // A store that does not answer is asked again; readers learn of it when they read.
        let heads = shared.store.heads(&runs).await.unwrap_or_default();
        let mut tell = Vec::new();
        {
            let mut watch = afar.lock();
            for head in heads {
                let Some(watched) = watch.runs.get_mut(&head.run) else { continue };
                watched.head.send_if_modified(|known| known.replace(head) != Some(head));
                if head.status == RunStatus::Running && watched.tell_at <= Instant::now() {
                    watched.tell_at = Instant::now() + TELL_EVERY;
                    tell.push((watched.tenant.clone(), head.run));
                }
            }
        }
        if !tell.is_empty() {
            let (shared, until) = (shared.clone(), shared.clock.now().plus_ms(TOLD_FOR_MS));
            // Only a hint: without it the events come later, not never. So it is not awaited.
            tokio::spawn(async move {
                let _ = shared.store.watch_all(&tell, until).await;
            });
        }
        tokio::time::sleep(shared.settings.poll).await;
    }
}
