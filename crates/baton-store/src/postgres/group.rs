//! The hot writes, committed together where several wait.
//!
//! A few workers, each with a connection of its own, share one queue. A worker takes what has queued up: one
//! statement alone goes alone; several go as one transaction in one round trip, ordered by run so that two
//! groups never wait for each other, and each is acknowledged after the commit of all. There is no timer:
//! waiting for more would make groups larger and the whole slower.
//!
//! A statement that is refused answers no row, which is no error and harms nobody. If one fails, its group is
//! undone and repeated one by one, the one that failed last. If the connection breaks, whoever may have been
//! committed is told that nobody knows, and whoever was not sent that nothing was written.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use baton_core::id::RunId;
use futures_util::{StreamExt, pin_mut};
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use uuid::Uuid;

use super::connect::{ANSWER, Dial, PROBE};
use super::statement::Form;
use super::{Param, SILENT, fault};
use crate::error::StoreError;
use crate::failpoint;

/// How many statements a group has at most.
const MOST: usize = 64;
/// A connection that was idle so long is asked whether it still is one: a statement cannot be repeated.
const IDLE: Duration = Duration::from_secs(2);
/// How long a worker waits before it connects again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// A row that somebody holds for long makes the rest of its group wait no longer than this.
const SESSION: &str = "SET lock_timeout = '2s'";

/// One statement, and whoever waits for it.
pub(super) struct Member {
    form: Form,
    run: Uuid,
    values: Vec<Param>,
    answer: oneshot::Sender<Result<Done, Failed>>,
    answered: Option<oneshot::Receiver<Result<Done, Failed>>>,
}

/// What a statement did.
#[derive(Debug)]
pub(super) struct Done {
    /// How many rows it wrote: none if it was refused.
    pub(super) changed: u64,
    /// What it returned.
    pub(super) rows: Vec<Row>,
}

/// Why a statement did nothing, or may have done something.
#[derive(Debug, Clone)]
pub(super) enum Failed {
    /// A row of the same key is there.
    Taken(String),
    /// Anything else.
    Other(StoreError),
}

impl From<Failed> for StoreError {
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Taken(why) => StoreError::Unavailable(why),
            Failed::Other(error) => error,
        }
    }
}

impl Member {
    pub(super) fn new(form: Form, run: RunId, values: Vec<Param>) -> Member {
        let (answer, answered) = oneshot::channel();
        Member { form, run: run.0, values, answer, answered: Some(answered) }
    }

    fn tell(self, result: Result<Done, Failed>) {
        // Whoever asked may be gone; what was written stays written.
        let _ = self.answer.send(result);
    }
}

/// The queue and its workers, which end with it.
#[derive(Debug)]
pub(super) struct Group {
    queue: Arc<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
}

#[derive(Default)]
struct Waiting {
    members: VecDeque<Member>,
    closed: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.lock().members.len()).finish()
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whatever waits, at most [`MOST`]; none once the store is gone.
    async fn take(&self) -> Option<Vec<Member>> {
        loop {
            let arrived = self.arrived.notified();
            {
                let mut waiting = self.lock();
                if !waiting.members.is_empty() {
                    let most = waiting.members.len().min(MOST);
                    return Some(waiting.members.drain(..most).collect());
                }
                if waiting.closed {
                    return None;
                }
            }
            arrived.await;
        }
    }
}

impl Group {
    pub(super) fn begin(dial: &Dial, workers: usize) -> Group {
        let queue = Arc::new(Queue::default());
        for _ in 0..workers.max(1) {
            tokio::spawn(work(Worker::new(dial.clone()), queue.clone()));
        }
        Group { queue }
    }

