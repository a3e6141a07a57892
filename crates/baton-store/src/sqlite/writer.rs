//! The writer: the one thread that writes.
//!
//! Jobs queue up while it commits; it takes those that wait, at most [`BATCH`], into one transaction. A job that is
//! refused does not affect the others, and each is acknowledged only after the commit of all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use rusqlite::Connection;
use rusqlite::hooks::Wal;
use tokio::sync::oneshot;

use super::migrate::OpenError;
use crate::error::StoreError;
use crate::failpoint;
use crate::turnstile::Turnstile;

const BATCH: usize = 64;
/// How many jobs run with savepoints after one failed halfway.
const CAREFUL: usize = 1024;
/// The number of pages in the log from which on they are moved into the file.
pub(super) const LONG_LOG: i32 = 1000;

/// The last part of a job, run once the commit is known: it answers the caller. The flag is
/// [`FinishedJob::has_company`].
type Answer = Box<dyn FnOnce(Result<(), StoreError>, bool) + Send>;
/// A write, given the database or the reason why there is none; returns whether its changes are kept, and its answer.
type Job = Box<dyn FnOnce(Result<&Connection, StoreError>) -> (bool, Answer) + Send>;

/// One finished job of a batch.
struct FinishedJob {
    answer: Answer,
    /// Whether an earlier job of the batch had written: if that is undone, the data that this one found may never have
    /// existed.
    has_company: bool,
}

/// A handle to the writer's thread, which ends with its last handle.
#[derive(Debug)]
pub(super) struct SqliteWriter {
    jobs: Sender<Job>,
}

impl SqliteWriter {
    pub(super) fn begin(mut db: Connection, folder: &Path) -> Result<SqliteWriter, OpenError> {
        let (jobs, queue) = channel::<Job>();
        let turnstile = Turnstile::open(folder)?;
        let log = Log::of(&mut db)?;
        let work = move || write_all(&db, &turnstile, &queue, &log);
        std::thread::Builder::new().name("baton-writer".to_owned()).spawn(work)?;
        Ok(SqliteWriter { jobs })
    }

    pub(super) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |db| {
            let result = db.and_then(job);
            let keep = result.is_ok();
            let reply: Answer = Box::new(move |committed, has_company| {
                let told = match (result, committed) {
                    (Ok(value), committed) => committed.map(|()| value),
                    // The reason for the refusal was undone with the rest: it named data that never existed.
                    (Err(refusal), Err(_)) if has_company && !refusal.is_transient() => Err(neighbour()),
                    (Err(error), _) => Err(error),
                };
                // The caller may be gone; its write stays.
                let _ = answer.send(told);
            });
            (keep, reply)
        });
        let gone = || StoreError::Unavailable("the writer has stopped".to_owned());
        self.jobs.send(job).map_err(|_| gone())?;
        answered.await.map_err(|_| StoreError::Ambiguous("the writer stopped".to_owned()))?
    }
}

/// The log that commits are appended to, and its length.
///
/// SQLite would empty it inside the commit that made it too long, and all callers in that commit would wait for that
/// work: here they have their answers first.
struct Log {
    pages: Arc<AtomicI32>,
}

impl Log {
    fn of(db: &mut Connection) -> rusqlite::Result<Log> {
        let pages = Arc::new(AtomicI32::new(0));
        let noted = pages.clone();
        // This replaces SQLite's own hook, which empties the log.
        db.wal_hook(Some(move |_: &mut Wal, pages| {
            noted.store(pages, Ordering::Relaxed);
            Ok(())
        }))?;
        Ok(Log { pages })
    }

    fn is_long(&self) -> bool {
        self.pages.load(Ordering::Relaxed) >= LONG_LOG
    }

    /// Moves its pages into the file. Pages that a reader still needs are left for the next time.
    fn empty(&self, db: &Connection) {
        if let Err(error) = db.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            tracing::warn!(%error, "the log could not be emptied: it grows until that works");
        }
    }
}

