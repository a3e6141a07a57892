//! Restoring an archived thread: plans the operations that build it, and carries them out.
//!
//! The plan is made from the archive alone. It has only the usual operations (append, fork, rewind, delete a branch),
//! so an imported thread is a thread like any other.

use std::collections::BTreeSet;

use baton_core::id::{BranchName, EntryId, Tenant, ThreadId};
use baton_core::thread::Entry;
use baton_core::time::Timestamp;
use baton_store::{ForkAt, NewThread, Store, StoreError};

use super::archive::{ArchivedBranch, Sound};

/// The temporary branch that appends entries which no branch ends with but a fork needs.
const CRANE: &str = "import";

/// One operation on the thread.
#[derive(Debug, Clone, PartialEq)]
enum Act {
    Push { branch: BranchName, entry: usize },
    Fork { from: BranchName, at: ForkAt, name: BranchName, touched: Timestamp },
    Rewind { branch: BranchName, index: i64 },
    Delete { branch: BranchName },
}

/// The beginning of a branch: the line that it follows, and the index up to which it does.
struct Start<'a> {
    branch: &'a ArchivedBranch,
    /// The entries of the branch.
    line: Vec<usize>,
    /// The line that it was forked from, which may go beyond its present end.
    stem: Vec<usize>,
    /// The index that it was forked at.
    index: i64,
}

/// Restores the thread, whole or not at all.
pub(super) async fn restore(
    store: &Store,
    tenant: &Tenant,
    id: &ThreadId,
    sound: &Sound,
    now: Timestamp,
) -> Result<(), StoreError> {
    keep_blobs(store, tenant, sound, now).await?;
    match store.thread(tenant, id).await {
        Err(StoreError::NotFound { .. }) => {}
        found => return found.and(Err(StoreError::Exists { what: "thread", id: id.to_string() })),
    }
    let archive = &sound.archive;
    // It is built under another id and gets its own when it is whole: a process that dies on the way leaves nothing
    // half-made under the requested id.
    let site = building_site(id);
    match store.delete_thread(tenant, &site, None).await {
        Ok(()) | Err(StoreError::NotFound { .. }) => {}
        Err(error) => return Err(error),
    }
    let new = NewThread {
        id: site.clone(),
        at: archive.created,
        ttl_at: archive.ttl_at,
        meta: archive.meta.clone(),
    };
    store.create_thread(tenant, new).await?;
    let mut made = fill(store, tenant, &site, sound).await;
    if made.is_ok() {
        made = store.rename_thread(tenant, &site, id).await;
    }
    if made.is_ok() {
        // A garbage collection meanwhile may have looked before the entries were written, or between the two ids.
        return keep_blobs(store, tenant, sound, now).await;
    }
    if made.is_err() {
        // If this fails too, the first failure is what matters.
        let _ = store.delete_thread(tenant, &site, None).await;
    }
    made
}

/// Stores the long results with the present time, so that garbage collection leaves them alone. An entry whose result
/// is neither in the archive nor in the store is refused.
async fn keep_blobs(store: &Store, tenant: &Tenant, sound: &Sound, now: Timestamp) -> Result<(), StoreError> {
    for (hash, bytes) in &sound.blobs {
        store.put_blob(tenant, hash, bytes.clone(), now).await?;
    }
    let there: BTreeSet<&String> = sound.blobs.iter().map(|(hash, _)| hash).collect();
    let named = sound.entries.iter().filter_map(|new| match &new.entry {
        Entry::ToolResult(result) => result.blob.as_ref().map(|blob| &blob.hash),
        _ => None,
    });
    for hash in named.filter(|hash| !there.contains(hash)) {
        if store.blob(tenant, hash).await?.is_none() {
            return Err(StoreError::NotFound { what: "blob", id: hash.clone() });
        }
    }
    Ok(())
}

/// The id under which a thread is built: the same each time, so that a dead process's remains are deleted.
fn building_site(id: &ThreadId) -> ThreadId {
    let name = format!("importing:{id}");
    name.parse().unwrap_or_else(|_| id.clone()) // an id that is too long for that is built under its own name
}

async fn fill(store: &Store, tenant: &Tenant, id: &ThreadId, sound: &Sound) -> Result<(), StoreError> {
    for act in plan(sound) {
        match act {
            Act::Push { branch, entry } => {
                store.push(tenant, id, Some(&branch), sound.entries[entry].clone()).await?;
            }
            Act::Fork { from, at, name, touched } => {
                store.fork(tenant, id, Some(&from), &at, name, touched).await?;
            }
            Act::Rewind { branch, index } => {
                store.rewind(tenant, id, Some(&branch), index).await?;
            }
            Act::Delete { branch } => store.delete_branch(tenant, id, &branch).await?,
        }
    }
    if !sound.entries.is_empty() {
        // The archive's marks of trust are not reliable: any program may have written them.
        store.distrust(tenant, id).await?;
    }
    store.checkout(tenant, id, &sound.archive.current).await
}