    /// Has a statement written; it is answered after its commit.
    pub(super) async fn run(&self, mut member: Member) -> Result<Done, Failed> {
        let gone = || Failed::Other(StoreError::Ambiguous("the writer stopped".to_owned()));
        let answered = member.answered.take().ok_or_else(gone)?;
        self.queue.lock().members.push_back(member);
        self.queue.arrived.notify_one();
        answered.await.map_err(|_| gone())?
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.queue.lock().closed = true;
        self.queue.arrived.notify_waiters();
    }
}

async fn work(mut worker: Worker, queue: Arc<Queue>) {
    while let Some(mut members) = queue.take().await {
        members.sort_by_key(|member| member.run);
        worker.write(members).await;
    }
}

/// One connection, and when to try for another.
struct Worker {
    dial: Dial,
    link: Option<Link>,
    pause: Duration,
    not_before: Instant,
}

struct Link {
    client: Client,
    served: JoinHandle<()>,
    prepared: HashMap<Form, Statement>,
    used: Instant,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.served.abort();
    }
}

impl Worker {
    fn new(dial: Dial) -> Worker {
        Worker { dial, link: None, pause: PAUSE.0, not_before: Instant::now() }
    }

    /// Writes members, which are sorted, and answers each.
    async fn write(&mut self, members: Vec<Member>) {
        // Until everything is prepared nothing is sent, so a broken connection costs only another one.
        let mut ready = self.ready(&members).await;
        if ready.is_err() {
            ready = self.ready(&members).await;
        }
        let Some(link) = self.link.as_mut().filter(|_| ready.is_ok()) else {
            let why = ready.err().unwrap_or_default();
            return tell_all(members, &StoreError::Unavailable(why));
        };
        let broken = match members.len() {
            1 => one_by_one(link, members).await,
            _ => together(link, members).await,
        };
        link.used = Instant::now();
        if broken {
            self.link = None;
        }
    }

    /// Sees to it that there is a connection and that it knows what is to be written.
    async fn ready(&mut self, members: &[Member]) -> Result<(), String> {
        let mut link = match self.link.take() {
            Some(link) if is_alive(&link).await => link,
            _ => self.connect().await?,
        };
        for member in members {
            if link.prepared.contains_key(&member.form) {
                continue;
            }
            let prepared = timeout(ANSWER, link.client.prepare(&member.form.sql())).await;
            let statement = prepared.map_err(|_| SILENT.to_owned())?.map_err(|e| fault::said(&e))?;
            link.prepared.insert(member.form, statement);
        }
        self.link = Some(link);
        Ok(())
    }

    async fn connect(&mut self) -> Result<Link, String> {
        tokio::time::sleep_until(self.not_before.into()).await;
        let connected = async {
            let (client, served) = self.dial.connect().await?;
            let link = Link { client, served, prepared: HashMap::new(), used: Instant::now() };
            link.client.batch_execute(SESSION).await.map_err(|error| fault::said(&error))?;
            Ok(link)
        };
        let connected = connected.await;
        if connected.is_ok() {
            self.pause = PAUSE.0;
        } else {
            self.not_before = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(PAUSE.1);
        }
        connected
    }
}

async fn is_alive(link: &Link) -> bool {
    if link.client.is_closed() {
        return false;
    }
    link.used.elapsed() < IDLE || matches!(timeout(PROBE, link.client.check_connection()).await, Ok(Ok(())))
}

fn tell_all(members: impl IntoIterator<Item = Member>, error: &StoreError) {
    for member in members {
        member.tell(Err(Failed::Other(error.clone())));
    }
}

/// Writes members each on its own; true if the connection cannot be used any more.
async fn one_by_one(link: &Link, members: Vec<Member>) -> bool {
    let mut members = members.into_iter();
    while let Some(member) = members.next() {
        failpoint::point("store.pre_commit");
        let result = timeout(ANSWER, send(link, &member)).await;
        failpoint::point("store.post_commit");
        let lost = match result {
            Ok(Ok(done)) => {
                member.tell(Ok(done));
                continue;
            }
            Ok(Err(error)) if fault::is_certain(&error) => {
                member.tell(Err(failed(&error)));
                continue;
            }
            Ok(Err(error)) => fault::said(&error),
            Err(_) => SILENT.to_owned(),
        };
        member.tell(Err(Failed::Other(StoreError::Ambiguous(lost.clone()))));
        tell_all(members, &StoreError::Unavailable(lost));
        return true;
    }
    false
}

