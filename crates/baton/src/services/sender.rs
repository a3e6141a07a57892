//! Sends events to the context service: at least once, in order for each correlation id, never in the way of a run.
//!
//! Events wait in the outbox, where their transitions put them. A round reads a page of them, sends those of one
//! correlation id one after the other and those of different ones side by side, and notes which were taken. Each is
//! sent under a key of its own, the same for every attempt, so that one that is sent twice counts once.
//!
//! Of the processes on one store one sends at a time: it holds a row of the store under its name, and another takes the
//! row over when that process is gone. Should two send all the same (one was stopped for a while, and does not know yet
//! that it lost the row), each goes through the events of a correlation id from the oldest that was not taken, and to
//! the next one only when the one before was taken: first arrivals are still in order.
//!
//! It goes through all waiting events, a page at a time, and then begins again. An event that could not be sent delays
//! only its own correlation id, for a time that grows, however many events that has: the pages behind are reached all
//! the same.
//!
//! One tenant's flood does not delay another's events by more than a moment and a few rounds: while more events wait
//! than a page holds, the oldest events of tenants that are not on the page are sent beside it, and tenants take turns.
//!
//! It tries for ever. A service that cannot be reached, is too slow, or takes nothing for now (401, 403, 429, 503) is
//! left alone for a while. Any other status is about one event: the rest of its correlation id waits behind it, and no
//! other. An event that the service itself refuses as it is (status 400, 413, 415, 422) is given up with a warning:
//! those behind it would never arrive. It stays in the chain.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use baton_core::id::Tenant;
use baton_core::json::sha256_hex;
use baton_core::time::Timestamp;
use baton_core::turns::by_turns;
use baton_engine::{Clock, Engine, SystemClock};
use baton_store::{AuditEvent, NewKey, Outgoing, Store, StoreError};
use baton_tools::CallPermit;
use baton_tools::execution::ServiceClient;
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use super::wait;
use crate::config::ContextSetting;
use crate::failure::Failure;

/// The most events of one round, and how many correlation ids are sent side by side.
const BATCH: u32 = 256;
const SIDE_BY_SIDE: usize = 16;
/// How often other tenants than those of a page are looked for, and how many pages of their events one round adds: the
/// tenants that are found first may fill a page, too.
const BESIDE_EVERY: Duration = Duration::from_secs(1);
const BESIDE: usize = 8;
/// The deadline for one event, and how much of the answer is read.
const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_BYTES: usize = 64 << 10;
/// How soon the next round follows; doubled while there is nothing to send, and while the service is down.
const SOON: Duration = Duration::from_millis(100);
const SELDOM: Duration = Duration::from_secs(1);
const DOWN: Duration = Duration::from_secs(30);

/// The row that names the sending process.
const ROUTE: &str = "outbox";
const KEY: &str = "sender";
/// It does not expire with the keys of requests.
const FOR_EVER_MS: i64 = 100 * 365 * 24 * 60 * 60 * 1000;

/// See the module.
pub(super) struct Sender {
    engine: Engine,
    connection: ServiceClient,
    /// The number after which the next page begins.
    from: i64,
    held: Backoffs,
    /// When other tenants' events were last looked for.
    looked_beside: Option<Instant>,
}

/// The tenant and the correlation id of events. The same id of two tenants has two orders.
type Whose = (Tenant, String);

/// The correlation ids whose next event was not taken.
#[derive(Debug, Default)]
struct Backoffs(HashMap<Whose, Backoff>);

#[derive(Debug)]
struct Backoff {
    why: String,
    /// When it is tried again, and the pause until then.
    until: Instant,
    pause: Duration,
    /// Whether its time had come when the first page was taken: an id that joins in the middle would not keep the
    /// order.
    is_open: bool,
}

impl Backoffs {
    /// Begins a pass over all pages: ids that have waited long enough are tried again.
    fn begin(&mut self, now: Instant) {
        self.0.values_mut().for_each(|hold| hold.is_open = hold.until <= now);
    }

    fn may_send(&self, whose: &Whose) -> bool {
        self.0.get(whose).is_none_or(|hold| hold.is_open)
    }

    /// Notes the outcome of an id: why its next event was not taken, if it was not.
    fn note(&mut self, whose: Whose, left: Option<&str>, now: Instant) {
        let Some(why) = left else {
            self.0.remove(&whose);
            return;
        };
        let pause = self.0.get(&whose).map_or(SOON, |hold| (hold.pause * 2).min(DOWN));
        let hold = Backoff { why: why.to_owned(), until: now + pause, pause, is_open: false };
        self.0.insert(whose, hold);
    }

    /// Ends a pass: an id that might have sent and was not met has nothing left to send.
    fn end(&mut self) {
        self.0.retain(|_, hold| !hold.is_open);
    }