/// The operations that build the thread. Branches come in the order of the index that they were forked at: the entries
/// of a branch lie beyond that index, so each entry is appended by the branch that it belongs to, and a fork finds its
/// past in place.
fn plan(sound: &Sound) -> Vec<Act> {
    let mut starts: Vec<Start<'_>> = sound.archive.branches.iter().map(|b| Start::of(sound, b)).collect();
    starts.sort_by_key(|start| (start.branch.forked_from.is_some(), start.index));
    let mut plan = RestorePlan { sound, acts: Vec::new(), placed: BTreeSet::new(), made: BTreeSet::new() };
    for start in &starts {
        plan.branch(start);
    }
    plan.acts
}

impl<'a> Start<'a> {
    fn of(sound: &Sound, branch: &'a ArchivedBranch) -> Start<'a> {
        let line = sound.line(branch.head);
        let head = line.len() as i64 - 1;
        let index = branch.forked_from.as_ref().map_or(-1, |origin| origin.index);
        if index <= head {
            return Start { branch, stem: line.clone(), line, index };
        }
        // The branch was rewound below its fork: another branch may still hold the entries that it was forked from.
        let goes_through = |stem: &Vec<usize>| stem.len() as i64 > index && stem.starts_with(&line);
        let stem = sound.archive.branches.iter().map(|other| sound.line(other.head)).find(goes_through);
        match stem {
            Some(stem) => Start { branch, line, stem, index },
            None => Start { branch, stem: line.clone(), line, index: head },
        }
    }
}

struct RestorePlan<'a> {
    sound: &'a Sound,
    acts: Vec<Act>,
    placed: BTreeSet<usize>,
    made: BTreeSet<BranchName>,
}

impl RestorePlan<'_> {
    fn branch(&mut self, start: &Start<'_>) {
        let name = &start.branch.name;
        let mut next = 0;
        if let Some(origin) = &start.branch.forked_from {
            self.crane(&start.stem[..count_to(start.index)]);
            // More than that is in place only in a document that another program wrote: nothing is appended twice.
            let in_place = start.line.iter().take_while(|entry| self.placed.contains(entry)).count();
            next = count_to(start.index).max(in_place);
            self.fork(&origin.branch, &start.stem[..next.min(start.stem.len())], name);
            if start.line.len() < next {
                let index = start.line.len() as i64 - 1;
                self.acts.push(Act::Rewind { branch: name.clone(), index });
            }
        }
        for entry in start.line.iter().skip(next) {
            self.push(name, *entry);
        }
        self.made.insert(name.clone());
    }

    /// Appends the entries of a line that are not in place yet, on a temporary branch.
    fn crane(&mut self, line: &[usize]) {
        let there = line.iter().take_while(|entry| self.placed.contains(entry)).count();
        if there == line.len() {
            return;
        }
        let crane = self.unused(CRANE);
        self.fork(&BranchName::main(), &line[..there], &crane);
        for entry in &line[there..] {
            self.push(&crane, *entry);
        }
        self.acts.push(Act::Delete { branch: crane });
    }

    /// Forks at the end of a line. If the branch that it is forked from does not exist (it was deleted, or comes
    /// later), a temporary branch of that name is made.
    fn fork(&mut self, from: &BranchName, line: &[usize], name: &BranchName) {
        let at = line.last().map_or(ForkAt::Index(-1), |last| ForkAt::Entry(self.entry_id(*last)));
        let touched = line.last().map_or(self.sound.archive.created, |last| self.sound.entries[*last].at);
        let lend = *from != BranchName::main() && !self.made.contains(from) && from != name;
        let from = if from == name { BranchName::main() } else { from.clone() };
        if lend {
            let (main, start) = (BranchName::main(), ForkAt::Index(-1));
            self.acts.push(Act::Fork { from: main, at: start, name: from.clone(), touched });
        }
        self.acts.push(Act::Fork { from: from.clone(), at, name: name.clone(), touched });
        if lend {
            self.acts.push(Act::Delete { branch: from });
        }
    }

    fn push(&mut self, branch: &BranchName, entry: usize) {
        self.placed.insert(entry);
        self.acts.push(Act::Push { branch: branch.clone(), entry });
    }

    fn entry_id(&self, place: usize) -> EntryId {
        self.sound.entries[place].id
    }

    /// A name that no branch of the archive has.
    fn unused(&self, name: &str) -> BranchName {
        let taken = |name: &BranchName| self.sound.archive.branches.iter().any(|b| b.name == *name);
        let names = (0..).map(|n| format!("{name}-{n}")).filter_map(|name| name.parse().ok());
        names.into_iter().find(|name| !taken(name)).unwrap_or_else(BranchName::main)
    }
}

/// The number of entries up to an index.
fn count_to(index: i64) -> usize {
    usize::try_from(index + 1).unwrap_or(0)
}
