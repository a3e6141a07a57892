//! Reading a run's log: from any place, on any process, at the reader's own pace.
//!
//! A reader is a place, not a channel. It takes what is live from the hub of the process, everything else
//! from the store. Numbers of an epoch that ended with uncommitted text are withdrawn by `resumed`, which
//! is made for that reader alone and has no number.

use std::collections::VecDeque;
use std::sync::Arc;

use baton_core::event::NumberedEvent;
use baton_core::id::{Cursor, RunId, Tenant};
use baton_store::{RunRow, StoreError};
use tokio::time::Instant;

use crate::engine::Shared;
use crate::error::EngineError;
use crate::hub::{Found, Hub};
use crate::patience::patiently;

/// How many events are taken at once.
const PAGE: usize = 128;
/// How many transitions are read at once.
const STEPS: u32 = 32;

/// What a reader sees.
#[allow(clippy::large_enum_variant, reason = "almost all of them are events")]
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// The next event.
    Event(NumberedEvent),
    /// What was seen after this number is void.
    Resumed {
        /// The last number that counts.
        last_seq: u64,
    },
    /// The run is suspended: nothing comes until somebody answers, decides, or time passes.
    Suspended,
}

/// See the module.
pub struct EventReader {
    shared: Arc<Shared>,
    tenant: Tenant,
    run: RunId,
    at: Cursor,
    page: VecDeque<Seen>,
    /// The live end of the log, while the run is driven here.
    hub: Option<Arc<Hub>>,
    /// Whether the present suspension was already told.
    told_suspended: bool,
    ended: bool,
    next_watch: Instant,
}

impl EventReader {
    pub(crate) async fn open(
        shared: Arc<Shared>,
        tenant: Tenant,
        run: RunId,
        from: Cursor,
    ) -> Result<Self, EngineError> {
        let row = patiently!(shared, shared.store.run(&tenant, run))?;
        let last = Cursor { epoch: row.epoch, seq: row.seq };
        let beyond_end = row.status.has_ended() && from.seq > row.seq && from.epoch == row.epoch;
        if from.epoch > row.epoch || beyond_end {
            return Err(EngineError::BadCursor { cursor: from, last });
        }
        // The place before the first event belongs to every epoch.
        let at = if from.seq == 0 { Cursor { epoch: row.epoch, seq: 0 } } else { from };
        let page = VecDeque::new();
        Ok(EventReader {
            shared,
            tenant,
            run,
            at,
            page,
            hub: None,
            told_suspended: false,
            ended: false,
            next_watch: Instant::now(),
        })
    }

    /// Where the reader is.
    pub fn cursor(&self) -> Cursor {
        self.at
    }

    /// The next thing to see, or none after the last.
    pub async fn next(&mut self) -> Result<Option<Seen>, EngineError> {
        loop {
            if let Some(seen) = self.page.pop_front() {
                self.take(&seen);
                return Ok(Some(seen));
            }
            if self.ended {
                return Ok(None);
            }
            if self.hub.is_none() {
                self.hub = self.shared.lives().get(&self.run).map(|live| live.hub.clone());
            }
            match self.hub.clone() {
                Some(hub) if hub.epoch == self.at.epoch => self.read_hub(&hub).await?,
                _ => {
                    self.hub = None;
                    self.read_store(true).await?;
                }
            }
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

    async fn read_hub(&mut self, hub: &Hub) -> Result<(), EngineError> {
        let mut changed = hub.subscribe();
        match hub.after(self.at.seq, PAGE) {
            Found::Events(events) => self.page.extend(events.into_iter().map(Seen::Event)),
            Found::Older => self.read_store(false).await?,
            Found::Closed => {
                self.hub = None;
                self.read_store(true).await?;
            }
            Found::Nothing => {
                let _ = changed.changed().await;
            }
        }
        Ok(())
    }

    /// Reads what is committed; waits a moment if there is nothing new and `wait` says so.
    async fn read_store(&mut self, wait: bool) -> Result<(), EngineError> {
        let (tenant, run, shared) = (self.tenant.clone(), self.run, self.shared.clone());
        let row = patiently!(shared, shared.store.run(&tenant, run))?;
        if row.epoch != self.at.epoch {
            return self.enter_epoch(&row).await;
        }
        let from = self.at.seq + 1;
        if from <= row.seq {
            let events = patiently!(shared, shared.store.events(&tenant, run, from, STEPS))?;
            self.page.extend(events.into_iter().map(Seen::Event));
            return Ok(());
        }
        if row.status.has_ended() {
            if self.at.seq > row.seq {
                self.page.push_back(Seen::Resumed { last_seq: row.seq.saturating_sub(1) });
            } else {
                self.ended = true;
            }
            return Ok(());
        }
        let is_suspended = row.status == baton_core::run::RunStatus::Suspended;
        if is_suspended && !self.told_suspended {
            self.page.push_back(Seen::Suspended);
        } else if wait {
            self.wait_elsewhere().await?;
        }
        Ok(())
    }

    /// The epoch has changed: what this reader saw beyond the new one's base is void.
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

    /// Somebody else drives it, or nobody: say that it is watched, and look again in a moment.
    async fn wait_elsewhere(&mut self) -> Result<(), EngineError> {
        if self.next_watch <= Instant::now() {
            self.next_watch = Instant::now() + std::time::Duration::from_secs(2);
            let until = self.shared.clock.now().plus_ms(5000);
            // Only a hint: without it the events come later, not never.
            let _ = self.shared.store.watch(&self.tenant, self.run, until).await;
        }
        tokio::time::sleep(self.shared.settings.poll).await;
        Ok(())
    }
}