    /// Why an id waits, if any does.
    fn why(&self) -> Option<&str> {
        self.0.values().next().map(|hold| hold.why.as_str())
    }
}

/// The outcome of a round.
#[derive(Debug)]
enum Round {
    /// There was nothing to do, or another process sends.
    Idle,
    /// There is another page; whether anything of this one was taken.
    More { took: bool },
    /// All were taken.
    Sent,
    /// Some were not taken, and why; the others were.
    Partly(String),
    /// The service takes none for now, and why.
    Down(String),
}

/// The outcome of one event.
#[derive(Debug, PartialEq)]
enum Delivery {
    Yes,
    /// It will never be taken.
    Never(u16),
    /// This one is not taken for now; others may be.
    NotThis(String),
    /// None is taken for now.
    NotNow(String),
}

impl Sender {
    /// A sender to the configured service.
    pub(super) fn new(setting: &ContextSetting, engine: &Engine) -> Result<Sender, Failure> {
        let token = super::token("services.context", &setting.token)?;
        let connection = ServiceClient::new(&setting.url, token)
            .map_err(|error| Failure::usage(format!("the context service: {error}")))?;
        Ok(Sender {
            engine: engine.clone(),
            connection,
            from: 0,
            held: Backoffs::default(),
            looked_beside: None,
        })
    }

    /// Sends until the process ends, and then the remaining events.
    pub(super) async fn run(mut self, closing: CancellationToken) {
        let (mut pause, mut is_down) = (SOON, false);
        loop {
            pause = told(self.round().await, pause, &mut is_down);
            if !wait(pause, &closing).await {
                break;
            }
        }
        while !is_down && told(self.round().await, SOON, &mut is_down).is_zero() {}
    }

    async fn round(&mut self) -> Result<Round, StoreError> {
        let store = self.engine.store().clone();
        let after = std::mem::take(&mut self.from);
        let mut events = store.outbox(after, BATCH).await?;
        if after == 0 {
            self.held.begin(Instant::now());
        }
        let more = events.last().filter(|_| events.len() == BATCH as usize).map(|last| last.n);
        if (events.is_empty() && after == 0) || !self.is_ours(&store).await? {
            return Ok(Round::Idle);
        }
        if more.is_some() {
            self.add_others(&store, &mut events).await?;
        }
        let has_failed = AtomicBool::new(false);
        let groups = by_correlation(events).into_iter().filter(|(whose, _)| self.held.may_send(whose));
        let groups = by_turns(groups.collect(), |((tenant, _), _)| tenant.clone());
        let mut sending = stream::iter(groups)
            .map(async |(whose, events)| (whose, self.in_order(events, &has_failed).await))
            .buffer_unordered(SIDE_BY_SIDE);
        let (mut taken, mut ended) = (Vec::new(), Vec::new());
        while let Some((whose, (numbers, why))) = sending.next().await {
            taken.extend(numbers);
            ended.push((whose, why));
        }
        drop(sending);
        store.sent(&taken).await?;
        if has_failed.load(Ordering::Relaxed) {
            let why = ended.into_iter().find_map(|(_, why)| why).unwrap_or_default();
            return Ok(Round::Down(why));
        }
        for (whose, why) in ended {
            self.held.note(whose, why.as_deref(), Instant::now());
        }
        self.from = more.unwrap_or(0);
        if more.is_none() {
            self.held.end();
        }
        Ok(match (more, self.held.why()) {
            (Some(_), _) => Round::More { took: !taken.is_empty() },
            (None, Some(why)) => Round::Partly(why.to_owned()),
            (None, None) => Round::Sent,
        })
    }

    /// Adds the oldest events of tenants that are not on a full page.
    async fn add_others(&mut self, store: &Store, events: &mut Vec<Outgoing>) -> Result<(), StoreError> {
        if self.looked_beside.is_some_and(|looked| looked.elapsed() < BESIDE_EVERY) {
            return Ok(());
        }
        self.looked_beside = Some(Instant::now());
        for _ in 0..BESIDE {
            let known: BTreeSet<&Tenant> = events.iter().map(|event| &event.tenant).collect();
            let known: Vec<Tenant> = known.into_iter().cloned().collect();
            let others = store.outbox_beside(&known, BATCH).await?;
            let is_all = others.len() < BATCH as usize;
            events.extend(others);
            if is_all {
                break;
            }
        }
        Ok(())
    }

