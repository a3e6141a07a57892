//! The rows that a store reads, and the filters and pages of its questions.

use baton_core::budget::Budget;
use baton_core::id::{BranchName, EntryId, FramePath, OwnerId, RunId, Tenant, ThreadId};
use baton_core::run::{Definition, Message, RUN_VERSION, RunStatus};
use baton_core::thread::{Place, Tail};
use baton_core::time::Timestamp;
use serde_json::Value;

use crate::transition::Checkpoint;

/// A thread.
#[derive(Debug, Clone, PartialEq)]
pub struct ThreadView {
    /// Its id.
    pub id: ThreadId,
    /// The current branch.
    pub current: BranchName,
    /// When it began.
    pub created: Timestamp,
    /// When it may be removed automatically.
    pub ttl_at: Option<Timestamp>,
    /// Metadata of the caller.
    pub meta: Value,
    /// Its branches, by name.
    pub branches: Vec<BranchView>,
}

/// A branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchView {
    /// Its name.
    pub name: BranchName,
    /// The place of its last entry.
    pub head: Place,
    /// Where it was forked from.
    pub forked_from: Option<(BranchName, i64)>,
    /// The run that is active on it.
    pub run: Option<RunId>,
}

/// The end of a branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchEnd {
    /// The name of the branch.
    pub branch: BranchName,
    /// The index of its last entry, −1 if it has none.
    pub head: i64,
    /// The state that its next entry depends on.
    pub tail: Tail,
    /// The index of the first entry on it that holds untrusted content ([`Entry::is_untrusted`]); `None` if there is
    /// none up to its end.
    ///
    /// [`Entry::is_untrusted`]: baton_core::thread::Entry::is_untrusted
    pub untrusted: Option<i64>,
    /// The index of the first entry on it that holds private data ([`Entry::is_private`]); `None` if there is none.
    ///
    /// [`Entry::is_private`]: baton_core::thread::Entry::is_private
    pub private: Option<i64>,
    /// The run that wrote its last entry; `None` if it has no entry, or if no run wrote it.
    pub written_by: Option<RunId>,
    /// The lane that the branch may extend at its tip, where the store knows it: this spares a start one more read.
    pub lane: Option<u32>,
}

impl BranchEnd {
    /// The end of a branch without entries, in the first lane of its thread.
    pub fn without_entries(branch: BranchName) -> BranchEnd {
        let tail = Tail::default();
        BranchEnd { branch, head: -1, tail, untrusted: None, private: None, written_by: None, lane: Some(0) }
    }
}

/// A range of a branch's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Slice {
    /// Only those with an index below this.
    pub before: Option<i64>,
    /// Of those, only this many at the end.
    pub last_n: Option<u32>,
}

/// The result of a rewind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewound {
    /// The branch.
    pub branch: BranchName,
    /// The index of its last entry before.
    pub previous_head: i64,
    /// That entry's id: a fork there brings it back until prune.
    pub previous_entry: Option<EntryId>,
}

/// Where a fork begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ForkAt {
    /// At the end of the branch.
    Head,
    /// At an index of the branch.
    Index(i64),
    /// At an entry, anywhere in the thread.
    Entry(EntryId),
}

/// The limits of a prune.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PruneRequest {
    /// Remove branches that were not written to since then.
    pub idle_before: Option<Timestamp>,
    /// Branches that are never removed.
    pub keep: Vec<BranchName>,
    /// Only report the branches and counts, and remove nothing.
    pub dry_run: bool,
}

/// The result of a prune: all that was removed, or would be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    /// The removed branches.
    pub branches: Vec<BranchName>,
    /// The number of removed lanes.
    pub lanes: u64,
    /// The number of removed entries.
    pub entries: u64,
}

/// A run, as stored in its row.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// Its id.
    pub id: RunId,
    /// Its thread.
    pub thread: ThreadId,
    /// Its branch.
    pub branch: BranchName,
    /// The lane that it writes to.
    pub lane: u32,
    /// The index of its last entry.
    pub head: i64,
    /// Its status.
    pub status: RunStatus,
    /// The owner that holds it.
    pub owner: Option<OwnerId>,
    /// How often it was claimed.
    pub epoch: u32,
    /// Its last transition.
    pub step: u32,
    /// The number of its last event.
    pub seq: u64,
    /// How many messages were posted to it.
    pub inbox: u32,
    /// Claims from owners that died since the last recorded outcome.
    pub attempts: u32,
    /// The hash of its definition.
    pub definition: String,
    /// The oldest version that can drive it.
    pub min_version: u32,
    /// Its usage so far.
    pub budget: Budget,
    /// When it goes on by itself, if it is suspended.
    pub wake_at: Option<Timestamp>,
    /// Until when a process other than its owner watches it.
    pub watched_until: Option<Timestamp>,
    /// When it began.
    pub created: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Metadata of the caller.
    pub metadata: Value,
}

impl RunRow {
    /// A run that is about to begin on a branch that ends at `head`.
    pub fn begun(id: RunId, thread: &ThreadId, branch: &BranchName, head: i64, created: Timestamp) -> Self {
        RunRow {
            id,
            thread: thread.clone(),
            branch: branch.clone(),
            lane: 0,
            head,
            status: RunStatus::Running,
            owner: None,
            epoch: 1,
            step: 0,
            seq: 0,
            inbox: 0,
            attempts: 0,
            definition: String::new(),
            min_version: RUN_VERSION,
            budget: Budget::default(),
            wake_at: None,
            watched_until: None,
            created,
            ended: None,
            metadata: Value::Null,
        }
    }
}