fn write_all(db: &Connection, turnstile: &Turnstile, queue: &Receiver<Job>, log: &Log) {
    let (mut careful, mut is_busy): (usize, bool) = (0, false);
    while let Ok(first) = queue.recv() {
        if is_busy {
            // Threads that wait for a processor go first, and bring more to write; if there are none, this costs
            // nothing.
            std::thread::yield_now();
        }
        let turn = match turnstile.enter() {
            Ok(turn) => turn,
            Err(error) => {
                refuse(std::iter::once(first).chain(queue.try_iter()), &error.into());
                continue;
            }
        };
        // The batch takes all jobs that have queued up. Waiting for more by the clock makes batches larger and the
        // whole slower: then no caller works while the disk does.
        let mut batch = vec![first];
        batch.extend(queue.try_iter().take(BATCH - 1));
        is_busy = batch.len() > 1;
        let mut members = Vec::with_capacity(batch.len());
        let savepoints = careful > 0;
        careful = careful.saturating_sub(batch.len());
        let committed = write_batch(db, batch, savepoints, &mut members);
        if let Err(BatchError::Member) = committed {
            careful = CAREFUL;
        }
        // The turn is given back before the callers are answered, so that a process that is stopped after this point
        // keeps no other from writing. It is kept only to empty the log, because while others write the log is never
        // empty.
        let kept = (committed.is_ok() && log.is_long()).then_some(turn);
        for member in members {
            let committed = committed.as_ref().copied().map_err(BatchError::as_error);
            (member.answer)(committed, member.has_company);
        }
        if kept.is_some() {
            log.empty(db);
        }
    }
}

/// Refuses all jobs that wait for a write: they have all waited for the same turn.
fn refuse(jobs: impl Iterator<Item = Job>, error: &StoreError) {
    for job in jobs {
        let (_, answer) = job(Err(error.clone()));
        answer(Err(error.clone()), false);
    }
}

/// Why a batch was not committed.
#[derive(Debug)]
enum BatchError {
    /// One of its jobs failed after it had written something: all of it was undone.
    Member,
    /// SQLite or the system reported an error.
    Batch(StoreError),
}

impl BatchError {
    fn as_error(&self) -> StoreError {
        match self {
            BatchError::Member => neighbour(),
            BatchError::Batch(error) => error.clone(),
        }
    }
}

impl From<rusqlite::Error> for BatchError {
    fn from(error: rusqlite::Error) -> Self {
        BatchError::Batch(error.into())
    }
}

fn neighbour() -> StoreError {
    StoreError::Unavailable("a neighbour in the same commit failed".to_owned())
}

fn write_batch(
    db: &Connection,
    batch: Vec<Job>,
    savepoints: bool,
    members: &mut Vec<FinishedJob>,
) -> Result<(), BatchError> {
    let mut jobs = batch.into_iter();
    let done = try_batch(db, &mut jobs, savepoints, members);
    if let Err(failed) = &done {
        let _ = db.execute_batch("ROLLBACK");
        let left = match failed {
            BatchError::Batch(StoreError::Ambiguous(why)) => StoreError::Unavailable(why.clone()),
            BatchError::Batch(error) => error.clone(),
            BatchError::Member => neighbour(),
        };
        refuse(jobs, &left);
    }
    done
}