    /// Sends the events of one correlation id; answers those that need not be sent again, and why the next was not taken.
    async fn in_order(&self, events: Vec<Outgoing>, has_failed: &AtomicBool) -> (Vec<i64>, Option<String>) {
        let mut taken = Vec::new();
        for event in events {
            if has_failed.load(Ordering::Relaxed) {
                break;
            }
            match self.send(&event).await {
                Delivery::Yes => taken.push(event.n),
                Delivery::Never(status) => {
                    let (kind, correlation) = (&event.event.kind, &event.event.correlation);
                    tracing::warn!(
                        status,
                        kind,
                        correlation_id = correlation,
                        "the context service refuses an event: it is given up"
                    );
                    taken.push(event.n);
                }
                Delivery::NotThis(why) => return (taken, Some(why)),
                Delivery::NotNow(why) => {
                    has_failed.store(true, Ordering::Relaxed);
                    return (taken, Some(why));
                }
            }
        }
        (taken, None)
    }

    async fn send(&self, Outgoing { n, event, .. }: &Outgoing) -> Delivery {
        let (key, body) = written(*n, event);
        let posting = self.connection.post(
            "/events",
            &key,
            Default::default(),
            body,
            ANSWER_BYTES,
            CallPermit::default(),
        );
        match timeout(PATIENCE, posting).await {
            Err(_elapsed) => Delivery::NotNow(format!("it did not answer within {} s", PATIENCE.as_secs())),
            Ok(Err(broken)) => Delivery::NotNow(broken.to_string()),
            Ok(Ok(answer)) => answered(answer.status),
        }
    }

    /// Whether this process sends: no other does, or the one that did is gone.
    async fn is_ours(&self, store: &Store) -> Result<bool, StoreError> {
        let (tenant, me, now) = (Tenant::local(), self.engine.owner(), SystemClock.now());
        let mut known = store.key(&tenant, ROUTE, KEY, now).await?;
        if known.is_none() {
            let expires_at = Timestamp(now.0 + FOR_EVER_MS);
            let (route, key, body_hash) = (ROUTE.to_owned(), KEY.to_owned(), String::new());
            let new = NewKey { route, key, body_hash, expires_at };
            known = store.begin_key(&tenant, &new, None, Some(me), now).await?;
        }
        match known.map(|row| row.owner) {
            None => Ok(true),
            Some(Some(owner)) if owner == me => Ok(true),
            Some(Some(owner)) if !store.is_alive(owner).await => {
                store.retake_key(&tenant, ROUTE, KEY, owner, me).await
            }
            Some(_) => Ok(false),
        }
    }
}

/// The key and the body of an event: the very text whose digest the chain holds, so that it is written only once.
fn written(n: i64, event: &AuditEvent) -> (String, Vec<u8>) {
    let body = event.body().into_bytes();
    let digest = sha256_hex(&body);
    (format!("{}-{n}", digest.get(..32).unwrap_or(&digest)), body)
}

/// The meaning of a status: for this event alone, or for all of them.
fn answered(status: u16) -> Delivery {
    match status {
        200..=299 => Delivery::Yes,
        400 | 413 | 415 | 422 => Delivery::Never(status),
        401 | 403 => Delivery::NotNow(format!("it does not accept our token (status {status})")),
        429 | 503 => Delivery::NotNow(format!("it answers with status {status}")),
        _ => Delivery::NotThis(format!("it answers with status {status}")),
    }
}

/// How long to wait after a round. It is logged once that the service goes down, and once that it is back.
fn told(round: Result<Round, StoreError>, pause: Duration, is_down: &mut bool) -> Duration {
    match round {
        Ok(Round::More { took: true }) => Duration::ZERO,
        Ok(Round::More { took: false }) => SOON, // the whole page waits: no hurry
        Ok(Round::Sent) => {
            if std::mem::take(is_down) {
                tracing::warn!("the context service takes events again");
            }
            SOON
        }
        Ok(Round::Idle) => (pause * 2).clamp(SOON, SELDOM),
        Ok(Round::Partly(why)) => {
            if !std::mem::replace(is_down, true) {
                tracing::warn!(why, "the context service does not take every event; those wait");
            }
            (pause * 2).clamp(SOON, SELDOM) // the others go on
        }
        Ok(Round::Down(why)) => {
            if !std::mem::replace(is_down, true) {
                tracing::warn!(why, "the context service takes no events; they wait");
            }
            (pause * 2).clamp(SOON, DOWN)
        }
        Err(error) => {
            tracing::debug!(%error, "events wait: the store does not answer");
            SELDOM
        }
    }
}

/// The events of each correlation id, in order.
fn by_correlation(events: Vec<Outgoing>) -> Vec<(Whose, Vec<Outgoing>)> {
    let mut places: HashMap<Whose, usize> = HashMap::new();
    let mut groups: Vec<(Whose, Vec<Outgoing>)> = Vec::new();
    for event in events {
        let whose = (event.tenant.clone(), event.event.correlation.clone());
        let place = *places.entry(whose.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, group)) => group.push(event),
            None => groups.push((whose, vec![event])),
        }
    }
    groups
}

#[cfg(test)]
mod tests;
