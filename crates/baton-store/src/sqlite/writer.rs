//! The one thread that writes.
//!
//! Jobs queue up while it commits; it takes what is there, at most [`BATCH`], into one transaction. One
//! that is refused harms no neighbour, and each is acknowledged only after the commit of all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::sync::oneshot;

use super::live::Turnstile;
use super::migrate::OpenError;
use crate::error::StoreError;
use crate::failpoint;

const BATCH: usize = 64;
/// How many jobs have savepoints after one failed half-way.
const CAREFUL: usize = 1024;
/// How many pages the log may have before they are moved to their places in the file.
pub(super) const LONG_LOG: i32 = 1000;

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
    pub(super) fn begin(mut db: Connection, folder: &Path) -> Result<Writer, OpenError> {
        let (jobs, queue) = channel::<Job>();
        let turnstile = Turnstile::open(folder)?;
        let log = Log::of(&mut db)?;
        let work = move || write_all(&db, &turnstile, &queue, &log);
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

/// The log that commits are appended to, and how long it is.
///
/// SQLite would empty it inside the commit that made it too long, and everybody in that commit would wait for what
/// is none of theirs: here they have their answers first.
struct Log {
    pages: Arc<AtomicI32>,
}

impl Log {
    fn of(db: &mut Connection) -> rusqlite::Result<Log> {
        let pages = Arc::new(AtomicI32::new(0));
        let noted = pages.clone();
        // This takes the place of SQLite's own hook, the one that empties it.
        db.wal_hook(Some(move |_: &mut Wal, pages| {
            noted.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Log { pages })
    }

    /// Moves what it holds into the file, if that is much. Where somebody still reads, the rest is for next time.
    fn empty(&self, db: &Connection) {
        if self.pages.load(Ordering::Relaxed) < LONG_LOG {
            return;
        }
        if let Err(error) = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(%error, "the log could not be emptied: it grows until that works");
        }
    }
}

fn write_all(db: &Connection, turnstile: &Turnstile, queue: &Receiver<Job>, log: &Log) {
    let (mut careful, mut is_busy): (usize, bool) = (0, false);
    while let Ok(first) = queue.recv() {
        if is_busy {
            // Whoever waits for a processor goes first, and brings more to write; if nobody does, this is nothing.
            std::thread::yield_now();
        }
        let turn = turnstile.enter();
        // Whatever has queued up meanwhile. Waiting for more by the clock makes batches larger and the whole
        // slower: then nobody works while the disk does.
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(BATCH - 1));
        is_busy = batch.len() > 1;
        let mut answers = Vec::with_capacity(batch.len());
        let savepoints = careful > 0;
        careful = careful.saturating_sub(batch.len());
        let committed = match &turn {
            Ok(_) => write_batch(db, batch, savepoints, &mut answers),
            Err(error) => Err(Failed::Batch(StoreError::Unavailable(format!("the turnstile: {error}")))),
        };
        if let Err(Failed::Member) = committed {
            careful = CAREFUL;
        }
        for answer in answers {
            answer(committed.as_ref().copied().map_err(Failed::as_error));
        }
        if committed.is_ok() {
            log.empty(db); // still in turn: while others write, it is never empty
        }
    }
}

/// Why a batch was not committed.
#[derive(Debug)]
enum Failed {
    /// One of its jobs failed after it had written something: all of it was undone.
    Member,
    /// SQLite or the system said no.
    Batch(StoreError),
}

impl Failed {
    fn as_error(&self) -> StoreError {
        match self {
            Failed::Member => StoreError::Unavailable("a neighbour in the same commit failed".to_owned()),
            Failed::Batch(error) => error.clone(),
        }
    }
}

fn write_batch(
    db: &Connection,
    batch: Vec<Job>,
    savepoints: bool,
    answers: &mut Vec<Answer>,
) -> Result<(), Failed> {
    let done = try_batch(db, batch, savepoints, answers);
    if let Ok(true) = done {
        return Ok(());
    }
    let _ = db.execute_batch("ROLLBACK");
    match done {
        Ok(_) => Err(Failed::Member),
        // A full disk is undone here; an fsync that failed may have reached the disk or not.
        Err(error) => Err(Failed::Batch(StoreError::Ambiguous(error.to_string()))),
    }
}

/// Runs the jobs and commits; false if one of them failed half-way, so that all must be undone.
///
/// Jobs check before they write, so one that is refused has changed nothing. That makes a savepoint for
/// each unnecessary, which is a fifth of the cost; where it turns out wrong, the next jobs have them.
fn try_batch(
    db: &Connection,
    batch: Vec<Job>,
    savepoints: bool,
    answers: &mut Vec<Answer>,
) -> rusqlite::Result<bool> {
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let mut whole = true;
    for job in batch {
        if savepoints {
            db.prepare_cached("SAVEPOINT member")?.execute([])?;
        }
        let before = db.total_changes();
        // A job that panics is a fault of ours: it harms its own caller, not the writer.
        let done = catch_unwind(AssertUnwindSafe(|| job(db)));
        let keep = done.as_ref().is_ok_and(|(keep, _)| *keep);
        answers.extend(done.ok().map(|(_, answer)| answer));
        if db.is_autocommit() {
            return Ok(false); // a full disk can make SQLite undo everything by itself: nothing may follow
        }
        if savepoints {
            if !keep {
                db.prepare_cached("ROLLBACK TO member")?.execute([])?;
            }
            db.prepare_cached("RELEASE member")?.execute([])?;
        } else if !keep && db.total_changes() != before {
            whole = false;
        }
    }
    if !whole {
        return Ok(false);
    }
    failpoint::point("store.pre_commit");
    db.prepare_cached("COMMIT")?.execute([])?;
    failpoint::point("store.post_commit");
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insert(bytes: usize) -> impl FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static {
        move |db| {
            db.execute("INSERT INTO t VALUES (zeroblob(?1))", [bytes as i64])?;
            Ok(())
        }
    }

    /// SQLite undoes a transaction by itself when the disk is full in the middle of a statement: what came
    /// before is gone, and what comes after must not be written on its own.
    #[tokio::test]
    async fn a_disk_that_is_full_half_way_undoes_the_whole_batch() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("live")).unwrap();
        let db = super::super::connect(&folder.path().join("x.db")).unwrap();
        db.execute_batch("CREATE TABLE t (x); PRAGMA max_page_count = 64; PRAGMA cache_size = 4").unwrap();
        let writer = Writer::begin(db, folder.path()).unwrap();
        let (go, wait) = channel::<()>();
        let hold = writer.run(move |_| wait.recv().map_err(|e| StoreError::Unavailable(e.to_string())));
        let all = async { go.send(()).unwrap() };
        // Whether or not the one that holds them up is part of it, these three are one batch.
        let (_, before, full, after, ()) = tokio::join!(
            hold,
            writer.run(insert(10)),
            writer.run(insert(1 << 20)),
            writer.run(insert(10)),
            all
        );
        assert!(before.unwrap_err().is_transient() && after.unwrap_err().is_transient());
        assert_eq!(full, Err(StoreError::Unavailable("the disk is full".to_owned())));
        let count =
            |db: &Connection| Ok(db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))?);
        assert_eq!(writer.run(count).await, Ok(0), "nothing of the batch is there");
        assert_eq!(
            (writer.run(insert(10)).await, writer.run(count).await),
            (Ok(()), Ok(1)),
            "and it goes on"
        );
    }

    #[tokio::test]
    async fn a_log_is_emptied_before_it_gets_much_longer_than_it_may() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("live")).unwrap();
        let path = folder.path().join("x.db");
        let db = super::super::connect(&path).unwrap();
        db.execute_batch("CREATE TABLE t (x)").unwrap();
        let writer = Writer::begin(db, folder.path()).unwrap();
        let pages = |file: &str| std::fs::metadata(folder.path().join(file)).unwrap().len() / 8192;
        let quarter = LONG_LOG as usize / 4 * 8192;
        for _ in 0..12 {
            writer.run(insert(quarter)).await.unwrap();
        }
        writer.run(|_| Ok(())).await.unwrap(); // it is emptied after the answer
        assert!(pages("x.db") >= 2 * LONG_LOG as u64, "{} pages are in the file", pages("x.db"));
        assert!(pages("x.db-wal") < 3 * LONG_LOG as u64 / 2, "the log has room for {}", pages("x.db-wal"));
    }

    #[tokio::test]
    async fn a_job_that_fails_half_way_or_panics_harms_only_the_batch_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("live")).unwrap();
        let db = super::super::connect(&folder.path().join("x.db")).unwrap();
        db.execute_batch("CREATE TABLE t (x)").unwrap();
        let writer = Writer::begin(db, folder.path()).unwrap();
        let halfway = |db: &Connection| -> Result<(), StoreError> {
            insert(10)(db)?;
            Err(StoreError::not_found("sense", "it"))
        };
        assert_eq!(writer.run(halfway).await, Err(StoreError::not_found("sense", "it")));
        let panics = |_: &Connection| -> Result<(), StoreError> { panic!("as told") };
        assert!(writer.run(panics).await.unwrap_err().is_transient());
        let count =
            |db: &Connection| Ok(db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))?);
        assert_eq!((writer.run(insert(10)).await, writer.run(count).await), (Ok(()), Ok(1)));
    }
}