/// A run that this process has just claimed.
#[derive(Debug, Clone)]
pub struct Claimed {
    /// Its row, after the claim.
    pub row: RunRow,
    /// The definition that it is pinned to.
    pub definition: Definition,
    /// The checkpoint of its last transition.
    pub checkpoint: Checkpoint,
}

/// How a run may be claimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimMode {
    /// Only if no living owner holds it.
    IfFree,
    /// Even from a living owner, whose later commits are then fenced.
    Take,
}

/// One transition, as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRow {
    /// Its number.
    pub step: u32,
    /// The claim under which it was written.
    pub epoch: u32,
    /// The frame that changed.
    pub frame: FramePath,
    /// The number of its first event; its last one plus one if it has none.
    pub first_seq: u64,
    /// The number of its last event.
    pub last_seq: u64,
    /// The checkpoint that it stored.
    pub checkpoint: Checkpoint,
}

/// A claim: from `base_seq` on, numbers belong to `epoch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimRow {
    /// Which claim.
    pub epoch: u32,
    /// The last committed event number at the time of the claim.
    pub base_seq: u64,
}

/// A message with its number.
#[derive(Debug, Clone, PartialEq)]
pub struct Posted {
    /// Its number, from 1.
    pub n: u32,
    /// The message.
    pub message: Message,
}

/// A filter of runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunFilter {
    /// Only of this thread.
    pub thread: Option<ThreadId>,
    /// Only with this status.
    pub status: Option<RunStatus>,
    /// Only those whose id begins or ends with this.
    pub fragment: Option<String>,
    /// Only those made before this one.
    pub after: Option<RunId>,
    /// At most this many.
    pub limit: u32,
}

/// The usage of all runs of a thread together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadUsage {
    /// How many runs there are.
    pub runs: u64,
    /// Model calls started.
    pub model_calls: u64,
    /// Tool calls started.
    pub tool_calls: u64,
    /// Tokens read.
    pub prompt_tokens: u64,
    /// Tokens written.
    pub completion_tokens: u64,
    /// Cost so far, of those model calls whose price is known.
    pub cost_micro_usd: u64,
    /// Model calls whose price is not known.
    pub unpriced: u64,
    /// Errors so far.
    pub errors: u64,
}

impl<'a> Extend<&'a Budget> for ThreadUsage {
    fn extend<T: IntoIterator<Item = &'a Budget>>(&mut self, budgets: T) {
        for budget in budgets {
            // The sum saturates, because a provider may report any number as used.
            let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
            add(&mut self.runs, 1);
            add(&mut self.model_calls, budget.model_calls.into());
            add(&mut self.tool_calls, budget.tool_calls.into());
            add(&mut self.prompt_tokens, budget.prompt_tokens);
            add(&mut self.completion_tokens, budget.completion_tokens);
            add(&mut self.cost_micro_usd, budget.cost_micro_usd);
            add(&mut self.unpriced, budget.unpriced.into());
            add(&mut self.errors, budget.errors.into());
        }
    }
}

impl<'a> FromIterator<&'a Budget> for ThreadUsage {
    fn from_iter<T: IntoIterator<Item = &'a Budget>>(budgets: T) -> Self {
        let mut usage = ThreadUsage::default();
        usage.extend(budgets);
        usage
    }
}

/// News of a run for its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// The run.
    pub run: RunId,
    /// How many messages were posted to it.
    pub inbox: u32,
    /// Until when a process other than its owner watches it.
    pub watched_until: Option<Timestamp>,
}

/// A run that is due and has no living owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The tenant that it belongs to.
    pub tenant: Tenant,
    /// The run.
    pub run: RunId,
    /// How many owners died with it since the last recorded outcome, the last one included.
    pub attempts: u32,
    /// How many messages were posted to it.
    pub inbox: u32,
    /// The hash of its definition.
    pub definition: String,
    /// Whether it has not begun: it is the first in line for a branch that is free.
    pub is_queued: bool,
}

/// A cursor into the due runs. The default is the beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DueFrom(pub(crate) Source);

/// The reason for which runs are due, and the cursor among them. The reasons are read one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// Runs that were released; those after this one.
    LetGo(RunId),
    /// Suspended runs that have messages or whose time has come; those after this moment and run.
    Asleep(i64, RunId),
    /// Runs whose owner is dead or silent; those after this one.
    Orphaned(RunId),
    /// Runs that are first in the queue of a free branch; those after this position.
    InLine(i64),
}

impl Default for Source {
    fn default() -> Self {
        Source::LetGo(RunId(uuid::Uuid::nil()))
    }
}

impl Source {
    /// The cursor after a page's last row, if there may be more.
    pub(crate) fn after(self, last: Option<(i64, RunId)>) -> Option<Source> {
        let (at, run) = last?;
        match self {
            Source::LetGo(_) => Some(Source::LetGo(run)),
            Source::Asleep(..) => Some(Source::Asleep(at, run)),
            Source::Orphaned(_) => Some(Source::Orphaned(run)),
            Source::InLine(_) => Some(Source::InLine(at)),
        }
    }

    /// The beginning of the next reason, after all that are due for this one.
    pub(crate) fn next(self) -> Option<Source> {
        match self {
            Source::LetGo(_) => Some(Source::Asleep(i64::MIN, RunId(uuid::Uuid::nil()))),
            Source::Asleep(..) => Some(Source::Orphaned(RunId(uuid::Uuid::nil()))),
            Source::Orphaned(_) => Some(Source::InLine(i64::MIN)),
            Source::InLine(_) => None,
        }
    }
}

/// A page of due runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DuePage {
    /// The runs.
    pub runs: Vec<Due>,
    /// The cursor of the next page; `None` if this was the last one.
    pub rest: Option<DueFrom>,
}
