//! The hot writes, committed together where several wait (group commit).
//!
//! A few workers, each with a connection of its own, share one queue. A worker takes all queued writes and commits
//! those of a kind as one transaction in one round trip, with one statement for each kind, and the rest as another,
//! each ordered by run so that no two transactions wait for each other ([`plan`]). Each write is acknowledged after the
//! commit of its transaction. A write never waits for more to come, only for another group that is being written
//! ([`queue`]).
//!
//! A refused write returns no row, which is no error and affects no other. If a write fails, its group is rolled back
//! and repeated one by one, the failed one last where it is known. If the connection breaks, writes that may have been
//! committed are reported as ambiguous, and writes that were not sent as not written.

pub(super) mod link;
mod plan;
mod queue;
mod work;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_postgres::Row;

use super::connect::{ANSWER, Dial};
use super::{SILENT, fault};
use crate::error::StoreError;
use crate::failpoint;
use link::{Answer, Link};
use plan::{BatchStage, Planned, plan, stages};
use queue::WriteQueue;
pub(super) use work::Work;

/// The pause of a worker before it connects again: at first, and at most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// A queued write, and the channel to its caller.
struct QueuedWrite {
    work: Work,
    answer: oneshot::Sender<Result<Done, WriteError>>,
}

/// The result of a statement.
#[derive(Debug)]
pub(super) struct Done {
    /// The number of rows that it wrote: 0 if it was refused.
    pub(super) changed: u64,
    /// The rows that it returned.
    pub(super) rows: Vec<Row>,
}

/// The error of a write that did nothing, or may have been done.
#[derive(Debug, Clone)]
pub(super) enum WriteError {
    /// A row with the same key exists.
    Taken(String),
    /// Any other error.
    Other(StoreError),
}

impl From<WriteError> for StoreError {
    fn from(failed: WriteError) -> Self {
        match failed {
            WriteError::Taken(why) => StoreError::Unavailable(why),
            WriteError::Other(error) => error,
        }
    }
}

impl QueuedWrite {
    fn tell(self, result: Result<Done, WriteError>) {
        // The caller may be gone; its write stays.
        let _ = self.answer.send(result);
    }
}

/// The queue and its workers, which end when it is dropped.
#[derive(Debug)]
pub(super) struct GroupCommit {
    queue: Arc<WriteQueue>,
}

impl GroupCommit {
    pub(super) fn begin(dial: &Dial, workers: usize) -> GroupCommit {
        let queue = Arc::new(WriteQueue::of(workers.max(1)));
        for n in 0..workers.max(1) {
            tokio::spawn(work(n, Worker::new(dial.clone()), queue.clone()));
        }
        GroupCommit { queue }
    }

    /// Queues a statement; returns its result after its commit.
    pub(super) async fn run(&self, work: Work) -> Result<Done, WriteError> {
        let gone = || WriteError::Other(StoreError::Ambiguous("the writer stopped".to_owned()));
        let (answer, answered) = oneshot::channel();
        self.queue.push(QueuedWrite { work, answer });
        answered.await.map_err(|_| gone())?
    }
}

impl Drop for GroupCommit {
    fn drop(&mut self) {
        self.queue.close();
    }
}

async fn work(n: usize, mut worker: Worker, queue: Arc<WriteQueue>) {
    while let Some((members, _turn)) = queue.take(n).await {
        for (stage, members) in stages(members) {
            worker.write(stage, members).await;
        }
    }
}

/// A worker: one connection, and the time before which it does not connect again.
struct Worker {
    dial: Dial,
    link: Option<Link>,
    pause: Duration,
    not_before: Instant,
}

impl Worker {
    fn new(dial: Dial) -> Worker {
        Worker { dial, link: None, pause: PAUSE.0, not_before: Instant::now() }
    }

    /// Writes members, which are sorted, and answers each caller.
    async fn write(&mut self, stage: BatchStage, members: Vec<QueuedWrite>) {
        let planned = plan(stage, &members);
        // Nothing is sent until everything is prepared, so a broken connection costs only a reconnection.
        let mut ready = self.ready(&planned).await;
        if ready.is_err() {
            ready = self.ready(&planned).await;
        }
        let Some(link) = self.link.as_mut().filter(|_| ready.is_ok()) else {
            let why = ready.err().unwrap_or_default();
            drop(planned);
            return tell_all(members, &StoreError::Unavailable(why));
        };
        let came = together(link, &members, &planned).await;
        drop(planned);
        let broken = match came {
            Came::Written(done) => {
                members.into_iter().zip(done).for_each(|(member, done)| member.tell(Ok(done)));
                false
            }
            Came::Undone { error, .. } if members.len() == 1 => {
                members.into_iter().for_each(|member| member.tell(Err(error.clone())));
                false
            }
            Came::Undone { failed, .. } => one_by_one(link, put_last(members, failed)).await,
            Came::Failed { error, broken } => {
                tell_all(members, &error);
                broken
            }
        };
        link.used = Instant::now();
        if broken {
            self.link = None;
        }
    }