/// Writes members in one transaction and one round trip; true if the connection cannot be used any more.
async fn together(link: &Link, mut members: Vec<Member>) -> bool {
    failpoint::point("store.pre_commit");
    let answers = timeout(ANSWER, transaction(link, &members)).await;
    failpoint::point("store.post_commit");
    let Ok((results, committed)) = answers else {
        tell_all(members, &StoreError::Ambiguous(SILENT.to_owned()));
        return true;
    };
    // The server said of one that it failed, so it committed none: what those after it were told follows from it.
    if let Some(first) = results.iter().position(|result| result.as_ref().is_err_and(fault::is_certain)) {
        if committed.is_err() {
            tell_all(members, &StoreError::Unavailable("the connection broke".to_owned()));
            return true;
        }
        let failed = members.remove(first);
        members.push(failed);
        return one_by_one(link, members).await;
    }
    let lost = results.iter().find_map(|result| result.as_ref().err()).or(committed.as_ref().err());
    if let Some(error) = lost {
        let certain = committed.as_ref().is_err_and(fault::is_certain);
        let said = fault::said(error);
        let error = if certain { StoreError::Unavailable(said) } else { StoreError::Ambiguous(said) };
        tell_all(members, &error);
        return !certain;
    }
    for (member, result) in members.into_iter().zip(results) {
        member.tell(result.map_err(|error| failed(&error)));
    }
    false
}

type Answer<T> = Result<T, tokio_postgres::Error>;

/// Sends BEGIN, all members and COMMIT before anything is answered.
async fn transaction(link: &Link, members: &[Member]) -> (Vec<Answer<Done>>, Answer<()>) {
    use futures_util::future::{MaybeDone, maybe_done};
    let begin = maybe_done(link.client.batch_execute("BEGIN"));
    let commit = maybe_done(link.client.batch_execute("COMMIT"));
    pin_mut!(begin, commit);
    let mut sent: Vec<_> = members.iter().map(|member| Box::pin(maybe_done(send(link, member)))).collect();
    // A request goes out when it is first polled: so all are, in order, each time.
    std::future::poll_fn(|cx| {
        let mut done = begin.as_mut().poll(cx).is_ready();
        for member in &mut sent {
            done &= member.as_mut().poll(cx).is_ready();
        }
        done &= commit.as_mut().poll(cx).is_ready();
        if done { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    let take = |mut sent: std::pin::Pin<Box<MaybeDone<_>>>| sent.as_mut().take_output();
    let results = sent.into_iter().filter_map(take).collect();
    let begun = begin.take_output().unwrap_or(Ok(()));
    let committed = commit.take_output().unwrap_or(Ok(()));
    (results, begun.and(committed))
}

async fn send(link: &Link, member: &Member) -> Answer<Done> {
    // It was prepared before anything was sent.
    let Some(statement) = link.prepared.get(&member.form) else {
        return Ok(Done { changed: 0, rows: Vec::new() });
    };
    let values = member.values.iter().map(|value| -> &(dyn ToSql + Sync) { &**value });
    let stream = link.client.query_raw(statement, values).await?;
    pin_mut!(stream);
    let mut rows = Vec::new();
    while let Some(row) = stream.next().await {
        rows.push(row?);
    }
    Ok(Done { changed: stream.rows_affected().unwrap_or(0), rows })
}

fn failed(error: &tokio_postgres::Error) -> Failed {
    if fault::is_taken(error) {
        return Failed::Taken(fault::said(error));
    }
    Failed::Other(fault::unavailable(error))
}

#[cfg(test)]
mod tests;
