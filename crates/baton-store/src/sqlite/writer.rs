//! The one thread that writes.
//!
//! Jobs queue up while it commits; it takes what is there, at most [`BATCH`], into one transaction. Each
//! job has a savepoint, so one that is refused harms no neighbour, and each is acknowledged only after
//! the commit of all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::live::Turnstile;
use super::migrate::OpenError;
use crate::error::StoreError;
use crate::failpoint;

const BATCH: usize = 64;

/// What a job leaves to be done once the commit is known: telling its caller.
type Answer = Box<dyn FnOnce(Result<(), StoreError>) + Send>;
/// A write; says whether it wants to be kept, and how to answer.
type Job = Box<dyn FnOnce(&Connection) -> (bool, Answer) + Send>;

/// A handle to the writing thread, which ends with its last handle.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: Sender<Job>,
}

impl Writer {
    pub(super) fn begin(db: Connection, folder: &Path) -> Result<Writer, OpenError> {
        let (jobs, queue) = channel::<Job>();
        let turnstile = Turnstile::open(folder)?;
        let work = move || write_all(&db, &turnstile, &queue);
        std::thread::Builder::new().name("baton-writer".to_owned()).spawn(work)?;
        Ok(Writer { jobs })
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |db| {
            let result = job(db);
            let keep = result.is_ok();
            let reply: Answer = Box::new(move |committed| {
                // Whoever asked may be gone; what was written stays written.
                let _ = answer.send(result.and_then(|value| committed.map(|()| value)));
            });
            (keep, reply)
        });
        let gone = || StoreError::Unavailable("the writer has stopped".to_owned());
        self.jobs.send(job).map_err(|_| gone())?;
        answered.await.map_err(|_| StoreError::Ambiguous("the writer stopped".to_owned()))?
    }
}

fn write_all(db: &Connection, turnstile: &Turnstile, queue: &Receiver<Job>) {
    while let Ok(first) = queue.recv() {
        let mut batch = vec![first];
        let turn = turnstile.enter();
        while batch.len() < BATCH {
            match queue.try_recv() {
                Ok(job) => batch.push(job),
                Err(_) => break,
            }
        }
        let mut answers = Vec::with_capacity(batch.len());
        let committed = match turn {
            Ok(_turn) => write_batch(db, batch, &mut answers),
            Err(error) => Err(StoreError::Unavailable(format!("the turnstile: {error}"))),
        };
        for answer in answers {
            answer(committed.clone());
        }
    }
}

fn write_batch(db: &Connection, batch: Vec<Job>, answers: &mut Vec<Answer>) -> Result<(), StoreError> {
    let done = try_batch(db, batch, answers);
    if let Err(error) = &done {
        // A full disk is undone here; an fsync that failed may have reached the disk or not.
        let _ = db.execute_batch("ROLLBACK");
        return Err(StoreError::Ambiguous(error.to_string()));
    }
    Ok(())
}

fn try_batch(db: &Connection, batch: Vec<Job>, answers: &mut Vec<Answer>) -> rusqlite::Result<()> {
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    for job in batch {
        db.prepare_cached("SAVEPOINT member")?.execute([])?;
        // A job that panics is a fault of ours: it harms its own caller, not the writer and its neighbours.
        let done = catch_unwind(AssertUnwindSafe(|| job(db)));
        let keep = done.as_ref().is_ok_and(|(keep, _)| *keep);
        answers.extend(done.ok().map(|(_, answer)| answer));
        if !keep {
            db.prepare_cached("ROLLBACK TO member")?.execute([])?;
        }
        db.prepare_cached("RELEASE member")?.execute([])?;
    }
    failpoint::point("store.pre_commit");
    db.prepare_cached("COMMIT")?.execute([])?;
    failpoint::point("store.post_commit");
    Ok(())
}