/// Runs the jobs and commits. If that fails, all must be undone, and the remaining jobs were not begun.
///
/// Jobs check before they write, so one that is refused has changed nothing. That makes a savepoint for each job
/// unnecessary, which is a fifth of the cost; after a job that breaks this rule, the next jobs have savepoints.
fn try_batch(
    db: &Connection,
    jobs: &mut impl Iterator<Item = Job>,
    savepoints: bool,
    members: &mut Vec<FinishedJob>,
) -> Result<(), BatchError> {
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let begun = db.total_changes();
    let mut whole = true;
    for job in jobs {
        if savepoints {
            db.prepare_cached("SAVEPOINT member")?.execute([])?;
        }
        let before = db.total_changes();
        // A job that panics is a bug: it affects its own caller, not the writer.
        let done = catch_unwind(AssertUnwindSafe(|| job(Ok(db))));
        let keep = done.as_ref().is_ok_and(|(keep, _)| *keep);
        let member = |(_, answer)| FinishedJob { answer, has_company: before != begun };
        members.extend(done.ok().map(member));
        if db.is_autocommit() {
            return Err(BatchError::Member); // a full disk can make SQLite undo everything by itself: no job may follow
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
        return Err(BatchError::Member);
    }
    failpoint::point("store.pre_commit");
    db.prepare_cached("COMMIT")?.execute([]).map_err(uncommitted)?;
    failpoint::point("store.post_commit");
    Ok(())
}

/// The error of a commit that failed. The frame that makes it count is written last and whole, so on a full disk it is
/// not there; a failed fsync may have reached the disk or not.
fn uncommitted(error: rusqlite::Error) -> BatchError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => error.into(),
        _ => BatchError::Batch(StoreError::Ambiguous(error.to_string())),
    }
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

    /// SQLite undoes a transaction by itself when the disk is full in the middle of a statement: the earlier jobs are
    /// gone, and the later ones must not be written on their own.
    #[tokio::test]
    async fn a_disk_that_is_full_half_way_undoes_the_whole_batch() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("live")).unwrap();
        let db = super::super::connect(&folder.path().join("x.db")).unwrap();
        db.execute_batch("CREATE TABLE t (x); PRAGMA max_page_count = 64; PRAGMA cache_size = 4").unwrap();
        let writer = SqliteWriter::begin(db, folder.path()).unwrap();
        let (go, wait) = channel::<()>();
        let hold = writer.run(move |_| wait.recv().map_err(|e| StoreError::Unavailable(e.to_string())));
        let all = async { go.send(()).unwrap() };
        // These three are one batch, whether or not it includes the job that holds them up.
        let (_, before, full, after, ()) = tokio::join!(
            hold,
            writer.run(insert(10)),
            writer.run(insert(1 << 20)),
            writer.run(insert(10)),
            all
        );
        assert!(before.unwrap_err().is_transient() && after.unwrap_err().is_transient());
        assert_eq!(full, Err(StoreError::full()));
        let count =
            |db: &Connection| Ok(db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))?);
        assert_eq!(writer.run(count).await, Ok(0), "nothing of the batch is there");
        assert_eq!(
            (writer.run(insert(10)).await, writer.run(count).await),
            (Ok(()), Ok(1)),
            "and it goes on"
        );
    }

    /// The second job finds the row of the first, and refuses; then both are undone because of the third.
    #[tokio::test]
    async fn a_refusal_because_of_what_was_undone_is_none() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("live")).unwrap();
        let db = super::super::connect(&folder.path().join("x.db")).unwrap();
        db.execute_batch("CREATE TABLE t (x)").unwrap();
        let writer = SqliteWriter::begin(db, folder.path()).unwrap();
        let only_one = |db: &Connection| -> Result<(), StoreError> {
            match db.query_row("SELECT count(*) FROM t", [], |row| row.get::<_, i64>(0))? {
                0 => insert(10)(db),
                _ => Err(StoreError::Exists { what: "row", id: "x".to_owned() }),
            }
        };
        let alone = |_: &Connection| -> Result<(), StoreError> { Err(StoreError::not_found("row", "y")) };
        let fails = |db: &Connection| -> Result<(), StoreError> {
            insert(10)(db)?;
            Err(StoreError::not_found("sense", "it"))
        };
        let (busy, is_busy) = channel::<()>();
        let (go, wait) = channel::<()>();
        let hold = writer.run(move |_| {
            let _ = busy.send(());
            wait.recv().map_err(|e| StoreError::Unavailable(e.to_string()))
        });
        let all = async {
            tokio::task::yield_now().await; // all of them are queued behind the job that holds them up
            is_busy.recv().unwrap();
            go.send(()).unwrap();
        };
        let (_, alone, first, second, failed, ()) = tokio::join!(
            hold,
            writer.run(alone),
            writer.run(only_one),
            writer.run(only_one),
            writer.run(fails),
            all
        );
        assert_eq!(alone, Err(StoreError::not_found("row", "y")), "its reason is still there");
        assert_eq!((first, second), (Err(neighbour()), Err(neighbour())));
        assert_eq!(failed, Err(neighbour()), "asked again, it says why by itself");
        assert_eq!(writer.run(only_one).await, Ok(()), "there is none");
    }

    #[tokio::test]
    async fn a_log_is_emptied_before_it_gets_much_longer_than_it_may() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("live")).unwrap();
        let path = folder.path().join("x.db");
        let db = super::super::connect(&path).unwrap();
        db.execute_batch("CREATE TABLE t (x)").unwrap();
        let writer = SqliteWriter::begin(db, folder.path()).unwrap();
        let pages = |file: &str| std::fs::metadata(folder.path().join(file)).unwrap().len() / 8192;
        let quarter = LONG_LOG as usize / 4 * 8192;
        for _ in 0..12 {
            writer.run(insert(quarter)).await.unwrap();
        }
        writer.run(|_| Ok(())).await.unwrap(); // the log is emptied after the answer
        assert!(pages("x.db") >= 2 * LONG_LOG as u64, "{} pages are in the file", pages("x.db"));
        assert!(pages("x.db-wal") < 3 * LONG_LOG as u64 / 2, "the log has room for {}", pages("x.db-wal"));
    }

    #[tokio::test]
    async fn a_job_that_fails_half_way_or_panics_harms_only_the_batch_it_is_in() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("live")).unwrap();
        let db = super::super::connect(&folder.path().join("x.db")).unwrap();
        db.execute_batch("CREATE TABLE t (x)").unwrap();
        let writer = SqliteWriter::begin(db, folder.path()).unwrap();
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
