//! The writing end of a run: the state that an owner keeps of the run that it drives.

use baton_core::budget::Budget;
use baton_core::event::Event;
use baton_core::flow::{FlowRecord, Node};
use baton_core::id::{BranchName, FramePath, OwnerId, RunId, ThreadId};
use baton_core::run::RunStatus;
use baton_core::thread::{Entry, NewEntry, Tail};
use baton_store::{CHECKPOINT_VERSION, Checkpoint, Claimed, NewRun, RunHalt, Store, StoreError, Transition};
use serde_json::json;

use crate::values::{assistant, at, branch, definition, entry_id, run, tenant, thread, user, warning};

/// Keeps the position of a run, and makes its next transition.
#[derive(Debug, Clone)]
pub(crate) struct Pen {
    pub(crate) run: RunId,
    pub(crate) thread: ThreadId,
    pub(crate) branch: BranchName,
    pub(crate) lane: u32,
    pub(crate) epoch: u32,
    pub(crate) step: u32,
    pub(crate) head: i64,
    pub(crate) seq: u64,
}

impl Pen {
    /// The pen of a run that is about to begin at the end of a branch.
    pub(crate) async fn for_new(store: &Store, n: u128, on: (&str, &str)) -> Pen {
        let (thread, branch) = (thread(on.0), branch(on.1));
        let head = store.end(&tenant(), &thread, Some(&branch)).await.unwrap().head;
        Pen { run: run(n), thread, branch, lane: 0, epoch: 1, step: 0, head, seq: 0 }
    }

    /// Begins a run with one message and one event.
    pub(crate) async fn start(store: &Store, owner: OwnerId, n: u128, on: (&str, &str)) -> Pen {
        let mut pen = Pen::for_new(store, n, on).await;
        let first = pen.next(vec![user("go")], vec![warning("begun")]);
        pen.lane = store.start(&tenant(), pen.new_run(owner), first.clone()).await.unwrap();
        pen.written(&first);
        pen
    }

    /// The pen of an owner that claimed a run.
    pub(crate) fn of(claimed: &Claimed) -> Pen {
        let row = &claimed.row;
        Pen {
            run: row.id,
            thread: row.thread.clone(),
            branch: row.branch.clone(),
            lane: row.lane,
            epoch: row.epoch,
            step: row.step,
            head: row.head,
            seq: row.seq,
        }
    }

    pub(crate) fn new_run(&self, owner: OwnerId) -> NewRun {
        NewRun {
            owner,
            branch: self.branch.clone(),
            expected_head: self.head,
            after: None,
            definition: baton_store::PinnedDefinition::new(definition()),
            at: at(5),
            metadata: json!({"for": "tests"}),
            new_thread: None,
            lane: None,
            key: None,
            queued: false,
        }
    }

    /// The next transition: these entries, these events.
    pub(crate) fn next(&self, entries: Vec<Entry>, events: Vec<Event>) -> Transition {
        let step = self.step + 1;
        let head = self.head + entries.len() as i64;
        let id = |i: u128| entry_id((self.run.0.as_u128() << 64) + (u128::from(step) << 32) + i);
        let entries =
            (0..).zip(entries).map(|(i, entry)| NewEntry { id: id(i), at: at(20), entry }).collect();
        Transition {
            run: self.run,
            thread: self.thread.clone(),
            lane: self.lane,
            epoch: self.epoch,
            step,
            frame: FramePath::root(),
            entries,
            last_seq: self.seq + events.len() as u64,
            checkpoint: checkpoint(step, head, events),
            inbox: None,
            progress: false,
            asked: Vec::new(),
            settled: Vec::new(),
            audit: Vec::new(),
            rest: RunHalt::Running,
        }
    }

    /// The next transition of a run, with one more message.
    pub(crate) fn says(&self, text: &str) -> Transition {
        self.next(vec![assistant(text)], vec![warning(text)])
    }

    pub(crate) fn ends(&self, status: RunStatus) -> Transition {
        Transition { rest: RunHalt::Ended(status), ..self.says("the end") }
    }

    pub(crate) fn suspends(&self, wake_ms: u64) -> Transition {
        Transition { rest: RunHalt::Suspended { wake_at: at(wake_ms) }, ..self.says("waiting") }
    }

    /// Takes note of a transition that was written.
    pub(crate) fn written(&mut self, transition: &Transition) {
        (self.step, self.head, self.seq) = (transition.step, transition.checkpoint.head, transition.last_seq);
    }

    /// Commits, and takes note of it if it was written.
    pub(crate) async fn commit(&mut self, store: &Store, transition: Transition) -> Result<(), StoreError> {
        store.commit(&tenant(), &transition.clone()).await?;
        self.written(&transition);
        Ok(())
    }
}

/// The checkpoint of a step.
pub(crate) fn checkpoint(step: u32, head: i64, events: Vec<Event>) -> Checkpoint {
    Checkpoint {
        v: CHECKPOINT_VERSION,
        head,
        budget: Budget { model_calls: step, ..Budget::default() },
        at: at(20 + u64::from(step)),
        node: Node::Reasoning,
        next_action: None,
        state: FlowRecord::new("turn", 1, &json!({"step": step})),
        in_flight: Vec::new(),
        inbox_read: 0,
        tail: Tail::default(),
        waiting: Vec::new(),
        account: Vec::new(),
        events,
    }
}
