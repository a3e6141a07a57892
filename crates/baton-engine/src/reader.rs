//! Reading a run's log: from any place, on any process, at the reader's own pace.
//!
//! A reader is a place, not a channel. It takes live events from the hub of the process, all others from the store.
//! Numbers of an epoch that ended with uncommitted text are withdrawn by `resumed`, which is made for that reader alone
//! and has no number.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_core::event::NumberedEvent;
use baton_core::id::{Cursor, RunId, Tenant};
use baton_core::run::RunStatus;
use baton_store::{Head, RunRow, StoreError};
use tokio::sync::watch;

use crate::afar::Watcher;
use crate::engine::Shared;
use crate::error::EngineError;
use crate::hub::{Found, Hub};
use crate::patience::patiently;

/// How many events are read at once.
const PAGE: usize = 128;
/// How many transitions are read at once.
const STEPS: u32 = 32;
/// The capacity in events that a waiting reader keeps.
const KEPT: usize = 8;

/// One item of a reader's stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// The next event.
    Event(Arc<NumberedEvent>),
    /// Events after this number are void.
    Resumed {
        /// The last number that counts.
        last_seq: u64,
    },
    /// The run is suspended: no event comes until it is answered or decided, or a deadline passes.
    Suspended,
}

/// A reader of one run's log; see the module.
pub struct EventReader {
    shared: Arc<Shared>,
    tenant: Tenant,
    run: RunId,
    at: Cursor,
    page: VecDeque<Seen>,
    /// The live end of the log, while the run is driven here, and the receiver that signals new events.
    live: Option<(Arc<Hub>, watch::Receiver<u64>)>,
    /// Whether the present suspension was already reported.
    told_suspended: bool,
    ended: bool,
    /// The remote watch, while another process drives it.
    watcher: Option<Watcher>,
}

impl EventReader {
    pub(crate) async fn open(
        shared: Arc<Shared>,
        tenant: Tenant,
        run: RunId,
        from: Cursor,
    ) -> Result<Self, EngineError> {
        let hub = shared.hub(&tenant, run);
        if let (0, Some(hub)) = (from.seq, hub) {
            // It is driven here, and read from its beginning: the store is not needed.
            let at = Cursor { epoch: hub.epoch, seq: 0 };
            return Ok(EventReader::at(shared, tenant, run, at, Some(hub)));
        }
        let row = patiently!(shared, shared.store.run(&tenant, run))?;
        let last = Cursor { epoch: row.epoch, seq: row.seq };
        let beyond_end = row.status.has_ended() && from.seq > row.seq && from.epoch == row.epoch;
        if from.epoch > row.epoch || beyond_end {
            return Err(EngineError::BadCursor { cursor: from, last });
        }
        // The place before the first event belongs to every epoch.
        let at = if from.seq == 0 { Cursor { epoch: row.epoch, seq: 0 } } else { from };
        Ok(EventReader::at(shared, tenant, run, at, None))
    }

    fn at(shared: Arc<Shared>, tenant: Tenant, run: RunId, at: Cursor, hub: Option<Arc<Hub>>) -> Self {
        let page = VecDeque::new();
        let (told_suspended, ended, watcher) = (false, false, None);
        let live = hub.map(subscribed);
        EventReader { shared, tenant, run, at, page, live, told_suspended, ended, watcher }
    }

    /// The reader's cursor.
    pub fn cursor(&self) -> Cursor {
        self.at
    }

    /// The next item, or none after the last.
    pub async fn next(&mut self) -> Result<Option<Seen>, EngineError> {
        loop {
            if let Some(seen) = self.page.pop_front() {
                if self.page.is_empty() && self.page.capacity() > KEPT {
                    self.page = VecDeque::new(); // a waiting reader holds no memory
                }
                self.take(&seen);
                return Ok(Some(seen));
            }
            if self.ended {
                return Ok(None);
            }
            if self.live.is_none() {
                self.live = self.shared.hub(&self.tenant, self.run).map(subscribed);
            }
            match &self.live {
                Some((hub, _)) if hub.epoch == self.at.epoch => self.read_hub().await?,
                _ => self.read_elsewhere().await?,
            }
        }
    }