    /// Makes sure that there is a connection and that it has all statements prepared.
    async fn ready(&mut self, planned: &[Planned<'_>]) -> Result<(), String> {
        let mut link = match live(self.link.take()).await {
            Some(link) => link,
            None => self.connect().await?,
        };
        for statement in planned {
            link.prepare(statement.form).await?;
        }
        self.link = Some(link);
        Ok(())
    }

    async fn connect(&mut self) -> Result<Link, String> {
        tokio::time::sleep_until(self.not_before.into()).await;
        let connected = Link::open(&self.dial).await;
        if connected.is_ok() {
            self.pause = PAUSE.0;
        } else {
            self.not_before = Instant::now() + self.pause;
            self.pause = (self.pause * 2).min(PAUSE.1);
        }
        connected
    }
}

async fn live(link: Option<Link>) -> Option<Link> {
    let mut link = link?;
    link.is_alive().await.then_some(link)
}

fn tell_all(members: impl IntoIterator<Item = QueuedWrite>, error: &StoreError) {
    for member in members {
        member.tell(Err(WriteError::Other(error.clone())));
    }
}

/// Writes each member on its own; true if the connection can no longer be used.
async fn one_by_one(link: &mut Link, members: Vec<QueuedWrite>) -> bool {
    let mut members = members.into_iter();
    while let Some(member) = members.next() {
        let (form, values) = member.work.statement();
        let prepared = link.prepare(form).await;
        if prepared.is_ok() {
            failpoint::point("store.pre_commit");
        }
        let result = match prepared {
            Ok(()) => timeout(ANSWER, link.send(form, values.all())).await,
            Err(why) => {
                drop(values);
                tell_all(std::iter::once(member).chain(members), &StoreError::Unavailable(why));
                return true;
            }
        };
        failpoint::point("store.post_commit");
        drop(values);
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
        member.tell(Err(WriteError::Other(StoreError::Ambiguous(lost.clone()))));
        tell_all(members, &StoreError::Unavailable(lost));
        return true;
    }
    false
}

/// The result of writing a group at once.
enum Came {
    /// All is committed, with the result of each member.
    Written(Vec<Done>),
    /// One failed, so nothing was written. `failed` is its position, where it is known.
    Undone { failed: Option<usize>, error: WriteError },
    /// It is either ambiguous whether anything was written, or certain that nothing was.
    Failed { error: StoreError, broken: bool },
}

/// Writes members in one transaction and one round trip.
async fn together(link: &mut Link, members: &[QueuedWrite], planned: &[Planned<'_>]) -> Came {
    failpoint::point("store.pre_commit");
    let answers = timeout(ANSWER, link.transaction(planned)).await;
    failpoint::point("store.post_commit");
    let Ok((results, committed)) = answers else {
        return Came::Failed { error: StoreError::Ambiguous(SILENT.to_owned()), broken: true };
    };
    // The server reported an error for one, so it committed none: the errors of those after it follow from that.
    let said_no = |(statement, result): (_, &Answer<Done>)| match result {
        Err(error) if fault::is_certain(error) => Some((statement, failed(error))),
        _ => None,
    };
    if let Some((statement, error)) = planned.iter().zip(&results).find_map(said_no) {
        if committed.is_err() {
            let error = StoreError::Unavailable("the connection broke".to_owned());
            return Came::Failed { error, broken: true };
        }
        return Came::Undone { failed: Planned::only(statement), error };
    }
    let lost = results.iter().find_map(|result| result.as_ref().err()).or(committed.as_ref().err());
    if let Some(error) = lost {
        let certain = committed.as_ref().is_err_and(fault::is_certain);
        let said = fault::said(error);
        let error = if certain { StoreError::Unavailable(said) } else { StoreError::Ambiguous(said) };
        return Came::Failed { error, broken: !certain };
    }
    let results = planned.iter().zip(results.into_iter().flatten());
    let mut done: Vec<_> = results.flat_map(|(planned, done)| planned.done(done, members)).collect();
    done.sort_unstable_by_key(|(place, _)| *place);
    Came::Written(done.into_iter().map(|(_, done)| done).collect())
}

/// Moves the member that failed to the end.
fn put_last(mut members: Vec<QueuedWrite>, failed: Option<usize>) -> Vec<QueuedWrite> {
    if let Some(failed) = failed {
        let failed = members.remove(failed);
        members.push(failed);
    }
    members
}

fn failed(error: &tokio_postgres::Error) -> WriteError {
    if fault::is_taken(error) {
        return WriteError::Taken(fault::said(error));
    }
    WriteError::Other(fault::unavailable(error))
}

#[cfg(test)]
mod tests;