    /// Waits until the events seen so far are committed: then the next ones are more than text. Pends forever where the
    /// run is not driven here.
    pub async fn kept(&self) {
        match &self.live {
            Some((hub, _)) if hub.epoch == self.at.epoch => hub.is_kept(self.at.seq).await,
            _ => std::future::pending().await,
        }
    }

    fn take(&mut self, seen: &Seen) {
        match seen {
            Seen::Event(event) => {
                self.at = Cursor { epoch: self.at.epoch, seq: event.seq };
                self.ended |= event.event.is_terminal();
                self.told_suspended = false;
            }
            Seen::Resumed { last_seq } => self.at.seq = *last_seq,
            Seen::Suspended => self.told_suspended = true,
        }
    }

    async fn read_hub(&mut self) -> Result<(), EngineError> {
        let Some((hub, moved)) = &mut self.live else { return Ok(()) };
        self.watcher = None;
        moved.mark_unchanged();
        match hub.after(self.at.seq, PAGE, |event| self.page.push_back(Seen::Event(event))) {
            Found::Events => {}
            // Reading the store is boxed, here and below, so that a waiting reader stays small.
            Found::Older => Box::pin(self.read_store()).await.map(|_| ())?,
            Found::Closed => self.read_elsewhere().await?,
            Found::Nothing => {
                let _ = moved.changed().await;
            }
        }
        Ok(())
    }

    /// Reads committed events, and waits for more if there are no new ones.
    async fn read_elsewhere(&mut self) -> Result<(), EngineError> {
        self.live = None;
        if !Box::pin(self.read_store()).await? {
            self.wait_elsewhere().await;
        }
        Ok(())
    }

    /// Reads committed events; answers whether there was anything new.
    async fn read_store(&mut self) -> Result<bool, EngineError> {
        let (tenant, run, shared) = (self.tenant.clone(), self.run, self.shared.clone());
        let row = patiently!(shared, shared.store.run(&tenant, run))?;
        if row.epoch != self.at.epoch {
            return self.enter_epoch(&row).await.map(|()| true);
        }
        let from = self.at.seq + 1;
        if from <= row.seq {
            let events = patiently!(shared, shared.store.events(&tenant, run, from, STEPS))?;
            self.page.extend(events.into_iter().map(|event| Seen::Event(Arc::new(event))));
            return Ok(true);
        }
        if row.status.has_ended() {
            if self.at.seq > row.seq {
                self.page.push_back(Seen::Resumed { last_seq: row.seq.saturating_sub(1) });
            } else {
                self.ended = true;
            }
            return Ok(true);
        }
        let is_news = row.status == RunStatus::Suspended && !self.told_suspended;
        if is_news {
            self.page.push_back(Seen::Suspended);
        }
        Ok(is_news)
    }

    /// Moves to the run's new epoch: events that this reader saw beyond the new epoch's base are void.
    async fn enter_epoch(&mut self, row: &RunRow) -> Result<(), EngineError> {
        let (tenant, run, shared) = (self.tenant.clone(), self.run, self.shared.clone());
        let claims = patiently!(shared, shared.store.claims(&tenant, run))?;
        let base =
            claims.iter().filter(|claim| claim.epoch > self.at.epoch).map(|claim| claim.base_seq).min();
        let base = base.ok_or_else(|| StoreError::NotFound { what: "claim", id: run.to_string() })?;
        self.at.epoch = row.epoch;
        if self.at.seq > base {
            self.page.push_back(Seen::Resumed { last_seq: base });
        }
        Ok(())
    }

    /// Waits for news of a run that is not driven here.
    async fn wait_elsewhere(&mut self) {
        let (at, told_suspended) = (self.at, self.told_suspended);
        let is_news = |head: &Head| {
            let suspended = head.status == RunStatus::Suspended && !told_suspended;
            let is_of_now = head.epoch == at.epoch; // a head older than the reader is no news
            let rests = head.status.has_ended() || suspended;
            head.epoch > at.epoch || (is_of_now && (head.seq > at.seq || rests))
        };
        let watcher = self.watcher.get_or_insert_with(|| Watcher::new(&self.shared, &self.tenant, self.run));
        watcher.wait_for(is_news).await;
    }
}

fn subscribed(hub: Arc<Hub>) -> (Arc<Hub>, watch::Receiver<u64>) {
    let moved = hub.subscribe();
    (hub, moved)
}
